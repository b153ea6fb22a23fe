"""Shapes of operands and results that are written with a letter for each dimension."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    differ,
    dtype_of,
    listed,
    more_exact,
    shared_shape,
)

ANY = "."
"""The word for an operand or a result of which nothing is known."""

ONE = "-"
"""The word for a single number: a scalar, or a list of one."""

_SAME, _OTHERS = "*", "~"


@dataclass(frozen=True, slots=True)
class Lettered:
    """
    The operands and the results of an operator, each as a word with a letter for each dimension:

        Lettered("*h h ?h", "*h")

    Equal letters are equal dimensions, and `2` is a dimension of 2. `*` stands for any dimensions
    at the beginning or at the end, the same wherever it is written, and `~` for any others. An
    operand that begins with `?` may be left out. Nothing is known of one that is `.` or `?.`, and
    one that is `-` or `?-` is a single number.
    """

    operands: str
    results: str
    sizes: Mapping[str, Dim] = field(default_factory=dict)
    """The dimensions that some letters stand for, where they are known beforehand."""

    def placements(self, count: int) -> Iterator[tuple[int, ...]]:
        """Which of the operands `count` operands may be."""
        words = self.operands.split()
        always = [at for at, word in enumerate(words) if not word.startswith("?")]
        others = [at for at, word in enumerate(words) if word.startswith("?")]
        for chosen in combinations(others, count - len(always)) if count >= len(always) else ():
            yield tuple(sorted((*always, *chosen)))


def fitted(call: Call, lettered: Lettered) -> Type:
    """What the operands of `call` give, whichever were left out. Raises MismatchError."""
    problems, found = [], []
    for places in lettered.placements(len(call.types)):
        trial = replace(call, agreed=[])
        try:
            found.append((trial, _results(trial, lettered, places)))
        except MismatchError as problem:
            problems.append(problem)
    if not found:
        raise problems[0] if problems else MismatchError("no such call has so many operands")
    if len(found) == 1:
        call.agreed.extend(found[0][0].agreed)
    columns = zip(*(each for _, each in found), strict=True)
    shapes = [reduce(shared_shape, column) for column in columns]
    fields = tuple(TensorType(dtype_of(call), shape) for shape in shapes)
    return fields[0] if len(fields) == 1 else TupleType(fields)


def _results(call: Call, lettered: Lettered, places: Sequence[int]) -> tuple[Shape | None, ...]:
    words = [word.removeprefix("?") for word in lettered.operands.split()]
    bound = _Bound(call, {of: (dim, f"{dim} are needed") for of, dim in lettered.sizes.items()})
    for at, place in enumerate(places):
        shape = call.shape(at)
        if shape is not None and words[place] != ANY:
            bound.bind(words[place], shape, _name(call.op, place))
    return tuple(bound.shape(word) for word in lettered.results.split())


def _name(op: str, place: int) -> str:
    return f"`{(operators()[op].operands or ())[place]}`"


@dataclass(slots=True)
class _Bound:
    """The dimensions that letters stand for, and where each was found first."""

    call: Call
    dims: dict[str, tuple[Dim, str]] = field(default_factory=dict)
    group: Shape | None = None
    named: str = ""

    def bind(self, word: str, shape: Shape, name: str) -> None:
        if word == ONE:
            if len(shape) > 1 or any(differ(dim, 1) for dim in shape):
                raise MismatchError(f"{name} is a single number, not {listed(shape)}")
            return
        first, last, has_more = letters_of(word)
        least = len(first) + len(last)
        if len(shape) < least or (len(shape) > least and not has_more):
            count = f"{least} dimensions{' or more' * has_more}"
            raise MismatchError(f"{name} has {count}, not {len(shape)}")
        places = [*range(len(first)), *range(len(shape) - len(last), len(shape))]
        for at, letter in zip(places, first + last, strict=True):
            self._bind_one(letter, shape[at], f"{name} has {shape[at]} in dimension {at}")
        if _SAME in word:
            self._bind_group(shape[len(first) : len(shape) - len(last)], name)

    def _bind_one(self, letter: str, dim: Dim, said: str) -> None:
        if letter.isdecimal():
            self.call.agree(int(letter), dim, f"{said}, not {letter}")
        elif letter not in self.dims:
            self.dims[letter] = dim, said
        else:
            known, otherwise = self.dims[letter]
            self.call.agree(known, dim, f"{said}, and {otherwise}")
            self.dims[letter] = more_exact(known, dim), otherwise

    def _bind_group(self, dims: Shape, name: str) -> None:
        if self.group is None:
            self.group, self.named = dims, name
        else:
            said = f"the dimensions of {self.named} and {name} differ"
            self.call.agree_all(self.group, dims, said)

    def shape(self, word: str) -> Shape | None:
        first, last, has_more = letters_of(word)
        if word == ANY or (has_more and self.group is None):
            return None
        return (*map(self._dim, first), *(self.group or ()), *map(self._dim, last))

    def _dim(self, letter: str) -> Dim:
        if letter.isdecimal():
            return int(letter)
        return self.dims.get(letter, (UNKNOWN_DIM, ""))[0]


def letters_of(word: str) -> tuple[str, str, bool]:
    """The letters before and after the place for more dimensions, and whether there is one."""
    mark = _OTHERS if _OTHERS in word else _SAME
    first, found, last = word.partition(mark)
    return first, last, bool(found)
