"""Read and write arrays by name, in the files of `numpy.savez`."""

import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np

from collage_dsl.cli.failure import writing
from collage_dsl.graph.arrays import Array
from collage_dsl.reading import cause_of, other_than_file
from collage_dsl.scratch import replacement


class ArraysError(Exception):
    """A file of arrays cannot be read, is damaged, or is something else."""


def read_arrays(path: Path) -> dict[str, Array]:
    """Raises `ArraysError` where `path` is no whole file of arrays."""
    try:
        if other := other_than_file(path):
            raise OSError(None, other)
        if path.exists() and not zipfile.is_zipfile(path):
            raise ValueError("it is not a whole file as numpy.savez(FILE, NAME=ARRAY) writes it")
        _check_headers(path)
        with np.load(path, allow_pickle=False) as arrays:
            found = dict(arrays)
        strange = [name for name, array in found.items() if not isinstance(array, np.ndarray)]
        if strange:
            raise ValueError(f"`{strange[0]}` in it is not an array")
        return found
    except _UNREADABLE as error:
        raise ArraysError(f"cannot read inputs from {path}: {cause_of(error)}") from error


_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    RuntimeError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)

_DEFLATED = 1032
"""No compressed byte stands for more bytes than this."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _check_headers(path: Path) -> None:
    """
    Raises ValueError where an array is of Python objects, or where a header says more than is
    there, for which numpy would allocate memory.
    """
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(".npy"):
                continue
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as file:
                header = _HEADERS.get(np.lib.format.read_magic(file))
                if header is None:
                    raise ValueError(f"`{name}` in it has a format of a newer numpy")
                shape, _, dtype = header(file)
                said = file.tell() + prod(shape) * dtype.itemsize
            if dtype.hasobject:
                raise ValueError(f"`{name}` in it has Python objects, not numbers")
            most = _DEFLATED * min(member.compress_size, path.stat().st_size)
            if said > min(member.file_size, most):
                raise ValueError(
                    f"`{name}` in it should be {dtype}{list(shape)}, for which it is too short"
                )


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write the format of `numpy.savez`, which itself does not accept an array named `file`."""
    with writing(path), replacement(path) as new, zipfile.ZipFile(new, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
