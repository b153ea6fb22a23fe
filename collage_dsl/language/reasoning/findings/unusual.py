"""Warn of conditions that hold in no usual model, and of calls that are in none."""

from collections.abc import Sequence
from dataclasses import dataclass

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.claims.relations import Claim
from collage_dsl.language.reasoning.conclusions.blame import (
    missing_axis,
    other_elements,
    place_of,
)
from collage_dsl.language.reasoning.conclusions.contradiction_words import assumed, notes_on
from collage_dsl.language.reasoning.conclusions.exclusion import Exclusion, related
from collage_dsl.language.reasoning.conclusions.premises import Condition, Premise
from collage_dsl.language.reasoning.conclusions.usual import usual, usual_dimensions
from collage_dsl.language.reasoning.conclusions.words_of_elements import of_elements
from collage_dsl.language.reasoning.values.assuming import assume
from collage_dsl.language.reasoning.values.facts import Facts


@dataclass(frozen=True, slots=True)
class Unusual:
    """What is usual, `given`, which excludes that `premises`, of which it is a part, all hold."""

    exclusion: Exclusion
    given: Sequence[Condition]
    premises: Sequence[Premise]

    def report(self, found: Sequence[Premise], findings: Findings, also: str = "") -> None:
        """
        Warn of the last condition of `found`, the premises that exclude each other. `also` are
        words for the parts of the pattern of which the same is true.
        """
        given = self.given
        conditions = [each for each in found if isinstance(each, Condition)]
        last = conditions[-1]
        said = assumed([each for each in conditions if each in given])
        what = "this call never matches" if last in given else "this never holds"
        message = f"{what} where {said}, as is usual{also}"
        others = [
            each for each in found if each is not last and (each not in given or _is_of_call(each))
        ]
        no_axis = missing_axis(self.exclusion, found, self.premises)
        why = other_elements(self.exclusion, found) or (no_axis and no_axis.hint)
        why = why or self.exclusion.why(found)
        of_given = [
            [c.expression for c in conditions if (c in given) == so] for so in (False, True)
        ]
        why = why or of_elements(*of_given)
        place = place_of(self.exclusion, last)
        beside = [e for e in others if isinstance(e, Claim) or place_of(self.exclusion, e) != place]
        findings.warning("W0319", place, message, why, notes_on(beside))


def unusual_in(
    exclusion: Exclusion, conditions: Sequence[Condition], ways: Sequence[Facts]
) -> Unusual | None:
    """
    What is usual and excluded by `conditions` and the calls; None if usual models may match. The
    conditions hold in `ways`.
    """
    claims = exclusion.premises.claims
    called = tuple(dict.fromkeys(claim.called for claim in claims))
    given = tuple(usual(called, conditions, ways))
    more = (*usual_dimensions(called, conditions, ways), *given)
    if not more or any(_may_hold(way, more, claims, conditions) for way in ways):
        return None
    for some in (given, more):
        premises: tuple[Premise, ...] = (*some, *claims, *conditions)
        if some and exclusion.contradicts(premises):
            return Unusual(exclusion, some, premises)
    return None


def _may_hold(
    way: Facts,
    given: Sequence[Condition],
    claims: Sequence[Claim],
    conditions: Sequence[Condition],
) -> bool:
    """Whether `given` may hold in `way`, in which all `conditions` hold."""
    left = [way.copy()]
    for condition in given:
        left = assume(left, condition.expression, most=0)
    left = related(left, claims)
    for condition in conditions:
        left = assume(left, condition.expression, most=0)
    return bool(related(left, claims))


def _is_of_call(premise: Premise) -> bool:
    """Whether it says what a call usually takes, in words."""
    return isinstance(premise, Condition) and premise.usual != ""
