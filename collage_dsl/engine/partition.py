"""The four steps on a Relax module of any shape, as a pass of TVM."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from collage_dsl.backends.base import Backend, LibraryBackend
from collage_dsl.backends.registry import UnknownBackend, find_backend
from collage_dsl.cost import Cost, CostFunction, CostSources, CostStore, Infeasible, first_known
from collage_dsl.cost.store import default_store_path
from collage_dsl.engine import predicates
from collage_dsl.engine.compile import backends_of, check_names
from collage_dsl.engine.specs import Aimed, aimed, misplaced
from collage_dsl.engine.steps import merged, proposed
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
from collage_dsl.graph.sizes import Sizes, names_in, with_sizes
from collage_dsl.realization.bound import lower_bound
from collage_dsl.realization.build import register_codegens
from collage_dsl.realization.cost import MeasuredCost
from collage_dsl.realization.partition import is_library, module_pass, partition
from collage_dsl.rules import FusionSpec
from collage_dsl.rules.predicate import Lookup
from collage_dsl.rules.spec import Refusal
from collage_dsl.search import LowerBound
from collage_dsl.search.partial import partial, without_left_alone


def CollagePartition(  # noqa: N802 (the name of the original design's pass)
    targets: Sequence[Any],
    cost: CostSources | None = None,
    *,
    store: str | Path | None = None,
    sizes: Sizes | None = None,
    backends: Sequence[Backend] = (),
    allow_extern: bool = False,
) -> Any:
    """
    A pass that puts the kernels chosen for `targets` into every dataflow block of a module.

        module = tvm.transform.Sequential([collage.CollagePartition(["x86.collage"])])(module)

    Targets are those of `compile`: specs, names of specs, or TVM targets. Costs are those that
    `cost` gives, a function, the file of a cost table, or several of these, which are asked in
    turn. What none of them knows is measured here, and costs are kept in the file `store`; a
    kernel with symbolic dimensions is measured as if they were what `sizes` say, and infeasible
    where they say nothing. An operator call that no candidate covers is left alone, for later
    passes. Running the pass again changes nothing. What is planned for a virtual device is in
    kernels of targets that are, or refine, its target.
    """
    given = aimed(targets, backends)
    specs = [each.spec for each in given]
    check_names(specs)
    if cost is None:
        backends_of(specs, backends)
    steps = _Steps(given, tuple(backends), allow_extern)
    known = None if cost is None else first_known(cost)
    path = Path(store) if store is not None else default_store_path()

    def rewrite(module: Any) -> Any:
        with ExitStack() as stack:
            measured = cache(lambda: steps.measured(stack, path, sizes or {}))
            if known is None:
                return steps.run(module, *measured())
            return steps.run(module, first_known([known, lambda kernel: measured()[0](kernel)]))

    return module_pass(rewrite, "CollagePartition")


class _Steps:
    def __init__(
        self, given: Sequence[Aimed], backends: tuple[Backend, ...], allow_extern: bool
    ) -> None:
        self.specs: list[FusionSpec] = [each.spec for each in given]
        self.given = given
        self.backends = backends
        self.backend = cache(self.find_backend)
        self.lookup: Lookup = predicates.lookup(allow_extern=allow_extern, backends=backends)

    def run(self, module: Any, cost: CostFunction, bound: LowerBound | None = None) -> Any:
        """Raises what proposing, pricing and finding a backend do."""
        used: set[Toolchain] = set()

        def choose(graph: Graph) -> Sequence[CandidateKernel]:
            chosen = self.chosen(graph, cost, bound)
            used.update(candidate.toolchain for candidate in chosen)
            return chosen

        result = partition(module, choose, self.binds_constants)
        self.register(used)
        return result

    def measured(
        self, stack: ExitStack, path: Path, sizes: Sizes
    ) -> tuple[CostFunction, LowerBound]:
        """What kernels take on this machine, until `stack` is closed, and at the least."""
        backend_of = backends_of(self.specs, self.backends)
        for spec in self.specs:
            backend_of(spec.target).prepare()
        store = stack.enter_context(CostStore(path))
        cost = stack.enter_context(MeasuredCost(backend_of, store))
        bound = lower_bound(cost)

        @cache
        def sized(graph: Graph) -> Graph:
            return with_sizes(graph, sizes)

        def least(candidate: CandidateKernel) -> float:
            return bound(replace(candidate, graph=sized(candidate.graph)))

        return _where_measurable(cost, sized, self.unsupported), least

    def chosen(
        self, graph: Graph, cost: CostFunction, bound: LowerBound | None
    ) -> Sequence[CandidateKernel]:
        found = proposed(graph, self.specs, self.specs, self.lookup, self.refusal(graph))
        plan = merged(partial(graph, found, cost, lower_bound=bound), cost, self.specs)
        return without_left_alone(plan).candidates

    def refusal(self, graph: Graph) -> Refusal:
        """Why a target may not run what a module has, beyond what its spec says."""
        is_misplaced = misplaced(graph, self.given)
        libraries = {spec.name for spec in self.specs if is_library(spec.target)}
        installed = {
            spec.name
            for spec in self.specs
            if isinstance(self.backend(spec.target), LibraryBackend)
        }

        def refusal(target: str, inside: OpSet) -> str:
            if target in libraries and (name := _compiled_in(graph, inside)):
                return f"`{name}` has been compiled by TVM already"
            if target in installed and (dim := _without_tensor(graph, inside)):
                return f"no tensor that the kernel is given has the dimension `{dim}`"
            return is_misplaced(target, inside)

        return refusal

    def unsupported(self, candidate: CandidateKernel) -> str:
        """Why a library cannot make a kernel whose dimensions have names; empty where it can."""
        graph, inside = candidate.graph, candidate.sub_graph.inside
        backend = self.backend(candidate.toolchain)
        if not isinstance(backend, LibraryBackend) or not _symbolic_in(graph, inside):
            return ""
        constants = graph.input(inside) & graph.constants
        return backend.supports(extract(graph, inside, constants).graph) or ""

    def find_backend(self, toolchain: Toolchain) -> Backend | None:
        """What makes the kernels of a target; None where that is not installed here."""
        try:
            return find_backend(toolchain.compiler or "tvm", self.backends)
        except (UnknownBackend, ModuleNotFoundError):
            return None

    def binds_constants(self, toolchain: Toolchain) -> bool:
        backend = self.backend(toolchain)
        return is_library(toolchain) if backend is None else backend.binds_constants

    def register(self, toolchains: set[Toolchain]) -> None:
        """Let `RunCodegen` find the libraries that are installed here."""
        found = {each: self.backend(each) for each in toolchains}
        known = {each: backend for each, backend in found.items() if backend is not None}
        register_codegens(set(known), lambda toolchain: known[toolchain])


def _where_measurable(
    cost: CostFunction,
    sized: Callable[[Graph], Graph],
    unsupported: Callable[[CandidateKernel], str],
) -> CostFunction:
    """`cost`, and why there is none for kernels with dimensions that have no numbers."""

    def measured(candidate: CandidateKernel) -> Cost:
        if because := unsupported(candidate):
            return Infeasible(because)
        candidate = replace(candidate, graph=sized(candidate.graph))
        if name := _symbolic_in(candidate.graph, candidate.sub_graph.inside):
            return Infeasible(f"`{name}` has dimensions that `sizes` have no numbers for")
        return cost(candidate)

    return measured


def _without_tensor(graph: Graph, inside: OpSet) -> str:
    """A dimension that no tensor which a kernel is given has; empty where there is none."""
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
    """The compiled function that a kernel would call; empty where there is none."""
    nodes = (graph.nodes[index] for index in members(inside))
    return next((str(node.attrs["function"]) for node in nodes if node.op == CALL_TIR), "")


def _symbolic_in(graph: Graph, inside: OpSet) -> str:
    """A value of a kernel, or one that flows into it, whose shape is not all numbers."""
    nodes = (graph.nodes[index] for index in members(inside | graph.input(inside)))
    symbolic = (n.name for n in nodes if any(not each.is_static for each in tensors(n.type)))
    return next(symbolic, "")
