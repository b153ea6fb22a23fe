"""Fix the variants of the kernels of a plan, which the search saw as one kernel each."""

from dataclasses import replace

from collage_dsl.cost import Infeasible, cheapest
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.realization.variants import with_variant
from collage_dsl.search import Plan, PlannedKernel


def with_variants(plan: Plan, cost: MeasuredCost) -> Plan:
    """
    `plan` in which each kernel that `cost` has measured uses its cheapest variant: of those that
    cost the same, within the noise margin, the first.
    """
    return replace(plan, kernels=tuple(_fixed(kernel, cost) for kernel in plan.kernels))


def _fixed(kernel: PlannedKernel, cost: MeasuredCost) -> PlannedKernel:
    variants = cost.variants(kernel.candidate)
    if not variants:
        return kernel
    chosen = cheapest(variants, kernel.candidate.toolchain.measure.noise_margin)
    if isinstance(chosen.cost, Infeasible):
        return kernel
    candidate = with_variant(cost.kernels.with_best_record(kernel.candidate), chosen.name)
    return replace(kernel, candidate=candidate, variants=variants)
