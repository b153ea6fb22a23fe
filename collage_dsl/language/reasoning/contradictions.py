"""Report conditions of a pattern that exclude each other, and conditions that always hold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from collage_dsl.diagnostics import Note
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import MAX_WARNINGS, Findings, quoted
from collage_dsl.language.reasoning.attribute_values import PER_AXIS
from collage_dsl.language.reasoning.dimension_relations import dimension_relations
from collage_dsl.language.reasoning.dtype_relations import dtype_relations
from collage_dsl.language.reasoning.facts import MOST_WAYS, Facts, assume
from collage_dsl.language.reasoning.inner_uses import use_claims
from collage_dsl.language.reasoning.rank_relations import rank_relations
from collage_dsl.language.reasoning.relations import Claim, claims
from collage_dsl.language.reasoning.required_calls import Called, Names, required_calls
from collage_dsl.language.reasoning.terms import terms
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    All,
    And,
    Attr,
    AttrOf,
    Bytes,
    Calculate,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Each,
    Expression,
    Has,
    Holds,
    Item,
    Max,
    Min,
    Not,
    Rank,
    Shape,
    Size,
    Uses,
    Value,
    ValueOf,
    Where,
    Within,
    parts,
    rebuilt,
)
from collage_dsl.rules.pattern import Pattern
from collage_dsl.source import Span

MOST_CONDITIONS = 100
MOST_CALLS = 40
"""Only this many conditions and calls are examined. The rest cannot make a finding wrong."""

MOST_LOOKING = 20_000
"""After this much effort in one file, the alternatives of an `or` are no longer examined."""
MOST_EXPLAINING = 20_000
"""After this much effort in one file, messages no longer say why a condition always/never holds."""


@dataclass(frozen=True, slots=True)
class Condition:
    """
    A condition of a pattern. `size` is the effort of assuming it.

    An `implied` one comes from the dimensions of a parameter; it may repeat what is known.
    """

    expression: Expression
    span: Span
    implied: bool = False
    size: int = 1


Premise = Condition | Claim

ALL_RELATIONS = (dtype_relations, rank_relations, dimension_relations)
"""What operators say of their calls. What they say first is shown first."""


@dataclass(slots=True)
class Effort:
    """
    The work done so far for the patterns of one file, in parts of conditions assumed.

    `looking` is for examining conditions in more than one way, `explaining` for finding reasons.
    """

    looking: int = 0
    explaining: int = 0


def check_contradictions(
    pattern: Pattern,
    written: ast.Pattern,
    required: frozenset[str],
    implied: Sequence[Where],
    findings: Findings,
    effort: Effort,
) -> None:
    """
    Report conditions of `pattern` that can never hold, alone or together, conditions that always
    hold, and list items that are impossible. `required` are the names that every match binds,
    `implied` the conditions made from dimensions of parameters. The work is added to `effort`.
    """
    found, names = required_calls(pattern, required)
    calls = found[:MOST_CALLS]
    conditions = tuple(islice(_conditions(pattern, calls, names, implied), MOST_CONDITIONS))
    said = [claim for call in calls for claim in claims(call, ALL_RELATIONS)]
    said += use_claims(pattern, calls)
    _Checker(calls, tuple(said), conditions, findings, effort).run(_by_span(written))


def _conditions(
    pattern: Pattern, calls: Sequence[Called], names: Names, implied: Sequence[Where]
) -> Iterator[Condition]:
    """Conditions in the order of examination: attributes, dimensions, `where` statements."""
    for call in calls:
        if not call.call.optional:
            for where in call.call.attributes:
                if where.span is not None and _has_elements(where.condition):
                    expression = _named(_numbered(where.condition, call), names, calls)
                    yield Condition(expression, where.span, size=_size(expression))
    known = {id(where) for where in implied}
    for where in pattern.conditions:
        if where.span is not None:
            is_implied = id(where) in known
            expression = _named(where.condition, names, calls)
            yield Condition(expression, where.span, is_implied, _size(expression))


def _has_elements(expression: Expression) -> bool:
    """Whether no `name[*]` in it can be an empty list, of which every condition holds."""
    match expression:
        case Each(Attr(name)):
            return name in PER_AXIS
        case _:
            return all(map(_has_elements, parts(expression)))


def _numbered(expression: Expression, call: Called) -> Expression:
    """Put the number of `call` into attribute names, so that those of two calls differ."""
    if isinstance(expression, Attr):
        return call.attribute(expression.name)
    return rebuilt(expression, partial(_numbered, call=call))


def _named(expression: Expression, names: Names, calls: Sequence[Called]) -> Expression:
    """
    `expression` with the names that represent its values, so that equal values have one name. An
    attribute of a call that is part of every match has the name that it has in that call.
    """
    match expression:
        case Dtype(of) | Rank(of) | DimAt(of) | Shape(of) | Size(of) | Bytes(of) | Uses(of):
            return replace(expression, of=names.same.get(of, of))
        case ValueOf(of) | Min(of) | Max(of):
            return replace(expression, of=names.same.get(of, of))
        case AttrOf(of, name):
            result = names.same.get(of, of)
            found = (c for c in calls if c.result == result and not c.call.optional)
            return next((call.attribute(name) for call in found), expression)
        case _:
            return rebuilt(expression, partial(_named, names=names, calls=calls))


def check_twice(named: Sequence[tuple[Value, Span]], findings: Findings) -> None:
    """Report each value that is named a second time."""
    first: dict[Value, Span] = {}
    for value, span in named:
        if value in first:
            note = Note("named here first", first[value])
            message = f"{quoted(span, 'the other condition')} is named twice"
            findings.warning("W0316", span, message, "take one of them out", (note,))
        first.setdefault(value, span)


class _Checker:
    def __init__(
        self,
        calls: tuple[Called, ...],
        claims: tuple[Claim, ...],
        conditions: tuple[Condition, ...],
        findings: Findings,
        effort: Effort,
    ) -> None:
        self.calls = calls
        self.claims = claims
        self.conditions = conditions
        self.findings = findings
        self.effort = effort
        self.vain = 0
        self.attributes = {name: v for call in calls for name, v in call.attributes().items()}

    def run(self, written: dict[tuple[int, int], ast.Expression]) -> None:
        ways = self.related([self.start(self.claims)])
        if not ways:
            self.contradiction(self.claims)
            return
        said: list[Condition] = []
        for at, condition in enumerate(self.conditions):
            before: tuple[Premise, ...] = (*self.claims, *self.conditions[:at])
            self.effort.looking += self.effort_of(ways[1:], condition)
            if self.effort.looking > MOST_LOOKING and len(ways) > 1:
                self.conditions = self.conditions[:at]
                break
            if not condition.implied and self.follows(ways, condition):
                self.needless(condition, before)
                said.append(condition)
            ways = self.related(assume(ways, condition.expression, most=self.most_ways))
            if not ways:
                self.contradiction((*before, condition))
                return
        for condition in self.conditions:  # again, with the facts from later conditions
            ways = self.related(assume(ways, condition.expression, most=self.most_ways))
        if not ways:
            self.contradiction((*self.claims, *self.conditions))
            return
        for condition in self.conditions:
            expression = written.get((condition.span.start, condition.span.end))
            if expression is not None and condition not in said:
                self.check_items(ways, condition, expression)

    def start(self, claims: Sequence[Claim]) -> Facts:
        """The facts that follow from the operators alone."""
        facts = Facts(self.attributes)
        for claim in claims:
            claim.once(facts)
        return facts

    def related(self, ways: list[Facts]) -> list[Facts]:
        return _related(ways, self.claims)

    def effort_of(self, ways: Sequence[Facts], condition: Condition) -> int:
        """The effort of assuming `condition` and then applying what the operators require."""
        return len(ways) * (condition.size + len(self.calls))

    @property
    def most_ways(self) -> int:
        return MOST_WAYS if self.effort.looking <= MOST_LOOKING else 1

    @property
    def is_tired(self) -> bool:
        return self.effort.explaining > MOST_EXPLAINING

    # Conditions that can never hold.

    def contradicts(self, premises: Sequence[Premise]) -> bool:
        claims = tuple(premise for premise in premises if isinstance(premise, Claim))
        ways = [self.start(claims)]
        for _ in range(2):
            for premise in premises:
                if isinstance(premise, Condition):
                    self.effort.explaining += self.effort_of(ways, premise)
                    ways = assume(ways, premise.expression)
            ways = _related(ways, claims)
        return not ways

    def needed(self, premises: Sequence[Premise], others: Sequence[Premise] = ()) -> list[Premise]:
        """
        A minimal part of `premises` that cannot hold together with `others`.

        All of `premises` cannot. Later premises are preferred. Divides by halves, as QuickXplain
        does (Junker 2004). After MOST_EXPLAINING the rest is kept without a test.
        """
        if self.is_tired:
            return list(premises)
        if self.contradicts(others):
            return []
        if len(premises) == 1:
            return list(premises)
        middle = len(premises) // 2
        first = self.needed(premises[:middle], (*premises[middle:], *others))
        return first + self.needed(premises[middle:], (*first, *others))

    def reason(self, premises: Sequence[Premise], last: Condition) -> tuple[Note, ...]:
        """Notes on the premises that contradict `last`; none if the search takes too long."""
        if self.is_tired:
            return ()
        found = [one for one in self.needed((*premises, last)) if one is not last]
        return () if self.is_tired else _notes(found)

    def contradiction(self, premises: Sequence[Premise]) -> None:
        *others, last = self.needed(premises)
        if last.span is None:
            return
        if isinstance(last, Claim):
            message = f"no value has the dtype and rank that {_operators(others)} and this need"
            hint = _says((*others, last))
            self.findings.error("E0320", last.span, message, hint, _notes(others))
            return
        if self.is_tired:
            message = "this can never hold together with the other conditions"
            self.findings.error("E0320", last.span, message)
            return
        if not others:
            self.findings.error("E0302", last.span, "this condition can never hold")
            return
        named = next((o for o in reversed(others) if isinstance(o, Condition)), None)
        what = quoted(named.span, "the other condition") if named else _operators(others)
        message = f"this can never hold together with {what}"
        self.findings.error("E0320", last.span, message, _says(others), _notes(others))

    # Conditions that always hold.

    def follows(self, ways: Sequence[Facts], condition: Condition) -> bool:
        """Whether all facts in `condition` are known in all `ways`, and it holds in each."""
        expression = condition.expression
        if not _is_plain(expression):
            return False
        asked = [
            term
            for term in terms(expression)
            if not isinstance(term, Has) and not _has_value(term, self.calls)
        ]
        if not all(way.known.issuperset(asked) for way in ways):
            return False
        return not any(
            self.related(assume([way.copy() for way in ways], part, holds=False))
            for part in _parts(expression)
        )

    def needless(self, condition: Condition, before: Sequence[Premise]) -> None:
        opposite = Condition(Not(condition.expression), condition.span)
        notes = self.reason(before, opposite)
        message = "this condition always holds"
        self.findings.warning("W0330", condition.span, message, notes=notes)

    # List items that are impossible.

    def check_items(
        self, ways: Sequence[Facts], condition: Condition, written: ast.Expression
    ) -> None:
        pairs = zip(_parts(condition.expression), _written_parts(written), strict=False)
        for part, expression in pairs:
            match part, expression:
                case Within(value, Constant(tuple() as choices)), ast.Operation(
                    "in", _, ast.List(items)
                ) if not isinstance(value, Each | Shape):
                    named = zip(choices, (item.span for item in items), strict=True)
                    check_twice(list(named), self.findings)
                    for choice, item in zip(choices, items, strict=True):
                        self.check_item(ways, condition, value, choice, item.span)

    def check_item(
        self,
        ways: Sequence[Facts],
        condition: Condition,
        value: Expression,
        choice: Value,
        span: Span,
    ) -> None:
        if self.vain > MAX_WARNINGS or any(way.may_be(value, choice) for way in ways):
            return
        chosen = Condition(Compare("==", value, Constant(choice)), span)
        copies = [way.copy() for way in ways]
        if self.related(assume(copies, chosen.expression)):
            return
        others = [c for c in self.conditions if c is not condition]
        notes = self.reason((*self.claims, *others), chosen)
        self.vain += 1
        message = (
            f"{quoted(span, 'the other condition')} is named in vain: it is never possible here"
        )
        self.findings.warning("W0331", span, message, "take it out of the list", notes)


def _size(expression: Expression) -> int:
    """The effort of assuming that `expression` holds."""
    match expression:
        case Constant(tuple() as choices):
            return 1 + len(choices) // 20
        case _:
            return 1 + sum(map(_size, parts(expression)))


def _related(ways: list[Facts], claims: tuple[Claim, ...]) -> list[Facts]:
    """Add what operators say, in both orders, because a later call may affect an earlier one."""
    both = (*claims, *claims[::-1])
    for way in ways:
        if way.is_related:
            continue
        way.is_related = True
        for claim in both:
            if way.possible:
                claim.again(way)
    return [way for way in ways if way.possible]


def _is_plain(expression: Expression) -> bool:
    """Whether `expression` is known as soon as all its terms are."""
    match expression:
        case Shape() | Each() | Item() | AttrOf() | All() | Holds() | Calculate("/" | "%"):
            return False
        case _:
            return all(map(_is_plain, parts(expression)))


def _has_value(term: object, calls: Sequence[Called]) -> bool:
    """Whether `term` is an attribute that always has a value."""
    if not isinstance(term, Attr):
        return False
    number, _, name = term.name.partition(".")
    call = next(call for call in calls if str(call.number) == number)
    known = [operators()[op].defaults for op in call.call.ops]
    return all(name not in defaults or defaults[name] is not None for defaults in known)


def _parts(expression: Expression) -> Iterator[Expression]:
    """The parts that `expression` joins by `and`."""
    match expression:
        case And(left, right):
            yield from _parts(left)
            yield from _parts(right)
        case _:
            yield expression


def _written_parts(expression: ast.Expression) -> Iterator[ast.Expression]:
    match expression:
        case ast.Operation("and", left, right) if left is not None:
            yield from _written_parts(left)
            yield from _written_parts(right)
        case _:
            yield expression


def _by_span(written: ast.Pattern) -> dict[tuple[int, int], ast.Expression]:
    """The written conditions by the start and end of their span."""
    found: dict[tuple[int, int], ast.Expression] = {}
    for statement in written.statements:
        match statement:
            case ast.Where(condition):
                found[condition.span.start, condition.span.end] = condition
            case ast.Binding(_, value):
                for condition in _attributes(value):
                    found[condition.span.start, condition.span.end] = condition
    return found


def _attributes(operand: ast.Operand) -> Iterator[ast.Expression]:
    match operand:
        case ast.OperatorCall():
            yield from operand.attributes
            for inner in operand.operands:
                yield from _attributes(inner)


def _notes(premises: Sequence[Premise]) -> tuple[Note, ...]:
    """Notes on at most five conditions, and on calls if there are fewer than three."""
    conditions = [Note("this is said too", p.span) for p in premises if isinstance(p, Condition)]
    claims = {p.called.number: p for p in premises if isinstance(p, Claim)}
    calls = [
        Note(f"because of what `{'` or `'.join(claim.ops[:3])}` takes and gives", claim.span)
        for claim in claims.values()
    ]
    return (*conditions[:5], *calls[: max(0, 3 - len(conditions))])


def _says(premises: Sequence[Premise]) -> str:
    """A hint with at most two different things that operators say."""
    said: dict[str, str] = {}
    for premise in premises:
        if isinstance(premise, Claim):
            said.setdefault(premise.relation.says, premise.says)
    return "; ".join(list(said.values())[:2])


def _operators(premises: Sequence[Premise]) -> str:
    names = dict.fromkeys(op for p in premises if isinstance(p, Claim) for op in p.ops)
    return f"`{next(iter(names))}`" if names else "the operators"
