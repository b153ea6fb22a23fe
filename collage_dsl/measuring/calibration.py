"""Find the speed of a core of this machine, by timing a few kernels of each backend."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf, isfinite
from statistics import median

import numpy as np

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import (
    NATIVE,
    NO_BACKEND,
    backend_names,
    find_backend,
    installed,
)
from collage_dsl.cost import Cost, CostStore, Infeasible
from collage_dsl.cost.analytic import Rates, Work, keep, rates_context
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
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.key import context_of
from collage_dsl.measuring.processor import cpu_name

_LEAST = 1e-9
"""No kernel takes fewer seconds besides its launch, however a measurement errs."""

_TINY = (16, 32, 64)
_NEAR = 1 << 17
_FAR = 1 << 20
"""Three counts of numbers: hardly any work; in the caches of a core; too many for the caches."""


def calibrate(store: CostStore) -> Iterator[tuple[str, Rates | str]]:
    """
    The rates of all backends that are installed and make kernels for a CPU, or why one has none.
    They are kept in `store`.
    """
    with MeasuredCost(installed(), store) as cost:
        for name in backend_names():
            try:
                backend = find_backend(name)
            except NO_BACKEND as error:
                yield name, str(error)
                continue
            if "llvm" not in backend.kinds:
                continue
            backend.prepare()
            rates = _rates(cost, backend)
            if isinstance(rates, Rates):
                versions = context_of(_toolchain(backend), backend).versions
                keep(store, rates_context(cpu_name(), name, versions), rates)
            yield name, rates


_CAREFULLY = Measuring(repeats=40, percentile=10, budget=1)
"""Rates are measured carefully, because every estimate depends on them."""


def _toolchain(backend: Backend) -> Toolchain:
    compiler = None if backend.name == NATIVE else backend.name
    return Toolchain(backend.name, compiler=compiler, measure=_CAREFULLY)


def _rates(cost: MeasuredCost, backend: Backend) -> Rates | str:
    """The rates of a backend, or why they cannot be measured."""
    toolchain = _toolchain(backend)
    often = replace(toolchain, measure=replace(_CAREFULLY, runs="often"))
    launch, cold = (_least(cost, each) for each in (often, toolchain))
    if isinstance(launch, Infeasible):
        return launch.reason
    if isinstance(cold, Infeasible):
        return cold.reason
    products = [_product(), _convolution(1, 256, 28), _convolution(3, 64, 56)]
    known = [_unit(cost, _only(graph, often), launch) for graph in products]
    if not (multiplications := [seconds for seconds in known if isfinite(seconds)]):
        return "it runs no matrix product and no convolution"
    near = _unit(cost, _only(_addition(_NEAR), often), launch)
    far = _unit(cost, _only(_addition(_FAR), toolchain), cold)
    if not isfinite(near + far):
        return "it runs no addition of many numbers"
    return Rates(median(multiplications), near, far, launch, cold)


def _least(cost: MeasuredCost, toolchain: Toolchain) -> Cost:
    """The seconds of kernels with hardly any work, or why they cannot run."""
    costs = []
    for elements in _TINY:
        found = cost(_only(_addition(elements), toolchain))
        if isinstance(found, Infeasible):
            return found
        costs.append(found)
    return median(costs)


def _only(graph: Graph, toolchain: Toolchain) -> CandidateKernel:
    return CandidateKernel(graph, SubGraph(graph.calls), toolchain)


def _unit(cost: MeasuredCost, kernel: CandidateKernel, least: float) -> float:
    """
    The seconds of a unit of work: what a kernel takes besides `least`, by multiplications or bytes.
    Infinite if it cannot run.
    """
    seconds = cost(kernel)
    work = Work.of(kernel.graph, kernel.sub_graph.inside)
    if isinstance(seconds, Infeasible):
        return inf
    return max(seconds - least, _LEAST) / (work.multiplications or work.data)


def _addition(elements: int) -> Graph:
    type_ = TensorType("float32", (1, elements))
    nodes = [Node(name, Form.INPUT, type_) for name in ("x", "y")]
    nodes.append(Node("z", Form.CALL, type_, (0, 1), "add", kind=Kind.BROADCAST))
    return Graph(nodes, [2])


def _product() -> Graph:
    return _of_weights("matmul", (128, 512), (512, 512), (128, 512), {"out_dtype": None})


def _convolution(window: int, channels: int, size: int) -> Graph:
    pad, shape = window // 2, (1, channels, size, size)
    attrs: dict[str, Attribute] = dict.fromkeys(("strides", "dilation"), (1, 1))
    attrs |= {"padding": (pad, pad, pad, pad), "groups": 1, "out_dtype": None}
    attrs |= {"data_layout": "NCHW", "kernel_layout": "OIHW", "out_layout": "NCHW"}
    return _of_weights("nn.conv2d", shape, (channels, channels, window, window), shape, attrs)


def _of_weights(
    op: str,
    data: tuple[int, ...],
    weights: tuple[int, ...],
    result: tuple[int, ...],
    attrs: dict[str, Attribute],
) -> Graph:
    values = np.random.default_rng(0).uniform(-1, 1, weights).astype(np.float32)
    nodes = [
        Node("x", Form.INPUT, TensorType("float32", data)),
        Node("w", Form.CONSTANT, TensorType("float32", weights), value=values),
        Node("y", Form.CALL, TensorType("float32", result), (0, 1), op, attrs, Kind.ANCHOR),
    ]
    return Graph(nodes, [2])
