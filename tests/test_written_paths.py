"""A command refuses a path that it cannot write before it does anything else."""

import os
from pathlib import Path

import pytest

from tests.commands import said

COMMANDS = (
    "show none.onnx --picture",
    "plan none.onnx -t native --picture",
    "freeze none.onnx -t native -o",
    "compile none.onnx -t native -o out --refine-state",
    "bench none.onnx -t native --refine-state",
    "run none --outputs",
    "costs export --store none.sqlite",
    "records export --records none.sqlite",
)
"""What is missing is found later than the path, which each command is given last."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_below_a_file_is_refused_first(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()

    done = said(*command.split(), "file/x.npz")

    assert (done.code, done.out) == (2, "")
    assert done.err == "error: cannot write file/x.npz: Not a directory\n"


@pytest.mark.engine
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_can_be_written_is_not_touched_yet(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = said(*command.split(), "x.npz")

    assert done.code == 2
    assert "none" in done.err
    assert os.listdir() == []


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if "--refine" not in each and "--outputs" not in each]
)
def test_a_folder_is_no_file_to_write(command: str, tmp_path: Path) -> None:
    done = said(*command.split(), tmp_path)

    assert done.err == f"error: cannot write {tmp_path}: Is a directory\n"


def test_a_name_of_arrays_gets_its_suffix_before_it_is_checked(tmp_path: Path) -> None:
    (tmp_path / "out.npz").mkdir()

    done = said("run", "none", "--outputs", tmp_path / "out")

    assert done.err == f"error: cannot write {tmp_path / 'out.npz'}: Is a directory\n"
