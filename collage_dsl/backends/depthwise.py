"""Which kernels the variant `depthwise` can compute, and why not the others."""

from __future__ import annotations

from itertools import pairwise

from collage_dsl.graph import Graph, Kind, Node, TensorType, members
from collage_dsl.graph.variants import CONVOLUTION

STRIDES = ((1, 1), (2, 2))
LEAST_LANES = 4
"""The channels of the depthwise convolution are whole vectors, of at least so many."""


def unsuitable(graph: Graph) -> str | None:
    """Why `depthwise` cannot compute `graph`; None if it can."""
    calls = [graph.nodes[index] for index in members(graph.calls)]
    heavy = [node for node in calls if node.kind >= Kind.REDUCE]
    if any(node.op != CONVOLUTION for node in heavy) or not 2 <= len(heavy) <= 3:
        return "depthwise computes two or three convolutions, and no other sums"
    refused = next((reason for node in heavy if (reason := _refused(graph, node))), None)
    if refused is not None:
        return f"depthwise {refused}"
    kinds = [_is_depthwise(node) for node in heavy]
    if sum(kinds) != 1 or any(one == other for one, other in pairwise(kinds)):
        return "depthwise computes one depthwise convolution and the pointwise ones next to it"
    channels = heavy[kinds.index(True)].tensor.static_shape[1]
    if channels % LEAST_LANES:
        return f"depthwise needs channels in whole vectors, here are {channels}"
    return None


def _is_depthwise(convolution: Node) -> bool:
    return bool(convolution.attrs["groups"] != 1)


def _refused(graph: Graph, convolution: Node) -> str | None:
    image, weight = (graph.nodes[index] for index in convolution.inputs)
    for tensor in (convolution.type, image.type, weight.type):
        if not isinstance(tensor, TensorType) or not tensor.is_static:
            return "needs known shapes"
        if tensor.dtype != "float32":
            return f"computes float32, here is {tensor.dtype}"
    attrs = convolution.attrs
    layouts = [attrs[name] for name in ("data_layout", "kernel_layout", "out_layout")]
    if layouts != ["NCHW", "OIHW", "NCHW"]:
        return f"computes the layouts NCHW and OIHW, here are {layouts[0]} and {layouts[1]}"
    if min(convolution.tensor.static_shape[2:]) < 2:
        return "computes images of at least two rows and columns"
    return _refused_window(convolution, image, weight)


def _refused_window(convolution: Node, image: Node, weight: Node) -> str | None:
    attrs, shape = convolution.attrs, weight.tensor.static_shape
    if attrs["groups"] == 1:
        window = (shape[2:], attrs["strides"], attrs["padding"])
        plain = window == ((1, 1), (1, 1), (0, 0, 0, 0))
        return None if plain else "computes convolutions of one tap beside the depthwise one"
    if not shape[0] == attrs["groups"] == image.tensor.static_shape[1]:
        return f"computes no convolution of {attrs['groups']} groups and {shape[0]} channels"
    if attrs["dilation"] != (1, 1) or attrs["strides"] not in STRIDES:
        return "computes windows with a stride of 1 or 2 both ways, and without dilation"
    return None
