"""Compare the outputs of a compiled model with onnxruntime, and find kernels that are wrong."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import tvm
from tvm import relax

from collage_dsl.backends.onnx_writer import to_onnx
from collage_dsl.backends.registry import BackendOf
from collage_dsl.backends.runtime.cores import on_cores, prepare_cores
from collage_dsl.backends.tvm import num_cores
from collage_dsl.frontend.reference import reference_session
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import CandidateKernel, Form, Graph, Node, TensorType, members
from collage_dsl.realization.alone import alone, build_target, called_functions
from collage_dsl.realization.crossing import device_name, device_named
from collage_dsl.realization.difference import TOLERANCE, relative_error, tolerance
from collage_dsl.realization.lower import build
from collage_dsl.realization.outline import weights_of
from collage_dsl.realization.place import kernel_of, makers

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Verification:
    """The largest relative error of a model, and the kernels found wrong, by their labels."""

    error: float
    tolerance: float = TOLERANCE
    wrong_kernels: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.error <= self.tolerance


class VerificationError(Exception):
    """A compiled model does not compute the same as the original, or this cannot be decided."""

    def __init__(self, message: str, verification: Verification | None = None) -> None:
        super().__init__(message)
        self.verification = verification


def failed(verification: Verification) -> VerificationError:
    """The error that says how large the error of a model is, and which kernels are wrong."""
    blamed = ", ".join(verification.wrong_kernels) or "no single kernel; the import differs"
    return VerificationError(
        f"outputs differ from onnxruntime by {verification.error:.1e} of the largest, "
        f"{verification.tolerance:.0e} is allowed; wrong: {blamed}",
        verification,
    )


def run_onnx(model: onnx.ModelProto | str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of `model` in onnxruntime without optimisations."""
    session = reference_session(model)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def verify(
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
    expected: Mapping[str, Array],
    inputs: Mapping[str, Array],
    graph: Graph,
    kernels: Sequence[CandidateKernel],
    backend_of: BackendOf,
) -> Verification:
    """
    Compare the outputs of `run` for `inputs` with the `expected` ones, by name. If they differ,
    each kernel is run alone on the right values of its inputs. Raises `VerificationError` if no
    output is finite.
    """
    if not any(np.isfinite(value).any() or not value.size for value in expected.values()):
        raise VerificationError("no output of the model is a finite number to be compared")
    actual = run(inputs)
    errors = {name: relative_error(actual[name], value) for name, value in expected.items()}
    worst = max(errors, key=lambda name: errors[name] - tolerance(expected[name]))
    verification = Verification(errors[worst], tolerance(expected[worst]))
    if verification.passed:
        return verification
    return replace(verification, wrong_kernels=wrong_kernels(graph, kernels, inputs, backend_of))


def wrong_kernels(
    graph: Graph,
    kernels: Sequence[CandidateKernel],
    inputs: Mapping[str, Array],
    backend_of: BackendOf,
) -> tuple[str, ...]:
    """
    The kernels that give wrong results for right inputs, as `target label (node)`.

    The right values come from onnxruntime, which runs all of `graph` written as ONNX.
    """
    values = dict(inputs) | reference_values(graph, inputs)
    return tuple(
        f"`{kernel.target}` {kernel.label} at `{_last_name(kernel)}`"
        for kernel in kernels
        if _is_wrong(kernel, values, backend_of)
    )


def reference_values(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The value of every operator call of `graph` that is a tensor, by name."""
    tensors = [i for i in members(graph.computed) if isinstance(graph.nodes[i].type, TensorType)]
    everything = Graph(graph.nodes, tensors, name=graph.name)
    model, constants = to_onnx(everything)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    kept = {n: onnxruntime.OrtValue.ortvalue_from_numpy(a) for n, a in constants.items()}
    options.add_external_initializers(list(kept), list(kept.values()))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = dict(zip((i.name for i in session.get_inputs()), inputs.values(), strict=True))
    results = session.run(None, feeds)
    names = [graph.nodes[i].name for i in tensors]
    return dict(zip(names, results, strict=True))


def _is_wrong(kernel: CandidateKernel, values: Mapping[str, Array], backend_of: BackendOf) -> bool:
    nodes, (backend, *libraries) = kernel.graph.nodes, makers(kernel, backend_of)
    outlined = kernel_of(kernel, backend)
    function = outlined.bound(weights_of(dataflow_of(kernel.graph), outlined))
    module = alone(function, called_functions(kernel), kernel.toolchain, backend)
    device = device_named(device_name(kernel.toolchain.kind))
    cores = num_cores(kernel.toolchain)
    prepare_cores(cores)
    executable = build(module, build_target(kernel.toolchain), [backend, *libraries])
    main = on_cores(relax.VirtualMachine(executable, device)["main"], cores)
    arguments = [_value(nodes[index], values) for index in outlined.arguments]
    result = main(*(tvm.runtime.tensor(each, device) for each in arguments))
    places = outlined.results
    given = list(result) if len(set(places.values())) > 1 else [result]
    return any(_differs(given[place].numpy(), values[nodes[i].name]) for i, place in places.items())


def _value(node: Node, values: Mapping[str, Array]) -> Array:
    """The value of an input of a kernel: a constant's own value, or the right value."""
    if node.form is Form.CONSTANT:
        value: Any = node.value
        return np.asarray(value)
    return values[node.name]


def _differs(actual: Array, expected: Array) -> bool:
    return relative_error(actual, expected) > tolerance(expected)


def _last_name(kernel: CandidateKernel) -> str:
    return max(kernel.nodes, key=kernel.graph.index)
