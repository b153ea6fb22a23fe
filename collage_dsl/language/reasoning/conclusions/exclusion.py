"""Whether the premises of a pattern exclude each other, and which few of them do."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import repeat

from collage_dsl.language.reasoning.claims.relations import Claim
from collage_dsl.language.reasoning.conclusions.contradiction_words import says
from collage_dsl.language.reasoning.conclusions.premises import Condition, Premise, Premises
from collage_dsl.language.reasoning.values.assuming import MOST_WAYS, assume
from collage_dsl.language.reasoning.values.clashes import clash_of
from collage_dsl.language.reasoning.values.domain import FALSE, TRUE
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import count
from collage_dsl.language.reasoning.values.widths import compare_bytes
from collage_dsl.rules.condition import (
    All,
    Attr,
    Compare,
    Constant,
    Has,
    Not,
    Or,
    every_part,
)

MOST_LOOKING = 20_000
"""After this much effort in one file, the alternatives of an `or` are no longer examined."""
MOST_EXPLAINING = 40_000
"""After this much effort in one file, messages no longer say why a condition always/never holds."""


@dataclass(slots=True)
class Effort:
    """
    The work done so far for the patterns of one file, in parts of conditions assumed.

    `looking` is for examining conditions in more than one way, `explaining` for finding reasons,
    `choosing` for examining patterns in more than one way.
    """

    looking: int = 0
    explaining: int = 0
    choosing: int = 0

    def add(self, other: "Effort") -> None:
        self.looking += other.looking
        self.explaining += other.explaining
        self.choosing += other.choosing

    def since(self, before: "Effort") -> "Effort":
        """The work that was done after `before`."""
        return Effort(
            self.looking - before.looking,
            self.explaining - before.explaining,
            self.choosing - before.choosing,
        )


class Exclusion:
    """Decides whether some of the `premises` of a pattern can hold together."""

    def __init__(self, premises: Premises, effort: Effort) -> None:
        self.premises = premises
        self.effort = effort
        self.mismatch = ""
        """Why an operator did not take what it is given, in the premises examined last."""
        self.clash = ""
        """Which values exclude each other there."""
        self.attributes = {
            name: values for call in premises.calls for name, values in call.attributes().items()
        }

    @property
    def is_tired(self) -> bool:
        return self.effort.explaining > MOST_EXPLAINING

    def start(self, claims: Sequence[Claim]) -> Facts:
        """The facts that follow from the operators alone."""
        facts = Facts(self.attributes, lists=self.premises.lists)
        for name in self.premises.there:
            facts.narrow(Has(name), TRUE)
        for name in self.premises.absent:
            facts.narrow(Has(name), FALSE)
        begin(facts, claims)
        return facts

    def effort_of(self, ways: Sequence[Facts], condition: Condition) -> int:
        """The effort of assuming `condition` and then applying what the operators require."""
        return len(ways) * (condition.size + len(self.premises.calls))

    def contradicts(self, premises: Sequence[Premise]) -> bool:
        """Whether `premises` never hold together; most do with the first alternatives of all."""
        if self.ways(premises, most=0):
            return False
        return not any(map(_may_have_alternatives, premises)) or not self.ways(premises)

    def ways(self, premises: Sequence[Premise], most: int = MOST_WAYS) -> list[Facts]:
        """The ways in which `premises` can hold together, as far as `assume` examines `most`."""
        claims = tuple(premise for premise in premises if isinstance(premise, Claim))
        ways = [self.start(claims)]
        for _ in range(2):
            for premise in premises:
                if isinstance(premise, Condition):
                    self.effort.explaining += self.effort_of(ways, premise)
                    tried, ways = ways, assume(ways, premise.expression, most=most)
                    if not ways:
                        self.note(tried)
                        return []
            tried, ways = ways, related(ways, claims)
            self.note(tried)
            if not ways:
                break
        return ways

    def note(self, tried: Sequence[Facts]) -> None:
        """Note why the first of the ways that were `tried` is not possible."""
        self.mismatch = next((way.mismatch for way in tried if way.mismatch), "")
        self.clash = next(filter(None, map(clash_of, tried)), "")

    def reason(self, premises: Sequence[Premise], last: Condition) -> list[Premise]:
        """The few premises that exclude `last`; none if the search takes too long."""
        if self.is_tired:
            return []
        found = [one for one in self.needed((*premises, last)) if one is not last]
        return [] if self.is_tired else found

    def why(self, premises: Sequence[Premise], *, values: bool = True) -> str:
        """
        A hint that says why `premises`, which are found to exclude each other, do so; if `values`,
        also which values do.
        """
        self.ways(premises)
        clash = self.clash if values else ""
        said = self.mismatch or "; ".join(filter(None, (clash, says(premises))))
        for keeps in (True, False):
            tried = [_keeping_dimensions(premise, keeps) for premise in premises]
            if tried != list(premises) and not self.contradicts(tried):
                return f"{said}; write `keepdims == {str(keeps).lower()}`"
        return said

    def needed(
        self,
        premises: Sequence[Premise],
        others: Sequence[Premise] = (),
        *,
        others_may_hold: bool = False,
    ) -> list[Premise]:
        """
        A minimal part of `premises` that cannot hold together with `others`.

        All of `premises` cannot; `others_may_hold` says that the others by themselves are known not
        to exclude each other. Later premises are preferred. Divides by halves, as QuickXplain does
        (Junker 2004). After MOST_EXPLAINING the rest is kept without a test.
        """
        if self.is_tired:
            return list(premises)
        if not others_may_hold and self.contradicts(others):
            return []
        if len(premises) == 1:
            return list(premises)
        middle = len(premises) // 2
        first = self.needed(premises[:middle], (*premises[middle:], *others))
        return first + self.needed(premises[middle:], (*first, *others), others_may_hold=not first)


def _may_have_alternatives(premise: Premise) -> bool:
    """Whether `assume` may find more than one way in which `premise` holds."""
    return isinstance(premise, Condition) and any(
        isinstance(part, Or | Not | All) for part in every_part(premise.expression)
    )


def _keeping_dimensions(premise: Premise, keeps: bool) -> Premise:
    """`premise`, with another value of `keepdims` if it says one."""
    match premise:
        case Condition(Compare("==", Attr(name) as asked, Constant(bool()))) if name.endswith(
            ".keepdims"
        ):
            return replace(premise, expression=Compare("==", asked, Constant(keeps)))
        case _:
            return premise


def begin(facts: Facts, claims: Sequence[Claim]) -> None:
    """Add what always holds of some calls, of which nothing else is known yet."""
    for claim in claims:
        claim.once(facts)
        facts.news |= claim.subjects


def related(ways: list[Facts], claims: Sequence[Claim]) -> list[Facts]:
    """Add what operators say, in both orders, because a later call may affect an earlier one."""
    again = [(claim, claim.subjects) for claim in claims if claim.relation.again is not None]
    for way in ways:
        if way.news:
            count(way)
            compare_bytes(way)
            said = _added(again, way, way.news, repeat(frozenset(), len(again)))
            if any(said):
                said = _added(again[::-1], way, frozenset(), reversed(said))
            way.news = set().union(*said)
    return [way for way in ways if way.possible]


def _added(
    claims: Sequence[tuple[Claim, AbstractSet[str]]],
    way: Facts,
    news: AbstractSet[str],
    said: Iterable[AbstractSet[str]],
) -> list[AbstractSet[str]]:
    """
    Add what operators say of what is new: `news`, what each claim has `said` before, from its turn
    on, and what is added here. Gives the subjects of which each claim says more. Each claim is
    given with its subjects.
    """
    added, new = list[AbstractSet[str]](), set(news)
    for (claim, subjects), before in zip(claims, said, strict=True):
        new |= before
        if not way.possible or new.isdisjoint(subjects):
            added.append(_NOTHING)
            continue
        way.news = set()
        claim.again(way)
        new |= way.news
        added.append(way.news)
    return added


_NOTHING: AbstractSet[str] = frozenset()
