"""Keep a copy of a TVM executable from before it ran, so that saving it gives no warnings."""

from pathlib import Path
from tempfile import TemporaryFile
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
        self._file = TemporaryFile()  # noqa: SIM115, it lives as long as this object
        executable.mod.write_to_file(self._path)

    def export_library(self, path: Path, addons: list[str]) -> None:
        """Write the shared library. `addons` are object files that are linked into it."""
        module = tvm_ffi.get_global_func(_READ)(self._path)
        for each in self._imports:
            module.import_module(each)
        relax.VMExecutable(module).export_library(str(path), fcompile=link, addons=addons)

    @property
    def _path(self) -> str:
        return f"/proc/self/fd/{self._file.fileno()}"
