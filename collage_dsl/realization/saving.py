"""Save a compiled model to a folder, complete or not at all, and load it again."""

import ctypes
import errno
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import tvm_ffi

from collage_dsl.argument_types import with_checked_types
from collage_dsl.backends.engines import register_declared
from collage_dsl.backends.instructions import absent, host_cpu
from collage_dsl.backends.runtime.build import addons
from collage_dsl.reading import cause_at, content_of, is_in_utf8, real_path
from collage_dsl.realization.bytecode import check_space
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.signature import (
    DamagedFolderError,
    ExecutableError,
    Signature,
    checksum_of,
)
from collage_dsl.saved import LIBRARY, PLAN, REPORT, SIGNATURE
from collage_dsl.scratch import check_folder, scratch_folder

_MOST_BYTES = 1 << 26
"""The longest signature that is read, for some hundred thousand inputs and outputs."""


def save(executable: ModelExecutable, folder: Path, documents: Mapping[str, str]) -> None:
    """
    Write the executable and `documents` (contents by file name) to `folder`, which plain
    TVM can load: `tvm.runtime.load_module(folder / "model.so")`.

    The folder appears complete or not at all. A folder with only an executable is replaced; any
    other folder that is not empty is refused with `ExecutableError`.
    """
    folder = real_path(folder)
    check_writable(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder.parent) as scratch:
            new = scratch / "new"
            new.mkdir()
            _write(executable, scratch, new, documents)
            if folder.exists():
                _exchange(new, folder)
            else:
                new.rename(folder)
    except OSError as error:
        raise _cannot_write(folder, error) from error


@with_checked_types()
def load_executable(path: str | os.PathLike[str]) -> ModelExecutable:
    """
    The executable that `Compiled.save` or `collage compile` wrote to the folder `path`.

        executable = collage.load_executable("out")
        executable.run({"x": x})

    Raises `ExecutableError` if the folder has no executable, or a damaged one, or one for a
    processor with instructions that this machine does not have.
    """
    folder = Path(path)
    library = folder / LIBRARY
    missing = [name for name in (SIGNATURE, LIBRARY) if not (folder / name).is_file()]
    if missing == [SIGNATURE, LIBRARY]:
        reason = "holds no compiled model" if folder.exists() else "does not exist"
        raise ExecutableError(f"{folder} {reason}; `collage compile -o` writes such a folder")
    if missing:
        raise DamagedFolderError(f"{folder} is damaged: it has no file {missing[0]}")
    if not is_in_utf8(library.absolute()):  # TVM makes it so
        raise ExecutableError(
            f"cannot load {folder}: TVM takes only paths in UTF-8; rename it, or what it is in"
        )
    try:
        signature = Signature.from_json(content_of(folder / SIGNATURE, _MOST_BYTES))
        if checksum_of(library) != signature.library:
            raise ValueError(f"{LIBRARY} is not as it was saved")
        if missing := absent(signature.instructions):
            raise ExecutableError(
                f"{folder} is for another processor, with instructions that this machine does not "
                f"have ({', '.join(missing)}): compile the model here, or with the target option "
                f'`mcpu: "{host_cpu()}"`'
            )
        register_declared()
        return ModelExecutable(tvm_ffi.load_module(_as_no_other(library)), signature)
    except (OSError, ValueError, RuntimeError) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        if "needs the engine" in said[0]:
            raise ExecutableError(f"cannot load {folder}: {said[0]}") from error
        raise DamagedFolderError(f"{folder} is damaged: {said[0]}") from error


def _as_no_other(library: Path) -> str:
    """
    The path of a library, written as that of no other file: the dynamic loader of the system takes
    a path that it has loaded before for that file, though another model was saved there since.

        /srv/out/model.so -> /srv/out/.//./model.so    (the inode is 5, binary 101)
    """
    folder, name = os.path.split(os.path.realpath(library))
    digits = f"{os.stat(library).st_ino:b}"
    return folder + "".join("/." if digit == "1" else "/" for digit in digits) + "/" + name


def check_writable(folder: Path) -> None:
    """
    Raise if `save` would fail: `ExecutableError` because of the folder, `NoCompiler` if there is no
    compiler to link the library. This is quick; call it before a long compilation.
    """
    addons()
    folder = real_path(folder)
    try:
        _check_replaceable(folder)
        check_space(check_folder(folder.parent))
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _write(
    executable: ModelExecutable, scratch: Path, folder: Path, documents: Mapping[str, str]
) -> None:
    """Write to `folder`, by way of other files in `scratch`."""
    library = scratch / LIBRARY
    if executable.unused is None:
        raise ExecutableError("an executable that was loaded is saved already: copy its folder")
    try:
        executable.unused.export_library(library, addons())
    except RuntimeError as error:  # the linker's message, after a line of TVM
        said = str(error).strip().splitlines()
        raise OSError(f"the linker failed: {said[-1] if said else error}") from error
    library = library.rename(folder / LIBRARY)
    signature = replace(executable.signature, library=checksum_of(library))
    for name, text in {SIGNATURE: signature.to_json(), **documents}.items():
        (folder / name).write_text(text + "\n", "utf-8")


def _exchange(new: Path, old: Path) -> None:
    """Exchange two folders: in one step, where the file system can do that."""
    paths = os.fsencode(new), os.fsencode(old)
    if _renameat2(_HERE, paths[0], _HERE, paths[1], _EXCHANGE) == 0:
        return
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOSYS, errno.EXDEV):
        raise OSError(code, os.strerror(code), str(old))
    aside = new.with_name("old")
    old.rename(aside)
    new.rename(old)


_renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
_HERE = -100
"""`AT_FDCWD`: relative paths start at the current folder."""
_EXCHANGE = 2
"""`RENAME_EXCHANGE`."""


def _check_replaceable(folder: Path) -> None:
    if not is_in_utf8(folder):
        raise ExecutableError(
            f"cannot write {folder}: TVM takes only paths in UTF-8; name another folder"
        )
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
    return ExecutableError(f"cannot write {folder}: {cause_at(folder, error)}")
