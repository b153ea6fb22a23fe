"""
What a second core gives to native kernels: models by `native` alone, and single kernels.

    python benchmarks/cores.py [MODEL …] [--cores 2] [--rounds 12] [--no-kernels] [--no-models]

One core and several run in turn in one process, in wall time, so both see the same machine; a low
percentile is shown, and its ratio, the gain. Models are covered by estimated costs, the same cover
for both: nothing is measured before. MODEL is a light model, `vit_tiny` or an ONNX file.

A virtual machine may move its processors while this runs. `apart` is the time in which
one core gets an answer of the other. Where it is several times higher than usual, the cores share
no cache, and no library gains much from the second one.
"""

import argparse
import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import tvm
from native_kernels import Case, cases, fused
from vit import vit_tiny

import collage_dsl as collage
from collage_dsl.backends.runtime.cores import on_cores, prepare_cores, wake
from collage_dsl.backends.schedule import schedule
from collage_dsl.backends.tvm import tvm_target
from collage_dsl.cost import Peak
from collage_dsl.frontend.light import light_model
from collage_dsl.graph import Graph, Toolchain
from collage_dsl.measuring.task import random_inputs
from collage_dsl.measuring.timing import low
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.signature import Signature
from collage_dsl.resources import folder

MODELS = ("resnet50", "vgg19", "vit_tiny", "squeezenet", "shufflenet", "inception_v1")
ROOFLINE = Peak(multiplications=1e11, bytes=2e10, memory=2e10, cores=1)
BURST = 0.1  # seconds of calls of one kind before the other's turn

Call = Callable[[], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(MODELS))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--no-kernels", action="store_true")
    given = parser.parse_args()
    prepare_cores(given.cores)
    print(f"{'':28} {'one core':>10} {f'{given.cores} cores':>10} {'gain':>6}  {'apart':>6}")
    if not given.no_models:
        for name in given.models:
            show(name, model_calls(name, given.cores), given.rounds, given.cores)
    for case in () if given.no_kernels else cases():
        if given.only in case.name and not case.steps:
            show(case.name, kernel_calls(case, given.cores), given.rounds, given.cores)


def show(name: str, calls: tuple[Call, Call], rounds: int, cores: int) -> None:
    turns = (*calls, functools.partial(wake, cores))
    one, several, apart = (low(times) * 1e6 for times in timed(turns, rounds))
    line = f"{name:28} {one:8.1f}µs {several:8.1f}µs {one / several:6.2f}  {apart:4.1f}µs"
    print(line, flush=True)


def timed(calls: Sequence[Call], rounds: int) -> list[list[float]]:
    """The seconds of each call, in bursts and in turn."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, series in zip(calls, times, strict=True):
            call()
            end = time.perf_counter() + BURST
            while True:
                start = time.perf_counter()
                call()
                series.append(time.perf_counter() - start)
                if start > end:
                    break
    return times


# Models.


def model_calls(name: str, cores: int) -> tuple[Call, Call]:
    graph = collage.from_onnx(vit_tiny() if name == "vit_tiny" else _model(name))
    inputs = random_inputs(graph, np.random.default_rng(0))
    one, several = (_runner(native_alone(graph, number), inputs) for number in (1, cores))
    return one, several


def _model(name: str) -> onnx.ModelProto:
    return onnx.load(name) if name.endswith(".onnx") else light_model(name)


def native_alone(graph: Graph, cores: int) -> ModelExecutable:
    (spec,) = collage.load(folder("specs") / "native.collage").values()
    target = replace(spec.target, options={**spec.target.options, "num_cores": cores})
    found = collage.propose(graph, replace(spec, target=target))
    plan = collage.choose(graph, found, cost=ROOFLINE)
    return ModelExecutable(build(collage.realize(plan)), Signature.of(graph, cores=cores))


def _runner(executable: ModelExecutable, inputs: Sequence[np.ndarray]) -> Call:
    names = [value.name for value in executable.signature.inputs]
    tensors = executable.tensors(dict(zip(names, inputs, strict=True)))
    return functools.partial(executable.call, tensors)


# Kernels.


def kernel_calls(case: Case, cores: int) -> tuple[Call, Call]:
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in case.shapes]
    func = fused(case.shapes, case.body)
    result = np.zeros([int(extent) for extent in func.params[-1].shape], "float32")
    tensors = [tvm.runtime.tensor(array) for array in (*arrays, result)]
    one, several = (
        functools.partial(on_cores(_built(func, number), number), *tensors) for number in (1, cores)
    )
    return one, several


def _built(func: Any, cores: int) -> Any:
    target = tvm_target(Toolchain("native", options={"num_cores": cores}))
    module = tvm.IRModule({"kernel": schedule(func, target=target)})
    return tvm.compile(module, target=target)["kernel"]


if __name__ == "__main__":
    main()
