"""The native backend: TVM makes each kernel, one fused and scheduled function."""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi
from tvm.target.codegen import llvm_get_cpu_archlist, llvm_is_valid_cpu

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NATIVE
from collage_dsl.backends.variants import VARIANTS, unpromising, unsuitable
from collage_dsl.graph import (
    Form,
    Graph,
    Node,
    TensorType,
    Toolchain,
    TupleType,
    Type,
    cores_of,
    items_of,
    libraries,
)
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.graph.operators import PACKED_CALLS
from collage_dsl.graph.sizes import UNKNOWN


@dataclass(frozen=True, slots=True)
class Tvm(Backend):
    """Kernels that TVM generates, with the schedules of `backends.schedule`."""

    @property
    def name(self) -> str:
        return NATIVE

    @property
    def version(self) -> str:
        return f"tvm {tvm.__version__}, kernels {_sources()}"

    def supports(self, graph: Graph) -> str | None:
        return next(filter(None, (_unsupported(graph, node) for node in graph.nodes)), None)

    @property
    def variants(self) -> tuple[str, ...]:
        return tuple(VARIANTS)

    def unsuitable(self, variant: str, graph: Graph, weights: Collection[int]) -> str | None:
        return unsuitable(variant, graph, weights)

    def unpromising(self, variant: str, graph: Graph) -> str | None:
        return unpromising(variant, graph)

    def schedule_variant(self, function: Any, target: Any, variant: str) -> Any:
        from collage_dsl.backends.schedule import schedule_variant

        return schedule_variant(function, variant, target=target)


_SORTED = frozenset(("float16", "float32", "float64", "int32", "int64"))
_SORTING = {"argsort": _SORTED, "sort": _SORTED, "topk": _SORTED | {"int8", "uint8"}}
"""The dtypes that the functions in TVM's runtime sort."""


_LEFT = {
    **dict.fromkeys(
        ("grad.no_grad", "grad.start_checkpoint", "grad.end_checkpoint"), "computes nothing"
    ),
    "vision.all_class_non_max_suppression": "is several functions of TVM, and no single kernel",
    **dict.fromkeys(("nn.attention_var_len", "wrap_param"), "has no code in TVM"),
}
"""Operators of which TVM makes no PrimFunc, or several and a shape between them, and why."""


def _unsupported(graph: Graph, node: Node) -> str | None:
    """Why TVM makes no kernel with `node`; None if it does."""
    if isinstance(node.value, OnnxNode):
        lacking = _without_shape(graph, node)
        return f"TVM has no operator for `{node.op}` at `{node.name}`{lacking}"
    if node.op in PACKED_CALLS:
        return f"`{node.attrs['function']}` is a packed function, of which TVM has no code"
    if node.op.startswith("ccl."):
        return f"`{node.op}` at `{node.name}` talks to other processes, which no kernel of TVM does"
    if node.op in _LEFT:
        return f"`{node.op}` at `{node.name}` {_LEFT[node.op]}"
    if node.is_call and not all(map(_is_shaped, _tensors(node.type))):
        return f"the shape of `{node.name}` is found as the model runs"
    if node.op == "eye_like" and _dtype(graph, node) != _tensors(node.type)[0].dtype:
        return f"TVM gives eye_like at `{node.name}` the dtype of its operand"
    if node.op == "image.grid_sample" and _mode(node) == ("nearest", "reflection"):
        return f"TVM makes no loops of grid_sample at `{node.name}`: the nearest after a reflection"
    known = _SORTING.get(node.op)
    data = graph.nodes[node.inputs[0]].type if known else None
    if known and isinstance(data, TensorType) and data.dtype not in known:
        return f"TVM does not sort {data.dtype}, as {node.op} at `{node.name}` does"
    return None


def _tensors(type_: Type) -> tuple[TensorType, ...]:
    """The tensors of a type; those of a tuple in order."""
    match type_:
        case TensorType():
            return (type_,)
        case TupleType(fields=fields):
            return tuple(tensor for each in fields for tensor in _tensors(each))
    return ()


def _is_shaped(type_: TensorType) -> bool:
    return type_.shape is not None and UNKNOWN not in type_.shape


def _dtype(graph: Graph, node: Node) -> str:
    """The dtype of the first operand."""
    return next((each.dtype for each in _tensors(graph.nodes[node.inputs[0]].type)), "")


def _mode(node: Node) -> tuple[object, object]:
    return node.attrs.get("method"), node.attrs.get("padding_mode")


def _without_shape(graph: Graph, node: Node) -> str:
    """The first input of the model that `node` takes and whose rank is not known; else empty."""
    for operand in (graph.nodes[index] for index in node.inputs):
        is_known = not isinstance(operand.type, TensorType) or operand.type.shape is not None
        if operand.form is Form.INPUT and not is_known:
            return f": the shape of input `{operand.name}` is not known; give the input a shape"
    return ""


@cache
def _sources() -> str:
    """
    A hash of the source of our schedules, of what lowers operators to loops, of the backend for
    GPUs, and of what runs kernels on several cores. Costs of others are not reused.
    """
    package = Path(__file__).parent.parent
    folders = (package / "backends" / "schedule", package / "realization")
    modules = sorted(path for folder in folders for path in folder.rglob("*.py"))
    others = "backends/gpu.py", "backends/gpu_functions.py", "backends/runtime/cores.cc"
    sources = [path.read_bytes() for path in (*modules, *map(package.joinpath, others))]
    return hashlib.sha256(b"\0".join(sources)).hexdigest()[:12]


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
