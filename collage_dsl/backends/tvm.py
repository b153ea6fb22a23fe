"""The native backend: TVM makes each kernel, one fused and scheduled function."""

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import tvm
from tvm import s_tir, tirx

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NATIVE
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.backends.variants import VARIANTS, unpromising, unsuitable
from collage_dsl.graph import (
    Form,
    Graph,
    Node,
    TensorType,
    Toolchain,
    TupleType,
    Type,
)
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.graph.operators import CALL_TIR, PACKED_CALLS
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

    def unpromising(self, variant: str, graph: Graph, toolchain: Toolchain) -> str | None:
        few_registers, sums_bytes = _facts(toolchain.by())
        return unpromising(variant, graph, few_registers=few_registers, sums_bytes=sums_bytes)

    def schedule_variant(self, function: Any, target: Any, variant: str) -> Any:
        from collage_dsl.backends.schedule import schedule_variant

        return schedule_variant(function, variant, target=target)


@cache
def _facts(toolchain: Toolchain) -> tuple[bool, bool]:
    """Whether the processor has few registers, and whether it multiplies and adds bytes."""
    from collage_dsl.backends.schedule.machine import machine_of

    machine = machine_of(kernel_target(toolchain))
    return machine.has_few_registers, machine.dots is not None and machine.dots.terms == 4


_SORTED = frozenset(("float16", "float32", "float64", "int32", "int64"))
_SORTING = {"argsort": _SORTED, "sort": _SORTED, "topk": _SORTED | {"int8", "uint8"}}
"""The dtypes that the functions in TVM's runtime sort."""


_LEFT = {
    **dict.fromkeys(
        ("grad.no_grad", "grad.start_checkpoint", "grad.end_checkpoint"), "computes nothing"
    ),
    "builtin.stop_lift_params": "is for LiftTransformParams, which removes it",
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
    if node.op == CALL_TIR and not has_root_block(node.value):
        return f"`{node.attrs['function']}` has no root block (`T.sblock`), so TVM does not fuse it"
    if node.op.startswith(("ccl.", "dist.")):
        return f"`{node.op}` at `{node.name}` talks to other processes, which no kernel of TVM does"
    if node.op in _LEFT:
        return f"`{node.op}` at `{node.name}` {_LEFT[node.op]}"
    if node.is_call and not all(map(_is_shaped, _tensors(node.type))):
        return f"the shape of `{node.name}` is found as the model runs"
    if node.op == "eye_like" and _dtype(graph, node) != _tensors(node.type)[0].dtype:
        return f"TVM gives eye_like at `{node.name}` the dtype of its operand"
    is_reflected = node.op == "image.grid_sample" and _mode(node) == ("nearest", "reflection")
    if is_reflected and _dtype(graph, node) != "float32":
        return (
            f"TVM makes no loops of grid_sample at `{node.name}`: the nearest after a reflection, "
            "but of float32"
        )
    known = _SORTING.get(node.op)
    data = graph.nodes[node.inputs[0]].type if known else None
    if known and isinstance(data, TensorType) and data.dtype not in known:
        return f"TVM does not sort {data.dtype}, as {node.op} at `{node.name}` does"
    return None


def has_root_block(function: Any) -> bool:
    """Whether TVM fuses and schedules a PrimFunc. One that only a text names is taken to be so."""
    is_known = isinstance(function, tirx.PrimFunc)
    return not is_known or isinstance(function.body, s_tir.SBlockRealize)


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
    """The first operand whose shape is not known before the model runs; empty if there is none."""
    for operand in (graph.nodes[index] for index in node.inputs):
        tensors = _tensors(operand.type)
        if operand.form is Form.INPUT and any(each.shape is None for each in tensors):
            # An input of a kernel is one of the model, or the result of another kernel.
            return (
                f": the shape of `{operand.name}` is not known before the model runs; if it is an "
                "input of the model, give it a shape"
            )
        if not all(map(_is_shaped, tensors)):
            return f": the shape of `{operand.name}` is found as the model runs"
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
