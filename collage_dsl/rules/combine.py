"""`combine_by_primitives`: join touching sub-graphs until no new union appears."""

import sys
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from collage_dsl.graph import (
    Compact,
    Composite,
    Graph,
    Kind,
    OpSet,
    SubGraph,
    compact,
    compact_of,
    expanded,
    joined,
    members_of,
)
from collage_dsl.graph.variants import Variants, common
from collage_dsl.rules.bound import STEPS, Bound, BoundReachedError
from collage_dsl.rules.primitive import Primitive, has_side_branches


@dataclass(eq=False)
class _Part:
    """A sub-graph, and the facts that joining needs. Sets are compact, because there are many."""

    graph: Graph = field(repr=False)
    sub_graph: SubGraph
    kind: Kind
    exits: Compact
    operands: Compact
    """The calls, tuples and projections that flow into it."""
    users: Compact
    """The nodes that it flows into."""
    composites: frozenset[int]
    """The numbers of its composites."""

    @property
    def inputs(self) -> OpSet:
        return expanded(self.operands)

    @property
    def outputs(self) -> OpSet:
        return expanded(self.users)

    @cached_property
    def has_side_branches(self) -> bool:
        return has_side_branches(self.graph, self.sub_graph.inside, expanded(self.exits))


def combine(
    graph: Graph,
    seeds: Iterable[SubGraph],
    using: tuple[Primitive, ...],
    *,
    max_depth: int | None,
    max_nodes: int | None,
    most: int = sys.maxsize,
    stopped: Callable[[Iterable[SubGraph]], None] = lambda _: None,
) -> Iterator[SubGraph]:
    """
    Every union of touching `seeds` that `using` allows, the seeds themselves first.

    Each pair is tried once, when the later of the two is taken from the queue. So an old upstream
    is tried with a new downstream, and a new upstream with an old downstream. A union must be
    convex and within the limits. It may have several exits, because a later union may contain
    what uses them.

    After `most` unions, or after `STEPS * most` pairs, no more are joined, and `stopped` is told
    the candidates until then. Unions of few seeds are found before those of many.
    """
    closure = _Closure(graph, using, max_depth, max_nodes, most)
    yield from closure.grown(seeds)
    if closure.has_stopped:
        stopped(closure.found)


class _Closure:
    def __init__(
        self,
        graph: Graph,
        using: tuple[Primitive, ...],
        max_depth: int | None,
        max_nodes: int | None,
        most: int,
    ) -> None:
        self.graph = graph
        self.using = using
        self.unions_left = most
        self.bound = Bound(STEPS * most)
        self.has_stopped = False
        self.found: list[SubGraph] = []
        self.joining = {
            (above, below): tuple(p for p in using if p.concerns(above, below))
            for above, below in product(Kind, repeat=2)
        }
        """For the kinds of an upstream and a downstream, the primitives that may join them."""
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.tried: set[tuple[Compact, Compact, frozenset[int], Variants]] = set()
        self.numbers: dict[Composite, int] = {}
        self.queue: deque[_Part] = deque()
        self.by_exit: defaultdict[int, list[_Part]] = defaultdict(list)
        self.by_input: defaultdict[int, list[_Part]] = defaultdict(list)

    def grown(self, seeds: Iterable[SubGraph]) -> Iterator[SubGraph]:
        for seed in seeds:
            part = self.part(seed)
            if self.is_new(seed.nodes, seed.bound, part.composites, seed.variants):
                self.queue.append(part)
        while self.queue:
            part = self.queue.popleft()
            self.found.append(part.sub_graph)
            yield part.sub_graph
            if not self.has_stopped:
                self.has_stopped = not self.joins(part)

    def joins(self, part: _Part) -> bool:
        """Join `part` with what touches it; false if the bounds end this."""
        exits, inputs = members_of(part.exits), members_of(part.operands)
        for index in exits:
            self.by_exit[index].append(part)
        for index in inputs:
            self.by_input[index].append(part)
        try:
            for primitive in self.using:
                for addition in primitive.grows(self.graph, part):
                    self.join(part, self.part(addition))
            for below in self.tried_with(self.by_input, exits):
                if self.may_join(part, below):
                    self.join(part, below)
            for above in self.tried_with(self.by_exit, inputs):
                if self.may_join(above, part):
                    self.join(above, part)
        except BoundReachedError:
            return False
        return True

    def tried_with(
        self, parts: Mapping[int, list[_Part]], indexes: Sequence[int]
    ) -> Collection[_Part]:
        """The parts at any of `indexes`, if they may still be tried."""
        found = _each(parts, indexes)
        self.bound.spend(len(found))
        return found

    def may_join(self, upstream: _Part, downstream: _Part) -> bool:
        """Whether the two are disjoint, and a primitive joins them."""
        if upstream.sub_graph.overlaps(downstream.sub_graph):
            return False
        for primitive in self.joining[upstream.kind, downstream.kind]:
            if primitive.permits(self.graph, upstream, downstream):
                return True
        return False

    def join(self, one: _Part, other: _Part) -> None:
        """Put the union of the two in the queue, if it is new and possible."""
        above, below = one.sub_graph, other.sub_graph
        nodes, bound = joined(above.nodes, below.nodes), joined(above.bound, below.bound)
        composites = one.composites | other.composites
        variants = common(above.variants, below.variants)
        if self.is_new(nodes, bound, composites, variants):
            inside = expanded(nodes)
            users = members_of(joined(one.users, other.users))
            outputs = [index for index in users if not inside >> index & 1]
            if self.is_possible(inside, outputs):
                if self.unions_left == 0:
                    raise BoundReachedError
                self.unions_left -= 1
                self.queue.append(_union(self.graph, one, other, outputs))

    def is_new(
        self, nodes: Compact, bound: Compact, composites: frozenset[int], variants: Variants
    ) -> bool:
        """
        Whether this has a variant and has not been tried before. What was not possible stays
        impossible.
        """
        if variants is not None and not variants:
            return False
        key = nodes, bound, composites, variants
        if key in self.tried:
            return False
        self.tried.add(key)
        return True

    def part(self, sub_graph: SubGraph) -> _Part:
        graph, inside, numbers = self.graph, sub_graph.inside, self.numbers
        start, _ = sub_graph.nodes
        indexes = sub_graph.indexes
        return _Part(
            graph,
            sub_graph,
            graph.kind(inside),
            compact_of(graph.exits(indexes, inside)),
            compact(graph.input(inside) & graph.computed),
            compact(graph.output(inside), start),
            frozenset(numbers.setdefault(each, len(numbers)) for each in sub_graph.composites),
        )

    def is_possible(self, inside: OpSet, outputs: Sequence[int]) -> bool:
        """The same as the function `is_possible`, with the known `outputs` of `inside`."""
        return not self.graph.leads_back(outputs, inside) and _is_small(
            self.graph, inside, self.max_depth, self.max_nodes
        )


def _each(parts: Mapping[int, list[_Part]], indexes: Sequence[int]) -> Collection[_Part]:
    """The parts at any of `indexes`, each once."""
    if len(indexes) == 1:
        return parts.get(indexes[0], ())
    return {id(part): part for index in indexes for part in parts.get(index, ())}.values()


def _union(graph: Graph, one: _Part, other: _Part, outputs: Sequence[int]) -> _Part:
    """The union of the two parts, which flows into `outputs`. Its exits are exits of the parts."""
    union = one.sub_graph | other.sub_graph
    inside = union.inside
    exits = compact_of(
        index
        for index in members_of(joined(one.exits, other.exits))
        if graph.is_needed_outside(index, inside)
    )
    operands = joined(one.operands, other.operands)
    inputs = expanded(operands)
    inputs ^= inputs & inside
    facts = exits, compact(inputs, operands[0]), compact_of(outputs)
    composites = one.composites | other.composites
    return _Part(graph, union, max(one.kind, other.kind), *facts, composites)


def is_possible(graph: Graph, inside: OpSet, max_depth: int | None, max_nodes: int | None) -> bool:
    """Whether `inside` is convex, in one dataflow block, on one device, and within the bounds."""
    return _is_small(graph, inside, max_depth, max_nodes) and graph.is_convex(inside)


def _is_small(graph: Graph, inside: OpSet, max_depth: int | None, max_nodes: int | None) -> bool:
    """Whether `inside` is in one dataflow block, on one device, and within the bounds."""
    if max_nodes is not None and (inside & graph.calls).bit_count() > max_nodes:
        return False
    if max_depth is not None and graph.is_deeper(inside, max_depth):
        return False
    return graph.is_together(inside)
