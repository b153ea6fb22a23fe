"""The task that a worker process gets: build one kernel and time it."""

import ctypes
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
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
from collage_dsl.cost.spread import Spread
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
    extract,
    members,
    opset,
    steers,
)
from collage_dsl.graph.operators import CALL_TIR
from collage_dsl.graph.sizes import Sizes, size_of, with_sizes
from collage_dsl.measuring.checked import DRAWS, Right, by_onnx, largest_error
from collage_dsl.measuring.interval import interval
from collage_dsl.measuring.timing import (
    Timed,
    evict,
    low,
    method,
    read,
    read_other,
    reference,
    times_and_speed,
)
from collage_dsl.realization.alone import alone, build_target, called_functions
from collage_dsl.realization.crossing import device_name, device_named
from collage_dsl.realization.entry import entry, prepared_weights
from collage_dsl.realization.lower import build
from collage_dsl.realization.onnx_reference import summed_otherwise
from collage_dsl.realization.outline import Outlined
from collage_dsl.realization.partition import realize
from collage_dsl.realization.place import constants_of, kernel_of, kernel_view
from collage_dsl.realization.ranges import POSITIVE, USUAL, Range, range_of
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
    at these positions, since their types do not say what to draw. `check` is what its results are
    compared with, if there is something. `others` are the bytes that the
    model reads besides between two runs of the kernel; None if the kernel finds all in memory.
    `reference` are the seconds of the reference kernel at the usual speed of the machine, if known.
    `ranges` are those from which the parameters are drawn, if not the usual ones.
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
    reference: float | None = None
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

    @property
    def toolchain(self) -> Toolchain:
        return self.kernels[0].toolchain


def kernel_task(
    candidate: CandidateKernel,
    backend: Backend,
    sizes: Sizes,
    *,
    can_warm: bool,
    libraries: tuple[Backend, ...] = (),
    given: Mapping[int, Any] | None = None,
    others: int | None = None,
    reference: float | None = None,
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
        reference,
        _ranges(candidate, backend, outlined.arguments),
        _check(candidate, outlined, sizes),
    )


def _check(candidate: CandidateKernel, outlined: Outlined, sizes: Sizes) -> Check | None:
    """What a kernel computes, with the constants bound that decide it; None if TVM alone knows."""
    graph, inside = candidate.graph, candidate.sub_graph.inside
    if any(graph.nodes[index].op == CALL_TIR for index in members(inside & graph.calls)):
        return None
    steering = opset(i for i in members(constants_of(graph, inside)) if steers(graph.nodes[i]))
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
            yield position, np.asarray(node.value) if steers(node) else None


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


def native_of(toolchain: Toolchain) -> Toolchain:
    """`toolchain`, or TVM's own on this machine where TVM makes no kernels of that kind here."""
    if toolchain.kind in Tvm().kinds:
        return toolchain
    return Toolchain(NATIVE, measure=toolchain.measure)


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


def measure(
    task: KernelTask | OverheadTask | InTurnTask, made: Sequence[Path | None] = ()
) -> Generator[None, None, Timing | Overhead | InTurn]:
    """
    The function that a worker runs: it builds, and times after a `yield`. An OSError means that the
    machine is the cause. Kernels that were built elsewhere are in the libraries `made`.
    """
    if isinstance(task, OverheadTask):
        task.backend.prepare()
        return (yield from measure_overhead(task))
    if isinstance(task, KernelTask):
        return (yield from measure_kernel(task, *made))
    libraries = made or [None] * len(task.kernels)
    kernels = [prepared(*each) for each in zip(task.kernels, libraries, strict=True)]
    yield
    return InTurn(tuple(_timings(kernels, in_turn=True)))


def measure_kernel(task: KernelTask, made: Path | None = None) -> Generator[None, None, Timing]:
    """
    The seconds of one run of the kernel from Python, with random data (from a fixed seed), timed as
    its target says: what it takes and gives is where the kernels beside it leave that.

    This includes the launch of the kernel and entering the executable; see `measure_overhead`.
    """
    kernel = prepared(task, made)
    yield
    (timing,) = _timings([kernel])
    return timing


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel that is built, and only needs to be timed."""

    timed: Timed
    error: float | None
    reference: float | None


def _timings(kernels: Sequence[Prepared], *, in_turn: bool = False) -> Iterator[Timing]:
    """What kernels take that run in turn, corrected for the speed of the machine."""
    usual = next((each.reference for each in kernels if each.reference), None) or reference()
    every, speed = times_and_speed([each.timed for each in kernels], usual)
    for kernel, times in zip(kernels, every, strict=True):
        how = kernel.timed.measure
        shortest, longest = interval(times, how.percentile)
        said = method(kernel.timed.num_cores, how.percentile, in_turn=in_turn)
        spread = Spread(shortest * speed, longest * speed, len(times), said, speed)
        yield Timing(low(times, how.percentile) * speed, kernel.error, spread)


def prepared(task: KernelTask, made: Path | None = None) -> Prepared:
    """The kernel of a task, built, with random data, and run once."""
    for maker in (task.backend, *task.libraries):
        maker.prepare()
    kernel = built(task, np.random.default_rng(0), made)
    run, taken = kernel.run, memory_of(kernel.inputs)
    error = _error(task, kernel)
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

    return Prepared(Timed(ready, run, cores, how), error, task.reference)


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


def _error(task: KernelTask, kernel: "BuiltKernel") -> float | None:
    """
    The error of a variant that is not the first, on several ranges of operands. Raises
    `WrongResult` for any kernel that does not compute what another implementation does.
    """
    right = _right(task, kernel)
    if right is None or any(isinstance(each, Held) for each in kernel.inputs):
        kernel.run()
        return None
    errors = [
        largest_error(kernel.results, right, operands, draw)
        for draw, operands in _draws(task, kernel)
    ]
    known = [error for error in errors if error is not None]
    return None if _is_first(task) or not known else max(known)


def _right(task: KernelTask, kernel: "BuiltKernel") -> Right | None:
    """
    What the results of a kernel are compared with: onnxruntime; where that has no such kernel, the
    first variant of its backend.
    """
    check = task.check
    by_reference = by_onnx(check.graph) if check else None
    if check and by_reference:

        def taken(operands: Sequence[Any]) -> list[Any]:
            values = kernel.values(operands)
            return [values[position] for position in check.takes]

        return by_reference.after(taken)
    if _is_first(task):
        _first_variant[:] = [(task, kernel)]
        return None
    first = _first(task)

    def others(operands: Sequence[Any]) -> Iterator[list[Array]]:
        """Whole numbers that are rounded from long sums may be as right as these."""
        for changed in summed_otherwise([_plain(each) for each in operands], 0.0):
            pairs = zip(operands, changed, strict=True)
            yield first.results([_replaced(each, array) for each, array in pairs])

    return Right(task.backend.variants[0], first.results, others)


def _is_first(task: KernelTask) -> bool:
    """Whether a kernel is by the first variant of its backend, or by the only one."""
    variants = task.backend.variants
    return not variants or task.toolchain.variant in ("", variants[0])


_first_variant: "list[tuple[KernelTask, BuiltKernel]]" = []
"""The last kernel by the first variant of its backend that had no reference; empty at first."""


def _first(task: KernelTask) -> "BuiltKernel":
    """The kernel by the first variant of its backend."""
    if not _first_variant or not _is_same_kernel(_first_variant[0][0], task):
        by_first = replace(task, toolchain=task.toolchain.by(*task.backend.variants[:1]))
        _first_variant[:] = [(by_first, built(by_first, np.random.default_rng(0)))]
    return _first_variant[0][1]


def _draws(task: KernelTask, kernel: "BuiltKernel") -> Iterator[tuple[str, Sequence[Any]]]:
    """Operands of a kernel: the usual ones, and floating point numbers of other ranges."""
    yield "usual", kernel.inputs
    drawn = {
        at: each
        for at, each in enumerate(kernel.inputs)
        if isinstance(each, tvm.runtime.Tensor)
        and "float" in str(each.dtype)
        and kernel.positions[at] not in task.given
    }
    for draw in DRAWS if drawn else ():
        operands, generator = list(kernel.inputs), np.random.default_rng(1)
        for at, each in drawn.items():
            array = draw.drawn(generator, tuple(map(int, each.shape)), str(each.dtype))
            operands[at] = tvm.runtime.tensor(array, each.device)
        yield draw.name, operands


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


SMALL = 1 << 20
"""The bytes that are read between two runs of what has no model."""


def measure_overhead(task: OverheadTask) -> Generator[None, None, Overhead]:
    """
    The cost of launching a kernel, from runs of one and of several small kernels. There are twice
    as many runs as for a kernel, with the same percentile, because a cost is a difference of two
    times; and a longer budget, because every cost depends on it.
    """
    several, cores = 33, num_cores(task.toolchain)
    one = _tiny_runner(task.toolchain, task.backend, kernels=1)
    many = _tiny_runner(task.toolchain, task.backend, kernels=several)
    usual = task.toolchain.measure
    how = replace(usual, repeats=2 * usual.repeats, budget=5 * usual.budget)

    def taken(run: Callable[[], object]) -> list[float]:
        def before() -> None:
            evict() if how.runs == "rarely" else read_other(SMALL)
            run()

        (times,), speed = times_and_speed([Timed(before, run, cores, how)], known)
        return [each * speed for each in times]

    yield
    percentile, known = how.percentile, task.reference or reference()
    every = taken(one), taken(many)
    alone, chained = (low(times, percentile) for times in every)
    launch = max(0.0, (chained - alone) / (several - 1))
    (least, most), (chained_least, chained_most) = (interval(each, percentile) for each in every)
    count, said = min(map(len, every)), method(cores, percentile)
    quick = max(0.0, (chained_least - most) / (several - 1))
    slow = max(0.0, (chained_most - least) / (several - 1))
    return Overhead(
        launch,
        max(0.0, alone - launch),
        known,
        Spread(quick, slow, count, said),
        Spread(max(0.0, least - launch), max(0.0, most - launch), count, said),
    )


def kernel_module(task: KernelTask, generator: np.random.Generator) -> tvm.IRModule:
    """The module that is timed: the kernel with random weights, and a `main` that calls it."""
    return _module(task, *_constants_drawn(task, generator))


_Values = Mapping[int, Array]
"""Values of some parameters of a kernel, by position."""


def _module(task: KernelTask, weights: _Values, constants: _Values) -> tvm.IRModule:
    function = task.module[_FUNCTION]
    called = {v: f for v, f in task.module.functions_items() if v.name_hint != _FUNCTION}
    if weights:
        params = function.params
        function = function.bind_params({params[at]: array for at, array in weights.items()})
    return alone(function, called, task.toolchain, task.backend, constants)


def _constants_drawn(task: KernelTask, generator: np.random.Generator) -> tuple[_Values, _Values]:
    """Values for the weights of a kernel, and for the constants among its other parameters."""
    function, count = task.module[_FUNCTION], task.weights
    last, params = len(function.params) - bool(_dimensions(function)), function.params

    def drawn(position: int) -> Array:
        return _weights(_tensor(params[position].ty, {}), generator)

    weights = {position: drawn(position) for position in range(last - count, last)}
    constants = {at: drawn(at) if value is None else value for at, value in task.constants}
    return weights, constants


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """
    A kernel that can run: `call` gives its results for operands such as `inputs`. Those are its
    parameters at `positions`; at the others there are `constants`. `places` are those of its
    results that are compared.
    """

    call: Callable[..., Any]
    inputs: Sequence[Any]
    positions: Sequence[int] = ()
    constants: Mapping[int, Array] = field(default_factory=dict)
    places: Sequence[int] | None = None

    def run(self) -> Any:
        """What it gives for `inputs`."""
        return self.call(*self.inputs)

    def results(self, operands: Sequence[Any]) -> list[Array]:
        """The tensors that it gives, in the order in which they are compared."""
        found = arrays_of(self.call(*operands))
        places = range(len(found)) if self.places is None else self.places
        return [found[place] for place in places if place < len(found)]

    def values(self, operands: Sequence[Any]) -> dict[int, Any]:
        """The value of each parameter, by position."""
        given = zip(self.positions, map(_plain, operands), strict=True)
        return {**self.constants, **dict(given)}


def _plain(operand: Any) -> Any:
    """An operand as onnxruntime takes it."""
    return operand.numpy() if isinstance(operand, tvm.runtime.Tensor) else operand


def _replaced(operand: Any, value: Any) -> Any:
    """An operand of the same kind with another value, as `_plain` gives it."""
    is_tensor = isinstance(operand, tvm.runtime.Tensor)
    return tvm.runtime.tensor(value, operand.device) if is_tensor else value


def kernel_executable(task: KernelTask, generator: np.random.Generator) -> Any:
    """The `relax.VMExecutable` of a kernel, with random weights."""
    return _executable(kernel_module(task, generator), task)


def _executable(module: tvm.IRModule, task: KernelTask) -> Any:
    return build(module, build_target(task.toolchain), [task.backend, *task.libraries])


def built(
    task: KernelTask, generator: np.random.Generator, made: Path | None = None
) -> BuiltKernel:
    """
    A kernel on random inputs from its ranges. Where these are out of range, integers are the least
    ones; where results are not finite, other numbers are positive, if they are finite then. Raises
    `NoDevice` where its device lacks. One that was built elsewhere is in the library `made`.
    """
    device = device_named(device_name(task.toolchain.kind))
    weights, constants = _constants_drawn(task, generator)
    module = _module(task, weights, constants)
    prepare_cores(num_cores(task.toolchain))
    executable = tvm.runtime.load_module(str(made)) if made else _executable(module, task)
    run = _running(executable, task.toolchain, device)

    known = {**weights, **constants}
    positions = [p for p in range(len(task.module[_FUNCTION].params)) if p not in known]

    def inputs(as_safe: Callable[[TensorType, Range | None], Range | None]) -> list[Any]:
        params = zip(positions, module["main"].params, strict=True)
        return [
            _as_argument(task.given[position], param.ty, device)
            if position in task.given
            else _argument(
                param.ty, task.sizes, generator, device, as_safe, task.ranges.get(position)
            )
            for position, param in params
        ]

    drawn = inputs(lambda type_, range_: range_)
    try:
        result = run(*drawn)
    except (ExecutableError, EngineError):
        drawn = inputs(_lowest)
    else:
        if not _is_finite(result) and _is_finite(run(*(positive := inputs(_positive)))):
            drawn = positive
    places = task.check.gives if task.check else None
    return BuiltKernel(run, drawn, positions, known, places)


def _lowest(type_: TensorType, range_: Range | None) -> Range | None:
    """Of integers the least only, which is a valid index of any tensor."""
    least = range_[0] if range_ else 0
    return range_ if "float" in type_.dtype else (least, least + 1)


def _positive(type_: TensorType, range_: Range | None) -> Range | None:
    return POSITIVE if "float" in type_.dtype else range_


def _is_finite(result: Any) -> bool:
    """Whether all floating point numbers of a result are finite."""
    numbers = (each for each in arrays_of(result) if "float" in str(each.dtype))
    return all(np.isfinite(each.astype(np.float32)).all() for each in numbers)


def _running(executable: Any, toolchain: Toolchain, device: Any) -> Callable[..., object]:
    """Runs the `main` of an executable, and waits until its device is done."""
    cores = num_cores(toolchain)
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
    type_: Any,
    sizes: Sizes,
    generator: np.random.Generator,
    device: Any,
    as_safe: Callable[[TensorType, Range | None], Range | None],
    range_: Range | None,
) -> Any:
    if isinstance(type_, relax.ShapeType):
        return tvm.runtime.ShapeTuple([sizes[str(dim.name)] for dim in type_.values])
    tensor = _tensor(type_, sizes)
    return tvm.runtime.tensor(random_array(tensor, generator, as_safe(tensor, range_)), device)


def _tensor(type_: Any, sizes: Sizes) -> TensorType:
    """The type of a parameter that is a tensor, with the numbers of `sizes` as dimensions."""
    found = type_of(type_)
    assert isinstance(found, TensorType)
    return TensorType(found.dtype, tuple(size_of(dim, sizes) for dim in found.shape or ()))


def random_array(
    type_: TensorType, generator: np.random.Generator, range_: Range | None = None
) -> Array:
    """
    Numbers in a range; without one, moderate positive and negative values, and for integers 0 and
    1, since most integers are indices.
    """
    shape = type_.static_shape
    if "float" in type_.dtype:
        return generator.uniform(*(range_ or USUAL), shape).astype(type_.dtype)
    least, end = map(int, range_ or (0, 2))
    return generator.integers(least, end, shape).astype(type_.dtype)


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
    executable = build(module, build_target(toolchain), [backend])
    run = _running(executable, toolchain, device)
    return lambda: run(data)
