"""The TVM target of a toolchain, and whether its code runs on this machine."""

from difflib import get_close_matches
from typing import Any

import tvm
import tvm_ffi
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_is_valid_cpu

from collage_dsl.backends.instructions import absent, hidden, host_cpu, instructions
from collage_dsl.backends.registry import NATIVE
from collage_dsl.graph import Toolchain, cores_of, items_of, libraries


def num_cores(toolchain: Toolchain) -> int:
    """How many cores a kernel may use: the option `num_cores`; default 1."""
    return cores_of(toolchain.options)


def machine_target(toolchain: Toolchain) -> dict[str, Any]:
    """
    The TVM target of `toolchain` as a dictionary. For llvm, the processor is that of this machine,
    without the instructions that are `hidden` here, unless the option `mcpu` names another.
    """
    options: dict[str, Any] = {
        key.replace("_", "-"): value for key, value in toolchain.options.items()
    }
    if options.pop("fast-math", False):
        options = {f"fast-math-{rule}": True for rule in _FAST} | options
    if "libs" in options:
        options["libs"] = libraries(toolchain)
    if toolchain.kind != "llvm":
        return {"kind": toolchain.kind, **options}
    if "mcpu" not in options and (without := hidden(host_cpu())):
        options["mattr"] = [*without, *items_of(toolchain.options, "mattr")]
    return {"kind": "llvm", "mcpu": host_cpu(), "num-cores": 1, **options}


_FAST = ("nnan", "ninf", "nsz", "arcp", "contract")
"""
What `fast_math` allows, in LLVM's words. That of TVM lets LLVM add in any order too (`reassoc`),
which makes `exp` wrong in TVM 0.27: it rounds by adding a large number and subtracting it again.
"""


def tvm_target(toolchain: Toolchain) -> Any:
    """The `tvm.target.Target` of `toolchain`."""
    return tvm.target.Target(machine_target(toolchain))


def kernel_target(toolchain: Toolchain) -> Any:
    """`tvm_target` without the compiler's own options, which TVM does not know."""
    options = machine_target(toolchain)
    known = tvm.target.Target(toolchain.kind).kind.options
    return tvm.target.Target({n: v for n, v in options.items() if n == "kind" or n in known})


def host_target() -> Any:
    """One core of this machine as a TVM target."""
    return tvm_target(Toolchain(NATIVE))


def ignored(toolchain: Toolchain) -> str:
    """What LLVM does not understand of the processor that a target names; empty if nothing."""
    if toolchain.kind != "llvm":
        return ""
    triple, name = triple_of(toolchain), str(toolchain.options.get("mcpu", ""))
    if name and not llvm_is_valid_cpu(name, triple):
        known = llvm_get_cpu_archlist(tvm.target.Target({"kind": "llvm", "mtriple": triple}))
        close = get_close_matches(name, map(str, known), n=1)
        meant = f" (did you mean `{close[0]}`?)" if close else ""
        return (
            f"LLVM knows no processor `{name}` for {triple}{meant}; without the option `mcpu`, "
            f"code is for the processor of this machine, `{host_cpu()}`"
        )
    for each in items_of(toolchain.options, "mattr"):
        if not each.startswith(("+", "-")):
            return f"LLVM takes `{each}` in `mattr` for `-{each}`: write `+{each}` or `-{each}`"
    return ""


def foreign(toolchain: Toolchain) -> str:
    """Why code of a target does not run on this machine; empty if it does."""
    if toolchain.kind != "llvm":
        return ""
    made_for, here = (
        _architecture(t) for t in (triple_of(toolchain), triple_of(Toolchain(NATIVE)))
    )
    if made_for != here:
        return f"its code is for {made_for}, and this machine is a {here}"
    if missing := absent(instructions(kernel_target(toolchain))):
        return (
            f"its code is for the processor `{machine_target(toolchain)['mcpu']}`, with "
            f"instructions that this machine does not have ({', '.join(missing)})"
        )
    return ""


def triple_of(toolchain: Toolchain) -> str:
    """LLVM's name for the system that code is for, such as `x86_64-conda-linux-gnu`."""
    usual = tvm_ffi.get_global_func("tvm.codegen.llvm.GetDefaultTargetTriple")
    return str(toolchain.options.get("mtriple") or usual())


def _architecture(triple: str) -> str:
    name = triple.partition("-")[0]
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)
