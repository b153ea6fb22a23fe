"""The processor of this machine, and the instructions that it has."""

import ctypes
import platform
import sys
from collections.abc import Iterable
from functools import cache
from typing import Any

import tvm
import tvm_ffi


@cache
def host_cpu() -> str:
    """LLVM's name for the processor of this machine, such as `znver4`."""
    return str(tvm_ffi.get_global_func("target.llvm_get_system_cpu")())


@cache
def hidden(processor: str) -> tuple[str, ...]:
    """
    For the option `mattr`: without which instructions code for `processor` runs here, as
    `-avx512f`. A virtual machine can hide instructions that its processor has.
    """
    target = tvm.target.Target({"kind": "llvm", "mcpu": processor})
    lacking = absent(instructions(target))
    matrices = _features(target, ("amx",))
    refused = absent(matrices) if _may_use_matrices() else sorted(matrices)
    return tuple(f"-{each}" for each in (*lacking, *refused))


USE_MATRICES = 158, 0x1023, 18
"""
The system call of Linux on x86-64 that asks to let a process use the registers of AMX: arch_prctl,
ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA. It returns 0 if the process may.
"""


def _may_use_matrices() -> bool:
    is_known = sys.platform.startswith("linux") and platform.machine() == "x86_64"
    return is_known and ctypes.CDLL(None).syscall(*map(ctypes.c_long, USE_MATRICES)) == 0


def instructions(target: Any) -> frozenset[str]:
    """
    The instructions for numbers and vectors that code for `target` may have, by LLVM's names, such
    as `avx512f`. None are known of processors that are not x86.
    """
    return _features(tvm.target.Target(target), _FOR_NUMBERS)


def _features(target: tvm.target.Target, prefixes: tuple[str, ...]) -> frozenset[str]:
    if target.kind.name != "llvm":
        return frozenset()
    features = map(str, tvm_ffi.get_global_func("target.llvm_get_cpu_features")(target))
    return frozenset(each for each in features if each.startswith(prefixes))


_FOR_NUMBERS = ("avx", "sse", "fma", "f16c", "bmi")
"""Without those for matrices (`amx`), which LLVM does not use by itself: code with them asks."""


def absent(needed: Iterable[str]) -> list[str]:
    """Those of the instructions that this machine does not have: code with them ends a process."""
    is_there = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return sorted(each for each in needed if not is_there.get(each, True))
