"""What a compiled model gives has the names of the model's outputs, whatever computes it."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.reference import reference_session
from collage_dsl.graph import Form, Graph, Node, TensorType
from tests.reference import run_onnx

WEIGHT = np.random.default_rng(1).uniform(-1, 1, (8, 8)).astype(np.float32)

RELU = helper.make_node("Relu", ["x"], ["y"])


def model(nodes: Sequence[onnx.NodeProto], outputs: str, shape: Sequence[int]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()],
        [numpy_helper.from_array(WEIGHT, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled(given: onnx.ModelProto, spec: str) -> collage.Compiled:
    """`given` compiled with every kernel at one price, which measures none."""
    return collage.compile(given, [spec], cost=lambda candidate: 1e-6, race_seconds=0.01)


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([RELU, helper.make_node("Identity", ["y"], ["z"])], "y z"),
        ([RELU, helper.make_node("Identity", ["y"], ["z"])], "z y"),
        ([RELU], "x y"),
        ([helper.make_node("Identity", ["x"], ["y"])], "y"),
        ([helper.make_node("Identity", ["x"], ["z"]), RELU], "z y x"),
        ([RELU, helper.make_node("Identity", ["w"], ["c"])], "y c w"),
        ([helper.make_node("Identity", ["w"], ["c"])], "c"),
        ([RELU], "y y"),
        ([RELU, helper.make_node("Exp", ["y"], ["z"])], "y y z y"),
        ([RELU], "x y x"),
    ],
    ids=[
        *("twice", "turned", "input", "passed on", "three", "constants", "constant"),
        *("one name twice", "one name thrice", "one input twice"),
    ],
)
def test_every_output_has_its_own_name_and_value(
    nodes: Sequence[onnx.NodeProto], outputs: str, spec: str
) -> None:
    given = model(nodes, outputs, (4, 8))
    x = np.random.default_rng(2).normal(size=(4, 8)).astype(np.float32)

    actual = compiled(given, spec).run({"x": x})

    expected = run_onnx(given, {"x": x})
    assert list(actual) == list(dict.fromkeys(outputs.split()))
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-6)


def test_the_names_of_outputs_are_saved(tmp_path: Path) -> None:
    given = model([RELU, helper.make_node("Identity", ["y"], ["z"])], "y z", (4, 8))
    compiled(given, "native").save(tmp_path / "out")

    loaded = collage.load_executable(tmp_path / "out")

    assert [value.name for value in loaded.signature.outputs] == ["y", "z"]
    assert loaded.run({"x": np.ones((4, 8), np.float32)}).keys() == {"y", "z"}


def test_an_output_of_a_long_name_is_saved_and_loaded(tmp_path: Path) -> None:
    name = "y" * (1 << 20)
    compiled(model([helper.make_node("Relu", ["x"], [name])], name, (4, 8)), "native").save(
        tmp_path / "out"
    )

    loaded = collage.load_executable(tmp_path / "out")

    assert loaded.run({"x": np.ones((4, 8), np.float32)}).keys() == {name}


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
def test_a_scalar_goes_in_and_comes_out_as_a_scalar(spec: str) -> None:
    result = compiled(model([RELU], "y", ()), spec).run({"x": np.asarray(2.5, np.float32)})

    assert (result["y"].shape, result["y"].item()) == ((), 2.5)


def test_an_input_in_any_memory_order_is_taken() -> None:
    x = np.random.default_rng(3).normal(size=(8, 4)).astype(np.float32).T

    result = compiled(model([RELU], "y", (4, 8)), "native").run({"x": x})

    np.testing.assert_array_equal(result["y"], np.maximum(x, 0))


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
def test_an_embedding_runs_whatever_end_its_indices_count_from(spec: str) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["i"], to=TensorProto.INT64),
        helper.make_node("Gather", ["w", "i"], ["e"], axis=0),
        helper.make_node("MatMul", ["e", "w"], ["y"]),
    ]
    given = model(nodes, "y", (2, 3))
    x = np.array([[0, 7, -1], [-8, 3, -2]], np.float32)

    actual = compiled(given, spec).run({"x": x})

    np.testing.assert_allclose(actual["y"], run_onnx(given, {"x": x})["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
def test_opaque_operators_run(spec: str) -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], value_ints=[3]),
        helper.make_node("TopK", ["x", "k"], ["y", "i"]),
    ]
    x = np.random.default_rng(4).normal(size=(4, 8)).astype(np.float32)

    actual = compiled(model(nodes, "y", (4, 8)), spec).run({"x": x})

    np.testing.assert_array_equal(actual["y"], -np.sort(-x)[:, :3])


def test_a_graph_has_a_name_for_each_output() -> None:
    node = Node("x", Form.INPUT, TensorType("float32", (2,)))

    assert Graph([node], [0, 0]).output_names == ("x", "x")
    assert Graph([node], [0, 0], output_names=["y", "z"]).output_names == ("y", "z")
    with pytest.raises(ValueError, match="names"):
        Graph([node], [0, 0], output_names=["y"])


# The reference.


def test_names_of_nodes_may_repeat(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], name="same"),
        helper.make_node("Relu", ["p"], ["y"], name="same"),
    ]
    given = model(nodes, "y", (4, 8))
    path = tmp_path / "model.onnx"
    onnx.save(given, path, save_as_external_data=True, location="weights", size_threshold=0)
    x = np.ones((4, 8), np.float32)

    in_memory = onnx.load(path)
    assert [node.name for node in in_memory.graph.node] == ["same", "same"]
    for source in (in_memory, path, str(path)):
        np.testing.assert_allclose(
            run_onnx(source, {"x": x})["y"], np.maximum(x @ WEIGHT, 0), rtol=1e-5
        )
    assert [node.name for node in in_memory.graph.node] == ["same", "same"]


def test_a_model_that_onnxruntime_refuses_is_refused_in_one_sentence(tmp_path: Path) -> None:
    given = model([helper.make_node("Relu", ["x"], ["y"], alpha=1)], "y", (4, 8))
    onnx.save(given, tmp_path / "model.onnx")

    for source in (given, tmp_path / "model.onnx"):
        with pytest.raises(FrontendError, match=r"^onnxruntime refuses the model: ") as caught:
            reference_session(source)
        assert "\n" not in str(caught.value)
        assert "ONNXRuntimeError" not in str(caught.value)
    with pytest.raises(FrontendError, match="Relu of operator set 14 has no attribute `alpha`"):
        from_onnx(given)
