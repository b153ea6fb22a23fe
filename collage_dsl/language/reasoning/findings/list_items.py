"""Report items of a list, and alternatives of an `or`, that never occur where the rest holds."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import MAX_WARNINGS, Findings, quoted
from collage_dsl.language.reasoning.conclusions.contradiction_words import notes_on
from collage_dsl.language.reasoning.conclusions.exclusion import Exclusion, related
from collage_dsl.language.reasoning.conclusions.premises import (
    Condition,
    Premise,
    size_of,
    written_parts,
)
from collage_dsl.language.reasoning.conclusions.remaining import left_for
from collage_dsl.language.reasoning.values.assuming import MOST_WAYS, assume
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    Calculate,
    Compare,
    Constant,
    Each,
    Expression,
    Or,
    Shape,
    Value,
    Within,
)
from collage_dsl.source import Span


def check_twice(named: Sequence[tuple[Value, Span]], findings: Findings) -> None:
    """Report each value that is named a second time."""
    first: dict[Value, Span] = {}
    for value, span in named:
        if value in first:
            note = Note("named here first", first[value])
            message = f"{quoted(span, 'the other condition')} is in the list twice"
            findings.warning("W0316", span, message, "remove one of them", (note,))
        first.setdefault(value, span)


def check_names_twice(items: Iterable[ast.Expression], findings: Findings) -> None:
    """Report each of `items` that is a name, and is in the list before."""
    named = (item for item in items if isinstance(item, ast.Name))
    check_twice([(name.text, name.span) for name in named], findings)


@dataclass(frozen=True, slots=True)
class _Words:
    """How messages speak of those things of which one has to hold."""

    some: str
    occur: str
    hint: str


_ITEM = _Words("values in this list", "occur", "remove it from the list")
_ALTERNATIVE = _Words("alternatives", "hold", "remove this alternative")


def _said(expression: Expression, written: ast.Expression) -> Condition:
    return Condition(expression, written.span, size=size_of(expression))


class ListItems:
    """The items of the lists, and the alternatives, that some conditions of a pattern name."""

    def __init__(
        self, exclusion: Exclusion, conditions: Sequence[Condition], findings: Findings
    ) -> None:
        self.exclusion = exclusion
        self.claims = exclusion.premises.claims
        self.conditions = conditions
        self.findings = findings
        self.vain = 0

    def check(self, ways: Sequence[Facts], condition: Condition, written: ast.Expression) -> None:
        """
        Report what is wrong in the lists and alternatives of a condition. All conditions hold in
        `ways`.
        """
        parts = list(written_parts(condition.expression, written))
        for part, expression in parts:
            match part, expression:
                case Within(value, Constant(tuple() as choices)), ast.Operation(
                    "in", _, ast.List(items)
                ) if not isinstance(value, Each | Shape):
                    named = zip(choices, (item.span for item in items), strict=True)
                    check_twice(list(named), self.findings)
                    chosen = [
                        Condition(Compare("==", value, Constant(choice)), item.span)
                        for choice, item in zip(choices, items, strict=True)
                    ]
                    others = self.beside(condition, parts, expression)
                    left = partial(self.left_for, others, part, expression)
                    is_plain = not isinstance(value, Calculate)
                    self.check_chosen(ways, chosen, others, _ITEM, left if is_plain else str)
                case Or(), ast.Operation("or"):
                    alternatives = list(written_parts(part, expression, "or"))
                    if len(alternatives) > MOST_WAYS:
                        continue
                    chosen = [_said(*each) for each in alternatives]
                    others = self.beside(condition, parts, expression)
                    self.check_chosen(ways, chosen, others, _ALTERNATIVE)

    def beside(
        self,
        condition: Condition,
        parts: Sequence[tuple[Expression, ast.Expression]],
        written: ast.Expression,
    ) -> tuple[Premise, ...]:
        """All that is said, except the part of `condition` that is `written`."""
        return (
            *self.claims,
            *(each for each in self.conditions if each is not condition),
            *(_said(*each) for each in parts if each[1] is not written),
        )

    def left_for(self, others: Sequence[Premise], part: Expression, written: ast.Expression) -> str:
        """The values that `others` leave for what a list is compared with; may be empty."""
        return left_for(self.exclusion, self.exclusion.ways(others), part, written)

    def check_chosen(
        self,
        ways: Sequence[Facts],
        chosen: Sequence[Condition],
        others: Sequence[Premise],
        words: _Words,
        left: Callable[[], str] = str,
    ) -> None:
        """
        Report those of the conditions `chosen`, of which one has to hold, that never do beside
        `others`. If all of them never hold, the pattern never matches; `left` then says what does.
        """
        if self.vain > MAX_WARNINGS:
            return
        vain = [each for each in chosen if self.is_vain(ways, each)]
        if len(vain) == len(chosen) and not self.exclusion.is_tired:
            last = vain[-1]
            found = [one for one in self.exclusion.needed((*others, last)) if one is not last]
            why = "; ".join(filter(None, (left(), self.exclusion.why((*found, last)))))
            message = f"none of the {words.some} can {words.occur} here"
            self.findings.error("E0320", last.span, message, why, notes_on(found))
            return
        for each in vain:
            self.vain += 1
            message = f"{quoted(each.span, 'the other condition')} can never {words.occur} here"
            notes = notes_on(self.exclusion.reason(others, each))
            self.findings.warning("W0331", each.span, message, words.hint, notes)

    def is_vain(self, ways: Sequence[Facts], chosen: Condition) -> bool:
        return not any(
            related(assume([way.copy()], chosen.expression), self.claims) for way in ways
        )
