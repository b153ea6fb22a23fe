"""
What a second core gives to native kernels: models by `native` alone, and single kernels.

    python benchmarks/cores.py [MODEL …] [--cores 2] [--rounds 12] [--store FILE] [--only NAME]

One core and several run in turn in one process, in wall time, so both see the same machine; a low
percentile is shown, and its ratio, the gain. Each number of cores has the plan and the kernels that
were measured as the fastest with it. Models are those of `models.py`, or ONNX files.

A virtual machine may move its processors while this runs. `apart` is the time in which
one core gets an answer of the other. Where it is several times higher than usual, the cores share
no cache, and no library gains much from the second one. For a while two processors may even be one
core of the host. Then nothing gains, and `apart` does not show it: run it again.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import suite
import tvm
from kernels.cases import Case, cases
from kernels.ours import made_by_us, variant_names
from layers import random_inputs

import collage_dsl as collage
from collage_dsl.backends.instructions import host_cpu
from collage_dsl.backends.runtime.cores import prepare_cores, wake
from collage_dsl.cli.targets import load_targets
from collage_dsl.measuring.timing import low

GOALS = {
    "resnet50": 1.7,
    "vgg19": 1.7,
    "vit_tiny": 1.7,
    "squeezenet": 1.5,
    "shufflenet": 1.5,
    "mobilenet_v2": 1.5,
}
"""The smallest gain that two cores should give a model."""

BURST = 0.1
"""Seconds of calls of one kind before the other's turn."""

Call = Callable[[], object]


def main() -> None:
    given = arguments()
    prepare_cores(given.cores)
    print(f"{'':28} {'one core':>10} {f'{given.cores} cores':>10} {'gain':>6}  {'apart':>6}")
    for name in () if given.no_models else given.models:
        goal = GOALS.get(name) if given.cores == 2 else None
        show(name, model_calls(name, given.cores, given.store), given, goal)
    for case in () if given.no_kernels else cases():
        if given.only in case.name:
            show(case.name, (fastest(case, 1), fastest(case, given.cores)), given)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[1])
    parser.add_argument("models", nargs="*", metavar="MODEL", default=list(GOALS))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--store", type=Path, help="the file with costs of kernels")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--no-models", action="store_true")
    parser.add_argument("--no-kernels", action="store_true")
    return parser.parse_args()


def show(
    name: str, calls: tuple[Call, Call], given: argparse.Namespace, goal: float | None = None
) -> None:
    turns = (*calls, functools.partial(wake, given.cores))
    one, several, apart = (low(times) * 1e6 for times in timed(turns, given.rounds))
    gain = one / several
    line = f"{name:28} {one:8.1f}µs {several:8.1f}µs {gain:6.2f}  {apart:4.1f}µs"
    if goal is not None:
        line += f"  {'pass' if round(gain, 2) >= goal else 'fail'}: goal {goal:.2f}"
    print(line, flush=True)


def timed(calls: Sequence[Call], rounds: int) -> list[list[float]]:
    """The seconds of each call, in bursts and in turn."""
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, series in zip(calls, times, strict=True):
            call()
            series += burst(call, BURST)
    return times


def burst(call: Call, seconds: float) -> list[float]:
    """The seconds of each of the calls that begin within so many seconds."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def model_calls(name: str, cores: int, store: Path | None) -> tuple[Call, Call]:
    """The model by `native` alone, on one core and on several."""
    model = suite.model(name)
    inputs = random_inputs(model)

    def call(number: int) -> Call:
        compiled = collage.compile(model, load_targets(("native",), number), store=store)
        return functools.partial(compiled.executable.call, compiled.executable.tensors(inputs))

    return call(1), call(cores)


def fastest(case: Case, cores: int) -> Call:
    """The fastest of our variants of a kernel on so many cores."""
    model = case.model()
    target = tvm.target.Target({"kind": "llvm", "mcpu": host_cpu(), "num-cores": cores})
    made = made_by_us(model, random_inputs(model), target, variant_names())
    return min((each.loaded.call for each in made), key=lambda call: low(burst(call, BURST)))


if __name__ == "__main__":
    main()
