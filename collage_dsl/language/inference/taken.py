"""Tell which operands TVM refuses whatever their shapes are: those of another sort or dtype."""

from collections.abc import Sequence

from collage_dsl.graph import OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import long_dtype, short_dtype, tensors
from collage_dsl.language.messages.findings import listed

_LITERALS = {"string": "a text", "scalars": "a list", "shape": "a list"}
_SORTS = ("tensor", "tuple", "list", "number")
_MOST_LISTED = 4


def refused(operator: Operator, types: Sequence[Type]) -> str:
    """Why TVM refuses a call with operands of these types; empty if it may take them."""
    for at, (name, type_) in enumerate(zip(operator.operands or (), types, strict=False)):
        takes = operator.takes[at] if at < len(operator.takes) else "any"
        given = _sort(type_)
        if takes in _SORTS and given and given != f"a {takes}":
            return f"`{operator.name}` takes a {takes} for `{name}`, not {given}"
        accepted = operator.accepts.get(name, ())
        for tensor in tensors(type_):
            dtype = short_dtype(tensor.dtype)
            if accepted and dtype not in (*accepted, "unknown"):
                such = "dtypes such as " if len(accepted) > _MOST_LISTED else ""
                words = listed(accepted[:_MOST_LISTED])
                return f"`{operator.name}` takes {such}{words} for `{name}`, not `{dtype}`"
    return ""


def _sort(type_: Type) -> str:
    """What a value is, in words; empty if that is not known."""
    match type_:
        case TensorType():
            return "a tensor"
        case TupleType():
            return "a tuple"
        case OpaqueType(what):
            return "a number" if long_dtype(what) else _LITERALS.get(what, "")
