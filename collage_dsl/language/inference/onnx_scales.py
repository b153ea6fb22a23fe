"""The shapes of scales and zero points of ONNX's quantized operators."""

from collections.abc import Mapping

from collage_dsl.graph import Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.shapes import Call, differ, unknown

_OF_DATA = frozenset({"x_scale", "x_zero_point", "y_scale", "y_zero_point"})

_FUSED = {
    **dict.fromkeys(("Add", "Mul"), "ABC"),
    **dict.fromkeys(("LeakyRelu", "Sigmoid"), "XY"),
}

SINGLE: Mapping[str, frozenset[str]] = {
    "onnx.ConvInteger": frozenset({"x_zero_point"}),
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
"""Scales and zero points that are single numbers: scalars, or tensors of one element."""


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
