"""`CollagePartition`: a pass of TVM that runs the four steps on any Relax module."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.base import Backend, LibraryBackend, Placement
from collage_dsl.backends.registry import Absent, BackendError, UnknownBackend, known
from collage_dsl.cost import (
    Copies,
    CostError,
    CostFunction,
    CostSources,
    SourceError,
    Sources,
    StoreError,
    TableError,
    check_sources,
)
from collage_dsl.cost.database import DamagedStoreError, ExchangeError
from collage_dsl.cost.store import default_store_path
from collage_dsl.diagnostics import RuleError
from collage_dsl.engine import predicates
from collage_dsl.engine.compile import backends_of, check_names
from collage_dsl.engine.costs import Pricing
from collage_dsl.engine.devices import DefaultDevice
from collage_dsl.engine.sizes import is_size
from collage_dsl.engine.specs import Aimed, aimed, misplaced
from collage_dsl.engine.steps import proposed, regions
from collage_dsl.engine.ties import without_ties
from collage_dsl.engine.tune import TuningOptions, existing_records
from collage_dsl.frontend.errors import FrontendError, UnsupportedRelax
from collage_dsl.graph import (
    CandidateKernel,
    Dim,
    Form,
    Graph,
    OpSet,
    Toolchain,
    extract,
    members,
    tensors,
)
from collage_dsl.graph.operators import CALL_TIR
from collage_dsl.graph.sizes import Sizes, names_in
from collage_dsl.language import UnreadableError
from collage_dsl.measuring.copies import CopyCost
from collage_dsl.measuring.overheads import MeasuringError
from collage_dsl.realization.bounded_shapes import with_bounded_shapes
from collage_dsl.realization.generators import offer_code_generator
from collage_dsl.realization.partition import module_pass, partition
from collage_dsl.rules import FusionSpec
from collage_dsl.rules.predicate import Lookup, PredicateError
from collage_dsl.rules.spec import Refusal
from collage_dsl.search import Plan, StrategyError
from collage_dsl.search.partial import as_far_as_possible, without_left_alone
from collage_dsl.targets.attach import TargetError
from collage_dsl.targets.default import default_target
from collage_dsl.targets.gather import current_targets


@with_checked_types("targets", "cost", "sizes")
def CollagePartition(  # noqa: N802 (the name of the original design's pass)
    targets: Sequence[Any] | None = None,
    cost: CostSources | None = None,
    *,
    store: str | Path | None = None,
    records: str | Path | None = None,
    sizes: Sizes | None = None,
    copies: Copies | None = None,
    backends: Sequence[Backend] = (),
    allow_extern: bool = False,
    prove: bool = False,
) -> Any:
    """
    A pass that puts the kernels chosen for `targets` into every dataflow block of a module.

        module = tvm.transform.Sequential([collage.CollagePartition(["x86.collage"])])(module)

    Targets are those of `compile`: specs, names of specs, or TVM targets; without any, the target
    that TVM compiles for and those of the module's virtual devices. Costs are those that
    `cost` gives, a source or several, which are asked in turn (docs/costs.md). What none of them
    knows is measured here, and costs are kept in the file `store`; a kernel with symbolic
    dimensions is measured as if they were what `sizes` say, and infeasible where they say nothing.
    An operator call that no candidate covers is left alone, for later passes. Running the pass
    again changes nothing. What is planned for a virtual device is in kernels of targets that are,
    or refine, its target. What is planned for none is on the default device: the first of the
    module, else that of the target that TVM compiles for, else that of the first of `targets`.
    Targets on other devices may run it where `copies` say what it costs to copy a tensor between
    two devices.

    Kernels that will probably not be chosen, judged by those that were measured, are not measured,
    unless the search shall `prove` that no choice is cheaper.

    Kernels for which `records` have a schedule that tuning found may use it. This is a file, by
    default that beside `store`. The pass itself tunes nothing.
    """

    at_sizes = _checked_sizes(sizes or {})

    def steps_for(targets: Sequence[Any]) -> _Steps:
        given = aimed(targets, backends)
        specs = [each.spec for each in given]
        check_names(specs)
        if cost is None:
            backends_of(specs, backends)
        return _Steps(given, tuple(backends), allow_extern, copies, at_sizes, prove)

    fixed = None if targets is None else steps_for(targets)
    if cost is not None:
        check_sources(cost)
    path = Path(store) if store is not None else default_store_path()
    tuned = TuningOptions(records).path(path)

    def rewrite(module: Any) -> Any:
        steps = fixed or steps_for(current_targets(module))
        with ExitStack() as stack:
            pricing = Pricing(
                stack,
                backend_of=steps.backend_of,
                store=path,
                sizes=steps.sizes,
                options={"records": existing_records(tuned, stack)},
                is_built=True,
                prepare=cache(steps.prepare),
            )
            given = () if cost is None else pricing.sources(cost).sources
            return steps.run(module, Sources([*given, pricing.measured()]), pricing)

    return module_pass(rewrite, "CollagePartition", _ERRORS)


def _checked_sizes(sizes: Sizes) -> Sizes:
    for name, size in sizes.items():
        if not is_size(size):
            raise ValueError(f"`{name}` is measured at one size, a whole number, not at {size!r}")
    return {name: int(size) for name, size in sizes.items()}


_ERRORS = (
    *(BackendError, CostError, FrontendError, MeasuringError, PredicateError, RuleError),
    *(SourceError, StrategyError, TableError, TargetError, UnknownBackend, UnreadableError),
    *(DamagedStoreError, ExchangeError, StoreError, UnsupportedRelax),
)
"""What the pass raises where it was given something wrong."""


class _Steps:
    def __init__(
        self,
        given: Sequence[Aimed],
        backends: tuple[Backend, ...],
        allow_extern: bool,
        copies: Copies | None,
        sizes: Sizes,
        prove: bool,
    ) -> None:
        self.specs: list[FusionSpec] = [each.spec for each in given]
        self.given = given
        self.backends = backends
        self.copies = copies
        self.sizes = sizes
        self.prove = prove
        self.backend_of = known(backends)
        self.lookup: Lookup = predicates.lookup(allow_extern=allow_extern, backends=backends)

    def run(self, module: Any, asked: Sources, pricing: Pricing) -> Any:
        """Partition `module`. Raises the errors of proposing, pricing and finding a backend."""
        cost: CostFunction = asked
        used: set[Toolchain] = set()
        target = default_target(module, self.given[0].targets[0])
        default = DefaultDevice(str(target.kind.name), self.copies is not None)
        if self.copies is not None:
            cost = CopyCost(self.copies, default.kind, self.backend_of, self.sizes).added_to(cost)

        def choose(graph: Graph) -> Sequence[CandidateKernel]:
            chosen = self.chosen(graph, asked, cost, pricing, default)
            used.update(candidate.toolchain for candidate in chosen)
            return chosen

        module = with_bounded_shapes(module)
        result = partition(module, choose, self.backend_of, target if self.copies else None)
        self.register(used)
        return result

    def prepare(self) -> None:
        """Before anything is measured. Raises the errors of a backend that is not installed."""
        backend_of = backends_of(self.specs, self.backends)
        for spec in self.specs:
            backend_of(spec.target).prepare()

    def chosen(
        self,
        graph: Graph,
        asked: Sources,
        cost: CostFunction,
        pricing: Pricing,
        default: DefaultDevice,
    ) -> Sequence[CandidateKernel]:
        """The kernels for a graph. They cost what is `asked`, and `cost` adds that of copies."""
        found = proposed(graph, self.specs, self.specs, self.lookup, self.refusal(graph, default))

        def searched(price: CostFunction) -> Plan:
            hints = pricing.hints(asked, prove=self.prove)
            space = regions(graph, found, price, self.specs, hints)
            return space.plan(solve=as_far_as_possible)

        plan, _ = without_ties(searched, lambda plan: plan, cost, pricing.settling(asked))
        return pricing.with_variants(without_left_alone(plan)).candidates

    def refusal(self, graph: Graph, default: DefaultDevice) -> Refusal:
        """Why a target may not run what a module has, beyond what its spec says."""
        is_misplaced = misplaced(graph, self.given, default)
        backends = {spec.name: self.backend_of(spec.target) for spec in self.specs}
        libraries = {n for n, each in backends.items() if each.placement is Placement.CODEGEN}
        present = {name for name in libraries if not isinstance(backends[name], Absent)}

        def refusal(target: str, inside: OpSet) -> str:
            if target in libraries and (name := _compiled_in(graph, inside)):
                return f"`{name}` has been compiled by TVM already"
            if target in present and (dim := _without_tensor(graph, inside)):
                return f"no tensor that the kernel is given has the dimension `{dim}`"
            return is_misplaced(target, inside)

        return refusal

    def register(self, toolchains: set[Toolchain]) -> None:
        """Register the installed libraries of `toolchains` for a plain `RunCodegen`."""
        for backend in map(self.backend_of, toolchains):
            if isinstance(backend, LibraryBackend) and not isinstance(backend, Absent):
                offer_code_generator(backend)


def _without_tensor(graph: Graph, inside: OpSet) -> str:
    """A dimension that no input tensor of a kernel has by itself; empty if there is none."""
    if not _symbolic_in(graph, inside):
        return ""
    given: set[Dim] = set()
    used: list[Dim] = []
    for node in extract(graph, inside).graph.nodes:
        dims = [dim for each in tensors(node.type) for dim in each.shape or ()]
        if node.form is Form.INPUT:
            given.update(dims)
        if node.form is Form.LITERAL and isinstance(node.value, tuple):
            dims += [dim for dim in node.value if isinstance(dim, int | str)]
        used += dims
    return next((name for dim in used for name in sorted(names_in(dim) - given)), "")


def _compiled_in(graph: Graph, inside: OpSet) -> str:
    """The compiled function that a kernel would call; empty if there is none."""
    nodes = (graph.nodes[index] for index in members(inside))
    return next((str(node.attrs["function"]) for node in nodes if node.op == CALL_TIR), "")


def _symbolic_in(graph: Graph, inside: OpSet) -> str:
    """A value in a kernel, or an input of it, with a symbolic shape; empty if there is none."""
    nodes = (graph.nodes[index] for index in members(inside | graph.input(inside)))
    symbolic = (n.name for n in nodes if any(not each.is_static for each in tensors(n.type)))
    return next(symbolic, "")
