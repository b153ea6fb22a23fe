"""Fusion rules: leaves propose sub-graphs of a graph, combinators transform them."""

from collections.abc import Iterator
from dataclasses import dataclass

from collage_dsl.graph import Graph, Kind, SubGraph, members
from collage_dsl.rules.combine import combine
from collage_dsl.rules.horizontal import siblings_joined
from collage_dsl.rules.limits import Limits
from collage_dsl.rules.matcher import matches_everywhere
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.predicate import BackendAnswer, Predicate, Question
from collage_dsl.rules.primitive import Constants, Primitive, with_constants
from collage_dsl.rules.pruning import pruned
from collage_dsl.rules.regions import Preference, regions
from collage_dsl.rules.splits import split
from collage_dsl.rules.trace import Trace
from collage_dsl.rules.vertical import USUAL_DEPTH, with_neighbours

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
        everywhere = matches_everywhere(self.pattern, graph, trace.lookup)
        for index, found, attempt in everywhere:
            for match in found:
                yield SubGraph(match.inside, match.constants)
            if not found and graph.nodes[index].is_call:
                because = f"pattern {self.pattern.name}: {attempt.because}"
                trace.refused(1 << index, because, attempt.span)


@dataclass(frozen=True, slots=True)
class OpPredicate:
    """
    Propose each call of the operators `ops`, of any operator where there are none, for which
    `predicate` holds.

        op_predicate(fits, ops: [nn.max_pool2d])

    The only parameter of a predicate that a file declares is the result of the call. A backend
    is asked whether it supports the call by itself; where its kernels have constants inside, the
    constant operands of the call are bound, for the question and in the candidate.
    """

    predicate: Predicate
    ops: tuple[str, ...] = ()

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for index in members(graph.calls):
            node = graph.nodes[index]
            if self.ops and node.op not in self.ops:
                because = f"{node.op} is none of the operators that the rule names"
                trace.refused(1 << index, because)
                continue
            answer = trace.lookup(self.predicate)
            binds = isinstance(answer, BackendAnswer) and answer.binds_constants
            constants = graph.input(1 << index) & graph.constants if binds else 0
            operands = dict.fromkeys(self.predicate.parameters, index)
            if because := answer(Question(graph, 1 << index, index, operands, constants)):
                trace.refused(1 << index, because)
            else:
                yield SubGraph(1 << index, constants)


@dataclass(frozen=True, slots=True)
class Host:
    """
    Propose nothing: `host()` says that tuples, projections, constants and shapes need no kernel,
    which is so in every target.
    """

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        yield from ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """
    Propose what `rule` proposes, as inner functions with `Composite = label`; composites that it
    proposes become functions inside those.

        composite("onednn.conv_block", dfpattern(conv_block))
    """

    label: str
    rule: "FusionRule"

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for found in self.rule.propose(graph, trace):
            yield found.labelled(self.label)


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

    With `max_splits` propose, besides the candidates of `rule`, only the largest regions, and
    what at most so many cuts leave of each. The regions are what candidates, of those that
    overlap the largest, become when they are merged greedily in graph order, as far as the
    primitives and bounds allow. A cut is made at one candidate of a region, and parts it in two:
    that candidate with all that is above it, and the rest; or that with all that is below it,
    and the rest. The connected parts of the two are the pieces, and further cuts are made in
    each. All pieces are convex. Tuples and projections stay with the candidate that they were
    joined to. One cut leaves 2(n - 1) pieces of a chain of n candidates, two cuts every interval
    of it.

    Where `constants` is among the primitives, each of all these is proposed twice: as it is, and
    with all the constants that flow into it bound inside.
    """

    rule: "FusionRule"
    using: tuple[Primitive, ...]
    max_depth: int | None = None
    max_nodes: int | None = None
    max_splits: int | None = None

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        unions = self._unions(graph, self.rule.propose(graph, trace))
        return with_constants(graph, unions) if Constants() in self.using else unions

    def _unions(self, graph: Graph, seeds: Iterator[SubGraph]) -> Iterator[SubGraph]:
        if self.max_splits is not None:
            return split(
                graph,
                seeds,
                self.using,
                max_depth=self.max_depth,
                max_nodes=self.max_nodes,
                max_splits=self.max_splits,
            )
        return combine(graph, seeds, self.using, max_depth=self.max_depth, max_nodes=self.max_nodes)


@dataclass(frozen=True, slots=True)
class Horizontal:
    """
    Propose the candidates of `rule`, and the unions of two to `max` siblings among them.

        horizontal(op_call_by_kind(anchor), max: 3)

    Siblings have the same operators in graph order and the same labels, share no node, are in
    one dataflow block, and none is downstream of another. Into all that are joined flows one
    value that is no constant and no literal; all others are among the first 7 siblings of the
    first, in graph order. A union has the exits of all, so limits have to allow several.
    """

    rule: "FusionRule"
    max: int = 3

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        return siblings_joined(graph, self.rule.propose(graph, trace), self.max)


@dataclass(frozen=True, slots=True)
class Vertical:
    """
    Propose the candidates of `rule`, and each with its prologue, its epilogue or both.

        vertical(op_call_by_kind(anchor), prologue: none, epilogue: broadcast, max_depth: 6)

    The epilogue grows in graph order by each call of at most the kind `epilogue` that takes a
    value of the kernel, and nothing that the anchor leads to outside the kernel. The prologue
    grows against graph order by each call of at most the kind `prologue` above the anchor whose
    value only the kernel uses. Each step of the one with each step of the other is proposed, if
    it has no more exits than the anchor. Projections come along, and tuples where the kind is
    `injective` or more. Either side has at most 16 nodes, all at most `max_depth` calls on a
    path; what makes a kernel deeper is not added.
    """

    rule: "FusionRule"
    prologue: Kind | None = Kind.BROADCAST
    epilogue: Kind | None = Kind.BROADCAST
    max_depth: int = USUAL_DEPTH

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        return with_neighbours(
            graph,
            self.rule.propose(graph, trace),
            prologue=self.prologue,
            epilogue=self.epilogue,
            max_depth=self.max_depth,
        )


@dataclass(frozen=True, slots=True)
class OnlyValid:
    """
    Propose what `rule` proposes within `limits`: `only_valid(rule, max_exits: 1)`. Those limits
    that prune do so among what the others allow.
    """

    rule: "FusionRule"
    limits: Limits

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        return pruned(graph, self._valid(graph, trace), self.limits, trace)

    def _valid(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
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
    OpCallByKind
    | DFPattern
    | OpPredicate
    | Host
    | Tagged
    | Union
    | CombineByPrimitives
    | Horizontal
    | Vertical
    | OnlyValid
    | MaxCoalesce
)
