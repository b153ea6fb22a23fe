"""What a process is asked to build and time, and what it answers."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NATIVE
from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost.spread import Spread
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Toolchain,
    extract,
    members,
    opset,
    steers,
)
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.operators import FUNCTION_CALLS
from collage_dsl.graph.sizes import Sizes, with_sizes
from collage_dsl.measuring.footprint import Far
from collage_dsl.measuring.pace import BRIEF, Patience
from collage_dsl.measuring.process import Failed
from collage_dsl.realization.alone import called_functions
from collage_dsl.realization.kernel import constants_of, kernel_of, kernel_view
from collage_dsl.realization.outline import Outlined
from collage_dsl.realization.ranges import Range, range_of

FUNCTION = "collage.kernel"
"""The name of the kernel's function in a task. No PrimFunc has this name."""


@dataclass(frozen=True, slots=True)
class KernelTask:
    """
    A kernel to be built and timed.

    `module` has the kernel's function and the PrimFuncs that it calls. The function is the one that
    is put into users' modules, but without most of its weights, so that it is small. It has
    `weights` parameters for them, after the other parameters and before that of dimensions.
    Its parameters at the positions `constants` are constants of the model too, with a value where
    that may decide what is computed. `sizes` are the numbers of its symbolic dimensions.
    `libraries` are the backends of the libraries that the kernel is linked to. `given` are the
    values of the parameters at these positions, since their types do not say what to draw. `check`
    is what its results are compared with, if there is something. `others` are the bytes that the
    model reads besides between two runs of the kernel; None if the kernel finds all in memory. What
    is `far` is used only by the kernel in that time.
    `reference` are the seconds of the reference kernel at the usual speed of the machine, if known;
    while the machine is slower, it is waited for as long as `patience` says.
    `ranges` are those from which the parameters are drawn, if not the usual ones.
    """

    module: Any
    weights: int
    sizes: Sizes
    toolchain: Toolchain
    backend: Backend
    libraries: tuple[Backend, ...] = ()
    constants: tuple[tuple[int, Array | None], ...] = ()
    given: Mapping[int, Any] = field(default_factory=dict, hash=False)
    others: int | None = None
    far: Far = ()
    reference: float | None = None
    patience: Patience = BRIEF
    ranges: Mapping[int, Range] = field(default_factory=dict, hash=False)
    check: "Check | None" = None


@dataclass(frozen=True, slots=True)
class Check:
    """
    What a kernel computes: a graph whose parameters are those of the kernel at the positions
    `takes`, and whose outputs are the results of the kernel at the places `gives`.
    """

    graph: Graph
    takes: tuple[int, ...]
    gives: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InTurnTask:
    """Kernels that are timed in turn, in one process."""

    kernels: tuple[KernelTask, ...]


@dataclass(frozen=True, slots=True)
class OverheadTask:
    """Measure the cost of a kernel besides its work. `reference` is as in `KernelTask`."""

    toolchain: Toolchain
    backend: Backend
    reference: float | None = None


@dataclass(frozen=True, slots=True)
class Overhead:
    """
    The cost of a call besides the work, in seconds: `launch` for each kernel of a plan, `entry`
    once for a whole run. `reference` are the seconds of the reference kernel at that time.
    """

    launch: float
    entry: float
    reference: float | None = None
    launch_spread: Spread | None = None
    entry_spread: Spread | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """
    The seconds of one run of a kernel, and the error of a variant that is not the first: the
    largest difference from what another implementation gives, relative to the largest result.
    """

    seconds: float
    error: float | None = None
    spread: Spread | None = None


@dataclass(frozen=True, slots=True)
class InTurn:
    """The timings of kernels that ran in turn."""

    timings: tuple[Timing, ...]


Task = KernelTask | OverheadTask | InTurnTask
Outcome = Timing | Overhead | InTurn
Answer = Outcome | Failed

SMALL = 1 << 20
"""The bytes that are read between two runs of what has no model."""


def kernel_task(
    candidate: CandidateKernel,
    backend: Backend,
    sizes: Sizes,
    *,
    libraries: tuple[Backend, ...] = (),
    given: Mapping[int, Any] | None = None,
    others: int | None = None,
    far: Far = (),
    reference: float | None = None,
    patience: Patience = BRIEF,
) -> KernelTask:
    """
    The task to time a candidate. Constants that decide what is computed keep their values. `given`
    are the values of nodes whose types do not say what to draw.
    """
    flow = dataflow_of(candidate.graph)
    outlined = kernel_of(candidate, backend)
    first = len(outlined.arguments)
    params = dict(zip(outlined.weights, outlined.function.params[first:], strict=False))
    steering = {
        param: flow.origins[index] for index, param in params.items() if steers(flow.graph, index)
    }
    function = outlined.function.bind_params(steering) if steering else outlined.function
    module = tvm.IRModule({tvm.ir.GlobalVar(FUNCTION): function, **called_functions(candidate)})
    return KernelTask(
        module,
        len(params) - len(steering),
        sizes,
        candidate.toolchain,
        backend,
        libraries,
        tuple(_constants(candidate.graph, outlined.arguments)),
        {p: given[i] for p, i in enumerate(outlined.arguments) if given and i in given},
        others,
        far,
        reference,
        patience,
        _ranges(candidate, backend, outlined.arguments),
        _check(candidate, outlined, sizes),
    )


def _check(candidate: CandidateKernel, outlined: Outlined, sizes: Sizes) -> Check | None:
    """What a kernel computes, with the constants bound that decide it; None if TVM alone knows."""
    graph, inside = candidate.graph, candidate.sub_graph.inside
    if any(graph.nodes[index].op in FUNCTION_CALLS for index in members(inside & graph.calls)):
        return None
    steering = opset(i for i in members(constants_of(graph, inside)) if steers(graph, i))
    found = extract(graph, inside, steering)
    params = [*outlined.arguments, *(i for i in outlined.weights if not steering >> i & 1)]
    if not set(found.arguments) <= set(params):
        return None
    return Check(
        with_sizes(found.graph, sizes),
        tuple(params.index(index) for index in found.arguments),
        tuple(outlined.results[index] for index in found.results),
    )


def _ranges(
    candidate: CandidateKernel, backend: Backend, arguments: Sequence[int]
) -> dict[int, Range]:
    """The ranges of the arguments of a kernel, by position."""
    view = kernel_view(candidate, backend)
    found = {
        origin: range_of(view.graph, index)
        for origin, index in zip(view.arguments, members(view.graph.parameters), strict=True)
    }
    return {at: found[origin] for at, origin in enumerate(arguments) if origin in found}


def _constants(graph: Graph, arguments: Sequence[int]) -> Iterator[tuple[int, Array | None]]:
    """The positions of constants among the arguments of a kernel, and the values that steer it."""
    for position, index in enumerate(arguments):
        node = graph.nodes[index]
        if node.form is Form.CONSTANT and node.tensor.is_static:
            yield position, np.asarray(node.value) if steers(graph, index) else None


def native_of(toolchain: Toolchain) -> Toolchain:
    """TVM's own for the processor of `toolchain`, or for this one where TVM makes none for that."""
    if toolchain.kind in Tvm().kinds:
        return replace(toolchain, name=NATIVE, compiler=None)
    return Toolchain(NATIVE, measure=toolchain.measure)
