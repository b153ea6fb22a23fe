"""What calls of operators of ONNX give, compared with the shape inference of the onnx package."""

import onnx
import pytest
from onnx import TensorProto, helper

from collage_dsl.graph import Attribute, TensorType, TupleType
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.inference.infer import infer
from collage_dsl.language.inference.shapes import Call, MismatchError
from collage_dsl.language.reasoning.claims.onnx_dtypes import DTYPES_BY_CODE

Shapes = dict[str, tuple[int, ...]]

_RECURRENT: list[tuple[str, Shapes, dict[str, Attribute]]] = [
    ("LSTM", {"X": (7, 2, 5), "W": (1, 12, 5), "R": (1, 12, 3)}, {"hidden_size": 3}),
    (
        "LSTM",
        {"X": (7, 2, 5), "W": (2, 12, 5), "R": (2, 12, 3)},
        {"hidden_size": 3, "direction": "bidirectional"},
    ),
    ("GRU", {"X": (4, 1, 6), "W": (1, 24, 6), "R": (1, 24, 8)}, {"hidden_size": 8}),
    ("GRU", {"X": (2, 4, 6), "W": (1, 24, 6), "R": (1, 24, 8)}, {"hidden_size": 8, "layout": 1}),
    ("RNN", {"X": (3, 2, 4), "W": (1, 5, 4), "R": (1, 5, 5)}, {"hidden_size": 5}),
]
_OTHERS: list[tuple[str, Shapes, dict[str, Attribute]]] = [
    ("MatMulInteger", {"A": (2, 3, 4), "B": (4, 5)}, {}),
    ("MatMulInteger", {"A": (4,), "B": (4, 5)}, {}),
    ("NonMaxSuppression", {"boxes": (1, 9, 4), "scores": (1, 3, 9)}, {}),
    ("Celu", {"X": (3, 1)}, {"alpha": 0.5}),
    ("Celu", {"X": ()}, {}),
    ("LpNormalization", {"input": (2, 3, 4)}, {"axis": 1}),
    ("Mod", {"A": (4, 1, 5), "B": (3, 1)}, {"fmod": 1}),
]
_OUTPUTS = {"LSTM": 3, "GRU": 2, "RNN": 2}
_DTYPES = {"MatMulInteger": TensorProto.UINT8}


def _given(op: str, shapes: Shapes, attrs: dict[str, Attribute]) -> Call:
    types = tuple(TensorType("float32", shape) for shape in shapes.values())
    return Call(f"onnx.{op}", types, (None,) * len(types), attrs)


def _by_onnx(op: str, shapes: Shapes, attrs: dict[str, Attribute]) -> list[tuple[int | None, ...]]:
    """The shapes of the outputs; None for a dimension that is not known."""
    dtype = _DTYPES.get(op, TensorProto.FLOAT)
    inputs = [helper.make_tensor_value_info(n, dtype, shape) for n, shape in shapes.items()]
    names = [f"y{at}" for at in range(_OUTPUTS.get(op, 1))]
    node = helper.make_node(op, list(shapes), names, **attrs)
    outputs = [helper.make_empty_tensor_value_info(name) for name in names]
    graph = helper.make_graph([node], "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return [
        tuple(
            dim.dim_value if dim.HasField("dim_value") else None
            for dim in output.type.tensor_type.shape.dim
        )
        for output in inferred.graph.output
    ]


@pytest.mark.parametrize(("op", "shapes", "attrs"), [*_RECURRENT, *_OTHERS])
def test_the_shapes_are_those_of_onnx(op: str, shapes: Shapes, attrs: dict[str, Attribute]) -> None:
    found = infer(_given(op, shapes, attrs))
    types = found.fields if isinstance(found, TupleType) else (found,)
    expected = _by_onnx(op, shapes, attrs)
    assert len(types) == len(expected)
    for type_, shape in zip(types, expected, strict=True):
        assert isinstance(type_, TensorType)
        assert type_.shape is not None
        known = tuple(dim if isinstance(dim, int) else None for dim in type_.shape)
        assert known == shape


@pytest.mark.parametrize(
    ("op", "shapes", "attrs", "message"),
    [
        ("LSTM", {"X": (7, 5), "W": (1, 12, 5), "R": (1, 12, 3)}, {}, "`X` has 3 dimensions"),
        ("LSTM", {"X": (7, 2, 5), "W": (1, 12, 6), "R": (1, 12, 3)}, {}, "`W` takes 6"),
        ("GRU", {"X": (7, 2, 5), "W": (1, 12, 5), "R": (1, 12, 3)}, {}, "the gates 9"),
        (
            "RNN",
            {"X": (7, 2, 5), "W": (1, 3, 5), "R": (1, 3, 3)},
            {"direction": "bidirectional"},
            "not for 2",
        ),
        (
            "RNN",
            {"X": (7, 2, 5), "W": (1, 3, 5), "R": (1, 3, 3)},
            {"hidden_size": 4},
            "3 hidden values, not 4",
        ),
        ("NonMaxSuppression", {"boxes": (1, 9, 5), "scores": (1, 3, 9)}, {}, "4 numbers, not 5"),
        ("NonMaxSuppression", {"boxes": (1, 9, 4), "scores": (1, 3, 8)}, {}, "scores of 8"),
        ("MatMulInteger", {"A": (2, 16), "B": (8, 4)}, {}, "16 columns"),
        ("Mod", {"A": (2, 3), "B": (2,)}, {}, "3 and 2 do not broadcast"),
    ],
)
def test_what_does_not_fit_is_refused(
    op: str, shapes: Shapes, attrs: dict[str, Attribute], message: str
) -> None:
    with pytest.raises(MismatchError, match=message):
        infer(_given(op, shapes, attrs))


@pytest.mark.parametrize(
    ("attrs", "shape"),
    [
        ({}, (2, 3, 5)),
        ({"transA": 1}, None),
        ({"transB": 1}, None),
    ],
)
def test_a_fused_product_may_transpose(
    attrs: dict[str, Attribute], shape: tuple[int, ...] | None
) -> None:
    types = TensorType("float32", (2, 3, 4)), TensorType("float32", (4, 5))
    call = Call("com.microsoft.FusedMatMul", types, (None, None), attrs)
    if shape is None:
        with pytest.raises(MismatchError, match="columns cannot be multiplied"):
            infer(call)
    else:
        assert infer(call) == TensorType("float32", shape)


_QUANTIZED: list[tuple[int, ...]] = [(1,)] * 4
"""The shapes of the scales and zero points of weights."""


@pytest.mark.parametrize(
    ("shapes", "attrs", "problem"),
    [
        ([(7, 2, 5), (1, 5, 12), (1, 3, 12), *_QUANTIZED], {}, ""),
        ([(7, 2, 5), (1, 5, 12), (1, 3, 12), *_QUANTIZED], {"hidden_size": 3}, ""),
        ([(7, 2, 5), (1, 5, 12), (1, 3, 12), (1, 24), (2,), *_QUANTIZED], {}, ""),
        ([(7, 2, 5), (1, 5, 12), (1, 3, 12), (1, 12), (1, 12), (1,), (1,)], {}, ""),
        ([(7, 2, 5), (1, 12, 5), (1, 12, 3), *_QUANTIZED], {}, "`W` has 12 in dimension 1"),
        ([(7, 2, 5), (1, 5, 11), (1, 3, 11), *_QUANTIZED], {}, "11 in dimension 2"),
        ([(7, 2, 5), (1, 5, 12), (1, 3, 12), *_QUANTIZED], {"hidden_size": 4}, "16 are needed"),
        ([(7, 2, 5), (2, 5, 12), (2, 3, 12), *_QUANTIZED], {}, "2 in dimension 0, not 1"),
        ([(7, 2, 5), (1, 5, 12), (1, 3, 12), (2,), *_QUANTIZED[1:]], {}, "2 in dimension 0, not 1"),
    ],
)
def test_a_quantized_recurrence_has_the_shapes_that_onnxruntime_runs(
    shapes: list[tuple[int, ...]], attrs: dict[str, Attribute], problem: str
) -> None:
    types = tuple(TensorType("float32", shape) for shape in shapes)
    call = Call("com.microsoft.DynamicQuantizeLSTM", types, (None,) * len(types), attrs)
    if problem:
        with pytest.raises(MismatchError, match=problem):
            infer(call)
    else:
        every, last = TensorType("float32", (7, 1, 2, 3)), TensorType("float32", (1, 2, 3))
        assert infer(call) == TupleType((every, last, last))


def test_a_product_in_blocks_has_the_columns_that_its_attribute_says() -> None:
    types = TensorType("float32", (2, 64)), TensorType("uint8", (32, 2, 16))
    attrs: dict[str, Attribute] = {"K": 64, "N": 32}
    call = Call("com.microsoft.MatMulNBits", types, (None, None), attrs)
    assert infer(call) == TensorType("float32", (2, 32))
    wrong = Call("com.microsoft.MatMulNBits", types, (None, None), {"K": 128, "N": 32})
    with pytest.raises(MismatchError, match="64 columns, not 128"):
        infer(wrong)


def test_the_dtypes_have_the_numbers_of_onnx() -> None:
    arrays = {code: helper.tensor_dtype_to_np_dtype(code) for code in DTYPES_BY_CODE}
    assert {code: long_dtype(dtype) for code, dtype in DTYPES_BY_CODE.items()} == {
        code: dtype.name for code, dtype in arrays.items()
    }
