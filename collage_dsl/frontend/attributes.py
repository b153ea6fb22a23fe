"""Convert attributes of TVM's operators to plain Python values of a `Graph`, and back."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from collage_dsl.frontend.errors import UnsupportedValue
from collage_dsl.graph import Attribute
from collage_dsl.graph.floats import as_written

_NONE: Mapping[str, Attribute] = {}

# TVM declares the type of the attributes with the operator, except for these operators.
_STATISTICAL = "relax.attrs.StatisticalAttrs"
_UNDECLARED: Mapping[str, str] = {
    **dict.fromkeys(
        ("sum", "mean", "max", "min", "prod", "std", "variance", "median"), _STATISTICAL
    ),
    "argmax": "relax.attrs.ArgmaxArgminAttrs",
    "argmin": "relax.attrs.ArgmaxArgminAttrs",
    "matmul": "relax.attrs.MatmulAttrs",
    "bucketize": "relax.attrs.BucketizeAttrs",
    "ccl.allgather": "relax.attrs.AllGatherAttrs",
}


def attributes_of(attrs: Any) -> Mapping[str, Attribute]:
    """The attributes of a call as ints, floats, strings, bools, tuples of these, and None."""
    if attrs is None:
        return _NONE
    return {name: plain(getattr(attrs, name)) for name in _fields(attrs.__class__)}


@cache
def _fields(class_: Any) -> tuple[str, ...]:
    return tuple(field.name for field in class_.__tvm_ffi_type_info__.fields)


def plain(value: Any) -> Attribute:
    """`value` without TVM's types: arrays as tuples, immediates as numbers, dtypes as names."""
    match value:
        case None | bool():
            return value
        case int():
            return value
        case float():
            return as_written(value)
        case tvm.DataType():
            return str(value)
        case str():
            return str(value)
        case tirx.IntImm():
            return bool(value.value) if str(value.ty.dtype) == "bool" else int(value.value)
        case tirx.FloatImm():
            return as_written(float(value.value))
        case tvm.ir.StringImm():
            return str(value.value)
        case tvm_ffi.Array() | tuple() | list():
            return tuple(plain(item) for item in value)
    raise UnsupportedValue(f"the attribute value `{value}` cannot be represented")


def attributes_type(op: str) -> str | None:
    """The type key of the attributes of `op`; None for an operator that takes none."""
    return tvm.ir.Op.get("relax." + op).attrs_type_key or _UNDECLARED.get(op)


def relax_attributes(op: str, attrs: Mapping[str, Attribute]) -> Any:
    """The attributes object that a call of `op` carries."""
    key = attributes_type(op)
    if key is None:
        return None
    fields: dict[str, Any] = dict(attrs)
    if op == "split":
        # This field is declared as any object, so nothing else converts its numbers.
        fields["indices_or_sections"] = _immediate(fields["indices_or_sections"])
    return tvm.ir.make_node(key, **fields)


def _immediate(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_immediate(item) for item in value]
    return tirx.IntImm("int64", value)
