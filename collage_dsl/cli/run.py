"""`collage run`."""

from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.models import answer
from collage_dsl.engine.compile import latency
from collage_dsl.graph import TensorType
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.measure import random_array
from collage_dsl.realization.timing import interleaved
from collage_dsl.report.documents import RunDocument, TensorDocument
from collage_dsl.report.text import run_text

Array = np.ndarray[Any, Any]


def run_folder(
    folder: Path, inputs: Path | None, outputs: Path | None, seed: int, output_format: str
) -> None:
    """Run the model in `folder` on the arrays in `inputs`, or on random ones."""
    executable = ModelExecutable.load(folder)
    given = _read(inputs) if inputs else _random(executable, seed)
    results = executable.run(given)
    if outputs:
        _write(outputs, results)
    tensors = executable.tensors(given)
    times = interleaved([lambda: executable.call(tensors)], 0, budget=1.0)[0]
    document = RunDocument(
        folder=str(folder),
        inputs="file" if inputs else "random",
        outputs={name: _summary(array) for name, array in results.items()},
        measured=latency(times),
    )
    answer(document, run_text(document), output_format)


def _random(executable: ModelExecutable, seed: int) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {
        value.name: random_array(TensorType(value.dtype, value.shape), generator)
        for value in executable.signature.inputs
    }


def _read(path: Path) -> dict[str, Array]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot read inputs from {path}: {error}") from error


def _write(path: Path, arrays: dict[str, Array]) -> None:
    try:
        np.savez(path, allow_pickle=False, **arrays)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from error


def _summary(array: Array) -> TensorDocument:
    return TensorDocument(
        dtype=str(array.dtype),
        shape=list(array.shape),
        smallest=float(array.min()),
        largest=float(array.max()),
        mean=float(array.mean()),
    )
