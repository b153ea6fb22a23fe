"""
Whether noise changes plans: compile models again and again while other programs work.

    python benchmarks/stable.py [MODEL …] [--times N] [--rarely] [--quiet] [--seconds N]
        [--locks FOLDER]

Each model of `suite.py` is compiled N times (default 10), each time with an empty store of costs,
while two other processes on the last core multiply matrices and read memory; not with `--quiet`.
Ctrl-C ends the compilations of a model early. Then the distinct plans run in turn, without the
other processes. Where the data of a plan lie in memory changes what it takes by some percent, so
each plan is loaded five times, each of these runs for N seconds, and the median of the five counts.
The same plan is loaded another five times, as plan 1 again: so much do equal plans differ. The last
line of a model says how much longer the slowest plan takes than the fastest one. With `--rarely`,
kernels are timed as in a model that runs rarely. `--locks` keeps the lock of each plan.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import suite
from layers import random_inputs

import collage_dsl as collage
from collage_dsl.engine.compile import Compiled
from collage_dsl.graph import Measuring
from collage_dsl.measuring.timing import interleaved, low
from collage_dsl.rules import FusionSpec
from collage_dsl.search import Plan

TIMES_LOADED = 5

LIBRARY = {"kind": "llvm", "feature.compiler": "onnxruntime"}

Kernels = tuple[tuple[str, str, frozenset[str]], ...]
"""What tells plans apart: the target, variant and nodes of each kernel."""


def multiply() -> None:
    matrix = np.random.default_rng(0).random((300, 300))
    matrix @ matrix


def stream() -> None:
    np.ones(1 << 23).sum()


LOADS = {"multiply": multiply, "stream": stream}


def work(load: Callable[[], None]) -> None:
    """Work on the last core until the process that wants it has ended."""
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    owner = os.getppid()
    with suppress(KeyboardInterrupt):
        while os.getppid() == owner:
            load()


@contextmanager
def busy(loads: Sequence[str]) -> Iterator[None]:
    """Other processes work in here."""
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--load"]
    running = [subprocess.Popen([*command, load], env=alone) for load in loads]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def compiled(model: str, specs: Sequence[FusionSpec]) -> Compiled:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "costs.sqlite"
        return collage.compile(suite.model(model), targets=specs, store=store)


def kernels_of(plan: Plan) -> Kernels:
    return tuple((kernel.target, kernel.variant, kernel.nodes) for kernel in plan.kernels)


def latencies(found: Sequence[Compiled], model: str, seconds: float) -> list[float]:
    """The seconds of each, the median of several times that it is loaded, all run in turn."""
    inputs = random_inputs(suite.model(model))

    def runner(folder: Path) -> Callable[[], object]:
        executable = collage.load_executable(folder)
        tensors = executable.tensors(inputs)
        return lambda: executable.call(tensors)

    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root, str(number)) for number in range(len(found))]
        for each, folder in zip(found, folders, strict=True):
            each.save(folder)
        runners = [runner(folder) for _ in range(TIMES_LOADED) for folder in folders]
    every = list(map(low, interleaved(runners, 1, budget=seconds * len(runners))))
    return [median(every[place :: len(found)]) for place in range(len(found))]


def report(model: str, specs: Sequence[FusionSpec], given: argparse.Namespace) -> None:
    plans: dict[Kernels, Compiled] = {}
    counts: Counter[Kernels] = Counter()
    with suppress(KeyboardInterrupt), busy([] if given.quiet else list(LOADS)):
        for _ in range(given.times):
            start = time.monotonic()
            found = compiled(model, specs)
            kernels = kernels_of(found.plan)
            counts[kernels] += 1
            plans.setdefault(kernels, found)
            number, measured = list(plans).index(kernels) + 1, found.report.measurements.measured
            if given.locks:
                found.freeze(given.locks / f"{model}-{number}.lock")
            said = f"plan {number}, {found.report.chosen}, {len(kernels)} kernels"
            took = f"{measured} measured in {time.monotonic() - start:.0f} s"
            print(f"{model}: {said}, estimated {_ms(found.plan.cost)}; {took}", flush=True)
    if not plans:
        return
    *seconds, again = latencies([*plans.values(), next(iter(plans.values()))], model, given.seconds)
    first = set(next(iter(plans)))
    for number, (kernels, each) in enumerate(zip(plans, seconds, strict=True), 1):
        said = f"{counts[kernels]} times, {len(set(kernels) - first)} kernels not in plan 1"
        print(f"{model}: plan {number} found {said}, takes {_ms(each)}")
    print(f"{model}: plan 1 again takes {_ms(again)}")
    margin = specs[0].target.measure.noise_margin
    ratio = max(seconds) / min(seconds) - 1
    judged = "within" if ratio <= margin else "beyond"
    print(f"{model}: {len(plans)} plans, {ratio:.1%} apart: {judged} the margin of {margin:.0%}")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["squeezenet", "shufflenet", "mobilenet_v2"])
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rarely", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--locks", type=Path)
    parser.add_argument("--load", choices=LOADS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.load:
        work(LOADS[given.load])
        return
    if given.locks:
        given.locks.mkdir(parents=True, exist_ok=True)
    measure = Measuring(runs="rarely" if given.rarely else "often")
    gathered = [collage.gather({"kind": "llvm"}), collage.gather(LIBRARY)]
    specs = [replace(s, target=replace(s.target, measure=measure)) for s in gathered]
    for model in given.models:
        report(model, specs, given)


if __name__ == "__main__":
    main()
