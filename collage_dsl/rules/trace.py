"""What rules refused, and why."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from collage_dsl.graph import OpSet
from collage_dsl.rules.predicate import Lookup, no_host_code
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a rule did not propose `inside`, and where the rule says so."""

    inside: OpSet
    because: str
    span: Span | None = None


@dataclass(slots=True)
class Trace:
    """
    Finds the code of predicates while rules propose; keeps their refusals where it `collects`.

    A large model has tens of thousands of refusals, which only explaining reads.
    """

    refusals: list[Refusal] = field(default_factory=list)
    lookup: Lookup = no_host_code
    collects: bool = False

    def refused(self, inside: OpSet, because: str, span: Span | None = None) -> None:
        if self.collects:
            self.refusals.append(Refusal(inside, because, span))

    def at(self, index: int) -> Iterator[Refusal]:
        """The distinct refusals of sub-graphs that contain node `index`, oldest first."""
        seen = set()
        for refusal in self.refusals:
            if refusal.inside >> index & 1 and refusal.because not in seen:
                seen.add(refusal.because)
                yield refusal
