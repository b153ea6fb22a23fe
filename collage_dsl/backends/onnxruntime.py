"""The backend `onnxruntime`: each kernel is one session, with its constants inside."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx

from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.engines import pack
from collage_dsl.backends.onnx_writer import OPSET, Unsupported, outline, to_onnx
from collage_dsl.backends.runtime.build import kernel_library, make_module
from collage_dsl.crashes import may_crash, without_crashes
from collage_dsl.graph import Form, Graph, Option, tensors
from collage_dsl.graph.sizes import UNKNOWN, follows
from collage_dsl.in_float32 import without_bfloat16
from collage_dsl.offline import onnxruntime, onnxruntime_pybind11_state
from collage_dsl.onnx_nodes import nodes_within

_WRITER = 4
"""The version of the models that sessions get; costs of another version are not reused."""

Kernel = Mapping[str, Sequence[str]]
"""The dtypes that a kernel of onnxruntime accepts, by the name of a type variable or operand."""


@dataclass(frozen=True, slots=True)
class OnnxRuntime(LibraryBackend):
    """
    Kernels that onnxruntime's CPU provider runs.

    The option `num_cores` of a target sets the number of threads that run a kernel; default 1.
    """

    @property
    def name(self) -> str:
        return "onnxruntime"

    @property
    def version(self) -> str:
        return f"onnxruntime {onnxruntime.__version__}, opset {OPSET}, writer {_WRITER}"

    def prepare(self) -> None:
        kernel_library()

    def supports(self, graph: Graph) -> str | None:
        reason = _unfit(graph)
        if reason is not None:
            return reason
        try:
            model, kept = outline(graph)
            return _without_kernel(without_bfloat16(model), kept)
        except Unsupported as unsupported:
            return str(unsupported)

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        model, constants = to_onnx(graph)
        if may_crash(model):
            model = without_crashes(model, _inferred(outline(graph)[0]).value_info)
        model = without_bfloat16(model)
        payload = pack(
            model.SerializeToString(),
            options,
            sorted(_never_changed(model)),
            _left_out(model, graph),
        )
        return make_module(symbol, "onnxruntime", payload, constants)


_WEIGHTS = {"Conv": 1, "ConvTranspose": 1, "Gather": 0, "Gemm": 1, "MatMul": 1}
"""Operators of large constants, and where these are. No optimisation moves axes past them."""


def _never_changed(model: onnx.ModelProto) -> set[str]:
    """
    The constants that a session can use where they are. When onnxruntime moves a transposition past
    an operator, it transposes the other operand, if that is constant, under the same name.
    """
    uses = {tensor.name: True for tensor in model.graph.initializer}
    for node in nodes_within(model.graph.node):
        for place, name in enumerate(node.input):
            if name in uses:
                uses[name] &= _WEIGHTS.get(node.op_type) == place
    results = {value.name for value in model.graph.output}
    return {name for name, is_weight in uses.items() if is_weight} - results


def _left_out(model: onnx.ModelProto, graph: Graph) -> list[str]:
    """
    The optimisations that do harm. The one that makes a transposition a part of a product may end
    the process after a later pass, if it moves a cast, which onnxruntime itself puts before
    each product of float16, past a transposition of the first axis (microsoft/onnxruntime#28392).
    The one that makes signed bytes unsigned gives blocks one zero point for all, which fails.
    """
    nodes = list(nodes_within(model.graph.node))
    types = {type_.dtype for node in graph.nodes for type_ in tensors(node.type)}
    has_cast = any(n.op_type == "Cast" for n in nodes) or not types.isdisjoint(_CAST)
    has_product = any(n.op_type.endswith("MatMul") for n in nodes)
    may_end = has_cast and has_product and any(map(_moves, nodes))
    found = ["MatmulTransposeFusion"] if may_end else []
    return [*found, "QDQS8ToU8Transformer"] if any(map(_has_plain_blocks, nodes)) else found


_CAST = ("float16", "bfloat16")


def _moves(node: onnx.NodeProto) -> bool:
    """Whether this transposes the first axis."""
    if node.op_type != "Transpose":
        return False
    order = next((list(each.ints) for each in node.attribute if each.name == "perm"), [])
    return not order or order[0] != 0


def _has_plain_blocks(node: onnx.NodeProto) -> bool:
    """Whether this quantizes or dequantizes in blocks, without zero points."""
    if node.op_type not in ("DequantizeLinear", "QuantizeLinear") or any(node.input[2:]):
        return False
    return any(each.name == "block_size" and each.i for each in node.attribute)


def _unfit(graph: Graph) -> str | None:
    """
    Why the outputs of `graph` cannot be allocated. Those with a shape that no name describes are
    not: onnxruntime allocates them.
    """
    at_border = [node for node in graph.nodes if node.form in (Form.INPUT, Form.CONSTANT)]
    given = {dim for node in at_border for type_ in tensors(node.type) for dim in type_.shape or ()}
    for node in (graph.nodes[i] for i in graph.outputs):
        for type_ in tensors(node.type):
            if not all(dim == UNKNOWN or follows(dim, given) for dim in type_.shape or ()):
                return f"the shape of `{node.name}` does not follow from the inputs': {type_}"
    return None


# ---- Whether onnxruntime has kernels ----


def _without_kernel(model: onnx.ModelProto, kept: Collection[str]) -> str | None:
    """
    Why onnxruntime has no kernel for some node of `model`; None if it has one for each. It has
    taken those that are `kept` already, and has those that are of its own domain.
    """
    dtypes = _dtypes(model)
    for node in model.graph.node:
        if node.name in kept or node.domain:
            continue
        schema = onnx.defs.get_schema(node.op_type, OPSET)
        wanted = dict(_wanted(node, schema, dtypes))
        if not any(_takes(kernel, wanted) for kernel in _kernels(node.op_type, schema)):
            types = ", ".join(dict.fromkeys(wanted.values()))
            return f"onnxruntime has no kernel of {node.op_type} for {types}"
    return None


def _dtypes(model: onnx.ModelProto) -> Mapping[str, str]:
    """The dtype of each value, in the notation of onnxruntime: `tensor(float)`."""
    graph = _inferred(model)
    values = {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.value_info)}
    values |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    values |= {v.name: v.type.tensor_type.elem_type for v in graph.output}
    return {name: f"tensor({_spelled(dtype)})" for name, dtype in values.items()}


def _inferred(model: onnx.ModelProto) -> onnx.GraphProto:
    return onnx.shape_inference.infer_shapes(model).graph


def _spelled(dtype: int) -> str:
    name = str(onnx.TensorProto.DataType.Name(dtype)).lower()
    # Nodes without a float16 kernel run in float32: onnxruntime puts casts around them.
    return "float" if name == "float16" else name


def _wanted(
    node: onnx.NodeProto, schema: Any, dtypes: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The dtype of each operand, by type variable and by the formal name of the operand."""
    for place, value in enumerate(node.input):
        formal = schema.inputs[min(place, len(schema.inputs) - 1)]
        if value in dtypes:
            yield formal.type_str, dtypes[value]
            yield formal.name, dtypes[value]


def _takes(kernel: Kernel, wanted: Mapping[str, str]) -> bool:
    return all(wanted[name] in dtypes for name, dtypes in kernel.items() if name in wanted)


def _kernels(op: str, schema: Any) -> Iterator[Kernel]:
    since = schema.since_version
    for (first, last), kernel in _cpu_kernels().get(op, ()):
        if first <= since <= last:
            yield kernel


@cache
def _cpu_kernels() -> Mapping[str, Sequence[tuple[tuple[int, int], Kernel]]]:
    """The kernels of onnxruntime by operator, each with the first and last opset version."""
    kernels: dict[str, list[tuple[tuple[int, int], Kernel]]] = {}
    for each in onnxruntime_pybind11_state.get_all_opkernel_def():
        if each.provider == "CPUExecutionProvider" and each.domain == "":
            kernels.setdefault(each.op_name, []).append((each.version_range, each.type_constraints))
    return kernels
