"""`collage run`: run a compiled model on given or random inputs."""

from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.cli.arrays import read_arrays, write_arrays
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.models import answer
from collage_dsl.engine.compile import latency
from collage_dsl.graph import TensorType
from collage_dsl.measuring.task import random_array
from collage_dsl.measuring.timing import interleaved
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.saving import load_executable
from collage_dsl.report.documents import RunDocument, TensorDocument
from collage_dsl.report.text import run_text

Array = np.ndarray[Any, Any]


def run_folder(
    folder: Path, inputs: Path | None, outputs: Path | None, seed: int, output_format: str
) -> None:
    """Run the model in `folder` on the arrays in `inputs`, or on random ones."""
    if seed < 0:
        raise CommandError(f"--seed {seed}: a seed is not negative")
    executable = load_executable(folder)
    given = read_arrays(inputs) if inputs else _random(executable, seed)
    results = executable.run(given)
    if outputs:
        write_arrays(outputs, results)
    tensors = executable.tensors(given)
    times = interleaved([lambda: executable.call(tensors)], 0, budget=1.0)[0]
    document = RunDocument(
        folder=str(folder),
        inputs="file" if inputs else "random",
        outputs={name: summary_of(array) for name, array in results.items()},
        measured=latency(times),
    )
    answer(document, run_text(document), output_format)


def _random(executable: ModelExecutable, seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {
        value.name: random_array(TensorType(value.dtype, value.shape), generator)
        for value in executable.signature.inputs
    }


def summary_of(array: Array) -> TensorDocument:
    """The dtype, shape and range of a tensor; without elements, the range and mean are None."""
    facts = (array.min(), array.max(), array.mean()) if array.size else (None, None, None)
    smallest, largest, mean = (None if fact is None else float(fact) for fact in facts)
    return TensorDocument(
        dtype=str(array.dtype),
        shape=list(array.shape),
        smallest=smallest,
        largest=largest,
        mean=mean,
    )
