"""
How much slower kernels become while something makes the machine slower.

    python benchmarks/pace.py [MODEL] [--seconds N]

A kernel of each kind of a model of `suite.py` (default: squeezenet), and the whole model as one
kernel of onnxruntime, run in turn for N seconds (default 60), each between two runs of the
reference kernel. For each kernel it prints the low percentile of its times at the usual speed of
the machine, and of those while the reference kernel took 1.4 times its usual time or more. On a
machine that nothing makes slower, there is no such time.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

import suite

import collage_dsl as collage
from collage_dsl.backends.registry import find_backend
from collage_dsl.graph import CandidateKernel, Graph, SubGraph
from collage_dsl.measuring.pace import SLOWER, Pace
from collage_dsl.measuring.task import kernel_task
from collage_dsl.measuring.timing import Timed, low
from collage_dsl.measuring.work import prepared

SLOW = 1.4
OTHERS = 4 << 20
ONNXRUNTIME = "onnxruntime"


@dataclass(frozen=True, slots=True)
class Followed:
    """A kernel, with its seconds and those of the reference kernel: the longer of two runs."""

    name: str
    timed: Timed
    runs: list[tuple[float, float]] = field(default_factory=list)

    def line(self, usual: float) -> str:
        at_usual = [seconds for seconds, taken in self.runs if taken <= SLOWER * usual]
        slower = [(seconds, taken) for seconds, taken in self.runs if taken >= SLOW * usual]
        if not at_usual or not slower:
            return f"{self.name:30} {len(at_usual)} runs at the usual speed, {len(slower)} slower"
        first, second = low(at_usual), low([seconds for seconds, _ in slower])
        factor = low([taken for _, taken in slower], 50) / usual
        return (
            f"{self.name:30} {first * 1e3:8.3f} ms {second * 1e3:8.3f} ms, {second / first:.2f} "
            f"times as long, the reference kernel {factor:.2f} times"
        )


def kernels(graph: Graph) -> Iterator[CandidateKernel]:
    """A kernel of our own of each kind, and the whole graph for onnxruntime."""
    ours = collage.gather({"kind": "llvm"})
    yield from {each.label: each for each in collage.propose(graph, ours)}.values()
    library = collage.gather({"kind": "llvm", "feature.compiler": ONNXRUNTIME})
    yield CandidateKernel(graph, SubGraph(graph.calls), library.target)


def followed(kernel: CandidateKernel) -> Followed:
    is_library = kernel.toolchain.compiler == ONNXRUNTIME
    backend = find_backend(ONNXRUNTIME if is_library else "tvm")
    task = kernel_task(kernel, backend, {}, others=OTHERS)
    return Followed("all, by onnxruntime" if is_library else kernel.label, prepared(task).timed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="squeezenet")
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    every = list(map(followed, kernels(collage.from_onnx(suite.model(given.model)))))
    pace, end = Pace(inf), time.monotonic() + given.seconds
    while time.monotonic() < end:
        for each in every:
            before = pace.read()
            seconds = each.timed.taken()
            each.runs.append((seconds, max(before, pace.read())))
    print("\n".join(each.line(pace.usual) for each in every))


if __name__ == "__main__":
    main()
