"""States and steps of a search: which nodes are covered, and which candidates may come next."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from collage_dsl.graph import CandidateKernel, OpSet, first, last, members, opset, spread
from collage_dsl.memory import uncollected
from collage_dsl.search.plan import Problem

Opening = tuple[OpSet, OpSet]
"""The uncovered nodes that flow into a kernel that was taken, and those that it flows into."""

Key = tuple[int, OpSet, tuple[Opening, ...]]
"""
What identifies a state: the next call (the first that is not covered, or `END`), the covered
nodes, and the openings of the kernels that were taken. A later kernel may not have nodes in both
parts of an opening, because it would wait for itself. Which kernels can follow a state, and
whether they can all run, depends only on its key.

Sets of nodes are sets of ranks, counted from the floor of the next call, so that they stay small
in a large graph.
"""

END = -1
"""The next call of a state in which all calls are covered."""


@dataclass(frozen=True, slots=True)
class Place:
    """
    The nodes of a candidate, by rank. `start` is the first rank; the sets `inside` and `calls`
    count from it. `call` is the rank of the first call.

    `is_ragged`: as one kernel, it makes some nodes wait for nodes that they would not wait for
    otherwise. That is, some node flows into the candidate, but not through it into all nodes
    after it. Only then are `above`, all nodes that flow into it, and `below`, all nodes that it
    flows into, set.
    """

    start: int
    inside: OpSet
    calls: OpSet
    is_ragged: bool = False
    above: OpSet = 0
    below: OpSet = 0

    @property
    def call(self) -> int:
        return self.start + first(self.calls)

    @property
    def end(self) -> int:
        """The last rank."""
        return self.start + last(self.inside)


class Move(NamedTuple):
    """
    A candidate as a step of a search, with a number. Moves with the same nodes share a place.

    A named tuple, because many are made and a dataclass takes longer to make.
    """

    number: int
    candidate: CandidateKernel
    place: Place
    demotion: int


class Moves:
    """The candidates of a problem, all convex, by the first call that they cover; larger first."""

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
                if move.place.calls:
                    starting.setdefault(move.place.call, []).append(move)
            self._starting = {
                rank: tuple(sorted(moves, key=lambda move: -move.place.inside.bit_count()))
                for rank, moves in starting.items()
            }
            self._next, self._floor = self._order()

    def _order(self) -> tuple[dict[int, int], dict[int, int]]:
        """
        For each call the call after it, and its floor: the first rank of all candidates whose
        first call is this one or a later one.
        """
        following, floors = {}, {END: 0}
        after, floor = END, self.calls.bit_length()
        for call in reversed(list(members(self.calls))):
            starts = (move.place.start for move in self._starting.get(call, ()))
            floor = min(floor, call, *starts)
            following[call], floors[call] = after, floor
            after = call
        following[END] = after
        return following, floors

    def __iter__(self) -> Iterator[Move]:
        return (move for moves in self._starting.values() for move in moves)

    @cached_property
    def blocks(self) -> tuple[int, ...]:
        """The ranks at which a block begins. No candidate has nodes in two blocks."""
        starts = []
        end = -1
        for place_start, place_end in sorted((m.place.start, m.place.end) for m in self):
            if place_start > end:
                starts.append(place_start)
            end = max(end, place_end)
        return tuple(starts)

    @property
    def start(self) -> Key:
        return self._next[END], 0, ()

    def from_(self, key: Key) -> tuple[Move, ...]:
        """The moves whose first call is the next call of the state."""
        return self._starting.get(key[0], ())

    def is_goal(self, key: Key) -> bool:
        return key[0] == END

    def after(self, key: Key, move: Move) -> Key | None:
        """The state after `move`; None if it overlaps covered nodes or would wait for itself."""
        call, covered, openings = key
        place = move.place
        if call == END or place.call < call:
            return None
        floor = self._floor[call]
        inside = place.inside << place.start - floor
        if covered & inside:
            return None
        if any(up & inside and down & inside for up, down in openings):
            return None
        covered |= inside
        while call != END and covered >> call - floor & 1:
            call = self._next[call]
        if call == END:
            return END, 0, ()
        raised = self._floor[call] - floor
        if openings or place.is_ragged:
            openings = _kept(_opened(openings, place, floor), covered, raised)
        return call, covered >> raised, openings

    def _move(self, number: int, candidate: CandidateKernel) -> Move:
        key = spread(candidate.sub_graph.inside)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._place(candidate.sub_graph.inside)
        return Move(number, candidate, place, self.problem.demotion(candidate))

    def _place(self, inside: OpSet) -> Place:
        exits = self.graph.exit(inside)
        ranks = self.problem.ranked(inside)
        start = first(ranks)
        place = Place(start, ranks >> start, (ranks & self.calls) >> start)
        leads_to_one = exits & exits - 1 == 0 and not inside & self._unused
        return place if leads_to_one else self._ragged(place, inside, exits)

    def _ragged(self, place: Place, inside: OpSet, exits: OpSet) -> Place:
        """`place`, marked as ragged if the nodes `inside` as one kernel make others wait."""
        below = 0
        for index in members(exits):
            below |= self.graph.downstream_of[index]
        below &= ~inside
        sources = self.graph.input(inside) & self._made
        if not any(below & ~self._through(i, inside) for i in members(sources)):
            return place
        above = 0
        for index in members(sources):
            above |= self._upstream_of[index] | 1 << index
        up, down = (self.problem.ranked(nodes & self._takeable) for nodes in (above, below))
        return replace(place, is_ragged=True, above=up, below=down)

    @cached_property
    def _made(self) -> OpSet:
        """The nodes with inputs: computed nodes, and inputs that other nodes lead to."""
        return opset(i for i, inputs in enumerate(self.graph.inputs_of) if inputs)

    @cached_property
    def _unused(self) -> OpSet:
        """The computed nodes that nothing uses and that are not results."""
        used = self.graph.results
        for inputs in self.graph.inputs_of:
            used |= inputs
        return self.graph.computed & ~used

    def _through(self, source: int, inside: OpSet) -> OpSet:
        """The nodes that `source` flows into through its users `inside`."""
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


def _opened(openings: tuple[Opening, ...], place: Place, floor: int) -> tuple[Opening, ...]:
    """`openings` after a kernel at `place` was taken."""
    if not place.is_ragged:
        return openings
    inside = place.inside << place.start - floor
    above, below = place.above >> floor, place.below >> floor
    for up, down in openings:
        if down & inside:
            above |= up
        if up & inside:
            below |= down
    grown = (
        (up | above if up & inside else up, down | below if down & inside else down)
        for up, down in openings
    )
    return (above, below), *grown


def _kept(openings: Iterable[Opening], covered: OpSet, raised: int) -> tuple[Opening, ...]:
    """
    `openings` without the covered nodes, counted from a floor that is higher by `raised`. Those
    with an empty part are dropped. They are sorted, so that equal states have equal keys.
    """
    cut = {((up & ~covered) >> raised, (down & ~covered) >> raised) for up, down in openings}
    return tuple(sorted(pair for pair in cut if pair[0] and pair[1]))
