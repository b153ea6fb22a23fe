"""A plan as it is kept in a lock: its kernels by the names of their nodes, and what they cost."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from math import nan
from typing import Annotated, Self

from pydantic import Field

from collage_dsl.cost import Cost, Infeasible, Provenance, Source, Sources, Variant
from collage_dsl.cost.strict import Strict
from collage_dsl.engine.costs import Priced
from collage_dsl.engine.variants import with_cheapest
from collage_dsl.graph import (
    CandidateKernel,
    Composite,
    Graph,
    Record,
    SubGraph,
    Toolchain,
    members,
)
from collage_dsl.search import Plan, PlannedKernel
from collage_dsl.search.execution_order import CyclicPlanError, in_execution_order


class LockError(Exception):
    """A lock is not for this model, these targets or this machine, or is no lock."""


def changed(fault: str) -> LockError:
    """The error where the parts of a lock do not fit together, as they do when it is written."""
    return LockError(f"{fault}: the lock was changed; freeze the model anew")


class LockedComposite(Strict):
    """A part of a kernel that is a function of a library."""

    label: str
    nodes: list[str]
    constants: list[str] = Field(default_factory=list)
    parts: list["LockedComposite"] = Field(default_factory=list)

    @classmethod
    def of(cls, graph: Graph, composite: Composite) -> Self:
        return cls(
            label=composite.label,
            nodes=_names(graph, composite.inside),
            constants=_names(graph, composite.constants),
            parts=[cls.of(graph, part) for part in composite.parts],
        )

    def composite(self, graph: Graph) -> Composite:
        parts = tuple(part.composite(graph) for part in self.parts)
        inside, constants = graph.set_of(*self.nodes), graph.set_of(*self.constants)
        return Composite(self.label, inside, constants, parts)


class LockedKernel(Strict):
    """
    A kernel of a plan: its nodes by name, and what it cost when it was chosen, in seconds.
    `variants` are the algorithms that may compute it; empty for any. `record` is the schedule of
    the algorithm `tuned`. `source` is where the cost came from.
    """

    target: str
    nodes: list[str]
    constants: list[str] = Field(default_factory=list)
    composites: list[LockedComposite] = Field(default_factory=list)
    variants: list[str] = Field(default_factory=list)
    record: str = ""
    cost: float = Field(ge=0, allow_inf_nan=False)
    copies: float = Field(default=0, ge=0, allow_inf_nan=False)
    source: str = ""
    measured_at: str = ""

    @classmethod
    def of(cls, kernel: PlannedKernel) -> Self:
        graph, sub_graph = kernel.candidate.graph, kernel.candidate.sub_graph
        return cls(
            target=kernel.target,
            nodes=_names(graph, sub_graph.inside),
            constants=_names(graph, sub_graph.constants),
            composites=[LockedComposite.of(graph, each) for each in sub_graph.composites],
            variants=list(kernel.candidate.toolchain.variants),
            record=record.text() if (record := kernel.candidate.toolchain.record) else "",
            cost=kernel.cost,
            copies=kernel.copies,
            **_origin(kernel.provenance),
        )

    @property
    def key(self) -> "_Key":
        """What tells it from others; see `_key`."""
        labels = tuple(each.label for each in self.composites)
        return self.target, tuple(self.nodes), labels

    def kernel(self, graph: Graph, targets: Mapping[str, Toolchain]) -> PlannedKernel:
        """
        The kernel in `graph`. Raises LookupError for a node or a target that there is not, and
        ValueError for a record of tuning that is none.
        """
        if self.target not in targets:
            raise LookupError(f"a kernel is of `{self.target}`, which is no target")
        try:
            sub_graph = SubGraph(
                graph.set_of(*self.nodes),
                graph.set_of(*self.constants),
                tuple(each.composite(graph) for each in self.composites),
            )
        except KeyError as error:
            said = f"a kernel has the node `{error.args[0]}`, which the model does not have"
            raise LookupError(said) from error
        toolchain = targets[self.target].only_by(frozenset(self.variants) or None)
        if self.record:
            toolchain = replace(toolchain, record=Record.of_text(self.record))
        came = Provenance(self.source, self.measured_at) if self.source else None
        candidate = CandidateKernel(graph, sub_graph, toolchain)
        return PlannedKernel(candidate, self.cost, self.copies, provenance=came)


class LockedVariant(Strict):
    """What a kernel cost with one algorithm, and the error of the algorithm: see `Variant`."""

    name: str
    seconds: float = Field(ge=0, allow_inf_nan=False)
    error: float | None = None

    @property
    def variant(self) -> Variant:
        return Variant(self.name, self.seconds, self.error)


class LockedCost(Strict):
    """
    What a kernel cost when the plans were searched for: `seconds`, or the `reason` for none, and
    the `source` that said so. `variants` are the algorithms that were measured and can run.
    """

    target: str
    nodes: list[str]
    labels: list[str] = Field(default_factory=list)
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    reason: str | None = None
    source: str = ""
    measured_at: str = ""
    variants: list[LockedVariant] = Field(default_factory=list)

    @classmethod
    def of(cls, candidate: CandidateKernel, priced: Priced) -> Self:
        target, nodes, labels = _key(candidate)
        cost = priced.cost
        return cls(
            target=target,
            nodes=list(nodes),
            labels=list(labels),
            seconds=None if isinstance(cost, Infeasible) else cost,
            reason=cost.reason if isinstance(cost, Infeasible) else None,
            **_origin(priced.provenance),
            variants=[
                LockedVariant(name=each.name, seconds=each.cost, error=each.error)
                for each in priced.variants
                if not isinstance(each.cost, Infeasible)
            ],
        )

    @property
    def key(self) -> "_Key":
        return self.target, tuple(self.nodes), tuple(self.labels)

    @property
    def cost(self) -> Cost:
        return Infeasible(self.reason or "") if self.seconds is None else self.seconds


class LockedPlan(Strict):
    """
    The plan that was `chosen` for some sizes, by its name in the race, and the costs of all kernels
    that were priced for it.
    """

    sizes: dict[str, int]
    chosen: str
    is_copying: bool = Field(description="whether kernels are on several devices")
    kernels: list[LockedKernel]
    costs: list[LockedCost] = Field(default_factory=list)

    def plan(self, graph: Graph, targets: Mapping[str, Toolchain], home: Toolchain) -> Plan:
        """This plan of `graph`, which is checked. Raises `LockError` if it cannot be one."""
        try:
            kernels = [each.kernel(graph, targets) for each in self.kernels]
        except (LookupError, ValueError) as error:
            raise changed(f"a kernel of the lock is wrong: {error}") from error
        covered = 0
        for kernel in kernels:
            inside = kernel.candidate.sub_graph.inside
            if other := graph.names(inside & ~graph.computed):
                raise changed(f"a kernel of the lock has the node `{min(other)}`, which is no call")
            if twice := graph.names(covered & inside):
                raise changed(f"two kernels of the lock have the node `{min(twice)}`")
            covered |= inside
        if missing := graph.names(graph.calls & ~covered):
            raise changed(f"no kernel of the lock has the node `{min(missing)}`")
        by_candidate = {kernel.candidate: kernel for kernel in kernels}
        try:
            ordered = in_execution_order(graph, list(by_candidate))
        except CyclicPlanError as error:
            fault = f"the kernels of the lock wait for each other: {error}"
            raise changed(fault) from error
        kept = tuple(by_candidate[candidate] for candidate in ordered)
        return Plan(graph, kept, home=home if self.is_copying else None)

    def recorded(self) -> Sources:
        """The costs, from the sources that they came from; infeasible where there is none."""
        known: dict[str, dict[_Key, LockedCost]] = {}
        for each in self.costs:
            known.setdefault(each.source, {})[each.key] = each
        return Sources([*(_source(name, costs) for name, costs in known.items()), _NOT_PRICED])

    def with_variants(self, plan: Plan) -> Plan:
        """`plan` in which each kernel uses the cheapest variant that was measured for it."""
        known = {each.key: [by.variant for by in each.variants] for each in self.costs}

        def variants(candidate: CandidateKernel) -> list[Variant]:
            return known.get(_key(candidate), [])

        return with_cheapest(plan, variants)

    def differences(self, plan: Plan) -> list[str]:
        """The labels of the kernels of `plan` that are not kernels of this plan."""
        kept = {each.key for each in self.kernels}
        return [each.label for each in plan.candidates if _key(each) not in kept]


_Key = tuple[str, tuple[str, ...], tuple[str, ...]]


def _key(candidate: CandidateKernel) -> _Key:
    """What tells a kernel from others: its target, nodes, and the labels of its composites."""
    graph, sub_graph = candidate.graph, candidate.sub_graph
    labels = tuple(each.label for each in sub_graph.composites)
    return candidate.target, tuple(_names(graph, sub_graph.inside)), labels


_NOT_PRICED = Source("", lambda kernel: Infeasible("not priced when the model was frozen"))


def _source(name: str, costs: Mapping[_Key, LockedCost]) -> Source:
    """The source `name` as far as it was asked."""

    def cost(candidate: CandidateKernel) -> Cost:
        found = costs.get(_key(candidate))
        return found.cost if found else nan

    return Source(name, cost, lambda candidate: costs[_key(candidate)].measured_at)


def _origin(provenance: Provenance | None) -> dict[str, str]:
    return asdict(provenance) if provenance else {}


def _names(graph: Graph, nodes: int) -> list[str]:
    return [graph.nodes[index].name for index in members(nodes)]
