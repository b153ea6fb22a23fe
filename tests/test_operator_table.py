"""The operator table that ships: made from TVM, and what rules rely on in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from collage_dsl.graph import Kind, TensorType
from collage_dsl.graph.operators import is_commutative, kind_of, operators

SCRIPT = Path(__file__).parents[1] / "scripts" / "operator_table.py"

F32 = TensorType("float32", (4, 8))
ROW = TensorType("float32", (8,))


@pytest.mark.slow
@pytest.mark.engine
def test_the_table_is_what_the_script_makes_of_the_installed_tvm() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(SCRIPT.parent)},
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        (Kind.ELEMENTWISE, "nn.relu nn.gelu sigmoid exp astype clip negative"),
        (Kind.BROADCAST, "add multiply divide maximum where"),
        (Kind.INJECTIVE, "permute_dims reshape concat split strided_slice squeeze"),
        (Kind.REDUCE, "sum mean max min argmax"),
        (Kind.ANCHOR, "nn.conv2d matmul nn.softmax nn.max_pool2d nn.layer_norm nn.attention"),
        (Kind.OPAQUE, "sort topk nonzero unique print"),
    ],
)
def test_operators_are_of_the_kind_that_tvm_gives_them(kind: Kind, names: str) -> None:
    assert {name: operators()[name].kind for name in names.split()} == dict.fromkeys(
        names.split(), kind
    )


def test_internal_operators_are_left_out() -> None:
    internal = ("call_", "vm.", "memory.", "builtin.")

    functions = ["call_tir", "call_dps_packed", "call_pure_packed"]
    assert [name for name in operators() if name.startswith(internal)] == functions


def test_operands_are_those_of_calls() -> None:
    assert operators()["nn.conv2d"].operands == ("data", "weight")
    assert operators()["strided_slice"].operands == ("x", "axes", "begin", "end", "strides")
    assert operators()["strided_slice"].optional == 1
    assert operators()["reshape"].literals == ("shape",)
    assert operators()["print"].operands is None


def test_attributes_have_types_and_defaults() -> None:
    convolution = operators()["nn.conv2d"]

    assert convolution.attrs["padding"] == "ints"
    assert convolution.defaults["padding"] == (0, 0, 0, 0)
    assert convolution.defaults["groups"] == 1
    assert operators()["astype"].attrs == {"dtype": "dtype"}
    assert operators()["astype"].defaults == {}


def test_some_attributes_may_have_no_value() -> None:
    assert operators()["nn.attention"].may_be_none == {"scale", "causal_mask", "window_size"}
    assert operators()["concat"].may_be_none == {"axis"}, "though its default is 0"
    assert operators()["nn.softmax"].may_be_none == frozenset()
    assert operators()["nn.conv2d"].attribute_type("out_dtype") == "dtype or none"
    assert operators()["nn.conv2d"].attribute_type("strides") == "ints"


def test_an_operator_of_onnx_has_so_many_results_at_most() -> None:
    known = {"onnx.TopK": 2, "onnx.GRU": 2, "onnx.LSTM": 3, "onnx.Relu": 1, "onnx.Split": None}

    assert {name: operators()[name].most_results for name in known} == known
    assert operators()["topk"].most_results is None


def test_an_attribute_of_onnx_may_have_no_value_if_it_has_no_default_and_is_not_required() -> None:
    lstm = operators()["onnx.LSTM"]

    assert "hidden_size" in lstm.may_be_none
    assert "direction" not in lstm.may_be_none, "it has a default"
    assert "body" not in operators()["onnx.Loop"].may_be_none
    assert operators()["onnx.Cast"].may_be_none == frozenset(), "`to` is required"


def test_addition_commutes_and_subtraction_does_not() -> None:
    assert is_commutative("add")
    assert not is_commutative("subtract")


def test_broadcasting_of_equal_shapes_is_elementwise() -> None:
    assert kind_of("add", (F32, F32), F32) is Kind.ELEMENTWISE
    assert kind_of("add", (F32, ROW), F32) is Kind.BROADCAST


def test_an_operator_that_is_not_in_the_table_is_opaque() -> None:
    assert kind_of("acme.op", (F32,), F32) is Kind.OPAQUE
