"""`collage test`: exit codes, and what is shown."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest

from collage_dsl.cli import test as command
from collage_dsl.cli.files import Given
from collage_dsl.cli.formats import FORMATS
from tests.test_check_formats import assert_junit, assert_sarif


def run_files(paths: Sequence[Path], output_format: str, search: Sequence[Path]) -> int:
    return command.test_files(Given(paths), output_format, search, allow_extern=False)


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
    path = write(tmp_path, SPEC.replace("== 1", "== 0"))

    assert run_files([path], "full", []) == 1
    shown = capsys.readouterr().out
    assert shown.startswith(f"{path}:5:10: error[E0710]: found 1 match\n")
    assert shown.endswith("0 tests passed, 1 failed\n")


def test_the_answer_is_data_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, SPEC.replace("== 1", "== 0"))

    assert run_files([path], "json", []) == 1
    (row,) = json.loads(capsys.readouterr().out)["tests"]
    assert (row["name"], row["passed"], row["line"]) == ("relu is matched", False, 3)
    assert [failure["code"] for failure in row["failures"]] == ["E0710"]


def test_what_is_wrong_with_a_spec_is_data_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, SPEC.replace("nn.relu(x);", "nn.relo(x);", 1))

    assert run_files([path], "json", []) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["tests"] == []
    assert [(each["file"], each["code"]) for each in answer["diagnostics"]] == [
        (str(path), "E0201")
    ]


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
    assert capsys.readouterr().out == "1 test passed, 1 file could not be tested\n"


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


WRONG = SPEC.replace("nn.relu(x);", "nn.relo(x);", 1)
FAILING = SPEC.replace("== 1", "== 0").replace("relu is matched", "relu, <once>")
UNUSABLE = SPEC.replace("graph { x: f32[4]; y = nn.relu(x); return y; }", 'model "none.onnx";')


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose test passes, one whose test fails, one that cannot be tested, and so on."""
    texts = {"a": SPEC, "b": FAILING, "c": WRONG, "d": UNUSABLE, "e": "collage 1;\n"}
    for name, text in texts.items():
        (tmp_path / f"{name}.collage").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("format_", FORMATS)
def test_the_exit_code_is_the_same_in_every_format(folder: Path, format_: str) -> None:
    assert run_files([Path("a.collage"), Path("e.collage")], format_, []) == 0
    assert run_files([Path("a.collage"), Path("b.collage")], format_, []) == 1
    assert run_files([Path("c.collage")], format_, []) == 1
    assert run_files([Path("b.collage"), Path("none.collage")], format_, []) == 2


@pytest.mark.parametrize("format_", ["concise", "github", "gitlab", "sarif"])
def test_each_failing_test_is_shown_at_its_line(
    folder: Path, format_: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run_files([folder], format_, [])

    shown = capsys.readouterr()
    assert shown.err == ""
    match format_:
        case "concise":
            places = [line.split(": ")[0] for line in shown.out.splitlines()]
            wanted = ["c.collage:2:20", "b.collage:5:10", "d.collage:3:6"]
            assert places == [f"{folder}/{each}" for each in wanted]
        case "github":
            lines = shown.out.splitlines()
            assert lines[1] == (
                "::error file=b.collage,line=5,col=10,endLine=5,endColumn=25,title=collage E0710"
                "::test `relu, <once>`: found 1 match"
            )
            assert len(lines) == 3
        case "gitlab":
            issues = json.loads(shown.out)
            places = [issue["location"]["positions"]["begin"]["line"] for issue in issues]
            assert places == [2, 5, 3]
        case _:
            (result, *others) = assert_sarif(shown.out)["results"]
            assert (result["ruleId"], len(others)) == ("E0201", 2)


def test_junit_has_a_case_for_each_test(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_files([folder], "junit", [])

    root = ElementTree.fromstring(capsys.readouterr().out)
    assert_junit(root)
    assert [root.get(each) for each in ("tests", "failures", "errors")] == ["4", "1", "2"]
    cases = {case.get("classname"): case for case in root.iter("testcase")}
    assert list(cases) == ["c.collage", "a.collage", "b.collage", "d.collage"]
    failing = cases["b.collage"]
    assert (failing.get("name"), failing.get("line")) == ("relu, <once>", "3")
    failure = failing.find("failure")
    assert failure is not None
    assert failure.get("message") == "found 1 match"
    assert (failure.text or "").startswith(f"{folder}/b.collage:5:10: error[E0710]")


def test_several_expectations_that_fail_are_one_failure_in_junit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twice = SPEC.replace("== 1;", "== 0;\n  expect matches(p, at: y) == 0;")

    assert run_files([write(tmp_path, twice)], "junit", []) == 1
    root = ElementTree.fromstring(capsys.readouterr().out)
    assert_junit(root)
    (failure,) = root.iter("failure")
    assert (failure.text or "").count("error[E0710]") == 2
