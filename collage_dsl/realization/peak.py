"""What this machine moves from memory at the most, for lower bounds of measured costs."""

from math import inf

from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import CostStore, Infeasible, Peak
from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Kind,
    Node,
    SubGraph,
    TensorType,
    Toolchain,
)
from collage_dsl.realization.cost import MeasuredCost

_SIZES = (1 << 18, 1 << 20, 1 << 22)
"""Elements of 4 bytes: around and beyond what caches hold."""

_MARGIN = 1.5
"""No kernel is taken to move bytes faster than so many times what additions do."""


def measured_peak(store: CostStore) -> Peak:
    """
    `Peak` with the `memory` of one core of this machine: half as much again as the fastest
    of three additions of TVM, on cold caches. They are measured once, and kept in `store`.
    Without `memory` where they cannot be measured.

    A target that does not say how many cores it may use has one, as `MeasuredCost` takes it.
    """
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        rates = [_rate(elements, cost) for elements in _SIZES]
    return Peak(memory=_MARGIN * max(rates) if all(rates) else inf, cores=1)


def _rate(elements: int, cost: MeasuredCost) -> float:
    """Bytes a second of an addition: two operands and a result; 0 where it is infeasible."""
    type_ = TensorType("float32", (elements,))
    nodes = [Node(name, Form.INPUT, type_) for name in ("x", "y")]
    nodes.append(Node("z", Form.CALL, type_, (0, 1), "add", kind=Kind.BROADCAST))
    graph = Graph(nodes, [2])
    seconds = cost(CandidateKernel(graph, SubGraph(graph.calls), Toolchain("tvm")))
    return 0.0 if isinstance(seconds, Infeasible) or not seconds else 3 * 4 * elements / seconds
