"""Building one kernel and timing it, in this process."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import tvm
from tvm import relax

from collage_dsl.backends.base import Backend
from collage_dsl.backends.tvm import Tvm, num_cores
from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Kind,
    Node,
    SubGraph,
    TensorType,
    Toolchain,
    tensors,
)
from collage_dsl.realization.build import build
from collage_dsl.realization.module import realize
from collage_dsl.realization.timing import cold_times, low

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class KernelTask:
    """
    A kernel to be built and timed: its graph, the constants in it bound, without the values
    of weights. Small, so that it can be sent to another process.

    `can_warm` says that the backend can run the small kernel of which overheads are measured.
    """

    kernel: Graph
    sub_graph: SubGraph
    toolchain: Toolchain
    backend: Backend
    can_warm: bool


@dataclass(frozen=True, slots=True)
class OverheadTask:
    """Measure what a kernel costs besides its work."""

    toolchain: Toolchain
    backend: Backend


@dataclass(frozen=True, slots=True)
class Overhead:
    """
    What a call costs besides the work, in seconds: `launch` each kernel of a plan, `entry`
    a whole run once.
    """

    launch: float
    entry: float


def measure(task: KernelTask | OverheadTask) -> float | Overhead:
    """Do what `task` says; what a worker process runs. OSError is the machine's fault."""
    task.backend.prepare()
    return measure_kernel(task) if isinstance(task, KernelTask) else measure_overhead(task)


def measure_kernel(task: KernelTask) -> float:
    """
    The seconds of one run of the kernel from Python, cold caches, seeded random data, timed
    as its target says.

    That includes launching the kernel and entering the executable; see `measure_overhead`.
    """
    generator = np.random.default_rng(0)
    graph = with_random_weights(task.kernel, generator)
    run = runner(graph, task.sub_graph, task.toolchain, task.backend, generator)
    run()
    warm = _tiny_runner(task.toolchain, task.backend if task.can_warm else Tvm(), kernels=1)
    how, cores = task.toolchain.measure, num_cores(task.toolchain)
    return low(cold_times(run, warm=warm, num_cores=cores, measure=how), how.percentile)


def measure_overhead(task: OverheadTask) -> Overhead:
    """
    What launching a kernel costs, from runs of one and of several small kernels: twice as
    many as of a kernel, and the same percentile, since a cost is a difference of the two.
    """
    several, cores = 33, num_cores(task.toolchain)
    one = _tiny_runner(task.toolchain, task.backend, kernels=1)
    many = _tiny_runner(task.toolchain, task.backend, kernels=several)
    usual = task.toolchain.measure
    how = replace(usual, repeats=2 * usual.repeats)

    def seconds(run: Callable[[], object]) -> float:
        times = cold_times(run, warm=run, num_cores=cores, measure=how)
        return low(times, how.percentile)

    alone, chained = seconds(one), seconds(many)
    launch = max(0.0, (chained - alone) / (several - 1))
    return Overhead(launch, max(0.0, alone - launch))


def runner(
    graph: Graph,
    sub_graph: SubGraph,
    toolchain: Toolchain,
    backend: Backend,
    generator: np.random.Generator,
) -> Callable[[], object]:
    """A call that runs all of `graph` as one kernel, on random inputs."""
    candidate = CandidateKernel(graph, sub_graph, toolchain)
    executable = build(realize(graph, [candidate], lambda _: backend), lambda _: backend)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    inputs = [tvm.runtime.tensor(array) for array in random_inputs(graph, generator)]
    main = machine["main"]
    return lambda: main(*inputs)


def random_inputs(graph: Graph, generator: np.random.Generator) -> list[Array]:
    """Seeded random data for the parameters of `graph`, in order."""
    return [
        random_array(type_, generator)
        for node in graph.nodes
        if node.form is Form.INPUT
        for type_ in tensors(node.type)
    ]


def random_array(type_: TensorType, generator: np.random.Generator) -> Array:
    """Values of moderate size, positive and negative; integers 0 and 1, which index anything."""
    shape = type_.static_shape
    if "float" in type_.dtype:
        return generator.uniform(-1, 1, shape).astype(type_.dtype)
    return generator.integers(0, 2, shape).astype(type_.dtype)


def with_random_weights(graph: Graph, generator: np.random.Generator) -> Graph:
    """
    `graph` with values for the constants that have none. They are positive and small, which
    suits variances and divisors too.
    """
    nodes = [
        replace(node, value=_weights(node.tensor, generator))
        if node.form is Form.CONSTANT and node.value is None
        else node
        for node in graph.nodes
    ]
    return Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)


def _weights(type_: TensorType, generator: np.random.Generator) -> Array:
    shape = type_.static_shape
    return (generator.random(shape, np.float32) * 0.1 + 0.01).astype(type_.dtype)


@cache
def _tiny_runner(toolchain: Toolchain, backend: Backend, *, kernels: int) -> Callable[[], object]:
    """Runs a chain of `kernels` kernels of a few elements each."""
    type_ = TensorType("float32", (1, 16))
    nodes = [Node("x", Form.INPUT, type_)]
    for index in range(kernels):
        nodes.append(
            Node(f"y{index}", Form.CALL, type_, (index,), "nn.relu", kind=Kind.ELEMENTWISE)
        )
    graph = Graph(nodes, [kernels])
    chain = [CandidateKernel(graph, SubGraph(2 << k), toolchain) for k in range(kernels)]
    executable = build(realize(graph, chain, lambda _: backend), lambda _: backend)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    data = tvm.runtime.tensor(np.random.default_rng(0).random((1, 16), np.float32))
    return lambda: main(data)
