"""What the matcher tells while it works, and to whom."""

from collections.abc import Iterable
from typing import Protocol, Self, TypeVar

from collage_dsl.rules.condition import Given, Unknown, Value, Where
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.pattern import Operand, Pattern
from collage_dsl.source import Span

T = TypeVar("T")


class Observer(Protocol):
    """
    Hears what the matcher does in one part of an attempt to match a pattern.

    Before the matcher tries a smaller part, it asks `operand`, `pattern` or `operands` for the
    observer of that part; an observer may give itself. The matcher backtracks: it may come back
    to a part after it has tried others, and then tells the observer of that part again.
    """

    def operand(self, operand: Operand, index: int, frame: Frame) -> "Observer":
        """The observer of matching `operand`, of the pattern of `frame`, at node `index`."""
        ...

    def pattern(self, pattern: Pattern) -> "Observer":
        """The observer of matching the results of `pattern` and asking its conditions."""
        ...

    def operands(self, given: tuple[int, ...]) -> "Observer":
        """The observer of matching operands, or fields, at the nodes `given`, in this order."""
        ...

    def each(self, tried: Iterable[T]) -> Iterable[T]:
        """`tried`: each element, when it is taken, is a way in which this part matched."""
        ...

    def asked(
        self, where: Where, index: int, given: Given, held: Value | Unknown, said: str
    ) -> None:
        """A condition was asked about node `index`; a predicate in it `said` why it failed."""
        ...

    def settled(self, wheres: Iterable[Where], index: int, given: Given) -> None:
        """Of `wheres` no more are asked: all held, or one failed."""
        ...

    def hears(self, progress: int) -> bool:
        """Whether a refusal after `progress` nodes had matched is worth its text."""
        ...

    def refused(self, progress: int, because: str, span: Span | None, reason: str) -> None:
        """This part does not match; `reason` is what the pattern itself says."""
        ...


class NoObserver:
    """An observer that hears nothing. Derive from it to hear only some of it."""

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


NO_OBSERVER = NoObserver()
