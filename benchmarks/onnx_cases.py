"""The tests of ONNX's own package: models with inputs and the right outputs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader

import collage_dsl as collage
from collage_dsl.backends.registry import installed
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import MIXED, searched
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.reference import reference_session
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.measuring.kernels import supported
from collage_dsl.realization.crossing import devices_of
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.objects import run_session
from collage_dsl.realization.partition import KernelCall, realized
from collage_dsl.realization.signature import Signature
from collage_dsl.search import Plan

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")
SPECS = Path(__file__).parent.parent / "specs"
CPU = "llvm"
NATIVE = "tvm"
"""The name of the target in `specs/native.collage`."""


@dataclass(frozen=True, slots=True)
class Case:
    """One model, and for each run of it the inputs and the right outputs, in their order."""

    kind: str
    name: str
    model: onnx.ModelProto
    runs: Sequence[tuple[list[Any], list[Any]]]
    rtol: float
    atol: float

    @property
    def input_names(self) -> list[str]:
        """The inputs that a run gives. In old models, constants are inputs too."""
        names = [value.name for value in self.model.graph.input]
        constants = {tensor.name for tensor in self.model.graph.initializer}
        given = len(self.runs[0][0]) if self.runs else 0
        return names if len(names) == given else [name for name in names if name not in constants]


@dataclass(frozen=True, slots=True)
class Counts:
    """The operator calls of a model: those that native kernels run, and all."""

    native: int
    all: int
    as_they_are: int
    """The nodes that are no operators of Relax."""


class WrongOutput(Exception):  # noqa: N818, reads as what it says
    """An output that is not the one of the case, within its tolerance."""


def cases(kinds: Sequence[str] = KINDS) -> Iterator[Case]:
    """All cases, in the order of the package."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # They compute infinities and NaN.
        for kind in kinds:
            for each in loader.load_model_tests(kind=kind):
                folder = Path(each.model_dir or "")
                model = each.model or onnx.load(folder / "model.onnx")
                runs = each.data_sets
                if runs is None:
                    runs = [_read(model, data) for data in sorted(folder.glob("test_data_set_*"))]
                arrays = [(list(map(_value, x)), list(map(_value, y))) for x, y in runs]
                yield Case(kind, each.name, model, arrays, each.rtol, each.atol)


def _read(model: onnx.ModelProto, folder: Path) -> tuple[list[Any], list[Any]]:
    count = len(list(folder.glob("input_*.pb")))
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    if len(inputs) != count:
        inputs = list(model.graph.input)[:count]
    given = [_parsed(folder / f"input_{i}.pb", value) for i, value in enumerate(inputs)]
    right = [_parsed(folder / f"output_{i}.pb", v) for i, v in enumerate(model.graph.output)]
    return given, right


def _parsed(file: Path, value: onnx.ValueInfoProto) -> Any:
    data = file.read_bytes()
    match value.type.WhichOneof("value"):
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
        case "optional_type":
            return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def _value(given: Any) -> Any:
    """The arrays of a value; some cases give messages of protobuf."""
    if isinstance(given, onnx.TensorProto):
        return numpy_helper.to_array(given)
    if isinstance(given, np.generic):
        return np.asarray(given)
    return list(map(_value, given)) if isinstance(given, list) else given


def is_run_by_onnxruntime(case: Case) -> bool:
    """Whether onnxruntime loads the model."""
    try:
        reference_session(case.model)
    except FrontendError:
        return False
    return True


def run_in_onnxruntime(case: Case) -> None:
    """Raises `WrongOutput`, and what onnxruntime raises."""
    session = reference_session(case.model)
    for inputs, right in case.runs:
        feeds = dict(zip(case.input_names, inputs, strict=True))
        check(case, run_session(session, feeds), right)


def run(case: Case, kind: str = CPU) -> Counts:
    """
    Import the model, plan it for `native` and `onnxruntime`, build it and run it. On another kind
    of device there is only the native backend. Raises what any of these raises, and `WrongOutput`.
    """
    graph = collage.from_onnx(case.model)
    plan = planned(graph, kind)
    executable, _ = built(graph, plan, kind)
    for inputs, right in case.runs:
        feeds = dict(zip(case.input_names, inputs, strict=True))
        taken = {each.name for each in executable.signature.inputs}
        check(case, executable.run({n: x for n, x in feeds.items() if n in taken}), right)
    calls = {kernel: len(kernel.nodes) for kernel in plan.kernels}
    return Counts(
        sum(count for kernel, count in calls.items() if kernel.target == NATIVE),
        sum(calls.values()),
        sum(isinstance(node.value, OnnxNode) for node in graph.nodes),
    )


def built(
    graph: Graph, plan: Plan, kind: str = CPU
) -> tuple[ModelExecutable, tuple[KernelCall, ...]]:
    """The executable of a plan, and the calls of its kernels."""
    found = realized(graph, plan.candidates, installed())
    signature = Signature.of(graph, devices_of(found.module, kind))
    return ModelExecutable(build(found.module), signature), found.calls


def planned(graph: Graph, kind: str = CPU) -> Plan:
    """The plan in which as much as possible is native: a call of onnxruntime costs three."""

    def cost(kernel: CandidateKernel) -> float:
        calls = len(kernel.nodes)
        return 1e-6 * (1 if kernel.target == NATIVE else 3 * calls) + 1e-7 * calls

    search = searched(graph, specs(kind), supported(cost, installed()), lookup(allow_extern=False))
    plan = search.plans[MIXED]
    if isinstance(plan, str):
        raise FrontendError(plan)
    return plan


@cache
def specs(kind: str) -> tuple[Any, ...]:
    if kind != CPU:
        return (collage.gather({"kind": kind}),)
    names = "native", "onnxruntime"
    return tuple(s for n in names for s in collage.load(SPECS / f"{n}.collage").values())


def check(case: Case, outputs: Mapping[str, Any], right: Sequence[Any]) -> None:
    """Raises `WrongOutput` where an output is not what it should be."""
    for value, expected in zip(case.model.graph.output, right, strict=True):
        try:
            _compare(outputs[value.name], expected, case)
        except AssertionError as error:
            said = " ".join(str(error).split())
            raise WrongOutput(f"`{value.name}` is wrong: {said}") from None


def _compare(actual: Any, right: Any, case: Case) -> None:
    if isinstance(right, list):
        assert isinstance(actual, list), f"{type(actual).__name__} in place of a list"
        assert len(actual) == len(right), f"{len(actual)} values in place of {len(right)}"
        for one, other in zip(actual, right, strict=True):
            _compare(one, other, case)
        return
    if right is None:
        assert actual is None, "there is a value in place of none"
        return
    found, expected = np.asarray(actual), np.asarray(right)
    assert found.shape == expected.shape, f"shape {found.shape} in place of {expected.shape}"
    if expected.dtype.kind in "OSU":
        assert (found.astype(str) == expected.astype(str)).all(), "other texts"
        return
    assert found.dtype == expected.dtype, f"{found.dtype} in place of {expected.dtype}"
    if expected.dtype.isbuiltin != 1:
        found, expected = found.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(found, expected, rtol=case.rtol, atol=case.atol)
