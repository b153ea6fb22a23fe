"""The closure of a set of sub-graphs under joining touching ones."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from collage_dsl.graph import Composite, Graph, Kind, OpSet, SubGraph, members, opset, spread
from collage_dsl.rules.primitive import KindPair, Primitive, has_side_branches


@dataclass(frozen=True)
class _Part:
    """A sub-graph and the facts of it that joining asks for."""

    graph: Graph = field(repr=False)
    sub_graph: SubGraph
    kind: Kind
    exits: OpSet
    inputs: OpSet
    """The calls, tuples and projections among them."""
    outputs: OpSet
    composites: OpSet
    """By number."""

    @cached_property
    def has_side_branches(self) -> bool:
        return has_side_branches(self.graph, self.sub_graph.inside, self.exits)


def combine(
    graph: Graph,
    seeds: Iterable[SubGraph],
    using: tuple[Primitive, ...],
    *,
    max_depth: int | None,
    max_nodes: int | None,
) -> Iterator[SubGraph]:
    """
    Every union of touching `seeds` that `using` allows, the seeds themselves first.

    Each pair is tried once, when the later of its two is taken from the queue, so that an
    old upstream meets a new downstream as well as the other way round. A union has to be
    convex and within the limits; it may have several exits, since the next union may take
    them in.
    """
    return _Closure(graph, using, max_depth, max_nodes).grown(seeds)


class _Closure:
    def __init__(
        self,
        graph: Graph,
        using: tuple[Primitive, ...],
        max_depth: int | None,
        max_nodes: int | None,
    ) -> None:
        self.graph = graph
        self.using = using
        self.kinds = [p for p in using if isinstance(p, KindPair)]
        self.others = [p for p in using if not isinstance(p, KindPair)]
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.tried: set[tuple[tuple[int, OpSet], OpSet, OpSet]] = set()
        self.numbers: dict[Composite, int] = {}
        self.queue: deque[_Part] = deque()
        self.by_exit: defaultdict[int, list[_Part]] = defaultdict(list)
        self.by_input: defaultdict[int, list[_Part]] = defaultdict(list)

    def grown(self, seeds: Iterable[SubGraph]) -> Iterator[SubGraph]:
        for seed in seeds:
            part = self.part(seed)
            if self.is_new(seed.inside, seed.constants, part.composites):
                self.queue.append(part)
        while self.queue:
            part = self.queue.popleft()
            yield part.sub_graph
            for index in members(part.exits):
                self.by_exit[index].append(part)
            for index in members(part.inputs):
                self.by_input[index].append(part)
            for primitive in self.using:
                for addition in primitive.grows(self.graph, part):
                    self.join(part, self.part(addition))
            for upstream, downstream in self.touching(part):
                if self.may_join(upstream, downstream):
                    self.join(upstream, downstream)

    def touching(self, part: _Part) -> Iterator[tuple[_Part, _Part]]:
        """The (upstream, downstream) pairs of `part` with disjoint parts met so far."""
        inside = part.sub_graph.inside
        below = {id(p): p for i in members(part.exits) for p in self.by_input.get(i, ())}
        above = {id(p): p for i in members(part.inputs) for p in self.by_exit.get(i, ())}
        for other in below.values():
            if not other.sub_graph.inside & inside:
                yield part, other
        for other in above.values():
            if not other.sub_graph.inside & inside:
                yield other, part

    def may_join(self, upstream: _Part, downstream: _Part) -> bool:
        above, below = upstream.kind, downstream.kind
        for pair in self.kinds:
            if above <= pair.upstream and below <= pair.downstream:
                return True
        return any(other.joins(self.graph, upstream, downstream) for other in self.others)

    def join(self, one: _Part, other: _Part) -> None:
        """Put the union of the two, if it is new and possible, in the queue."""
        inside = one.sub_graph.inside | other.sub_graph.inside
        constants = one.sub_graph.constants | other.sub_graph.constants
        if self.is_new(inside, constants, one.composites | other.composites):
            outputs = (one.outputs | other.outputs) & ~inside
            if self.is_possible(inside, outputs):
                self.queue.append(_union(self.graph, one, other, outputs))

    def is_new(self, inside: OpSet, constants: OpSet, composites: OpSet) -> bool:
        """Whether this has not been tried before: what was not possible never is."""
        key = spread(inside), constants, composites
        if key in self.tried:
            return False
        self.tried.add(key)
        return True

    def part(self, sub_graph: SubGraph) -> _Part:
        graph, inside, numbers = self.graph, sub_graph.inside, self.numbers
        return _Part(
            graph,
            sub_graph,
            graph.kind(inside),
            graph.exit(inside),
            graph.input(inside) & graph.computed,
            graph.output(inside),
            opset(numbers.setdefault(each, len(numbers)) for each in sub_graph.composites),
        )

    def is_possible(self, inside: OpSet, outputs: OpSet) -> bool:
        """As below, where the nodes that `inside` flows into are known."""
        comes_back = any(self.graph.downstream_of[i] & inside for i in members(outputs))
        return not comes_back and _is_small(self.graph, inside, self.max_depth, self.max_nodes)


def _union(graph: Graph, one: _Part, other: _Part, outputs: OpSet) -> _Part:
    """The union of the two parts, which flows into `outputs`: its exits are among theirs."""
    union = one.sub_graph | other.sub_graph
    inside = union.inside
    exits = (one.exits | other.exits) & inside
    for index in members(exits & ~graph.results):
        users = graph.users_of[index]
        if users & inside == users:
            exits ^= 1 << index
    inputs = (one.inputs | other.inputs) & ~inside
    composites = one.composites | other.composites
    return _Part(graph, union, max(one.kind, other.kind), exits, inputs, outputs, composites)


def is_possible(graph: Graph, inside: OpSet, max_depth: int | None, max_nodes: int | None) -> bool:
    """Whether that is convex, in one dataflow block and on one device, and within the bounds."""
    return _is_small(graph, inside, max_depth, max_nodes) and graph.is_convex(inside)


def _is_small(graph: Graph, inside: OpSet, max_depth: int | None, max_nodes: int | None) -> bool:
    """Whether that is in one dataflow block and on one device, and within the bounds."""
    if max_nodes is not None and (inside & graph.calls).bit_count() > max_nodes:
        return False
    if max_depth is not None and graph.is_deeper(inside, max_depth):
        return False
    return graph.is_together(inside)
