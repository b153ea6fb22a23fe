"""A kernel of a task that is built, with random data from its ranges."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from collage_dsl.backends.base import Backend
from collage_dsl.backends.engines import EngineError, Held
from collage_dsl.backends.runtime.cores import prepare_cores
from collage_dsl.backends.tvm_target import num_cores
from collage_dsl.frontend.arrays import constant
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
)
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.sizes import Sizes, size_of
from collage_dsl.measuring.task import FUNCTION, KernelTask
from collage_dsl.realization.alone import alone, build_target
from collage_dsl.realization.crossing import device_name, device_named
from collage_dsl.realization.entry import entry, prepared_weights
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.ranges import POSITIVE, USUAL, Range
from collage_dsl.realization.signature import ExecutableError

_RELEASE = "collage_release"
"""
The function of a module with a kernel that gives nothing. A virtual machine keeps its last result.
When it has called this function, the next result of the kernel is where the last one was, as in a
model, whose tensors have their places.
"""


def arrays_of(result: Any) -> list[Array]:
    """The tensors that a kernel returns."""
    values = [result] if isinstance(result, tvm.runtime.Tensor | Held) else list(result)
    return [each.numpy() for each in values if not isinstance(each, Held)]


def kernel_module(task: KernelTask, generator: np.random.Generator) -> tvm.IRModule:
    """The module that is timed: the kernel with random weights, and a `main` that calls it."""
    return _module(task, *_constants_drawn(task, generator))


_Values = Mapping[int, Array]
"""Values of some parameters of a kernel, by position."""


def _module(task: KernelTask, weights: _Values, constants: _Values) -> tvm.IRModule:
    function = task.module[FUNCTION]
    called = {v: f for v, f in task.module.functions_items() if v.name_hint != FUNCTION}
    if weights:
        params = function.params
        function = function.bind_params(
            {params[at]: constant(array) for at, array in weights.items()}
        )
    module = alone(function, called, task.toolchain, task.backend, constants)
    module[_RELEASE] = _release()
    return module


def _release() -> Any:
    builder = relax.BlockBuilder()
    with builder.function(_RELEASE, []):
        builder.emit_func_output(relax.Tuple([]))
    return builder.get()[_RELEASE]


def _constants_drawn(task: KernelTask, generator: np.random.Generator) -> tuple[_Values, _Values]:
    """Values for the weights of a kernel, and for the constants among its other parameters."""
    function, count = task.module[FUNCTION], task.weights
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
    results that are compared. After `forget`, its next results are where its last ones were.
    """

    call: Callable[..., Any]
    inputs: Sequence[Any]
    forget: Callable[[], object]
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
        given = zip(self.positions, map(plain, operands), strict=True)
        return {**self.constants, **dict(given)}


def plain(operand: Any) -> Any:
    """An operand as onnxruntime takes it."""
    return operand.numpy() if isinstance(operand, tvm.runtime.Tensor) else operand


def replaced(operand: Any, value: Any) -> Any:
    """An operand of the same kind with another value, as `plain` gives it."""
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
    machine = relax.VirtualMachine(executable, device)
    run = _running(machine, task.toolchain, device)

    known = {**weights, **constants}
    positions = [p for p in range(len(task.module[FUNCTION].params)) if p not in known]

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
    return BuiltKernel(run, drawn, machine[_RELEASE], positions, known, places)


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


def _running(machine: Any, toolchain: Toolchain, device: Any) -> Callable[..., object]:
    """Runs the `main` of a virtual machine, and waits until its device is done."""
    cores = num_cores(toolchain)
    prepare_cores(cores)
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
def tiny_runner(toolchain: Toolchain, backend: Backend, *, kernels: int) -> Callable[[], object]:
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
    run = _running(relax.VirtualMachine(executable, device), toolchain, device)
    return lambda: run(data)
