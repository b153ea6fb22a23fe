"""The processor of this machine, and the instructions that it has."""

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
    return tuple(f"-{each}" for each in absent(instructions({"kind": "llvm", "mcpu": processor})))


def instructions(target: Any) -> frozenset[str]:
    """
    The instructions for numbers and vectors that code for `target` may have, by LLVM's names, such
    as `avx512f`. None are known of processors that are not x86.
    """
    target = tvm.target.Target(target)
    if target.kind.name != "llvm":
        return frozenset()
    features = map(str, tvm_ffi.get_global_func("target.llvm_get_cpu_features")(target))
    return frozenset(each for each in features if each.startswith(_FOR_NUMBERS))


_FOR_NUMBERS = ("avx", "sse", "fma", "f16c", "bmi")


def absent(needed: Iterable[str]) -> list[str]:
    """Those of the instructions that this machine does not have: code with them ends a process."""
    is_there = tvm_ffi.get_global_func("tvm.codegen.llvm.GetHostCPUFeatures")()
    return sorted(each for each in needed if not is_there.get(each, True))
