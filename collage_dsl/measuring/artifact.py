"""Build a kernel in one process, and time it in another: what goes from one to the other."""

import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from collage_dsl.backends.runtime.build import addons
from collage_dsl.measuring.built import kernel_executable
from collage_dsl.measuring.task import KernelTask, Outcome, Task
from collage_dsl.measuring.wire import value_of
from collage_dsl.measuring.work import measure
from collage_dsl.realization.bytecode import UnusedExecutable
from collage_dsl.realization.index_errors import prepare_index_errors

_LIBRARY = "kernel.so"


@dataclass(frozen=True, slots=True)
class Artifact:
    """
    A task as JSON, and the libraries with the code and the weights of its kernels. There are none
    for a task that has no kernel of its own: the small models that measure overheads are built
    where they run.
    """

    task: str
    libraries: tuple[bytes, ...] = ()

    @property
    def size(self) -> int:
        """The bytes of all libraries."""
        return sum(map(len, self.libraries))


def build_artifact(task: str) -> Generator[None, None, bytes]:
    """The library of a kernel. An OSError means that the machine is the cause."""
    found = value_of(task)
    assert isinstance(found, KernelTask)
    for backend in (found.backend, *found.libraries):
        backend.prepare()
    executable = UnusedExecutable(kernel_executable(found, np.random.default_rng(0)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, _LIBRARY)
        executable.export_library(path, addons())
        yield from ()  # Workers need a generator. Nothing has to run alone.
        return path.read_bytes()


def measure_artifact(artifact: Artifact) -> Generator[None, None, Outcome]:
    """Check and time kernels that were built elsewhere, as `measure` does with those built here."""
    task: Task = value_of(artifact.task)
    if artifact.libraries:
        prepare_index_errors()
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{at}{_LIBRARY}") for at in range(len(artifact.libraries))]
        for path, library in zip(paths, artifact.libraries, strict=True):
            path.write_bytes(library)
        return (yield from measure(task, paths))
