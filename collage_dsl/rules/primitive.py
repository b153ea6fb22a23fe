"""Primitives: which touching candidates `combine_by_primitives` may join."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from collage_dsl.graph import Form, Graph, Kind, OpSet, SubGraph, first, members, opset


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


@dataclass(frozen=True, slots=True)
class KindPair:
    """`kind(A -> B)`: an upstream of kind A or less with a downstream of kind B or less."""

    upstream: Kind
    downstream: Kind

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        return upstream.kind <= self.upstream and downstream.kind <= self.downstream

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        yield from ()


@dataclass(frozen=True, slots=True)
class JoinAnything:
    """`join_anything`: any two that touch."""

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        return True

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        yield from ()


@dataclass(frozen=True, slots=True)
class InjectiveBranches:
    """
    `injective_branches`: an anchor or reduction with a region below it, or a region with a
    reduction below it, where injective calls of the region are on side branches alone.

    All of the region leads to one exit, a broadcasting call. An injective call is on a side
    branch where a broadcasting call of the region, above it, leads to the exit past it as well:

        e = exp(x); t = permute_dims(e); a = add(e, t); y = add(a, matmul(x, w));

    Here the product is joined with `e`, `t` and `a`. TVM's FuseOps does so too, since it fuses
    `e` with all that is on the way to where its paths meet. Without the way past `t` it does not.
    """

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        if downstream.kind is Kind.INJECTIVE:
            region = downstream if upstream.kind in (Kind.REDUCE, Kind.ANCHOR) else None
        else:
            is_reduced = upstream.kind is Kind.INJECTIVE and downstream.kind is Kind.REDUCE
            region = upstream if is_reduced else None
        return region is not None and region.has_side_branches

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        yield from ()


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
class TupleArgs:
    """
    `tuple_args`: an injective consumer with the tuple it takes, and that with the injective
    producers of the tuple's fields, any number of them.
    """

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        if max(upstream.kind, downstream.kind) > Kind.INJECTIVE:
            return False
        fields = upstream.outputs & downstream.sub_graph.inside
        return all(graph.nodes[i].form is Form.TUPLE for i in members(fields))

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        if side.kind > Kind.INJECTIVE:
            return
        for index in members(side.inputs & graph.free):
            if graph.nodes[index].form is Form.TUPLE:
                yield SubGraph(1 << index)


@dataclass(frozen=True, slots=True)
class TupleProjections:
    """`tuple_projections`: a candidate with a projection of its result."""

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        return False

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        for index in members(side.outputs & graph.free):
            if graph.nodes[index].form is Form.PROJECTION:
                yield SubGraph(1 << index)


@dataclass(frozen=True, slots=True)
class Constants:
    """`constants`: a candidate with all the constants that flow into it bound inside."""

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        return False

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        flows_in = graph.input(side.sub_graph.inside) & graph.constants
        if flows_in & ~side.sub_graph.constants:
            yield SubGraph(0, constants=flows_in)


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
