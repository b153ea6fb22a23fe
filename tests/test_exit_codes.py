"""Exit codes are alike over the commands: 1 if a given file is wrong, 2 if it cannot be read."""

from pathlib import Path

import pytest

from tests.commands import said

SPEC = """collage 1;
pattern p(x) { y = nn.relu(x); yield y; }
target t on llvm { rules dfpattern(p); }
test "relu" { graph { x: f32[4]; y = nn.relu(x); return y; } expect matches(p) == 1; }
"""
GRAPH = "x: f32[4]; y = nn.relu(x); return y;\n"
COSTS = 't: {ops: {"*": 1.0e-5}}\n'

COMMANDS = {
    "check": ["check", "SPEC"],
    "fmt": ["fmt", "SPEC"],
    "test": ["test", "SPEC"],
    "breaking": ["breaking", "SPEC", "right.collage"],
    "breaking, new": ["breaking", "right.collage", "SPEC"],
    "convert": ["convert", "SPEC", "--to", "json"],
    "convert back": ["convert", "JSON", "--to", "collage"],
    "embed": ["embed", "SPEC"],
    "extract": ["extract", "JSON"],
    "candidates": ["candidates", "ONNX", "-t", "right.collage"],
    "candidates, spec": ["candidates", "right.graph", "-t", "SPEC"],
    "show": ["show", "GRAPH"],
    "show, onnx": ["show", "ONNX"],
    "coverage": ["coverage", "GRAPH", "-t", "right.collage"],
    "why": ["why", "SPEC", "right.graph", "--at", "y"],
    "why, model": ["why", "right.collage", "GRAPH", "--at", "y"],
    "near": ["near", "SPEC", "right.graph"],
    "near, model": ["near", "right.collage", "GRAPH"],
    "plan": ["plan", "ONNX", "-t", "right.collage", "--costs", "right.yaml"],
    "plan, costs": ["plan", "right.onnx", "-t", "right.collage", "--costs", "TABLE"],
    "compile": ["compile", "ONNX", "-t", "right.collage", "-o", "out", "--costs", "right.yaml"],
    "compile, lock": [
        "compile",
        "right.onnx",
        "-t",
        "right.collage",
        "-o",
        "o",
        "--frozen",
        "JSON",
    ],
    "replay": ["replay", "JSON", "right.onnx", "-t", "right.collage"],
    "run": ["run", "FOLDER"],
    "report": ["report", "FOLDER"],
    "costs import": ["costs", "import", "JSON", "--store", "costs.sqlite"],
    "costs merge": ["costs", "merge", "SQLITE", "--store", "costs.sqlite"],
    "plan, store": ["plan", "right.onnx", "-t", "right.collage", "--costs", "SQLITE"],
    "records merge, store": ["records", "merge", "SQLITE", "--records", "records.sqlite"],
    "records merge": ["records", "merge", "JSON", "--records", "records.sqlite"],
}
WRONG = {
    "SPEC": ("wrong.collage", SPEC.replace("nn.relu(x); yield", "nn.relu(x; yield")),
    "GRAPH": ("wrong.graph", "x: f32[4]; y = nn.relu(x;\n"),
    "ONNX": ("wrong.onnx", "no model"),
    "JSON": ("wrong.json", "{"),
    "TABLE": ("wrong.yaml", "t: {ops: {a: cheap}}\n"),
    "SQLITE": ("wrong.sqlite", "SQLite format 3\0 and no more"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("right.collage").write_text(SPEC)
    Path("right.graph").write_text(GRAPH)
    Path("right.yaml").write_text(COSTS)
    for name, text in WRONG.values():
        Path(name).write_text(text)
    Path("damaged").mkdir()
    for name in ("model.so", "report.json", "signature.json"):
        Path("damaged", name).write_text("{}")


@pytest.fixture
def _model(_folder: None) -> None:
    import onnx

    from tests.models import small_convolution

    onnx.save(small_convolution(), "right.onnx")


def asked(command: str, names: dict[str, str]) -> int:
    done = said(*(names.get(each, each) for each in COMMANDS[command]))
    assert "internal error" not in done.err
    return done.code


@pytest.mark.engine
@pytest.mark.usefixtures("_model")
@pytest.mark.parametrize("command", COMMANDS)
def test_what_can_be_read_but_is_wrong(command: str) -> None:
    names = {each: name for each, (name, _) in WRONG.items()}

    assert asked(command, {**names, "FOLDER": "damaged"}) == 1


@pytest.mark.engine
@pytest.mark.usefixtures("_model")
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_not_there(command: str) -> None:
    names = {each: f"none{Path(name).suffix}" for each, (name, _) in WRONG.items()}

    assert asked(command, {**names, "FOLDER": "none"}) == 2


@pytest.mark.engine
@pytest.mark.parametrize("command", COMMANDS)
def test_an_option_that_does_not_exist(command: str) -> None:
    assert said(*COMMANDS[command], "--no-such-option").code == 2
