"""Open the sources of costs that a user names, when they are used."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collage_dsl.backends.registry import Absent, BackendOf, known
from collage_dsl.cost import (
    Cost,
    CostFunction,
    CostSources,
    CostStore,
    Offered,
    Provenance,
    Source,
    Sources,
    Variant,
)
from collage_dsl.cost.analytic import Rates, estimates, kept, rates_context
from collage_dsl.cost.sources import is_unknown
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine.ties import Settle, Ways
from collage_dsl.graph import CandidateKernel
from collage_dsl.graph.sizes import Sizes, with_sizes
from collage_dsl.search import Hints, LowerBound, Plan

if TYPE_CHECKING:
    from collage_dsl.measuring.cost import MeasuredCost
    from collage_dsl.measuring.executors import Fleet


@dataclass(frozen=True, slots=True)
class Priced:
    """A cost, where it came from, and the variants of the kernel that were measured."""

    cost: Cost
    provenance: Provenance | None
    variants: tuple[Variant, ...] = ()


@dataclass(slots=True)
class Pricing:
    """
    Makes sources of costs, until `stack` is closed. Measured costs are kept in the file `store`.
    The `options` are those of `MeasuredCost`; `sizes` are the numbers of symbolic dimensions.

    What a backend cannot run is infeasible for a source that does not know backends: for the
    analytic one, and for every other one too if a result `is_built`.
    """

    stack: ExitStack
    backend_of: BackendOf = field(default_factory=known)
    store: Path = field(default_factory=default_store_path)
    sizes: Sizes = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    is_built: bool = False
    prepare: Callable[[], None] = lambda: None
    """Is called before a cost is measured; raises what forbids it."""
    fleet: Callable[[], "AbstractContextManager[Fleet | None]"] = nullcontext
    """Opens the `Fleet` that builds and times kernels; None where all is done here."""
    _measures: bool = False
    _opened: "dict[Path, MeasuredCost]" = field(default_factory=dict)
    _fleets: "list[Fleet | None]" = field(default_factory=list)

    def sources(self, given: CostSources) -> Sources:
        """The sources that are given; see `Sources.of`."""
        offered = Offered(self.measured, self.recorded, self.analytic)
        found = Sources.of(given, offered)
        return Sources(map(self._checked, found.sources)) if self.is_built else found

    def measured(self) -> Source:
        """Measured costs on this machine. Each kernel is measured once, and its cost is kept."""
        self._measures = True

        def prepared() -> "MeasuredCost":
            self.prepare()
            return self.measuring()

        return Source(
            "measured",
            lambda kernel: prepared()(kernel),
            lambda kernel: self.measuring().measured_at(kernel),
            lambda kernels: prepared().ahead(kernels),
            is_timed=True,
            has=lambda kernel: self.measuring().has(kernel),
        )

    def recorded(self, path: Path | None = None) -> Source:
        """What a store has. Nothing is measured."""
        path = path or self.store
        name = f"recorded {path}"
        if not path.exists():
            return Source(name, lambda kernel: nan, is_timed=True, has=lambda kernel: False)
        cost = self.measuring(path)
        return Source(
            name,
            cost.recorded,
            cost.measured_at,
            is_timed=True,
            has=lambda kernel: not is_unknown(cost.recorded(kernel)),
        )

    def analytic(self) -> tuple[Source, ...]:
        """Estimates by the rates of this machine, which `collage costs calibrate` has found."""
        name, cached = self._machine()

        @cache
        def rates(backend: str) -> Rates | None:
            if not self.store.exists():
                return None
            with CostStore(self.store) as store:
                return kept(store, rates_context(name, backend))

        found = estimates(rates, cached)
        sized = (replace(each, cost=self._at_sizes(each.cost)) for each in found)
        return tuple(sized if self.is_built else map(self._checked, sized))

    def measuring(self, path: Path | None = None) -> "MeasuredCost":
        """The `MeasuredCost` with a store, which is opened once."""
        from collage_dsl.measuring.cost import MeasuredCost  # needs TVM

        path = path or self.store
        if path not in self._opened:
            store = self.stack.enter_context(CostStore(path, is_given=path != self.store))
            fleet = self._opened_fleet()
            cost = MeasuredCost(
                self.backend_of, store, sizes=self.sizes, fleet=fleet, **self.options
            )
            self._opened[path] = self.stack.enter_context(cost)
        return self._opened[path]

    def _opened_fleet(self) -> "Fleet | None":
        if not self._fleets:
            self._fleets.append(self.stack.enter_context(self.fleet()))
        return self._fleets[0]

    def _machine(self) -> tuple[str, int]:
        """The name of the machine that kernels run on, and the bytes of its last-level cache."""
        from collage_dsl.measuring.processor import cpu_name, last_level_cache_bytes

        if fleet := self._opened_fleet():
            return fleet.machine.name, fleet.machine.cache
        return cpu_name(), last_level_cache_bytes()

    @property
    def used(self) -> "MeasuredCost | None":
        """The `MeasuredCost` with the store, if it was asked for; else None."""
        return self._opened.get(self.store)

    def hints(self, cost: Sources, *, prove: bool) -> Hints:
        """
        What a search by `cost` may know before it asks, and use where it need not `prove` that no
        plan is cheaper.
        """
        ahead = cost.ahead if cost.looks_ahead else None
        return Hints(self._lower_bound(cost), not prove, cost.have, ahead)

    def _lower_bound(self, cost: Sources) -> LowerBound | None:
        """
        Lower bounds of `cost`; None if there are none. A search by the costs in a store has the
        bounds in that store: it asks for the same kernels as the search that measured them, and
        finds the same plan.
        """
        if not cost.are_timed:
            return None
        measured = self.measuring() if self._measures else next(iter(self._opened.values()), None)
        if measured is None:
            return None
        from collage_dsl.measuring.bounds import lower_bound  # needs TVM

        return lower_bound(measured, measures=self._measures)

    def settling(self, cost: Sources) -> Settle:
        """
        Lets kernels that were measured, also before, cost the same within noise; `cost` gives that
        then. Only where costs may be measured, kernels are timed again for this.
        """

        def settle(groups: Sequence[Ways], timed: Sequence[Ways]) -> bool:
            is_changed = False
            for each in self._opened.values():
                measures = self._measures and each is self.used
                is_changed |= each.settle(groups, timed if measures else ())
            if is_changed:
                cost.refresh()
            return is_changed

        return settle

    def variants(self, kernel: CandidateKernel) -> tuple[Variant, ...]:
        """The variants of a kernel that were measured; empty if it was not."""
        found = (each.variants(kernel) for each in reversed(self._opened.values()))
        return next(filter(None, found), ())

    def with_variants(self, plan: Plan) -> Plan:
        """`plan` in which each kernel that was measured uses its cheapest variant."""
        if not self._opened:
            return plan
        from collage_dsl.engine.variants import with_variants  # needs TVM

        return reduce(with_variants, self._opened.values(), plan)

    def _at_sizes(self, cost: CostFunction) -> CostFunction:
        sized = cache(lambda graph: with_sizes(graph, self.sizes) if self.sizes else graph)
        return lambda kernel: cost(replace(kernel, graph=sized(kernel.graph)))

    def _checked(self, source: Source) -> Source:
        """`source`, except that kernels which an installed backend cannot run are infeasible."""
        if source.is_timed:
            return source
        try:
            from collage_dsl.measuring.kernels import supported
            from collage_dsl.realization.kernel import makers
        except ModuleNotFoundError:  # Without TVM, a plan is only looked at.
            return source
        checked = supported(source.cost, self.backend_of)

        def cost(kernel: CandidateKernel) -> Cost:
            is_absent = any(isinstance(each, Absent) for each in makers(kernel, self.backend_of))
            return (source.cost if is_absent else checked)(kernel)

        return replace(source, cost=cost)


def with_provenance(plan: Plan, cost: Sources) -> Plan:
    """`plan` in which each kernel says where its cost came from."""
    kernels = (replace(k, provenance=cost.provenance(k.candidate)) for k in plan.kernels)
    return replace(plan, kernels=tuple(kernels))
