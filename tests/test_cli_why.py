"""`collage why` and `collage near`: the page of the documentation, answers and exit codes."""

import json
import re
from pathlib import Path

import jsonschema
import onnx
import pytest
from click.testing import CliRunner, Result

from collage_dsl.cli.main import app
from collage_dsl.report.why import NearDocument, WhyDocument
from tests.commands import said
from tests.models import small_convolution

DOCS = Path(__file__).parent.parent / "docs"
PAGE = (DOCS / "why.md").read_text("utf-8")


def block(language: str) -> str:
    """The block of the page in that language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has the files of the page, and is where commands run."""
    (tmp_path / "block.collage").write_text(block("collage"))
    (tmp_path / "model.graph").write_text(block("graph"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, standalone_mode=False)


def test_the_commands_of_the_page_answer_what_it_says(folder: Path) -> None:
    shown = ""
    for command in re.findall(r"^\$ collage (.*)$", block("console"), re.MULTILINE):
        shown += f"$ collage {command}\n{run(*command.split()).stdout}"

    assert shown == block("console")


def test_the_program_of_the_page_runs(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(block("python"), {})

    assert capsys.readouterr().out == ("the blocked layout needs channels divisible by 16\ny\n")


@pytest.mark.parametrize(("channels", "code"), [("17", 1), ("16", 0)])
def test_the_exit_code_says_whether_it_matches(folder: Path, channels: str, code: int) -> None:
    (folder / "model.graph").write_text(block("graph").replace("17", channels))
    done = run("why", "block.collage#block", "model.graph", "--at", "y")

    assert done.return_value == code
    assert done.stdout.startswith(f"block {'does not match' if code else 'matches'} at `y`")


@pytest.mark.parametrize("command", ["why", "near"])
def test_the_answer_in_json_keeps_to_its_schema(folder: Path, command: str) -> None:
    at = ("--at", "y") if command == "why" else ()
    done = run(command, "block.collage#block", "model.graph", *at, "--output-format", "json")

    schema = json.loads((DOCS / "schemas" / f"{command}.json").read_text("utf-8"))
    jsonschema.validate(json.loads(done.stdout), schema)
    document = {"why": WhyDocument, "near": NearDocument}[command]
    assert document.model_validate_json(done.stdout).pattern == "block"


def test_near_shows_as_many_as_are_asked_for(folder: Path) -> None:
    done = run(
        *("near", "block.collage#block", "model.graph", "--top", "1", "--output-format", "json")
    )

    answer = json.loads(done.stdout)
    assert [miss["node"]["name"] for miss in answer["misses"]] == ["y"]
    assert (answer["matched"], answer["farther"], answer["apart"]) == ([], 2, 0)


def test_an_onnx_model_and_a_shipped_spec_are_taken(tmp_path: Path) -> None:
    onnx.save(small_convolution(), tmp_path / "small.onnx")
    done = said("why", "onnxruntime#conv_block", tmp_path / "small.onnx", "--at", "relu")
    assert (done.code, done.err) == (0, "")
    assert "conv.conv2d, conv, relu" in done.out

    done = said("near", "onnxruntime#conv_block", "alexnet", "--output-format", "json")
    assert (done.code, done.err) == (0, "")
    assert json.loads(done.out)["matched"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none#block", "model.graph", "--at", "y"], "error: there is no spec file none;"),
        (["#block", "model.graph", "--at", "y"], "error: PATTERN '#block' names no file"),
        (
            ["block.collage", "model.graph", "--at", "y"],
            "error: block.collage has several patterns; write block.collage#NAME with one of a",
        ),
        (
            ["block.collage#blok", "model.graph", "--at", "y"],
            "error: block.collage has no pattern `blok`; did you mean `block`?",
        ),
        (
            ["empty.collage", "model.graph", "--at", "y"],
            "error: empty.collage has no pattern",
        ),
        (
            ["block.collage#block", "model.graph", "--at", "yy"],
            "error: the model has no node `yy`",
        ),
        (["block.collage#block", "none.graph", "--at", "y"], "error: cannot read none.graph"),
        (["block.collage#block", "none", "--at", "y"], "error: there is no model none; the light"),
        (
            ["block.collage#block", "model.graph", "--at", "y", "--shape", "x=1"],
            "error: --shape is for ONNX models",
        ),
        (["block.collage#block", "model.graph"], "Usage:"),
    ],
)
def test_what_cannot_be_asked_is_an_error_of_use(
    folder: Path, arguments: list[str], message: str
) -> None:
    (folder / "empty.collage").write_text("collage 1;\n")
    done = said("why", *arguments)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(message)


def test_what_is_wrong_with_the_spec_or_the_graph_is_shown(folder: Path) -> None:
    (folder / "bad.collage").write_text(block("collage").replace("conv2d", "conv2D"))
    (folder / "bad.graph").write_text(block("graph").replace("conv2d", "conv2D"))

    done = said("why", "bad.collage#block", "model.graph", "--at", "y")
    assert (done.code, "bad.collage:6:7: error[E0201]" in done.err) == (1, True)
    done = said("near", "block.collage#block", "bad.graph")
    assert (done.code, "bad.graph:5:7: error[E0201]" in done.err) == (1, True)


def test_a_condition_that_a_symbol_leaves_unknown_names_the_option_that_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(symbolic_rows(), "model.onnx")
    Path("spec.collage").write_text(
        "collage 1;\npattern p(x) { y = nn.relu(x); where dim(x, 0) % 4 == 0; yield y; }\n"
    )

    why = run("why", "spec.collage", "model.onnx", "--at", "y").stdout
    near = run("near", "spec.collage", "model.onnx").stdout
    plain = run("near", "spec.collage", "model.onnx", "--output-format", "json").stdout
    given = run("why", "spec.collage", "model.onnx", "--at", "y", "--shape", "x=2,8").stdout

    assert "takes them with `--shape x=1,8`" in why
    assert "takes them with `--shape x=1,8`" in near
    assert json.loads(plain)["hint"].endswith("takes them with `--shape x=1,8`")
    assert "--shape" not in given


def symbolic_rows() -> onnx.ModelProto:
    """A relu of rows whose number is a symbol."""
    x, y = (onnx.helper.make_tensor_value_info(name, 1, ["n", 8]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
