"""
What it takes to compare a kernel with another implementation, beside what it takes to build it.

    python benchmarks/checks.py [MODEL …] [--target native] [--kernels N]

Of each model of `suite.py`, N distinct kernels (default 40) that the target proposes are built, by
each of its variants, and compared as they are before they are timed. A line for each kernel that is
refused says why. The last line has the seconds of all kernels together.
"""

import argparse
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import suite

import collage_dsl as collage
from collage_dsl.backends.base import Backend
from collage_dsl.engine.compile import backends_of
from collage_dsl.engine.steps import propose
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.measuring.built import built
from collage_dsl.measuring.checked import WrongResult, draws_of, error_on, right_of
from collage_dsl.measuring.key import kernel_key
from collage_dsl.measuring.task import KernelTask, kernel_task
from collage_dsl.realization.kernel import kernel_view, makers
from collage_dsl.realization.variants import unsuitable, with_variant
from collage_dsl.resources import shipped_spec
from collage_dsl.rules import FusionSpec


@dataclass(slots=True)
class Spent:
    """Seconds for some kernels, and how many had nothing to be compared with."""

    kernels: int = 0
    unchecked: int = 0
    refused: int = 0
    build: float = 0.0
    check: float = 0.0
    slowest: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.kernels} kernels: built in {self.build:.1f} s, compared in {self.check:.1f} s "
            f"({self.check / max(1, self.kernels):.3f} s each, at most {self.slowest:.2f} s); "
            f"{self.unchecked} had no other implementation, {self.refused} were refused"
        )


def sample(graph: Graph, spec: FusionSpec, backend: Backend, count: int) -> list[CandidateKernel]:
    """Some kernels that a target proposes, each once."""
    distinct = {
        kernel_key(each, backend, kernel_view(each, backend)): each for each in propose(graph, spec)
    }
    found = [
        each for each in distinct.values() if not backend.supports(kernel_view(each, backend).graph)
    ]
    return random.Random(0).sample(found, min(count, len(found)))


def tasks(candidate: CandidateKernel, backends: tuple[Backend, ...]) -> Iterator[KernelTask]:
    """A task for each variant that can compute the kernel."""
    backend, *libraries = backends
    offered = [candidate]
    if backend.variants:
        fitting = [name for name, reason in unsuitable(candidate, backend) if reason is None]
        offered = [with_variant(candidate, name) for name in fitting]
    for each in offered:
        yield kernel_task(each, backend, {}, libraries=tuple(libraries))


def check(task: KernelTask, spent: Spent) -> None:
    start = time.perf_counter()
    kernel = built(task, np.random.default_rng(0))
    middle = time.perf_counter()
    right = right_of(task, kernel)
    try:
        if right is not None:
            error_on(draws_of(task, kernel), kernel, right)
    except WrongResult as wrong:
        spent.refused += 1
        nodes = [node.op for node in task.check.graph.nodes if node.op] if task.check else []
        print(f"refused: {', '.join(nodes)} {task.toolchain.variant}: {wrong}")
    end = time.perf_counter()
    spent.kernels += 1
    spent.unchecked += right is None
    spent.build += middle - start
    spent.check += end - middle
    spent.slowest = max(spent.slowest, end - middle)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("models", nargs="*", default=["squeezenet"])
    parser.add_argument("--target", default="native")
    parser.add_argument("--kernels", type=int, default=40)
    asked = parser.parse_args()
    spec = next(iter(collage.load(shipped_spec(asked.target)).values()))
    backend_of = backends_of([spec])
    for model in asked.models:
        spent, graph = Spent(), from_onnx(suite.model(model))
        for candidate in sample(graph, spec, backend_of(spec.target), asked.kernels):
            for task in tasks(candidate, makers(candidate, backend_of)):
                check(task, spent)
        print(f"{model}: {spent}", flush=True)


if __name__ == "__main__":
    main()
