"""Report optional parts, alternatives and repetitions that the rest of a pattern excludes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, listed, quoted
from collage_dsl.language.reasoning.claims.path_relations import what_is_kept
from collage_dsl.language.reasoning.conclusions.contradiction_words import notes_on
from collage_dsl.language.reasoning.conclusions.exclusion import Effort, Exclusion
from collage_dsl.language.reasoning.conclusions.premises import (
    Condition,
    Premise,
    premises_in,
    what_is_said,
)
from collage_dsl.language.reasoning.findings.unusual import Unusual, unusual_in
from collage_dsl.language.reasoning.patterns.absence import needed_names
from collage_dsl.language.reasoning.patterns.kinds_of_calls import Alike
from collage_dsl.language.reasoning.patterns.pattern_shape import may_be_there
from collage_dsl.language.reasoning.patterns.ways_of_parts import (
    MOST_REPEATED,
    OpenPart,
    Way,
    kinds_in,
    one_of_each,
    open_parts,
    with_values,
)
from collage_dsl.language.reasoning.patterns.written_out import WrittenOut, written_out
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Compare, Shape, Where
from collage_dsl.rules.pattern import Pattern
from collage_dsl.source import Span

MOST_CHOICES = 150
MOST_OPERATORS = 200
MOST_CHOOSING = 20_000
"""
Only this many choices of a pattern are examined, or with the operators of calls by kind; and none
after this much effort in a file.
"""


class Choices:
    """
    Reports optional calls and alternatives of `pattern` that nothing matches where the rest does.
    The pattern can match as far as is known without its parts.
    """

    def __init__(self, pattern: Pattern, implied: Sequence[Where], effort: Effort) -> None:
        self.pattern = pattern
        self.implied = implied
        self.effort = effort
        self.written = written_out(pattern)
        asks_has = bool(needed_names(where.condition for where in pattern.conditions))
        self.search = _Search(self.written, implied, effort, asks_has=asks_has)

    def check(self, whole: Span, findings: Findings) -> None:
        """
        If no way of a part can match, the pattern never matches, which is an error at `whole`, its
        name. If only a compiled function can match a call by kind, it is a warning.
        """
        if self.search.check(whole, findings):
            return
        self.search.check_bounds(self.pattern, findings)
        if self.effort.choosing > MOST_CHOOSING or not kinds_in(self.written.pattern):
            return
        for alike in (what_is_kept, what_is_said):
            of = _Search(self.written, self.implied, self.effort, alike, MOST_OPERATORS)
            if of.possible(self.written) is None:
                of.report_kinds(whole, findings)
                return

    def match_usually(self) -> bool:
        """Whether usual models match with the parts in the first ways that were found."""
        known = self.search.matching
        return known is not None and _unusual_in(*known) is None

    def check_usual(self, findings: Findings) -> None:
        """Warn if no usual model matches with any way of a part."""
        _UsualSearch(self.written, self.implied, self.effort).check_usual(findings)


Chosen = frozenset[tuple[int, int]]
"""The numbers of parts, and which way each matches in."""


@dataclass(slots=True)
class _Search:
    """Looks for ways in which all parts of a pattern match together."""

    written: WrittenOut
    implied: Sequence[Where]
    effort: Effort
    alike: Alike | None = None
    left: int = MOST_CHOICES
    refusal: Exclusion | None = None
    """What excluded the first way that was not possible, of those examined last."""
    asks_has: bool = False
    """Whether a condition needs an optional name, so that it is asked whether calls are absent."""
    last: tuple[Exclusion, list[Facts]] | None = None
    """The premises that were examined last, and the ways in which they hold, if there are any."""
    matching: tuple[Exclusion, list[Facts]] | None = None
    """The first premises of this kind in which each part matches in one of its ways."""

    @property
    def is_tired(self) -> bool:
        """Whether no more ways are examined, so that the others may match."""
        return self.left <= 0 or self.effort.choosing > MOST_CHOOSING

    def parts(self, written: WrittenOut) -> Iterator[OpenPart]:
        return open_parts(written.pattern, written.required, self.alike)

    def check(self, whole: Span, findings: Findings) -> bool:
        """Report the ways in which parts never match; whether the pattern never matches."""
        covered: Chosen = frozenset()
        for part in self.parts(self.written):
            if self.is_tired:
                return False
            refused: list[tuple[Way, Exclusion]] = []
            lacking = 0
            for at, way in enumerate(part.ways):
                is_needed = self.is_reported(way) or len(refused) + lacking == at
                is_needed = is_needed or (way.without is not None and self.asks_has)
                if (part.number, at) in covered or not is_needed:
                    continue
                self.refusal = None
                found = self.taken(self.written, part, at)
                if found is not None:
                    covered |= found
                elif self.refusal is not None:
                    refused.append((way, self.refusal))
                else:
                    lacking += 1
            if refused and len(refused) + lacking == len(part.ways):
                self.report(part, [refusal for _, refusal in refused], whole, findings)
                return True
            for way, refusal in refused:
                self.report_way(way, refusal, findings)
        return False

    def check_bounds(self, pattern: Pattern, findings: Findings) -> None:
        """Report repeated calls of `pattern` that are always fewer than the upper bound."""
        required = self.written.required
        for part in open_parts(pattern, required, most_counts=MOST_REPEATED):
            if part.span is not None:
                self.check_bound(pattern, part, part.span, findings)

    def check_bound(
        self, pattern: Pattern, part: OpenPart, place: Span, findings: Findings
    ) -> None:
        refusal: Exclusion | None = None
        most = part.ways[-1].count
        for way in reversed(part.ways):
            most, self.refusal = way.count, None
            if self.possible(written_out(part.taken(pattern, way))) is not None:
                break
            refusal = self.refusal
        if refusal is not None and most < part.ways[-1].count:
            _, why = self.refused(refusal)
            message = f"no match has {f'more than {most}' if most else 'any'} of these calls"
            bounds = part.ways[0].count, most
            hint = _BOUNDS.get(bounds, "write `repeat[{}..{}]`").format(*bounds)
            findings.warning("W0314", place, message, "; ".join(filter(None, (why, hint))))

    def way(self, written: WrittenOut) -> Chosen | None:
        """One way in which all parts match together; None if there is none."""
        part = next(self.parts(written), None)
        if part is None:
            return frozenset()
        for at in range(len(part.ways)):
            if (found := self.taken(written, part, at)) is not None:
                return found
        return None

    def taken(self, written: WrittenOut, part: OpenPart, at: int) -> Chosen | None:
        """One way in which all match where `part` does in its way `at`; None if there is none."""
        if self.is_tired:
            return frozenset()
        tried = written_out(part.taken(written.pattern, part.ways[at]), written)
        if _lacks_parameter(tried.pattern):
            return None
        found = self.with_first_ways(tried)
        if found is None:
            found = self.possible(tried)
        return None if found is None else found | {(part.number, at)}

    def with_first_ways(self, written: WrittenOut) -> Chosen | None:
        """The first way of each part, if all match together; it is tried first, as most do."""
        found: set[tuple[int, int]] = set()
        last = written
        while (parts := one_of_each(self.parts(last))) and len(found) < MOST_CHOICES:
            firsts = {part.binding.name: part.ways[0].value for part in parts}
            last = written_out(with_values(last.pattern, firsts), last)
            found |= {(part.number, 0) for part in parts}
        if last is written or _lacks_parameter(last.pattern) or self.excluded(last):
            return None
        self.matching = self.matching or self.last
        return frozenset(found)

    def possible(self, written: WrittenOut) -> Chosen | None:
        """One way in which all parts match, if what is in every match is possible, else None."""
        if self.is_tired:
            return frozenset()
        if exclusion := self.excluded(written):
            self.refusal = self.refusal or exclusion
            return None
        return self.way(written)

    def excluded(self, written: WrittenOut) -> Exclusion | None:
        """What excludes that a pattern matches; None if that is not known."""
        self.left -= 1
        of_operators = self.alike is not None
        premises = premises_in(written, self.implied, of_operators=of_operators)
        exclusion = Exclusion(premises, Effort())
        ways = exclusion.ways(premises.all, most=0) or exclusion.ways(premises.all)
        self.count(exclusion, written)
        self.last = exclusion, ways
        return None if ways else exclusion

    def count(self, exclusion: Exclusion, written: WrittenOut) -> None:
        """Count the effort of examining premises."""
        size = len(exclusion.premises.calls) + len(written.pattern.bindings)
        self.effort.choosing += exclusion.effort.explaining + size

    # What is reported.

    def refused(self, exclusion: Exclusion) -> tuple[Sequence[Premise], str]:
        """The few premises that exclude each other, and why they do."""
        before = exclusion.effort.explaining
        needed = exclusion.needed(exclusion.premises.all)
        self.effort.choosing += exclusion.effort.explaining - before
        return needed, exclusion.why(needed)

    def report(
        self, part: OpenPart, ways: Sequence[Exclusion], whole: Span, findings: Findings
    ) -> None:
        """Report that no way of `part` can match: what excludes the first one that says why."""
        reasons = [self.refused(ways[0])]
        while not reasons[-1][1] and len(reasons) < len(ways):
            reasons.append(self.refused(ways[len(reasons)]))
        found, why = reasons[-1] if reasons[-1][1] else reasons[0]
        if self.is_of_one_call(found):
            return
        place, others = _last(found)
        message = f"this can never hold, {part.said}"
        if place is None:
            message = f"`{self.written.pattern.name}` never matches, {part.said}"
        findings.error("E0320", place or whole, message, why, notes_on(others))

    def report_way(self, way: Way, exclusion: Exclusion, findings: Findings) -> None:
        if way.without is not None and way.without not in self.written.calls:
            self.report_absence(way.without, exclusion, findings)
        if way.span is None or not self.is_reported(way):
            return
        found, why = self.refused(exclusion)
        others = [each for each in found if each.span != way.span]
        named = next((each for each in reversed(others) if isinstance(each, Condition)), None)
        message = "this part never matches"
        if named is not None:
            message += f": {quoted(named.span, 'another condition')} excludes it"
            why = why or "remove it, or change that condition"
        findings.warning("W0314", way.span, message, why, notes_on(others))

    def report_absence(self, call: Span, exclusion: Exclusion, findings: Findings) -> None:
        """Report an optional call that other conditions always need."""
        found, _ = self.refused(exclusion)
        named = next((each for each in reversed(found) if isinstance(each, Condition)), None)
        if named is None or named.span is None or named.span in self.written.calls:
            return
        message = f"this never holds without {quoted(call)}, so its `?` does nothing"
        needed = sorted(needed_names((named.expression,)))
        hint = "remove the `?`"
        if needed:
            hint = f"write `not has({needed[0]}) or …` to match without it, or remove the `?` of "
            hint += f"{quoted(call)} and of `{needed[0]}`"
        findings.warning("W0307", named.span, message, hint, (Note("the optional call", call),))

    def report_kinds(self, whole: Span, findings: Findings) -> None:
        """Report that calls by kind match no operators."""
        if self.refusal is None:
            return
        found, why = self.refused(self.refusal)
        if self.is_of_one_call(found):
            return
        place, others = _last(found)
        kinds = listed(sorted(map(str, kinds_in(self.written.pattern))), "or")
        message = f"this holds for no operator of the kind {kinds}"
        if place is None:
            message = f"`{self.written.pattern.name}` matches no operator of the kind {kinds}"
        said = [each for each in others if not _is_of_kind(each)]
        one_shape = _ONE_SHAPE if len(said) < len(others) else ""
        only = "only a compiled function, a `call_tir`, may match"
        hint = "; ".join(filter(None, (one_shape, why, only)))
        findings.warning("W0319", place or whole, message, hint, notes_on(said))

    def is_reported(self, way: Way) -> bool:
        """Whether a part is written in this pattern: others may need that of a called one."""
        return way.span is not None and way.span not in self.written.calls

    def is_of_one_call(self, found: Sequence[Premise]) -> bool:
        """Whether a pattern that is called says all this, so that it is reported there."""
        places = {premise.span for premise in found}
        return len(places) == 1 and places <= self.written.calls


@dataclass(slots=True)
class _UsualSearch(_Search):
    """Looks for ways in which all parts match together in usual models."""

    unusual: Unusual | None = None
    """What is unusual in one of the ways."""

    def check_usual(self, findings: Findings) -> None:
        """See `Choices.check_usual`."""
        part = next(self.parts(self.written), None)
        if part is None or self.way(self.written) is not None or self.unusual is None:
            return
        found = self.unusual.exclusion.needed(self.unusual.premises)
        is_told = any(isinstance(each, Condition) for each in found)
        if is_told and not self.is_of_one_call(found):
            self.unusual.report(found, findings, f", {part.said}")

    def excluded(self, written: WrittenOut) -> Exclusion | None:
        self.left -= 1
        exclusion = Exclusion(premises_in(written, self.implied), Effort())
        ways = exclusion.ways(exclusion.premises.all)
        found = _unusual_in(exclusion, ways) if ways else None
        self.count(exclusion, written)
        self.unusual = self.unusual or found
        return exclusion if found or not ways else None


def _unusual_in(exclusion: Exclusion, ways: Sequence[Facts]) -> Unusual | None:
    return unusual_in(exclusion, exclusion.premises.conditions, ways)


_BOUNDS = {(0, 0): "remove the call", (1, 1): "write the call without `repeat`"}
"""What to write for some bounds of repeated calls."""


def _lacks_parameter(pattern: Pattern) -> bool:
    """Whether no match binds some parameter that has to be bound: then there is no match."""
    bound = may_be_there(pattern)
    return not all(each.optional or each.name in bound for each in pattern.parameters)


_ONE_SHAPE = "an `elementwise` call takes and gives one shape; that of others is `broadcast`"


def _is_of_kind(premise: Premise) -> bool:
    """Whether the kind of a call says this; see patterns/kinds_of_calls.py."""
    match premise:
        case Condition(Compare("==", Shape(), Shape()), at_call=True):
            return True
        case _:
            return False


def _last(found: Sequence[Premise]) -> tuple[Span | None, list[Premise]]:
    """The place of the last condition, and the premises other than it."""
    said = [each for each in found if isinstance(each, Condition) and not _is_of_kind(each)]
    last = said[-1] if said else None
    return None if last is None else last.span, [each for each in found if each is not last]
