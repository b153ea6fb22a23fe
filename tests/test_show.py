"""`collage show` and `collage coverage`."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import collage_dsl
from collage_dsl.frontend.onnx_origins import Origin, origins
from collage_dsl.language.graph_printer import format_graph
from tests.commands import assert_one_message, collage
from tests.models import small_convolution
from tests.test_onnx_nodes import LSTM, MODELS


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    file = tmp_path / "tagger.onnx"
    onnx.save(LSTM, file)
    return file


def test_the_graph_is_shown_beside_its_onnx_nodes(tagger: Path) -> None:
    shown = collage("show", tagger)

    assert shown.code == 0, shown.err
    lines = [line.split("#") for line in shown.out.splitlines()]
    notes = {line[0].split()[0].strip(":"): line[1].strip() for line in lines if len(line) == 2}
    assert notes == {"y": "LSTM", "t": "Transpose", "r": "Reshape", "m": "MatMul", "o": "Relu"}


def test_what_is_around_a_node_is_shown(tagger: Path) -> None:
    def names(*arguments: str) -> list[str]:
        shown = collage("show", tagger, "--output-format", "json", *arguments)
        assert shown.code == 0, shown.err
        return [node["name"] for node in json.loads(shown.out)["nodes"]]

    assert names("--at", "m", "--around", "0") == ["D", "m"]
    assert names("--at", "m") == ["r.shape", "r", "D", "m", "o"]
    assert len(names()) == 10


def test_a_node_that_is_not_there_is_one_message(tagger: Path) -> None:
    assert_one_message(collage("show", tagger, "--at", "mm"), 2, "has no node `mm`")


def test_a_node_is_found_by_the_name_of_its_onnx_node(tmp_path: Path) -> None:
    model = small_convolution()
    for place, node in enumerate(model.graph.node):
        node.name = f"node {place}"
    onnx.save(model, tmp_path / "m.onnx")
    shown = collage("show", tmp_path / "m.onnx", "--at", "node 0", "--around", "0")

    assert f"{model.graph.node[0].op_type} node 0" in shown.out


def test_nodes_that_became_one_are_all_named() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 17]>
        g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4},
          float[2] s = {1, 2}, float[2] b = {1, 2}, float[2] m = {1, 2}, float[2] v = {1, 2}> {
          c = Conv (x, w)
          n = BatchNormalization (c, s, b, m, v)
          y = Relu (n)
        }"""
    )
    found = origins(model, collage_dsl.from_onnx(model))

    assert found["y"] == (Origin("Relu", ""),)
    assert found["n"] == (Origin("Conv", ""), Origin("BatchNormalization", ""))


def test_the_whole_text_is_a_graph_again() -> None:
    graph = collage_dsl.from_onnx(small_convolution())
    text = format_graph(graph, notes={node.name: "a note" for node in graph.nodes})

    assert format_graph(collage_dsl.parse_graph(text)) == format_graph(graph)


def test_a_picture_is_drawn(tagger: Path, tmp_path: Path) -> None:
    picture = tmp_path / "graph.svg"

    assert collage("show", tagger, "--picture", picture).code == 0
    assert "onnx.LSTM" in picture.read_text("utf-8")


def test_the_operators_that_a_target_cannot_run_are_listed_with_the_reason(tagger: Path) -> None:
    answer = collage("coverage", tagger, "-t", "native", "-t", "onnxruntime")

    assert answer.out.splitlines()[1:] == [
        "tvm: 4 of 5 (80 %)",
        "     1 onnx.LSTM, such as `y`: TVM has no operator for `onnx.LSTM` at it",
        "onnxruntime: 5 of 5 (100 %)",
        "together: 5 (100 %)",
    ]


def test_coverage_of_rules_alone_is_of_a_target_that_nothing_here_runs() -> None:
    answer = collage("coverage", "alexnet", "-t", "cudnn", "--output-format", "json")

    (target,) = json.loads(answer.out)["targets"]
    left = {row["operator"]: row["reason"] for row in target["left"]}
    assert 0 < target["covered"] < target["calls"]
    assert left["reshape"] == "no rule proposes it"


# ---- Kept nodes from the commands ----


def test_commands_compile_and_run_what_has_kept_nodes(tmp_path: Path) -> None:
    store = ("--store", tmp_path / "costs.sqlite")
    targets = ("-t", "native", "-t", "onnxruntime")
    for name, shape in (("found", ()), ("sequences", ()), ("free", ("--shape", "x=n,5"))):
        made = MODELS.get(name, MODELS["custom"])
        file = tmp_path / f"{name}.onnx"
        onnx.save(made, file)

        done = collage("compile", file, *targets, *store, *shape, "-o", tmp_path / name)
        assert done.code == 0, done.err
        done = collage("run", tmp_path / name, "--outputs", tmp_path / f"{name}.npz")
        assert done.code == 0, done.err
        assert set(np.load(tmp_path / f"{name}.npz")) == {v.name for v in made.graph.output}


def test_texts_are_read_from_a_file_and_written_to_one(tmp_path: Path) -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]> g (string[2] x) => (string[2] y) '
        "{ y = StringConcat (x, x) }"
    )
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.array(["a", "é"]))
    given = ("--inputs", tmp_path / "x.npz")

    done = collage(
        "compile", tmp_path / "m.onnx", "-t", "onnxruntime", *given, "-o", tmp_path / "m"
    )
    assert done.code == 0, done.err
    done = collage("run", tmp_path / "m", *given, "--outputs", tmp_path / "y.npz")
    assert done.code == 0, done.err
    assert list(np.load(tmp_path / "y.npz")["y"]) == ["aa", "éé"]
    assert_one_message(collage("run", tmp_path / "m"), 2, "no random values for the input `x`")
