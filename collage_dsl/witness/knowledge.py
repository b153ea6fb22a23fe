"""What the operators and conditions of one reading of a pattern say of its values, as facts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from collage_dsl.language.reasoning.claims.list_relations import lists_of
from collage_dsl.language.reasoning.claims.relations import Claim, claims
from collage_dsl.language.reasoning.claims.required_calls import Called, required_calls
from collage_dsl.language.reasoning.conclusions.exclusion import begin, related
from collage_dsl.language.reasoning.conclusions.premises import ALL_RELATIONS
from collage_dsl.language.reasoning.values.assuming import assume
from collage_dsl.language.reasoning.values.domain import Values
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.terms import renamed
from collage_dsl.rules.condition import (
    All,
    And,
    Attr,
    AttrOf,
    Constant,
    Element,
    Expression,
    Has,
    Holds,
    Max,
    Min,
    Range,
    Uses,
    ValueOf,
    every_part,
    names,
    parts,
    rebuilt,
)
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    FieldOf,
    ListOf,
    Operand,
    Pattern,
    Reference,
    TupleOf,
)
from collage_dsl.witness.reading import Reading
from collage_dsl.witness.ways import Said, ways

_MOST_ROUNDS = 3
"""Conditions and operators are asked again at most so often, while there are new facts."""


@dataclass(frozen=True, slots=True)
class Condition:
    """
    A condition as it is written: in which use of a pattern, and in the brackets of which part.
    `last` is the last part that it asks about.
    """

    written: Expression
    use: int
    at: int | None
    last: int
    is_about_the_graph: bool
    """Whether it asks about uses, elements or a predicate, which are known last."""
    is_about_elements: bool
    """Whether it asks about elements, but not about uses or a predicate."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A reading, its conditions, and what its operators say. Part 3 has the name `v3`."""

    reading: Reading
    conditions: tuple[Condition, ...]
    calls: dict[int, Called]
    claims: tuple[Claim, ...]
    same: dict[str, str]
    fields: dict[str, dict[int, str]]
    lists: frozenset[str]
    numbers: tuple[int | float | str | tuple[int, ...], ...]
    """The plain values that conditions name, each once."""

    def name(self, part: int) -> str:
        return self.same.get(f"v{part}", f"v{part}")

    def attribute(self, part: int, name: str) -> Attr:
        return self.calls[part].attribute(name)

    def ways(self, dims: Values) -> Iterator[tuple[Facts, Said]]:
        """
        What is known at first in each way in which the conditions can hold, and what they then
        say. Dimensions are among `dims`.
        """
        attributes = {n: v for call in self.calls.values() for n, v in call.attributes().items()}
        facts = Facts(attributes, lists=self.lists, dims=dims)
        begin(facts, self.claims)
        for said in ways(map(self.translated, self.conditions)):
            if facts.possible and (found := self.settled(facts.copy(), said)):
                yield found, said

    def settled(self, facts: Facts, said: Said) -> Facts | None:
        """`facts` with what follows from what is `said` and from operators; None if nothing can."""
        for _ in range(_MOST_ROUNDS):
            for condition in said:
                if not assume([facts], condition):
                    return None
            if not facts.news:
                break
            if not related([facts], self.claims):
                return None
        return facts

    def translated(self, condition: Condition) -> Expression:
        """The condition about the parts."""
        bound = self.reading.uses[condition.use].names
        there = _answered(condition.written, bound)
        whole = renamed(there, lambda name: self.name(bound[name]) if name in bound else f"?{name}")
        return self.with_attributes(_of_ends(whole), condition)

    def with_attributes(self, expression: Expression, condition: Condition) -> Expression:
        match expression:
            case Attr(name) if condition.at is not None:
                return self.attribute(condition.at, name)
            case AttrOf(of, name):
                for part, call in self.calls.items():
                    if self.name(part) == of:
                        return call.attribute(name)
                return expression
            case _:
                return rebuilt(expression, partial(self.with_attributes, condition=condition))


def knowledge(reading: Reading) -> Knowledge:
    bindings = [
        Binding(f"v{at}", plain)
        for at, part in enumerate(reading.parts)
        if (plain := _plain(reading, at)) is not None
    ]
    pattern = Pattern("", (), tuple(bindings), f"v{reading.results[0]}")
    found, named = required_calls(pattern, frozenset(binding.name for binding in bindings))
    calls = {int(call.result[1:]): call for call in found}
    said = [claim for call in found for claim in claims(call, ALL_RELATIONS)]
    conditions = tuple(_conditions(reading))
    lists = frozenset(name for call in found for _, name in lists_of(call)) | frozenset(named.lists)
    numbers = dict.fromkeys(n for c in conditions for n in _numbers(c.written))
    return Knowledge(
        reading, conditions, calls, tuple(said), named.same, named.fields, lists, tuple(numbers)
    )


def _plain(reading: Reading, at: int) -> Operand | None:
    part = reading.parts[at]
    operands = tuple(Reference(f"v{of}") for of in part.of)
    match part.says:
        case Call():
            return Call((part.op,), operands)
        case TupleOf():
            return TupleOf(operands)
        case FieldOf(_, index):
            return FieldOf(operands[0], index)
        case ListOf():
            return part.says
        case _:
            return None


def _conditions(reading: Reading) -> Iterator[Condition]:
    for at, part in enumerate(reading.parts):
        if isinstance(part.says, Call):
            for where in part.says.attributes:
                yield _condition(reading, where.condition, part.frame, at)
    for number, use in enumerate(reading.uses):
        for where in use.pattern.conditions:
            yield _condition(reading, where.condition, number, None)


def _condition(reading: Reading, written: Expression, use: int, at: int | None) -> Condition:
    bound = reading.uses[use].names
    asked = [bound[name] for name in names(written) if name in bound]
    last = max([*asked, at if at is not None else 0])
    elements = _has(written, (ValueOf, Min, Max, All))
    later = _has(written, (Uses, Holds))
    return Condition(written, use, at, last, elements or later, elements and not later)


def _has(expression: Expression, kinds: tuple[type[Expression], ...]) -> bool:
    return any(isinstance(part, kinds) for part in every_part(expression))


def _answered(expression: Expression, bound: dict[str, int]) -> Expression:
    """`expression` with the answers to whether a value is there."""
    if isinstance(expression, Has):
        return Constant(expression.of in bound)
    return rebuilt(expression, partial(_answered, bound=bound))


def _of_ends(expression: Expression) -> Expression:
    """`expression` with `all(c > 0)` as a condition on the least and the greatest element."""
    match expression:
        case All(condition):
            return And(_with_element(condition, Min), _with_element(condition, Max))
        case _:
            return rebuilt(expression, _of_ends)


def _with_element(expression: Expression, end: type[Min] | type[Max]) -> Expression:
    if isinstance(expression, Element):
        return end(expression.of)
    return rebuilt(expression, partial(_with_element, end=end))


def _numbers(expression: Expression) -> Iterator[int | float | str | tuple[int, ...]]:
    if isinstance(expression, Constant):
        values = expression.value
        if values is not None:
            yield values  # type: ignore[misc]
        for each in values if isinstance(values, tuple) else ():
            if each is not None:
                yield each  # type: ignore[misc]
    if isinstance(expression, Range):
        yield from (expression.least, expression.most)
    for part in parts(expression):
        yield from _numbers(part)
