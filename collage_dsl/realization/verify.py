"""Comparison of a compiled model with onnxruntime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime

from collage_dsl.backends.onnx_writer import to_onnx
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, TensorType, extract, members
from collage_dsl.realization.build import build
from collage_dsl.realization.executable import ModelExecutable, Signature
from collage_dsl.realization.module import BackendOf, realize

Array = np.ndarray[Any, Any]

TOLERANCE = 1e-4
"""Allowed difference, relative to the largest magnitude of the expected output."""


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
    """A compiled model computes something else than the original."""

    def __init__(self, verification: Verification) -> None:
        self.verification = verification
        blamed = ", ".join(verification.wrong_kernels) or "no single kernel; the import differs"
        super().__init__(
            f"outputs differ from onnxruntime by {verification.error:.1e} of the largest, "
            f"{verification.tolerance:.0e} is allowed; wrong: {blamed}"
        )


def relative_error(actual: Array, expected: Array) -> float:
    """
    The largest absolute difference over the largest expected magnitude; infinite where the
    shapes differ or only one side has a number.
    """
    if actual.shape != expected.shape:
        return float("inf")
    if actual.size == 0:
        return 0.0
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isfinite(actual), np.isfinite(expected)):
        return float("inf")
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    largest = float(np.abs(expected[finite]).max())
    difference = float(np.abs(actual[finite] - expected[finite]).max())
    return difference / largest if largest else difference


def run_onnx(model: onnx.ModelProto | str, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of `model` in onnxruntime without optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    source = model if isinstance(model, str) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def verify(
    executable: ModelExecutable,
    expected: Mapping[str, Array],
    inputs: Mapping[str, Array],
    graph: Graph,
    kernels: Sequence[CandidateKernel],
    backend_of: BackendOf,
) -> Verification:
    """
    Compare the outputs of `executable` for `inputs` with the `expected` ones, by name. Where
    they differ, each kernel is run alone on the values that it should have been given.
    """
    actual = executable.run(inputs)
    error = max(relative_error(actual[name], value) for name, value in expected.items())
    if error <= TOLERANCE:
        return Verification(error)
    return Verification(error, wrong_kernels=wrong_kernels(graph, kernels, inputs, backend_of))


def wrong_kernels(
    graph: Graph,
    kernels: Sequence[CandidateKernel],
    inputs: Mapping[str, Array],
    backend_of: BackendOf,
) -> tuple[str, ...]:
    """
    The kernels that give wrong results for right arguments, as `target label (node)`.

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
    graph = kernel.graph
    constants = graph.constants
    found = extract(graph, kernel.sub_graph.inside, constants)
    whole = CandidateKernel(
        found.graph, SubGraph(found.graph.computed, found.graph.constants), kernel.toolchain
    )
    executable = ModelExecutable(
        build(realize(found.graph, [whole], backend_of), backend_of), Signature.of(found.graph)
    )
    inputs = {graph.nodes[i].name: values[graph.nodes[i].name] for i in found.arguments}
    actual = executable.run(inputs)
    return any(relative_error(actual[n], values[n]) > TOLERANCE for n in actual)


def _last_name(kernel: CandidateKernel) -> str:
    return max(kernel.nodes, key=kernel.graph.index)
