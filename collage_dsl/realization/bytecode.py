"""Keep a copy of a TVM executable from before it ran, so that saving it gives no warnings."""

import os
import weakref
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import tvm_ffi
from tvm import relax

_READ = "ffi.Module.load_from_file.relax.VMExecutable"


class UnusedExecutable:
    """
    A copy of an executable, made before a virtual machine runs it. The constants of the copy
    are in a temporary file.

    A virtual machine of TVM 0.27 adds an empty memory scope to its executable for each constant.
    TVM writes a warning to stderr for each of them when the executable is saved ("Scope
    Saving:"), and again whenever it is loaded ("Scope Loaded:").
    """

    def __init__(self, executable: Any) -> None:
        self._imports = executable.mod.imports
        descriptor, self._file = mkstemp(prefix="collage-")
        os.close(descriptor)
        weakref.finalize(self, os.unlink, self._file)
        executable.mod.write_to_file(self._file)

    def export_library(self, path: Path, addons: list[str]) -> None:
        """Write the shared library. `addons` are object files that are linked into it."""
        module = tvm_ffi.get_global_func(_READ)(self._file)
        for each in self._imports:
            module.import_module(each)
        relax.VMExecutable(module).export_library(str(path), addons=addons)
