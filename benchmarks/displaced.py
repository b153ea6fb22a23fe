"""
How much other memory has to be read between two runs of a kernel, so that kernels take what they
take in their model.

    python benchmarks/displaced.py [MODEL …] [--read MIB,…] [--idle MS,…] [--store FILE]

The plan of each model of `suite.py` (default: shufflenet, mobilenet_v2, inception_v1, inception_v2)
by TVM alone is built. Its kernels are timed alone, with so many MiB of other memory read between
two runs (default: what `displaced` says, and other amounts), and the model as a whole, both while
the machine has its usual speed. A line shows the sum of the kernels beside what the model takes.

With `--idle`, what `displaced` says is read, and then so many milliseconds pass before the kernel
runs, in which nothing of this process reads memory. Where a kernel takes longer then, others have
used the last-level cache meanwhile: other virtual machines, say.
"""

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import suite
from layers import random_inputs

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import IN_PLACE
from collage_dsl.engine.compile import Compiled
from collage_dsl.graph import CandidateKernel, Measuring
from collage_dsl.measuring.footprint import Distances, Far, displaced, footprint
from collage_dsl.measuring.pace import reference
from collage_dsl.measuring.task import OverheadTask, kernel_task
from collage_dsl.measuring.timing import Timed, low, times_in_turn
from collage_dsl.measuring.work import measure_overhead, prepared
from collage_dsl.realization.kernel import kernel_view
from collage_dsl.search import Plan

MODELS = ("shufflenet", "mobilenet_v2", "inception_v1", "inception_v2")
MIB = 1 << 20
AMOUNTS = (8, 16, 24, 32, 48)


def kernels(plan: Plan) -> Counter[CandidateKernel]:
    """
    The kernels of a plan that run code, and how many there are of each: those with the same label,
    variant and cost are taken for one.
    """
    found: dict[object, CandidateKernel] = {}
    counts: Counter[object] = Counter()
    for candidate, kernel in zip(plan.candidates, plan.kernels, strict=True):
        if kernel.variant != IN_PLACE:
            chosen = candidate.toolchain.by(*filter(None, [kernel.variant]))
            key = kernel.label, kernel.variant, kernel.cost
            found.setdefault(key, replace(candidate, toolchain=chosen))
            counts[key] += 1
    return Counter({found[key]: count for key, count in counts.items()})


def taken_by(kernel: CandidateKernel, far: Far, others: int, idle: float, usual: float) -> float:
    """The seconds of a kernel that begins after so many idle ones, and of calling an executable."""
    timed = prepared(kernel_task(kernel, Tvm(), {}, others=others, far=far)).timed

    def ready() -> None:
        timed.before()
        wait(idle)

    return low(times_in_turn([replace(timed, before=ready)], usual)[0][0])


def wait(seconds: float) -> None:
    """Keep the core busy, so that its frequency stays what it is."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


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


def report(model: str, amounts: list[int], idle: list[int], store: Path | None) -> None:
    native = collage.gather({"kind": "llvm"})
    compiled = collage.compile(suite.model(model), targets=[native], store=store, race_seconds=1)
    plan, usual = compiled.plan, reference()
    used, beside, counts = footprint(plan.graph, {}), entry(plan), kernels(plan)
    distances = Distances(plan.graph, {})
    far = {each: distances.far(each, kernel_view(each, Tvm())) for each in counts}
    reading = sorted({displaced(used), *(amount * MIB for amount in amounts)})
    ways = [(displaced(used), ms) for ms in idle] or [(others, 0) for others in reading]
    for others, ms in ways:
        together = whole(compiled, model, usual)
        taken = {each: taken_by(each, far[each], others, ms * 1e-3, usual) for each in counts}
        apart = sum(n * (taken[each] - beside) for each, n in counts.items())
        mark = "as is done" if (others, ms) == (displaced(used), 0) else ""
        sizes = f"{used / MIB:.1f} | {others / MIB:.0f} | {ms}"
        times = f"{apart * 1e3:.3f} ms | {together * 1e3:.3f} ms | {apart / together:.2f}"
        print(f"| {model} | {sizes} | {times} | {mark} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--read", type=lambda text: [*map(int, text.split(","))], default=AMOUNTS)
    parser.add_argument("--idle", type=lambda text: [*map(int, text.split(","))], default=[])
    parser.add_argument("--store", type=Path)
    given = parser.parse_args()
    print("| model | uses MiB | read MiB | idle ms | kernels apart | together | ratio | |")
    print("|---|---:|---:|---:|---:|---:|---:|---|")
    for model in given.models:
        report(model, list(given.read), given.idle, given.store)


if __name__ == "__main__":
    main()
