"""What kernels cost on this machine at the least, known before they are measured."""

from collections.abc import Callable
from functools import cache
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

_MARGIN = 1.5
"""No kernel is taken to be faster than so many times what was measured."""

_ADDED = (1 << 18, 1 << 20, 1 << 22)
"""Elements of 4 bytes: around and beyond what caches hold."""

_MULTIPLIED = 512
"""Rows and columns of square matrices."""


def lower_bound(cost: MeasuredCost) -> Callable[[CandidateKernel], float]:
    """
    What `cost` says of a kernel at the least: what its target takes to launch one, and a
    roofline, both with a margin of one half.

    A target that does not say how many cores it may use has one, as `MeasuredCost` takes it.
    """
    peak = measured_peak(cost.store)

    @cache
    def launch(toolchain: Toolchain) -> float:
        seconds = cost.launch(toolchain, cost.backend_of(toolchain))
        return 0.0 if isinstance(seconds, Infeasible) else seconds / _MARGIN

    return lambda candidate: launch(candidate.toolchain) + peak(candidate)


def measured_peak(store: CostStore) -> Peak:
    """
    `Peak` with what one core of this machine does: half as much again as the fastest of three
    additions of TVM moves, and as a matrix product of TVM multiplies, on cold caches. They are
    measured once, and kept in `store`; without bounds of what cannot be measured.
    """
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        moved = [_rate(_addition(elements), 3 * 4 * elements, cost) for elements in _ADDED]
        multiplied = _rate(_product(_MULTIPLIED), _MULTIPLIED**3, cost)
    return Peak(memory=max(moved), float32=multiplied, cores=1)


def _rate(graph: Graph, amount: int, cost: MeasuredCost) -> float:
    """How much of `amount` a second the only kernel of `graph` does, with the margin."""
    seconds = cost(CandidateKernel(graph, SubGraph(graph.calls), Toolchain("tvm")))
    return inf if isinstance(seconds, Infeasible) or not seconds else _MARGIN * amount / seconds


def _addition(elements: int) -> Graph:
    return _of_two(TensorType("float32", (elements,)), "add", Kind.BROADCAST)


def _product(size: int) -> Graph:
    return _of_two(TensorType("float32", (size, size)), "matmul", Kind.ANCHOR)


def _of_two(type_: TensorType, op: str, kind: Kind) -> Graph:
    """A call of `op` with two operands, all of `type_`."""
    attrs = {"out_dtype": None} if op == "matmul" else {}
    nodes = [Node(name, Form.INPUT, type_) for name in ("x", "y")]
    nodes.append(Node("z", Form.CALL, type_, (0, 1), op, attrs=attrs, kind=kind))
    return Graph(nodes, [2])
