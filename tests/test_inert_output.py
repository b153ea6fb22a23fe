"""What the commands print is inert, whatever files, imports, nodes and strings are called."""

import json
import re
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pydantic_core
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper

import collage_dsl as collage
from collage_dsl.cli.formats import FORMATS
from collage_dsl.graph import Form, Graph, Node
from collage_dsl.language import format_graph, parse_graph
from collage_dsl.language.write.quoting import quoted
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.problems import problems
from tests.cases import slow
from tests.commands import Done, said
from tests.graphs import F32
from tests.hostile_names import LONG, NAMES, NOT_UTF8

COMMAND = re.compile(r"^\s*::|##(vso|teamcity)?\[", re.IGNORECASE | re.MULTILINE)
ANNOTATION = re.compile(r"::(error|warning) file=[^:]*,line=\d+,[^:]*::(?!.*##(vso|teamcity)?\[)")
TABLE = "spec: {launch: 1.0e-6, ops: {'*': 1.0e-5}}\n"


@dataclass(frozen=True, slots=True)
class Place:
    """A folder with a spec and a model in which everything has a hostile name."""

    name: str
    folder: Path
    spec: Path
    wrong: Path
    model: Path
    graph: Path


def assert_inert(text: str) -> None:
    assert all(line.isprintable() for line in text.split("\n")), repr(text)
    assert not COMMAND.search(text), text


def assert_json(text: str) -> Any:
    """Two parsers of JSON read the same, and the second accepts no halves of characters."""
    assert_inert(text)
    found = json.loads(text)
    assert pydantic_core.from_json(text, allow_inf_nan=False) == found
    return found


def answered(*arguments: object, codes: tuple[int, ...] = (0, 1)) -> Done:
    """The answer for people, which is inert."""
    done = said(*arguments)
    assert done.code in codes, done.err
    assert "internal error" not in done.err
    assert "Traceback" not in done.err
    assert_inert(done.out)
    assert_inert(done.err)
    return done


def answered_in_json(*arguments: object, codes: tuple[int, ...] = (0, 1)) -> Any:
    done = answered(*arguments, "--output-format", "json", codes=codes)
    return assert_json(done.out)


def file_name(name: str) -> str:
    return name.replace("/", "_").replace("\0", "_")


def spec_text(name: str) -> str:
    """A spec with `name` wherever the language takes a string."""
    said = quoted(name)
    return f"""collage 1;
pattern p(x, w: const) {{
  y = add(x, w);
  where rank(x) == 7 else {said};
  yield y;
}}
rule r = union(composite({said}, dfpattern(p)), op_call_by_kind());
target spec on llvm {{ compiler "tvm"; rules r; fallback; }}
test {said} {{
  graph {{ x: f32[4]; w = const f32[4]; y = add(x, w); return y; }}
  expect matches(p) == 1;
}}
"""


def wrong_text(name: str) -> str:
    """A spec with mistakes that are shown with `name`: a raw one, and one in an import."""
    raw = name.replace("\n", "").replace('"', "")
    return f"""collage 1; # {raw}
import {quoted(name)} as x;
import "{raw}" as z;
pattern p(x) {{ y = nn.relux(x) [{quoted(name)} == 1]; where dtype(x) == {quoted(name)}; yield y; }}
rule r = composite("{raw}", dfpattern(q)); {raw}
"""


def graph_text(name: str) -> str:
    node = "".join(each for each in name if each.isprintable() and each != "`")
    return f"x: f32[2, `{node}d`]; `{node}` = nn.relu(x); y = add(`{node}`, x); return y;"


def model_of(name: str) -> onnx.ModelProto:
    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4])

    weight = numpy_helper.from_array(np.ones((1, 4), np.float32), f"{name}w")
    nodes = [
        helper.make_node("Add", [f"{name}x", f"{name}w"], [f"{name}a"], name=name),
        helper.make_node("Relu", [f"{name}a"], [name], name=f"{name}2", doc_string=name),
    ]
    graph = helper.make_graph(nodes, name, [value(f"{name}x")], [value(name)], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.producer_name = model.doc_string = name
    helper.set_model_props(model, {name: name})
    return model


def place_of(name: str, folder: Path, file: str) -> Place:
    place = Place(
        name,
        folder,
        folder / f"{file}.collage",
        folder / f"{file} wrong.collage",
        folder / f"{file}.onnx",
        folder / f"{file}.graph",
    )
    place.spec.write_text(spec_text(name), "utf-8")
    place.wrong.write_text(wrong_text(name), "utf-8", newline="")
    place.graph.write_text(graph_text(name), "utf-8")
    onnx.save(model_of(name), place.model)
    return place


def some(first: int) -> pytest.MarkDecorator:
    """One in three names from the `first` one; the others are `slow`."""
    named = {**NAMES, "very long": LONG}
    params = [
        pytest.param(name, id=kind, marks=[pytest.mark.slow] if at % 3 != first else [])
        for at, (kind, name) in enumerate(named.items())
    ]
    return pytest.mark.parametrize("place", params, indirect=True)


EVERY = pytest.mark.parametrize(
    "place", [*NAMES.values(), LONG], ids=[*NAMES, "very long"], indirect=True
)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    return place_of(request.param, Path(), file_name(request.param)[:60])


@EVERY
@pytest.mark.parametrize("command", ["check", slow("test")])
def test_files_in_every_format(place: Place, command: str) -> None:
    for each in (place.spec, place.wrong):
        for format_ in FORMATS:
            done = said(command, "--output-format", format_, "--", each)
            assert done.code == (command == "test" or each == place.wrong), done.err
            assert_inert(done.err)
            match format_:
                case "full" | "concise":
                    assert_inert(done.out)
                case "github":
                    lines = done.out.split("\n")
                    assert lines.pop() == ""
                    assert all(line.isprintable() and ANNOTATION.match(line) for line in lines)
                case "junit":
                    assert_inert(done.out)
                    assert_markup(done.out)
                case _:
                    assert_json(done.out)


@some(0)
def test_commands_for_specs(place: Place) -> None:
    spec = place.spec
    for option in ("--check", "--diff"):
        answered("fmt", option, "--", spec, place.wrong)
        answered("fmt", option, "--", place.folder / "none" / spec, codes=(2,))
    answered("test", "--", spec)
    answered_in_json("test", spec.absolute())
    other = Path(f"other {spec}")
    changed = spec.read_text("utf-8").replace("y = add(x, w)", "y = nn.relu(x)")
    other.write_text(changed.replace("p(x, w: const)", "p(x)").replace("== 7", "== 1"), "utf-8")
    for versions in ((other, spec), (spec, other), (place.wrong, spec)):
        answered("breaking", "--", *versions)
    assert answered_in_json("breaking", other.absolute(), spec.absolute(), codes=(1,))["breaking"]
    answered("explain", f"x{place.name}", codes=(2,))
    answered("ops", f"x{place.name}", codes=(2,))
    answered("fmt", f"--x{place.name}", codes=(2,))
    answered("test", "--path", place.name, "--", place.wrong, codes=(2,))
    answered("check", f"{place.folder.absolute()}/no {spec}", codes=(2,))
    answered("convert", "--to", "json", "--", place.wrong)
    assert_inert(said("--traceback", "convert", "--to", "json", place.model.absolute()).err)
    answered("convert", "--to", "json", place.model.absolute(), codes=(1, 2))


@some(1)
def test_a_spec_in_every_form(place: Place, tmp_path: Path) -> None:
    spec = place.spec.absolute()
    found = collage.load(spec)
    texts = {form: answered("convert", spec, "--to", form, codes=(0,)).out for form in FORMS}
    assert json.loads(texts["json"]) == yaml.safe_load(texts["yaml"])
    assert collage.load(text=texts["collage"]) == found
    assert_json(texts["json"])
    target = tmp_path / "target.json"
    target.write_text(answered("embed", spec, codes=(0,)).out)
    assert_json(target.read_text())
    assert collage.load(text=answered("extract", target, codes=(0,)).out) == found


FORMS = ("json", "yaml", "collage")


@some(2)
def test_commands_for_models(place: Place) -> None:
    spec, model, graph = (each.absolute() for each in (place.spec, place.model, place.graph))
    table, picture = Path("table.yaml").absolute(), Path(f"{place.model}.svg").absolute()
    table.write_text(TABLE)
    nodes = {each.name for each in collage.from_onnx(model).nodes if each.is_call}
    for command in (
        ["candidates", model, "--target", spec],
        ["plan", model, "--target", spec, "--costs", table, "--picture", picture],
        ["show", model],
        ["show", model, "--picture", "show.svg"],
        ["coverage", model, "--target", spec],
        ["near", spec, model],
        ["near", spec, graph],
        *(["why", spec, model, f"--at={node}"] for node in nodes),
        ["why", spec, graph, "--at", "y"],
    ):
        answered(*command)
        shown = json.dumps(answered_in_json(*command), ensure_ascii=False)
        assert json.dumps(place.name[:10], ensure_ascii=False)[1:-1] in shown
    assert_markup(picture.read_text("utf-8"))
    wrong = Path(f"{table}{place.spec}")
    wrong.write_text(json.dumps({place.name: {place.name: 1}}))
    answered("plan", model, "-t", spec, "--costs", wrong)
    for command in (
        ["why", spec, model, f"--at=no {place.name}"],
        ["why", f"{spec}#{place.name}", model, "--at=y"],
        ["candidates", model, "--target", f"{spec}#{place.name}"],
        ["candidates", model, "--target", spec, f"--shape={place.name}=1,x"],
        ["candidates", model, "--target", spec, f"--shape={place.name}=1"],
        ["candidates", spec, "--target", spec],
        ["near", spec, f"no {model}"],
        ["near", spec, place.wrong],
        ["run", model],
        ["plan", model, "-t", spec, "--store", place.graph],
    ):
        answered(*command, codes=(1, 2))


@some(0)
def test_the_configuration_and_the_environment(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", place.name)
    answered("doctor", codes=(0, 2))
    answered_in_json("doctor", codes=(0, 2))
    shown = json.dumps(place.name)
    for key in (f"path = {shown}", f"ignore = [{shown}]", f"fail-level = {shown}", f"{shown} = 1"):
        Path("pyproject.toml").write_text(f"[tool.collage]\n{key}\n")
        answered("check", "--", place.spec, codes=(2,))


def test_a_file_name_that_is_not_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    place = place_of("n", tmp_path, NOT_UTF8)
    for format_ in FORMATS:
        done = said("check", "--output-format", format_, place.wrong)
        assert done.code == 1
        if format_ in ("json", "gitlab", "sarif"):
            assert_json(done.out)
            assert ("%FF" if format_ == "sarif" else r"\\udcff") in done.out
        elif format_ == "junit":
            assert_markup(done.out)
        else:
            assert r"\udcff" in done.out
    for command in (
        ["test", place.spec],
        ["candidates", place.model, "--target", place.spec],
        ["near", place.spec, place.model],
        ["why", place.spec, place.graph, "--at", "y"],
    ):
        answered(*command)
        answered_in_json(*command)
    answered("fmt", "--diff", place.spec)
    answered("fmt", place.spec, codes=(0,))


@pytest.mark.parametrize("name", [NAMES["terminal controls"], slow(NAMES["line breaks"])])
def test_compile_and_run(name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What libraries write themselves is seen here too."""
    place = place_of(name, tmp_path, file_name(name)[:60])
    folder, store = tmp_path / f"out{file_name(name)}", tmp_path / f"store{file_name(name)}"
    outputs = tmp_path / f"{file_name(name)}.npz"

    answered("compile", place.model, "-t", place.spec, "-o", folder, "--store", store, codes=(0,))
    answered("run", folder, "--outputs", outputs, codes=(0,))
    shown = answered_in_json("run", folder, codes=(0,))

    assert name in shown["outputs"]
    answered("run", folder, "--inputs", place.graph, codes=(1,))
    captured = capfd.readouterr()
    assert_inert(captured.out)
    assert_inert(captured.err)


def test_an_editor_shows_names_escaped() -> None:
    for name in NAMES.values():
        document = Document(Path("/nowhere/x.collage"), wrong_text(name))
        for found in problems(document, Files()):
            for text in (found.message, found.help, *(note.message for note in found.notes)):
                assert_inert(f"x {text}")


def test_a_graph_with_any_names_is_written_and_read() -> None:
    for name in NAMES.values():
        nodes = [Node(name, Form.INPUT, F32), Node("y", Form.CALL, F32, (0,), "nn.relu")]

        text = format_graph(Graph(nodes, [1]))

        assert_inert(text)
        assert parse_graph(text).operators(2) == ("nn.relu",)


class Balanced(HTMLParser):
    """Fails where an element is not closed, or may run code."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)


def assert_markup(text: str) -> None:
    ElementTree.fromstring(text)
    parser = Balanced()
    parser.feed(text)
    parser.close()
    assert not parser.open
    assert all(line.isprintable() for line in text.split("\n"))
