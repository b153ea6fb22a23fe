"""Primitives: which touching candidates `combine_by_primitives` may join."""

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
        """As the function says: asked of many pairs, worked out once."""


class _Primitive:
    """By itself, one that joins nothing."""

    __slots__ = ()

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        """Whether the two, which touch, may become one."""
        kinds = upstream.kind, downstream.kind
        return self.concerns(*kinds) and self.permits(graph, upstream, downstream)

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        """Whether it joins any two of these kinds."""
        return False

    def permits(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        """Whether it joins these two, of kinds that it concerns."""
        return True

    def grows(self, graph: Graph, side: Side) -> Iterable[SubGraph]:
        """What `side` may be joined with that is no candidate: tuples and projections."""
        return ()


@dataclass(frozen=True, slots=True)
class KindPair(_Primitive):
    """`kind(A -> B)`: an upstream of kind A or less with a downstream of kind B or less."""

    upstream: Kind
    downstream: Kind

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        return upstream <= self.upstream and downstream <= self.downstream


@dataclass(frozen=True, slots=True)
class JoinAnything(_Primitive):
    """`join_anything`: any two that touch."""

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class InjectiveBranches(_Primitive):
    """
    `injective_branches`: an anchor or reduction with a region below it, or a region with a
    reduction below it, where injective calls of the region are on side branches alone.

    All of the region leads to one exit, a broadcasting call. An injective call is on a side
    branch where a broadcasting call of the region, above it, leads to the exit past it as well:

        e = exp(x); t = permute_dims(e); a = add(e, t); y = add(a, matmul(x, w));

    Here the product is joined with `e`, `t` and `a`. TVM's FuseOps does so too, since it fuses
    `e` with all that is on the way to where its paths meet. Without the way past `t` it does not.
    """

    def concerns(self, upstream: Kind, downstream: Kind) -> bool:
        if downstream is Kind.INJECTIVE:
            return upstream in (Kind.REDUCE, Kind.ANCHOR)
        return upstream is Kind.INJECTIVE and downstream is Kind.REDUCE

    def permits(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        region = downstream if downstream.kind is Kind.INJECTIVE else upstream
        return region.has_side_branches


def has_side_branches(graph: Graph, inside: OpSet, exits: OpSet) -> bool:
    """Whether all leads to the one exit, and injective calls are on side branches alone."""
    if exits.bit_count() != 1 or _leading_to(graph, end := first(exits), inside) != inside:
        return False
    simple = opset(i for i in members(inside & graph.calls) if graph.nodes[i].kind < Kind.INJECTIVE)
    return all(
        simple & _leading_to(graph, i, inside) & _leading_to(graph, end, inside & ~(1 << i))
        for i in members(inside & ~simple)
    )


def _leading_to(graph: Graph, index: int, inside: OpSet) -> OpSet:
    """The nodes inside from which a path inside leads to the node `index`, itself among them."""
    found, pending = 0, 1 << index & inside
    while pending:
        found |= pending
        pending = graph.input(pending) & inside & ~found
    return found


@dataclass(frozen=True, slots=True)
class TupleArgs(_Primitive):
    """
    `tuple_args`: an injective consumer with the tuple it takes, and that with the injective
    producers of the tuple's fields, any number of them.
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
    """`tuple_projections`: a candidate with a projection of its result."""

    def grows(self, graph: Graph, side: Side) -> Iterable[SubGraph]:
        return [SubGraph(1 << index) for index in members(side.outputs & graph.projections)]


@dataclass(frozen=True, slots=True)
class Constants(_Primitive):
    """
    `constants`: each candidate a second time, with all the constants that flow into it inside.

    It takes no part in joining: a union has the constants that its parts had from the rule, or
    all. With each part as one choice, n calls that take a constant each would have 2ⁿ unions.
    """


def with_constants(graph: Graph, found: Iterable[SubGraph]) -> Iterator[SubGraph]:
    """Each of `found`, and next to it the same with all its constants; each once."""
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
`tvm_default`: each group that TVM's FuseOps makes is among what these join, and many more.

A group has at most one call that is an anchor or a reduction. Under an anchor there are
broadcasting calls and what is on side branches between them; the same is above a reduction. All
other groups are injective throughout.
"""
