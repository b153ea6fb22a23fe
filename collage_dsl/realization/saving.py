"""Save a compiled model to a folder, complete or not at all, and load it again."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import tvm

from collage_dsl.backends.runtime.build import addons
from collage_dsl.reading import text_of
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.signature import (
    SIGNATURE,
    ExecutableError,
    Signature,
    checksum_of,
)

LIBRARY = "model.so"
PLAN = "plan.json"
REPORT = "report.json"
"""The files in the folder of a compiled model, besides its signature."""


def save(executable: ModelExecutable, folder: Path, documents: Mapping[str, str]) -> None:
    """
    Write the executable and `documents` (contents by file name) to `folder`, which plain
    TVM can load: `tvm.runtime.load_module(folder / "model.so")`.

    The folder appears complete or not at all. A folder with only an executable is replaced; any
    other folder that is not empty is refused with `ExecutableError`.
    """
    folder = folder.resolve()
    check_writable(folder)
    try:
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".collage-") as scratch:
            new = Path(scratch, "new")
            new.mkdir()
            _write(executable, new, documents)
            if folder.exists():
                folder.rename(Path(scratch, "old"))
            new.rename(folder)
    except OSError as error:
        raise _cannot_write(folder, error) from error


def load_executable(path: str | os.PathLike[str]) -> ModelExecutable:
    """
    The executable that `Compiled.save` or `collage compile` wrote to the folder `path`.

        executable = collage.load_executable("out")
        executable.run({"x": x})

    Raises `ExecutableError` if the folder has no executable, or a damaged one.
    """
    folder = Path(path)
    library = folder / LIBRARY
    if not (folder / SIGNATURE).is_file() or not library.is_file():
        raise ExecutableError(f"{folder} holds no compiled model")
    try:
        signature = Signature.from_json(text_of(folder / SIGNATURE))
        if checksum_of(library) != signature.library:
            raise ValueError(f"{LIBRARY} is not the library that was saved")
        return ModelExecutable(tvm.runtime.load_module(str(library)), signature)
    except (OSError, ValueError, RuntimeError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ExecutableError(f"{folder} is damaged: {said[0]}") from error


def check_writable(folder: Path) -> None:
    """
    Raise if `save` would fail: `ExecutableError` because of the folder, `NoCompiler` if there is no
    compiler to link the library. This is quick; call it before a long compilation.
    """
    addons()
    folder = folder.resolve()
    try:
        _check_replaceable(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".collage-"):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _write(executable: ModelExecutable, folder: Path, documents: Mapping[str, str]) -> None:
    library = folder / LIBRARY
    if executable.unused is None:
        raise ExecutableError("an executable that was loaded is saved already: copy its folder")
    try:
        executable.unused.export_library(library, addons())
    except RuntimeError as error:  # the linker's message, after a line of TVM
        said = str(error).strip().splitlines()
        raise OSError(f"the linker failed: {said[-1] if said else error}") from error
    signature = replace(executable.signature, library=checksum_of(library))
    for name, text in {SIGNATURE: signature.to_json(), **documents}.items():
        (folder / name).write_text(text + "\n", "utf-8")


def _check_replaceable(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ExecutableError(f"cannot write {folder}: there is a file of that name")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if held and SIGNATURE not in held:
        raise ExecutableError(f"{folder} is not empty and holds no compiled model")
    foreign = held - {LIBRARY, SIGNATURE, PLAN, REPORT}
    if foreign:
        raise ExecutableError(f"{folder} holds `{min(foreign)}` too, which would be lost")
    if Path.cwd().is_relative_to(folder):
        raise ExecutableError(f"cannot write {folder}: it is the current folder")


def _cannot_write(folder: Path, error: OSError) -> ExecutableError:
    return ExecutableError(f"cannot write {folder}: {error.strerror or error}")
