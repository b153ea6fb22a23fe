"""The cost function that measures: it builds and times each distinct kernel once per machine."""

import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NATIVE, BackendOf, UnknownBackend
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.cost import (
    Context,
    Cost,
    CostFunction,
    CostStore,
    Infeasible,
    Measurement,
    Variant,
    cheapest,
)
from collage_dsl.cost.spread import Spread, are_equal
from collage_dsl.graph import CandidateKernel, Extract, Graph, Toolchain, extract, tensors
from collage_dsl.graph.sizes import UNKNOWN, Sizes, size_of
from collage_dsl.measuring.footprint import displaced, footprint
from collage_dsl.measuring.found import FoundValues, is_found
from collage_dsl.measuring.key import context_of, kernel_key
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import (
    InTurn,
    InTurnTask,
    KernelTask,
    Overhead,
    OverheadTask,
    Timing,
    kernel_task,
    measure,
    native_of,
)
from collage_dsl.measuring.timing import IN_TURN, PERCENTILE, REFERENCE_RUNS, method
from collage_dsl.measuring.worker import Job, Workers
from collage_dsl.realization.place import (
    kept_composites,
    kernel_view,
    library_of,
    makers,
)
from collage_dsl.realization.variants import unsuitable, with_variant, without_variant


class MeasuringError(Exception):
    """Kernels cannot be measured on this machine as it is now."""


@dataclass(slots=True)
class Counts:
    """
    How many distinct kernels were asked for, and where their costs came from. For each reason why
    kernels are infeasible, how many are.
    """

    found: int = 0
    measured: int = 0
    reused: int = 0
    infeasible: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


LEAST_LAUNCH = 0.67
"""What views cost, as a part of the measured time of a launch. No kernel costs less."""

_QUICK = 0.75
"""A kernel that runs code costs this part of a launch at the least."""

_WORKERS = 4
"""The most processes that build kernels. Each holds libraries and the weights of a kernel."""

_MACHINE = Toolchain(NATIVE)
"""The target in whose context the speed of the machine is kept."""

_Key = tuple[str, tuple[str, ...], float]
"""A kernel, the contexts of its variants, and a time limit."""

_Task = KernelTask | OverheadTask | InTurnTask
_Answer = Timing | Overhead | InTurn | Failed

_REFERENCE = "machine.reference"
"""The name of the seconds of `timing.reference` in the store."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A kernel whose cost is asked for: the same candidate by each variant, and its key."""

    key: _Key
    offered: Sequence[CandidateKernel]
    backend: Backend
    kernel: Graph


class MeasuredCost:
    """
    A `CostFunction`: the seconds that a kernel takes, its launch included.

    A cost is looked up in `store` by what the kernel computes, its target, the versions of
    the libraries and the machine. If it is not there, the kernel is built and timed in another
    process. A kernel that cannot be built, crashes, or takes longer than `timeout` seconds (or
    the limit of its target) is infeasible; this is stored too. Trouble of the machine, and not of
    the kernel (no compiler, no memory), raises `MeasuringError` and is not stored. `watch` is
    called after every change of the counts.

    If a backend has several variants for a kernel, each is measured and stored by itself, and the
    kernel costs what the cheapest does. Variants that are about as cheap are timed again, in turn;
    of those that cost the same, within the noise margin, the first counts.

    Kernels that are asked for together, with `ahead`, are built side by side on the cores of this
    machine. While one is timed, nothing is built.

    Symbolic dimensions are timed at the numbers in `sizes`. A kernel with a dimension that is not
    in `sizes` is infeasible. Where the size of an operand is found only as the model runs, the
    kernel is timed on what the model gives for random inputs, or for those `given`.
    """

    def __init__(
        self,
        backend_of: BackendOf,
        store: CostStore,
        *,
        timeout: float = 60,
        sizes: Sizes | None = None,
        given: Mapping[str, Any] | None = None,
        watch: Callable[[Counts], None] = lambda counts: None,
    ) -> None:
        self.backend_of = backend_of
        self.sizes = sizes or {}
        self.found = FoundValues(given)
        self.store = store
        self.watch = watch
        self.counts = Counts()
        self.timeout = timeout
        self._known: dict[_Key, tuple[Measurement, ...]] = {}
        self._equal: dict[_Key, float] = {}
        self._footprints: dict[int, tuple[Graph, int]] = {}
        self._contexts: dict[str, Context] = {}
        self._keys: dict[object, str] = {}
        self._no_overhead: dict[tuple[str, float], Infeasible] = {}
        cores = len(os.sched_getaffinity(0))
        self._workers = Workers[_Task, Timing | Overhead | InTurn](
            measure, count=min(cores, _WORKERS)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._workers.stop()

    def __call__(self, candidate: CandidateKernel) -> Cost:
        wanted = self._wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if wanted.key not in self._known:
            self._price([wanted])
        return self._equal.get(wanted.key, self._chosen(wanted).cost)

    def known(self, candidate: CandidateKernel) -> Cost:
        """The cost that is in the store; infeasible where there is none. Nothing is measured."""
        wanted = self._wanted(candidate)
        if isinstance(wanted, Infeasible):
            return wanted
        if reason := unsupported(wanted.offered[0], self.backend_of, wanted.kernel):
            return Infeasible(reason)
        stored = self._stored(wanted)
        found = [each for each in stored if each is not None]
        if len(found) < len(stored):
            return Infeasible("its cost has not been measured")
        return _cheapest(found, _margin(candidate)).cost

    def settle(self, groups: Iterable[Sequence[CandidateKernel]]) -> bool:
        """
        Let the kernels of a group, of which any can take the place of another, cost the same where
        they do so within the noise margin: as much as the dearest of those, which breaks no lower
        bound. Kernels that may cost the same are timed in turn first, if they were not yet. Says
        whether a cost has changed.
        """
        groups = list(groups)
        before = dict(self._equal), dict(self._known)
        close = {tuple(w.key for w, _ in found): found for found in map(self._close, groups)}
        unsure = [found for found in close.values() if _must_run_in_turn(found)]
        for wanted, _ in (each for found in unsure for each in found):
            self._know_overheads(wanted)
        self._workers.run([self._in_turn(found) for found in unsure])
        equal: dict[_Key, float] = {}
        for group in groups:  # A kernel may be in several groups, where a model repeats itself.
            for key, cost in self._made_equal(group).items():
                equal[key] = max(cost, equal.get(key, cost))
        self._equal |= equal
        return before != (self._equal, self._known)

    def _must_run_in_turn(group: "Sequence[tuple[_Wanted, Measurement]]") -> bool:
    """Whether there are several kernels, of which some were not timed in turn with others yet."""
    spreads = [measured.spread for _, measured in group if measured.variant != IN_PLACE]
    known = [each for each in spreads if each is not None]
    return len(spreads) > 1 and not all(each.method.endswith(IN_TURN) for each in known)


def _by_variant(wanted: _Wanted, measured: Measurement) -> CandidateKernel:
    """The candidate by the variant that was measured."""
    found = (each for each in wanted.offered if each.toolchain.variant == measured.variant)
    return next(found)


def _cheapest(measured: Sequence[Measurement], margin: float) -> Measurement:
    """As `cost.cheapest`, of measured variants."""
    variants = [_variant_of(each) for each in measured]
    return measured[variants.index(cheapest(variants, margin))]


def _margin(candidate: CandidateKernel) -> float:
    return candidate.toolchain.measure.noise_margin


def _refused(candidate: CandidateKernel, wanted: _Wanted, reason: Infeasible) -> Measurement:
    """What is known of a kernel that its backend does not support; it is not kept."""
    return Measurement(wanted.key[0], "", candidate.label, reason, candidate.toolchain.variant)


def _variant_of(measured: Measurement) -> Variant:
    return Variant(measured.variant, measured.cost, measured.error)


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
