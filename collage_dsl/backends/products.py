"""Which kernels the variants of matrix products can compute, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from math import prod

from collage_dsl.backends.known_convolution import known
from collage_dsl.graph import Form, Graph, Node, TensorType, members
from collage_dsl.graph.convolutions import refused_transposed
from collage_dsl.graph.variants import CONVOLUTIONS, PRODUCTS, TRANSPOSED, WEIGHTED

FEW_ROWS = 4
"""The most rows of a product that takes the time of reading its weights."""

Check = Callable[[Graph, Node], str | None]
OfConvolution = Callable[[Node, tuple[int, ...]], str | None]


def unsuitable_for_gemm(graph: Graph) -> str | None:
    """Why `gemm` cannot compute `graph`; None if it can compute one of its operators."""
    refused = partial(_refused, of_convolution=_refused_filters)
    return _unsuitable("gemm", graph, refused, WEIGHTED)


def has_byte_products(graph: Graph) -> bool:
    """Whether all products and convolutions of `graph` are of bytes."""
    products = [graph.nodes[index] for index in members(graph.calls)]
    factors = [graph.nodes[i] for node in products if node.op in PRODUCTS for i in node.inputs]
    return bool(factors) and all(_is_byte(graph, factor) for factor in factors)


def unsuitable_for_gemv(graph: Graph) -> str | None:
    """Why `gemv` cannot compute `graph`; None if it can compute one of its operators."""

    def refused(graph: Graph, product: Node) -> str | None:
        reason = _refused(graph, product, of_convolution=_refused_taps)
        rows = _rows(product)
        if reason is None and rows > FEW_ROWS:
            return f"computes products of at most {FEW_ROWS} rows, here are {rows}"
        return reason

    return _unsuitable("gemv", graph, refused)


def _unsuitable(
    variant: str, graph: Graph, refused: Check, ops: Collection[str] = PRODUCTS
) -> str | None:
    calls = [graph.nodes[index] for index in members(graph.calls)]
    products = [node for node in calls if node.op in ops]
    if not products:
        return f"{variant} computes matrix products and convolutions, here is none"
    reasons = [refused(graph, node) for node in products]
    return None if None in reasons else f"{variant} {reasons[0]}"


def _refused(graph: Graph, product: Node, of_convolution: OfConvolution) -> str | None:
    operand, weight = (graph.nodes[index] for index in product.inputs)
    bytes_ = all(_is_byte(graph, node) for node in (operand, weight))
    for tensor in (product.type, operand.type, weight.type):
        if not isinstance(tensor, TensorType) or not tensor.is_static:
            return "needs known shapes"
        if tensor.dtype != "float32" and not (bytes_ and tensor.dtype == "int32"):
            return f"computes float32 and bytes, here is {tensor.dtype}"
    shape = weight.tensor.static_shape
    if product.op == TRANSPOSED:
        return _refused_transposed(product, weight)
    if product.op in CONVOLUTIONS:
        return of_convolution(product, shape)
    if len(shape) < 2 or any(extent != 1 for extent in shape[:-2]):
        return f"needs one matrix of weights, here their shape is {shape}"
    if min(shape[-2:]) < 2:
        return f"needs weights of two rows and columns or more, here their shape is {shape}"
    return None


def _refused_transposed(convolution: Node, weight: Node) -> str | None:
    if weight.form not in (Form.INPUT, Form.CONSTANT):
        return f"computes no transposed convolution whose weight is computed, as `{weight.name}` is"
    found = known(convolution, weight)
    if reason := refused_transposed(found):
        return reason
    if (made := weight.tensor.static_shape[1]) < 2:
        return f"needs two outputs or more of a transposed convolution, here is {made}"
    assert found.strides is not None
    pairs = zip(convolution.tensor.static_shape[2:], found.strides, strict=True)
    if all(extent <= stride for extent, stride in pairs):
        return "computes transposed convolutions only for phases of several pixels"
    return None


def _is_byte(graph: Graph, node: Node) -> bool:
    """
    Whether a node makes numbers of bytes: it dequantizes them, or widens them and subtracts a zero
    point.
    """
    if node.op not in ("astype", "dequantize", "permute_dims", "subtract"):
        return False
    operand = graph.nodes[node.inputs[0]]
    if isinstance(operand.type, TensorType) and operand.type.dtype in ("int8", "uint8"):
        return True
    return _is_byte(graph, operand)


def _refused_taps(convolution: Node, shape: tuple[int, ...]) -> str | None:
    """Why a convolution is no single product."""
    groups = convolution.attrs["groups"]
    if groups != 1:
        return f"computes no grouped convolution, here are {groups} groups"
    taps = _taps(convolution, shape)
    if any(extent != 1 for extent in taps):
        return f"computes convolutions of one tap, the kernel of this one is {taps}"
    made, taken = (shape[str(convolution.attrs["kernel_layout"]).index(axis)] for axis in "OI")
    if min(made, taken) < 2:
        return f"needs two channels or more, here {taken} becomes {made}"
    return None


def _refused_filters(convolution: Node, shape: tuple[int, ...]) -> str | None:
    """Why a convolution is no product of its filters with what they slide over."""
    if _refused_taps(convolution, shape) is None:
        return None
    layout = str(convolution.attrs["data_layout"])
    if not layout.startswith("NC"):
        return f"computes several taps or groups, or one channel, in NC…, here is {layout}"
    groups = int(str(convolution.attrs["groups"]))
    made = shape[str(convolution.attrs["kernel_layout"]).index("O")]
    if made < 2 * groups:
        return f"needs groups of two outputs or more, here are {groups} groups of {made} outputs"
    if prod(convolution.tensor.static_shape[2:]) == 1:
        return "computes several taps or groups, or one channel, only for several pixels"
    return None


def _taps(convolution: Node, shape: tuple[int, ...]) -> list[int]:
    layout = str(convolution.attrs["kernel_layout"])
    return [extent for axis, extent in zip(layout, shape, strict=False) if axis not in "OI"]


def _rows(product: Node) -> int:
    """The number of outputs of a product for each column of its weights."""
    shape = product.tensor.static_shape
    if product.op in CONVOLUTIONS:
        channel = str(product.attrs["out_layout"] or product.attrs["data_layout"]).index("C")
        return prod(extent for axis, extent in enumerate(shape) if axis != channel)
    return prod(shape[:-1])


CHECKS: dict[str, Callable[[Graph], str | None]] = {
    "gemm": unsuitable_for_gemm,
    "gemv": unsuitable_for_gemv,
}
"""The check of each variant, by its name."""
