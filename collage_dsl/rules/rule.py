"""The fusion rules of the language. Leaves propose sub-graphs; combinators transform them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from collage_dsl.graph import Graph, Kind, SubGraph, members
from collage_dsl.graph.variants import common
from collage_dsl.rules.bound import Bound
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
from collage_dsl.rules.trace import Stop, Trace
from collage_dsl.rules.vertical import USUAL_DEPTH, with_neighbours

FUSIBLE = (Kind.ELEMENTWISE, Kind.BROADCAST, Kind.INJECTIVE, Kind.REDUCE, Kind.ANCHOR)
"""All kinds except opaque."""


@dataclass(frozen=True, slots=True)
class OpCallByKind:
    """
    Propose each operator call whose kind is in `kinds`; by default, each that is not opaque.

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
    Propose each match of `pattern` with any call, tuple or projection as its result. Matches
    may overlap.

        dfpattern(conv_block)

    Constants that a `const` parameter matched are bound inside.
    """

    pattern: Pattern

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        everywhere = matches_everywhere(self.pattern, graph, trace.lookup)
        stopped = False
        for index, found, attempt in everywhere:
            if attempt.stopped and not stopped:
                stopped = True
                name, span = self.pattern.name, self.pattern.span
                node = graph.nodes[index].name
                trace.stops.append(Stop(name, attempt.stopped, "steps", node, span))
            for match in found:
                yield SubGraph(match.inside, match.constants)
            if not found and graph.nodes[index].is_call:
                because = f"pattern {self.pattern.name}: {attempt.because}"
                trace.refused(1 << index, because, attempt.span)


@dataclass(frozen=True, slots=True)
class OpPredicate:
    """
    Propose each call for which `predicate` holds. With `ops`, only calls of these operators.

        op_predicate(fits, ops: [nn.max_pool2d])

    A predicate that a file declares has one parameter, the result of the call. A backend is asked
    whether it supports the call by itself. If its kernels have constants inside, the constant
    operands of the call are bound, for the question and in the candidate.
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
    Propose nothing. `host()` says that tuples, projections, constants and shapes need no kernel;
    this holds for every target, also without it.
    """

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        yield from ()


@dataclass(frozen=True, slots=True)
class Tagged:
    """
    Propose what `rule` proposes, as inner functions with `Composite = label`. Composites of
    `rule` become functions inside them.

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

    With `max_splits` propose the candidates of `rule`, the largest regions, and the pieces that at
    most `max_splits` cuts make of each region; nothing else. To make the regions, candidates are
    merged greedily in graph order, as far as the primitives and bounds allow; of candidates that
    overlap only the largest is used. A cut is made at one candidate of a region, and divides the
    region in two: the candidate with all that is above it, and the rest; or the candidate with
    all that is below it, and the rest. The connected parts of both are the pieces. Further cuts
    divide the pieces. All pieces are convex. Tuples and projections stay with the candidate that
    they were joined to. In a chain of n candidates, one cut makes 2(n - 1) pieces, and two cuts
    make every interval of the chain.

    If `constants` is among the primitives, each candidate is proposed twice: as it is, and with
    all the constants that flow into it bound inside.
    """

    rule: "FusionRule"
    using: tuple[Primitive, ...]
    max_depth: int | None = None
    max_nodes: int | None = None
    max_splits: int | None = None

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        unions = self._unions(graph, self.rule.propose(graph, trace), trace)
        return with_constants(graph, unions) if Constants() in self.using else unions

    def _unions(self, graph: Graph, seeds: Iterator[SubGraph], trace: Trace) -> Iterator[SubGraph]:
        name, cuts = "combine_by_primitives", self.max_splits
        if cuts is not None:
            return trace.bounded(graph, name, seeds, partial(self._pieces, graph, cuts))
        return combine(
            graph,
            seeds,
            self.using,
            max_depth=self.max_depth,
            max_nodes=self.max_nodes,
            most=trace.most(graph),
            stopped=lambda proposed: trace.stopped(graph, name, proposed),
        )

    def _pieces(
        self, graph: Graph, cuts: int, seeds: Collection[SubGraph], bound: Bound
    ) -> Iterator[SubGraph]:
        return split(
            graph,
            seeds,
            self.using,
            max_depth=self.max_depth,
            max_nodes=self.max_nodes,
            max_splits=cuts,
            bound=bound,
        )


@dataclass(frozen=True, slots=True)
class Horizontal:
    """
    Propose the candidates of `rule`, and the unions of two to `max` siblings among them.

        horizontal(op_call_by_kind(anchor), max: 3)

    Siblings have the same operators in graph order and the same labels, share no node, are in
    one dataflow block, and none is downstream of another. One value that is not a constant or a
    literal flows into all of them. All siblings in a union are among the first 7 siblings of its
    first one, in graph order. A union has the exits of all, so limits must allow several exits.
    """

    rule: "FusionRule"
    max: int = 3

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        def joined(given: Collection[SubGraph], bound: Bound) -> Iterator[SubGraph]:
            return siblings_joined(graph, given, self.max, bound)

        return trace.bounded(graph, "horizontal", self.rule.propose(graph, trace), joined)


@dataclass(frozen=True, slots=True)
class Vertical:
    """
    Propose the candidates of `rule`, and each with its prologue, its epilogue or both.

        vertical(op_call_by_kind(anchor), prologue: none, epilogue: broadcast, max_depth: 6)

    The epilogue grows in graph order. Each step adds a call of at most the kind `epilogue` that
    takes a value of the kernel, and takes no value that the anchor leads to outside the kernel.
    The prologue grows against graph order. Each step adds a call of at most the kind `prologue`
    above the anchor whose value only the kernel uses. Each step of the epilogue is proposed with
    each step of the prologue, if the kernel has no more exits than the anchor. Projections are
    added too, and tuples if the kind is `injective` or more. Each side has at most 16 nodes. No
    path in the kernel has more than `max_depth` calls; a call that makes it deeper is not added.
    """

    rule: "FusionRule"
    prologue: Kind | None = Kind.BROADCAST
    epilogue: Kind | None = Kind.BROADCAST
    max_depth: int = USUAL_DEPTH

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        def grown(anchors: Collection[SubGraph], bound: Bound) -> Iterator[SubGraph]:
            return with_neighbours(
                graph,
                anchors,
                prologue=self.prologue,
                epilogue=self.epilogue,
                max_depth=self.max_depth,
                bound=bound,
            )

        return trace.bounded(graph, "vertical", self.rule.propose(graph, trace), grown)


@dataclass(frozen=True, slots=True)
class OnlyValid:
    """
    Propose what `rule` proposes within `limits`: `only_valid(rule, max_exits: 1)`. The limits
    that prune are applied last, to the candidates that the other limits allow.
    """

    rule: "FusionRule"
    limits: Limits

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        return pruned(graph, self._valid(graph, trace), self.limits, trace)

    def _valid(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        for found in self.rule.propose(graph, trace.within(self.limits.max_candidates)):
            if refusal := self.limits.refusal(graph, found):
                trace.refused(found.inside, refusal)
            else:
                yield found


@dataclass(frozen=True, slots=True)
class OnlyVariants:
    """
    Propose what `rule` proposes, to be computed by some `variants` only.

        only_variants(dfpattern(conv), [direct, winograd4])

    A union of candidates may be computed by the variants that all of them allow. If there are
    none, it is not proposed.
    """

    rule: "FusionRule"
    variants: tuple[str, ...]

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        allowed = frozenset(self.variants)
        for found in self.rule.propose(graph, trace):
            only = found.only_by(common(found.variants, allowed))
            if only.has_variant:
                yield only
            else:
                names = ", ".join(self.variants)
                because = f"of the variants {names} none is allowed by the rules inside"
                trace.refused(found.inside, because)


@dataclass(frozen=True, slots=True)
class MaxCoalesce:
    """
    Propose the largest regions of touching candidates of `rule`: `max_coalesce(rule)`.

    This is greedy partitioning: only the regions are proposed, and not the candidates in them. Of
    candidates that overlap only the largest is used; with `prefer: first` the one that comes
    first in `rule`, as in TVM's FuseOpsByPattern.
    """

    rule: "FusionRule"
    prefer: Preference = "largest"

    def propose(self, graph: Graph, trace: Trace) -> Iterator[SubGraph]:
        return regions(graph, self.rule.propose(graph, trace), self.prefer)


Joining = CombineByPrimitives | Horizontal | Vertical | MaxCoalesce
"""The rules that make candidates larger."""

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
    | OnlyVariants
    | MaxCoalesce
)


def sub_rules(rule: FusionRule) -> tuple[FusionRule, ...]:
    """The direct sub-rules of `rule`."""
    match rule:
        case Union(rules):
            return rules
        case Tagged() | CombineByPrimitives() | OnlyValid() | OnlyVariants() | MaxCoalesce():
            return (rule.rule,)
        case Horizontal() | Vertical():
            return (rule.rule,)
        case OpCallByKind() | DFPattern() | OpPredicate() | Host():
            return ()
        case _:
            assert_never(rule)
