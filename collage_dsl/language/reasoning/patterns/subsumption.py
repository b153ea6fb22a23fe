"""Decide whether every match of one pattern is also a match of another."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import islice, product
from typing import assert_never

from collage_dsl.language.reasoning.patterns.pattern_shape import always_bound, may_be_there
from collage_dsl.language.reasoning.values.terms import renamed
from collage_dsl.rules.condition import (
    And,
    Constant,
    Expression,
    Has,
    Not,
    Or,
    Where,
    all_of,
    rebuilt,
)
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    Excluded,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    Parameter,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)

_MOST_FORMS = 81
"""Each optional call is present, absent or still optional: for four of them, this covers all."""


@dataclass(frozen=True, slots=True)
class Form:
    """
    A pattern with its names replaced by numbers: its equations and its conditions. `names` are the
    operators and kinds of its calls, in order.
    """

    shape: tuple[object, ...]
    demands: frozenset[object]
    names: tuple[frozenset[str], ...]


def subsumes(larger: Pattern, smaller: Pattern) -> bool:
    """
    Whether each match of `smaller` is also one of `larger`.

    True if, for some choice of the optional calls of `larger`, both have the same equations, each
    call of `larger` has all operators of the one in `smaller`, and `larger` has no condition that
    `smaller` lacks. Else False, though the answer may be yes.
    """
    wanted = form(smaller)
    return any(
        found.shape == wanted.shape
        and found.demands <= wanted.demands
        and all(map(frozenset.issuperset, found.names, wanted.names))
        for found in _forms(larger)
    )


@lru_cache(256)  # each pattern of a target is compared with all others
def _forms(pattern: Pattern) -> tuple[Form, ...]:
    """The form of `pattern` for each choice of its optional calls."""
    return tuple(map(form, islice(_decided(pattern), _MOST_FORMS)))


@lru_cache(1024)
def form(pattern: Pattern) -> Form:
    """The pattern in a form that does not depend on its names."""
    numbering = _Numbering(pattern)
    shape = tuple(numbering.name(n) for n in pattern.results)
    demands = [
        part
        for where in pattern.conditions
        for part in all_of(numbering.demand(where.condition))
        if part != Constant(True)
    ]
    anchor = numbering.number(pattern.anchor)
    demanded = frozenset((*demands, *numbering.attributes))
    return Form((*shape, pattern.taps, anchor), demanded, tuple(numbering.named))


class _Numbering:
    """Numbers the names in the order in which they are reached from the result."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.values = pattern.values
        self.numbers: dict[str, int] = {}
        self.attributes: list[object] = []
        self.named: list[frozenset[str]] = []

    def name(self, name: str) -> object:
        """The number of a name; the first time, together with its value."""
        value = self.values.get(name)
        if isinstance(value, Reference):
            return self.name(value.name)
        if name in self.numbers:
            return self.numbers[name]
        self.numbers[name] = len(self.numbers)
        parameter = self.pattern.parameter(name)
        if parameter is not None:
            self.exclusions(parameter)
            return Parameter, self.numbers[name], parameter.constant
        return self.numbers[name], self.operand(self.values[name])

    def exclusions(self, parameter: Parameter) -> None:
        """Add a demand for each excluded source: a pattern that excludes less is larger."""
        if parameter.excluded is not None:
            number = self.numbers[parameter.name]
            self.attributes += [(Excluded, number, name) for name in parameter.excluded.names]

    def operand(self, operand: Operand) -> object:
        match operand:
            case Reference(name):
                return self.name(name)
            case Anything() | Number() | ListOf():
                return operand
            case Call(_, operands, attributes):
                number = len(self.named)
                self.named.append(frozenset(operand.names))
                found = tuple(map(self.operand, operands))
                self.attributes += [
                    (number, part)
                    for where in attributes
                    for part in all_of(self.demand(where.condition))
                ]
                modifiers = (operand.optional, operand.ordered, operand.shared)
                return Call, modifiers, found
            case Flat(op, operands, shared):
                return Flat, op, shared, tuple(map(self.operand, operands))
            case PatternCall(pattern, operands, optional):
                return PatternCall, form(pattern), optional, tuple(map(self.operand, operands))
            case TupleOf(fields):
                return TupleOf, tuple(map(self.operand, fields))
            case PathFrom(_, origin, least, most):
                return PathFrom, frozenset(operand.names), least, most, self.operand(origin)
            case TupleOfEach(field, least, most):
                return TupleOfEach, least, most, self.operand(field)
            case FieldOf(of, index):
                return FieldOf, index, self.operand(of)
            case Repeat(call, least, most):
                return Repeat, least, most, self.operand(call)
            case Either(choices):
                return Either, tuple(map(self.operand, choices))
            case _:
                assert_never(operand)

    def demand(self, condition: Expression) -> Expression:
        """
        `condition` with numbers instead of names.

        A name outside the equations has no number; a pattern as written has no condition on one.
        """
        return _simplified(renamed(condition, self.number))

    def number(self, name: str) -> str:
        while isinstance(value := self.values.get(name), Reference):
            name = value.name
        return str(self.numbers.get(name))


def _simplified(condition: Expression) -> Expression:
    condition = rebuilt(condition, _simplified)
    match condition:
        case Not(Constant(bool() as value)):
            return Constant(not value)
        case Or(Constant(True), _) | Or(_, Constant(True)):
            return Constant(True)
        case Or(Constant(False), other) | Or(other, Constant(False)):
            return other
        case And(Constant(True), other) | And(other, Constant(True)):
            return other
        case _:
            return condition


# The choices of present and absent optional calls.


def _decided(pattern: Pattern) -> Iterator[Pattern]:
    """`pattern`, and a variant of it for each choice of present and absent optional calls."""
    optional = [
        binding.name
        for binding in pattern.bindings
        if isinstance(binding.value, Call) and binding.value.optional
    ]
    for choices in product((None, True, False), repeat=len(optional)):
        yield _with(pattern, dict(zip(optional, choices, strict=True)))


def _with(pattern: Pattern, choices: Mapping[str, bool | None]) -> Pattern:
    bindings = tuple(_chosen(binding, choices.get(binding.name)) for binding in pattern.bindings)
    left = replace(pattern, bindings=bindings)
    present = may_be_there(left)
    sure = always_bound(left)
    conditions = tuple(
        Where(_given(where.condition, present, sure)) for where in pattern.conditions
    )
    return replace(left, conditions=conditions)


def _chosen(binding: Binding, is_there: bool | None) -> Binding:
    """`binding` with its optional call present or absent, or unchanged if `is_there` is None."""
    call = binding.value
    if is_there is None or not isinstance(call, Call):
        return binding
    return replace(binding, value=replace(call, optional=False) if is_there else call.operands[0])


def _given(condition: Expression, present: frozenset[str], sure: frozenset[str]) -> Expression:
    """Replace `has(b)` by true or false if `b` is always bound, or never."""
    match condition:
        case Has(of) if of not in present:
            return Constant(False)
        case Has(of) if of in sure:
            return Constant(True)
        case _:
            return rebuilt(condition, partial(_given, present=present, sure=sure))
