"""Find the matches of a pattern at the nodes of a graph, in a bounded number of steps."""

from collections.abc import Iterator
from dataclasses import dataclass

from collage_dsl.graph import Graph, OpSet, members
from collage_dsl.rules.backtracking import Backtracking, TooManyStepsError
from collage_dsl.rules.observer import NO_OBSERVER, NoObserver, Observer
from collage_dsl.rules.partial import Match
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.predicate import Lookup, no_host_code
from collage_dsl.rules.remembering import Remembering
from collage_dsl.source import Span

MOST_STEPS = 200_000
"""How many steps the attempts to match a pattern at the nodes of one graph take together."""

MORE_STEPS = 50
"""The steps that are added to `MOST_STEPS` for each node that is tried."""

PLAIN_STEPS = 1_000
"""An attempt of more steps is begun anew, and then remembers what matched."""

FEWER_STEPS = 100
"""The same once an attempt at another node was begun anew."""


@dataclass(slots=True)
class Attempt(NoObserver):
    """
    An observer that keeps one refusal: that after the largest part of the pattern matched. An
    alternative that does not match is no refusal of the pattern where another one matches.
    """

    because: str = "the pattern matches nothing"
    span: Span | None = None
    progress: int = -1
    reason: str = ""
    """The reason that the pattern itself gives, if its condition has one."""
    stopped: int = 0
    """After how many steps the attempt was stopped; 0 if it was not."""

    def hears(self, progress: int) -> bool:
        return progress > self.progress

    def refused(self, progress: int, because: str, span: Span | None, reason: str) -> None:
        if progress > self.progress:
            self.because, self.span, self.progress = because, span, progress
            self.reason = reason

    def reached(self) -> int:
        return self.progress

    def overruled(self, progress: int) -> None:
        self.progress = progress - 1

    def stops(self, steps: int) -> None:
        self.stopped = steps


def matches(
    pattern: Pattern,
    graph: Graph,
    root: int,
    observer: Observer = NO_OBSERVER,
    lookup: Lookup = no_host_code,
) -> tuple[Match, ...]:
    """
    The matches of `pattern` whose result is node `root`. `observer` is told how they are found,
    or why there are none. Raises PredicateError if `lookup` raises it for a predicate.

    Of several matches with the same nodes only one is kept: that which binds the most constants;
    of those, the first found. Present optional nodes, and operands in the order written, are
    tried first.

    If that takes more than `MOST_STEPS`, the `observer` is told, and the matches that were found
    in the first `PLAIN_STEPS` are returned. A step tries one operand of the pattern at a node.
    """
    return Matcher(pattern, graph, lookup).at(root, observer)


def matches_everywhere(
    pattern: Pattern, graph: Graph, lookup: Lookup
) -> Iterator[tuple[int, tuple[Match, ...], Attempt]]:
    """
    For each call, tuple and projection: its index, the matches there, and the attempt. Each node
    adds `MORE_STEPS` to the steps that all attempts may take together.
    """
    matcher = Matcher(pattern, graph, lookup)
    for root in members(graph.computed):
        attempt = Attempt()
        yield root, matcher.at(root, attempt), attempt


class Matcher:
    """Finds the matches of one pattern at the nodes of one graph."""

    def __init__(self, pattern: Pattern, graph: Graph, lookup: Lookup) -> None:
        self.pattern = pattern
        self.graph = graph
        self.plain = Backtracking(pattern, graph, lookup)
        self.remembering = Remembering(pattern, graph, lookup)
        self.left = MOST_STEPS

    def at(self, root: int, observer: Observer) -> tuple[Match, ...]:
        """
        As `matches`. Most attempts take few steps. One that takes many may have to try the same
        part of the pattern at the same node again and again, so it is begun anew and remembers.
        """
        self.left += MORE_STEPS
        found: dict[OpSet, Match] = {}
        most = FEWER_STEPS if self.remembering.steps else PLAIN_STEPS
        if self.run(self.plain, most, root, observer, found):
            return tuple(found.values())
        again: dict[OpSet, Match] = {}
        if self.run(self.remembering, self.left, root, observer.again(), again):
            return tuple(again.values())
        observer.stops(self.plain.steps + self.remembering.steps)
        return tuple(found.values())

    def run(
        self,
        way: Backtracking,
        most: int,
        root: int,
        observer: Observer,
        found: dict[OpSet, Match],
    ) -> bool:
        """Put the matches into `found`; whether all were found in `most` of the steps left."""
        before = way.steps
        way.most = before + min(most, self.left)
        try:
            for match in way.run(root, observer):
                known = found.get(match.inside)
                if known is None or match.constants.bit_count() > known.constants.bit_count():
                    found[match.inside] = match
        except TooManyStepsError:
            return False
        finally:
            self.left -= way.steps - before
        return True
