"""What rules share while they propose: the code of predicates, and a list of refusals."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from collage_dsl.graph import OpSet
from collage_dsl.rules.predicate import Lookup, no_host_code
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a rule did not propose `inside`, and the place in the file that refused it."""

    inside: OpSet
    because: str
    span: Span | None = None


@dataclass(slots=True)
class Trace:
    """
    Finds the code of predicates while rules propose. If it `collects`, keeps their refusals.

    A large model has tens of thousands of refusals, and only explanations need them.
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
