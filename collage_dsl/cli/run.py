"""`collage run`: run a compiled model on given or random inputs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from collage_dsl.cli.answer import answer
from collage_dsl.cli.arrays import read_arrays, write_arrays
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.report import ReportError, report_in
from collage_dsl.cli.shapes import parse_size
from collage_dsl.engine.race import latency
from collage_dsl.graph import TensorType
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.sizes import UNKNOWN, Sizes, names_in, no_dimension, size_of
from collage_dsl.measuring.built import random_array
from collage_dsl.measuring.timing import interleaved
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.saving import load_executable
from collage_dsl.realization.signature import InputError, Value
from collage_dsl.report.documents import RunDocument, TensorDocument
from collage_dsl.report.text import run_text


def run_folder(
    folder: Path,
    inputs: Path | None,
    outputs: Path | None,
    seed: int,
    output_format: str,
    sizes: Sequence[str] = (),
) -> None:
    """Run the model in `folder` on the arrays in `inputs`, or on random ones of the `sizes`."""
    executable = load_executable(folder)
    chosen = {} if inputs else _sizes(executable, folder, parse_size(sizes))
    given = read_arrays(inputs) if inputs else _random(executable, seed, chosen)
    try:
        results = dict(_flat(executable.run(given)))
    except InputError as error:
        if inputs:
            raise
        advice = "give other sizes with --sizes, or inputs with --inputs FILE.npz"
        raise CommandError(f"the model cannot run on random inputs: {error}; {advice}") from error
    if outputs:
        write_arrays(outputs, results)
    tensors = executable.tensors(given)
    # With 0 cores, by the clock on the wall: that is how long users wait.
    [times] = interleaved([lambda: executable.call(tensors)], num_cores=0, budget=1.0)
    document = RunDocument(
        folder=str(folder),
        inputs="file" if inputs else "random",
        sizes=chosen,
        outputs={name: summary_of(array) for name, array in results.items()},
        measured=latency(times),
    )
    answer(document, run_text(document), output_format)


def _flat(results: Mapping[str, Any]) -> Iterator[tuple[str, Array]]:
    """The arrays of the outputs by name; those of a sequence are named `y[0]`, `y[1]`, …"""
    for name, result in results.items():
        if isinstance(result, list):
            yield from _flat({f"{name}[{place}]": each for place, each in enumerate(result)})
        elif result is not None:
            array = np.asarray(result)
            yield name, array.astype(np.str_) if array.dtype.kind == "O" else array


_SIZE = 3
"""The size of a dimension with a name in random inputs, where nothing says another."""


def _sizes(executable: ModelExecutable, folder: Path, given: Sizes) -> dict[str, int]:
    """
    The sizes of the dimensions of random inputs: those `given`, else those at which the model was
    timed as it was compiled.
    """
    dims = (dim for value in executable.signature.inputs for dim in value.shape or ())
    names = (name for dim in dims if isinstance(dim, str) for name in sorted(names_in(dim)))
    every = dict.fromkeys(names, _SIZE)
    if unknown := sorted(given.keys() - every.keys()):
        raise CommandError(no_dimension(unknown[0], every))
    with suppress(CommandError, ReportError):  # A folder runs without its report, too.
        timed = report_in(folder).plan.timed_at if every else {}
        every |= {name: size for name, size in timed.items() if name in every}
    return {**every, **given}


def _random(executable: ModelExecutable, seed: int, sizes: Sizes) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {each.name: _drawn(each, sizes, generator) for each in executable.signature.inputs}


def _drawn(value: Value, sizes: Sizes, generator: np.random.Generator) -> Array:
    if value.is_object or value.shape is None or UNKNOWN in value.shape:
        raise CommandError(
            f"there are no random values for the input `{value.name}`, which is {value}; give "
            "some with `--inputs FILE.npz`"
        )
    shape = tuple(size_of(dim, sizes) for dim in value.shape)
    return random_array(TensorType(value.dtype, shape), generator)


def summary_of(array: Array) -> TensorDocument:
    """The dtype, shape and range of a tensor; without numbers, the range and mean are None."""
    is_number = bool(array.size) and array.dtype.kind != "U"
    is_packed = is_number and array.dtype.isbuiltin != 1
    numbers = array.astype(np.float32) if is_packed else array
    facts = (numbers.min(), numbers.max(), numbers.mean()) if is_number else (None, None, None)
    smallest, largest, mean = (None if fact is None else float(fact) for fact in facts)
    return TensorDocument(
        dtype=str(array.dtype),
        shape=list(array.shape),
        smallest=smallest,
        largest=largest,
        mean=mean,
    )
