"""Match a pattern, and remember in which ways each of its parts matches at each node."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collage_dsl.graph import Graph
from collage_dsl.rules import condition
from collage_dsl.rules.backtracking import Backtracking, TooManyStepsError
from collage_dsl.rules.frame import Frame
from collage_dsl.rules.observer import Observer
from collage_dsl.rules.partial import Partial
from collage_dsl.rules.parts import asks_predicates, inner_operands, wheres, written_operands
from collage_dsl.rules.pattern import (
    Anything,
    ListOf,
    Number,
    Operand,
    Pattern,
    PatternCall,
    Reference,
)
from collage_dsl.rules.predicate import Lookup


@dataclass(frozen=True, slots=True)
class _Reach:
    """
    What the ways in which an operand matches depend on: the bound ones of these `names`, and, if
    it `asks` a predicate, the nodes inside.
    """

    names: tuple[str, ...] = ()
    asks: bool = False


@dataclass(frozen=True, slots=True)
class _Later:
    """
    What the rest of a pattern may still need to know: the nodes of `names`, and which of the
    `required` parameters are bound.
    """

    names: tuple[str, ...]
    required: tuple[str, ...]


class Remembering(Backtracking):
    """
    Finds the same matches as `Backtracking`, and matches each operand at each node only once.

    Two ways in which an operand matches are the same if they have the same nodes inside and
    nothing that comes later can tell them apart. Only the first of them is kept. So a pattern in
    which each name is used once takes a number of steps that is polynomial in the number of
    different sets of nodes that its operands match.
    """

    def __init__(self, pattern: Pattern, graph: Graph, lookup: Lookup) -> None:
        super().__init__(pattern, graph, lookup)
        self.ways: dict[tuple[object, ...], tuple[Partial, ...]] = {}
        self.frames: dict[tuple[int, int, int], Frame] = {}
        self.reaches: dict[tuple[int, int], _Reach] = {}
        self.laters: dict[int, _Later] = {}

    def operand(
        self, frame: Frame, operand: Operand, index: int, so_far: Partial, observer: Observer
    ) -> Iterable[Partial]:
        reach = self.reach(frame, operand)
        bound = {name: so_far.bound[name] for name in reach.names if name in so_far.bound}
        inside, size = (so_far.inside, so_far.size) if reach.asks else (0, 0)
        key = (id(operand), id(frame), index, so_far.frames, inside, *bound.items())
        ways = self.ways.get(key)
        if ways is None:
            start = Partial(inside, bound=bound, frames=so_far.frames, size=size)
            found = super().operand(frame, operand, index, start, observer)
            ways = self.ways[key] = self.distinct(frame, found)
        self.steps += len(ways)
        if self.steps > self.most:
            raise TooManyStepsError
        return [_after(so_far, way) for way in ways]

    def distinct(self, frame: Frame, ways: Iterable[Partial]) -> tuple[Partial, ...]:
        """
        The first of those that are the same for everything later. Further results of a pattern
        are searched below all nodes that are bound.
        """
        later, visible = self.later(frame), bool(self.outermost.pattern.others)
        first: dict[tuple[object, ...], Partial] = {}
        for way in ways:
            inside, constants, bound, _, shared, pending, steps, _ = way
            nodes = tuple([bound.get(name) for name in later.names])
            given = tuple([name in bound for name in later.required])
            places = frozenset(bound.values()) if visible else None
            key = (inside, constants, shared, steps > 0, pending, nodes, given, places)
            first.setdefault(key, way)
        return tuple(first.values())

    def called(
        self, frame: Frame, call: PatternCall, index: int, so_far: Partial, observer: Observer
    ) -> Iterator[Partial]:
        """Nothing after a called pattern uses its names or asks its conditions."""
        number = so_far.frames + 1
        key = (id(call), id(frame), number)
        callee = self.frames.get(key)
        if callee is None:
            callee = self.frames[key] = Frame.called(call, number, frame)
        for way in self.result(callee, index, so_far._replace(frames=number), observer):
            bound = {
                name if not name.startswith(callee.prefix) else f".{at}": at
                for name, at in way.bound.items()
            }
            pending = tuple(each for each in way.pending if each[0] != callee.prefix)
            yield way._replace(bound=bound, pending=pending, frames=so_far.frames)

    def reach(self, frame: Frame, operand: Operand) -> _Reach:
        key = (id(operand), id(frame))
        reach = self.reaches.get(key)
        if reach is None:
            names: dict[str, None] = {}
            asks = self.gather(frame, operand, names)
            reach = self.reaches[key] = _Reach(tuple(names), asks)
        return reach

    def gather(self, frame: Frame, operand: Operand, names: dict[str, None]) -> bool:
        """Add the names that `operand` leads to. Whether a pattern called there asks predicates."""
        match operand:
            case Reference(name):
                key = frame.prefix + name
                if key in names:
                    return False
                names[key] = None
                if name in frame.values:
                    return self.gather(frame, frame.values[name], names)
                if frame.caller is not None:
                    return self.gather(frame.caller, frame.operands[name], names)
                return False
            case Anything() | Number() | ListOf():
                return False
            case _:
                asks = [self.gather(frame, part, names) for part in inner_operands(operand)]
                return any(asks) or (
                    isinstance(operand, PatternCall) and asks_predicates(operand.pattern)
                )

    def later(self, frame: Frame) -> _Later:
        """For a frame and those that call it, as patterns called before it are complete."""
        later = self.laters.get(id(frame))
        if later is None:
            pattern, prefix = frame.pattern, frame.prefix
            names = tuple(prefix + name for name in sorted(_used_later(pattern)))
            required = tuple(prefix + each.name for each in pattern.parameters if not each.optional)
            if frame.caller is not None:
                before = self.later(frame.caller)
                names, required = names + before.names, required + before.required
            later = self.laters[id(frame)] = _Later(names, required)
        return later


def _after(so_far: Partial, way: Partial) -> Partial:
    """`way`, in which an operand matches by itself, after what matched `so_far`."""
    inside, constants, bound, frames, shared, pending, steps, _ = so_far
    inside |= way.inside
    return Partial(
        inside,
        constants | way.constants,
        {**bound, **way.bound},
        frames,
        shared | way.shared,
        pending + way.pending,
        steps + way.steps,
        inside.bit_count(),
    )


def _used_later(pattern: Pattern) -> frozenset[str]:
    """The names that are used more than once, or that conditions ask about."""
    results = pattern.results
    used = Counter(
        [*results, *(p.name for p in written_operands(pattern) if isinstance(p, Reference))]
    )
    asked = (condition.names(where.condition) for where in wheres(pattern))
    return frozenset(name for name, count in used.items() if count > 1).union(*asked)
