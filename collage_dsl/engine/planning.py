"""The plans for one graph that are worth building, with measured costs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf
from collage_dsl.cost import Copies, Cost, CostSources, CostStore, Infeasible, first_known
from collage_dsl.cost.records import Records
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.sizes import Part
from collage_dsl.engine.steps import MIXED, plans_of
from collage_dsl.engine.tune import TunedCandidate, Tuner, TuningOptions, existing_records
from collage_dsl.engine.variants import with_variants
from collage_dsl.graph import CandidateKernel, Toolchain
from collage_dsl.measuring.bounds import lower_bound
from collage_dsl.measuring.copies import CopyCost
from collage_dsl.measuring.cost import Counts, MeasuredCost, supported
from collage_dsl.realization.draws import sizes_of
from collage_dsl.report.documents import MeasurementsDocument
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan, Reporter, Strategy


@dataclass(frozen=True, slots=True)
class Planned:
    """
    The plan over all targets and that of each alone, or why there is none; what was measured; the
    seconds that it takes to launch a kernel of each target; and the costs that were asked for.
    """

    plans: Mapping[str, Plan | str]
    counts: Counts
    launch: Mapping[str, float]
    costs: Mapping[CandidateKernel, Cost] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plans for the parts of a model. See `compile_model` for what it is given."""

    specs: Sequence[FusionSpec]
    backend_of: BackendOf
    backends: Sequence[Backend]
    cost: CostSources | None
    copies: Copies | None
    store: str | Path | None
    timeout: float
    allow_extern: bool
    strategy: Strategy
    watch: Callable[[str, Counts], None]
    reporter: Reporter
    tuning: TuningOptions = field(default_factory=TuningOptions)

    def plans(self, part: Part) -> Planned:
        """
        The plans for a part. Where a target says `tune`, kernels are tuned and the plans are
        searched for again, now with the schedules that were found.
        """
        planned = self.untuned_plans(part)
        if self.cost is not None or not any(spec.target.tune.trials for spec in self.specs):
            return planned
        self.watch("tune", planned.counts)
        found = self.tune(part, planned)
        return self.untuned_plans(part) if any(tuned.new for _, tuned in found) else planned

    def tune(self, part: Part, planned: Planned) -> Sequence[TunedCandidate]:
        """Tune the kernels that may make the plan over all targets cheaper."""
        plan = planned.plans[MIXED]
        assert isinstance(plan, Plan)
        with self.tuner(part) as tuner:
            return tuner.tune_plan(plan, planned.costs, lower_bound(tuner.cost))

    @contextmanager
    def tuner(self, part: Part) -> Iterator[Tuner]:
        """What tunes kernels of a part, as `tuning` says."""
        store = self.store or default_store_path()
        with (
            Records(self.tuning.path(store)) as records,
            CostStore(store) as costs,
            self.measuring(part, costs) as cost,
        ):
            yield Tuner(cost, records, self.tuning)

    def measuring(
        self, part: Part, costs: CostStore, records: Records | None = None
    ) -> MeasuredCost:
        """Costs that are measured for a part, with the schedules in `records`."""
        return MeasuredCost(
            self.backend_of,
            costs,
            records=records,
            timeout=self.timeout,
            sizes=sizes_of(part.graph),
            given=part.inputs,
            watch=lambda counts: self.watch("measure", counts),
        )

    def untuned_plans(self, part: Part) -> Planned:
        """The plans for a part, with the schedules that were found before."""
        with ExitStack() as stack:

            @cache
            def measuring() -> MeasuredCost:
                path = self.store or default_store_path()
                costs = stack.enter_context(CostStore(path))
                records = existing_records(self.tuning.path(path), stack)
                return stack.enter_context(self.measuring(part, costs, records))

            specs, cost = self.specs, self.cost
            given = () if cost is None else (supported(first_known(cost), self.backend_of),)
            price = first_known([*given, lambda kernel: measuring()(kernel)])
            home = specs[0].target
            copies = self.copies
            copying = CopyCost(copies, home.kind, self.backend_of) if copies else None
            asked = copying.added_to(price) if copying else price
            costs: dict[CandidateKernel, Cost] = {}

            def recorded(candidate: CandidateKernel) -> Cost:
                costs[candidate] = asked(candidate)
                return costs[candidate]

            plans = plans_of(
                part.graph,
                specs,
                recorded,
                lookup(allow_extern=self.allow_extern, backends=self.backends),
                self.strategy,
                None if given else lower_bound(measuring()),
                self.reporter,
                DefaultDevice(home.kind, copies is not None),
                None if given else measuring().ahead,
            )
            if copying:
                plans = {name: _with_copies(plan, copying, home) for name, plan in plans.items()}
            measured = measuring() if measuring.cache_info().currsize else None
            if measured is None:
                return Planned(plans, Counts(), {}, costs)
            plans = {name: _with_variants(plan, measured) for name, plan in plans.items()}
            return Planned(plans, measured.counts, self.launches(measured), costs)

    def launches(self, measured: MeasuredCost) -> dict[str, float]:
        costs = {
            spec.name: measured.launch(spec.target, self.backend_of(spec.target))
            for spec in self.specs
        }
        return {name: cost for name, cost in costs.items() if not isinstance(cost, Infeasible)}


def measurements_of(counts: Counts) -> MeasurementsDocument:
    """`counts` in the form of a report."""
    return MeasurementsDocument(
        found=counts.found,
        measured=counts.measured,
        reused=counts.reused,
        infeasible=counts.infeasible,
        reasons=counts.reasons,
    )


def _with_copies(plan: Plan | str, copying: CopyCost, home: Toolchain) -> Plan | str:
    """`plan`, which says what of its cost goes into copies."""
    if isinstance(plan, str):
        return plan
    kernels = []
    for kernel in plan.kernels:
        copies = copying(kernel.candidate)
        assert not isinstance(copies, Infeasible), copies.reason
        kernels.append(replace(kernel, copies=copies))
    return replace(plan, kernels=tuple(kernels), home=home)


def _with_variants(plan: Plan | str, measured: MeasuredCost) -> Plan | str:
    return plan if isinstance(plan, str) else with_variants(plan, measured)
