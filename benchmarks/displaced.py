"""
How much other memory has to be read between two runs of a kernel, so that kernels take what they
take in their model.

    python benchmarks/displaced.py [MODEL …] [--read MIB,…] [--store FILE]

The plan of each model of `suite.py` (default: shufflenet, mobilenet_v2, inception_v1, inception_v2)
by TVM alone is built. Its kernels are timed alone, with so many MiB of other memory read between
two runs (default: what `displaced` says, and other amounts), and the model as a whole, both while
the machine has its usual speed. A line shows the sum of the kernels beside what the model takes.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import suite
from layers import random_inputs

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.engine.compile import Compiled
from collage_dsl.graph import Measuring
from collage_dsl.measuring.footprint import displaced, footprint
from collage_dsl.measuring.pace import reference
from collage_dsl.measuring.task import OverheadTask, kernel_task
from collage_dsl.measuring.timing import Timed, low, times_in_turn
from collage_dsl.measuring.work import measure_overhead, prepared
from collage_dsl.search import Plan

MODELS = ("shufflenet", "mobilenet_v2", "inception_v1", "inception_v2")
MIB = 1 << 20
AMOUNTS = (8, 16, 24, 32, 48)


def kernels(plan: Plan, others: int) -> list[Timed]:
    """The kernels of a plan that run code."""
    chosen = [
        replace(each, toolchain=each.toolchain.by(*filter(None, [kernel.variant])))
        for each, kernel in zip(plan.candidates, plan.kernels, strict=True)
        if kernel.variant != IN_PLACE
    ]
    return [prepared(kernel_task(each, Tvm(), {}, others=others)).timed for each in chosen]


def whole(compiled: Compiled, model: str, usual: float) -> float:
    """The seconds of a run of a model that runs again and again."""
    tensors = compiled.executable.tensors(random_inputs(suite.model(model)))

    def run() -> None:
        compiled.executable.call(tensors)

    (taken,), _ = times_in_turn([Timed(run, run, 1, Measuring(budget=3))], usual)
    return low(taken)


def entry(plan: Plan) -> float:
    """The seconds of a call of any executable."""
    steps = measure_overhead(OverheadTask(plan.candidates[0].toolchain.by(), Tvm()))
    next(steps)
    try:
        next(steps)
    except StopIteration as stopped:
        return float(stopped.value.entry)
    raise AssertionError("it measures at once")


def report(model: str, amounts: list[int], store: Path | None) -> None:
    native = collage.gather({"kind": "llvm"})
    compiled = collage.compile(suite.model(model), targets=[native], store=store, race_seconds=1)
    plan = compiled.plan
    used, usual, beside = footprint(plan.graph, {}), reference(), entry(plan)
    for others in sorted({displaced(used), *(amount * MIB for amount in amounts)}):
        taken = [low(times_in_turn([each], usual)[0][0]) for each in kernels(plan, others)]
        apart, together = float(np.sum(taken)) - beside * len(taken), whole(compiled, model, usual)
        mark = "as is done" if others == displaced(used) else ""
        sizes = f"{used / MIB:.1f} | {others / MIB:.0f}"
        times = f"{apart * 1e3:.3f} ms | {together * 1e3:.3f} ms | {apart / together:.2f}"
        print(f"| {model} | {sizes} | {times} | {mark} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--read", type=lambda text: [*map(int, text.split(","))], default=AMOUNTS)
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    print("| model | uses MiB | read MiB | kernels apart | together | ratio | |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for model in given.models:
        report(model, list(given.read), given.store)


if __name__ == "__main__":
    main()
