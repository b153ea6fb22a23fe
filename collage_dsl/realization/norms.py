"""
Normalisations as PrimFuncs, with the mean of squared differences from the mean.

TVM takes the difference of two squares for some of them. Where the mean is large beside the
deviation, that has no digits left, or is below zero.
"""

import math
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx, topi

from collage_dsl.realization.short_floats import usual

Tensor = Any


def rms_norm(builder: Any, call: Any) -> Any:
    """
    TVM's function computes float64 in float32. It fails, or takes wrong elements of the scale,
    unless the norm is over the last axes, in order, and not over all.
    """
    attrs, rank = call.attrs, call.args[0].ty.ndim
    axes = [int(axis) % rank for axis in attrs.axes]
    is_usual = len(axes) < rank and axes == [*range(rank - len(axes), rank)]
    if is_usual and not _is_double(call):
        return usual(builder, call)

    def whole(x: Tensor, scale: Tensor) -> Tensor:
        square = _mean(topi.multiply(x, x), axes)
        normalized = topi.multiply(x, topi.rsqrt(topi.add(square, attrs.epsilon)))
        return topi.multiply(normalized, _beside(scale, x, axes))

    return builder.call_te(whole, *call.args, primfunc_name_hint="rms_norm")


def layer_norm(builder: Any, call: Any) -> Any:
    """
    TVM's function does not take float64. It always scales and shifts, and reads past the end of
    the scale where the axes are in another order.
    """
    attrs, rank = call.attrs, call.args[0].ty.ndim
    axes = [int(axis) % rank for axis in attrs.axes]
    is_usual = attrs.scale and attrs.center and axes == sorted(axes)
    if is_usual and not _is_double(call):
        return usual(builder, call)

    def whole(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return _weighted(_normalized(x, axes, attrs.epsilon), scale, shift, axes, attrs)

    return builder.call_te(whole, *call.args, primfunc_name_hint="layer_norm")


def instance_norm(builder: Any, call: Any) -> Any:
    """Of each channel by itself."""
    attrs, rank = call.attrs, call.args[0].ty.ndim
    channel, axes = int(attrs.channel_axis) % rank, [int(axis) % rank for axis in attrs.axes]

    def whole(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return _weighted(_normalized(x, axes, attrs.epsilon), scale, shift, [channel], attrs)

    return builder.call_te(whole, *call.args, primfunc_name_hint="instance_norm")


def group_norm(builder: Any, call: Any) -> Any:
    """Of the channels of a group together."""
    attrs, rank = call.attrs, call.args[0].ty.ndim
    channel, groups = int(attrs.channel_axis) % rank, int(attrs.num_groups)
    axes = [int(axis) % rank for axis in attrs.axes]

    def whole(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        *before, count = x.shape[: channel + 1]
        after, size = x.shape[channel + 1 :], count // groups

        def in_group(*at: Any) -> Any:
            return x(*at[:channel], at[channel] * size + at[channel + 1], *at[channel + 2 :])

        def in_whole(*at: Any) -> Any:
            group, place = at[channel] // size, at[channel] % size
            return normal(*at[:channel], group, place, *at[channel + 1 :])

        split = te.compute((*before, groups, size, *after), in_group, name="groups")
        over = [channel + 1, *(axis + (axis > channel) for axis in axes if axis != channel)]
        normal = _normalized(split, over, attrs.epsilon)
        result = te.compute(x.shape, in_whole, name="whole")
        return _weighted(result, scale, shift, [channel], attrs)

    return builder.call_te(whole, *call.args, primfunc_name_hint="group_norm")


def _is_double(call: Any) -> bool:
    return str(call.args[0].ty.dtype.dtype) == "float64"


def _mean(x: Tensor, axes: Sequence[int]) -> Tensor:
    count = tirx.Cast(x.dtype, math.prod(x.shape[axis] for axis in axes))
    return topi.divide(topi.sum(x, axes, True), count)


def _normalized(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    centered = topi.subtract(x, _mean(x, axes))
    variance = _mean(topi.multiply(centered, centered), axes)
    return topi.multiply(centered, topi.rsqrt(topi.add(variance, epsilon)))


def _weighted(x: Tensor, scale: Tensor, shift: Tensor, axes: Sequence[int], attrs: Any) -> Tensor:
    """`x` with a scale and a shift, as `attrs` ask for them; they have the axes `axes` of `x`."""
    if attrs.scale:
        x = topi.multiply(x, _beside(scale, x, axes))
    return topi.add(x, _beside(shift, x, axes)) if attrs.center else x


def _beside(weight: Tensor, x: Tensor, axes: Sequence[int]) -> Tensor:
    """`weight`, which has the axes `axes` of `x` in this order, with an axis for each of `x`."""
    order = sorted(range(len(axes)), key=lambda at: axes[at])
    if order != [*range(len(axes))]:
        weight = topi.transpose(weight, order)
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(len(x.shape))]
    return topi.reshape(weight, shape)
