"""
Give a call of TVM's machine several cores: the threads that `cores.cc` starts and shares.

Only calls of functions that `on_cores` returns use these threads, whatever the environment says
(`TVM_NUM_THREADS`, `TVM_BIND_THREADS`, `OMP_NUM_THREADS`). They are started by the first loop that
is shared. They sleep between calls, are bound to no core, and leave the caller's thread as it is.
"""

import os
from collections.abc import Callable
from typing import Any

import tvm_ffi

from collage_dsl.backends.runtime.build import load

_NAME = "collage.cores.v1"

THREAD = "collage-core"
"""The name of each of these threads, as the system shows it."""


def prepare_cores(cores: int) -> None:
    """
    Load what `on_cores` needs. Call it before the code of a model is loaded, which keeps the
    address of the function that runs its loops. A saved model brings its own.

    Raises `NoCompiler` if this needs a C++ compiler and there is none.
    """
    if cores > 1 and tvm_ffi.get_global_func(_NAME, allow_missing=True) is None:
        load()


def on_cores(function: Any, cores: int) -> Callable[..., Any]:
    """
    `function` of TVM, whose kernels may use so many cores in each call. With one, it is
    `function` itself.
    """
    if cores == 1:
        return function
    prepare_cores(cores)
    return tvm_ffi.get_global_func(_NAME)(function, cores)


def wake(cores: int) -> None:
    """Let the threads look for work, as they do while a model runs; soon they sleep again."""
    if cores > 1:
        prepare_cores(cores)
        tvm_ffi.get_global_func(f"{_NAME}.wake")(cores)


def processors() -> int:
    """The processors that this process may use; a target may name more cores than there are."""
    return len(os.sched_getaffinity(0))
