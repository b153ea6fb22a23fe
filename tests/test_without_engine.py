"""The commands that need no TVM run where it is not installed, nor what is installed with it."""

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

from tests.needs_engine import ENGINE

SPEC = """\
collage 1;

pattern block(x) {
  y = nn.relu(exp(x));
  yield y;
}

target mine on llvm {
  rules dfpattern(block);
}

test "both" {
  graph { x: f32[2, 2]; a = exp(x); y = nn.relu(a); return y; }
  expect matches(block) == 1;
}
"""


COMMANDS = [
    "check mine.collage",
    "fmt --check mine.collage",
    "test mine.collage",
    "breaking mine.collage mine.collage",
    "example mine.collage",
    "explain E0201",
    "ops nn.relu",
    "convert mine.collage --to yaml",
    "candidates model.graph -t mine.collage",
    "show model.graph --picture model.svg",
    "why mine.collage model.graph --at y",
    "near mine.collage model.graph",
]


def test_commands_run_without_the_engine(tmp_path: Path) -> None:
    (tmp_path / "mine.collage").write_text(SPEC)
    (tmp_path / "model.graph").write_text("x: f32[2, 2]; a = exp(x); y = nn.relu(a); return y;")
    program = dedent(f"""\
        import contextlib, io, json, sys
        sys.modules |= dict.fromkeys({sorted(ENGINE)})
        from collage_dsl.cli.main import main
        answers = {{}}
        for command in {COMMANDS}:
            sys.argv = ["collage", *command.split()]
            with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())) as said:
                try:
                    main()
                except SystemExit as end:
                    answers[command] = end.code or 0, said.buffer.getvalue().decode()
        print(json.dumps(answers))
        """)

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    answers = json.loads(done.stdout)
    assert [*answers] == COMMANDS
    for command, (code, said) in answers.items():
        assert code == 0, command
        assert said or command.startswith("fmt"), command
