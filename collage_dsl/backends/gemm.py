"""Which kernels matrix products with packed weights can compute, and why not the others."""

from __future__ import annotations

from collage_dsl.graph import Graph, Node, TensorType, members

CONVOLUTIONS = ("nn.conv1d", "nn.conv2d", "nn.conv3d")


def unsuitable(graph: Graph) -> str | None:
    """Why `gemm` cannot compute `graph`; None if it can compute one of its operators."""
    calls = [graph.nodes[index] for index in members(graph.calls)]
    products = [node for node in calls if node.op == "matmul" or node.op in CONVOLUTIONS]
    if not products:
        return "gemm computes matrix products and convolutions, here is none"
    reasons = [_refused(node, *(graph.nodes[index] for index in node.inputs)) for node in products]
    return None if None in reasons else reasons[0]


def _refused(product: Node, operand: Node, weight: Node) -> str | None:
    for tensor in (product.type, operand.type, weight.type):
        if not isinstance(tensor, TensorType) or not tensor.is_static:
            return "gemm needs known shapes"
        if tensor.dtype != "float32":
            return f"gemm computes float32, here is {tensor.dtype}"
    shape = weight.tensor.static_shape
    if product.op == "matmul":
        return _refused_matrix(shape)
    return _refused_convolution(product, shape)


def _refused_matrix(shape: tuple[int, ...]) -> str | None:
    if len(shape) < 2 or any(extent != 1 for extent in shape[:-2]):
        return f"gemm needs one matrix of weights, here their shape is {shape}"
    return None


def _refused_convolution(convolution: Node, shape: tuple[int, ...]) -> str | None:
    if convolution.attrs["groups"] != 1:
        return (
            f"gemm computes no grouped convolution, here are {convolution.attrs['groups']} groups"
        )
    layout = str(convolution.attrs["kernel_layout"])
    taps = [extent for axis, extent in zip(layout, shape, strict=False) if axis not in "OI"]
    if any(extent != 1 for extent in taps):
        return f"gemm computes convolutions of one tap, the kernel of this one is {taps}"
    return None
