"""A model whose kernel is large enough for several cores, and what the threads of a process do."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl import parse_graph
from collage_dsl.backends.runtime.cores import THREAD
from collage_dsl.backends.tvm import Tvm
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, Toolchain
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature

Array = np.ndarray[Any, Any]

CORES = min(2, len(os.sched_getaffinity(0)))
"""The cores that a target with two gets on this machine."""

TEXT = """
graph {
  x: f32[1, 32, 40, 40];
  w: f32[32, 32, 3, 3];
  c = nn.conv2d(x, w) [padding = [1, 1, 1, 1]];
  y = nn.relu(c);
  return y;
}
"""


def executable(cores: int) -> ModelExecutable:
    parsed = parse_graph(TEXT)
    graph = Graph(parsed.nodes, parsed.outputs, name="main")
    kernel = CandidateKernel(
        graph, SubGraph(graph.calls), Toolchain("tvm", options={"num_cores": cores})
    )
    module = realize(graph, [kernel], lambda _: Tvm())
    return ModelExecutable(build(module), Signature.of(graph, cores=cores))


def inputs(seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    shapes = {"x": (1, 32, 40, 40), "w": (32, 32, 3, 3)}
    return {n: random.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def helpers() -> list[int]:
    """The threads of this process that share the loops of kernels."""
    return [int(task.name) for task in _tasks() if _name(task) == THREAD]


def affinities() -> list[set[int]]:
    """The processors that each thread of this process may use."""
    return [os.sched_getaffinity(int(task.name)) for task in _tasks()]


def seconds_of(thread: int) -> float:
    """How long a thread of this process has been running on a processor."""
    return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0]) * 1e-9


def _name(task: Path) -> str:
    """The name of a thread; empty if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (task / "comm").read_text().strip()
    return ""


def _tasks() -> Iterator[Path]:
    return Path("/proc/self/task").iterdir()
