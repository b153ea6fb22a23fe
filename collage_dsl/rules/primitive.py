"""Primitives: which touching candidates `combine_by_primitives` may join."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from collage_dsl.graph import Form, Graph, Kind, SubGraph, members


class Side(Protocol):
    """A candidate as a primitive sees it."""

    @property
    def sub_graph(self) -> SubGraph: ...
    @property
    def kind(self) -> Kind: ...


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
class TupleArgs:
    """
    `tuple_args`: an injective consumer with the tuple it takes, and that with the injective
    producers of the tuple's fields, any number of them.
    """

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        if max(upstream.kind, downstream.kind) > Kind.INJECTIVE:
            return False
        fields = graph.output(upstream.sub_graph.inside) & downstream.sub_graph.inside
        return all(graph.nodes[i].form is Form.TUPLE for i in members(fields))

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        if side.kind > Kind.INJECTIVE:
            return
        for index in members(graph.input(side.sub_graph.inside)):
            if graph.nodes[index].form is Form.TUPLE:
                yield SubGraph(1 << index)


@dataclass(frozen=True, slots=True)
class TupleProjections:
    """`tuple_projections`: a candidate with a projection of its result."""

    def joins(self, graph: Graph, upstream: Side, downstream: Side) -> bool:
        return False

    def grows(self, graph: Graph, side: Side) -> Iterator[SubGraph]:
        for index in members(graph.output(side.sub_graph.inside)):
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


Primitive = KindPair | JoinAnything | TupleArgs | TupleProjections | Constants

TVM_DEFAULT: tuple[Primitive, ...] = (
    KindPair(Kind.ANCHOR, Kind.BROADCAST),
    KindPair(Kind.BROADCAST, Kind.REDUCE),
    KindPair(Kind.INJECTIVE, Kind.INJECTIVE),
    TupleArgs(),
    TupleProjections(),
)
"""`tvm_default`: what TVM's FuseOps joins."""
