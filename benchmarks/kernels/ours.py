"""Our kernels of an ONNX model, by variant."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import tvm
import tvm_ffi
from engines import Array, Inputs, Loaded
from tvm import relax

from collage_dsl.backends.runtime.cores import on_cores, prepare_cores
from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.variants import VARIANTS, VariantError
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.to_relax import to_relax

USUAL = "direct"
"""The variant of the kernels that another variant cannot compute, when there are several."""


@dataclass(frozen=True, slots=True)
class Made:
    """A model as kernels of ours, and the seconds to make them."""

    name: str
    loaded: Loaded
    schedule_seconds: float
    build_seconds: float


@dataclass(frozen=True, slots=True)
class Step:
    """A fused function, the values that it takes, and the value that it makes."""

    function: Any
    operands: tuple[Any, ...]
    result: Any


@dataclass(frozen=True, slots=True)
class Steps:
    """The functions of a model in order, the values that are known before, and the result."""

    steps: tuple[Step, ...]
    known: dict[Any, Array]
    result: Any


def made_by_us(
    model: onnx.ModelProto, inputs: Inputs, target: Any, variants: Sequence[str]
) -> Iterator[Made]:
    """
    The model in one kernel, by each of the `variants` that can compute it. Where TVM would make
    several kernels of it, also as these, with the same variant wherever it can.
    """
    whole, cut = steps_of(model, inputs, whole=True), steps_of(model, inputs, whole=False)
    for variant in variants:
        for steps in (whole, cut) if len(cut.steps) > 1 else (whole,):
            made = built(steps, variant, target)
            if made is not None:
                yield made


def variant_names() -> tuple[str, ...]:
    """The variants that run something."""
    return tuple(name for name in VARIANTS if name != IN_PLACE)


def steps_of(model: onnx.ModelProto, inputs: Inputs, *, whole: bool) -> Steps:
    """
    The PrimFuncs of a model: one if `whole`, else as TVM fuses the operators. Weights are
    parameters; single numbers stay in the functions.
    """
    function, weights = with_weights_as_parameters(to_relax(from_onnx(model))["main"])
    public = function.with_attr("global_symbol", "main")
    module = lowered(in_one(function) if whole else tvm.IRModule({"main": public}))
    main = module["main"]
    arrays = [*inputs.values(), *weights]
    known = {hash(p): a for p, a in zip(main.params, arrays, strict=True)}
    return Steps(tuple(steps_in(module, main)), known, hash(returned(main)))


def with_weights_as_parameters(function: Any) -> tuple[Any, list[Array]]:
    found: dict[int, tuple[Any, Array]] = {}

    def parameter(constant: Any) -> Any:
        if len(constant.ty.shape.values) == 0:
            return constant
        if hash(constant) not in found:
            var = relax.Var(f"weight{len(found)}", constant.ty)
            found[hash(constant)] = (var, constant.value.numpy())
        return found[hash(constant)][0]

    body = tvm_ffi.structural_map(function.body, (tvm.ir.GenericConst, parameter))
    params = [*function.params, *(var for var, _ in found.values())]
    return relax.Function(params, body, function.ret_ty), [array for _, array in found.values()]


def in_one(function: Any) -> tvm.IRModule:
    """A module whose `main` calls `function` as one kernel."""
    builder = relax.BlockBuilder()
    private = relax.Function(function.params, function.body, function.ret_ty)
    kernel = builder.add_func(private.with_attr("Primitive", True), "kernel")
    outer = [relax.Var(f"q{index}", param.ty) for index, param in enumerate(function.params)]
    with builder.function("main", outer):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(kernel, outer))
        builder.emit_func_output(result)
    return builder.get()


def lowered(module: tvm.IRModule) -> tvm.IRModule:
    passes = [
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    return tvm.transform.Sequential(passes)(module)


def steps_in(module: tvm.IRModule, main: Any) -> Iterator[Step]:
    for block in main.body.blocks:
        for binding in block.bindings:
            call = binding.value
            if isinstance(call, tvm.ir.Call):
                function, operands = module[call.args[0]], call.args[1].fields
                yield Step(function, tuple(map(hash, operands)), hash(binding.var))


def returned(main: Any) -> Any:
    """The variable of the call whose value `main` returns, perhaps under other names."""
    names = {
        hash(binding.var): binding.value
        for block in main.body.blocks
        for binding in block.bindings
        if isinstance(binding.value, tvm.ir.Var)
    }
    found = main.body.body
    while hash(found) in names:
        found = names[hash(found)]
    return found


def built(steps: Steps, variant: str, target: Any) -> Made | None:
    """The kernels, compiled. None if `variant` can compute none of them."""
    scheduled = []
    begin = time.perf_counter()
    chosen = [variant_of(step.function, variant, target) for step in steps.steps]
    if all(name is None for name in chosen):
        return None
    for step, name in zip(steps.steps, chosen, strict=True):
        scheduled.append(schedule_variant(step.function, name or USUAL, target=target))
    middle = time.perf_counter()
    values = {key: tvm.runtime.tensor(array) for key, array in steps.known.items()}
    calls = []
    for step, each in zip(steps.steps, scheduled, strict=True):
        operands = [values[key] for key in step.operands]
        for position, prepare in each.prepared.items():
            operands[position] = prepared(prepare, operands[position], target)
        shape = [int(extent) for extent in step.function.params[-1].shape]
        values[step.result] = tvm.runtime.tensor(np.zeros(shape, "float32"))
        calls.append((compiled(each.function, target), (*operands, values[step.result])))
    label = variant if len(calls) == 1 else f"{variant} in {len(calls)}"

    def call() -> None:
        for kernel, tensors in calls:
            kernel(*tensors)

    loaded = Loaded(call, lambda: values[steps.result].numpy())
    return Made(label, loaded, middle - begin, time.perf_counter() - middle)


def variant_of(function: Any, variant: str, target: Any) -> str | None:
    try:
        schedule_variant(function, variant, target=target)
    except VariantError:
        return None
    return variant


def prepared(prepare: Any, weight: Any, target: Any) -> Any:
    """What a scheduled function takes in place of `weight`."""
    shape = [int(extent) for extent in prepare.params[-1].shape]
    made = tvm.runtime.tensor(np.zeros(shape, str(prepare.params[-1].dtype)))
    compiled(prepare, target)(weight, made)
    return made


def compiled(function: Any, target: Any) -> Any:
    """The function on as many cores as the target has."""
    cores = int(target.attrs.get("num-cores", 1))
    prepare_cores(cores)
    named = function.with_attr("global_symbol", "kernel")
    kernel = tvm.compile(tvm.IRModule({"kernel": named}), target=target)["kernel"]
    return on_cores(kernel, cores)
