"""Fusion rules: leaves propose sub-graphs of a graph, combinators transform them."""

from collections.abc import Iterator
from dataclasses import dataclass

from collage_dsl.graph import Composite, Graph, Kind, SubGraph, members
from collage_dsl.rules.combine import combine
from collage_dsl.rules.limits import Limits
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.primitive import Primitive
from collage_dsl.rules.regions import Preference, regions
from collage_dsl.rules.trace import Trace

FUSIBLE = (Kind.ELEMENTWISE, Kind.BROADCAST, Kind.INJECTIVE, Kind.REDUCE, Kind.ANCHOR)
"""All kinds but opaque."""


@dataclass(frozen=True, slots=True)
class OpCallByKind:
    """
    Propose each operator call whose kind is named; by default, each that is not opaque.

        op_call_by_kind(elementwise, broadcast)
    """

    kinds: tuple[Kind, ...] = FUSIBLE

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for index in members(graph.calls):
            node = graph.nodes[index]
            if node.kind in self.kinds:
                yield SubGraph(1 << index)
            else:
                trace.refused(1 << index, f"{node.op} is {node.kind}, which the rule does not name")


@dataclass(frozen=True, slots=True)
class DFPattern:
    """
    Propose each match of `pattern`, rooted at each call, tuple and projection in turn; matches
    may overlap.

        dfpattern(conv_block)

    Constants that a `const` parameter matched are bound inside.
    """

    pattern: Pattern

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for index in members(graph.computed):
            attempt = Attempt()
            found = matches(self.pattern, graph, index, attempt, trace.lookup)
            for match in found:
                yield SubGraph(match.inside, match.constants)
            if not found and graph.nodes[index].is_call:
                because = f"pattern {self.pattern.name}: {attempt.because}"
                trace.refused(1 << index, because, attempt.span)


@dataclass(frozen=True, slots=True)
class Tagged:
    """
    Propose what `rule` proposes, as inner functions with `Composite = label`.

        composite("onednn.conv_block", dfpattern(conv_block))
    """

    label: str
    rule: "FusionRule"

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for found in self.rule.propose(graph, trace):
            tag = Composite(self.label, found.inside, found.constants)
            yield SubGraph(found.inside, found.constants, (tag,))


@dataclass(frozen=True, slots=True)
class Union:
    """Propose all that any of `rules` proposes: `union(a, b)`."""

    rules: tuple["FusionRule", ...]

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for rule in self.rules:
            yield from rule.propose(graph, trace)


@dataclass(frozen=True, slots=True)
class CombineByPrimitives:
    """
    Propose every union of touching candidates that the primitives in `using` allow, the
    candidates of `rule` included.

        combine_by_primitives(op_call_by_kind(), using: tvm_default, max_depth: 8)
    """

    rule: "FusionRule"
    using: tuple[Primitive, ...]
    max_depth: int | None = None
    max_nodes: int | None = None

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        seeds = self.rule.propose(graph, trace)
        return combine(graph, seeds, self.using, max_depth=self.max_depth, max_nodes=self.max_nodes)


@dataclass(frozen=True, slots=True)
class OnlyValid:
    """Propose what `rule` proposes within `limits`: `only_valid(rule, max_exits: 1)`."""

    rule: "FusionRule"
    limits: Limits

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for found in self.rule.propose(graph, trace):
            if refusal := self.limits.refusal(graph, found):
                trace.refused(found.inside, refusal)
            else:
                yield found


@dataclass(frozen=True, slots=True)
class MaxCoalesce:
    """
    Propose the largest regions that touching candidates of `rule` make: `max_coalesce(rule)`.

    It is what greedy partitioning does, and proposes no more than it keeps. Of candidates that
    overlap it keeps the largest; with `prefer: first` the one that comes first in `rule`, as
    TVM's FuseOpsByPattern does.
    """

    rule: "FusionRule"
    prefer: Preference = "largest"

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        return regions(graph, self.rule.propose(graph, trace), self.prefer)


FusionRule = (
    OpCallByKind | DFPattern | Tagged | Union | CombineByPrimitives | OnlyValid | MaxCoalesce
)
