"""Models and arrays of which the numbers differ by rounding: what they give is as right."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from collage_dsl.frontend.onnx_upgrade import opset_of
from collage_dsl.graph.arrays import Array

SHAKE = 2.0**-21
"""How much numbers are changed to see what rounding does: a few units of the precision."""

SUM_SHAKE = 2.0**-16
"""
What rounding does to the sum of some thousand products, as a change of each. With n of them the
error grows with the root of n, and with n where all have one sign; a change of all in the same
direction shows the latter.
"""

_FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)

_DECIDING = re.compile(
    r"Quantize|QLinear|^Greater|^Less|^TreeEnsemble"
    r"|^(ArgMax|ArgMin|Ceil|Floor|Hardmax|NonMaxSuppression|Round|Sign|TopK)$"
)
"""
Operators of ONNX, by their names, that decide by numbers: they make integers or truth values of
them, or choose some. A small change of these numbers may change the result much.
"""


def is_float(array: Any) -> bool:
    if not isinstance(array, np.ndarray):
        return False
    return array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16


def decides(model: onnx.ModelProto) -> bool:
    """Whether `model` decides by numbers inside: it rounds them to integers, or compares them."""
    return any(map(_is_deciding, model.graph.node))


def _is_deciding(node: NodeProto) -> bool:
    return bool(_DECIDING.search(node.op_type))


def shaken(array: Array, generator: np.random.Generator, unit: float = SHAKE) -> Array:
    """`array` with every number changed by `unit` of it, up or down."""
    if not is_float(array):
        return array
    unit = max(unit, 4 * float(ml_dtypes.finfo(array.dtype).eps))
    return scaled(array, 1 + unit * generator.choice((-1.0, 1.0), array.shape))


def scaled(array: Array, factors: Array) -> Array:
    if not is_float(array):
        return array
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(array * factors, array.dtype)


def with_shaken_values(
    model: onnx.ModelProto, generator: np.random.Generator, unit: float = SHAKE
) -> onnx.ModelProto:
    """
    `model` with every weight that is a floating point number changed by `unit` of it, and every
    such value that integers are rounded from, or that is compared, by up to `unit`. Weights alone
    do not show which values are halfway between two integers, where one scale is multiplied by and
    divided by. Sums of products are also changed by as much of the largest of them, and by more if
    the model has them once: where products cancel out, or Winograd's algorithm computes them, small
    sums err as much as large ones. What decides sizes stays: by other `scales`, onnxruntime resizes
    nothing.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    kept = _deciding_sizes(model.graph)
    for tensor in result.graph.initializer:
        if tensor.data_type in _FLOATS and tensor.name not in kept:
            array = shaken(numpy_helper.to_array(tensor), generator, unit)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    _shake_values(result, generator, unit)
    return result


def _shake_values(model: onnx.ModelProto, generator: np.random.Generator, unit: float) -> None:
    """Multiply what nodes compute before a decision by random numbers next to 1, in `model`."""
    before = _before_deciding(model.graph)
    if not before:
        return
    fixed = _deciding_sizes(model.graph)
    is_new = opset_of(model) >= _NEW
    elements = _element_types(model)
    sums = [node for node in model.graph.node if node.op_type in _SUMS]
    of_sums = max(unit, SUM_SHAKE) / unit if len(sums) == 1 else 1.0
    nodes: list[NodeProto] = []
    other_names: dict[str, str] = {}
    for place, node in enumerate(model.graph.node):
        if place in before:
            for at, name in enumerate(node.input):
                node.input[at] = other_names.get(name, name)
        nodes.append(node)
        if place not in before:
            continue
        for name in node.output:
            if elements.get(name) in _FLOATS and name not in fixed:
                other_names[name] = f"{name}.shaken"
                nodes += _shaking(name, elements[name], is_new, generator, unit)
                if node.op_type in _SUMS and elements[name] == TensorProto.FLOAT:
                    nodes += _moving(name, of_sums)
                    other_names[name] = f"{name}.moved"
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _shaking(
    name: str, element: int, is_new: bool, generator: np.random.Generator, unit: float
) -> Iterator[NodeProto]:
    """The nodes that compute `<name>.shaken` of a floating point value."""
    eps = float(ml_dtypes.finfo(helper.tensor_dtype_to_np_dtype(element)).eps)
    change, seed = max(unit, 4 * eps), int(generator.integers(1 << 20))
    factors = f"{name}.factors"
    chosen = _chosen if is_new else _drawn
    yield from chosen(name, f"{factors}.f32", change, seed)
    yield helper.make_node("Cast", [f"{factors}.f32"], [factors], to=element)
    yield helper.make_node("Mul", [name, factors], [f"{name}.shaken"])


_SUMS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
"""Operators that sum products."""


def _moving(name: str, times: float) -> Iterator[NodeProto]:
    """
    The nodes that compute `<name>.moved`: `<name>.shaken`, and so many `times` as much more as its
    factors make of the largest finite number.
    """
    numbers = {"one": 1.0, "zero": 0.0, "times": times}
    for each, number in numbers.items():
        yield helper.make_node("Constant", [], [f"{name}.{each}"], value_float=number)
    for operator, operands, result in (
        ("Sub", ("factors", "one"), "change"),
        ("Mul", ("change", "times"), "more"),
        ("IsInf", ("",), "infinite"),
        ("IsNaN", ("",), "wrong"),
        ("Or", ("infinite", "wrong"), "other"),
        ("Abs", ("",), "size"),
        ("Where", ("other", "zero", "size"), "finite"),
        ("ReduceMax", ("finite",), "largest"),
        ("Mul", ("more", "largest"), "moving"),
        ("Add", ("shaken", "moving"), "moved"),
    ):
        inputs = [f"{name}.{each}".rstrip(".") for each in operands]
        yield helper.make_node(operator, inputs, [f"{name}.{result}"])


def _drawn(name: str, factors: str, change: float, seed: int) -> Iterator[NodeProto]:
    """The node that draws factors next to 1, as many as `name` has elements."""
    low, high, dtype = 1 - change, 1 + change, TensorProto.FLOAT
    of = {"dtype": dtype, "low": low, "high": high, "seed": float(seed)}
    yield helper.make_node("RandomUniformLike", [name], [factors], **of)


_NEW = 22
"""Since this operator set, onnxruntime has no kernel of `RandomUniformLike`, but of `Dropout`."""


def _chosen(name: str, factors: str, change: float, seed: int) -> Iterator[NodeProto]:
    """The nodes that choose one of two factors next to 1 where a dropout keeps an element."""
    ratio, trains, of, kept, mask, more, less = (f"{factors}.{number}" for number in range(7))
    for each, number in ((ratio, 0.5), (more, 1 + change), (less, 1 - change)):
        yield helper.make_node("Constant", [], [each], value_float=number)
    yield helper.make_node("Cast", [ratio], [trains], to=TensorProto.BOOL)
    yield helper.make_node("Cast", [name], [of], to=TensorProto.FLOAT)
    yield helper.make_node("Dropout", [of, ratio, trains], [kept, mask], seed=seed)
    yield helper.make_node("Where", [mask, more, less], [factors])


def _deciding_sizes(graph: onnx.GraphProto) -> set[str]:
    """The values that decide the shapes of others by floating point numbers."""
    found: set[str] = set()
    for node in reversed(graph.node):
        if node.op_type in _SIZED:
            found.update(node.input[_SIZED[node.op_type] :])
        elif not found.isdisjoint(node.output):
            found.update(node.input)
    return found - {""}


_SIZED = {"Range": 0, "Resize": 1, "Upsample": 1}
"""Operators whose operands from this place on decide the shape of the result."""


def _before_deciding(graph: onnx.GraphProto) -> set[int]:
    """The places of the nodes that decide, and of those that compute what they take."""
    found: set[int] = set()
    wanted: set[str] = set()
    for place in reversed(range(len(graph.node))):
        node = graph.node[place]
        if _is_deciding(node) or not wanted.isdisjoint(node.output):
            found.add(place)
            wanted.update(node.input)
    return found


def _element_types(model: onnx.ModelProto) -> Mapping[str, int]:
    """The types of the elements of the values that nodes compute, where they are known."""
    graph = onnx.GraphProto()
    graph.CopyFrom(_without_weights(model.graph))
    for node in graph.node:
        if node.op_type == "DequantizeLinear":
            node.domain = ""  # onnx does not know the types of the one of com.microsoft.
    opsets = model.opset_import
    typed = helper.make_model(graph, opset_imports=opsets, functions=model.functions)
    inferred = onnx.shape_inference.infer_shapes(typed).graph
    values = (*inferred.value_info, *inferred.output)
    return {each.name: each.type.tensor_type.elem_type for each in values}


def _without_weights(graph: onnx.GraphProto) -> onnx.GraphProto:
    """`graph` with its weights as inputs: they may be too large for onnx."""
    names = {value.name for value in graph.input}
    weights = [each for each in graph.initializer if each.name not in names]
    made = [helper.make_tensor_value_info(w.name, w.data_type, list(w.dims)) for w in weights]
    inputs: list[ValueInfoProto] = [*graph.input, *made]
    result = helper.make_graph([], graph.name, inputs, graph.output, value_info=graph.value_info)
    result.node.extend(graph.node)
    return result
