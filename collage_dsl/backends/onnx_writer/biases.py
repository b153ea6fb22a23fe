"""
Find the sums that add a bias to a convolution, which is one operator in ONNX.

In a graph of Relax they add a reshaped vector to what the convolution gives. onnxruntime makes a
convolution of bytes only of one that has its bias as an operand.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from collage_dsl.backends.onnx_writer.neural import SPATIAL
from collage_dsl.graph import Graph, Node, OpSet, TensorType, members, opset

_CONVOLUTIONS = {f"nn.conv{dims}d{suffix}" for dims in SPATIAL for suffix in ("", "_transpose")}


@dataclass(frozen=True, slots=True)
class Biased:
    """A convolution, the vector that is added to its result, and the node that reshapes it."""

    convolution: int
    bias: int
    reshape: int


def biases_in(graph: Graph) -> Mapping[int, Biased]:
    """The convolution and the bias that each such sum adds, by the index of the sum."""
    found: dict[int, Biased] = {}
    for index in members(graph.calls):
        node = graph.nodes[index]
        pairs = (node.inputs, node.inputs[::-1]) if node.op == "add" else ()
        for convolution, reshape in pairs:
            if _is_alone(graph, convolution) and _adds_bias(graph, convolution, reshape):
                found[index] = Biased(convolution, graph.nodes[reshape].inputs[0], reshape)
    return found


def unread_with(graph: Graph, biases: Mapping[int, Biased]) -> OpSet:
    """The nodes that only such sums take, which are written without them."""
    reshapes = [each.reshape for each in biases.values() if _is_alone(graph, each.reshape)]
    return opset([*(each.convolution for each in biases.values()), *reshapes])


def _is_alone(graph: Graph, index: int) -> bool:
    """Whether a single node takes a value, and nothing else."""
    return graph.users_of[index].bit_count() == 1 and not graph.results >> index & 1


def _adds_bias(graph: Graph, convolution: int, reshape: int) -> bool:
    """Whether a node reshapes a vector to what is added to a channel of a convolution of floats."""
    node, vector = graph.nodes[convolution], graph.nodes[reshape]
    if node.op not in _CONVOLUTIONS or vector.op != "reshape" or not _has_channels_first(node):
        return False
    result, shaped, given = (
        _tensor(each) for each in (node, vector, graph.nodes[vector.inputs[0]])
    )
    if "float" not in result.dtype or shaped.dtype != result.dtype or not result.shape:
        return False
    channels, spatial = result.shape[1], (1,) * (len(result.shape) - 2)
    wanted = (channels, *spatial)
    return given.shape == (channels,) and shaped.shape in (wanted, (1, *wanted))


def _tensor(node: Node) -> TensorType:
    return node.type if isinstance(node.type, TensorType) else TensorType("unknown", None)


def _has_channels_first(node: Node) -> bool:
    layouts = (node.attrs.get("data_layout"), node.attrs.get("out_layout"))
    return all(not each or str(each).startswith("NC") for each in layouts)
