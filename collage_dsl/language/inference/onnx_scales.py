"""What quantized operators of ONNX take and give, and the shapes of scales and zero points."""

from collections.abc import Callable, Mapping

from collage_dsl.graph import Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.moving import joined_along
from collage_dsl.language.inference.shapes import (
    Call,
    MismatchError,
    Shape,
    axis_in,
    broadcast,
    differ,
    like_first,
    listed,
    product,
    result,
    unknown,
)

_OF_DATA = frozenset({"x_scale", "x_zero_point", "y_scale", "y_zero_point"})

_FUSED = {
    **dict.fromkeys(("Add", "Mul"), "ABC"),
    **dict.fromkeys(("LeakyRelu", "Sigmoid"), "XY"),
}

SINGLE: Mapping[str, frozenset[str]] = {
    **{f"onnx.Cum{sort}": frozenset({"axis"}) for sort in ("Sum", "Prod")},
    "onnx.ConvInteger": frozenset({"x_zero_point"}),
    "onnx.TopK": frozenset({"K"}),
    **{f"{domain}.QLinearConv": _OF_DATA for domain in ("onnx", "com.microsoft")},
    **{
        f"com.microsoft.QLinear{sort}": frozenset(
            f"{letter}_{what}" for letter in letters for what in ("scale", "zero_point")
        )
        for sort, letters in _FUSED.items()
    },
    **{f"com.microsoft.QLinear{sort}AveragePool": _OF_DATA for sort in ("", "Global")},
    "com.microsoft.QLinearReduceMean": frozenset(
        f"{of}_{what}" for of in ("data", "reduced") for what in ("scale", "zero_point")
    ),
    "com.microsoft.QLinearSoftmax": _OF_DATA | {"X_scale"},
    "com.microsoft.QLinearWhere": _OF_DATA | {"z_scale", "z_zero_point"},
}
"""
Scales, zero points and other operands that are single numbers: scalars, or tensors of one element.
"""


def check_single(call: Call) -> None:
    """Raise MismatchError if something has several elements that is a single number."""
    operator, names = operators()[call.op], SINGLE.get(call.op, frozenset())
    named = operator.operands or ()
    is_complete = len(call.types) == len(named)
    sure = named if is_complete else named[: operator.always]
    for at, name in enumerate(sure):
        for axis, dim in enumerate(call.shape(at) or ()) if name in names else ():
            call.agree(dim, 1, f"`{name}` is one number, and this has {dim} in dimension {axis}")


def quantized_product(call: Call) -> Type:
    """A list of scales or zero points of the second matrix has one for each of its columns."""
    shape = call.shape(3)
    for at, name in ((4, "scales"), (5, "zero points")):
        given = call.shape(at)
        if shape and given is not None and len(given) == 1 and differ(given[0], 1):
            message = f"{given[0]} {name} do not fit {shape[-1]} columns"
            call.agree(given[0], shape[-1], message)
    return unknown(call)


def quantized_broadcasting(call: Call) -> Type:
    """Scales and zero points stand after each operand; where some are left out, less is known."""
    if len(call.types) < len(operators()[call.op].operands or ()):
        return unknown(call)
    return result(call, broadcast([call.shape(0), call.shape(3)]))


def quantized_choosing(call: Call) -> Type:
    """Scales and zero points stand after each of the two tensors."""
    shapes = [call.shape(at) for at in (0, 1, 4)]
    known = broadcast([shape for shape in shapes if shape is not None])
    return result(call, known if None not in shapes else None)


def quantized_joining(call: Call) -> Type:
    """After the scale and zero point of the result come three operands for each tensor."""
    count = len(call.types)
    if count < 5 or count % 3 != 2:
        message = f"{count} operands are not a scale, a zero point, and three for each tensor"
        raise MismatchError(message)
    axis, shapes = call.known_whole("axis"), [call.shape(at) for at in range(2, count, 3)]
    known = [shape for shape in shapes if shape is not None]
    if axis is None or len(known) < len(shapes):
        return unknown(call)
    return result(call, joined_along(call, known, axis))


def quantizing(call: Call) -> Type:
    """A list of scales has one for each place along the axis; a single scale is for all."""
    shape, scales, axis = call.shape(0), call.shape(1), call.known_whole("axis")
    block = call.known_whole("block_size") if "block_size" in operators()[call.op].attrs else 0
    if block and shape is not None and scales is not None:
        _check_blocks(shape, scales, block, axis)
    is_whole = block == 0
    is_list = scales is not None and len(scales) == 1 and differ(scales[0], 1)
    if is_whole and shape and scales is not None and is_list and axis is not None:
        along = shape[axis_in(axis, len(shape))]
        if differ(scales[0], along):
            raise MismatchError(f"{scales[0]} scales do not fit a dimension of {along}")
    _check_zero_points(call)
    return result(call, shape)


def _check_blocks(shape: Shape, scales: Shape, block: int, axis: int | None) -> None:
    """There is a scale for each block along the axis."""
    if len(scales) != len(shape):
        message = f"scales of blocks have the {len(shape)} dimensions of the data, not "
        raise MismatchError(f"{message}{len(scales)}")
    for at, (dim, count) in enumerate(zip(shape, scales, strict=True)):
        if axis is None or not isinstance(dim, int) or not isinstance(count, int):
            continue
        blocks = -(-dim // block) if at == axis_in(axis, len(shape)) else dim
        if blocks != count:
            raise MismatchError(f"{count} scales do not fit {blocks} blocks in dimension {at}")


def _check_zero_points(call: Call) -> None:
    """There is a zero point for each scale; one alone may be a scalar or a list."""
    scales, points = call.shape(1), call.shape(2)
    if scales is None or points is None:
        return
    message = f"zero points {listed(points)} do not fit scales {listed(scales)}"
    if len(scales) > 1:
        call.agree_all(scales, points, message)
    elif len(points) > 1:
        raise MismatchError(message)
    else:
        call.agree(product(scales), product(points), message)


QUANTIZED: Mapping[str, Callable[[Call], Type]] = {
    **dict.fromkeys(SINGLE, unknown),
    **dict.fromkeys(("onnx.CumSum", "onnx.CumProd"), like_first),
    **{
        f"{domain}.{sort}Linear": quantizing
        for domain in ("onnx", "com.microsoft")
        for sort in ("Quantize", "Dequantize")
    },
    **{f"com.microsoft.QLinear{sort}": quantized_broadcasting for sort in ("Add", "Mul")},
    "com.microsoft.QLinearConcat": quantized_joining,
    "com.microsoft.QLinearWhere": quantized_choosing,
    "onnx.QLinearMatMul": quantized_product,
}
"""Rules for operators of quantized tensors."""
