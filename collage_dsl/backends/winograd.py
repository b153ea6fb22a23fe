"""Which kernels Winograd convolution can compute, and why not the others."""

from __future__ import annotations

from functools import partial

from collage_dsl.backends.known_convolution import known
from collage_dsl.graph import Form, Graph, Kind, Node, TensorType, members
from collage_dsl.graph.convolutions import refused_by_winograd, transposed_refused_by_winograd
from collage_dsl.graph.variants import CONVOLUTION, TRANSPOSED, VOLUMES, WINOGRAD, WINOGRAD_SIDES


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
    reason = _operands(graph, convolution, image, weight)
    if reason is None and convolution.op == TRANSPOSED:
        reason = transposed_refused_by_winograd(known(convolution, weight), WINOGRAD_SIDES[variant])
    elif reason is None:
        reason = refused_by_winograd(known(convolution, weight), WINOGRAD_SIDES[variant])
    if reason is None and convolution.op == CONVOLUTION:
        reason = _phases(convolution)
    if reason is None and convolution.op == VOLUMES:
        reason = _volumes(convolution)
    return None if reason is None else f"{variant} {reason}"


def _operands(graph: Graph, convolution: Node, image: Node, weight: Node) -> str | None:
    tensors = (convolution.type, image.type, weight.type)
    if any(not isinstance(each, TensorType) or not each.is_static for each in tensors):
        return "needs the shapes of a convolution, here one is not known"
    dtypes = [each.dtype for each in tensors if isinstance(each, TensorType)]
    wrong = next((each for each in dtypes if each != "float32"), None)
    if wrong is not None:
        return f"computes float32, here is {wrong}"
    if weight.op == "dequantize":
        return _dequantized(graph, convolution, weight)
    return _computed(weight)


def _computed(weight: Node) -> str | None:
    if weight.form in (Form.INPUT, Form.CONSTANT):
        return None
    return f"needs weights that are known when a model is loaded, `{weight.name}` is computed"


def _dequantized(graph: Graph, convolution: Node, weight: Node) -> str | None:
    """Why filters of bytes are no floats times a scale for each filter, when a model is loaded."""
    whole, scale, zero = (graph.nodes[index] for index in weight.inputs)
    if reason := _computed(whole):
        return reason
    if not isinstance(whole.type, TensorType) or whole.type.dtype not in ("int8", "uint8"):
        return f"dequantizes weights of bytes, here are {whole.type}"
    if zero.form not in (Form.CONSTANT, Form.LITERAL):
        return f"dequantizes weights whose zero points are all 0, or all 128; see `{zero.name}`"
    filters = 1 if convolution.op == TRANSPOSED else 0
    rank, axis = len(weight.tensor.static_shape), int(str(weight.attrs["axis"]))
    if scale.tensor.size != 1 and axis % rank != filters:
        return f"dequantizes weights by filters, `{weight.name}` does so along axis {axis}"
    return None


def _phases(convolution: Node) -> str | None:
    """Why the phases of a dilated convolution, by their many borders, would take long."""
    dilation, sizes = convolution.attrs["dilation"], convolution.tensor.static_shape[2:]
    assert isinstance(dilation, tuple)
    steps = [int(str(step)) for step in dilation]
    if all(step == 1 or size >= 2 * step for step, size in zip(steps, sizes, strict=True)):
        return None
    height, width = sizes
    return (
        "computes dilated convolutions whose result is twice as long as the dilation, here it is "
        f"{height}x{width} with dilation of {tuple(steps)}"
    )


def _volumes(convolution: Node) -> str | None:
    strides, groups = convolution.attrs["strides"], convolution.attrs["groups"]
    if groups != 1:
        return f"computes volumes in one group, here are {groups}"
    if not isinstance(strides, tuple) or strides[1:] != (1, 1):
        return f"computes volumes with strides of planes only, here they are {strides}"
    dilation = convolution.attrs["dilation"]
    if not isinstance(dilation, tuple) or dilation[1:] != (1, 1):
        return f"computes volumes with dilation of planes only, here it is {dilation}"
    return None


CHECKS = {name: partial(unsuitable, variant=name) for name in WINOGRAD_SIDES}
"""The check of each variant, by its name."""
