"""Write convolution, pooling, normalization, attention and resizing."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from collage_dsl.backends.onnx_writer.call import Call, Value, Write

SPATIAL = {1: "W", 2: "HW", 3: "DHW"}

# ---- Convolution and pooling ----


def _arranged(call: Call, value: str, layout: str, wanted: str) -> str:
    """`value` in the layout `wanted`, such as `NCHW`."""
    call.require(sorted(layout) == sorted(wanted), f"the layout is {layout}")
    if layout == wanted:
        return value
    return call.emit("Transpose", value, perm=[layout.index(axis) for axis in wanted])


def _on_images(call: Call, dims: int, layout: str, write: Callable[[str], str]) -> str:
    """Apply `write` to the first operand in channels-first layout, and restore the layout."""
    usual = "NC" + SPATIAL[dims]
    given = call.attr(layout) or usual
    result = write(_arranged(call, call.tensor(), given, usual))
    return _arranged(call, result, usual, call.attr("out_layout") or given)


def _convolution(op: str, kernel: str, dims: int) -> Write:
    def write(call: Call) -> str:
        dtype = call.type().dtype
        call.require("float" in dtype, f"there is no {op} of {dtype}")
        given, usual = call.attr("kernel_layout"), kernel + SPATIAL[dims]
        weight = _arranged(call, call.tensor(1), given or usual, usual)
        attrs = {**_window(call), "group": call.attr("groups")}
        attrs["output_padding"] = call.attr("output_padding")
        operands = [weight, *call.tensors[2:]]
        return _on_images(
            call, dims, "data_layout", lambda data: call.emit(op, data, *operands, **attrs)
        )

    return write


def _window(call: Call) -> dict[str, Any]:
    """The same as `movement`, where the result has the dtype of the image."""
    same = call.type().dtype == call.result_dtype
    call.require(same, f"the result is {call.result_dtype} where the data is {call.type().dtype}")
    return movement(call)


def movement(call: Call) -> dict[str, Any]:
    """The ONNX attributes that say how a window moves over an image."""
    return {
        "strides": call.attr("strides"),
        "dilations": call.attr("dilation"),
        "pads": call.attr("padding"),
    }


def _pool(op: str, dims: int) -> Write:
    def write(call: Call) -> str:
        attrs = {**_window(call), "kernel_shape": call.attr("pool_size")}
        if call.attr("ceil_mode", False):
            _require_same_ceiling(call, dims)
            attrs["ceil_mode"] = 1
        if op == "AveragePool":
            attrs["count_include_pad"] = int(call.attr("count_include_pad", False))
        return _on_images(call, dims, "layout", lambda data: call.emit(op, data, **attrs))

    return write


def _require_same_ceiling(call: Call, dims: int) -> None:
    """Refuse a last window that lies in the padding only: ONNX omits it, TVM keeps it."""
    pads, strides = call.attr("padding"), call.attr("strides")
    dilations, kernel = call.attr("dilation"), call.attr("pool_size")
    for i, size in enumerate(_sizes(call, dims)):
        span = dilations[i] * (kernel[i] - 1) + 1
        windows = -(-(size + pads[i] + pads[i + dims] - span) // strides[i]) + 1
        last = (windows - 1) * strides[i]
        call.require(last < size + pads[i], "its last window would lie in the padding")


def _sizes(call: Call, dims: int) -> tuple[int, ...]:
    """The spatial dimensions of a pooling's operand."""
    layout = call.attr("layout") or "NC" + SPATIAL[dims]
    call.require(len(layout) == call.rank(), f"the layout is {layout}")
    return tuple(call.dim(layout.index(axis)) for axis in SPATIAL[dims])


def _adaptive_average(dims: int) -> Write:
    def write(call: Call) -> str:
        wanted = call.attr("output_size")
        if wanted is None:
            return call.emit("Identity", call.tensor())
        if all(size == 1 for size in wanted):
            return _on_images(call, dims, "layout", lambda x: call.emit("GlobalAveragePool", x))
        sizes = _sizes(call, dims)
        whole = all(size % want == 0 for size, want in zip(sizes, wanted, strict=True))
        call.require(whole, f"{sizes} does not divide into {wanted}")
        kernel = [size // want for size, want in zip(sizes, wanted, strict=True)]
        attrs = {"kernel_shape": kernel, "strides": kernel}
        return _on_images(
            call, dims, "layout", lambda data: call.emit("AveragePool", data, **attrs)
        )

    return write


def _pixel_shuffle(call: Call) -> str:
    factor = call.attr("upscale_factor")
    call.require(call.rank() == 4, f"the data has {call.rank()} axes")
    return call.emit("DepthToSpace", call.tensor(), blocksize=factor, mode="CRD")


_METHODS = {"nearest_neighbor": "nearest", "linear": "linear", "cubic": "cubic"}
_COORDINATES = ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel")
_ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def _resize2d(call: Call) -> str:
    call.require(call.attr("layout") in (None, "NCHW"), f"the layout is {call.attr('layout')}")
    method = call.attr("method", "linear")
    coordinates = call.attr("coordinate_transformation_mode", "half_pixel")
    call.require(method in _METHODS, f"method is {method}")
    call.require(coordinates in _COORDINATES, f"coordinates are {coordinates}")
    size = call.int64(*call.result_dims)
    return call.emit(
        "Resize",
        call.tensor(),
        "",
        "",
        size,
        mode=_METHODS[method],
        coordinate_transformation_mode=coordinates,
        nearest_mode=_rounding(call, coordinates) if method == "nearest_neighbor" else None,
        cubic_coeff_a=call.attr("cubic_alpha") if method == "cubic" else None,
        exclude_outside=call.attr("cubic_exclude") if method == "cubic" else None,
    )


def _rounding(call: Call, coordinates: str) -> str:
    """
    The name in ONNX for the rounding of coordinates.

    TVM's "round" rounds halves to the even neighbour, for which ONNX has no name. If no
    coordinate is a half, any rounding is right.
    """
    default = "round" if coordinates == "align_corners" else "floor"
    rounding = call.attr("rounding_method") or default
    if rounding == "round":
        sizes = zip((call.dim(2), call.dim(3)), call.ints(1), strict=True)
        halves = any(_has_halves(size, target, coordinates) for size, target in sizes)
        call.require(not halves, "it rounds halves to even")
        return "round_prefer_floor"
    call.require(rounding in _ROUNDINGS, f"rounding_method is {rounding}")
    return str(rounding)


def _has_halves(size: int, target: int, coordinates: str) -> bool:
    """Whether a coordinate lies exactly between two pixels."""
    if coordinates == "asymmetric":
        found = [Fraction(i * size, target) for i in range(target)]
    elif coordinates == "align_corners":
        found = [Fraction(i * (size - 1), max(target - 1, 1)) for i in range(target)]
    else:
        found = [Fraction((2 * i + 1) * size - target, 2 * target) for i in range(target)]
    return any(coordinate.denominator == 2 for coordinate in found)


_SAMPLINGS = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}


def _grid_sample(call: Call) -> str:
    """TVM has the two coordinates of a place in the second axis of the grid, ONNX in the last."""
    call.require(call.rank() == 4, f"the data has {call.rank()} axes")
    call.require(call.attr("layout", "NCHW") == "NCHW", f"the layout is {call.attr('layout')}")
    return call.emit(
        "GridSample",
        call.tensor(),
        call.emit("Transpose", call.tensor(1), perm=[0, 2, 3, 1]),
        mode=_SAMPLINGS[call.attr("method", "bilinear")],
        padding_mode=call.attr("padding_mode", "zeros"),
        align_corners=int(call.attr("align_corners", False)),
    )


def _roi_align(call: Call) -> str:
    """
    TVM has the image of a region in its first column. It takes no half of a pixel from regions,
    which ONNX does where it does not widen small ones (`aligned`).
    """
    layout, mode = call.attr("layout", "NCHW"), call.attr("mode", "avg")
    call.require(layout == "NCHW", f"the layout is {layout}")
    call.require(mode == "avg", f"the mode is {mode}")
    scale, is_aligned = float(call.attr("spatial_scale")), bool(call.attr("aligned", False))
    first, axis = call.int64(1), call.int64(1)
    images = call.emit("Slice", call.tensor(1), call.int64(0), first, axis)
    regions = call.emit("Slice", call.tensor(1), first, call.int64(5), axis)
    if is_aligned:
        regions = call.emit("Add", regions, call.scalar(0.5 / scale))
    height, width = call.attr("pooled_size")
    return call.emit(
        "RoiAlign",
        call.tensor(),
        regions,
        call.reshaped(call.cast(images, "int64"), -1),
        output_height=height,
        output_width=width,
        sampling_ratio=max(call.attr("sample_ratio", -1), 0),
        spatial_scale=scale,
        coordinate_transformation_mode="half_pixel" if is_aligned else "output_half_pixel",
    )


# ---- Normalization ----


def _require_scaled(call: Call) -> None:
    for name in ("center", "scale"):
        call.require(bool(call.attr(name, True)), f"{name} is off")


def _batch_norm(call: Call) -> Value:
    """The second and third result are the moving averages, unchanged in inference."""
    _require_scaled(call)
    call.require(not call.attr("training", False), "it is in training mode")
    axis = call.axis(call.attr("axis", 1))
    call.require(axis == 1, f"its axis is {axis}")
    normal = call.emit("BatchNormalization", *call.tensors, epsilon=call.attr("epsilon"))
    return normal, call.tensor(3), call.tensor(4)


def _layer_norm(call: Call) -> str:
    _require_scaled(call)
    axes, rank = call.axes("axes") or (), call.rank()
    first = rank - len(axes)
    call.require(axes == tuple(range(first, rank)), f"its axes {axes} are not the last ones")
    return call.emit("LayerNormalization", *call.tensors, axis=first, epsilon=call.attr("epsilon"))


def _group_norm(call: Call) -> str:
    """Normalize each group as one channel of an instance normalization, then scale by channel."""
    _require_scaled(call)
    _require_images(call)
    batch, channels, *rest = call.dims()
    groups = call.attr("num_groups")
    ones, zeros = (np.full(groups, v, call.type().dtype) for v in (1, 0))
    grouped = call.reshaped(call.tensor(), batch, groups, -1)
    normal = call.emit(
        "InstanceNormalization",
        grouped,
        call.array(ones),
        call.array(zeros),
        epsilon=call.attr("epsilon"),
    )
    back = call.reshaped(normal, batch, channels, *rest)
    gamma, beta = (call.reshaped(call.tensor(i), channels, *[1] * len(rest)) for i in (1, 2))
    return call.emit("Add", call.emit("Mul", back, gamma), beta)


def _instance_norm(call: Call) -> str:
    _require_scaled(call)
    _require_images(call)
    return call.emit("InstanceNormalization", *call.tensors, epsilon=call.attr("epsilon"))


def _require_images(call: Call) -> None:
    """Refuse unless channels are axis 1 and all later axes are normalized."""
    channels, axes = call.axis(call.attr("channel_axis", 1)), call.axes("axes")
    whole = channels == 1 and axes == tuple(range(2, call.rank()))
    call.require(whole, f"it normalizes axes {axes} with channels at {channels}")


def _rms_norm(call: Call) -> str:
    """Write the operators that onnxruntime recognizes and fuses."""
    square = call.emit("Pow", call.tensor(), call.scalar(2.0))
    mean = call.emit("ReduceMean", square, call.int64(*(call.axes("axes") or ())), keepdims=1)
    root = call.emit("Sqrt", call.emit("Add", mean, call.scalar(call.attr("epsilon"))))
    return call.emit("Mul", call.emit("Div", call.tensor(), root), call.tensor(1))


def _softmax(op: str) -> Write:
    return lambda call: call.emit(op, call.tensor(), axis=call.attr("axis", -1))


def _dropout(call: Call) -> Value:
    """Inference drops nothing: the operand itself, and a mask of ones."""
    shape = call.emit("Shape", call.tensor())
    return call.tensor(), call.emit("Expand", call.scalar(1.0), shape)


# ---- Attention ----


def _attention(call: Call) -> str:
    """softmax(scale * Q Kᵀ + bias) V, with the axis of positions before that of heads."""
    call.require(call.attr("causal_mask") in (None, ""), "it has a causal mask")
    call.require(call.attr("window_size") is None, "it has a window")
    heads = [call.dim(2, i) for i in range(3)]
    call.require(len(set(heads)) == 1, f"the numbers of heads differ: {heads}")
    scale = call.attr("scale", call.dim(3) ** -0.5)
    query, value = (call.emit("Transpose", call.tensor(i), perm=(0, 2, 1, 3)) for i in (0, 2))
    key = call.emit("Transpose", call.tensor(1), perm=(0, 2, 3, 1))
    scores = call.emit("Mul", call.emit("MatMul", query, key), call.scalar(scale))
    if len(call.operands) > 3:
        scores = call.emit("Add", scores, call.tensor(3))
    mixed = call.emit("MatMul", call.emit("Softmax", scores, axis=-1), value)
    return call.emit("Transpose", mixed, perm=(0, 2, 1, 3))


OPERATORS: Mapping[str, Write] = {
    **{f"nn.conv{n}d": _convolution("Conv", "OI", n) for n in SPATIAL},
    **{f"nn.conv{n}d_transpose": _convolution("ConvTranspose", "IO", n) for n in SPATIAL},
    **{f"nn.max_pool{n}d": _pool("MaxPool", n) for n in SPATIAL},
    **{f"nn.avg_pool{n}d": _pool("AveragePool", n) for n in SPATIAL},
    **{f"nn.adaptive_avg_pool{n}d": _adaptive_average(n) for n in SPATIAL},
    "image.grid_sample": _grid_sample,
    "image.resize2d": _resize2d,
    "nn.attention": _attention,
    "nn.attention_bias": _attention,
    "nn.batch_norm": _batch_norm,
    "nn.dropout": _dropout,
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.layer_norm": _layer_norm,
    "nn.log_softmax": _softmax("LogSoftmax"),
    "nn.pixel_shuffle": _pixel_shuffle,
    "nn.rms_norm": _rms_norm,
    "nn.softmax": _softmax("Softmax"),
    "vision.roi_align": _roi_align,
}
