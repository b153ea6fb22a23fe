"""What candidates compute, by which variants, and under which names their costs are in a store."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NO_BACKEND, BackendOf, refusal
from collage_dsl.cost import CostFunction, Infeasible
from collage_dsl.cost.records import Records
from collage_dsl.graph import CandidateKernel, Extract, Graph, Toolchain, extract, tensors
from collage_dsl.graph.sizes import UNKNOWN, Sizes, size_of
from collage_dsl.measuring.footprint import Distances, Far
from collage_dsl.measuring.found import FoundValues, is_found, is_shape
from collage_dsl.measuring.kept import Kept
from collage_dsl.measuring.key import kernel_key
from collage_dsl.measuring.pace import BRIEF, Patience
from collage_dsl.measuring.recorded import BestRecords
from collage_dsl.measuring.task import KernelTask, kernel_task
from collage_dsl.measuring.ways import Key, Wanted
from collage_dsl.realization.kernel import kept_composites, kernel_view, library_of, makers
from collage_dsl.realization.variants import unsuitable, with_variant, without_variant


class Kernels:
    """
    The kernels of candidates: what each computes, its variants, and how it is timed.

    Symbolic dimensions are the numbers in `sizes`. Where the size of an operand is found only as
    the model runs, it is that of what the model gives for random inputs, or for those `given`. One
    variant is the best schedule that `records` have. A target that says no time limit has
    `timeout` seconds. Candidates are made for the processor where they run, if that is `elsewhere`.
    """

    def __init__(
        self,
        backend_of: BackendOf,
        kept: Kept,
        records: Records | None,
        *,
        timeout: float,
        sizes: Sizes | None,
        given: Mapping[str, Any] | None,
        elsewhere: bool,
    ) -> None:
        if not 0 < timeout < inf:
            raise ValueError(f"the time limit of a kernel is a number of seconds, not {timeout}")
        self.backend_of = backend_of
        self.kept = kept
        self.timeout = timeout
        self.sizes = sizes or {}
        self.elsewhere = elsewhere
        self.with_best_record = BestRecords(records, backend_of, self.aimed)
        self._values = FoundValues(given, self.sizes or None)
        self._distances: dict[int, tuple[Graph, Distances]] = {}

    def wanted(self, candidate: CandidateKernel) -> Wanted | Infeasible:
        """What is to be looked up and measured of a candidate, or why it is not."""
        backend = self.backend_of(candidate.toolchain)
        found = kernel_view(candidate, backend)
        if name := _unsized(candidate.graph, found.arguments, self.sizes):
            return Infeasible(f"`{name}` has dimensions that `sizes` have no numbers for")
        values = self._values_of(candidate, found)
        if isinstance(values, str):
            return Infeasible(values)
        try:
            makers(candidate, self.backend_of)
        except NO_BACKEND as error:
            return Infeasible(str(error))
        offered = _offered(self.with_best_record(candidate), backend)
        if not offered:
            return Infeasible(without_variant(candidate, backend))
        return Wanted(self._key(offered, backend, found, values), offered, backend, found.graph)

    def task(
        self, candidate: CandidateKernel, reference: float | None, patience: Patience = BRIEF
    ) -> KernelTask:
        """
        The task to time a candidate. `reference` are the seconds of the reference kernel at the
        usual speed of the machine, if they are known.
        """
        backend, *libraries = makers(candidate, self.backend_of)
        found = kernel_view(candidate, backend)
        given = self._values_of(candidate, found)
        assert not isinstance(given, str)
        others, far = self._distance(candidate, found)
        return kernel_task(
            candidate,
            backend,
            self.sizes,
            libraries=tuple(libraries),
            given=given,
            others=others,
            far=far,
            reference=reference,
            patience=patience,
        )

    def limit(self, toolchain: Toolchain) -> float:
        """The seconds after which a kernel of `toolchain` is refused."""
        said = toolchain.measure.timeout
        return self.timeout if said is None else said

    def aimed(self, candidate: CandidateKernel) -> CandidateKernel:
        """`candidate` for the processor on which it is timed."""
        if not self.elsewhere:
            return candidate
        return replace(candidate, toolchain=self.kept.machine.aimed(candidate.toolchain))

    def unsupported(self, wanted: Wanted) -> str | None:
        """Why the kernel cannot be run; None if it can."""
        return unsupported(wanted.offered[0], self.backend_of, wanted.kernel)

    def _values_of(self, candidate: CandidateKernel, found: Extract) -> Mapping[int, Any] | str:
        """
        The values of operands whose sizes are found as the model runs, or why there are none; and
        those of shapes, if they are known.
        """
        graph, arguments = candidate.graph, found.arguments
        if any(is_found(graph, index) for index in arguments):
            return self._values.of(graph, arguments)
        if not any(is_shape(graph, index) for index in arguments):
            return {}
        known = self._values.of(graph, arguments)
        return {} if isinstance(known, str) else known

    def _key(
        self,
        offered: Sequence[CandidateKernel],
        backend: Backend,
        found: Extract,
        values: Mapping[int, Any],
    ) -> Key:
        """The names of the candidates in the store, and the time limit."""
        _, *libraries = makers(offered[0], self.backend_of)
        kernel = kernel_key(offered[0], backend, found, self.sizes, values)
        others, far = self._distance(offered[0], found)
        contexts = (
            self.kept.context(each.toolchain, backend, *libraries, others=others, far=far)
            for each in offered
        )
        return kernel, tuple(contexts), self.limit(offered[0].toolchain)

    def _distance(self, candidate: CandidateKernel, found: Extract) -> tuple[int | None, Far]:
        """
        The bytes that the model reads between two runs of a kernel, None if it runs rarely; and
        what of the kernel is as far as its weights.
        """
        if candidate.toolchain.measure.runs == "rarely":
            return None, ()
        graph = candidate.graph
        if id(graph) not in self._distances:
            known = Distances(graph, self.sizes, self.kept.machine.cache)
            self._distances[id(graph)] = graph, known
        _, distances = self._distances[id(graph)]
        return distances.others, distances.far(candidate, found)


def unsupported(candidate: CandidateKernel, backend_of: BackendOf, kernel: Graph) -> str | None:
    """
    Why a backend, or a library that a composite is for, cannot run a candidate, of which `kernel`
    is the graph.
    """
    backend, *libraries = makers(candidate, backend_of)
    if reason := refusal(backend, kernel):
        return reason
    by_name = {library.name: library for library in libraries}
    for each in kept_composites(candidate, backend) if libraries else ():
        part = extract(candidate.graph, each.inside, each.constants).graph
        if reason := refusal(by_name[library_of(each.label)], part):
            return f"{each.label}: {reason}"
    return None


def supported(cost: CostFunction, backend_of: BackendOf) -> CostFunction:
    """`cost`, but infeasible for what no backend can run."""

    def checked(candidate: CandidateKernel) -> float | Infeasible:
        kernel = kernel_view(candidate, backend_of(candidate.toolchain)).graph
        reason = unsupported(candidate, backend_of, kernel)
        return Infeasible(reason) if reason else cost(candidate)

    return checked


def _offered(candidate: CandidateKernel, backend: Backend) -> list[CandidateKernel]:
    """The candidate for each variant that may compute it and can."""
    if not backend.variants and not candidate.toolchain.variants:
        return [candidate]
    fitting = (variant for variant, reason in unsuitable(candidate, backend) if reason is None)
    return [with_variant(candidate, variant) for variant in fitting]


def _unsized(graph: Graph, nodes: Iterable[int], sizes: Sizes) -> str:
    """A node with a symbolic dimension that is not in `sizes`; empty if there is none."""
    for node in (graph.nodes[index] for index in nodes):
        for type_ in tensors(node.type):
            dims = (size_of(dim, sizes) for dim in type_.shape or () if dim != UNKNOWN)
            if any(isinstance(dim, str) for dim in dims):
                return node.name
    return ""
