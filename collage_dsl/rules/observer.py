"""The interface through which the matcher reports what it tries and what it refuses."""

from collections.abc import Iterable
from typing import Protocol, Self, TypeVar

from collage_dsl.rules.condition import Given, Unknown, Value, Where
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.pattern import Operand, Pattern
from collage_dsl.source import Span

T = TypeVar("T")


class Observer(Protocol):
    """
    The matcher calls these methods in one part of an attempt to match a pattern.

    Before the matcher tries a smaller part, it calls `operand`, `pattern` or `operands` to get
    the observer of that part; an observer may return itself. The matcher backtracks: it may try
    a part again after others, and then calls the observer of that part again.
    """

    def operand(self, operand: Operand, index: int, frame: Frame) -> "Observer":
        """The observer for matching `operand`, of the pattern of `frame`, at node `index`."""
        ...

    def pattern(self, pattern: Pattern) -> "Observer":
        """The observer for matching the results of `pattern` and asking its conditions."""
        ...

    def operands(self, given: tuple[int, ...]) -> "Observer":
        """The observer for matching operands, or fields, at the nodes `given`, in this order."""
        ...

    def each(self, tried: Iterable[T]) -> Iterable[T]:
        """Pass on `tried`. Each element taken from it is a way in which this part matched."""
        ...

    def asked(
        self, where: Where, index: int, given: Given, held: Value | Unknown, said: str
    ) -> None:
        """A condition was asked about node `index`. `said` is the reason of a failed predicate."""
        ...

    def settled(self, wheres: Iterable[Where], index: int, given: Given) -> None:
        """No more of the conditions `wheres` are asked: all held, or one failed."""
        ...

    def hears(self, progress: int) -> bool:
        """Whether the observer wants the text of a refusal after `progress` nodes had matched."""
        ...

    def refused(self, progress: int, because: str, span: Span | None, reason: str) -> None:
        """This part does not match; `reason` is the reason that the pattern itself gives."""
        ...

    def reached(self) -> int:
        """How many nodes had matched before the refusal that is kept; -1 if none is kept."""
        ...

    def overruled(self, progress: int) -> None:
        """
        The refusal that is kept is not why the pattern does not match: the part matched in another
        way. Any later refusal after `progress` nodes or more takes its place.
        """
        ...

    def again(self) -> "Observer":
        """
        The attempt takes many steps and is begun anew. This time, each part is tried and reported
        once at a node. Returns the observer of the new attempt.
        """
        ...

    def stops(self, steps: int) -> None:
        """The attempt took too many steps, and there may be matches that were not found."""
        ...


class NoObserver:
    """An observer that does nothing. Derive from it, and override the methods that you need."""

    __slots__ = ()

    def operand(self, operand: Operand, index: int, frame: Frame) -> Self:
        return self

    def pattern(self, pattern: Pattern) -> Self:
        return self

    def operands(self, given: tuple[int, ...]) -> Self:
        return self

    def each(self, tried: Iterable[T]) -> Iterable[T]:
        return tried

    def asked(
        self, where: Where, index: int, given: Given, held: Value | Unknown, said: str
    ) -> None:
        pass

    def settled(self, wheres: Iterable[Where], index: int, given: Given) -> None:
        pass

    def hears(self, progress: int) -> bool:
        return False

    def refused(self, progress: int, because: str, span: Span | None, reason: str) -> None:
        pass

    def reached(self) -> int:
        return -1

    def overruled(self, progress: int) -> None:
        pass

    def again(self) -> Self:
        return self

    def stops(self, steps: int) -> None:
        pass


NO_OBSERVER = NoObserver()
