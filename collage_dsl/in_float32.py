"""
Compute operators in float32, between conversions, where onnxruntime has no kernel of their type: on
bfloat16, of which it has few, and on float64. A bfloat16 is rounded after each operator, as by
kernels of bfloat16 that sum in float32.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, count
from operator import attrgetter
from typing import TypeAlias

import onnx
import onnx.shape_inference
from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper

from collage_dsl.offline import onnxruntime_pybind11_state
from collage_dsl.onnx_nodes import graphs_of, nodes_within

_FLOAT = TensorProto.FLOAT
_AS_IT_IS = frozenset({"Cast", "CastLike", "Identity"})
"""Operators for all types, of which a number in float32 would be rounded twice."""

_OF_DTYPES = frozenset({"dtype", "output_dtype", "softmax_precision", "stash_type"})
"""The attributes that say with which type a node computes, or what it gives."""

_Types: TypeAlias = Mapping[str, TypeProto]


def without_bfloat16(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    `model` with conversions around the nodes on bfloat16; it is copied only if there are any.
    Nodes are left as they are in functions, and where the types of values cannot be inferred.
    """
    return _rewritten(model, TensorProto.BFLOAT16, lambda node: True)


def without_float64(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    The same for the nodes on float64 whose operators have no kernel of it. Results then have the
    precision of float32.
    """
    return _rewritten(model, TensorProto.DOUBLE, _lacks_float64)


def _rewritten(
    model: onnx.ModelProto, dtype: int, changes: Callable[[NodeProto], bool]
) -> onnx.ModelProto:
    if not has_dtype(model, dtype):
        return model
    if not any(map(changes, nodes_within(model.graph.node))):
        return model
    try:
        result = onnx.shape_inference.infer_shapes(model)
    except onnx.shape_inference.InferenceError:
        result = onnx.ModelProto()
        result.CopyFrom(model)
    _Rewriting(result, dtype, changes).rewrite(result.graph, {})
    return result


def has_dtype(model: onnx.ModelProto, dtype: int) -> bool:
    """Whether a value in `model` has a type of elements, by its number in ONNX."""
    bodies = [model.graph.node, *(each.node for each in model.functions)]
    nodes = [node for body in bodies for node in nodes_within(body)]
    graphs = [model.graph, *(graph for node in nodes for graph in graphs_of(node))]
    values = (value.type for graph in graphs for value in graph.input)
    tensors = (tensor for graph in graphs for tensor in graph.initializer)
    attributes = [each for node in nodes for each in node.attribute]
    return (
        any(_is_of(each, dtype) for type_ in values for each in _within(type_))
        or any(each.data_type == dtype for each in tensors)
        or any(each.t.data_type == dtype for each in attributes if each.HasField("t"))
        or any(each.i == dtype and each.name in {*_OF_DTYPES, "to"} for each in attributes)
    )


def _lacks_float64(node: NodeProto) -> bool:
    return _operator(node) not in _with_float64()


def _operator(node: NodeProto) -> tuple[str, str]:
    """The domain and the name of the operator."""
    return "" if node.domain == "ai.onnx" else node.domain, node.op_type


@cache
def _with_float64() -> frozenset[tuple[str, str]]:
    """The operators of which a kernel takes or gives float64, by domain and name."""
    return frozenset(
        (each.domain, each.op_name)
        for each in onnxruntime_pybind11_state.get_all_opkernel_def()
        if each.provider == "CPUExecutionProvider"
        and any("tensor(double)" in types for types in each.type_constraints.values())
    )


def between_conversions(
    node: NodeProto, wide: Mapping[str, str], dtype: int
) -> Iterator[NodeProto]:
    """
    `node` in float32 between the conversions that this needs. `wide` has new names for those of its
    operands and results that have the type `dtype`.
    """
    for name in filter(wide.__contains__, dict.fromkeys(node.input)):
        yield helper.make_node("Cast", [name], [wide[name]], to=_FLOAT)
    changed = NodeProto()
    changed.CopyFrom(node)
    changed.input[:] = [wide.get(name, name) for name in node.input]
    changed.output[:] = [wide.get(name, name) for name in node.output]
    for attribute in changed.attribute:
        _widen(attribute, dtype)
    yield changed
    for name in filter(wide.__contains__, node.output):
        yield helper.make_node("Cast", [wide[name]], [name], to=dtype)


def _widen(attribute: onnx.AttributeProto, dtype: int) -> None:
    """Name float32 where `attribute` names the type `dtype`, or holds numbers of it."""
    if attribute.name in _OF_DTYPES and attribute.i == dtype:
        attribute.i = _FLOAT
    if attribute.HasField("t") and attribute.t.data_type == dtype:
        numbers = numpy_helper.to_array(attribute.t).astype("float32")
        attribute.t.CopyFrom(numpy_helper.from_array(numbers, attribute.t.name))


@dataclass
class _Rewriting:
    """
    Adds conversions to the graphs of `model`, around the nodes on values of the type `dtype` that
    it `changes`.
    """

    model: onnx.ModelProto
    dtype: int
    changes: Callable[[NodeProto], bool]
    taken: set[str] = field(init=False)

    def __post_init__(self) -> None:
        nodes = list(nodes_within(self.model.graph.node))
        graphs = [self.model.graph, *(graph for node in nodes for graph in graphs_of(node))]
        self.taken = {name for node in nodes for name in (*node.input, *node.output)}
        for graph in graphs:
            self.taken |= {each.name for each in (*graph.input, *graph.output, *graph.initializer)}

    def rewrite(self, graph: onnx.GraphProto, outside: _Types) -> None:
        """Change `graph`, in which values from `outside` can be read."""
        types = {**outside, **dict(_declared(graph))}
        found: list[NodeProto] = []
        for node in graph.node:
            for inner in graphs_of(node):
                self.rewrite(inner, types)
            types.update(_results_by_schema(node, types))
            found += self._in_float32(node, types)
        copies = [NodeProto.FromString(node.SerializeToString()) for node in found]
        del graph.node[:]
        graph.node.extend(copies)

    def _in_float32(self, node: NodeProto, types: _Types) -> Iterator[NodeProto]:
        names = {name for name in (*node.input, *node.output) if name}
        is_of_tensors = all(types[name].HasField("tensor_type") for name in names & types.keys())
        found = {name for name in names & types.keys() if _is_of(types[name], self.dtype)}
        is_kept = node.op_type in _AS_IT_IS or any(graphs_of(node)) or not is_of_tensors
        if is_kept or not found or not self.changes(node):
            yield node
            return
        wide = {name: self._new(f"{name}.float32") for name in sorted(found)}
        yield from between_conversions(node, wide, self.dtype)

    def _new(self, name: str) -> str:
        """A name like `name` that is not taken."""
        new = next(each for at in chain([""], count()) if (each := f"{name}{at}") not in self.taken)
        self.taken.add(new)
        return new


def _declared(graph: onnx.GraphProto) -> Iterator[tuple[str, TypeProto]]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.WhichOneof("value"):
            yield value.name, value.type
    for tensor in graph.initializer:
        yield tensor.name, helper.make_tensor_type_proto(tensor.data_type, tensor.dims)


def _within(type_: TypeProto) -> Iterator[TypeProto]:
    """A type, and those of what is in a sequence or an optional."""
    yield type_
    if type_.HasField("sequence_type"):
        yield from _within(type_.sequence_type.elem_type)
    elif type_.HasField("optional_type"):
        yield from _within(type_.optional_type.elem_type)


def _is_of(type_: TypeProto, dtype: int) -> bool:
    return bool(type_.tensor_type.elem_type == dtype)


# ---- Results whose types ONNX does not infer, as of onnxruntime's own operators ----


def _results_by_schema(node: NodeProto, types: _Types) -> Iterator[tuple[str, TypeProto]]:
    """The types of results whose type is that of an operand, where they are not known yet."""
    if all(name in types for name in node.output if name):
        return
    signature = _signatures().get(_operator(node))
    if signature is None:
        return
    operands, results = signature
    known = {
        letter: types[name]
        for letter, name in zip(_letters(operands, len(node.input)), node.input, strict=True)
        if name in types
    }
    for letter, name in zip(_letters(results, len(node.output)), node.output, strict=True):
        if name and name not in types and letter in known:
            type_ = TypeProto()
            type_.CopyFrom(known[letter])
            if type_.HasField("tensor_type"):
                type_.tensor_type.ClearField("shape")
            yield name, type_


def _letters(formal: tuple[str, ...], count: int) -> list[str]:
    """The type constraints of `count` values; the last one is that of all further values."""
    return [formal[min(at, len(formal) - 1)] if formal else "" for at in range(count)]


@cache
def _signatures() -> Mapping[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]]:
    """
    The type constraints of operands and results in the newest version, by domain and name of the
    operator.
    """
    schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    return {
        (each.domain, each.name): (
            tuple(value.typeStr for value in each.inputs),
            tuple(value.typeStr for value in each.outputs),
        )
        for each in sorted(schemas, key=attrgetter("since_version"))
    }
