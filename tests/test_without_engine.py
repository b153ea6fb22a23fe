"""The commands that need no TVM run where it is not installed, nor what is installed with it."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

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


@pytest.mark.parametrize(
    "command",
    [
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
    ],
)
def test_a_command_runs_without_the_engine(command: str, tmp_path: Path) -> None:
    (tmp_path / "mine.collage").write_text(SPEC)
    (tmp_path / "model.graph").write_text("x: f32[2, 2]; a = exp(x); y = nn.relu(a); return y;")
    program = dedent(f"""\
        import sys
        sys.modules |= dict.fromkeys({sorted(ENGINE)})
        sys.argv = ["collage", *{command.split()}]
        from collage_dsl.cli.main import main
        main()
        """)

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout or command.startswith("fmt")
