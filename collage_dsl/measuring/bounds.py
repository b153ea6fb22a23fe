"""What kernels cost on this machine at the least, known before they are measured."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import CostStore, Infeasible, Peak
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
from collage_dsl.measuring.cost import MeasuredCost, MeasuringError

_MEMORY = 6.5e10
"""Bytes a second that a core is taken to move, unless this one was seen to come near."""

_FASTER = 1.25
"""Kernels move at most so many times the bytes of the fastest one that was measured."""

_LAUNCH = 1.5
"""They are launched in no less than what was measured, divided by this."""

_FASTEST = Toolchain("tvm", measure=Measuring(repeats=40, percentile=0))
_ELEMENTS = 1 << 20
"""Beyond what the caches of a core hold; of fewer the overheads would say more."""


def lower_bound(cost: MeasuredCost) -> Callable[[CandidateKernel], float]:
    """
    What `cost` says of a kernel at the least: the time in which its target launches one, and
    that of `Peak` on cold caches. What these need of this machine is measured when a bound is
    first asked for, and kept in the store; where that fails, the bound says less.

    A target that does not say how many cores it may use has one, as `MeasuredCost` takes it.
    """

    @cache
    def peak() -> Peak:
        return Peak(memory=memory(cost.store), cores=1)

    @cache
    def launch(toolchain: Toolchain) -> float:
        try:
            seconds = cost.launch(toolchain, cost.backend_of(toolchain))
        except MeasuringError:
            return 0.0
        return 0.0 if isinstance(seconds, Infeasible) else seconds / _LAUNCH

    @cache
    def sized(graph: Graph) -> Graph:
        return with_sizes(graph, cost.sizes) if cost.sizes else graph

    def least(candidate: CandidateKernel) -> float:
        if candidate.toolchain.kind != "llvm":
            return 0.0
        at_sizes = replace(candidate, graph=sized(candidate.graph))
        return launch(candidate.toolchain) + peak()(at_sizes)

    return least


def memory(store: CostStore) -> float:
    """The bytes that one core of this machine moves from and to memory in a second, at the most."""
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        try:
            fastest = max(_rate(cost, graph) for graph in (_addition(), _maximum()))
        except MeasuringError:
            return _MEMORY
    return max(_MEMORY, _FASTER * fastest)


def _rate(cost: MeasuredCost, graph: Graph) -> float:
    """The bytes a second that the only kernel of `graph` moves; 0 where it is infeasible."""
    kernel = CandidateKernel(graph, SubGraph(graph.calls), _FASTEST)
    seconds = cost(kernel)
    moved = Peak(memory=1, cores=1)(kernel)
    return 0.0 if isinstance(seconds, Infeasible) or not seconds else moved / seconds


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
