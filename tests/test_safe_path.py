"""No process imports from the current folder, the model's, the spec's or the store's."""

import os
import subprocess
import sys
from pathlib import Path

import onnx.parser
import pytest

ROOT = Path(__file__).parent.parent
MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[3] x) => (float[3] y) { y = Relu (x) }'
START = f"""
import sys
sys.path.insert(1, {str(ROOT)!r})
from collage_dsl.cli.main import main
main()
"""
"""What the installed command does: its folder is on the path of imports, not the current one."""

OTHERS = ("collage_dsl", "lark", "lsprotocol", "numpy", "onnx", "pygls", "tvm", "yaml")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model, a spec, and a trap for each module that a command could look up."""
    found = tmp_path / "model"
    found.mkdir()
    for name in (*sys.stdlib_module_names, *OTHERS):
        trap = f"open({str(tmp_path / 'trapped')!r}, 'a').write({name!r} + chr(10))\n"
        (found / f"{name}.py").write_text(trap)
    onnx.save(onnx.parser.parse_model(MODEL), found / "model.onnx")
    spec = "collage 1; target mine on llvm { rules op_call_by_kind(); }"
    (found / "mine.collage").write_text(spec)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "collage").write_text(START)
    return found


@pytest.mark.parametrize(
    "command",
    [
        ["check", "mine.collage"],
        ["plan", "model.onnx", "--target", "mine.collage", "--store", "costs.db"],
        ["compile", "model.onnx", "--target", "onnxruntime", "--output", "out"],
    ],
    ids=lambda command: command[0],
)
def test_a_command_runs_no_module_of_the_folder_that_it_runs_in(
    command: list[str], folder: Path
) -> None:
    script = folder.parent / "bin" / "collage"
    # The tests themselves run with PYTHONSAFEPATH.
    usual = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}

    done = subprocess.run(
        [sys.executable, script, *command],
        cwd=folder,
        env=usual,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert not (folder.parent / "trapped").exists(), (folder.parent / "trapped").read_text()
