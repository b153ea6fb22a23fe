"""Functions of ONNX models that onnxruntime reads otherwise than ONNX says."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.reference import reference_session

Array = np.ndarray[Any, Any]


def model(body: str, shape: str, version: int, own: int, name: str = "loc.f") -> onnx.ModelProto:
    """A model of one set with a function of its `own`, which has one operand and one result."""
    domain, _, op = name.rpartition(".")
    return parse_model(
        f'<ir_version: 10, opset_import: ["" : {version}, "loc" : 1]> '
        f"g (float[{shape}] x) => (float[k, m, n] y) {{ y = {name} (x) }} "
        f'<domain: "{domain}", opset_import: ["" : {own}]> {op} (a) => (e) {{ {body} }}'
    )


def in_its_set(body: str, own: int, x: Array) -> Array:
    """What the body computes as a model of its own set."""
    text = f'<ir_version: 10, opset_import: ["" : {own}]> g (float[2,3,4] a) => (float[k, m, n] e)'
    made: onnx.ModelProto = parse_model(f"{text} {{ {body} }}")
    (found,) = reference_session(made).run(None, {"a": x})
    return np.asarray(found)


@pytest.mark.parametrize(
    ("body", "version", "own"),
    [
        ("e = Softmax (a)", 13, 11),
        ("e = Softmax (a)", 11, 13),
        ("e = ReduceMean <axes = [1]> (a)", 18, 17),
        ("e = Clip <max = 0.5> (a)", 13, 10),
        ("b = Unsqueeze <axes = [0]> (a) e = Squeeze <axes = [0]> (b)", 13, 11),
    ],
)
def test_a_function_means_what_it_means_in_its_own_set(body: str, version: int, own: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    made = model(body, "2, 3, 4", version, own)

    found = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01).run({"x": x})

    np.testing.assert_allclose(found["y"], in_its_set(body, own, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("domain", ["", "ai.onnx"])
def test_a_function_named_as_an_operator_is_that_function(domain: str) -> None:
    made = model("e = Neg (a)", "2, 3, 4", 21, 21, name="Relu")
    made.functions[0].domain = domain
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)

    found = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01).run({"x": x})

    np.testing.assert_array_equal(found["y"], -x)


@pytest.mark.parametrize(
    ("op", "version", "own"),
    [
        ("GroupNormalization <num_groups = 1> (a, b, b)", 21, 18),
        ("GroupNormalization <num_groups = 1> (a, b, b)", 18, 21),
        ("Hardmax (a)", 13, 11),
        ("Resize (a, b)", 13, 10),
        ("Upsample (a, b)", 13, 9),
    ],
)
def test_what_the_converter_of_onnx_takes_for_the_same_is_refused(
    op: str, version: int, own: int
) -> None:
    b = "b = Constant <value = float[3] {1.0, 1.0, 1.0}> ()"
    made = model(f"{b} e = {op}", "2, 3, 4", version, own)

    with pytest.raises(FrontendError, match=rf"ONNX cannot convert `{op.split()[0]}`"):
        collage.from_onnx(made)
