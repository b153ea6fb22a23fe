"""Lower bounds of the costs of kernels on this machine, known before they are measured."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import inf

from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import CostFunction, CostStore, Infeasible, Peak
from collage_dsl.graph import (
    Attribute,
    CandidateKernel,
    Form,
    Graph,
    Kind,
    Measuring,
    Node,
    SubGraph,
    TensorType,
    Toolchain,
)
from collage_dsl.graph.sizes import with_sizes
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.executors import Fleet
from collage_dsl.measuring.overheads import LEAST_LAUNCH, MeasuringError

_MEMORY = 6.5e10
"""Assumed bytes a second that a core moves at most, unless measurements here give more."""

_FASTER = 1.25
"""No kernel is assumed to move more than this multiple of the fastest measured bytes a second."""

_CACHED = 4 << 20
"""So many bytes may be in the caches of a core alone, which hardly bound a kernel's time."""

_CACHES = 2e11
"""Assumed bytes a second that a core moves at most from and to the last-level cache."""

_FASTEST = Toolchain("tvm", measure=Measuring(repeats=40, percentile=0, runs="rarely"))
_ELEMENTS = 1 << 20
"""More than the caches of a core hold. With fewer, overheads would dominate the time."""


def lower_bound(cost: MeasuredCost, *, measures: bool = True) -> Callable[[CandidateKernel], float]:
    """
    A lower bound of what `cost` says of a kernel: the time to launch a kernel of its target, plus
    `Peak`. Where a model runs often, less of a kernel's data comes from memory than it moves. The
    numbers of this machine are measured when a bound is first asked for, and kept in the store. If
    that fails, the bound is lower. So it is where they are not in the store, if nothing `measures`.

    A target without a number of cores has one core, as in `MeasuredCost`.
    """

    @cache
    def peak() -> Peak:
        return Peak(memory=memory(cost.store, cost.timer.fleet, measures=measures), cores=1)

    @cache
    def launch(toolchain: Toolchain) -> float:
        overheads, backend = cost.timer.overheads, cost.kernels.backend_of(toolchain)
        find = overheads.launch if measures else overheads.recorded_launch
        try:
            seconds = find(toolchain, backend)
        except MeasuringError:
            return 0.0
        if seconds is None or isinstance(seconds, Infeasible):
            return 0.0
        return seconds * LEAST_LAUNCH

    @cache
    def sized(graph: Graph) -> Graph:
        return with_sizes(graph, cost.kernels.sizes) if cost.kernels.sizes else graph

    def least(candidate: CandidateKernel) -> float:
        if candidate.toolchain.kind != "llvm":
            return 0.0
        at_sizes = replace(candidate, graph=sized(candidate.graph))
        rate = peak()
        moved = rate(at_sizes)
        if candidate.toolchain.measure.runs == "often":
            beyond = moved - cost.machine.cache / rate.memory
            within = replace(rate, memory=_CACHES)(at_sizes) - _CACHED / _CACHES
            moved = max(replace(rate, memory=inf)(at_sizes), beyond, within)
        return launch(candidate.toolchain) + moved

    return least


def memory(store: CostStore, fleet: Fleet | None = None, *, measures: bool = True) -> float:
    """
    The most bytes that one core of this machine, or of that of `fleet`, moves from and to memory
    in a second.
    """
    with MeasuredCost(lambda _: Tvm(), store, fleet=fleet) as cost:
        try:
            known = cost if measures else cost.recorded
            fastest = max(_rate(known, graph) for graph in (_addition(), _maximum()))
        except MeasuringError:
            return _MEMORY
    return max(_MEMORY, _FASTER * fastest)


def _rate(cost: CostFunction, graph: Graph) -> float:
    """The bytes a second that the only kernel of `graph` moves; 0 if its cost is not known."""
    kernel = CandidateKernel(graph, SubGraph(graph.calls), _FASTEST)
    seconds = cost(kernel)
    moved = Peak(memory=1, cores=1)(kernel)
    return 0.0 if isinstance(seconds, Infeasible) or not seconds > 0 else moved / seconds


def _addition() -> Graph:
    type_ = TensorType("float32", (_ELEMENTS,))
    nodes = [Node(name, Form.INPUT, type_) for name in ("x", "y")]
    nodes.append(Node("z", Form.CALL, type_, (0, 1), "add", kind=Kind.BROADCAST))
    return Graph(nodes, [2])


def _maximum() -> Graph:
    data, result = TensorType("float32", (64, _ELEMENTS // 64)), TensorType("float32", (64,))
    attrs: dict[str, Attribute] = {"axis": (1,), "keepdims": False}
    nodes = [
        Node("x", Form.INPUT, data),
        Node("y", Form.CALL, result, (0,), "max", attrs=attrs, kind=Kind.REDUCE),
    ]
    return Graph(nodes, [1])
