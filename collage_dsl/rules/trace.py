"""What rules share while they propose: the code of predicates, bounds, refusals and stops."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal, Self

from collage_dsl.graph import Graph, OpSet, SubGraph, members
from collage_dsl.rules.bound import STEPS, Bound, BoundReachedError
from collage_dsl.rules.predicate import Lookup, no_host_code
from collage_dsl.source import Span

MOST_CANDIDATES = 10_000
"""How many candidates a rule adds to those that it is given, without `max_candidates`."""

MORE_CANDIDATES = 10
"""The candidates that are added to `MOST_CANDIDATES` for each node of the graph."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a rule did not propose `inside`, and the place in the file that refused it."""

    inside: OpSet
    because: str
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """
    A rule or pattern that stopped before it had found everything, with this `number` of
    candidates, or after this number of steps of the matcher. `node` is the name of the node in
    most of the candidates, or of the node at which the matcher was. A pattern has its `span`.
    """

    rule: str
    number: int
    of: Literal["candidates", "steps"]
    node: str
    span: Span | None = None


@dataclass(slots=True)
class Trace:
    """
    Finds the code of predicates while rules propose, and bounds how much each rule proposes. If
    it `collects`, keeps their refusals.

    A large model has tens of thousands of refusals, and only explanations need them.
    """

    refusals: list[Refusal] = field(default_factory=list)
    lookup: Lookup = no_host_code
    collects: bool = False
    max_candidates: int | None = None
    stops: list[Stop] = field(default_factory=list)

    def within(self, max_candidates: int | None) -> Self:
        """This trace, for rules that add at most `max_candidates` each, if it is given."""
        return self if max_candidates is None else replace(self, max_candidates=max_candidates)

    def most(self, graph: Graph) -> int:
        """How many candidates a rule may add to those that it is given."""
        if self.max_candidates is not None:
            return self.max_candidates
        return MOST_CANDIDATES + MORE_CANDIDATES * len(graph)

    def bounded(
        self,
        graph: Graph,
        rule: str,
        given: Iterable[SubGraph],
        grown: Callable[[Collection[SubGraph], Bound], Iterable[SubGraph]],
    ) -> Iterator[SubGraph]:
        """All `given` to `rule`, and of those `grown` from them as many as it may add."""
        left, proposed = self.most(graph), dict.fromkeys(given)
        yield from proposed
        try:
            for each in grown(tuple(proposed), Bound(STEPS * left)):
                if each in proposed:
                    continue
                if left == 0:
                    raise BoundReachedError
                left -= 1
                proposed[each] = None
                yield each
        except BoundReachedError:
            self.stopped(graph, rule, proposed)

    def stopped(self, graph: Graph, rule: str, proposed: Iterable[SubGraph]) -> None:
        """Note that `rule` stopped after it had proposed these candidates."""
        insides = [each.inside for each in proposed]
        uses = Counter(index for inside in insides for index in members(inside))
        most = max(uses.values(), default=0)
        node = min((index for index, count in uses.items() if count == most), default=None)
        name = "" if node is None else graph.nodes[node].name
        self.stops.append(Stop(rule, len(insides), "candidates", name))

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
