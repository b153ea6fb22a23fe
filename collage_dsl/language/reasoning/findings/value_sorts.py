"""What a value may be, such as a tensor; and what operators give whose attributes decide that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce

from collage_dsl.graph.operators import Taken, operators
from collage_dsl.rules.condition import Attr, Compare, Constant, Value, Within, all_of
from collage_dsl.rules.pattern import Call, Number, Operand


@dataclass(frozen=True, slots=True)
class Tensor:
    def __str__(self) -> str:
        return "a tensor"


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape that is computed, by `shape_of`."""

    def __str__(self) -> str:
        return "a shape"


@dataclass(frozen=True, slots=True)
class Tuple:
    """
    A tuple of some values; `fields` is None if it is not known how many there are. It has at most
    `most`, if that is known.
    """

    fields: "tuple[Sort, ...] | None" = None
    most: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return "a tuple"


@dataclass(frozen=True, slots=True)
class List:
    """A list that the program writes: `[1, n]`."""

    def __str__(self) -> str:
        return "a list"


Sort = Tensor | Shape | Tuple | List | None
"""What a value is; None if it is not known, or not always the same."""

TAKEN: Mapping[Taken, Sort] = {"tensor": Tensor(), "tuple": Tuple(), "list": List()}
"""What an operand must be, by the word in the table of operators."""


def common(left: Sort, right: Sort) -> Sort:
    """What a value is that is either `left` or `right`."""
    if left == right:
        return left
    return Tuple() if isinstance(left, Tuple) and isinstance(right, Tuple) else None


# Operators whose attributes decide what they give.


def as_many(of: Sort) -> Sort:
    """A tuple with as many tensors as `of` has."""
    count = len(of.fields) if isinstance(of, Tuple) and of.fields is not None else None
    return Tuple() if count is None else Tuple((Tensor(),) * count)


def by_flags(flags: tuple[Operand, ...]) -> Sort:
    """The values, and what each flag of `unique` adds; None if a flag is not known."""
    said = [flag.value for flag in flags if isinstance(flag, Number)]
    return _tensors(1 + sum(map(bool, said))) if len(said) == len(flags) else None


def by_attribute(op: str, call: Call) -> Sort:
    """What the attributes that `call` asks for make of it."""
    if op not in _DECIDED:
        return None
    attribute, given, otherwise = _DECIDED[op]
    asked = asked_values(call, attribute)
    return reduce(common, [given(value) for value in asked]) if asked else otherwise


def most_results(op: str, call: Call) -> int | None:
    """How many results a node has at most; a `Split` has as many as it says."""
    asked = [each for each in asked_values(call, "num_outputs") if isinstance(each, int)]
    if op == "onnx.Split" and asked:
        return max(asked)
    return _MOST.get(op, operators()[op].most_results)


def _tensors(count: int) -> Sort:
    return Tensor() if count == 1 else Tuple((Tensor(),) * count)


def _parts(value: Value) -> Sort:
    """`split` into one part gives a tensor."""
    return _tensors(len(value) + 1 if isinstance(value, tuple) else int(value or 1))


def _ranked(value: Value) -> Sort:
    return _tensors(2 if value == "both" else 1)


def _medians(value: Value) -> Sort:
    """Along at most one axis, the places are a second result."""
    return _tensors(2 if isinstance(value, tuple) and len(value) <= 1 else 1)


def _suppressed(value: Value) -> Sort:
    return _tensors(2 if value else 1)


def _suppressed_by_class(value: Value) -> Sort:
    """`"tensorflow"` has the scores beside the boxes and their counts."""
    return _tensors(3 if value == "tensorflow" else 2)


_MOST = {
    "median": 2,
    "topk": 2,
    "vision.all_class_non_max_suppression": 3,
    "vision.non_max_suppression": 2,
}
"""Operators whose attributes decide between one result and several, and how many these are."""

_DECIDED: Mapping[str, tuple[str, Callable[[Value], Sort], Sort]] = {
    "split": ("indices_or_sections", _parts, Tuple()),
    "topk": ("ret_type", _ranked, None),
    "median": ("axis", _medians, None),
    "vision.all_class_non_max_suppression": ("output_format", _suppressed_by_class, Tuple(most=3)),
    "vision.non_max_suppression": ("return_indices", _suppressed, None),
}
"""The attribute that decides, what a value of it gives, and what is given if none is asked for."""


def asked_values(call: Call, attribute: str) -> tuple[Value, ...]:
    """The values one of which `attribute` has in every match of `call`; empty if not known."""
    for where in call.attributes:
        for condition in all_of(where.condition):
            match condition:
                case Compare("==", Attr(name), Constant(value)) if name == attribute:
                    return (value,)
                case Compare("==", Constant(value), Attr(name)) if name == attribute:
                    return (value,)
                case Within(Attr(name), Constant(tuple() as values)) if name == attribute:
                    return values
    return ()
