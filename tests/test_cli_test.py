"""`collage test`: exit codes, and what is shown."""

import json
from functools import partial
from pathlib import Path

import onnx
import pytest

from collage_dsl.cli import test as command

run_files = partial(command.test_files, allow_extern=False)

SPEC = """collage 1;
pattern p(x) { y = nn.relu(x); yield y; }
test "relu is matched" {
  graph { x: f32[4]; y = nn.relu(x); return y; }
  expect matches(p) == 1;
}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "spec.collage"
    path.write_text(text)
    return path


def test_tests_that_pass_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_files([write(tmp_path, SPEC)], "full", []) == 0
    assert capsys.readouterr().out == "1 test passed\n"


def test_a_failure_is_shown_where_it_is_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, SPEC.replace("== 1", "== 2"))

    assert run_files([path], "full", []) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(f"{path}:5:10: error[E0710]: found 1 match\n")
    assert shown.endswith("0 tests passed, 1 failed\n")


def test_the_answer_is_data_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, SPEC.replace("== 1", "== 2"))

    assert run_files([path], "json", []) == 1
    (row,) = json.loads(capsys.readouterr().out)["tests"]
    assert (row["name"], row["passed"], row["line"]) == ("relu is matched", False, 3)
    assert [failure["code"] for failure in row["failures"]] == ["E0710"]


def test_what_is_wrong_with_a_spec_is_shown_instead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        run_files([write(tmp_path, SPEC.replace("nn.relu(x);", "nn.relo(x);", 1))], "full", []) == 1
    )
    assert "error[E0201]" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_files([tmp_path / "none.collage", write(tmp_path, SPEC)], "full", []) == 2
    assert capsys.readouterr().out == "1 test passed\n"


def test_a_folder_stands_for_its_spec_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path, SPEC)
    write(tmp_path / "below", SPEC)

    assert run_files([tmp_path], "full", []) == 0
    assert capsys.readouterr().out == "2 tests passed\n"


def test_imports_are_looked_for_where_the_configuration_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "acts.collage").write_text("collage 1;\nlet act = one_of(nn.relu);\n")
    (tmp_path / "pyproject.toml").write_text('[tool.collage]\npath = ["lib"]\n')
    text = SPEC.replace("nn.relu(x); yield", "act(x); yield")
    write(tmp_path, text.replace("1;\n", '1;\nimport "acts.collage" only (act);\n', 1))

    assert run_files([tmp_path / "spec.collage"], "full", []) == 0


def test_a_test_may_name_a_model_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    x, y = (onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [4]) for n in "xy")
    relu = onnx.helper.make_node("Relu", ["x"], ["y"])
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph([relu], "g", [x], [y])), tmp_path / "m.onnx"
    )
    path = write(
        tmp_path,
        SPEC.replace("graph { x: f32[4]; y = nn.relu(x); return y; }", 'model "m.onnx";').replace(
            "matches(p) == 1", 'matches(p, at: "y") == 1'
        ),
    )

    assert run_files([path], "full", []) == 0
    assert capsys.readouterr().out == "1 test passed\n"
