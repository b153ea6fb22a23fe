"""The plans for one graph that are worth building, with measured costs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import BackendOf
from collage_dsl.cost import Copies, Cost, CostFunction, CostSources, Infeasible, Sources
from collage_dsl.cost.records import Records
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.costs import Priced, Pricing, with_provenance
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.sizes import Part, timed_sizes
from collage_dsl.engine.steps import MIXED, Searched, searched
from collage_dsl.engine.ties import without_ties
from collage_dsl.engine.tune import TunedCandidate, Tuner, TuningOptions, existing_records
from collage_dsl.graph import CandidateKernel, Toolchain
from collage_dsl.measuring.bounds import lower_bound
from collage_dsl.measuring.copies import CopyCost
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.counts import Counts
from collage_dsl.measuring.elsewhere import Elsewhere
from collage_dsl.report.documents import MeasurementsDocument
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan, Regions, Reporter, Strategy


@dataclass(frozen=True, slots=True)
class Space:
    """
    What a refinement starts from: the `plans` as they were searched for, and the kernels and
    regions that plans can be made of. `finished` says of a plan what is known of its kernels.
    """

    plans: Mapping[str, Plan]
    regions: Regions
    finished: Callable[[Plan], Plan]


@dataclass(frozen=True, slots=True)
class Planned:
    """
    The plans over all targets and that of each alone, or why there is none; what was measured; the
    seconds that it takes to launch a kernel of each target; and the costs that were asked for, with
    where they came from.
    """

    plans: Mapping[str, Plan | str]
    counts: Counts
    launch: Mapping[str, float]
    costs: Mapping[CandidateKernel, Priced] = field(default_factory=dict)
    space: Space | None = None

    @property
    def prices(self) -> dict[CandidateKernel, Cost]:
        """The costs alone."""
        return {candidate: priced.cost for candidate, priced in self.costs.items()}


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes the plans for the parts of a model. See `compile` for what it is given."""

    specs: Sequence[FusionSpec]
    backend_of: BackendOf
    backends: Sequence[Backend]
    cost: CostSources | None
    copies: Copies | None
    store: str | Path | None
    timeout: float
    memory: int | None
    allow_extern: bool
    strategy: Strategy
    watch: Callable[[str, Counts], None]
    reporter: Reporter
    tuning: TuningOptions = field(default_factory=TuningOptions)
    prove: bool = False
    """Whether a search may not go by predicted costs."""
    count: int = 1
    """How many plans over all targets are wanted."""
    elsewhere: Elsewhere = field(default_factory=Elsewhere)

    @contextmanager
    def planned(self, part: Part) -> Iterator[Planned]:
        """
        The plans for a part of a model. More costs can be asked for until the block ends.

        Where a target says `tune`, kernels are tuned and the plans are searched for again, now with
        the schedules that were found.
        """
        with ExitStack() as stack:
            planned = stack.enter_context(self.untuned(part))
            if self._tunes:
                self.watch("tune", planned.counts)
                if any(tuned.new for _, tuned in self.tune(part, planned)):
                    stack.close()
                    planned = stack.enter_context(self.untuned(part))
            yield planned

    @property
    def _tunes(self) -> bool:
        return self.cost is None and any(spec.target.tune.trials for spec in self.specs)

    def tune(self, part: Part, planned: Planned) -> Sequence[TunedCandidate]:
        """Tune the kernels that may make the plan over all targets cheaper."""
        plan = planned.plans[MIXED]
        assert isinstance(plan, Plan)
        with self.tuner(part) as tuner:
            return tuner.tune_plan(plan, planned.prices, lower_bound(tuner.cost))

    @contextmanager
    def tuner(self, part: Part) -> Iterator[Tuner]:
        """What tunes kernels of a part, as `tuning` says."""
        with ExitStack() as stack:
            records = stack.enter_context(Records(self.tuning.path(self.store_path)))
            yield Tuner(self.pricing(part, stack).measuring(), records, self.tuning)

    @property
    def store_path(self) -> Path:
        return Path(self.store or default_store_path())

    def pricing(self, part: Part, stack: ExitStack) -> Pricing:
        """What makes costs for a part, with the schedules that tuning has found."""
        return Pricing(
            stack,
            backend_of=self.backend_of,
            store=self.store_path,
            sizes=timed_sizes(part),
            options={
                "records": existing_records(self.tuning.path(self.store_path), stack),
                "timeout": self.timeout,
                "memory": self.memory,
                "given": part.inputs,
                "watch": lambda counts: self.watch("measure", counts),
            },
            is_built=True,
            fleet=self.elsewhere.fleet,
        )

    @contextmanager
    def untuned(self, part: Part) -> Iterator[Planned]:
        """The plans for a part, with the schedules that were found before."""
        with ExitStack() as stack:
            pricing = self.pricing(part, stack)
            given = () if self.cost is None else pricing.sources(self.cost).sources
            price = Sources([*given, pricing.measured()])
            home = self.specs[0].target
            copying = CopyCost(self.copies, home.kind, self.backend_of) if self.copies else None
            best, costs = self._searched(
                part, pricing, price, copying.added_to(price) if copying else price
            )
            plans = best.plans

            def finished(plan: Plan) -> Plan:
                sourced = with_provenance(plan, price)
                copied = _with_copies(sourced, copying, home) if copying else sourced
                return pricing.with_variants(copied)

            measured = pricing.used
            yield Planned(
                {n: plan if isinstance(plan, str) else finished(plan) for n, plan in plans.items()},
                measured.counts if measured else Counts(),
                self.launches(measured) if measured else {},
                {
                    each: Priced(cost, price.provenance(each), pricing.variants(each))
                    for each, cost in costs.items()
                },
                Space(
                    {name: plan for name, plan in plans.items() if isinstance(plan, Plan)},
                    best.regions,
                    finished,
                ),
            )

    def _searched(
        self, part: Part, pricing: Pricing, price: Sources, with_copies: CostFunction
    ) -> tuple[Searched, Mapping[CandidateKernel, Cost]]:
        """The plans by the costs of `price` and of copies, and the costs that were asked for."""

        def found(cost: CostFunction) -> Searched:
            return searched(
                part.graph,
                self.specs,
                cost,
                lookup(allow_extern=self.allow_extern, backends=self.backends),
                strategy=self.strategy,
                hints=pricing.hints(price, prove=self.prove),
                reporter=self.reporter,
                default=DefaultDevice(self.specs[0].target.kind, self.copies is not None),
                count=self.count,
            )

        return without_ties(
            found,
            lambda found: found.plans[MIXED],
            with_copies,
            pricing.settling(price),
            lambda found: (plan for plan in found.plans.values() if isinstance(plan, Plan)),
        )

    def launches(self, measured: MeasuredCost) -> dict[str, float]:
        """The known seconds that it takes to launch a kernel of each target."""
        launch = measured.timer.overheads.recorded_launch
        costs = {s.name: launch(s.target, self.backend_of(s.target)) for s in self.specs}
        return {name: cost for name, cost in costs.items() if isinstance(cost, float)}


def measurements_of(counts: Counts) -> MeasurementsDocument:
    """`counts` in the form of a report."""
    return MeasurementsDocument(
        found=counts.found,
        measured=counts.measured,
        reused=counts.reused,
        infeasible=counts.infeasible,
        reasons=counts.reasons,
        kinds=counts.kinds,
        retried=counts.retried,
        queued=counts.queued,
        lost=counts.lost,
    )


def _with_copies(plan: Plan, copying: CopyCost, home: Toolchain) -> Plan:
    """`plan`, which says what of its cost goes into copies."""
    kernels = []
    for kernel in plan.kernels:
        copies = copying(kernel.candidate)
        assert not isinstance(copies, Infeasible), copies.reason
        kernels.append(replace(kernel, copies=copies))
    return replace(plan, kernels=tuple(kernels), home=home)
