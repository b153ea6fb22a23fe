"""The states that searches go through: what is covered, and who would wait for whom."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from collage_dsl.graph import CandidateKernel, OpSet, first, last, members, spread
from collage_dsl.memory import uncollected
from collage_dsl.search.plan import Problem

Opening = tuple[OpSet, OpSet]
"""Uncovered nodes that flow into a kernel, and those that it flows into."""

Key = tuple[int, OpSet, tuple[Opening, ...]]
"""
The next call, that is the first which is not covered, or `END`; what is covered; and what that
says about kernels to come: none may have a node in both parts of an opening, for it would wait
for itself. All nodes are by rank. Which kernels can follow a state, and whether they can all
run, depends on its key alone.
"""

END = -1
"""In place of the next call where all are covered."""


@dataclass(frozen=True, slots=True)
class Place:
    """
    What the nodes of a candidate are to a search; sets of nodes are by rank.

    `is_ragged` says whether something flows into it that does not, through it, flow into
    everything that it flows into: as one kernel it makes the one wait for the other. `above`
    and `below` are then all that flows into it, and all that it flows into.
    """

    inside: OpSet
    calls: OpSet
    is_ragged: bool
    above: OpSet = 0
    below: OpSet = 0


@dataclass(frozen=True, slots=True)
class Move:
    """A candidate as a step of a search, numbered. Those with the same nodes share a place."""

    number: int
    candidate: CandidateKernel
    place: Place
    demotion: int

    @property
    def inside(self) -> OpSet:
        return self.place.inside

    @property
    def calls(self) -> OpSet:
        return self.place.calls

    @property
    def is_ragged(self) -> bool:
        return self.place.is_ragged


class Moves:
    """
    The candidates of a problem, all convex, by the first call that they cover, larger first.
    """

    def __init__(self, problem: Problem, candidates: Iterable[CandidateKernel]) -> None:
        self.problem = problem
        self.graph = problem.graph
        self.calls = problem.calls
        starting: dict[int, list[Move]] = {}
        self.candidates = tuple(candidates)
        self._places: dict[tuple[int, OpSet], Place] = {}
        self._takeable = 0
        for candidate in self.candidates:
            self._takeable |= candidate.sub_graph.inside
        with uncollected():
            for number, candidate in enumerate(self.candidates):
                move = self._move(number, candidate)
                if move.calls:
                    starting.setdefault(first(move.calls), []).append(move)
        self._starting = {
            rank: tuple(sorted(moves, key=lambda move: -move.inside.bit_count()))
            for rank, moves in starting.items()
        }

    def __iter__(self) -> Iterator[Move]:
        return (move for moves in self._starting.values() for move in moves)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The ranks at which a block begins: no candidate has nodes both before and after."""
        starts = []
        end = -1
        for start, last_inside in sorted((first(m.inside), last(m.inside)) for m in self):
            if start > end:
                starts.append(start)
            end = max(end, last_inside)
        return tuple(starts)

    @property
    def start(self) -> Key:
        return self._next(0), 0, ()

    def _next(self, covered: OpSet) -> int:
        uncovered = self.calls & ~covered
        return first(uncovered) if uncovered else END

    def from_(self, key: Key) -> tuple[Move, ...]:
        """The candidates whose first call is the first that is not covered."""
        return self._starting.get(key[0], ())

    def is_goal(self, key: Key) -> bool:
        return key[0] == END

    def after(self, key: Key, move: Move) -> Key | None:
        """The state after `move`; None where it overlaps or would wait for itself."""
        _, covered, openings = key
        if covered & move.inside:
            return None
        if any(up & move.inside and down & move.inside for up, down in openings):
            return None
        now = covered | move.inside
        if not openings and not move.is_ragged:
            return self._next(now), now, ()
        return self._next(now), now, _openings(openings, move, ~now)

    def _move(self, number: int, candidate: CandidateKernel) -> Move:
        key = spread(candidate.sub_graph.inside)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._place(candidate.sub_graph.inside)
        return Move(number, candidate, place, self.problem.demotion(candidate))

    def _place(self, inside: OpSet) -> Place:
        ranked = self.problem.ranked
        below = 0
        for index in members(self.graph.exit(inside)):
            below |= self.graph.downstream_of[index]
        below &= ~inside
        sources = self.graph.input(inside) & self.graph.computed
        is_ragged = any(below & ~self._through(i, inside) for i in members(sources))
        above = 0
        if is_ragged:
            for index in members(sources):
                above |= self._upstream_of[index] | 1 << index
        ranks = ranked(inside)
        return Place(
            ranks,
            ranks & self.calls,
            is_ragged,
            ranked(above & self._takeable) if is_ragged else 0,
            ranked(below & self._takeable) if is_ragged else 0,
        )

    def _through(self, source: int, inside: OpSet) -> OpSet:
        """What `source` flows into through the nodes `inside`, and those."""
        reached = 0
        for index in members(self.graph.users_of[source] & inside):
            reached |= self.graph.downstream_of[index]
        return reached

    @cached_property
    def _upstream_of(self) -> list[OpSet]:
        above: list[OpSet] = []
        for inputs in self.graph.inputs_of:
            reached = inputs
            for index in members(inputs):
                reached |= above[index]
            above.append(reached)
        return above


def _openings(openings: tuple[Opening, ...], move: Move, left: OpSet) -> tuple[Opening, ...]:
    """`openings` after `move`, of the nodes that are `left`."""
    if not move.is_ragged:
        return _kept(openings, left)
    above, below = move.place.above, move.place.below
    for up, down in openings:
        if down & move.inside:
            above |= up
        if up & move.inside:
            below |= down
    grown = [(above, below)]
    for up, down in openings:
        grown.append(
            (
                up | above if up & move.inside else up,
                down | below if down & move.inside else down,
            )
        )
    return _kept(grown, left)


def _kept(openings: Iterable[Opening], left: OpSet) -> tuple[Opening, ...]:
    """Those with nodes `left` on both sides; sorted, so that equal states have equal keys."""
    cut = {(up & left, down & left) for up, down in openings}
    return tuple(sorted(pair for pair in cut if pair[0] and pair[1]))
