"""Keep a copy of a TVM executable from before it ran, so that saving it gives no warnings."""

import os
import shutil
import tempfile
import weakref
from errno import ENOSPC
from pathlib import Path
from typing import Any

import tvm_ffi
from tvm import relax

from collage_dsl.backends.runtime.build import link

_READ = "ffi.Module.load_from_file.relax.VMExecutable"


class UnusedExecutable:
    """
    A copy of an executable, made before a virtual machine runs it. The constants of the copy
    are in a temporary file without a name, which the system removes even if this process is killed.

    A virtual machine of TVM 0.27 adds an empty memory scope to its executable for each constant.
    TVM writes a warning to stderr for each of them when the executable is saved ("Scope
    Saving:"), and again whenever it is loaded ("Scope Loaded:").
    """

    def __init__(self, executable: Any) -> None:
        self._imports = executable.mod.imports
        file = tempfile.TemporaryFile()  # noqa: SIM115, it lives as long as this object
        weakref.finalize(self, file.close)
        self._descriptor = file.fileno()
        executable.mod.write_to_file(self._path)
        self._size = _size_if_whole(self._descriptor)

    def export_library(self, path: Path, addons: list[str]) -> None:
        """
        Write the shared library. `addons` are object files that are linked into it. Raises
        `OSError` if there is little space in its folder, where temporary files are too.
        """
        check_space(path.parent, 2 * self._size)
        module = tvm_ffi.get_global_func(_READ)(self._path)
        for each in self._imports:
            module.import_module(each)
        relax.VMExecutable(module).export_library(
            str(path), fcompile=link, addons=addons, workspace_dir=str(path.parent)
        )

    @property
    def _path(self) -> str:
        return f"/proc/self/fd/{self._descriptor}"


def check_space(folder: Path, size: int = 0) -> None:
    """
    Raise `OSError` unless `folder` has space for `size` bytes of constants, and for code. LLVM ends
    the process if it cannot write a file.
    """
    if shutil.disk_usage(folder).free < size + _CODE:
        needed = (size + _CODE) >> 20
        raise OSError(ENOSPC, f"less than {needed} MB are free in {folder}")


_CODE = 32 << 20
"""More bytes than the code of a model takes, as an object file and in the library."""


def _size_if_whole(descriptor: int) -> int:
    """
    The size of a file that TVM wrote, which does not notice a full disk. Raises `OSError`
    if there is no space to write more.
    """
    size = os.fstat(descriptor).st_size
    try:
        os.posix_fallocate(descriptor, size, _PAGES)
    except OSError as error:
        folder = os.path.realpath(tempfile.gettempdir())
        raise OSError(error.errno, f"{error.strerror} in {folder}") from error
    os.ftruncate(descriptor, size)
    return size


_PAGES = 1 << 16
"""More bytes than can be left in the last block of a file."""
