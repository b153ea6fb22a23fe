"""
The shapes of what operators of `ai.onnx.ml` give, where the inference of ONNX has none.

They are those of the kernels of onnxruntime. A tensor with one axis is one row to most of them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import onnx
from onnx import TypeProto, helper

from collage_dsl.frontend.onnx_constants import attributes

ML = "ai.onnx.ml"

Dim = int | str | None
Shape = Sequence[Dim]
Attributes = Mapping[str, Any]


def with_ml_shapes(model: onnx.ModelProto, types: Sequence[TypeProto]) -> tuple[TypeProto, ...]:
    """The `types` of the outputs of a model of one node, with the shapes that these lack."""
    (node,) = model.graph.node
    rule = _RULES.get(node.op_type) if node.domain == ML else None
    given = [_shape_of(value.type) for value in model.graph.input]
    if rule is None or None in given or len(given) < len(node.input):  # some are constants
        return (*types,)
    shapes = rule(attributes(node), [each or () for each in given])
    places = [list(node.output).index(value.name) for value in model.graph.output]
    return tuple(
        _shaped(type_, shapes[place]) if place < len(shapes) else type_
        for place, type_ in zip(places, types, strict=True)
    )


def _shape_of(type_: TypeProto) -> Shape | None:
    if not type_.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value or dim.dim_param or None for dim in type_.tensor_type.shape.dim]


def _shaped(type_: TypeProto, shape: Shape) -> TypeProto:
    tensor = type_.tensor_type
    if not type_.HasField("tensor_type") or tensor.HasField("shape"):
        return type_
    return helper.make_tensor_type_proto(tensor.elem_type, list(shape))


def _rows(x: Shape) -> Dim:
    return x[0] if len(x) > 1 else 1


def _same(_attrs: Attributes, operands: Sequence[Shape]) -> list[Shape]:
    return [operands[0]]


def _joined(attrs: Attributes, operands: Sequence[Shape]) -> list[Shape]:
    return [(_rows(operands[0]), sum(attrs["inputdimensions"]))]


def _regressed(name: str, attrs: Attributes, operands: Sequence[Shape]) -> list[Shape]:
    return [(_rows(operands[0]), attrs.get(name, 1))]


def _classified(columns: Callable[[Attributes, int], int]) -> Callable[..., list[Shape]]:
    """The label of each row, and its scores."""

    def rule(attrs: Attributes, operands: Sequence[Shape]) -> list[Shape]:
        names = ("classlabels_ints", "classlabels_int64s", "classlabels_strings")
        count = max(len(attrs.get(name, ())) for name in names)
        rows = _rows(operands[0])
        return [(rows,), (rows, columns(attrs, count) if count > 1 else None)]

    return rule


def _scores_by_vectors(attrs: Attributes, count: int) -> int:
    """Without probabilities, support vectors give a score to each pair of classes."""
    has_pairs = attrs.get("vectors_per_class") and not attrs.get("prob_a")
    return count * (count - 1) // 2 if has_pairs and count > 2 else count


_RULES: Mapping[str, Callable[[Attributes, Sequence[Shape]], list[Shape]]] = {
    "FeatureVectorizer": _joined,
    "Imputer": _same,
    "LinearRegressor": partial(_regressed, "targets"),
    "Normalizer": _same,
    "SVMClassifier": _classified(_scores_by_vectors),
    "SVMRegressor": lambda attrs, operands: [(_rows(operands[0]), 1)],
    "Scaler": _same,
    "TreeEnsemble": partial(_regressed, "n_targets"),
    "TreeEnsembleClassifier": _classified(lambda attrs, count: count),
    "TreeEnsembleRegressor": partial(_regressed, "n_targets"),
}
