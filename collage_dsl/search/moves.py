"""States and steps of a search: which nodes are covered, and which candidates may come next."""

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from sys import maxsize
from typing import NamedTuple
from zlib import crc32

from collage_dsl.graph import CandidateKernel, OpSet, members
from collage_dsl.memory import uncollected
from collage_dsl.search.places import Place
from collage_dsl.search.problem import Problem

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


class Move(NamedTuple):
    """
    A candidate as a step of a search, with a number. Moves with the same nodes share a place.

    A named tuple, because many are made and a dataclass takes longer to make.
    """

    number: int
    candidate: CandidateKernel
    place: Place
    demotion: int

    @property
    def chance(self) -> int:
        """
        A number of `CHANCE_BITS` that the nodes and the target have by chance. Of plans that are
        equally good, searches take that with the least sum of them, whatever they find first.
        """
        salt = _salt(self.candidate.target)
        # Python hashes whole numbers in the same way in every process.
        return hash((self.place.start, self.place.inside, salt)) & (1 << CHANCE_BITS) - 1


CHANCE_BITS = 61


@cache
def _salt(target: str) -> int:
    return crc32(target.encode())


class States:
    """
    The states that kernels at some places can reach, where `calls` have to be covered. Both count
    in ranks.
    """

    def __init__(self, calls: OpSet, places: Iterable[Place]) -> None:
        self.calls = calls
        starts: dict[int, int] = {}
        self._takeable = 0
        for place in places:
            if place.start < starts.get(place.call, maxsize):
                starts[place.call] = place.start
            self._takeable |= place.inside << place.start
        self._next, self._floor = self._order(starts)

    def _order(self, starts: Mapping[int, int]) -> tuple[dict[int, int], dict[int, int]]:
        """
        For each call the call after it, and its floor: the first rank of all places whose first
        call is this one or a later one. `starts` has the first rank of those of each call.
        """
        following, floors = {}, {END: 0}
        after, floor = END, self.calls.bit_length()
        for call in reversed(members(self.calls)):
            floor = min(floor, starts.get(call, call), call)
            following[call], floors[call] = after, floor
            after = call
        following[END] = after
        return following, floors

    @property
    def start(self) -> Key:
        return self._next[END], 0, ()

    def is_goal(self, key: Key) -> bool:
        return key[0] == END

    def after(self, key: Key, place: Place) -> Key | None:
        """
        The state after a kernel at `place`; None if it overlaps covered nodes or would wait for
        itself.
        """
        call, covered, openings = key
        if call == END or place.call < call:
            return None
        floor = self._floor[call]
        inside = place.inside << place.start - floor
        if covered & inside:
            return None
        if openings and any(up & inside and down & inside for up, down in openings):
            return None
        covered |= inside
        following = self._next
        while call != END and covered >> call - floor & 1:
            call = following[call]
        if call == END:
            return END, 0, ()
        raised = self._floor[call] - floor
        if openings or place.is_ragged:
            opened = _opened(openings, place, self._takeable, floor)
            openings = _kept(opened, covered, raised)
        return call, covered >> raised, openings


class Block(NamedTuple):
    """Moves, the call at which they begin, and the call after them."""

    start: int
    end: int
    moves: tuple[Move, ...]


class Moves(States):
    """The candidates of a problem, all convex, by the first call that they cover; larger first."""

    def __init__(self, problem: Problem, candidates: Iterable[CandidateKernel]) -> None:
        self.candidates = tuple(candidates)
        starting: dict[int, list[Move]] = {}
        places: dict[int, Place] = {}
        with uncollected():
            for number, candidate in enumerate(self.candidates):
                if place := problem.places.of(candidate.sub_graph):
                    move = Move(number, candidate, place, problem.demotion(candidate))
                    starting.setdefault(place.call, []).append(move)
                    places[id(place)] = place
            for moves in starting.values():
                moves.sort(key=_larger_first)
            super().__init__(problem.places.calls, places.values())
            self._starting = {rank: tuple(moves) for rank, moves in starting.items()}

    def __iter__(self) -> Iterator[Move]:
        return (move for moves in self._starting.values() for move in moves)

    @cached_property
    def blocks(self) -> tuple["Block", ...]:
        """The moves in blocks: no candidate has nodes in two blocks."""
        found: list[list[Move]] = []
        starts = [start for start, _ in blocks(move.place for move in self)]
        for call in sorted(self._starting):
            moves = self._starting[call]
            number = bisect(starts, call) - 1
            while len(found) <= number:
                found.append([])
            found[number] += moves
        calls = [self.start[0], *(moves[0].place.call for moves in found[1:]), END]
        return tuple(map(Block, calls, calls[1:], map(tuple, found)))

    def from_(self, key: Key) -> tuple[Move, ...]:
        """The moves whose first call is the next call of the state."""
        return self._starting.get(key[0], ())


def _larger_first(move: Move) -> int:
    return -move.place.inside.bit_count()


def blocks(places: Iterable[Place]) -> list[tuple[int, int]]:
    """The first and last ranks of the blocks. No place has nodes in two blocks."""
    found: list[tuple[int, int]] = []
    for start, end in sorted({(place.start, place.end) for place in places}):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _opened(
    openings: tuple[Opening, ...], place: Place, takeable: OpSet, floor: int
) -> tuple[Opening, ...]:
    """`openings` after a kernel at `place` was taken."""
    if not place.is_ragged:
        return openings
    inside = place.inside << place.start - floor
    above, below = (place.above & takeable) >> floor, (place.below & takeable) >> floor
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
