"""Find the operator calls that are part of every match, and name the values between them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import count

from collage_dsl.language.reasoning.operators.attribute_ranges import ranges
from collage_dsl.language.reasoning.values.domain import Values
from collage_dsl.language.reasoning.values.subjects import subject, subject_of_dtype
from collage_dsl.rules.condition import Attr
from collage_dsl.rules.pattern import (
    Call,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.source import Span

_LARGEST = 2**53
"""Larger whole numbers are not exact where they are stored as floats."""


@dataclass(frozen=True)  # without slots, for the cached property
class Called:
    """
    A call that is part of every match, with the names of its value and its operands.

    Values without a name get one that no user can write: `2.0` is the first operand of the third
    call, `s[1]` a field of `s`. `number` distinguishes the attributes of different calls.

    A path, or a chain of repeated calls, stands for a call of what it is from, and of any other
    tensor that its calls take.
    """

    call: Call
    result: str
    operands: tuple[str, ...]
    number: int
    names: "Names" = field(compare=False, repr=False)
    is_path: bool = False

    @property
    def span(self) -> Span | None:
        return self.call.span

    @property
    def results(self) -> Mapping[int, str]:
        """The tensors that it gives, as far as the pattern names them, by their place."""
        return self.names.fields.get(self.result) or {0: self.result}

    @cached_property
    def values(self) -> frozenset[str]:
        """The names of all values that the call takes and gives."""
        given = (name for at in range(len(self.operands)) for name in self.tensors(at))
        fields = self.names.fields.get(self.result, {}).values()
        return frozenset((self.result, *fields, *self.operands, *given))

    @cached_property
    def subjects(self) -> frozenset[str]:
        """What facts about its attributes and its values are about, but for dtypes."""
        return frozenset(map(subject, self.values)) | {str(self.number)}

    @cached_property
    def subjects_of_dtypes(self) -> frozenset[str]:
        """What facts about its attributes and the dtypes of its values are about."""
        return frozenset(map(subject_of_dtype, self.values)) | {str(self.number)}

    @cached_property
    def all_subjects(self) -> frozenset[str]:
        return self.subjects | self.subjects_of_dtypes

    def tensors(self, at: int) -> tuple[str, ...]:
        """
        The operand at the place `at`, or the tensors of the tuple that is written there: of a tuple
        of any length, the first.
        """
        name = self.operands[at]
        return self.names.tuples.get(name, (self.names.each.get(name, name),))

    def written(self, at: int) -> int | None:
        """The whole number that the pattern writes for the operand at the place `at`."""
        match self.call.operands[at]:
            case Number(value, tolerance=0.0) if abs(value) < _LARGEST and value == int(value):
                return int(value)
            case _:
                return None

    def attribute(self, name: str) -> Attr:
        return _attribute(self.number, name)

    def attributes(self) -> Mapping[str, Values]:
        """The values that its attributes may have in all of its operators."""
        known = {} if self.call.kinds else ranges(self.call.ops)
        return {self.attribute(name).name: values for name, values in known.items()}


@lru_cache(4096)  # relations ask for them often
def _attribute(number: int, name: str) -> Attr:
    return Attr(f"{number}.{name}")


@dataclass(slots=True)
class Names:
    """
    The names of the values of a pattern. `same` has the names that stand for a value with another
    name: `a = s.0;`. `tuples` are the names in written tuples, `each` that of the first field of a
    tuple of any length, `fields` those of the other projections, by the name of what they are
    projected from. `lists` and `numbers` are those that
    the pattern writes. `flat` are calls of two operands that give the same as the flat calls, and
    `trees` the flat calls by the names of their results.
    """

    same: dict[str, str] = field(default_factory=dict)
    tuples: dict[str, tuple[str, ...]] = field(default_factory=dict)
    each: dict[str, str] = field(default_factory=dict)
    fields: dict[str, dict[int, str]] = field(default_factory=dict)
    lists: dict[str, ListOf] = field(default_factory=dict)
    numbers: dict[str, Number] = field(default_factory=dict)
    flat: list[Called] = field(default_factory=list)
    trees: dict[str, Flat] = field(default_factory=dict)
    paths: list[Called] = field(default_factory=list)

    def of(self, operand: Operand, otherwise: str) -> str:
        """The name of `operand`, which is `otherwise` if nothing else gives it one."""
        match operand:
            case Reference(name):
                return self.same.get(name, name)
            case FieldOf(inner, index):
                return self.projected(self.of(inner, otherwise), index)
            case ListOf():
                self.lists[otherwise] = operand
            case Number():
                self.numbers[otherwise] = operand
            case TupleOfEach(part):
                self.each[otherwise] = self.of(part, f"{otherwise}[*]")
            case TupleOf(parts):
                named = enumerate(parts)
                self.tuples[otherwise] = tuple(self.of(p, f"{otherwise}[{i}]") for i, p in named)
        return otherwise

    def projected(self, name: str, index: int) -> str:
        written = self.tuples.get(name, ())
        if index < len(written):
            return written[index]
        return self.fields.setdefault(name, {}).setdefault(index, f"{name}[{index}]")


def required_calls(pattern: Pattern, required: frozenset[str]) -> tuple[tuple[Called, ...], Names]:
    """The calls in every match, which are bound to names in `required`, outside alternatives."""
    names, numbers, found = Names(), count(), list[Called]()
    for binding in pattern.bindings:
        if binding.name in required:
            name = names.of(binding.value, binding.name)
            if name != binding.name:
                names.same[binding.name] = name
            found += _calls(binding.value, binding.name, names, numbers)
    return tuple(found), names


def _calls(operand: Operand, name: str, names: Names, numbers: Iterator[int]) -> Iterator[Called]:
    """The calls in `operand`, whose value is called `name` if nothing else gives it a name."""
    match operand:
        case Call(operands=operands, optional=optional):
            number = next(numbers)
            inside = [(inner, f"{number}.{at}") for at, inner in enumerate(operands)]
            given = tuple(names.of(inner, otherwise) for inner, otherwise in inside)
            yield Called(operand, name, given, number, names)
            inside = inside[:1] if optional else inside
        case Flat(operands=operands):
            number = next(numbers)
            inside = [(inner, f"{number}.{at}") for at, inner in enumerate(operands)]
            values = [names.of(*each) for each in inside if not isinstance(each[0], Number)]
            names.flat += _in_turn(operand, name, values, number, names)
            names.trees[name] = operand
        case PathFrom(ops, origin, least, kinds=kinds) | Repeat(
            Call(ops, (origin, *_), kinds=kinds), least
        ):
            number = next(numbers)
            inside = [(origin, f"{number}.0")]
            call = Call(ops, (origin,), optional=not least, kinds=kinds, span=operand.span)
            given = names.of(*inside[0]), f"{number}.1"
            names.paths.append(Called(call, name, given, number, names, is_path=True))
        case PatternCall(operands=(first, *_), optional=True):
            inside = [(first, f"{next(numbers)}.0")]
        case TupleOf(fields):
            inside = [(inner, f"{name}[{at}]") for at, inner in enumerate(fields)]
        case TupleOfEach(inner):
            inside = [(inner, f"{name}[*]")]
        case FieldOf(inner):
            inside = [(inner, name)]
        case _:
            return
    for inner, otherwise in inside:
        yield from _calls(inner, otherwise, names, numbers)


def _in_turn(
    flat: Flat, name: str, values: Sequence[str], number: int, names: Names
) -> Iterator[Called]:
    """Calls that give what a flat call gives: its values in turn, and then any constant."""
    for at in range(len(values)):
        one = f"{number}+{at}" if at else values[0]
        is_last = at == len(values) - 1
        other = f"{number}+" if is_last else values[at + 1]
        call = Call((flat.op,), (Reference(one), Reference(other)), span=flat.span)
        yield Called(call, name if is_last else f"{number}+{at + 1}", (one, other), number, names)
