"""Whether a compiled random model gives what onnxruntime gives, where that is defined."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper

import collage_dsl as collage
from collage_dsl.backends.registry import installed
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import MIXED, searched
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.measuring.kernels import supported
from collage_dsl.realization.difference import compared
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.objects import is_same_object
from collage_dsl.realization.onnx_reference import evaluated, unit_of
from collage_dsl.realization.partition import realize
from collage_dsl.realization.shaken import shaken
from collage_dsl.realization.signature import Signature
from collage_dsl.resources import shipped_spec
from collage_dsl.search import Plan
from tests.fuzz import graphs
from tests.fuzz.aside import aside
from tests.fuzz.graphs import Made, RefusedError
from tests.fuzz.undefined import CANCELLING, broken, cancels, undefined

Array = np.ndarray[Any, Any]

SPECS = tuple(
    spec for name in ("native", "onnxruntime") for spec in collage.load(shipped_spec(name)).values()
)


@dataclass(slots=True)
class Case:
    """A model, and what onnxruntime gives for several inputs."""

    made: Made
    answers: list[tuple[str, dict[str, Any], dict[str, Any]]]


def case_of(seed: int) -> Case:
    """Raises `RefusedError`, and whatever onnxruntime raises."""
    made = graphs.made(seed)
    answers = []
    if why := broken(made.model, all_values(made, made.inputs)):
        raise RefusedError(why)
    for kind, inputs in graphs.draws(made, seed):
        try:
            right = graphs.run(made.model, inputs)
            values = all_values(made, inputs)
            if not broken(made.model, values) and not undefined(made.model, values):
                answers.append((kind, inputs, right))
        except RefusedError:
            continue
    return Case(made, answers)


def planned(graph: Graph, chosen: Random) -> Plan:
    """A plan at random costs: as native as possible, all by onnxruntime, or any mixture."""
    native, other = chosen.choice(((1.0, 50.0), (1.0, 50.0), (50.0, 1.0), (1.0, 1.0)))

    def cost(kernel: CandidateKernel) -> float:
        factor = native if kernel.target == SPECS[0].name else other
        noise = Random(f"{kernel.target}{sorted(kernel.nodes)}{factor}").uniform(0.5, 2.0)
        kernels = (
            len(kernel.nodes) if factor > 1 else 1
        )  # A dear one does not get cheap by merging.
        return 1e-6 * factor * noise * kernels + 1e-7 * len(kernel.nodes)

    priced = supported(cost, installed())
    plan = searched(graph, SPECS, priced, lookup(allow_extern=False)).plans[MIXED]
    assert not isinstance(plan, str), plan
    return plan


def compiled(model: ModelProto, chosen: Random) -> tuple[Graph, Plan, ModelExecutable]:
    graph = collage.from_onnx(model)
    plan = planned(graph, chosen)
    module = realize(graph, plan.candidates, installed())
    return graph, plan, ModelExecutable(build(module), Signature.of(graph))


def disagreement(case: Case, chosen: Random) -> str:
    """How the compiled model differs from onnxruntime; empty if it does not. Raises any error."""
    graph, plan, executable = compiled(case.made.model, chosen)
    unit = unit_of(graph)
    for kind, inputs, right in case.answers:
        found = executable.run(inputs)
        for name, wanted in right.items():
            what = difference(case.made, inputs, name, found[name], wanted, unit)
            if what:
                kernels = [f"{each.target}: {each.label}" for each in plan.kernels]
                return f"output `{name}`, inputs {kind}: {what}\nkernels: {kernels}"
    return ""


def difference(
    made: Made, inputs: Mapping[str, Any], name: str, found: Any, right: Any, unit: float
) -> str:
    if not isinstance(right, np.ndarray) or right.dtype.kind in "OSU":
        if made.is_random or is_same_object(found, right, unit):
            return ""
        return f"{found!r} in place of {right!r}"
    if made.is_random and found.ndim == right.ndim and found.dtype == right.dtype:
        return ""
    if found.shape != right.shape or found.dtype != right.dtype:
        return f"{found.dtype}{found.shape} in place of {right.dtype}{right.shape}"
    if is_a_step_off(made.model, found, right):
        return ""

    def others() -> list[Array]:
        return [each[name] for each in doubtful(made, inputs, unit) if name in each]

    error, allowed = compared(found, right, others, unit)
    if error <= max(allowed, least(right) * (8 if cancels(made.model) else 1)):
        return ""
    return f"error {error:.2g}, allowed {allowed:.2g}: {_shown(found)}, not {_shown(right)}"


def is_a_step_off(model: ModelProto, found: Array, right: Array) -> bool:
    """
    Whether few quantized numbers are next to the right ones. Where all operands are constants that
    lead to the middle between two, no shaken inputs show that either is right.
    """
    if right.dtype.kind not in "iu" or right.itemsize > 1:
        return False
    if not any("QLinear" in node.op_type or "Quant" in node.op_type for node in model.graph.node):
        return False
    steps = np.abs(found.astype(int) - right.astype(int))
    return bool(steps.max(initial=0) <= 1 and (steps > 0).mean() < 0.1)


def least(right: Array) -> float:
    """The last digit of 1 as a part of the largest number: see docs/verification.md."""
    if right.dtype.kind in "biu":
        return 0.0
    numbers = np.abs(right[np.isfinite(right)].astype(np.float64))
    largest = float(numbers.max()) if numbers.size else 0.0
    return float(np.finfo(np.float32).eps) / largest if largest else 0.0


def _shown(array: Array) -> str:
    return " ".join(str(array.reshape(-1)[:8]).split()) + ("…" if array.size > 8 else "")


def doubtful(made: Made, inputs: Mapping[str, Any], unit: float) -> list[Mapping[str, Array]]:
    """
    Outputs that are as right as those of onnxruntime: for inputs and constants that differ by
    rounding, with all optimisations, and in float64.
    """
    found = []
    for function in (lambda: _shaken(made, inputs, unit), lambda: _exact(made, inputs)):
        kind, result = aside(function, 3)
        found += result if kind == "made" else []
    return found


def _shaken(made: Made, inputs: Mapping[str, Any], unit: float) -> list[Mapping[str, Any]]:
    """With every number that is not whole changed by rounding: those given, and those computed."""
    generator = np.random.default_rng(0)
    values = all_values(made, inputs)
    found = []
    for _ in range(6):
        model = ModelProto()
        model.CopyFrom(made.model)
        for tensor in model.graph.initializer:
            array = onnx.numpy_helper.to_array(tensor)
            other = np.asarray(_changed(array, generator, unit))
            tensor.CopyFrom(onnx.numpy_helper.from_array(other, tensor.name))
        _shake_results(model.graph, values, generator, unit)
        changed = {n: _changed(each, generator, unit) for n, each in inputs.items()}
        try:
            found.append(graphs.run(model, changed))
        except RefusedError:
            continue
    return found


def _changed(value: Any, generator: np.random.Generator, unit: float) -> Any:
    is_float = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return np.where(_is_whole(value), value, shaken(value, generator, unit)) if is_float else value


def _is_whole(array: Array) -> Array:
    return np.asarray(array == np.round(array))


def _shake_results(
    graph: onnx.GraphProto,
    values: Mapping[str, Any],
    generator: np.random.Generator,
    unit: float,
) -> None:
    """Multiply what each node gives by numbers near 1; if it cancels, also round it as by 1."""
    nodes = []
    for node in graph.node:
        nodes.append(node)
        for place, name in enumerate(node.output):
            array = values.get(name)
            if not isinstance(array, np.ndarray) or array.dtype.kind != "f":
                continue
            factors = _changed(np.full(array.shape, 1.5, array.dtype), generator, unit)
            factors = np.where(_is_whole(array), 1, factors / 1.5).astype(array.dtype)
            node.output[place] = f"{name}.right"
            one = np.asarray(float(node.op_type in CANCELLING) * generator.integers(2), array.dtype)
            operands = {f"{name}.factors": factors, f"{name}.one": one}
            graph.initializer.extend(
                onnx.numpy_helper.from_array(each, called) for called, each in operands.items()
            )
            product, larger = f"{name}.product", f"{name}.larger"
            nodes += (
                helper.make_node("Mul", [f"{name}.right", f"{name}.factors"], [product]),
                helper.make_node("Add", [product, f"{name}.one"], [larger]),
                helper.make_node("Sub", [larger, f"{name}.one"], [name]),
            )
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def all_values(made: Made, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Every value that onnxruntime computes on the way, and the inputs and constants."""
    graph = made.model.graph
    names = [name for node in graph.node for name in node.output if name]
    model = ModelProto()
    model.CopyFrom(made.model)
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    constants = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    return {**constants, **inputs, **graphs.run(model, inputs)}


def _exact(made: Made, inputs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list(evaluated(made.model, inputs))
