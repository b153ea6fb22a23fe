"""What a core of this machine does in a second, found by timing a few kernels of each backend."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isfinite
from statistics import median

import numpy as np

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import (
    NATIVE,
    UnknownBackend,
    backend_names,
    find_backend,
    installed,
)
from collage_dsl.cost import CostStore, Infeasible
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
from collage_dsl.measuring.timing import cpu_name

_NEAR = 1 << 15
_FAR = 1 << 20
"""So many numbers are in the caches of a core, and so many are not."""


def calibrate(
    store: CostStore, names: Iterable[str] = (), given: Iterable[Backend] = ()
) -> Iterator[tuple[str, Rates | str]]:
    """
    The rates of the backends `names`, or of all that are installed and make kernels for a CPU, or
    why one has none. They are kept in `store`. `given` backends come before the installed ones.
    """
    given = tuple(given)
    with MeasuredCost(installed(given), store) as cost:
        for name in names or backend_names(given):
            try:
                backend = find_backend(name, given)
            except (UnknownBackend, ModuleNotFoundError) as error:
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


def _toolchain(backend: Backend) -> Toolchain:
    return Toolchain(backend.name, compiler=None if backend.name == NATIVE else backend.name)


def _rates(cost: MeasuredCost, backend: Backend) -> Rates | str:
    """The rates of a backend, or why they cannot be measured."""
    toolchain = _toolchain(backend)
    often = replace(toolchain, measure=Measuring(runs="often"))
    launch = cost.launch(toolchain, backend)
    if isinstance(launch, Infeasible):
        return launch.reason
    kernels = [_product(), _convolution(1, 256, 28), _convolution(3, 64, 56)]
    timed = {
        "multiplication": [_work_alone(cost, each, often, launch) for each in kernels],
        "near": [_work_alone(cost, each, often, launch) for each in (_addition(_NEAR),)],
        "far": [_work_alone(cost, each, toolchain, launch) for each in (_addition(_FAR),)],
    }
    known = {name: [s for s in seconds if isfinite(s)] for name, seconds in timed.items()}
    if missing := [name for name, seconds in known.items() if not seconds]:
        return f"it runs no kernel that shows the time of {' and '.join(missing)}"
    return Rates(**{name: median(seconds) for name, seconds in known.items()}, launch=launch)


def _work_alone(cost: MeasuredCost, graph: Graph, toolchain: Toolchain, launch: float) -> float:
    """The seconds of a unit of work in the only kernel of `graph`; infinite if it cannot run."""
    seconds = cost(CandidateKernel(graph, SubGraph(graph.calls), toolchain))
    work = Work.of(graph, graph.calls)
    if isinstance(seconds, Infeasible):
        return float("inf")
    return max(seconds - launch, 0.0) / (work.multiplications or work.data)


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
