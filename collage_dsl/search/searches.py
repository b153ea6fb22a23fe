"""Many searches over the same kernels: for some targets, with estimated costs, and with regions."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from math import isinf

from collage_dsl.cost import Infeasible
from collage_dsl.graph import CandidateKernel, OpSet, SubGraph, first, members
from collage_dsl.memory import uncollected
from collage_dsl.search.auto import BUDGET, MOST_OPEN, most_open
from collage_dsl.search.dijkstra import most_telling
from collage_dsl.search.moves import CHANCE_BITS, Move, Moves, blocks
from collage_dsl.search.partial import LEFT_ALONE
from collage_dsl.search.places import Place
from collage_dsl.search.problem import CLOSE, SECOND, Problem, femtoseconds
from collage_dsl.search.state_graph import StateGraph, Step, TooManyStatesError, path

Kernels = tuple[CandidateKernel, ...]

Row = tuple[int, int]
"""The first of some blocks that follow each other, and the block after the last one."""

Estimate = Callable[[CandidateKernel, float], float]
"""What a kernel that costs so much alone is expected to cost; infinite to leave it out."""

Estimates = Mapping[str, Estimate]
"""That of some targets. The kernels of other targets cost what they cost alone."""

_PRICE_BITS = 1100
"""Enough for the sum of any prices in femtoseconds, each of which is a floating-point number."""


class Searches:
    """
    Searches over the candidates of `problem`. Their states are found once. Raises
    `TooManyStatesError` where another strategy is better.

    Each search finds the one best choice of kernels: it leaves the fewest calls alone, then costs
    the least, then has the highest priority, then the fewest kernels, then kernels of the targets
    that come first, then the least sum of numbers that kernels have by chance. So another target
    never changes which of several equally good choices is found, unless it has a better one.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        with uncollected():
            self._prepare()

    def _prepare(self) -> None:
        """Find the states."""
        problem = self.problem
        self.moves = Moves(problem, problem.candidates)
        if most_open(self.moves) > MOST_OPEN:
            raise TooManyStatesError
        self._ranks = _Ranks(problem, self.moves)
        self._places: list[Place] = []
        self._number: dict[int, int] = {}
        self._of: dict[str, list[Move]] = {}
        self._at: dict[str, list[int]] = {}
        for move in self.moves:
            self._of.setdefault(move.candidate.target, []).append(move)
            self._at.setdefault(move.candidate.target, []).append(self._numbered(move.place))
        self._alone = [self._left_alone(index) for index in members(problem.graph.calls)]
        self._blocks = _Blocks(problem.places.calls, self._places)
        self._graph = StateGraph(problem.places.calls, self._places, BUDGET)
        self._borders = [self._graph.numbers[call, 0, ()] for call in self._blocks.first_calls]
        assert self._graph.goal is not None, "each call can be left alone"
        self._borders.append(self._graph.goal)
        self._known = 0
        self._values: dict[tuple[str, Estimate | None, bool], list[int]] = {}
        self._solved: dict[object, _Solved] = {}
        self._around: dict[Kernels, _Around] = {}

    @property
    def states(self) -> int:
        """How many states there are, with those that regions lead to."""
        return len(self._graph.numbers) + sum(each.states for each in self._around.values())

    def cheapest(
        self,
        targets: Collection[str],
        regions: Kernels = (),
        estimates: Estimates | None = None,
    ) -> Kernels:
        """
        The best choice of the kernels of `targets` and of `regions`, whose costs are known. Calls
        that are left alone are kernels of `LEFT_ALONE`. Asks for the costs of the kernels in it; if
        there are no lower bounds, for all costs. If the problem predicts costs, a choice of known
        kernels is enough that costs at most `CLOSE` more than the best choice is assumed to.
        """
        estimates = estimates or {}
        while True:
            with uncollected():
                least, chosen = self._chosen(targets, regions, estimates)
                unknown = [each for each in chosen if not self._is_known(each)]
                if unknown and self.problem.predicts:
                    rank, known = self._chosen(targets, regions, estimates, all_known=True)
                    if self._ranks.are_close(rank, least):
                        return tuple(each.candidate for each in known)
            if not unknown:
                return tuple(each.candidate for each in chosen)
            by_block = self._blocks.divided(unknown)
            telling = most_telling(self.problem, by_block)
            self.problem.ask_alike(move.candidate for move in telling)

    def _numbered(self, place: Place) -> int:
        number = self._number.setdefault(id(place), len(self._places))
        if number == len(self._places):
            self._places.append(place)
        return number

    def _left_alone(self, index: int) -> tuple[int, Move]:
        """The place and the kernel of a call that is left alone."""
        candidate = CandidateKernel(self.problem.graph, SubGraph(1 << index), LEFT_ALONE)
        place = self.problem.places.of(candidate.sub_graph)
        assert place is not None
        return self._numbered(place), Move(-1, candidate, place, 0)

    def _is_known(self, move: Move) -> bool:
        return move.number < 0 or self.problem.is_asked(move.candidate)

    def _forget(self) -> None:
        """Forget what was found with lower bounds, if costs became known, here or elsewhere."""
        if self.problem.has_bounds and self._known != len(self.problem.priced):
            self.problem.foresee()
            self._known = len(self.problem.priced)
            self._values.clear()
            self._solved.clear()

    def _chosen(
        self,
        targets: Collection[str],
        regions: Kernels,
        estimates: Estimates,
        *,
        all_known: bool = False,
    ) -> tuple[int, list[Move]]:
        """The best choice and its rank; only of kernels whose costs are known, if `all_known`."""
        self._forget()
        key = frozenset(targets), frozenset(estimates.items()), all_known
        if key not in self._solved:
            self._solved[key] = self._solve(targets, estimates, all_known)
        solved = self._solved[key]
        if not regions:
            goal = self._borders[-1]
            return solved.cost(0, goal), solved.between(0, goal)
        return self._with_regions(solved, regions)

    def _solve(self, targets: Collection[str], estimates: Estimates, all_known: bool) -> "_Solved":
        none, alone = self._ranks.none, self._ranks.alone
        costs = [none] * len(self._places)
        cheapest: list[Move | None] = [None] * len(costs)
        for place, move in self._alone:
            costs[place], cheapest[place] = alone, move
        for target in sorted(targets):
            moves, at = self._of.get(target, ()), self._at.get(target, ())
            values = self._valued(target, estimates.get(target), all_known)
            for place, value, move in zip(at, values, moves, strict=True):
                if value < costs[place]:
                    costs[place], cheapest[place] = value, move
        return _Solved(costs, cheapest, *self._graph.shortest(costs, none))

    def _valued(self, target: str, estimate: Estimate | None, all_known: bool) -> list[int]:
        key = target, estimate, all_known
        if key not in self._values:
            moves = self._of.get(target, ())
            if not self.problem.has_bounds:
                self.problem.ask(move.candidate for move in moves)
            self._values[key] = [
                self._ranks.none
                if all_known and not self._is_known(move)
                else self._value(move, estimate)
                for move in moves
            ]
        return self._values[key]

    def _value(self, move: Move, estimate: Estimate | None) -> int:
        candidate = move.candidate
        seconds = self.problem.priced.get(candidate)
        if seconds is None:
            if estimate is None:
                return self._ranks.of(move, self.problem.least(candidate))
            seconds = self.problem.least(candidate) / SECOND
        elif isinstance(seconds, Infeasible):
            return self._ranks.none
        if estimate is not None:
            seconds = estimate(candidate, seconds)
        return self._ranks.none if isinf(seconds) else self._ranks.of(move, femtoseconds(seconds))

    def _with_regions(self, solved: "_Solved", regions: Kernels) -> tuple[int, list[Move]]:
        """
        The best choice with regions. Blocks that each region has wholly or not at all are covered
        as without regions.
        """
        if regions not in self._around:
            moves = [self._region(each) for each in regions]
            self._around[regions] = _Around(moves, self._blocks, self._places)
        around = self._around[regions]
        borders = self._borders
        costs = [
            *(self._ranks.of(move, self.problem.price(move.candidate)) for move in around.regions),
            *(solved.cost(borders[start], borders[end]) for start, end in around.rows),
            *(solved.costs[number] for number in around.numbers),
        ]
        chosen: list[Move] = []
        rank, steps = around.best(costs, self._ranks.none)
        for step in steps:
            if isinstance(step, Move):
                chosen.append(step)
            elif isinstance(step, tuple):
                chosen += solved.between(borders[step[0]], borders[step[1]])
            else:
                chosen.append(solved.at(step))
        return rank, chosen

    def _region(self, candidate: CandidateKernel) -> Move:
        place = self.problem.places.of(candidate.sub_graph)
        assert place is not None, "a region is convex and has calls"
        return Move(-1, candidate, place, self.problem.demotion(candidate))


class _Around:
    """
    The states that kernels and regions can reach. A row of blocks between the ends of regions is
    one step, see `_Blocks.around`.
    """

    def __init__(self, regions: Sequence[Move], found: "_Blocks", places: Sequence[Place]) -> None:
        self.regions = regions
        self.rows, open_ = found.around([move.place for move in regions])
        self.numbers = [number for block in open_ for number in found.places[block]]
        """Of the places in open blocks."""
        self._steps: list[Move | Row | int] = [*regions, *self.rows, *self.numbers]
        every = [
            *(move.place for move in regions),
            *(found.row(*row) for row in self.rows),
            *(places[number] for number in self.numbers),
        ]
        self._graph = StateGraph(found.calls_of(open_, self.rows), every, BUDGET)
        self.states = len(self._graph.numbers)

    def best(self, costs: Sequence[int], most: int) -> "tuple[int, list[Move | Row | int]]":
        """
        What the best path costs, and the regions, rows, and numbers of places on it; `costs` are in
        this order.
        """
        least, by = self._graph.shortest(costs, most)
        goal = self._graph.goal
        assert goal is not None, "each call can be left alone"
        return least[goal], [self._steps[place] for place in path(by, 0, goal)][::-1]


class _Ranks:
    """
    What a kernel costs, how much lower its priority is, and the rest that decides, as one number.
    The lower sum of these numbers is better.
    """

    def __init__(self, problem: Problem, moves: Moves) -> None:
        calls = problem.graph.calls.bit_count()
        most = max((move.demotion for move in moves), default=0)
        kernels = calls.bit_length() + 1
        self._orders = problem.order_of_targets
        self._order = CHANCE_BITS + kernels
        one = self._order + kernels + len(self._orders).bit_length()
        self._one = 1 << one
        self._demotion = one + kernels
        self._price = self._demotion + (calls * most).bit_length() + 1
        self.alone = 1 << self._price + _PRICE_BITS
        """More than all kernels of a plan together."""
        self.none = self.alone << kernels
        """More than the worst plan."""
        self._rests = {move.number: self._rest(move) for move in moves}

    def of(self, move: Move, price: int | None) -> int:
        """That of a kernel with a `price` in femtoseconds; `none` without one."""
        if price is None:
            return self.none
        rest = self._rests.get(move.number) or self._rest(move)
        return (price << self._price) + rest

    def are_close(self, rank: int, least: int) -> bool:
        """Whether a choice leaves as few calls alone as the best one, and costs hardly more."""
        (alone, cost), (fewest, lowest) = divmod(rank, self.alone), divmod(least, self.alone)
        return alone == fewest and cost - lowest <= lowest // round(1 / CLOSE)

    def _rest(self, move: Move) -> int:
        order = self._orders.get(move.candidate.target, 0)
        return (move.demotion << self._demotion) + self._one + (order << self._order) + move.chance


class _Solved:
    """The best choice for all calls, and so for all blocks."""

    def __init__(
        self,
        costs: list[int],
        cheapest: list[Move | None],
        least: list[int],
        by: list[Step | None],
    ) -> None:
        self.costs = costs
        """For each place, what its best kernel costs."""
        self._cheapest = cheapest
        self._least = least
        self._by = by

    def cost(self, start: int, end: int) -> int:
        """The least cost from a state to another that all paths through it pass."""
        return self._least[end] - self._least[start]

    def between(self, start: int, end: int) -> list[Move]:
        """The kernels on the best path from a state to another."""
        return [self.at(place) for place in path(self._by, start, end)][::-1]

    def at(self, place: int) -> Move:
        """The best kernel at a place."""
        move = self._cheapest[place]
        assert move is not None
        return move


class _Blocks:
    """Places in blocks: no place has nodes in two blocks."""

    def __init__(self, calls: OpSet, places: Sequence[Place]) -> None:
        found = blocks(places)
        self._calls = calls
        self._starts = [start for start, _ in found]
        self._ends = [end for _, end in found]
        self.places: list[list[int]] = [[] for _ in found]
        self._nodes = 0
        for number, place in enumerate(places):
            self.places[self._block(place.start)].append(number)
            self._nodes |= place.inside << place.start
        self.first_calls = [
            min(places[number].call for number in numbers) for numbers in self.places
        ]

    def _block(self, rank: int) -> int:
        return max(0, bisect_right(self._starts, rank) - 1)

    def divided(self, moves: Iterable[Move]) -> list[list[Move]]:
        """`moves` by block."""
        found: dict[int, list[Move]] = {}
        for move in moves:
            found.setdefault(self._block(move.place.start), []).append(move)
        return list(found.values())

    def _within(self, nodes: OpSet, start: int, end: int) -> OpSet:
        """The nodes in a row of blocks, counted from the first rank of the row."""
        low, high = self._starts[start], self._ends[end - 1]
        return (nodes >> low) & (1 << high - low + 1) - 1

    def around(self, regions: Iterable[Place]) -> tuple[list[Row], list[int]]:
        """
        The rows of closed blocks, and the open blocks. A block is open if a region begins before
        its end, ends after its start, and does not contain it. No region begins or ends within a
        row.
        """
        cuts = {0, len(self._starts)}
        open_: set[int] = set()
        for region in regions:
            start, end = self._block(region.start), self._block(region.end) + 1
            cuts |= {start, end}
            low = self._starts[start]
            shift = region.start - low
            inside = region.inside << shift if shift >= 0 else region.inside >> -shift
            missing = self._within(self._nodes, start, end) & ~inside
            open_.update(self._block(low + rank) for rank in members(missing))
        for block in open_:
            cuts |= {block, block + 1}
        ends = sorted(cuts)
        rows = pairwise(ends)
        return [row for row in rows if row[0] not in open_], sorted(open_)

    def row(self, start: int, end: int) -> Place:
        """The place of a row of blocks."""
        calls = self._within(self._calls, start, end)
        low = self._starts[start]
        return Place(low, self._within(self._nodes, start, end), calls, low + first(calls))

    def calls_of(self, open_: Iterable[int], rows: Iterable[Row]) -> OpSet:
        """The calls of open blocks, and the first call of each row."""
        found = 0
        for block in open_:
            found |= self._within(self._calls, block, block + 1) << self._starts[block]
        for start, _ in rows:
            found |= 1 << self.first_calls[start]
        return found
