"""
Write products and convolutions of bytes without their zero points, which are one operator in ONNX.

In a graph they take what `astype` makes of bytes, less what `astype` makes of a zero point.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from collage_dsl.backends.onnx_writer.call import Call, Write
from collage_dsl.backends.onnx_writer.neural import SPATIAL, movement
from collage_dsl.graph import Dim, Graph, Node, OpSet, TensorType, members
from collage_dsl.graph.arrays import Array

_BYTES = ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class Factor:
    """
    The nodes of bytes and of their zero point, which may be a constant in int32; a `zero` of None
    is zero.
    """

    value: int
    zero: int | None = None


def factors_in(graph: Graph) -> Mapping[int, tuple[Factor, Factor]]:
    """The factors of each product and convolution of bytes in a graph."""
    products = (i for i in members(graph.calls) if graph.nodes[i].op in INTEGER_OPERATORS)
    pairs = {i: _factors(graph, graph.nodes[i]) for i in products}
    return {index: pair for index, pair in pairs.items() if pair is not None}


def _factors(graph: Graph, node: Node) -> tuple[Factor, Factor] | None:
    """The second may have a zero point for each column of a product."""
    one, other = (_factor(graph, place) for place in node.inputs)
    if one is None or other is None or not _is_int32(node):
        return None
    shape = graph.nodes[other.value].tensor.shape or ()
    columns = shape[-1:] if node.op == "matmul" and len(shape) > 1 else ()
    are_known = _has_zero_of(graph, one, ()) and _has_zero_of(graph, other, (), columns)
    return (one, other) if are_known else None


def unread(graph: Graph, factors: Mapping[int, tuple[Factor, Factor]]) -> OpSet:
    """The nodes that only products with these `factors` take, which read the bytes themselves."""
    skipped = 0
    for index in reversed(members(graph.calls)):
        users = graph.users_of[index]
        is_taken = graph.results >> index & 1 or any(
            user not in factors and not skipped >> user & 1 for user in members(users)
        )
        if users and not is_taken and graph.nodes[index].op in ("astype", "subtract"):
            skipped |= 1 << index
    return skipped


def _factor(graph: Graph, index: int) -> Factor | None:
    node = graph.nodes[index]
    if node.op == "subtract" and _is_int32(node):
        value, zero = (_widened(graph, place) for place in node.inputs)
        zero = node.inputs[1] if zero is None else zero
        return None if value is None else Factor(value, zero)
    widened = _widened(graph, index)
    return None if widened is None else Factor(widened)


def _widened(graph: Graph, index: int) -> int | None:
    """The bytes that a node makes int32; None if it does something else."""
    node = graph.nodes[index]
    if node.op != "astype" or not _is_int32(node):
        return None
    (source,) = node.inputs
    return source if _dtype(graph.nodes[source]) in _BYTES else None


def _has_zero_of(graph: Graph, factor: Factor, *shapes: tuple[Dim, ...]) -> bool:
    """Whether the zero point is of the dtype of the bytes, and has one of these shapes."""
    if factor.zero is None:
        return True
    dtype, zero = graph.nodes[factor.value].tensor.dtype, graph.nodes[factor.zero]
    is_byte = zero.tensor.dtype == dtype or zero_as(dtype, zero) is not None
    return is_byte and zero.tensor.shape in shapes


def zero_as(dtype: str, zero: Node) -> Array | None:
    """The value of a constant zero point in int32 as bytes; None if it is none."""
    if not _is_int32(zero) or not isinstance(zero.value, np.ndarray):
        return None
    found = zero.value.astype(dtype)
    return found if (found == zero.value).all() else None


def _is_int32(node: Node) -> bool:
    return _dtype(node) == "int32"


def _dtype(node: Node) -> str:
    return node.type.dtype if isinstance(node.type, TensorType) else ""


def _product(call: Call) -> str:
    return call.emit("MatMulInteger", *call.tensors)


def _convolution(dims: int) -> Write:
    def write(call: Call) -> str:
        for name, usual in (("data_layout", "NC"), ("kernel_layout", "OI")):
            given = call.attr(name) or usual + SPATIAL[dims]
            is_usual = given == usual + SPATIAL[dims]
            call.require(is_usual, f"there is no ConvInteger with the {name} {given}")
        groups = call.attr("groups")
        return call.emit("ConvInteger", *call.tensors, **movement(call), group=groups)

    return write


def _writers() -> Iterator[tuple[str, Write]]:
    yield "matmul", _product
    for dims in SPATIAL:
        yield f"nn.conv{dims}d", _convolution(dims)


INTEGER_OPERATORS: Mapping[str, Write] = dict(_writers())
"""By operator, what writes it with the operands `x, w, x_zero, w_zero`; a zero may be empty."""
