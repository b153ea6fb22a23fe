"""Running the commands as a user does, and what several tests ask of them."""

import subprocess
import sys
from dataclasses import dataclass

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


def assert_one_message(done: Done, code: int, *said: str) -> None:
    """One clear message on stderr, nothing on stdout."""
    assert done.code == code, done.err
    assert done.out == ""
    assert len(done.err.strip().splitlines()) == 1, done.err
    for each in said:
        assert each in done.err
