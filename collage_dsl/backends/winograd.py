"""Which kernels Winograd convolution can compute, and why not the others."""

from __future__ import annotations

from functools import partial

from collage_dsl.graph import Form, Graph, Kind, Node, TensorType, members
from collage_dsl.graph.variants import CONVOLUTION

LEAST_CHANNELS = 8
"""Of a group. The transforms work on vectors of channels, and the sums have to pay for them."""

FOLDED_SIDES = (3, 4, 5)
"""Those of a kernel, divided by its stride. With two taps, transforms cost what they save."""

SIDES = {"winograd2": (1, 3, 5, 7), "winograd4": (1, 3, 5)}
"""The sides of a kernel, by variant. Longer ones need more points, and are less precise."""


def unsuitable(graph: Graph, variant: str) -> str | None:
    """Why the variant cannot compute `graph`; None if it can."""
    calls = [graph.nodes[index] for index in members(graph.calls)]
    heavy = [node for node in calls if node.kind >= Kind.REDUCE]
    found = [node for node in heavy if node.op == CONVOLUTION]
    if len(found) != 1:
        return f"{variant} computes kernels with one convolution, this one has {len(found)}"
    (convolution,) = found
    other = next((node for node in heavy if node is not convolution), None)
    if other is not None:
        return f"{variant} computes no `{other.op}` in the kernel of a convolution"
    image, weight = (graph.nodes[index] for index in convolution.inputs)
    checks = (
        lambda: _operands(convolution, image, weight),
        lambda: _layouts(convolution),
        lambda: _kernel(convolution, weight, SIDES[variant]),
        lambda: _strides(convolution, weight),
        lambda: _dilation(convolution),
        lambda: _groups(convolution, weight),
    )
    reasons = (check() for check in checks)
    return next((f"{variant} {reason}" for reason in reasons if reason is not None), None)


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


def _layouts(convolution: Node) -> str | None:
    attrs = convolution.attrs
    layouts = [attrs[name] for name in ("data_layout", "kernel_layout", "out_layout")]
    if layouts != ["NCHW", "OIHW", "NCHW"]:
        return f"computes the layouts NCHW and OIHW, here are {layouts[0]} and {layouts[1]}"
    return None


def _kernel(convolution: Node, weight: Node, sides: tuple[int, ...]) -> str | None:
    height, width = weight.tensor.static_shape[2:]
    if convolution.attrs["strides"] != (1, 1):
        return None
    if (height, width) == (1, 1) or height not in sides or width not in sides:
        known = ", ".join(map(str, sides[1:]))
        return (
            f"computes convolutions with a kernel of sides {known}, or 1 and one of these; "
            f"this one is {height}x{width}"
        )
    return None


def _dilation(convolution: Node) -> str | None:
    values = convolution.attrs["dilation"]
    if values != (1, 1):
        return f"computes convolutions with dilation of 1, here they are {values}"
    return None


def _strides(convolution: Node, weight: Node) -> str | None:
    """Why a convolution with strides cannot be folded, or would gain nothing by it."""
    strides = convolution.attrs["strides"]
    if strides == (1, 1):
        return None
    down, across = (int(str(stride)) for stride in strides)  # type: ignore[union-attr]
    height, width = (-(-side // down) for side in weight.tensor.static_shape[2:])
    suits = down == across and convolution.attrs["groups"] == 1
    if not suits or height not in FOLDED_SIDES or width not in FOLDED_SIDES:
        return f"computes convolutions with strides of 1, here they are {strides}"
    return None


def _groups(convolution: Node, weight: Node) -> str | None:
    channels = weight.tensor.static_shape[1]
    if convolution.attrs["groups"] != 1 and channels < LEAST_CHANNELS:
        return f"needs groups of {LEAST_CHANNELS} channels or more, here they have {channels}"
    return None


CHECKS = {name: partial(unsuitable, variant=name) for name in SIDES}
"""The check of each variant, by its name."""
