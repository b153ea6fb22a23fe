"""The primitives that say which touching candidates `combine_by_primitives` may join."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from collage_dsl.graph import Graph, Kind, OpSet, SubGraph, first, members, opset


class Side(Protocol):
    """A candidate as a primitive sees it."""

    @property
    def sub_graph(self) -> SubGraph: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def inputs(self) -> OpSet:
        """The calls, tuples and projections that flow into it."""

    @property
    def outputs(self) -> OpSet: ...
    @property
    def has_side_branches(self) -> bool:
        """The value of the function `has_side_branches`, kept because many pairs need it."""


class _Primitive:
    """The base of all primitives; it joins nothing by itself."""

    __slots__ = ()

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        """Whether the two candidates, which touch, may become one."""
        kinds = upstream.kind, downstream.kind
        return self.concerns(*kinds) and self.permits(graph, upstream, downstream)

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        """Whether it may join two candidates of these kinds."""
        return False

    def permits(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        """Whether it joins these two, if it `concerns` their kinds."""
        return True

    def grows(self, graph: Graph, side: Side) -> Iterable[SubGraph]:
        """The tuples and projections beside `side` that may be added to it."""
        return ()


@dataclass(frozen=True, slots=True)
class KindPair(_Primitive):
    """`kind(A -> B)`: joins an upstream of kind A or less and a downstream of kind B or less."""

    upstream: Kind
    downstream: Kind

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        return upstream <= self.upstream and downstream <= self.downstream


@dataclass(frozen=True, slots=True)
class JoinAnything(_Primitive):
    """`join_anything`: joins any two candidates that touch."""

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class InjectiveBranches(_Primitive):
    """
    `injective_branches`: joins an anchor or reduction and a region below it, or a region and a
    reduction below it. The injective calls of the region must all be on side branches.

    All nodes of the region lead to one exit, a broadcasting call. An injective call is on a side
    branch if a broadcasting call above it, in the region, also leads to the exit on a path that
    does not contain the injective call:

        e = exp(x); t = permute_dims(e); a = add(e, t); y = add(a, matmul(x, w));

    Here the matrix product is joined with `e`, `t` and `a`. TVM's FuseOps does the same: it fuses
    `e` with all nodes on its paths up to the node where these paths meet. If the only path went
    through `t`, FuseOps would not fuse them.
    """

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        if downstream is Kind.INJECTIVE:
            return upstream in (Kind.REDUCE, Kind.ANCHOR)
        return upstream is Kind.INJECTIVE and downstream is Kind.REDUCE

    def permits(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        region = downstream if downstream.kind is Kind.INJECTIVE else upstream
        return region.has_side_branches


def has_side_branches(graph: Graph, inside: OpSet, exits: OpSet) -> bool:
    """Whether all nodes lead to one exit, and all injective calls are on side branches."""
    if exits.bit_count() != 1 or _leading_to(graph, end := first(exits), inside) != inside:
        return False
    simple = opset(i for i in members(inside & graph.calls) if graph.nodes[i].kind < Kind.INJECTIVE)
    return all(
        simple & _leading_to(graph, i, inside) & _leading_to(graph, end, inside & ~(1 << i))
        for i in members(inside & ~simple)
    )


def _leading_to(graph: Graph, index: int, inside: OpSet) -> OpSet:
    """The nodes inside from which a path inside leads to node `index`, and that node."""
    found, pending = 0, 1 << index & inside
    while pending:
        found |= pending
        pending = graph.input(pending) & inside & ~found
    return found


@dataclass(frozen=True, slots=True)
class TupleArgs(_Primitive):
    """
    `tuple_args`: joins an injective consumer and the tuple that it takes, and then any number of
    the injective producers of the fields of the tuple.
    """

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        return max(upstream, downstream) <= Kind.INJECTIVE

    def permits(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        return not upstream.outputs & downstream.sub_graph.inside & ~graph.tuples

    def grows(self, graph: Graph, side: Side) -> Iterable[SubGraph]:
        tuples = side.inputs & graph.tuples if side.kind <= Kind.INJECTIVE else 0
        return [SubGraph(1 << index) for index in members(tuples)]


@dataclass(frozen=True, slots=True)
class TupleProjections(_Primitive):
    """`tuple_projections`: joins a candidate and a projection of its result."""

    def grows(self, graph: Graph, side: Side) -> Iterable[SubGraph]:
        return [SubGraph(1 << index) for index in members(side.outputs & graph.projections)]


@dataclass(frozen=True, slots=True)
class Constants(_Primitive):
    """
    `constants`: proposes each candidate a second time, with all constants that flow into it
    bound inside.

    It does not join anything. A union has the constants that its parts got from the rule, or all
    constants. If each part could have its constants or not, n calls with one constant each would
    have 2ⁿ unions.
    """


def with_constants(graph: Graph, found: Iterable[SubGraph]) -> Iterator[SubGraph]:
    """Each of `found`, followed by the same sub-graph with all its constants; each once."""
    seen: set[SubGraph] = set()
    for sub_graph in found:
        flows_in = graph.input(sub_graph.inside) & graph.constants
        for each in (sub_graph, sub_graph | SubGraph(0, constants=flows_in)):
            if each not in seen:
                seen.add(each)
                yield each


Primitive = KindPair | JoinAnything | InjectiveBranches | TupleArgs | TupleProjections | Constants

TVM_DEFAULT: tuple[Primitive, ...] = (
    KindPair(Kind.ANCHOR, Kind.BROADCAST),
    KindPair(Kind.BROADCAST, Kind.REDUCE),
    KindPair(Kind.INJECTIVE, Kind.INJECTIVE),
    InjectiveBranches(),
    TupleArgs(),
    TupleProjections(),
)
"""
`tvm_default`: these primitives join each group that TVM's FuseOps makes, and many more.

A group of FuseOps has at most one call that is an anchor or a reduction. Below an anchor there
are broadcasting calls and calls on side branches between them. Above a reduction there are the
same. All other groups contain only injective calls, or calls of a lower kind.
"""
