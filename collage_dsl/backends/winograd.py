"""Which kernels Winograd convolution can compute, and why not the others."""

from __future__ import annotations

from functools import partial

from collage_dsl.backends.known_convolution import known
from collage_dsl.graph import Form, Graph, Kind, Node, TensorType, members
from collage_dsl.graph.convolutions import refused_by_winograd
from collage_dsl.graph.variants import CONVOLUTION, WINOGRAD, WINOGRAD_SIDES


def unsuitable(graph: Graph, variant: str) -> str | None:
    """Why the variant cannot compute `graph`; None if it can."""
    calls = [graph.nodes[index] for index in members(graph.calls)]
    heavy = [node for node in calls if node.kind >= Kind.REDUCE]
    found = [node for node in heavy if node.op in WINOGRAD]
    if len(found) != 1:
        return f"{variant} computes kernels with one convolution, this one has {len(found)}"
    (convolution,) = found
    other = next((node for node in heavy if node is not convolution), None)
    if other is not None:
        return f"{variant} computes no `{other.op}` in the kernel of a convolution"
    image, weight = (graph.nodes[index] for index in convolution.inputs)
    reason = _operands(convolution, image, weight)
    if reason is None:
        reason = refused_by_winograd(known(convolution, weight), WINOGRAD_SIDES[variant])
    if reason is None and convolution.op != CONVOLUTION:
        reason = _volumes(convolution)
    return None if reason is None else f"{variant} {reason}"


def _operands(convolution: Node, image: Node, weight: Node) -> str | None:
    tensors = (convolution.type, image.type, weight.type)
    if any(not isinstance(each, TensorType) or not each.is_static for each in tensors):
        return "needs the shapes of a convolution, here one is not known"
    dtypes = [each.dtype for each in tensors if isinstance(each, TensorType)]
    wrong = next((each for each in dtypes if each != "float32"), None)
    if wrong is not None:
        return f"computes float32, here is {wrong}"
    if weight.form not in (Form.INPUT, Form.CONSTANT):
        return f"needs weights that are known when a model is loaded, `{weight.name}` is computed"
    return None


def _volumes(convolution: Node) -> str | None:
    strides, groups = convolution.attrs["strides"], convolution.attrs["groups"]
    if groups != 1:
        return f"computes volumes in one group, here are {groups}"
    if not isinstance(strides, tuple) or strides[1:] != (1, 1):
        return f"computes volumes with strides of planes only, here they are {strides}"
    return None


CHECKS = {name: partial(unsuitable, variant=name) for name in WINOGRAD_SIDES}
"""The check of each variant, by its name."""
