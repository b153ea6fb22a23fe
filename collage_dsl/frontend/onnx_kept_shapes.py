"""
The shapes of what kept ONNX nodes give, where dimensions are free and ONNX infers nothing of them.

They are formulas of the dimensions of operands, so the nodes behind are operators as usual.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from math import prod
from typing import Any

from tvm import tirx

from collage_dsl.frontend.onnx_ml_shapes import ML
from collage_dsl.frontend.onnx_site import Site
from collage_dsl.frontend.onnx_sizes import Arithmetic, Size

Shape = Sequence[Size]


def kept_shapes(site: Site) -> list[Shape]:
    """The shapes of the outputs of a node, from the first on; of the others, nothing is known."""
    rule = _RULES.get(site.node.op_type)
    made = rule(site) if rule and site.node.domain in ("", "ai.onnx", ML) else None
    return [[site.scope.arithmetic.simple(size) for size in shape] for shape in made or ()]


def _windows(site: Site) -> list[Shape] | None:
    """A convolution or a pooling."""
    dims, kernel = site.dims(), site.attrs.get("kernel_shape")
    if dims is None or len(dims) < 3:
        return None
    channels = dims[1]
    if site.node.op_type in ("Conv", "ConvInteger"):
        weight = site.dims(1)
        if weight is None:
            return None
        channels, kernel = weight[0], weight[2:]
    axes = len(dims) - 2
    mode = site.attrs.get("auto_pad", b"NOTSET")
    strides = site.attrs.get("strides") or (1,) * axes
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        spatial = [_over(n + by - 1, by) for n, by in zip(dims[2:], strides, strict=True)]
    elif kernel is None or site.attrs.get("ceil_mode"):
        return None
    else:
        pads = site.attrs.get("pads") if mode == b"NOTSET" else None
        pads = pads or (0,) * 2 * axes
        around = [sum(pads[axis::axes]) for axis in range(axes)]
        dilations = site.attrs.get("dilations") or (1,) * axes
        spatial = [
            _over(n + pad - (window - 1) * dilation - 1, stride) + 1
            for n, pad, window, dilation, stride in zip(
                dims[2:], around, kernel, dilations, strides, strict=True
            )
        ]
    shape = [dims[0], channels, *spatial]
    return [shape, shape]


def _resized(site: Site) -> list[Shape] | None:
    dims = site.dims()
    if dims is None or site.attrs.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        return None
    axes = [axis % len(dims) for axis in site.attrs.get("axes") or range(len(dims))]
    made = site.sizes(3)
    if not made:
        scales = site.constant(2 if site.scope.opset >= 11 else 1)
        if scales is None or scales.size != len(axes):
            return None
        factors = [Fraction(scale) for scale in scales.tolist()]
        if any(factor.denominator > _LARGEST_DENOMINATOR for factor in factors):
            return None
        made = [
            _over(dims[axis] * factor.numerator, factor.denominator)
            for axis, factor in zip(axes, factors, strict=True)
        ]
    found = dict(zip(axes, made, strict=True))
    return [[found.get(axis, size) for axis, size in enumerate(dims)]]


_LARGEST_DENOMINATOR = 1 << 6
"""Sizes times a scale like 0.75 are exact in floats; those times 1/3 are rounded."""


def _padded(site: Site) -> list[Shape] | None:
    dims, pads = site.dims(), site.sizes(1)
    chosen = site.sizes(3) if site.has(3) else range(len(dims or ()))
    if dims is None or pads is None or chosen is None or len(pads) != 2 * len(chosen):
        return None
    shape = list(dims)
    for place, axis in enumerate(chosen):
        shape[axis] += pads[place] + pads[place + len(chosen)]
    return [shape]


def _joined(site: Site) -> list[Shape] | None:
    shapes = [site.dims(place) for place in range(len(site.node.input))]
    known = [shape for shape in shapes if shape]
    if len(known) < len(shapes) or len({*map(len, known)}) > 1:
        return None
    axis = site.attrs["axis"] % len(known[0])
    total = sum((shape[axis] for shape in known[1:]), start=known[0][axis])
    return [[*known[0][:axis], total, *known[0][axis + 1 :]]]


def _broadcast(site: Site) -> list[Shape] | None:
    """Two free sizes of an axis are equal as the model runs, or one of them is 1."""
    shapes = [site.dims(place) for place in range(len(site.node.input))]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    filled = [[1] * (rank - len(shape)) + list(shape) for shape in known]
    sizes = [_common(site.scope.arithmetic, each) for each in zip(*filled, strict=True)]
    found = [size for size in sizes if size is not None]
    return [found] if len(found) == len(sizes) else None


def _common(arithmetic: Arithmetic, sizes: Sequence[Size]) -> Size | None:
    """
    The size of an axis along which tensors of these sizes are stretched to the same one. It is the
    largest, or 0 if one is 0, as `total - past` may be.
    """
    for size in sizes:
        if arithmetic.is_never(size, 1):
            return size
    largest = reduce(arithmetic.larger, sizes)
    doubtful = [size for size in sizes if not arithmetic.is_at_least(size, 1)]
    return reduce(operator.mul, (arithmetic.smaller(size, 1) for size in doubtful), largest)


def _transformed(site: Site) -> list[Shape] | None:
    """`STFT`: batch, frames, frequencies, and two numbers for each."""
    signal, step, length = site.dims(), site.sizes(1), site.sizes(3)
    if length is None and site.has(2) and (window := site.dims(2)):
        length = window
    if signal is None or len(signal) not in (2, 3) or not step or not length:
        return None
    first, by = length[0], step[0]
    if not isinstance(first, int) or not isinstance(by, int) or by < 1:
        return None
    is_half = site.attrs.get("onesided", 1)
    frequencies = first // 2 + 1 if is_half else first
    return [[signal[0], _over(signal[1] - first, by) + 1, frequencies, 2]]


def _extracted(site: Site) -> list[Shape] | None:
    """`ArrayFeatureExtractor`: one element of the last axis for each index."""
    dims, indices = site.dims(), site.dims(1)
    if not dims or indices is None:
        return None
    return [[*(dims[:-1] or [1]), prod(indices[1:], start=indices[0]) if indices else 1]]


def _over(size: Any, divisor: int) -> Any:
    """The quotient, rounded down."""
    return size // divisor if isinstance(size, int) else tirx.floordiv(size, divisor)


# fmt: off
_ELEMENTWISE = (
    "Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Equal", "Greater",
    "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Mean", "Min", "Mod", "Mul", "Or", "PRelu",
    "Pow", "Sub", "Sum", "Where", "Xor",
)
# fmt: on

_RULES: Mapping[str, Callable[[Site], list[Shape] | None]] = {
    **dict.fromkeys(("AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool"), _windows),
    **dict.fromkeys(_ELEMENTWISE, _broadcast),
    "ArrayFeatureExtractor": _extracted,
    "Concat": _joined,
    "Pad": _padded,
    "Resize": _resized,
    "STFT": _transformed,
    "Upsample": _resized,
}
