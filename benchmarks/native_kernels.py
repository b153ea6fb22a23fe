"""
Time our native kernels beside onnxruntime, openvino and ncnn, one kernel at a time, in float32.

    python benchmarks/native_kernels.py [--kind 3x3] [--only 64@56] [--variant NAME] [--threads N]

All engines get the same ONNX model and run in turns. With one thread, times are CPU time; else wall
time. A low percentile is shown; with one thread, less what a call of the engine takes for 16
numbers. `hot` calls a kernel again and again; `evicted` first evicts the last-level cache, weights
included. Errors are the largest difference to the result in float64, relative to the largest value.
Every variant of our kernels that can compute a case is timed, and the one that is fastest when
evicted is shown.

`ort,ov` is our time over that of the better of onnxruntime and openvino; `all`, of the best engine.
Engines that are not installed are left out (benchmarks/requirements.txt). A case is one kernel. If
TVM would make several kernels of its operators, these are timed too, as `direct in 3`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import onnx
import tvm
from engines import INSTALL, Array, CannotLoadError, Inputs, Load, Loaded, engines
from kernels.cases import GOALS, Case, cases
from kernels.ours import Made, made_by_us, variant_names
from kernels.reference import error, exact
from kernels.summary import Result, Row, head, line, summary
from kernels.timing import Time, Timed, measured
from layers import Layers, random_inputs

from collage_dsl.backends.instructions import host_cpu
from collage_dsl.graph.variants import DIRECT


@dataclass(frozen=True, slots=True)
class Contest:
    """What is compared, and how: the engines, our variants, threads, and the most rounds."""

    engines: Mapping[str, Load]
    variants: Sequence[str]
    threads: int
    rounds: int
    budget: float

    @property
    def target(self) -> tvm.target.Target:
        return tvm.target.Target({"kind": "llvm", "mcpu": host_cpu(), "num-cores": self.threads})

    def ours(self, model: onnx.ModelProto, inputs: Inputs) -> list[Made]:
        return list(made_by_us(model, inputs, self.target, self.variants))

    def theirs(
        self, model: onnx.ModelProto, inputs: Inputs
    ) -> tuple[dict[str, Loaded], dict[str, str]]:
        """The model in each engine, and why an engine has none."""
        loaded, missing = {}, {}
        for name, load in self.engines.items():
            try:
                loaded[name] = load(model, inputs, self.threads)
            except CannotLoadError as problem:
                missing[name] = str(problem)
        return loaded, missing

    def measured(self, timed: Sequence[Timed]) -> list[Time]:
        return measured(timed, self.threads, self.rounds, self.budget)


def small_model() -> onnx.ModelProto:
    """A model of almost no work. It takes what every call of an engine takes."""
    net = Layers()
    return net.model(net.relu(net.input(1, 16)), (1, 16))


@dataclass(frozen=True, slots=True)
class Calls:
    """A call of almost no work for each engine and for ours, and what it takes."""

    engines: Mapping[str, tuple[Loaded, Time]]
    ours: tuple[Loaded, Time]


def calls(contest: Contest) -> Calls:
    model = small_model()
    inputs = random_inputs(model)
    loaded, _ = contest.theirs(model, inputs)
    ours = replace(contest, variants=(DIRECT,)).ours(model, inputs)[0].loaded
    timed = [Timed(each.call, each.call) for each in (*loaded.values(), ours)]
    measured = contest.measured(timed)
    # With several threads this varies by more than it is.
    *theirs, last = measured if contest.threads == 1 else [Time(0.0, 0.0)] * len(timed)
    pairs = zip(loaded.items(), theirs, strict=True)
    return Calls({name: (each, taken) for (name, each), taken in pairs}, (ours, last))


def row(case: Case, contest: Contest, small: Calls) -> Row:
    """Build a case in all ways, compare the results, and time them in turns."""
    model = case.model()
    inputs = random_inputs(model)
    expected = exact(model, inputs)
    loaded, missing = contest.theirs(model, inputs)
    made = contest.ours(model, inputs)
    timed = [Timed(each.call, small.engines[name][0].call) for name, each in loaded.items()]
    timed += [Timed(each.loaded.call, small.ours[0].call) for each in made]
    times = contest.measured(timed)
    theirs = {
        name: result(each, taken.less(small.engines[name][1]), expected)
        for (name, each), taken in zip(loaded.items(), times, strict=False)
    }
    ours = {
        each.name: result(each.loaded, taken.less(small.ours[1]), expected, each)
        for each, taken in zip(made, times[len(loaded) :], strict=True)
    }
    return Row(case.kind, case.name, theirs, ours, missing)


def result(loaded: Loaded, taken: Time, expected: Array, made: Made | None = None) -> Result:
    seconds = (made.schedule_seconds, made.build_seconds) if made else (0.0, 0.0)
    return Result(taken.hot, taken.evicted, error(loaded.output(), expected), *seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("--json", action="store_true", help="one JSON object for each kernel")
    parser.add_argument("--kind", default="", help="kinds whose name contains this: " + kinds())
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--variant", choices=variant_names(), help="of ours, only this variant")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=4, help="of timing, for each kernel")
    given = parser.parse_args()
    variants = [given.variant] if given.variant else variant_names()
    contest = Contest(engines(), variants, given.threads, given.rounds, given.seconds)
    chosen = [case for case in cases() if given.kind in case.kind and given.only in case.name]
    if given.json:
        small = calls(contest)
        for case in chosen:
            print(json.dumps(asdict(row(case, contest, small))), flush=True)
        return
    show(chosen, contest)


def kinds() -> str:
    return ", ".join(GOALS)


def show(chosen: Sequence[Case], contest: Contest) -> None:
    names = list(contest.engines)
    print(f"{host_cpu()}, threads: {contest.threads}, microseconds")
    if len(names) < 3:
        print(f"Compared with {', '.join(names)} only. For openvino and ncnn: {INSTALL}")
    small = calls(contest)
    print(head(names))
    rows = []
    for case in chosen:
        rows.append(row(case, contest, small))
        print(line(rows[-1], names), flush=True)
    print("", *summary(rows), sep="\n")


if __name__ == "__main__":
    main()
