"""Make choices one after the other, so that all combinations of them can be tried in turn."""

from collections.abc import Iterator
from random import Random

_RARELY = 0.2


class Tape:
    """
    Choices between numbered alternatives: those of `before`, and after them the first alternative
    each time, or with `random` any one.
    """

    def __init__(self, before: tuple[int, ...] = (), random: Random | None = None) -> None:
        self.before = before
        self.random = random
        self.taken: list[tuple[int, int]] = []
        """Each choice, and of how many alternatives it was one."""

    def choose(self, count: int) -> int:
        """One of the numbers below `count`."""
        at = len(self.taken)
        if at < len(self.before):
            chosen = self.before[at]
        elif self.random is not None:
            chosen = self.random.randrange(count)
        else:
            chosen = 0
        self.taken.append((chosen, count))
        return chosen

    def rarely(self, count: int) -> int:
        """0, for what is usual; with `random`, now and then a number from 1 to `count`."""
        if self.random is None or count == 0 or self.random.random() >= _RARELY:
            return 0
        chosen = 1 + self.random.randrange(count)
        self.taken.append((chosen, count + 1))
        return chosen

    def next(self) -> "Tape | None":
        """The tape on which the last choice that can be made otherwise is; None if none can."""
        for at in reversed(range(len(self.taken))):
            chosen, count = self.taken[at]
            if chosen + 1 < count:
                return Tape((*(each for each, _ in self.taken[:at]), chosen + 1))
        return None


def tapes(most: int) -> Iterator[Tape]:
    """
    So many tapes. Every second one is random, since what goes wrong may be an early choice, which
    is changed last. After all combinations, they are random.
    """
    random = Random(0)
    tape: Tape | None = Tape()
    for _ in range(most // 2):
        if tape is not None:
            yield tape
            tape = tape.next()
        yield Tape(random=random)
