"""Report conditions of a pattern that exclude each other, and conditions that always hold."""

from collections.abc import Iterable, Sequence

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, quoted
from collage_dsl.language.reasoning.claims.relations import Claim
from collage_dsl.language.reasoning.conclusions.blame import (
    missing_axis,
    other_elements,
    place_of,
)
from collage_dsl.language.reasoning.conclusions.contradiction_words import (
    ORDERS,
    compared,
    either,
    excluding,
    most_telling,
    notes_on,
    operators_of,
    range_of,
    together_with,
)
from collage_dsl.language.reasoning.conclusions.exclusion import (
    MOST_LOOKING,
    Effort,
    Exclusion,
    related,
)
from collage_dsl.language.reasoning.conclusions.following import follows, is_known
from collage_dsl.language.reasoning.conclusions.premises import (
    Condition,
    Premise,
    by_span,
    premises_of,
    size_of,
    written_parts,
)
from collage_dsl.language.reasoning.conclusions.remaining import left_for
from collage_dsl.language.reasoning.conclusions.words_of_elements import of_places
from collage_dsl.language.reasoning.findings.list_items import ListItems
from collage_dsl.language.reasoning.findings.unusual import unusual_in
from collage_dsl.language.reasoning.values.assuming import MOST_WAYS, alternatives, assume
from collage_dsl.language.reasoning.values.domain import ANYTHING
from collage_dsl.language.reasoning.values.facts import Facts, values_of
from collage_dsl.language.reasoning.values.terms import root_of, terms
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    Attr,
    Compare,
    Comparison,
    Constant,
    DimAt,
    Each,
    Expression,
    Has,
    Max,
    Min,
    Not,
    Rank,
    ValueOf,
    Where,
    Within,
    all_of,
)
from collage_dsl.rules.pattern import Pattern

_POWERS = {2: "the square of a whole number", 3: "the cube of a whole number"}

_MOST_PREMISES = 60
"""A reason is not looked for in another order if there are more premises."""


class Contradictions:
    """
    Reports conditions of `pattern` that can never hold, alone or together, conditions that always
    hold, and list items and alternatives that are impossible. `implied` are the conditions made
    from dimensions of parameters. What the patterns say that are called in every match is taken
    together with it.
    The work is added to `effort`.
    """

    def __init__(
        self,
        pattern: Pattern,
        written: ast.Pattern,
        implied: Sequence[Where],
        findings: Findings,
        effort: Effort,
    ) -> None:
        self.exclusion = Exclusion(premises_of(pattern, implied), effort)
        self.written = by_span(written)
        self.findings = findings
        self.effort = effort
        self.calls = self.exclusion.premises.calls
        self.claims = self.exclusion.premises.claims
        self.conditions = self.exclusion.premises.conditions
        self.following: list[tuple[Condition, Sequence[Premise]]] = []
        """Conditions that always hold, with what comes before them."""
        self.excluding: Sequence[Premise] = self.claims
        self.holding: list[Facts] = []
        """The ways in which all conditions hold."""

    def check(self) -> None:
        """Report all but what only unusual models exclude; see `check_usual`."""
        conditions, looking = self.conditions, self.effort.looking
        ways = self.ways()
        if not ways:  # slowly, for the first condition that does not hold
            self.conditions, self.effort.looking = conditions, looking
            ways = self.ways(after_each=True)
        for condition, before in self.following:
            self.needless(condition, before)
        if not ways:
            self.contradiction(self.excluding)
            return
        said = [condition for condition, _ in self.following]
        items = ListItems(self.exclusion, self.conditions, self.findings)
        for condition in self.conditions:
            expression = self.expression_of(condition)
            if expression is not None and condition not in said:
                items.check(ways, condition, expression)
        self.holding = ways

    def ways(self, *, after_each: bool = False) -> list[Facts]:
        """
        The ways in which all conditions hold. What operators say is added before a condition that
        may follow from it, or that has alternatives; with `after_each`, after each condition. If no
        way is left, `excluding` is the premises so far.
        """
        self.following = []
        self.excluding = self.claims
        ways = [self.exclusion.start(self.claims)]
        if after_each:
            ways = self.related(ways)
        for at, condition in enumerate(self.conditions):
            if not ways:
                return []
            before: tuple[Premise, ...] = (*self.claims, *self.conditions[:at])
            self.effort.looking += self.exclusion.effort_of(ways[1:], condition)
            if self.effort.looking > MOST_LOOKING and len(ways) > 1:
                self.conditions = self.conditions[:at]
                break
            may_follow = not condition.implied and is_known(ways, condition.expression, self.calls)
            if may_follow:
                ways = self.settled(ways, self.conditions[:at])
            elif alternatives(condition.expression) > 1:
                ways = self.related(ways)
            if may_follow and follows(ways, condition.expression, self.claims):
                self.following.append((condition, before))
            self.excluding = (*before, condition)
            ways = assume(ways, condition.expression, most=self.most_ways)
            if after_each:
                ways = self.related(ways)
        if ways:
            self.excluding = (*self.claims, *self.conditions)
            ways = self.settled(ways, self.conditions)
        return ways

    def settled(self, ways: list[Facts], conditions: Sequence[Condition]) -> list[Facts]:
        """Add what operators say, and then again what `conditions` say, to which it adds."""
        ways = self.related(ways)
        for condition in conditions:
            ways = assume(ways, condition.expression, most=self.most_ways)
        return self.related(ways)

    def related(self, ways: list[Facts]) -> list[Facts]:
        return related(ways, self.claims)

    @property
    def most_ways(self) -> int:
        return MOST_WAYS if self.effort.looking <= MOST_LOOKING else 1

    # Conditions that can never hold.

    def expression_of(self, condition: Condition) -> ast.Expression | None:
        """The written `condition`; None if the pattern does not say it itself."""
        if condition.said is not None:
            return None
        return self.written.get((condition.span.start, condition.span.end))

    def contradiction(self, premises: Sequence[Premise]) -> None:
        found = self.exclusion.needed(premises)
        *others, last = found
        if last.span is None or self.is_of_one_call(found):
            return
        if (no_axis := missing_axis(self.exclusion, found, premises)) is not None:
            notes = notes_on([each for each in found if each is not no_axis.condition])
            place = no_axis.condition.span
            self.findings.error("E0320", place, no_axis.message, no_axis.hint, notes)
            return
        if isinstance(last, Claim):
            names = operators_of(others)
            message = f"no value has the dtype and shape that {names} and this one require"
            if {last.called} == {p.called for p in found if isinstance(p, Claim)}:
                message = f"no call of {operators_of(found)} takes these operands"
            why = self.exclusion.why([last, *others])
            notes = notes_on([each for each in others if each.span != last.span])
            self.findings.error("E0320", last.span, message, why, notes)
            return
        if self.exclusion.is_tired:
            message = "this can never hold together with the other conditions"
            why = self.needed_for(others, last) or self.exclusion.mismatch or self.exclusion.clash
            self.findings.error("E0320", last.span, message, why)
            return
        if not others:
            hint = self.alone(last)
            self.findings.error("E0302", last.span, "this condition can never hold", hint)
            return
        told = [each for each in others if isinstance(each, Condition)]
        named = most_telling([each for each in told if not self.is_unnamed(each)])
        needed = (
            ""
            if self.effort.explaining > MOST_LOOKING
            else self.needed_for([one for one in premises if one is not last], last)
        )
        is_plain = named is not None and not (named.implied or named.at_call)
        if needed and not is_plain:
            message, said = f"this can never hold: {needed.removesuffix(' here')}", ""
        else:
            what = together_with(named) if named else operators_of(others)
            message, said = f"this can never hold together with {what}", needed
        why = other_elements(self.exclusion, found) or self.exclusion.why(found, values=not needed)
        hint = "; ".join(filter(None, (self.either(named, last) or said, why)))
        if not (hint or needed):
            hint = of_places([each.expression for each in (*told, last)]) or "remove one of them"
        notes = (*notes_on(others), *_called(last))
        self.findings.error("E0320", place_of(self.exclusion, last), message, hint, notes)

    def is_unnamed(self, condition: Condition) -> bool:
        """Whether a condition is one on a list, which has no name that the user knows."""
        lists = self.exclusion.premises.lists
        asked = (term for term in terms(condition.expression) if isinstance(term, DimAt | Rank))
        return condition.implied and any(term.of in lists for term in asked)

    def needed_for(self, others: Sequence[Premise], last: Condition) -> str:
        """A hint that says which values the others leave for what `last` asks; may be empty."""
        written = self.expression_of(last)
        asked: Iterable[tuple[Expression, ast.Expression | None]]
        if written is None:
            asked = ((part, None) for part in all_of(last.expression))
        else:
            asked = written_parts(last.expression, written)
        said: list[Premise] = [*others]
        for part, place in asked:
            ways = self.exclusion.ways(said)
            tried = Condition(part, last.span, size=size_of(part))
            if self.exclusion.contradicts((*said, tried)):
                return left_for(self.exclusion, ways, part, place)
            said.append(tried)
        return ""

    def check_usual(self) -> None:
        """Warn of a condition that holds in no usual model, or a call that is in none."""
        unusual = unusual_in(self.exclusion, self.conditions, self.holding)
        if not self.holding or unusual is None:
            return
        given, found = unusual.given, self.exclusion.needed(unusual.premises)
        is_small = len(unusual.premises) <= _MOST_PREMISES
        if is_small and any(each in given for each in found):  # another order may do without
            found = self.needed_otherwise(given) or found
        if self.exclusion.is_tired or not any(isinstance(each, Condition) for each in found):
            return
        if not any(each in given for each in found):
            self.contradiction(found)
            return
        unusual.report(found, self.findings)

    def needed_otherwise(self, given: Sequence[Condition]) -> list[Premise]:
        """Premises that exclude each other without those `given`; empty if none are found."""
        premises: tuple[Premise, ...] = (*self.claims, *given, *self.conditions)
        if not self.exclusion.contradicts(premises):
            return []
        found = self.exclusion.needed(premises)
        return [] if any(each in given for each in found) else found

    def is_of_one_call(self, found: Sequence[Premise]) -> bool:
        """Whether a pattern that is called says all this, so that it is reported there."""
        places = {premise.span for premise in found}
        return len(places) == 1 and places <= self.exclusion.premises.places

    def alone(self, condition: Condition) -> str:
        """A hint on a condition that excludes itself."""
        written = self.expression_of(condition)
        if written is None:
            return ""
        said = list(written_parts(condition.expression, written))
        parts = [Condition(part, place.span, size=size_of(part)) for part, place in said]
        needed = {each.span for each in self.exclusion.needed(parts)} if len(parts) > 1 else set()
        if len(needed) > 1:
            return self.excluding_parts([each for each in said if each[1].span in needed])
        return next(self.range(*each) for each in said if each[1].span in needed or not needed)

    def excluding_parts(self, said: Sequence[tuple[Expression, ast.Expression]]) -> str:
        """A hint that names the parts of a condition, and what is left for the last of them."""
        hint = excluding([place for _, place in said])
        *others, (last, place) = said
        match last:
            case Compare(left=left) if not isinstance(left, Has):
                pass
            case Within():
                pass
            case _:
                return hint
        ways = self.exclusion.ways([Condition(part, at.span) for part, at in others])
        left_over = left_for(self.exclusion, ways, last, place).removesuffix(" here")
        is_plain = left_over and hint.endswith("exclude each other")
        return f"{hint}: {left_over}" if is_plain else hint

    def range(self, expression: Expression, written: ast.Expression) -> str:
        """A hint that says what is compared in vain."""
        match expression, written:
            case Compare(left=left, right=right), _ if left == right:
                return "both sides are the same"
            case Compare("==", product, Constant(int() as number)), _ if number > 0 and (
                root := root_of(product)
            ):
                power = _POWERS.get(root[1], f"a product of {root[1]} equal whole numbers")
                return f"`{number}` is not {power}"
            case (
                (Compare(left=left, right=Constant()) | Within(left)),
                ast.Operation(_, side, _),
            ) if side:
                return self.known_of(quoted(side.span, "the left side").strip("`"), left)
            case Compare(left=left, right=right), ast.Operation(_, one, other) if one:
                said = compared(quoted(one.span), quoted(other.span), self.possible(left, right))
                return said and said + _of_all_elements(left, right)
        return ""

    def known_of(self, text: str, left: Expression) -> str:
        """A hint that says what `left` may be before any condition, or each number of its list."""
        alone = self.exclusion.start(())
        each = Each(left) if isinstance(left, Attr) else left
        if values_of(alone, left) == ANYTHING != values_of(alone, each):
            return range_of(f"{text}[*]", values_of(alone, each))
        return range_of(text, values_of(alone, left))

    def possible(self, left: Expression, right: Expression) -> frozenset[Comparison]:
        """Those of `<`, `==` and `>` that can hold between two numbers."""
        place = self.conditions[0].span
        tried = {each: Condition(Compare(each, left, right), place) for each in ORDERS}
        return frozenset(o for o, each in tried.items() if not self.exclusion.contradicts((each,)))

    def either(self, one: Condition | None, other: Condition) -> str:
        first = None if one is None else self.expression_of(one)
        second = self.expression_of(other)
        return "" if first is None or second is None else either(first, second)

    # Conditions that always hold.

    def needless(self, condition: Condition, before: Sequence[Premise]) -> None:
        opposite = Condition(Not(condition.expression), condition.span)
        notes = notes_on(self.exclusion.reason(before, opposite))
        message = "this condition always holds"
        self.findings.warning("W0330", condition.span, message, "remove it", notes)


def _of_all_elements(left: Expression, right: Expression) -> str:
    """What to ask in place of a comparison with `value(c)`, which is every element of `c`."""
    match left, right:
        case (ValueOf(of), Min() | Max()) | (Min() | Max(), ValueOf(of)):
            return f"; `min({of}) != max({of})` asks whether its elements differ"
        case _:
            return ""


def _called(condition: Condition) -> tuple[Note, ...]:
    """A note on the place in a called pattern that says `condition`."""
    return () if condition.said is None else (Note("it says this", condition.said),)
