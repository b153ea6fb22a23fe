"""The bias of a convolution is its third operand in the models that libraries get."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from collage_dsl import parse_graph
from collage_dsl.backends.onnx_writer import outline, to_onnx
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph.arrays import Array
from tests.reference import run_onnx

FLOAT = TensorProto.FLOAT


def drawn(*shape: int) -> Array:
    return np.random.default_rng(len(shape)).standard_normal(shape, np.float32)


def model(op: str, dims: int, *, also: str = "") -> onnx.ModelProto:
    """A convolution of 4 channels whose bias is an input; `also` is returned too."""
    image, weight = (1, 4, *(7,) * dims), drawn(4, 4, *(3,) * dims)
    nodes = [
        helper.make_node(op, ["x", "w"], ["k"]),
        helper.make_node("Reshape", ["b", "shape"], ["r"]),
        helper.make_node("Add", ["k", "r"], ["y"]),
    ]
    outputs = [name for name in ("y", also) if name]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", FLOAT, image),
            helper.make_tensor_value_info("b", FLOAT, [4]),
        ],
        [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        [
            onnx.numpy_helper.from_array(weight, "w"),
            onnx.numpy_helper.from_array(np.array([1, 4, *(1,) * dims]), "shape"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
def test_a_sum_with_a_bias_is_written_as_the_convolution_with_it(op: str, dims: int) -> None:
    given = model(op, dims)
    inputs = {"x": drawn(1, 4, *(7,) * dims), "b": drawn(4)}

    made, constants = to_onnx(from_onnx(given))

    [node] = [node for node in made.graph.node if node.op_type == op]
    assert len(node.input) == 3
    assert {n.op_type for n in made.graph.node}.isdisjoint({"Add", "Reshape"})
    for name, array in constants.items():
        [tensor] = [each for each in made.graph.initializer if each.name == name]
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, name))
    [found], [right] = run_onnx(made, inputs).values(), run_onnx(given, inputs).values()
    np.testing.assert_allclose(found, right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("also", ["k", "r"])
def test_what_others_take_of_a_bias_is_written_too(also: str) -> None:
    made, _ = to_onnx(from_onnx(model("Conv", 2, also=also)))

    ops = [node.op_type for node in made.graph.node]
    assert ("Add" in ops) == (also == "k")
    assert "Reshape" in ops


def test_integers_are_added_to_a_convolution_of_bytes() -> None:
    graph = parse_graph("""
        graph {
          x: u8[1, 4, 7, 7];
          w = const i8[4, 4, 3, 3];
          b: i32[4];
          wide = astype(x) [dtype = i32];
          weights = astype(w) [dtype = i32];
          k = nn.conv2d(wide, weights);
          r = reshape(b, [1, 4, 1, 1]);
          y = add(k, r);
          return y;
        }
    """)

    made, _ = outline(graph)

    assert [node.op_type for node in made.graph.node] == ["ConvInteger", "Reshape", "Add"]
