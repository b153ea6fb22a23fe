"""Infer the types of attention operators."""

from dataclasses import replace

from collage_dsl.graph import Type
from collage_dsl.language.inference.shapes import (
    Call,
    MismatchError,
    Shape,
    is_no_multiple,
    result,
    unknown,
)


def attention(call: Call) -> Type:
    shapes = [call.shape(at) for at in range(len(call.types))]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return unknown(call)
    if any(len(shape) != 4 for shape in known):
        raise MismatchError("attention takes operands of 4 dimensions")
    query, key, value, *bias = known
    pairs = [(query[0], key[0]), (query[0], value[0]), (key[1], value[1]), (query[3], key[3])]
    for each in bias:
        scores = zip(each[:3], _scores(query), strict=True)
        pairs += [(dim, of) for dim, of in scores if isinstance(dim, int) and dim != 1]
        pairs.append((each[3], key[1]))
    for one, other in pairs:
        call.agree(one, other, f"the dimensions {one} and {other} are to be the same")
    for heads in (key[2], value[2]):
        if is_no_multiple(query[2], heads):
            raise MismatchError(f"{query[2]} heads are no multiple of {heads}")
    return result(call, (*query[:3], value[3]))


def _scores(query: Shape) -> Shape:
    return query[0], query[2], query[1]


def attention_of_lengths(call: Call) -> Type:
    """Of the operands that say where sequences begin, TVM looks at nothing."""
    return attention(replace(call, types=call.types[:3]))
