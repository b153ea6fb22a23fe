"""Running the commands as a user does, and what several tests ask of them."""

import io
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest

from collage_dsl.cli.main import main

FIVE_MISTAKES = """\
collage 1;

pattern block(x, w: const) {
  k = nn.conv2D(x, w);
  m = matmul(k);
  p = nn.max_pool2d(m) [pool_sizes == [2, 2]];
  y = nn.relu(q);
  yield y;
}

rule library = dfpattern(blok);

target lib on llvm { rules library; }
"""


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


def collage(*arguments: object, timeout: float = 300) -> Done:
    command = [sys.executable, "-m", "collage_dsl.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def said(*arguments: object, encoding: str = "utf-8", given: str = "") -> Done:
    """
    What `collage` says in this process, where it takes less time than in one of its own. It is
    `given` a text on standard input.
    """
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)  # In a test, warnings are errors.
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding) for _ in range(2)]
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode(encoding))))
        patch.setattr(sys, "stdout", streams[0])
        patch.setattr(sys, "stderr", streams[1])
        # At its end, this process would remove the files of what it started after this.
        patch.setattr("collage_dsl.scratch.keep_temporary_files_together", lambda: None)
        patch.setattr(sys, "argv", ["collage", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        texts = []
        for stream in streams:
            stream.flush()
            buffer = stream.buffer
            assert isinstance(buffer, io.BytesIO)
            texts.append(buffer.getvalue().decode(encoding))
    return Done(int(done.value.code or 0), texts[0], texts[1])


def assert_one_message(done: Done, code: int, *said: str) -> None:
    """One clear message on stderr, nothing on stdout."""
    assert done.code == code, done.err
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1, done.err
    for each in said:
        assert each in done.err
