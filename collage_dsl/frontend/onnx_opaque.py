"""Keep an ONNX node as it is, where it has no form in Relax: as a model of this node alone."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper, numpy_helper

from collage_dsl.frontend.errors import CannotConvertError, FrontendError
from collage_dsl.frontend.onnx_check import schema_of
from collage_dsl.frontend.onnx_ml_shapes import with_ml_shapes
from collage_dsl.frontend.onnx_own_outputs import give_own_outputs
from collage_dsl.frontend.onnx_scope import names_read, renamed
from collage_dsl.frontend.onnx_types import dtype_of, is_foreign, type_named
from collage_dsl.frontend.reference import REFUSALS, reason_of, reference_session
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.offline import onnxruntime
from collage_dsl.onnx_nodes import nodes_within

_SMALL = 64
"""The most elements of a constant that may be a shape, an axis, or a number of repetitions."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """A node by itself, the names of the values that it takes and gives, and the types of these."""

    node: OnnxNode
    operands: tuple[str, ...]
    results: tuple[str, ...]
    types: tuple[TypeProto, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """The versions in a model that say what its nodes mean."""

    opsets: Mapping[str, int]
    ir_version: int


def header_of(model: onnx.ModelProto) -> Header:
    return Header({each.domain: each.version for each in model.opset_import}, model.ir_version)


def opaque(
    node: onnx.NodeProto,
    header: Header,
    used: Collection[str],
    type_of: Callable[[str], TypeProto],
    constant: Callable[[str], Array | None],
) -> Opaque:
    """
    The node by itself, with those of its outputs that are `used`. A value that it takes twice is
    two operands. `type_of` gives the types of values, `constant` the values of constants. Raises
    `CannotConvertError` where onnxruntime does not take the node.
    """
    reads = list(dict.fromkeys(names_read(node)))
    arrays = {name: array for name in reads if (array := constant(name)) is not None}
    inside = {name: array for name, array in arrays.items() if is_foreign(array)}
    taken = [*filter(None, node.input), *(name for name in reads if name not in node.input)]
    operands = [name for name in taken if name not in inside]
    results = [name for name in node.output if name and name in used]
    model = _model_of(node, header, operands, results, inside, type_of)
    known = {_operand(p): arrays[name] for p, name in enumerate(operands) if name in arrays}
    types = _typed(model, known)
    return Opaque(
        OnnxNode(model.SerializeToString(deterministic=True)), (*operands,), (*results,), types
    )


# ---- The model of one node ----


def _operand(place: int) -> str:
    return f"operand{place}"


def _model_of(
    node: onnx.NodeProto,
    header: Header,
    operands: Sequence[str],
    results: Sequence[str],
    inside: Mapping[str, Array],
    type_of: Callable[[str], TypeProto],
) -> onnx.ModelProto:
    """
    The model. All of its names are made here, so that equal nodes have equal models; but constants
    inside keep theirs as comments, by which a graph has them.
    """
    names = {name: _operand(place) for place, name in enumerate(operands)}
    names |= {name: f"constant{place}" for place, name in enumerate(inside)}
    made = {name: f"result{place}" for place, name in enumerate(results)}
    numbers = count()
    kept = renamed(node, names, lambda _: f"inner{next(numbers)}")
    give_own_outputs([kept])
    places = count()
    for at, name in enumerate(node.input):
        if name and name not in inside:
            kept.input[at] = _operand(next(places))
    outputs = [
        made.get(name) or (f"unused{place}" if _is_needed(node, place, header) else "")
        for place, name in enumerate(node.output)
    ]
    while outputs and not outputs[-1]:
        outputs.pop()
    del kept.output[:]
    kept.output.extend(outputs)
    graph = helper.make_graph(
        [kept],
        "node",
        [_declared(_operand(place), type_of(name)) for place, name in enumerate(operands)],
        [onnx.ValueInfoProto(name=name) for name in made.values()],
        [_named(_tensor(array, names[name]), name) for name, array in inside.items()],
    )
    domains = {each.domain for each in nodes_within([kept])} | {"", "ai.onnx"}
    known = {domain: version for domain, version in header.opsets.items() if domain in domains}
    # onnxruntime takes nodes of a domain that a model does not import.
    versions = dict.fromkeys(domains - {"", "ai.onnx"}, 1) | known
    opsets = [helper.make_opsetid(*each) for each in sorted(versions.items())]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=max(header.ir_version, 8))
    model.ClearField("producer_name")
    return model


def _is_needed(node: onnx.NodeProto, place: int, header: Header) -> bool:
    """Whether a node of this operator has to name this output, also where nobody uses it."""
    schema = schema_of(node.op_type, header.opsets.get(node.domain, 1), node.domain)
    is_named = bool(node.output[place])
    if schema is None or not schema.outputs or node.op_type == "BatchNormalization":
        return is_named  # A `BatchNormalization` has one output or all.
    formal = schema.outputs[min(place, len(schema.outputs) - 1)]  # The last may be repeated.
    return formal.option != onnx.defs.OpSchema.FormalParameterOption.Optional


def _declared(name: str, type_: TypeProto) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=type_)


def _tensor(array: Array, name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(array, name)


def _named(tensor: onnx.TensorProto, name: str) -> onnx.TensorProto:
    tensor.doc_string = name
    return tensor


# ---- Types ----


def _typed(model: onnx.ModelProto, constants: Mapping[str, Array]) -> tuple[TypeProto, ...]:
    """
    The types of the outputs of `model` as ONNX infers them, and onnxruntime; `model` declares them
    afterwards. Small constants count, since they may be shapes; but not empty ones, of which ONNX
    reads the first element where it expects one, and ends the process.
    """
    sized = onnx.ModelProto()
    sized.CopyFrom(model)
    small = {name: array for name, array in constants.items() if 0 < array.size <= _SMALL}
    sized.graph.initializer.extend(_tensor(array, name) for name, array in small.items())
    kept = [value for value in model.graph.input if value.name not in small]
    del sized.graph.input[:]
    sized.graph.input.extend(kept)
    types = _inferred(sized.SerializeToString(deterministic=True))
    for value, type_ in zip(model.graph.output, types, strict=True):
        value.type.CopyFrom(_without_sizes(type_))
    return types


_MOST_TRIED = 1 << 22
"""The most elements of an operand of a node that is run to see whether its shapes fit."""


def refusal(found: Opaque, constant: Callable[[str], Array | None]) -> str:
    """
    Why onnxruntime cannot run a node on operands of these shapes, whatever their values; empty if
    it can, and if this is not known. Not all shapes that do not fit are seen by inference.
    """
    model = onnx.ModelProto.FromString(found.node.model)
    feeds = {}
    for name, value in zip(found.operands, model.graph.input, strict=True):
        array = constant(name)
        if array is None:
            dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            is_float = dtype_of(value.type).startswith("float")
            if not is_float or not all(dims) or prod(dims) > _MOST_TRIED:
                return ""
            array = np.ones(dims, dtype_of(value.type))
        feeds[value.name] = array
    held = {name: onnxruntime.OrtValue.ortvalue_from_numpy(feeds[name]) for name in feeds}
    try:
        # A result may be of numbers that numpy lacks, which `run` does not give.
        reference_session(model).run_with_ort_values(None, held)
    except REFUSALS as error:
        return reason_of(error)
    return ""


@lru_cache(maxsize=1024)
def _inferred(model: bytes) -> tuple[TypeProto, ...]:
    """The types of the outputs. Raises `CannotConvertError` where onnxruntime refuses the model."""
    loaded = onnx.ModelProto.FromString(model)
    try:
        session = reference_session(loaded)
    except FrontendError as error:
        said = str(error).replace("refuses the model", "refuses the node")
        raise CannotConvertError(said) from None
    if (node := loaded.graph.node[0]).op_type == "STFT" and not node.attribute:
        node.attribute.append(helper.make_attribute("onesided", 1))  # Inference takes it for 0.
    try:
        inferred = onnx.shape_inference.infer_shapes(loaded, data_prop=True)
    except onnx.shape_inference.InferenceError:
        inferred = loaded
    types = tuple(map(_more_known, inferred.graph.output, session.get_outputs()))
    types = with_ml_shapes(loaded, types)
    has_nothing = any(0 in _sizes(value.type) for value in loaded.graph.input)
    is_doubtful = (bool(node.domain) or not has_nothing) and any(
        0 in _sizes(type_) for type_ in types
    )
    right = 0 if is_doubtful else _RIGHTLY_INFERRED.get(node.op_type, len(types))
    if node.domain and node.op_type == "GatherND":
        return tuple(map(_without_sizes, types))
    return (*types[:right], *map(_of_rank, types[right:]))


_RIGHTLY_INFERRED = {"GroupQueryAttention": 1}
"""
How many of the first outputs get right sizes by inference, where others do not: to
`GroupQueryAttention`, as if nothing was added to the past.
Inference gives a size of 0 to operators of onnxruntime if that of an operand has a name, and to
`Attention` if one operand has four dimensions and another three. Of onnxruntime's own `GatherND`,
not even the rank is right.
"""


def _sizes(type_: TypeProto) -> list[int]:
    dims = type_.tensor_type.shape.dim
    return [dim.dim_value for dim in dims if dim.HasField("dim_value")]


def _of_rank(type_: TypeProto) -> TypeProto:
    """A tensor type without the sizes of its dimensions."""
    result = TypeProto()
    result.CopyFrom(type_)
    for dim in result.tensor_type.shape.dim:
        dim.Clear()
    return result


def _more_known(inferred: onnx.ValueInfoProto, told: Any) -> TypeProto:
    """The type of an output as ONNX infers it; what ONNX does not know, as onnxruntime does."""
    type_, known = TypeProto(), type_named(told.type)
    type_.CopyFrom(inferred.type if inferred.type.WhichOneof("value") else known)
    if not type_.HasField("tensor_type"):
        return type_
    tensor = type_.tensor_type
    tensor.elem_type = tensor.elem_type or known.tensor_type.elem_type
    # No dimensions are said of a scalar, and of a tensor of unknown rank.
    if told.shape and not tensor.HasField("shape"):
        tensor.CopyFrom(helper.make_tensor_type_proto(tensor.elem_type, told.shape).tensor_type)
    if len(tensor.shape.dim) == len(told.shape):
        for dim, size in zip(tensor.shape.dim, told.shape, strict=True):
            if not dim.HasField("dim_value") and isinstance(size, int):
                dim.dim_value = size
    return type_


def _without_sizes(type_: TypeProto) -> TypeProto:
    result = TypeProto()
    result.CopyFrom(type_)
    if result.HasField("tensor_type"):
        result.tensor_type.ClearField("shape")
    return result
