"""
The types of calls of standard operators of ONNX, whichever version of the operator it is, and
whichever operands are left out. Where the onnx package is not installed, nothing is said.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from math import prod

from collage_dsl.graph import Attribute, Dim, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.onnx_package import Shapes, Version, is_installed, versions
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    UnknownAttributeError,
    differ,
    shared_shape,
)

_PREFIX = "onnx."

_BROADCASTING = frozenset(
    {"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"}
)
"""Operators whose oldest versions broadcast by an attribute."""

_UNRELIABLE = frozenset({"Attention", "LinearAttention"})
"""Operators of which the package says wrong shapes where those of some operands are not known."""

_ONE_RESULT = frozenset({"BatchNormalization"})
"""Operators whose other results are those of training."""

_PER_AXIS = {
    **dict.fromkeys(("dilations", "kernel_shape", "output_padding", "output_shape", "strides"), 1),
    "pads": 2,
}
"""Lists with so many numbers for each dimension after the channels."""

_SIZES = frozenset({"group", "output_height", "output_width"})
"""Single numbers that some dimensions depend on."""

_AXES = frozenset({"axis", "batch_dims"})
"""Attributes that name a dimension of the first operand or a new one, or count its first ones."""

_SAMPLES = (1, 3)
"""What does not depend on an attribute is the same for these numbers, and without the attribute."""


@dataclass(frozen=True, slots=True)
class _Unknown:
    """The value of an attribute that is not known."""


_Given = tuple[tuple[str, Attribute | _Unknown], ...]


def is_standard(op: str) -> bool:
    return op.startswith(_PREFIX)


def standard_type(call: Call) -> Type:
    """What holds in all versions that take `call`. Raises MismatchError if no version does."""
    name = call.op.removeprefix(_PREFIX)
    if not is_installed() or name in _BROADCASTING | _UNRELIABLE:
        return TensorType("unknown", None)
    read = {attribute for version in versions(name) for attribute in version.read}
    given = tuple((attr, value) for attr in sorted(read) for value in _value(call, attr))
    shapes = tuple(call.shape(at) for at in range(len(call.types)))
    if not all(map(_is_countable, shapes)) or not all(_is_exact(value) for _, value in given):
        return TensorType("unknown", None)
    found = _results(name, shapes, given)
    if isinstance(found, str):
        raise MismatchError(found)
    fields = tuple(TensorType("unknown", shape) for shape in found)
    is_one = operators()[call.op].most_results == 1 or name in _ONE_RESULT
    return fields[0] if fields and is_one else TupleType(fields)


_BEYOND = 2**63
"""The package calculates with numbers below this."""


def _is_countable(shape: Shape | None) -> bool:
    return prod(dim for dim in shape or () if isinstance(dim, int)) < _BEYOND


def _is_exact(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_exact, value))
    return not isinstance(value, int) or -_BEYOND <= value < _BEYOND


def _value(call: Call, attribute: str) -> Iterator[Attribute | _Unknown]:
    """The value of an attribute; nothing if it has none, or its default."""
    try:
        value = call.attrs.get(attribute)
    except UnknownAttributeError:
        is_axis = attribute in _AXES and call.shape() is not None
        if not is_axis and attribute not in _PER_AXIS and attribute not in _SIZES:
            raise
        yield _Unknown()
    else:
        if value is not None and value != operators()[call.op].defaults.get(attribute):
            yield value


@lru_cache(4096)
def _results(
    name: str, shapes: tuple[Shape | None, ...], given: _Given
) -> tuple[Shape | None, ...] | str:
    """The shapes of the results, or why there are none."""
    ways = _Ways()
    for version in versions(name):
        if all(version.has(attribute) for attribute, _ in given):
            for places in version.placements(len(shapes)):
                ways.add(_Placed(version, places, shapes), given)
    if not ways.found:
        return ways.refused[0] if ways.refused else ()
    columns = range(max(map(len, ways.found)))
    return tuple(
        reduce(shared_shape, [each[at] for each in ways.found if at < len(each)]) for at in columns
    )


@dataclass(frozen=True, slots=True)
class _Placed:
    """A version of an operator, and which of its operands have which shapes."""

    version: Version
    places: tuple[int, ...]
    shapes: Shapes

    def results(self, attrs: Mapping[str, Attribute]) -> tuple[Shape | None, ...] | str:
        """
        What the package says, as far as it says the same of numbers in place of the dimensions
        that are not known: in some places it takes those for 0.
        """
        found = self.version.results(self.places, self.shapes, attrs)
        for numbers in _with_numbers(self.shapes):
            other = self.version.results(self.places, numbers, attrs)
            if isinstance(found, str):
                found = found if isinstance(other, str) else (None,) * len(other)
            elif not isinstance(other, str):
                found = tuple(map(_checked, found, other))
        return found


def _with_numbers(shapes: Shapes) -> Iterator[Shapes]:
    """`shapes` with 1 in place of all names, and with another number in place of each."""
    names = sorted({dim for shape in shapes for dim in shape or () if isinstance(dim, str)})
    for first, step in ((1, 0), (1009, 2)) if names else ():
        numbers: dict[Dim, Dim] = {name: first + step * at for at, name in enumerate(names)}
        yield [
            None if shape is None else tuple(numbers.get(dim, dim) for dim in shape)
            for shape in shapes
        ]


def _checked(one: Shape | None, other: Shape | None) -> Shape | None:
    if one is None or other is None or len(one) != len(other):
        return None
    pairs = zip(one, other, strict=True)
    return tuple(UNKNOWN_DIM if differ(dim, number) else dim for dim, number in pairs)


def _of_rank(shape: Shape | None) -> Shape | None:
    return None if shape is None else (UNKNOWN_DIM,) * len(shape)


@dataclass(slots=True)
class _Ways:
    """The results of all ways in which a call may be meant, and why others are refused."""

    found: list[tuple[Shape | None, ...]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def add(self, placed: _Placed, given: _Given) -> None:
        """Where some sampled values are refused, others may give other dimensions."""
        results = [placed.results(attrs) for attrs in _samples(placed, given)]
        self.refused += [each for each in results if isinstance(each, str)]
        found = [each for each in results if not isinstance(each, str)]
        is_exact = all(name in _AXES for name, value in given if isinstance(value, _Unknown))
        if len(found) < len(results) and not is_exact:
            found = [tuple(map(_of_rank, each)) for each in found]
        self.found += found


def _samples(placed: _Placed, given: _Given) -> Iterator[Mapping[str, Attribute]]:
    """The attributes without those that are unknown, and with a few values of each of these."""
    known = {name: value for name, value in given if not isinstance(value, _Unknown)}
    unknown = [name for name, value in given if isinstance(value, _Unknown)]
    first = placed.shapes[0] if placed.shapes else None
    rank = 0 if first is None else len(first)
    required = [name for name in unknown if placed.version.requires(name)]
    for each in _values(required[0], rank) if required else (None,):
        fixed = {**known, required[0]: each} if required else known
        yield fixed
        for name in unknown:
            if name not in required:
                yield from ({**fixed, name: value} for value in _values(name, rank))


def _values(name: str, rank: int) -> Iterator[Attribute]:
    """Values of an attribute, all that are possible if it says a dimension."""
    if name in _AXES:
        yield from range(rank + 1)
    elif name in _SIZES:
        yield from _SAMPLES
    elif rank > 2:
        yield from ((size,) * ((rank - 2) * _PER_AXIS[name]) for size in _SAMPLES)
