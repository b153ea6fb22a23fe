"""Make choices one after the other, so that all combinations of them can be tried in turn."""

from collections.abc import Iterator
from random import Random


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
