"""Say what numbers of elements and bytes are, for conditions that exclude each other by them."""

from collections.abc import Sequence

from collage_dsl.graph.types import bits_of, long_dtype
from collage_dsl.language.messages.findings import count
from collage_dsl.rules.condition import (
    All,
    Bytes,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Expression,
    Size,
    asked_places,
    every_part,
)


def of_elements(conditions: Sequence[Expression], given: Sequence[Expression]) -> str:
    """
    What `conditions`, which hold only if those `given` do not, overlook of the sizes of tensors, or
    of the elements of constants. Empty unless sizes are given.
    """
    if not all(isinstance(each, Compare) and isinstance(each.left, _SIZES) for each in given):
        return ""
    every = [part for each in conditions for part in every_part(each)]
    if any(isinstance(part, All) for part in every):
        return "only constants without elements meet it"
    said = [words for part in every if (words := _bytes(part))]
    if said and any(isinstance(part, Bytes) for part in every):
        return "; ".join(dict.fromkeys(said))
    if any(isinstance(part, Size) for part in every):
        return "`size` is the product of all dimensions"
    return "remove one of them" if len(conditions) > 1 else ""


def of_places(conditions: Sequence[Expression]) -> str:
    """What several `conditions` on places, which exclude each other, overlook; else empty."""
    every = (part for each in conditions for part in every_part(each))
    asked = [part for part in every if isinstance(part, All) and asked_places(part)]
    return "the first element of a constant is at place 0 along each axis" if asked[1:] else ""


_SIZES = (Size, DimAt)


def _bytes(part: Expression) -> str:
    """How long an element of a dtype is, if `part` says that a tensor has that dtype."""
    match part:
        case Compare("==", Dtype(), Constant(str() as dtype)):
            bits = bits_of(long_dtype(dtype) or dtype)
            if bits is None:
                return ""
            width = count(bits, "bit") if bits % 8 else count(bits // 8, "byte")
            return f"an element of `{dtype}` has {width}"
        case _:
            return ""
