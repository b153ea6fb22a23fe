"""Infer the types of sums of products in Einstein's notation, and read the notation."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collage_dsl.graph import Dim, TupleType, Type
from collage_dsl.graph.types import tensors
from collage_dsl.language.inference.shapes import (
    Call,
    MismatchError,
    Shape,
    broadcast,
    check_dtypes,
    result,
    unknown,
)

OPEN = "…"
"""Stands for all dimensions that have no letter."""


@dataclass(frozen=True, slots=True)
class Subscripts:
    """A letter for each dimension of each operand and of the result: `ij,jk->ik`."""

    operands: tuple[str, ...]
    result: str


def subscripts_of(text: str) -> Subscripts:
    """Read subscripts as TVM does. Raises MismatchError."""
    left, arrow, right = text.replace(" ", "").replace("...", OPEN).partition("->")
    operands = tuple(left.split(","))
    for each in (*operands, right):
        if not all(_is_letter(letter) for letter in each.replace(OPEN, "", 1)):
            raise MismatchError(f"`{text}` are no subscripts")
    found = Subscripts(operands, right if arrow else _implicit(operands))
    unsaid = set(found.result) - set(left) - {OPEN}
    if unsaid:
        raise MismatchError(f"no operand has a dimension `{min(unsaid)}`")
    return found


def subscripts_for(text: str, count: int | None) -> Subscripts:
    """Read subscripts for `count` operands, if that is known. Raises MismatchError."""
    found = subscripts_of(text)
    if count is not None and count != len(found.operands):
        message = f"{count} operands do not fit subscripts for {len(found.operands)}"
        raise MismatchError(message)
    return found


def _is_letter(letter: str) -> bool:
    return letter.isascii() and letter.isalpha()


def _implicit(operands: tuple[str, ...]) -> str:
    """The letters that occur once, in order, after dimensions without a letter."""
    letters = "".join(operands)
    once = sorted(letter for letter in set(letters) - {OPEN} if letters.count(letter) == 1)
    return (OPEN if OPEN in letters else "") + "".join(once)


def einsum(call: Call) -> Type:
    text = call.text("subscripts")
    if not isinstance(call.types[0], TupleType):
        subscripts_of(text)
        return unknown(call)
    check_dtypes(call.types)
    shapes = [tensor.shape for tensor in tensors(call.types[0])]
    subscripts = subscripts_for(text, len(shapes))
    parts = [
        _by_letter(letters, shape)
        for letters, shape in zip(subscripts.operands, shapes, strict=True)
        if shape is not None
    ]
    sizes = _merged(parts)
    if len(parts) < len(shapes):
        return unknown(call)
    return result(call, tuple(_dims(subscripts.result, sizes)))


def _by_letter(letters: str, shape: Shape) -> list[tuple[str, Shape]]:
    """The dimensions of each letter, which are several only for those without a letter."""
    without = len(shape) - len(letters.replace(OPEN, ""))
    if without < 0 or (without > 0 and OPEN not in letters):
        raise MismatchError(f"`{letters}` are no subscripts of {len(shape)} dimensions")
    found: list[tuple[str, Shape]] = []
    rest = shape
    for letter in letters:
        count = without if letter == OPEN else 1
        found.append((letter, rest[:count]))
        rest = rest[count:]
    return found


def _merged(parts: list[list[tuple[str, Shape]]]) -> Mapping[str, Shape]:
    """The dimensions of each letter. A dimension of 1 is broadcast."""
    found: dict[str, Shape] = {}
    for part in parts:
        for letter, dims in part:
            both = broadcast([found.get(letter, dims), dims])
            found[letter] = dims if both is None else both
    return found


def _dims(letters: str, sizes: Mapping[str, Shape]) -> Iterator[Dim]:
    for letter in letters:
        yield from sizes.get(letter, ())
