"""The states that searches go through: what is covered, and who would wait for whom."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from collage_dsl.graph import CandidateKernel, OpSet, first, members
from collage_dsl.search.plan import Problem

Opening = tuple[OpSet, OpSet]
"""Uncovered nodes that flow into a kernel, and those that it flows into."""

Key = tuple[OpSet, tuple[Opening, ...]]
"""
What is covered, and what that says about kernels to come: none may have a node in both parts
of an opening, for it would wait for itself. All nodes are by rank. Which kernels can follow a
state, and whether they can all run, depends on its key alone.
"""

START: Key = (0, ())


@dataclass(frozen=True, slots=True)
class Move:
    """
    A candidate as a step of a search, numbered; sets of nodes are by rank.

    `is_ragged` says whether something flows into it that does not, through it, flow into
    everything that it flows into: as one kernel it makes the one wait for the other. `above`
    and `below` are then all that flows into it, and all that it flows into.
    """

    number: int
    candidate: CandidateKernel
    inside: OpSet
    calls: OpSet
    demotion: int
    is_ragged: bool
    above: OpSet = 0
    below: OpSet = 0


class Moves:
    """
    The candidates of a problem, all convex, by the first call that they cover, larger first.
    """

    def __init__(self, problem: Problem, candidates: Iterable[CandidateKernel]) -> None:
        self.problem = problem
        self.graph = problem.graph
        self.calls = problem.calls
        starting: dict[int, list[Move]] = {}
        found = list(dict.fromkeys(candidates))
        self._takeable = 0
        for candidate in found:
            self._takeable |= candidate.sub_graph.inside
        for number, candidate in enumerate(found):
            move = self._move(number, candidate)
            if move.calls:
                starting.setdefault(first(move.calls), []).append(move)
        self._starting = {
            rank: tuple(sorted(moves, key=lambda move: -move.inside.bit_count()))
            for rank, moves in starting.items()
        }

    def __iter__(self) -> Iterator[Move]:
        return (move for moves in self._starting.values() for move in moves)

    def from_(self, key: Key) -> tuple[Move, ...]:
        """The candidates whose first call is the first that is not covered."""
        uncovered = self.calls & ~key[0]
        return self._starting.get(first(uncovered), ()) if uncovered else ()

    def is_goal(self, key: Key) -> bool:
        return not self.calls & ~key[0]

    def after(self, key: Key, move: Move) -> Key | None:
        """The state after `move`; None where it overlaps or would wait for itself."""
        covered, openings = key
        if covered & move.inside:
            return None
        if any(up & move.inside and down & move.inside for up, down in openings):
            return None
        now = covered | move.inside
        if not openings and not move.is_ragged:
            return now, ()
        return now, _openings(openings, move, ~now)

    def _move(self, number: int, candidate: CandidateKernel) -> Move:
        ranked = self.problem.ranked
        inside = candidate.sub_graph.inside
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
        return Move(
            number,
            candidate,
            ranks,
            ranks & self.calls,
            self.problem.demotion(candidate),
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
    above, below = move.above, move.below
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
