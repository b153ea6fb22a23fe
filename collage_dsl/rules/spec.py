"""A fusion spec: a `target` block with its rule and limits, and the candidates it proposes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from collage_dsl.graph import CandidateKernel, Graph, OpSet, SubGraph, Toolchain
from collage_dsl.graph.variants import Variants, either
from collage_dsl.rules.limits import Limits
from collage_dsl.rules.placement import Placement
from collage_dsl.rules.pruning import pruned
from collage_dsl.rules.rule import FusionRule
from collage_dsl.rules.trace import Trace

Refusal = Callable[[str, OpSet], str]
"""Returns why the named target may not run some nodes; empty if it may."""


@dataclass(frozen=True, slots=True)
class FusionSpec:
    """
    A `target` block: its toolchain, its rule, and the limits of every candidate.

    `coalesce`: touching kernels of this target may be one, where that makes a plan cheaper.
    `fallback`: the rule proposes a kernel for every operator call, and candidates with a
    single call are never pruned. `placements` say which calls must run on this target and which
    must not. They also concern the candidates of other specs, so `engine.steps.propose` applies
    the placements of all specs together.
    """

    target: Toolchain
    rule: FusionRule
    limits: Limits = field(default_factory=Limits)
    coalesce: bool = False
    fallback: bool = False
    placements: tuple[Placement, ...] = ()

    @property
    def name(self) -> str:
        return self.target.name

    def candidates(
        self, graph: Graph, trace: Trace | None = None, refusal: Refusal | None = None
    ) -> tuple[CandidateKernel, ...]:
        """
        The distinct valid candidates in graph order: by first node, then by nodes inside.
        Candidates that `refusal` refuses are left out before pruning.

        If several proposals have the same nodes and composites, the label of the first is kept,
        and any variant that one of them allows may compute the candidate.
        """
        trace = (trace or Trace()).within(self.limits.max_candidates)
        found: dict[SubGraph, Variants] = {}
        for sub_graph in self.rule.propose(graph, trace):
            because = self.limits.refusal(graph, sub_graph)
            if not because and refusal is not None:
                because = refusal(self.name, sub_graph.inside)
            if not because and not self.target.allows(sub_graph.variants):
                because = f"the target allows only {', '.join(self.target.variants)}"
            if because:
                trace.refused(sub_graph.inside, because)
            else:
                plain = sub_graph.only_by(None)
                found[plain] = either(found.get(plain, frozenset()), sub_graph.variants)
        left = pruned(graph, found, self.limits, trace, keeps_single=self.fallback)
        ordered = sorted(left, key=lambda sub_graph: sub_graph.order)
        toolchains = {variants: self.target.only_by(variants) for variants in found.values()}
        return tuple(CandidateKernel(graph, each, toolchains[found[each]]) for each in ordered)


Specs = Mapping[str, FusionSpec]
"""The specs of a file by the names of their target blocks, in file order."""
