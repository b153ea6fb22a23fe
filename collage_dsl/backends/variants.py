"""Which variants of native kernels there are, and which of them can compute a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import takewhile
from math import prod

from collage_dsl.backends import depthwise, products, winograd
from collage_dsl.graph import Form, Graph, Node, TensorType, members, tensors
from collage_dsl.graph.sizes import names_in, with_sizes
from collage_dsl.graph.tuning import TUNED
from collage_dsl.graph.types import Dim
from collage_dsl.graph.variants import CONVOLUTIONS, DIRECT, TRANSPOSED, WEIGHTED

IN_PLACE = "in_place"
"""The variant of a concatenation whose operands are written to its result. It runs nothing."""


def unsuitable(variant: str, graph: Graph, weights: Collection[int]) -> str | None:
    """
    Why `variant` cannot compute `graph`, a kernel by itself; None if it can. `weights` are the
    nodes of `graph` that are constants of the model. A kernel of any batch is that of one image. A
    convolution of floats of any sides is computed where one of some sides is.
    """
    if variant not in OF_ROWS:
        graph = of_one_image(graph)
    if variant in OF_ANY_SIDES and not products.has_byte_products(graph):
        graph = _of_some_sides(graph)
    if variant != DIRECT and any(not _is_static(node) for node in graph.nodes):
        return f"{variant} is for dimensions that are numbers"
    if variant in OF_FLOATS and products.has_byte_products(graph):
        return f"{variant} computes products of floats, here they are of bytes"
    reason = VARIANTS[variant](graph)
    if reason is None and variant in PREPARING and _computed_weight(graph, weights):
        return f"{variant} prepares weights when the model is loaded, and these are computed"
    return reason


def unpromising(
    variant: str, graph: Graph, *, few_registers: bool = False, sums_bytes: bool = True
) -> str | None:
    """
    Why `variant` is not worth measuring for `graph`, which it can compute; None if it is. The
    limits are those of `benchmarks/native_kernels.py`, with a wide margin.

    On processors with `few_registers`, `gemm` is faster than `direct` for images of any size, and
    than `depthwise` for some. On those that multiply bytes and add the products in one instruction,
    which is `sums_bytes`, nothing is faster than that for products of bytes.

    For images of any sides no other variant has its weights in another form.
    """
    graph = of_one_image(graph)
    if products.has_byte_products(graph):
        if variant == "gemm":
            return None
        if variant in winograd.CHECKS and sums_bytes:
            return f"{variant} computes with floats, gemm is faster for products of bytes"
    if variant == "gemm" and _has_any_sides(graph):
        return None
    transposed = [node for node in graph.nodes if node.op == TRANSPOSED]
    if transposed:
        return _unpromising_transposed(variant, transposed)
    if variant == "gemm" and winograd.CHECKS["winograd4"](graph) is None:
        return "gemm multiplies more often than Winograd's algorithm, which is faster"
    if variant == "gemm" and few_registers:
        return None
    if variant == "gemm" and depthwise.unsuitable(graph) is None:
        return "gemm is for products alone, depthwise is faster for these convolutions"
    pixels = max((_pixels(node) for node in graph.nodes if node.op in CONVOLUTIONS), default=0)
    most = MOST_PIXELS.get(variant)
    if most is None or pixels <= most or (variant == "winograd2" and _is_coarse(graph)):
        return None
    return f"{variant} is for images of at most {most} pixels, another is faster for {pixels}"


def _unpromising_transposed(variant: str, transposed: Collection[Node]) -> str | None:
    least = LEAST_OF_PHASE.get(variant)
    if least is None:
        return None
    pixels = max(map(_of_phase, transposed))
    if pixels >= least:
        return None
    return f"{variant} is for phases of at least {least} pixels, gemm is faster for {pixels}"


def _of_phase(transposed: Node) -> int:
    """The pixels of the result in one phase: those computed from the same taps of the kernel."""
    strides = transposed.attrs["strides"]
    assert isinstance(strides, tuple)
    return prod(transposed.tensor.static_shape[2:]) // prod(int(str(each)) for each in strides)


def of_one_image(graph: Graph) -> Graph:
    """
    `graph` for one image, or one token, where its tensors of unknown size begin with a batch, or
    with a batch and a number of tokens.
    """
    types = [type_ for node in graph.nodes for type_ in tensors(node.type)]
    shapes = [type_.shape or () for type_ in types if not type_.is_static]
    leading = {tuple(filter(_is_name, takewhile(_leads, shape))) for shape in shapes}
    if len(leading) != 1:
        return graph
    (names,) = leading
    return with_sizes(graph, {str(name): 1 for name in names})


SIDE = 4096
"""What each unknown side of an image is taken for, where a variant computes images of any sides."""


def _of_some_sides(graph: Graph) -> Graph:
    """`graph` with a number for each side that is not known, and for the batch beside it."""
    sides = _names_of_sides(graph)
    batches = (shape[0] for shape in _images(graph))
    names = sides.union(*map(names_in, batches)) if sides else sides
    return with_sizes(graph, dict.fromkeys(names, SIDE))


def _has_any_sides(graph: Graph) -> bool:
    return bool(_names_of_sides(graph))


def _names_of_sides(graph: Graph) -> frozenset[str]:
    """The names in the sides of the images that convolutions of `graph` give."""
    return frozenset().union(*(names_in(side) for shape in _images(graph) for side in shape[2:]))


def _images(graph: Graph) -> list[tuple[Dim, ...]]:
    """The shapes of the images in NC… that convolutions of `graph` give, where they are known."""
    return [
        node.type.shape
        for node in graph.nodes
        if node.op in (*CONVOLUTIONS, TRANSPOSED)
        and isinstance(node.type, TensorType)
        and node.type.shape
        and str(node.attrs["data_layout"]).startswith("NC")
    ]


def _leads(size: object) -> bool:
    return size == 1 or _is_name(size)


def _is_name(size: object) -> bool:
    return isinstance(size, str) and size.isidentifier()


def _is_static(node: Node) -> bool:
    return all(type_.is_static for type_ in tensors(node.type))


def _is_coarse(graph: Graph) -> bool:
    """Whether a convolution has strides of four and more."""
    found = (node.attrs["strides"] for node in graph.nodes if node.op in CONVOLUTIONS)
    return any(isinstance(each, tuple) and not {1, 2, 3}.issuperset(each) for each in found)


def _pixels(convolution: Node) -> int:
    """The pixels of an image of the result of a convolution in the layout NC…; 0 in another."""
    type_, layout = convolution.type, str(convolution.attrs["data_layout"])
    if not isinstance(type_, TensorType) or not type_.is_static or not layout.startswith("NC"):
        return 0
    return prod(type_.static_shape[2:][-2:])


def _computed_weight(graph: Graph, weights: Collection[int]) -> bool:
    """Whether the second operand of a product is computed from something but constants."""
    products = (node for node in graph.nodes if node.op in WEIGHTED)
    return any(not _is_constant(graph, node.inputs[1], weights) for node in products)


def _is_constant(graph: Graph, index: int, weights: Collection[int]) -> bool:
    node = graph.nodes[index]
    if index in weights or node.form in (Form.CONSTANT, Form.LITERAL):
        return True
    return bool(node.inputs) and all(_is_constant(graph, i, weights) for i in node.inputs)


def _concatenation(graph: Graph) -> str | None:
    """Whether a kernel is a concatenation of tensors that lie in memory one after the other."""
    calls = [graph.nodes[index] for index in members(graph.calls)]
    if [node.op for node in calls] != ["concat"]:
        return f"{IN_PLACE} is for a concatenation alone"
    type_, axis = calls[0].type, calls[0].attrs.get("axis")
    if not isinstance(type_, TensorType) or not type_.is_static or not isinstance(axis, int):
        return f"{IN_PLACE} needs a known shape"
    operands = graph.nodes[calls[0].inputs[0]].inputs
    if len(set(operands)) < len(operands):
        return f"{IN_PLACE} is for operands that differ, here one comes twice"
    shape = type_.static_shape
    if prod(shape[: axis % max(1, len(shape))]) != 1:
        return (
            f"{IN_PLACE} is for an axis before which all are of length 1, here the axis is {axis}"
        )
    return None


def _anything(graph: Graph) -> str | None:
    return None


MOST_PIXELS: Mapping[str, int] = {"gemm": 400, "winograd2": 144}
"""
The largest images for which a variant is worth measuring: those of 20 by 20, and 12 by 12. With
strides of four and more, `winograd2` is faster than `winograd4` for larger ones too.
"""

LEAST_OF_PHASE: Mapping[str, int] = {"winograd2": 64, "winograd4": 256}
"""
The smallest phases of a transposed convolution for which a variant is worth measuring. Its weights
are four and nine times as large as those of `gemm`, and are read for every image.
"""

VARIANTS: dict[str, Callable[[Graph], str | None]] = {
    DIRECT: _anything,
    IN_PLACE: _concatenation,
    **products.CHECKS,
    "depthwise": depthwise.unsuitable,
    **winograd.CHECKS,
    TUNED: _anything,
}
"""
The variants by name, in the order in which they are measured. Each says, in one sentence, why it
cannot compute a graph, and None if it can.
"""

PREPARING = frozenset({"gemm", "depthwise", *winograd.CHECKS})
"""The variants whose weights are brought into another form when a model is loaded."""

OF_ROWS = frozenset({"gemv", IN_PLACE})
"""The variants that need to know how many rows there are, or where a result lies."""

OF_ANY_SIDES = frozenset({"gemm"})
"""The variants that compute convolutions of images of any sides, if these are floats."""

OF_FLOATS = frozenset({"gemv", "depthwise"})
"""The variants that compute no products of bytes."""
