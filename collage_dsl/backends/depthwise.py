"""Which kernels the variant `depthwise` can compute, and why not the others."""

from __future__ import annotations

from itertools import pairwise

from collage_dsl.backends.known_convolution import known
from collage_dsl.graph import Graph, Kind, Node, TensorType, members
from collage_dsl.graph.convolutions import refused_by_depthwise, refused_layouts
from collage_dsl.graph.variants import CONVOLUTION

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
    found = known(convolution, weight)
    if reason := refused_layouts(found):
        return reason
    if min(convolution.tensor.static_shape[2:]) < 2:
        return "computes images of at least two rows and columns"
    groups, channels = found.groups, weight.tensor.static_shape[0]
    if groups != 1 and not channels == groups == image.tensor.static_shape[1]:
        return f"computes no convolution of {groups} groups and {channels} channels"
    return refused_by_depthwise(found)
