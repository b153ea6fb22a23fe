"""
Engines, which run the kernels of library backends. TVM finds them as `collage.engine.<name>`.

Importing this module registers the engines. Normally an import does nothing here, but this one
must: a process that has loaded an exported library imports this module and calls nothing else of
the package. The libraries themselves are imported when a kernel first needs them.

An engine is called once for each kernel as (symbol, payload, constants) and returns the function
that runs it, given the input and then the output tensors. A kernel whose outputs have shapes that
are found as it runs is given the inputs only, and returns the outputs. That function may be called
from several threads at once. The tensors may start at any multiple of the size of their elements.

Packages declare engines of their own in the group `collage_dsl.engines`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import tvm_ffi

from collage_dsl.declared import declared, described, loaded, without_faults
from collage_dsl.graph import Option, cores_of
from collage_dsl.graph.onnx_node import ONNX_CALL, OnnxNode

_BINDINGS = 32
"""How many bindings are kept for a kernel at most."""

_IN_FLOAT32 = "session.qdq_matmulnbits_accuracy_level", "1"
"""The setting by which it makes products with weights of a few bits that do not round to bytes."""

INEXACT = (
    *(b"ConvInteger", b"MatMulInteger", b"QLinear", b"QGemm", b"QAttention", b"MatMulNBits"),
    *(b"DequantizeLinear", b"DynamicQuantizeMatMul", b"DynamicQuantizeLSTM"),
)
"""How the names of the operators begin for which `exact` may change a model."""

_SESSION_OPTIONS = ("num_cores",)
_DTYPES = {
    "tensor(float16)": np.float16,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(int16)": np.int16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(uint8)": np.uint8,
    "tensor(uint16)": np.uint16,
    "tensor(uint32)": np.uint32,
    "tensor(uint64)": np.uint64,
    "tensor(bool)": np.bool_,
    "tensor(bfloat16)": 16,  # its number in ONNX; numpy does not have it
}


class Held:
    """A value that is no tensor of TVM, as it passes from kernel to kernel of one library."""

    __slots__ = ("content",)

    def __init__(self, content: Any) -> None:
        self.content = content


@tvm_ffi.error.register_error
class EngineError(Exception):
    """
    A library cannot make or run a kernel; the message names the kernel. TVM keeps the class of
    errors that it knows.
    """


def pack(
    model: bytes,
    options: Mapping[str, Option],
    shared: Sequence[str] = (),
    left_out: Sequence[str] = (),
) -> bytes:
    """
    A payload: one line with the options that the engine needs, with the constants that it uses
    where they are, and with the optimisations that it leaves out, then the model.
    """
    known: dict[str, Any] = {name: options[name] for name in _SESSION_OPTIONS if name in options}
    known["shared"] = list(shared)
    if left_out:
        known["left_out"] = list(left_out)
    return json.dumps(known).encode() + b"\n" + model


def unpack(payload: bytes) -> tuple[bytes, Mapping[str, Any]]:
    """The model and options of a payload."""
    options, _, model = payload.partition(b"\n")
    return model, json.loads(options)


@tvm_ffi.register_global_func("collage.engine.onnxruntime", override=True)
def run_onnxruntime(
    symbol: str, payload: bytes, constants: Mapping[str, Any]
) -> Callable[..., None]:
    """The engine `onnxruntime`: one session, which reads the constants where they are."""
    model, options = unpack(payload)
    try:
        _settings(1)  # imports onnxruntime
    except ImportError as error:
        raise EngineError(
            f"kernel `{symbol}` needs the Python package onnxruntime: {error}"
        ) from error
    values = [_value(array) for array in constants.values()]

    def settings() -> Any:
        made = _settings(cores_of(options))
        # The first call lets the optimizer fold them. The second makes the session use a constant
        # in place, whatever the optimizer has done to it; without it the constant is copied.
        made.add_external_initializers(list(constants), values)
        for name, value in zip(constants, values, strict=True):
            if name in options["shared"]:
                made.add_initializer(name, value)
        return made

    try:
        session = _session(model, settings, options.get("left_out", ()))
    except Exception as error:  # The errors of onnxruntime have no other base.
        raise EngineError(f"onnxruntime cannot make kernel `{symbol}`: {error}") from error
    return _Kernel(symbol, session, values)


def _session(model: bytes, settings: Callable[[], Any], left_out: Sequence[str] = ()) -> Any:
    """
    A session of these settings with all optimisations but those `left_out`, in which products of
    bytes do not saturate. If the optimisations make something that onnxruntime refuses, as of
    pooling without channels, a session without them.
    """
    from collage_dsl.offline import onnxruntime
    from collage_dsl.offline import onnxruntime_pybind11_state as errors

    refused = (
        *(errors.Fail, errors.InvalidArgument, errors.InvalidGraph),
        *(errors.NotImplemented, errors.RuntimeException),
    )
    made = partial(
        onnxruntime.InferenceSession,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=list(left_out),
    )
    if any(op in model for op in INEXACT):
        from collage_dsl.exact_products import exact_in  # imports onnx

        model = exact_in(model)
    tried = settings()
    with suppress(*refused):
        return made(model, tried)
    tried.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return made(model, tried)


@tvm_ffi.register_global_func(ONNX_CALL, override=True)
def run_node(text: str, *operands: Any) -> Any:
    """Run an ONNX node of a module that was not partitioned."""
    return _node(text).found(operands)


@lru_cache(maxsize=256)
def _node(text: str) -> "_Kernel":
    from collage_dsl.crashes import without_crashes_in  # imports onnx

    model = without_crashes_in(OnnxNode.from_text(text).model)
    return _Kernel("node", _session(model, partial(_settings, 1), _HARMFUL), ())


_HARMFUL = ("MatmulTransposeFusion", "QDQS8ToU8Transformer")
"""
Optimisations of the graphs inside a node that may do harm, as the backend says, which leaves them
out only where it has to.
"""


def _value(array: Any) -> Any:
    """A constant as onnxruntime takes it, in the same memory unless it is of type bool."""
    from collage_dsl.offline import onnxruntime

    if str(array.dtype) == "bool":  # whose code in DLPack onnxruntime does not know
        return onnxruntime.OrtValue.ortvalue_from_numpy(np.from_dlpack(array))
    return onnxruntime.OrtValue.from_dlpack(array)


def _settings(threads: int) -> Any:
    from collage_dsl.offline import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    settings.inter_op_num_threads = 1
    settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    settings.log_severity_level = 4  # What goes wrong is raised, and not printed too.
    # Threads that wait actively between calls take the cores from other kernels.
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    settings.add_session_config_entry(*_IN_FLOAT32)
    return settings


class _Kernel:
    """
    Runs a session directly on the memory of the tensors.

    Most calls have tensors at the same addresses as an earlier call, so the binding of that call
    is kept and used again. While a call uses a binding, no other call can take it.
    """

    def __init__(self, symbol: str, session: Any, constants: Sequence[Any]) -> None:
        self.symbol = symbol
        self.session = session
        self.constants = constants  # the session reads their memory but does not own it
        self.run = session.run_with_iobinding
        self.inputs = [(each.name, _DTYPES.get(each.type)) for each in session.get_inputs()]
        self.outputs = [(each.name, _DTYPES.get(each.type)) for each in session.get_outputs()]
        self.gives_packed = any(is_packed(each.type) for each in session.get_outputs())
        self.one_shape = all(_is_known(each.shape) for each in session.get_inputs())
        self.bound: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *tensors: Any) -> Any:
        if len(tensors) == len(self.inputs):
            return self.found(tensors)
        try:
            places = self.places(tensors)
            binding = self.bound.pop(places, None) or self.bind(tensors)
            self.run(binding)
            if len(self.bound) >= _BINDINGS:
                self.bound.clear()
            self.bound[places] = binding
        except Exception as error:
            said = " ".join(str(error).split())
            raise EngineError(f"onnxruntime cannot run kernel `{self.symbol}`: {said}") from error

    def found(self, values: Sequence[Any]) -> Any:
        """The outputs, of which neither the shapes nor the sorts are known before."""
        try:
            feeds = {name: _fed(v) for (name, _), v in zip(self.inputs, values, strict=True)}
            if self.gives_packed:
                results = in_its_memory(self.session, feeds)
            else:
                results = self.session.run(None, feeds)
        except Exception as error:
            said = " ".join(str(error).split())
            raise EngineError(f"onnxruntime cannot run kernel `{self.symbol}`: {said}") from error
        given = [
            _given(each, dtype) for each, (_, dtype) in zip(results, self.outputs, strict=True)
        ]
        return given[0] if len(given) == 1 else given

    def places(self, tensors: Sequence[Any]) -> tuple[Any, ...]:
        """All that a binding depends on: addresses, and shapes if the session takes several."""
        addresses = tuple([tensor.data_ptr() for tensor in tensors])
        return addresses if self.one_shape else (addresses, *(each.shape for each in tensors))

    def bind(self, tensors: Sequence[Any]) -> Any:
        """The session's inputs and outputs, bound to `tensors`."""
        wanted = len(self.inputs) + len(self.outputs)
        if len(tensors) != wanted:
            raise ValueError(f"{len(tensors)} tensors given, {wanted} wanted")
        binding = self.session.io_binding()
        binds = [binding.bind_input] * len(self.inputs) + [binding.bind_output] * len(self.outputs)
        arguments = zip(binds, self.inputs + self.outputs, tensors, strict=True)
        for bind, (name, dtype), tensor in arguments:
            bind(name, "cpu", 0, dtype, tensor.shape, tensor.data_ptr())
        return binding


def in_its_memory(session: Any, feeds: Mapping[str, Any], options: Any = None) -> Sequence[Any]:
    """
    The outputs of a session as values of onnxruntime, for types that numpy lacks. Raises
    `RuntimeException` for inputs that it refuses, as sessions do that have no binding.
    """
    from collage_dsl.offline import onnxruntime, onnxruntime_pybind11_state

    binding = session.io_binding()
    for name, value in feeds.items():
        if isinstance(value, np.ndarray):
            value = onnxruntime.OrtValue.ortvalue_from_numpy(value)
        binding.bind_ortvalue_input(name, value)
    for each in session.get_outputs():
        binding.bind_output(each.name)
    try:
        session.run_with_iobinding(binding, options)
    except RuntimeError as error:
        raise onnxruntime_pybind11_state.RuntimeException(str(error)) from error
    return list(binding.get_outputs())


def is_packed(type_: str) -> bool:
    """Whether a type of onnxruntime is a tensor of numbers that numpy lacks."""
    return type_.startswith("tensor(") and any(each in type_ for each in _NOT_OF_NUMPY)


_NOT_OF_NUMPY = ("float8", "float4", "int4", "int2", "bfloat16")


def _fed(value: Any) -> Any:
    """What a kernel takes, as onnxruntime does."""
    if isinstance(value, Held):
        return value.content
    if str(value.dtype) == "bfloat16":
        return _value(value)
    return np.from_dlpack(value)


def _given(value: Any, dtype: Any) -> Any:
    """What onnxruntime gives, as TVM takes it: a tensor, or what it does not look into."""
    if dtype is None:
        return Held(value)
    if isinstance(value, np.ndarray | np.generic):
        return tvm_ffi.from_dlpack(np.ascontiguousarray(value).reshape(value.shape))
    if dtype == _DTYPES["tensor(bfloat16)"]:
        return tvm_ffi.from_dlpack(_Lent(value))
    return tvm_ffi.from_dlpack(value.numpy())


class _Lent:
    """A tensor of onnxruntime, to be exchanged."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __dlpack__(self, **_: object) -> Any:
        return self.value._get_c_value().to_dlpack()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _is_known(shape: Sequence[Any]) -> bool:
    """
    Whether a session takes only this one shape: each dimension is a number, not a name. onnxruntime
    says of a tensor of unknown rank that it has no dimensions, as of a scalar.
    """
    return bool(shape) and all(isinstance(dim, int) for dim in shape)


GROUP = "collage_dsl.engines"
"""The group of entry points in which packages declare engines, by name."""


def register_declared() -> None:
    """
    Register the engines of installed packages, which are imported when one is first needed. Call it
    again where a package may have been installed since.
    """
    for point in declared(GROUP).values():
        name = f"collage.engine.{point.name}"
        if tvm_ffi.get_global_func(name, allow_missing=True) is None:
            tvm_ffi.register_global_func(name, _engine(point))


def _engine(point: EntryPoint) -> Callable[[str, bytes, Mapping[str, Any]], Callable[..., Any]]:
    where = described("engine", point)

    def engine(symbol: str, payload: bytes, constants: Mapping[str, Any]) -> Callable[..., Any]:
        make = loaded("engine", point, EngineError)
        run = without_faults(
            lambda: make(symbol, payload, constants),
            f"{where} cannot make kernel `{symbol}`",
            EngineError,
        )
        said = f"{where} cannot run kernel `{symbol}`"
        return lambda *tensors: without_faults(lambda: run(*tensors), said, EngineError)

    return engine


# Whoever loads a saved model imports this module by its name, and calls nothing else of it.
register_declared()
