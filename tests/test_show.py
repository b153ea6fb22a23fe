"""`collage show` and `collage coverage`."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import collage_dsl
from collage_dsl.graph import Origin
from collage_dsl.language.write.graph_printer import format_graph
from tests.commands import assert_one_message, said
from tests.models import small_convolution
from tests.test_onnx_nodes import LSTM, MODELS


@pytest.fixture
def tagger(tmp_path: Path) -> Path:
    file = tmp_path / "tagger.onnx"
    onnx.save(LSTM, file)
    return file


def test_the_graph_is_shown_beside_its_onnx_nodes(tagger: Path) -> None:
    shown = said("show", tagger)

    assert shown.code == 0, shown.err
    lines = [line.split("#") for line in shown.out.splitlines()]
    notes = {line[0].split()[0].strip(":"): line[1].strip() for line in lines if len(line) == 2}
    assert notes == {"y": "LSTM", "t": "Transpose", "r": "Reshape", "m": "MatMul", "o": "Relu"}


def test_what_is_around_a_node_is_shown(tagger: Path) -> None:
    def names(*arguments: str) -> list[str]:
        shown = said("show", tagger, "--output-format", "json", *arguments)
        assert shown.code == 0, shown.err
        return [node["name"] for node in json.loads(shown.out)["nodes"]]

    assert names("--at", "m", "--around", "0") == ["D", "m"]
    assert names("--at", "m") == ["r.shape", "r", "D", "m", "o"]
    assert len(names()) == 10


def test_a_node_that_is_not_there_is_one_message(tagger: Path) -> None:
    assert_one_message(said("show", tagger, "--at", "mm"), 2, "has no node `mm`")
    of_native = said("candidates", tagger, "-t", "native", "--at", "")
    assert_one_message(of_native, 2, "has no node ``")


def test_a_node_is_found_by_the_name_of_its_onnx_node(tmp_path: Path) -> None:
    model = small_convolution()
    for place, node in enumerate(model.graph.node):
        node.name = f"node {place}"
    onnx.save(model, tmp_path / "m.onnx")
    shown = said("show", tmp_path / "m.onnx", "--at", "node 0", "--around", "0")

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
    found = collage_dsl.from_onnx(model).onnx

    assert found["y"] == (Origin("Relu", ""),)
    assert found["n"] == (Origin("Conv", ""), Origin("BatchNormalization", ""))


def test_the_whole_text_is_a_graph_again() -> None:
    graph = collage_dsl.from_onnx(small_convolution())
    text = format_graph(graph, notes={node.name: "a note" for node in graph.nodes})

    assert format_graph(collage_dsl.parse_graph(text)) == format_graph(graph)


def test_a_picture_is_drawn(tagger: Path, tmp_path: Path) -> None:
    picture = tmp_path / "graph.svg"

    assert said("show", tagger, "--picture", picture).code == 0
    assert "onnx.LSTM" in picture.read_text("utf-8")


def test_the_operators_that_a_target_cannot_run_are_listed_with_the_reason(
    tagger: Path, tmp_path: Path
) -> None:
    none = ("--store", tmp_path / "costs.sqlite")
    answer = said("coverage", tagger, "-t", "native", "-t", "onnxruntime", *none)

    assert answer.out.splitlines()[1:] == [
        "tvm: 4 of 5 (80 %)",
        "     1 onnx.LSTM, such as `y`: TVM has no operator for `onnx.LSTM` at it",
        "onnxruntime: 5 of 5 (100 %)",
        "together: 5 (100 %)",
        "time: not known: nothing has been measured",
    ]


def test_an_input_without_a_shape_is_named_with_what_gives_it_one(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[N, 16, H, W] x, float[32, 16, 3, 3] w) => (float[N, 32, P, Q] y)
        { y = Conv (x, w) }"""
    )
    model.graph.input[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "free.onnx")
    none = ("--store", tmp_path / "costs.sqlite")
    answer = said("coverage", tmp_path / "free.onnx", "-t", "native", *none)

    assert "`x` is not known before the model runs; if it is an input of the model" in answer.out


def test_a_shape_that_is_found_as_the_model_runs_is_a_reason(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (bool c, float[4] x) => (float[n] y, float[m] z) {
            a = If (c) <then_branch = t () => (float[n] b) { b = Concat <axis = 0> (x, x) },
                        else_branch = e () => (float[m] d) { d = Relu (x) }>
            y = Exp (a)
            i = NonZero (x)
            z = Neg (i)
        }"""
    )
    onnx.save(model, tmp_path / "found.onnx")
    none = ("--store", tmp_path / "costs.sqlite")
    answer = said("coverage", tmp_path / "found.onnx", "-t", "native", *none)

    assert "onnx.Exp` at it: the shape of `a` is found as the model runs" in answer.out
    assert "onnx.Neg` at it: the shape of `i` is found as the model runs" in answer.out


TABLE = """
tvm: {ops: {"*": 1.0e-6}, discount: 1}
onnxruntime: {ops: {onnx.LSTM: 6.0e-6, "*": 2.0e-6}, discount: 1}
"""


def test_the_share_of_time_is_that_of_the_plan_of_known_costs(tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "costs.yaml").write_text(TABLE)
    asked = ("coverage", tagger, "--costs", tmp_path / "costs.yaml", "-t", "native")
    both = said(*asked, "-t", "onnxruntime")
    alone = said(*asked)
    answer = json.loads(said(*asked, "-t", "onnxruntime", "--output-format", "json").out)

    assert "tvm: 4 of 5 (80 %), at least 40 % of the time" in both.out
    assert "onnxruntime: 5 of 5 (100 %), 100 % of the time" in both.out
    assert both.out.splitlines()[-1].startswith("time: 10.0 us in ")
    assert answer["seconds"] == pytest.approx(1e-5)
    assert [each["seconds"] for each in answer["targets"]] == pytest.approx([4e-6, 1e-5])
    assert "% of the time" not in alone.out
    assert alone.out.splitlines()[-1] == (
        "time: not known: no target can run 1 of the operator calls"
    )


def test_a_cost_that_is_not_in_the_table_makes_the_time_unknown(
    tagger: Path, tmp_path: Path
) -> None:
    (tmp_path / "costs.yaml").write_text("onnxruntime: {ops: {matmul: 1.0}}")
    answer = said("coverage", tagger, "--costs", tmp_path / "costs.yaml", "-t", "onnxruntime")

    assert "time: not known: the costs of some kernels are not known" in answer.out


def test_the_share_of_time_is_by_measured_costs_and_nothing_is_measured(
    tagger: Path, tmp_path: Path
) -> None:
    store = ("--store", tmp_path / "costs.sqlite")
    asked = ("coverage", tagger, "-t", "onnxruntime", *store, "--output-format", "json")
    before = json.loads(said(*asked).out)
    assert not (tmp_path / "costs.sqlite").exists()
    plan = said("plan", tagger, "-t", "onnxruntime", *store, "--output-format", "json")
    size = (tmp_path / "costs.sqlite").stat().st_size
    after = json.loads(said(*asked).out)

    assert before["unknown"] == "nothing has been measured"
    assert after["seconds"] == pytest.approx(json.loads(plan.out)["cost"])
    assert after["targets"][0]["seconds"] == after["seconds"]
    assert (tmp_path / "costs.sqlite").stat().st_size == size


def test_coverage_of_rules_alone_is_of_a_target_that_nothing_here_runs() -> None:
    answer = said("coverage", "alexnet", "-t", "cudnn", "--output-format", "json")

    (target,) = json.loads(answer.out)["targets"]
    left = {row["operator"]: row["reason"] for row in target["left"]}
    assert 0 < target["covered"] < target["calls"]
    assert left["reshape"] == "no rule proposes it"


def test_a_single_operator_call_is_counted_as_one(tmp_path: Path) -> None:
    (tmp_path / "model.graph").write_text("graph { x: f32[4]; a = exp(x); return a; }")
    answer = said("coverage", tmp_path / "model.graph", "-t", "native")

    assert answer.out.splitlines()[0].endswith("model.graph: 1 operator call")


def test_calls_that_a_placement_rules_out_are_not_covered(tmp_path: Path) -> None:
    """`collage candidates` does not list them either."""
    (tmp_path / "spec.collage").write_text("""
        collage 1;
        target tvm on llvm { rules op_call_by_kind(); }
        target lib on llvm { compiler "lib"; rules op_call_by_kind(); }
        forbid op(exp) on lib because "slower";
        pin op(tanh) to tvm;
    """)
    (tmp_path / "model.graph").write_text(
        "graph { x: f32[4]; a = exp(x); b = tanh(a); c = nn.relu(b); return c; }"
    )
    given = tmp_path / "model.graph", "-t", tmp_path / "spec.collage", "--output-format", "json"
    targets = json.loads(said("coverage", *given).out)["targets"]
    listed = json.loads(said("candidates", *given).out)["candidates"]

    assert [each["covered"] for each in targets] == [3, 1]
    assert {row["operator"]: row["reason"] for row in targets[1]["left"]} == {
        "exp": "it is forbidden on lib because slower",
        "tanh": "it is pinned to tvm",
    }
    assert [each["nodes"] for each in listed if each["target"] == "lib"] == [["c"]]


# ---- Kept nodes from the commands ----


def test_commands_compile_and_run_what_has_kept_nodes(tmp_path: Path) -> None:
    targets = ("-t", "native", "-t", "onnxruntime", "--store", tmp_path / "costs.sqlite")
    costs = ("--costs", "analytic", "--costs", "measured")
    for name, shape in (("found", ()), ("sequences", ()), ("free", ("--shape", "x=n,5"))):
        made = MODELS.get(name, MODELS["custom"])
        file = tmp_path / f"{name}.onnx"
        onnx.save(made, file)

        done = said("compile", file, *targets, *costs, *shape, "-o", tmp_path / name)
        assert done.code == 0, done.err
        done = said("run", tmp_path / name, "--outputs", tmp_path / f"{name}.npz")
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

    done = said("compile", tmp_path / "m.onnx", "-t", "onnxruntime", *given, "-o", tmp_path / "m")
    assert done.code == 0, done.err
    done = said("run", tmp_path / "m", *given, "--outputs", tmp_path / "y.npz")
    assert done.code == 0, done.err
    assert list(np.load(tmp_path / "y.npz")["y"]) == ["aa", "éé"]
    assert_one_message(said("run", tmp_path / "m"), 2, "no random values for the input `x`")
