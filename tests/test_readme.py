"""The example of a check in the README: its output is the real one."""

from pathlib import Path

import pytest

from tests.commands import said

README = (Path(__file__).parent.parent / "README.md").read_text("utf-8")

BLOCK = """\
collage 1;

pattern block(x, w) {
  k = nn.conv2D(x, w);
  m = matmul(k);
  yield m;
}

target mine on llvm {
  rules dfpattern(block);
}
"""


def test_the_diagnostics_of_the_readme_are_those_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = "$ collage check block.collage\n"
    shown = README.split(command)[1].split("```")[0]
    monkeypatch.chdir(tmp_path)
    Path("block.collage").write_text(BLOCK)

    done = said("check", "block.collage")

    assert done.code == 1
    assert done.out == shown
