"""Fix the variants of the kernels of a plan, which the search saw as one kernel each."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from collage_dsl.cost import Infeasible, Variant, cheapest
from collage_dsl.graph import CandidateKernel
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.realization.variants import with_variant
from collage_dsl.search import Plan, PlannedKernel


def with_variants(plan: Plan, cost: MeasuredCost) -> Plan:
    """
    `plan` in which each kernel that `cost` has measured uses its cheapest variant: of those that
    cost the same, within the noise margin, the first.
    """
    return with_cheapest(plan, cost.variants, cost.kernels.with_best_record)


def with_cheapest(
    plan: Plan,
    variants_of: Callable[[CandidateKernel], Sequence[Variant]],
    with_record: Callable[[CandidateKernel], CandidateKernel] = lambda candidate: candidate,
) -> Plan:
    """
    `plan` in which each kernel uses the cheapest of the variants that were measured, if there are
    any. `with_record` adds the schedule that tuning has found.
    """

    def fixed(kernel: PlannedKernel) -> PlannedKernel:
        return _fixed(kernel, tuple(variants_of(kernel.candidate)), with_record)

    return replace(plan, kernels=tuple(map(fixed, plan.kernels)))


def _fixed(
    kernel: PlannedKernel,
    variants: tuple[Variant, ...],
    with_record: Callable[[CandidateKernel], CandidateKernel],
) -> PlannedKernel:
    if not variants:
        return kernel
    chosen = cheapest(variants, kernel.candidate.toolchain.measure.noise_margin)
    if isinstance(chosen.cost, Infeasible):
        return kernel
    candidate = with_variant(with_record(kernel.candidate), chosen.name)
    return replace(kernel, candidate=candidate, variants=variants)
