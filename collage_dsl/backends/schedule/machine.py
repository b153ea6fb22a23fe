"""The properties of a processor that a schedule depends on."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm.target.codegen import llvm_cpu_has_features


@dataclass(frozen=True, slots=True)
class Dots:
    """
    An intrinsic of LLVM for each int32 of a vector: the sum of the products of `terms` numbers.

    With four terms, these are the bytes of an int32, unsigned ones times signed ones, and the
    products are added to a third operand (VNNI). With two terms, these are numbers of 16 bits.
    """

    intrinsic: str
    terms: int

    @property
    def unsigned(self) -> str:
        """The type of a number of the first operand."""
        return "uint8" if self.terms == 4 else "int16"

    @property
    def signed(self) -> str:
        """The type of a number of the second operand."""
        return "int8" if self.terms == 4 else "int16"

    def words(self, count: int) -> int:
        """The int32 that hold `count` numbers."""
        return -(-count // self.terms)


@dataclass(frozen=True, slots=True)
class Machine:
    """
    The processor of a target: floats in a vector register, vector registers, and cores.

    `dots` multiplies bytes; None if the processor has no instruction for it. `matrices` says that
    it also multiplies matrices of bytes. `broadcasts` is how many scalars are read, each into all
    lanes, while one vector is multiplied.
    """

    lanes: int
    registers: int
    cores: int
    dots: Dots | None = None
    matrices: bool = False
    broadcasts: int = 1

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds in one instruction for vectors, as x86 does with AVX2."""
        return self.lanes > 4

    @property
    def has_few_registers(self) -> bool:
        """Whether a tile of two vectors has the sums of 6 rows at most, and not of 14."""
        return self.registers <= 16


def machine_of(target: tvm.target.Target) -> Machine:
    """
    The machine that `target` names with `mcpu`, `mattr` and `num-cores`; one core if it names none.

    `llvm_get_vector_width` returns 512 for any x86 processor, so the CPU features decide instead.
    """
    cores = int(target.attrs.get("num-cores") or 1)
    if target.kind.name != "llvm":
        return Machine(lanes=4, registers=16, cores=cores)
    if llvm_cpu_has_features("avx512f", target):
        dots = _dots(target, "avx512vnni", 512)
        broadcasts = 2 if str(target.attrs.get("mcpu")) in _ONE_MULTIPLIER else 1
        matrices = _has_matrices(target, dots)
        return Machine(
            lanes=16,
            registers=32,
            cores=cores,
            dots=dots,
            matrices=matrices,
            broadcasts=broadcasts,
        )
    if llvm_cpu_has_features("avx2", target):
        return Machine(lanes=8, registers=16, cores=cores, dots=_dots(target, "avxvnni", 256))
    if "aarch64" in str(target.attrs.get("mtriple", "")):
        return Machine(lanes=4, registers=32, cores=cores, broadcasts=2)
    return Machine(lanes=4, registers=16, cores=cores)


_ONE_MULTIPLIER = frozenset({"icelake-client", "rocketlake", "tigerlake", "znver4"})
"""Processors that multiply one vector of 512 bits in a cycle. They read two scalars in a cycle."""


def _has_matrices(target: tvm.target.Target, dots: Dots | None) -> bool:
    """Whether code may use AMX, which a program has to ask Linux for."""
    triple = str(target.attrs.get("mtriple") or "linux")
    is_there = "linux" in triple and llvm_cpu_has_features("amx-int8", target)
    return is_there and dots is not None and dots.terms == 4


_FIRST_LLVM = 22  # the intrinsics of VNNI take bytes from this version on


def _dots(target: tvm.target.Target, feature: str, bits: int) -> Dots | None:
    is_known = tvm.get_global_func("target.llvm_version_major")() >= _FIRST_LLVM
    if is_known and llvm_cpu_has_features(feature, target):
        return Dots(f"llvm.x86.avx512.vpdpbusd.{bits}", terms=4)
    if bits == 256:
        return Dots("llvm.x86.avx2.pmadd.wd", terms=2)
    has_pairs = llvm_cpu_has_features("avx512bw", target)
    return Dots("llvm.x86.avx512.pmaddw.d.512", terms=2) if has_pairs else None
