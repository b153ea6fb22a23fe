"""All states of a search, found once, and shortest paths through them for any costs."""

from collections.abc import Iterator, Sequence

from collage_dsl.graph import OpSet, members
from collage_dsl.search.moves import END, Key, States
from collage_dsl.search.places import Place

Step = tuple[int, int, int]
"""The number of a state, of a place, and of the state after a kernel at this place."""


class TooManyStatesError(Exception):
    """There are more states within one block than may be kept."""


class StateGraph:
    """
    The states that kernels at `places` can reach, and the steps between them. `calls` have to be
    covered. State 0 is the start. The steps that lead to a state come before those that leave it.

    Raises `TooManyStatesError` if in some block there are more than `most` states.
    """

    def __init__(self, calls: OpSet, places: Sequence[Place], most: int) -> None:
        self.places = places
        self.states = States(calls, places)
        self.numbers: dict[Key, int] = {self.states.start: 0}
        self.steps: list[Step] = []
        starting: dict[int, list[int]] = {}
        for number, place in enumerate(places):
            starting.setdefault(place.call, []).append(number)
        waiting: dict[int, list[Key]] = {self.states.start[0]: [self.states.start]}
        known = 0
        for call in members(calls):
            found = waiting.pop(call, [])
            if not waiting:
                known = len(self.numbers)  # a block ends here
            for key in found:
                self._leave(key, starting.get(call, ()), waiting)
            if len(self.numbers) - known > most:
                raise TooManyStatesError
        self.goal = self.numbers.get((END, 0, ()))

    def _leave(self, key: Key, starting: Sequence[int], waiting: dict[int, list[Key]]) -> None:
        """Note the steps that leave a state."""
        numbers, after_place = self.numbers, self.states.after
        before = numbers[key]
        for place in starting:
            after = after_place(key, self.places[place])
            if after is None:
                continue
            number = numbers.get(after)
            if number is None:
                number = numbers[after] = len(numbers)
                waiting.setdefault(after[0], []).append(after)
            self.steps.append((before, place, number))

    def shortest(self, costs: Sequence[int], most: int) -> tuple[list[int], list[Step | None]]:
        """
        The least cost of each state, and the last step to it, if kernels at a place cost so much.
        No path costs as much as `most`.
        """
        least = [most] * len(self.numbers)
        by: list[Step | None] = [None] * len(least)
        least[0] = 0
        for step in self.steps:
            before, place, after = step
            cost = least[before] + costs[place]
            if cost < least[after]:
                least[after], by[after] = cost, step
        return least, by


def path(by: Sequence[Step | None], start: int, end: int) -> Iterator[int]:
    """The places of the steps from the state `start` to `end`, the last one first."""
    while end != start:
        step = by[end]
        assert step is not None, "there is no path"
        end, place, _ = step
        yield place
