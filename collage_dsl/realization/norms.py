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
    """TVM's function fails where the norm is over all axes, so there is one more axis then."""
    x, weight = call.args
    axes, rank = [int(axis) for axis in call.attrs.axes], x.ty.ndim
    if len(axes) < rank:
        return usual(builder, call)

    def whole(x: Tensor, weight: Tensor) -> Tensor:
        wide = topi.expand_dims(x, 0)
        over = [axis % rank + 1 for axis in axes]
        return topi.squeeze(topi.nn.rms_norm(wide, weight, over, call.attrs.epsilon), 0)

    return builder.call_te(whole, x, weight, primfunc_name_hint="rms_norm")


def layer_norm(builder: Any, call: Any) -> Any:
    """Of float64, which TVM's function does not take."""
    if str(call.args[0].ty.dtype.dtype) != "float64":
        return usual(builder, call)
    attrs, rank = call.attrs, call.args[0].ty.ndim
    axes = [int(axis) % rank for axis in attrs.axes]

    def whole(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        shape = [x.shape[axis] if axis in axes else 1 for axis in range(rank)]
        return _weighted(_normalized(x, axes, attrs.epsilon), scale, shift, shape, attrs)

    return builder.call_te(whole, *call.args, primfunc_name_hint="layer_norm")


def instance_norm(builder: Any, call: Any) -> Any:
    """Of each channel by itself."""
    attrs, rank = call.attrs, call.args[0].ty.ndim
    axes = [int(axis) % rank for axis in attrs.axes]

    def whole(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        shape = _channels(x, int(attrs.channel_axis) % rank)
        return _weighted(_normalized(x, axes, attrs.epsilon), scale, shift, shape, attrs)

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
        return _weighted(result, scale, shift, _channels(x, channel), attrs)

    return builder.call_te(whole, *call.args, primfunc_name_hint="group_norm")


def _normalized(x: Tensor, axes: Sequence[int], epsilon: float) -> Tensor:
    count = tirx.Cast(x.dtype, math.prod(x.shape[axis] for axis in axes))
    centered = topi.subtract(x, topi.divide(topi.sum(x, axes, True), count))
    variance = topi.divide(topi.sum(topi.multiply(centered, centered), axes, True), count)
    return topi.multiply(centered, topi.rsqrt(topi.add(variance, epsilon)))


def _weighted(x: Tensor, scale: Tensor, shift: Tensor, shape: Sequence[Any], attrs: Any) -> Tensor:
    """`x` with a scale and a shift, which are reshaped to `shape`."""
    if attrs.scale:
        x = topi.multiply(x, topi.reshape(scale, shape))
    return topi.add(x, topi.reshape(shift, shape)) if attrs.center else x


def _channels(x: Tensor, channel: int) -> list[Any]:
    """The shape of a value for each channel."""
    return [x.shape[axis] if axis == channel else 1 for axis in range(len(x.shape))]
