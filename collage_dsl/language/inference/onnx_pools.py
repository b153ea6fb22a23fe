"""What the pooling operators of ONNX and of onnxruntime take and give."""

from collections.abc import Callable, Mapping

from collage_dsl.graph import Dim, Type
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    axis_in,
    listed,
    result,
    unknown,
)


def pooling_quantized(call: Call) -> Type:
    """The channels come second, unless `channels_last` is 1."""
    return _pooled(call, call.known_whole("channels_last"), _slid)


def pooling_all(call: Call) -> Type:
    """One number is left of each channel."""
    return _pooled(call, call.known_whole("channels_last"), lambda _, places: (1,) * len(places))


def pooling_last(call: Call) -> Type:
    """The channels come last."""
    return _pooled(call, 1, _slid)


def _pooled(call: Call, is_last: int | None, pool: Callable[[Call, Shape], Shape]) -> Type:
    shape = call.shape()
    if shape is None:
        return unknown(call)
    if len(shape) < 3:
        raise MismatchError(f"an image has 3 dimensions or more, not {len(shape)}")
    if is_last is None:
        return result(call, (shape[0], *(UNKNOWN_DIM,) * (len(shape) - 1)))
    if is_last:
        return result(call, (shape[0], *pool(call, shape[1:-1]), shape[-1]))
    return result(call, (*shape[:2], *pool(call, shape[2:])))


def _slid(call: Call, places: Shape) -> Shape:
    """The number of positions of a window in each dimension, where all that it needs is known."""
    count = len(places)
    window = _numbers(call, "kernel_shape", count, ())
    if window is not None and len(window) != count:
        raise MismatchError(f"the window {listed(window)} is not for {count} dimensions")
    strides, dilations = (_numbers(call, name, count, (1,)) for name in ("strides", "dilations"))
    pads = _numbers(call, "pads", 2 * count, (0,))
    is_plain = call.known("auto_pad") == "NOTSET" and call.known("ceil_mode") == 0
    if not is_plain or window is None or strides is None or dilations is None or pads is None:
        return (UNKNOWN_DIM,) * count
    return tuple(
        _positions(dim, pads[at] + pads[at + count] - dilations[at] * (window[at] - 1), strides[at])
        for at, dim in enumerate(places)
    )


def _numbers(call: Call, name: str, count: int, each: tuple[int, ...]) -> tuple[int, ...] | None:
    """The list of an attribute; without it, `each` as often as needed; None if it is not known."""
    if call.lacks(name):
        return each * count
    value = call.known(name)
    if not isinstance(value, tuple):
        return None
    return tuple(number for number in value if isinstance(number, int))


def _positions(dim: Dim, more: int, stride: int) -> Dim:
    """
    The number of positions of a window in `dim`, where `more` is the padding less the reach of the
    window. Not known for a window that is too large: onnxruntime may round up to one position.
    """
    if not isinstance(dim, int) or dim + more < 1:
        return UNKNOWN_DIM
    return (dim + more - 1) // stride + 1


def unpooling(call: Call) -> Type:
    """There is a place for each element."""
    shape, places = call.shape(), call.shape(1)
    if shape is not None and places is not None:
        message = f"places {listed(places)} do not fit data {listed(shape)}"
        call.agree_all(shape, places, message)
    return unknown(call)


def unfolding(call: Call) -> Type:
    """Each window has a place in its dimension, and its elements are in a new last one."""
    shape, axis = call.shape(), call.known_whole("dim")
    size, step = call.known_whole("size"), call.known_whole("step")
    if not shape:
        return unknown(call)
    places: list[Dim] = list(shape) if axis is not None else [UNKNOWN_DIM] * len(shape)
    if axis is not None:
        at = axis_in(axis, len(shape))
        places[at] = _windows(shape[at], size, step)
    return result(call, (*places, UNKNOWN_DIM if size is None else size))


def _windows(dim: Dim, size: int | None, step: int | None) -> Dim:
    if not isinstance(dim, int) or size is None:
        return UNKNOWN_DIM
    if size > dim:
        raise MismatchError(f"a window of {size} is larger than a dimension of {dim}")
    return (dim - size) // step + 1 if step else UNKNOWN_DIM


POOLS: Mapping[str, Callable[[Call], Type]] = {
    "onnx.MaxUnpool": unpooling,
    "com.microsoft.NhwcMaxPool": pooling_last,
    "com.microsoft.QLinearAveragePool": pooling_quantized,
    "com.microsoft.QLinearGlobalAveragePool": pooling_all,
    "com.microsoft.UnfoldTensor": unfolding,
}
