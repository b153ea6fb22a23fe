"""The task that a worker process gets: build one kernel and time it."""

import ctypes
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from collage_dsl.backends.base import Backend
from collage_dsl.backends.engines import EngineError, Held
from collage_dsl.backends.registry import NATIVE
from collage_dsl.backends.runtime.cores import prepare_cores, wake
from collage_dsl.backends.tvm import Tvm, num_cores
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.frontend.types import type_of
from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Kind,
    Node,
    SubGraph,
    TensorType,
    Toolchain,
    steers,
)
from collage_dsl.graph.sizes import Sizes, size_of
from collage_dsl.measuring.timing import evict, low, read, read_other, times_after
from collage_dsl.realization.alone import alone, build_target, called_functions
from collage_dsl.realization.crossing import device_name, device_named
from collage_dsl.realization.difference import is_rounded_alike, relative_error, tolerance
from collage_dsl.realization.entry import entry, prepared_weights
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.place import kernel_of
from collage_dsl.realization.signature import ExecutableError

Array = np.ndarray[Any, Any]

_FUNCTION = "collage.kernel"
"""The name of the kernel's function in a task. No PrimFunc has this name."""


@dataclass(frozen=True, slots=True)
class KernelTask:
    """
    A kernel to be built and timed.

    `module` has the kernel's function and the PrimFuncs that it calls. The function is the one that
    is put into users' modules, but without most of its weights, so that it is small. It has
    `weights` parameters for them, after the other parameters and before that of dimensions.
    Its parameters at the positions `constants` are constants of the model too, with a value where
    that may decide what is computed. `sizes` are the numbers of its symbolic dimensions. `can_warm`
    says that the backend can run the small kernel that measures overheads. `libraries` are the
    backends of the libraries that the kernel is linked to. `given` are the values of the parameters
    at these positions, since their types do not say what to draw. `others` are the bytes that the
    model reads besides between two runs of the kernel; None if the kernel finds all in memory.
    """

    module: Any
    weights: int
    sizes: Sizes
    toolchain: Toolchain
    backend: Backend
    can_warm: bool
    libraries: tuple[Backend, ...] = ()
    constants: tuple[tuple[int, Array | None], ...] = ()
    given: Mapping[int, Any] = field(default_factory=dict, hash=False)
    others: int | None = None


def kernel_task(
    candidate: CandidateKernel,
    backend: Backend,
    sizes: Sizes,
    *,
    can_warm: bool,
    libraries: tuple[Backend, ...] = (),
    given: Mapping[int, Any] | None = None,
    others: int | None = None,
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
        param: flow.origins[index]
        for index, param in params.items()
        if steers(flow.graph.nodes[index])
    }
    function = outlined.function.bind_params(steering) if steering else outlined.function
    module = tvm.IRModule({tvm.ir.GlobalVar(_FUNCTION): function, **called_functions(candidate)})
    return KernelTask(
        module,
        len(params) - len(steering),
        sizes,
        candidate.toolchain,
        backend,
        can_warm,
        libraries,
        tuple(_constants(candidate.graph, outlined.arguments)),
        {p: given[i] for p, i in enumerate(outlined.arguments) if given and i in given},
        others,
    )


def _constants(graph: Graph, arguments: Sequence[int]) -> Iterator[tuple[int, Array | None]]:
    """The positions of constants among the arguments of a kernel, and the values that steer it."""
    for position, index in enumerate(arguments):
        node = graph.nodes[index]
        if node.form is Form.CONSTANT and node.tensor.is_static:
            yield position, np.asarray(node.value) if steers(node) else None


@dataclass(frozen=True, slots=True)
class OverheadTask:
    """Measure the cost of a kernel besides its work."""

    toolchain: Toolchain
    backend: Backend


@dataclass(frozen=True, slots=True)
class Overhead:
    """
    The cost of a call besides the work, in seconds: `launch` for each kernel of a plan, `entry`
    once for a whole run.
    """

    launch: float
    entry: float


def native_of(toolchain: Toolchain) -> Toolchain:
    """`toolchain`, or TVM's own on this machine where TVM makes no kernels of that kind here."""
    if toolchain.kind in Tvm().kinds:
        return toolchain
    return Toolchain(NATIVE, measure=toolchain.measure)


class WrongResult(Exception):  # noqa: N818 (a reason, like `Infeasible`)
    """A variant does not compute what the first variant does."""


@dataclass(frozen=True, slots=True)
class Timing:
    """
    The seconds of one run of a kernel, and the error of a variant that is not the first: the
    largest difference from what the first gives, relative to the largest result.
    """

    seconds: float
    error: float | None = None


def measure(task: KernelTask | OverheadTask) -> Generator[None, None, Timing | Overhead]:
    """
    The function that a worker runs: it builds, and times after a `yield`. An OSError means that the
    machine is the cause.
    """
    task.backend.prepare()
    if isinstance(task, OverheadTask):
        return (yield from measure_overhead(task))
    for library in task.libraries:
        library.prepare()
    return (yield from measure_kernel(task))


def measure_kernel(task: KernelTask) -> Generator[None, None, Timing]:
    """
    The seconds of one run of the kernel from Python, with random data (from a fixed seed), timed as
    its target says: what it takes and gives is where the kernels beside it leave that.

    This includes the launch of the kernel and entering the executable; see `measure_overhead`.
    """
    kernel = built(task, np.random.default_rng(0))
    run, taken = kernel.run, memory_of(kernel.inputs)
    error = _error(task, run())
    usual = task.toolchain.by()
    if task.can_warm:
        warm = _tiny_runner(usual, task.backend, kernels=1)
    else:
        warm = _tiny_runner(native_of(usual), Tvm(), kernels=1)
    how, cores = task.toolchain.measure, num_cores(task.toolchain)

    def ready() -> None:
        if task.others is None:
            evict()
        else:
            result = run()
            read_other(task.others)
            read((*taken, *memory_of(result)))
            del result  # The next result is in the same memory.
        warm()
        wake(cores)  # While a model runs, the threads are awake when a kernel begins.

    yield
    seconds = low(times_after(ready, run, num_cores=cores, measure=how), how.percentile)
    return Timing(seconds, error)


def memory_of(values: Any) -> list[Array]:
    """The memory of those of some tensors that are on the processor."""
    every = [values] if isinstance(values, tvm.runtime.Tensor | Held) else list(values)
    tensors = [each for each in every if isinstance(each, tvm.runtime.Tensor)]
    return [_bytes(each) for each in tensors if each.device == tvm.cpu() and 0 not in each.shape]


def _bytes(tensor: Any) -> Array:
    """The memory of a tensor, of any dtype."""
    size = tensor.numel() * tensor.dtype.bits // 8
    address = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_uint8))
    return np.ctypeslib.as_array(address, (size,))


def _error(task: KernelTask, result: Any) -> float | None:
    """The error of a variant. That of the first is not known; its result is kept for others."""
    if not task.backend.variants:
        return None
    first = task.backend.variants[0]
    if task.toolchain.variant in ("", first):
        _reference[:] = [(task, result)]
        return None
    worst = 0.0
    for actual, expected in zip(arrays_of(result), _expected(task, first), strict=True):
        error = relative_error(actual, expected)
        if error > tolerance(expected):
            if _rounds(task) and is_rounded_alike(actual, expected):
                continue
            raise WrongResult(f"its results differ from those of `{first}` by {error:.0e}")
        worst = max(worst, error)
    return worst


_ROUNDING = ("astype", "ceil", "floor", "quantize", "round", "trunc")
"""Operators that make whole numbers of floats."""


def _rounds(task: KernelTask) -> bool:
    """Whether a kernel rounds floats, which a variant may compute a little differently."""
    found: set[str] = set()

    def note(expr: Any) -> None:
        if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
            found.add(str(expr.op.name).removeprefix("relax."))

    relax.analysis.post_order_visit(task.module[_FUNCTION], note)
    return not found.isdisjoint(_ROUNDING)


_reference: list[tuple[KernelTask, Any]] = []
"""The last kernel that ran by the first variant of its backend, and its result; empty at first."""


def _expected(task: KernelTask, first: str) -> list[Array]:
    if not _reference or not _is_same_kernel(_reference[0][0], task):
        by_first = replace(task, toolchain=task.toolchain.by(first))
        _reference[:] = [(by_first, built(by_first, np.random.default_rng(0)).run())]
    return arrays_of(_reference[0][1])


def _is_same_kernel(one: KernelTask, other: KernelTask) -> bool:
    """Whether two tasks are the same kernel on the same data, by any variants."""
    is_alike = (one.backend, one.sizes) == (other.backend, other.sizes)
    same_values = _values(one) == _values(other)
    return is_alike and same_values and bool(tvm_ffi.structural_equal(one.module, other.module))


def _values(task: KernelTask) -> list[tuple[int, bytes]]:
    """The positions of constants, with the values that are known."""
    return [(at, b"" if value is None else value.tobytes()) for at, value in task.constants]


def arrays_of(result: Any) -> list[Array]:
    """The tensors that a kernel returns."""
    values = [result] if isinstance(result, tvm.runtime.Tensor | Held) else list(result)
    return [each.numpy() for each in values if not isinstance(each, Held)]


_SMALL = 1 << 20
"""The bytes that are read between two runs of what has no model."""


def measure_overhead(task: OverheadTask) -> Generator[None, None, Overhead]:
    """
    The cost of launching a kernel, from runs of one and of several small kernels. There are twice
    as many runs as for a kernel, with the same percentile, because a cost is a difference of two
    times.
    """
    several, cores = 33, num_cores(task.toolchain)
    one = _tiny_runner(task.toolchain, task.backend, kernels=1)
    many = _tiny_runner(task.toolchain, task.backend, kernels=several)
    usual = task.toolchain.measure
    how = replace(usual, repeats=2 * usual.repeats)

    def seconds(run: Callable[[], object]) -> float:
        def before() -> None:
            evict() if how.runs == "rarely" else read_other(_SMALL)
            run()

        times = times_after(before, run, num_cores=cores, measure=how)
        return low(times, how.percentile)

    yield
    alone, chained = seconds(one), seconds(many)
    launch = max(0.0, (chained - alone) / (several - 1))
    return Overhead(launch, max(0.0, alone - launch))


def kernel_module(task: KernelTask, generator: np.random.Generator) -> tvm.IRModule:
    """The module that is timed: the kernel with random weights, and a `main` that calls it."""
    function, count = task.module[_FUNCTION], task.weights
    called = {v: f for v, f in task.module.functions_items() if v.name_hint != _FUNCTION}
    if count:
        last = len(function.params) - bool(_dimensions(function))
        params = function.params[last - count : last]
        function = function.bind_params({p: _weights(_tensor(p.ty, {}), generator) for p in params})
    return alone(function, called, task.toolchain, task.backend, _drawn(task, generator))


def _drawn(task: KernelTask, generator: np.random.Generator) -> dict[int, Array]:
    """Values for the constants among the parameters of a kernel."""
    params = task.module[_FUNCTION].params
    return {
        position: _weights(_tensor(params[position].ty, {}), generator) if value is None else value
        for position, value in task.constants
    }


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A kernel that can run: `run` runs it on `inputs` and gives its results."""

    run: Callable[[], Any]
    inputs: Sequence[Any]


def built(task: KernelTask, generator: np.random.Generator) -> BuiltKernel:
    """
    A kernel on random inputs: 0 and 1 for integers, or 0 where 1 is out of range as an index.
    Raises `NoDevice` where its device lacks.
    """
    device = device_named(device_name(task.toolchain.kind))
    module = kernel_module(task, generator)
    run = _running(module, task.toolchain, [task.backend, *task.libraries], device)

    constants = {position for position, _ in task.constants}
    positions = [p for p in range(len(task.module[_FUNCTION].params)) if p not in constants]

    def inputs(largest: int) -> list[Any]:
        params = zip(positions, module["main"].params, strict=False)
        return [
            _as_argument(task.given[position], param.ty, device)
            if position in task.given
            else _argument(param.ty, task.sizes, generator, device, largest)
            for position, param in params
        ]

    drawn = inputs(1)
    try:
        run(*drawn)
    except (ExecutableError, EngineError):
        drawn = inputs(0)
    return BuiltKernel(lambda: run(*drawn), drawn)


def _running(
    module: tvm.IRModule, toolchain: Toolchain, backends: Sequence[Backend], device: Any
) -> Callable[..., object]:
    """Runs the `main` of a module, and waits until its device is done."""
    executable, cores = build(module, build_target(toolchain), backends), num_cores(toolchain)
    prepare_cores(cores)
    machine = relax.VirtualMachine(executable, device)
    main = entry(machine, prepared_weights(machine), cores)
    if device == tvm.cpu():
        return main

    def run(*inputs: Any) -> object:
        result = main(*inputs)
        device.sync()
        return result

    return run


def _dimensions(function: Any) -> bool:
    """Whether the last parameter of a kernel has the values of dimensions."""
    return bool(function.params) and isinstance(function.params[-1].ty, relax.ShapeType)


def _as_argument(value: Any, type_: Any, device: Any) -> Any:
    """A value that onnxruntime gave as a kernel takes it."""
    is_tensor = isinstance(type_, relax.TensorType)
    return tvm.runtime.tensor(np.asarray(value), device) if is_tensor else Held(value)


def _argument(
    type_: Any, sizes: Sizes, generator: np.random.Generator, device: Any, largest: int
) -> Any:
    if isinstance(type_, relax.ShapeType):
        return tvm.runtime.ShapeTuple([sizes[str(dim.name)] for dim in type_.values])
    array = random_array(_tensor(type_, sizes), generator, largest)
    return tvm.runtime.tensor(array, device)


def _tensor(type_: Any, sizes: Sizes) -> TensorType:
    """The type of a parameter that is a tensor, with the numbers of `sizes` as dimensions."""
    found = type_of(type_)
    assert isinstance(found, TensorType)
    return TensorType(found.dtype, tuple(size_of(dim, sizes) for dim in found.shape or ()))


def random_array(type_: TensorType, generator: np.random.Generator, largest: int = 1) -> Array:
    """
    Moderate positive and negative values; for integers 0 to `largest`, since most integers are
    indices.
    """
    shape = type_.static_shape
    if "float" in type_.dtype:
        return generator.uniform(-1, 1, shape).astype(type_.dtype)
    return generator.integers(0, largest, shape, endpoint=True).astype(type_.dtype)


def _weights(type_: TensorType, generator: np.random.Generator) -> Array:
    """Small positive values, which are also valid variances and divisors."""
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
    module = realize(graph, chain, lambda _: backend)
    device = device_named(device_name(toolchain.kind))
    data = tvm.runtime.tensor(np.random.default_rng(0).random((1, 16), np.float32), device)
    run = _running(module, toolchain, [backend], device)
    return lambda: run(data)
