"""Models of features and rows, as scikit-learn and its like export them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import collage_dsl as collage
from collage_dsl.graph import Graph, TensorType
from collage_dsl.realization.objects import is_same_object
from tests.cases import covering
from tests.reference import run_onnx

ML = "ai.onnx.ml"
NAN = float("nan")


def features(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def model(
    op: str, attrs: Mapping[str, Any], *dims: int | str, results: int = 1, opset: int = 17
) -> onnx.ModelProto:
    """One node of the domain, which takes `x`; `dims` are those of `x`."""
    names = [f"y{place}" for place in range(results)]
    node = helper.make_node(op, ["x"], names, domain=ML, **attrs)
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name=n) for n in names])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def calls(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.is_call]


# Arithmetic.

ARITHMETIC = [
    ("Imputer", {"imputed_value_floats": [7.0], "replaced_value_float": NAN}, ["isnan", "where"]),
    ("Imputer", {"imputed_value_floats": [4.0, 5.0, 6.0]}, ["equal", "where"]),
    ("LinearRegressor", {"coefficients": [1.0, -2.0, 0.5], "targets": 1}, ["matmul", "add"]),
    (
        "LinearRegressor",
        {"coefficients": [1.0, -2.0, 0.5, 3.0, 4.0, 5.0], "intercepts": [1.0, 2.0], "targets": 2},
        ["matmul", "add"],
    ),
    ("Normalizer", {"norm": "L1"}, ["abs", "sum", "divide", "equal", "where"]),
    (
        "Normalizer",
        {"norm": "L2"},
        ["multiply", "sum", "divide", "sqrt", "less", "negative", "where", "equal", "where"],
    ),
    ("Scaler", {"offset": [1.0, 2.0, 3.0], "scale": [0.5, 0.25, 3.0]}, ["add", "multiply"]),
    ("Scaler", {"offset": [1.0], "scale": [0.5]}, ["add", "multiply"]),
]


@pytest.mark.parametrize(("op", "attrs", "made"), ARITHMETIC)
def test_arithmetic_of_features_is_native(
    op: str, attrs: Mapping[str, Any], made: list[str]
) -> None:
    given = model(op, attrs, "n", 3)
    compiled = collage.compile(given, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.1)
    x = features(5, 3)
    x[1, 1], x[2, 0] = NAN, 0

    found = compiled.run({"x": x})["y0"]

    assert calls(collage.from_onnx(given)) == made
    np.testing.assert_allclose(found, run_onnx(given, {"x": x})["y0"], 1e-5, 1e-6)


@pytest.mark.parametrize(
    ("transform", "made"),
    [("NONE", []), ("LOGISTIC", ["sigmoid"]), ("SOFTMAX", ["nn.softmax"])],
)
def test_a_linear_classifier_is_a_product_and_a_place(transform: str, made: list[str]) -> None:
    attrs = {
        "classlabels_ints": [7, -3, 5],
        "coefficients": [1.0, -2.0, 0.5, 3.0, 4.0, 5.0, -1.0, -1.0, 2.0],
        "intercepts": [0.5, 0.25, -0.5],
        "post_transform": transform,
    }
    given = model("LinearClassifier", attrs, "n", 3, results=2)
    compiled = collage.compile(given, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.1)
    inputs = {"x": features(6, 3)}

    found = compiled.run(inputs)

    assert calls(collage.from_onnx(given)) == ["matmul", "add", "argmax", "take", *made]
    right = run_onnx(given, inputs)
    assert found["y0"].tolist() == right["y0"].tolist()
    np.testing.assert_allclose(found["y1"], right["y1"], 1e-5, 1e-6)


@pytest.mark.parametrize(
    "changed",
    [{"post_transform": "PROBIT"}, {"coefficients": [1.0] * 3, "intercepts": [0.0]}],
)
def test_other_linear_classifiers_stay(changed: Mapping[str, Any]) -> None:
    attrs = {"classlabels_ints": [0, 1], "coefficients": [1.0] * 6, "intercepts": [0.0, 1.0]}

    graph = collage.from_onnx(model("LinearClassifier", attrs | changed, "n", 3, results=2))

    assert calls(graph) == [f"{ML}.LinearClassifier"]


@pytest.mark.parametrize(
    ("rank", "indices"), covering([1, 2, 3], ["constant", "computed", "largest"])
)
def test_features_are_taken_along_the_last_axis(indices: str, rank: int) -> None:
    x = features(*(2, 3, 5)[-rank:])
    places = {
        "constant": "p = Constant <value_ints = [4, 0]> ()",
        "computed": "p = ArgMax <axis = 0, keepdims = 0> (z)",
        "largest": "two = Constant <value_ints = [2]> () l, q = TopK <axis = 0> (z, two) "
        "p = Transpose <perm = [1, 0]> (q)",
    }[indices]
    dims = ",".join(map(str, x.shape))
    given = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 17, "{ML}": 3]>
        g (float[{dims}] x, float[5,n] z) => (float y) {{
          {places}
          y = {ML}.ArrayFeatureExtractor (x, p)
        }}"""
    )
    given.graph.output[0].type.tensor_type.ClearField("shape")
    compiled = collage.compile(given, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.1)
    inputs = {"x": x, "z": features(5, 4)}

    found = compiled.run(inputs)["y"]

    assert not any(op.startswith(ML) for op in calls(collage.from_onnx(given)))
    np.testing.assert_array_equal(found, run_onnx(given, inputs)["y"])


def test_features_far_from_0_are_scaled_with_all_digits() -> None:
    """As years, or times in seconds. `x * scale - offset * scale` would lose most digits."""
    given = model("Scaler", {"offset": [1e6] * 3, "scale": [0.3, 0.7, 1.3]}, "n", 3)
    compiled = collage.compile(given, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.1)
    x = 1e6 + features(5, 3)

    np.testing.assert_allclose(compiled.run({"x": x})["y0"], run_onnx(given, {"x": x})["y0"], 1e-6)


# What stays has a shape.

LEAVES = {
    "nodes_treeids": [0, 0, 0],
    "nodes_nodeids": [0, 1, 2],
    "nodes_featureids": [0, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_values": [0.0, 0.0, 0.0],
    "nodes_truenodeids": [1, 0, 0],
    "nodes_falsenodeids": [2, 0, 0],
}


def tree(kind: str, *targets: int) -> dict[str, Any]:
    """A tree of one branch: its leaves give numbers to two of the targets."""
    places = {f"{kind}_treeids": [0, 0], f"{kind}_nodeids": [1, 2]}
    return LEAVES | places | {f"{kind}_ids": [*targets], f"{kind}_weights": [1.0, 2.0]}


def vectors(count: int, *, is_likely: bool) -> dict[str, Any]:
    """Support vectors of `count` classes, one for each, with probabilities if `is_likely`."""
    pairs = count * (count - 1) // 2
    likely = {"prob_a": [-1.0] * pairs, "prob_b": [0.0] * pairs}
    return {
        "kernel_type": "RBF",
        "kernel_params": [0.5, 0.0, 3.0],
        "coefficients": [0.5] * (count * (count - 1)),
        "support_vectors": [0.1 * place for place in range(3 * count)],
        "vectors_per_class": [1] * count,
        "rho": [0.0] * pairs,
        "classlabels_ints": list(range(count)),
        **(likely if is_likely else {}),
    }


LINEAR = {"kernel_type": "LINEAR", "coefficients": [1.0, 2.0, 3.0], "rho": [0.5]}
SHAPED = [
    ("Normalizer", {"norm": "MAX"}, 1),
    ("LinearRegressor", {"coefficients": [1.0] * 3, "post_transform": "LOGISTIC"}, 1),
    ("SVMRegressor", LINEAR | {"kernel_params": [0.0, 0.0, 0.0]}, 1),
    *(
        ("SVMClassifier", vectors(count, is_likely=is_likely), 2)
        for count in (2, 3, 4)
        for is_likely in (False, True)
    ),
    (
        "SVMClassifier",
        {"coefficients": [1.0] * 12, "rho": [0.0], "kernel_params": [0.0, 0.0, 0.0]}
        | {"kernel_type": "LINEAR", "classlabels_ints": [0, 1, 2, 3]},
        2,
    ),
    ("TreeEnsembleRegressor", {"n_targets": 4} | tree("target", 0, 3), 1),
    ("TreeEnsembleClassifier", {"classlabels_int64s": [0, 1]} | tree("class", 1, 1), 2),
    ("TreeEnsembleClassifier", {"classlabels_int64s": [0, 1, 7]} | tree("class", 0, 2), 2),
    ("FeatureVectorizer", {"inputdimensions": [3]}, 1),
]


@pytest.mark.parametrize(
    ("op", "attrs", "results", "rows"),
    [
        (*case, rows)
        for case in SHAPED
        for rows in (None, 4)
        if rows or not case[0].startswith("Tree")  # onnxruntime takes no vector there
    ],
)
def test_what_stays_in_onnxruntime_has_a_shape(
    op: str, attrs: Mapping[str, Any], results: int, rows: int | None
) -> None:
    dims = (3,) if rows is None else (rows, 3)
    given = model(op, attrs, *dims, results=results)

    graph = collage.from_onnx(given)
    right = run_onnx(given, {"x": features(*dims)})

    types = [graph.nodes[index].type for index in graph.outputs]
    assert [type_.shape for type_ in types if isinstance(type_, TensorType)] == [
        array.shape for array in right.values()
    ]


def test_a_network_behind_scaled_features_is_native_in_old_sets_too() -> None:
    given = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["": 9, "{ML}": 1]>
        g (float[n,2] x) => (float[n,2] y) {{
          s = {ML}.Scaler <offset = [1.0, 2.0], scale = [0.5, 2.0]> (x)
          r = Relu (s)
          y = Softmax <axis = 1> (r)
        }}"""
    )

    assert calls(collage.from_onnx(given)) == ["ai.onnx.ml.Scaler", "nn.relu", "nn.softmax"]


def test_probabilities_in_a_map_may_differ_by_rounding() -> None:
    """As a classifier of scikit-learn gives them by default."""
    right = [{"a": 0.25, "b": 0.75}, {"a": 0.5, "b": 0.5}]

    assert is_same_object([{"a": 0.25, "b": 0.7500001}, right[1]], right, 0.0)
    assert not is_same_object([{"a": 0.25, "b": 0.76}, right[1]], right, 0.0)
    assert not is_same_object([{"a": 0.25, "c": 0.75}, right[1]], right, 0.0)
    assert not is_same_object([{"a": 0.25}, right[1]], right, 0.0)
    assert not is_same_object([[0.25, 0.75], right[1]], right, 0.0)
