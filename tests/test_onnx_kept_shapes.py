"""Nodes that stay as they are, whose results have free sizes: what is behind them is native."""

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel
from collage_dsl.graph.types import TensorType
from tests.reference import run_onnx

HEADER = '<ir_version: 9, opset_import: ["" : 18, "ai.onnx.ml" : 3]> g '
IMAGE = "(float[b, 3, h, w] x) => (float[c, d, e, f] y)"

CASES = {
    "convolution": (
        (
            f"{IMAGE} <float[1, 3, 2, 2] k = {{{', '.join(f'{i}.0' for i in range(12))}}}> "
            '{ a = Conv<auto_pad = "SAME_UPPER", strides = [2, 3]>(x, k) y = Relu(a) }'
        ),
        ["onnx.Conv"],
        ("b", 1, "(h + 1) // 2", "(w + 2) // 3"),
    ),
    "pooling": (
        (
            f"{IMAGE} {{ a = MaxPool<auto_pad = "
            '"SAME_LOWER", kernel_shape = [3, 3], strides = [2, 1]>(x) y = Neg(a) }'
        ),
        ["onnx.MaxPool"],
        ("b", 3, "(h + 1) // 2", "w"),
    ),
    "places_of_largest": (
        (
            "(float[b, 3, h, w] x) => (int64[c, d, e, f] y) {"
            "a, i = MaxPool<kernel_shape = [2, 2], strides = [2, 2], pads = [0, 1, 1, 1]>(x) "
            "y = Add(i, i) }"
        ),
        ["onnx.MaxPool"],
        ("b", 3, "((h - 1) // 2) + 1", "(w // 2) + 1"),
    ),
    "resize": (
        (
            f"{IMAGE} <float[4] s = {{1.0, 1.0, 0.75, 1.5}}> "
            '{ a = Resize<mode = "linear">(x, , s) y = Relu(a) }'
        ),
        ["onnx.Resize"],
        ("b", 3, "(h * 3) // 4", "(w * 3) // 2"),
    ),
    "resize_to_sizes": (
        (
            f"{IMAGE} <int64[2] two = {{2, 1}}> {{ s = Shape<start = 2>(x) m = Mul(s, two) "
            'a = Resize<mode = "linear", coordinate_transformation_mode = "align_corners", '
            "axes = [2, 3]>(x, , , m) y = Relu(a) }"
        ),
        ["onnx.Resize"],
        ("b", 3, "h * 2", "w"),
    ),
    "padding": (
        (
            f"{IMAGE} <int64[2] by = {{4, 4}}, int64[2] axes = {{2, 3}}> {{ "
            "s = Shape<start = 2>(x) r = Mod(s, by) none = Sub(r, r) p = Concat<axis = 0>(none, r) "
            "a = Pad(x, p, , axes) y = Exp(a) }"
        ),
        ["onnx.Pad"],
        ("b", 3, "h + (h % 4)", "w + (w % 4)"),
    ),
    "frequencies": (
        (
            "(float[b, t] x) => (float[c, d, e, f] y) <int64 by = {5}, int64 n = {16}> "
            "{ a = STFT(x, by, , n) y = Abs(a) }"
        ),
        ["onnx.STFT"],
        ("b", "((t - 16) // 5) + 1", 9, 2),
    ),
    "stretched": (
        "(float[b, n] x, float[k] z) => (float[c, d] y) { a = Add(x, z) y = Exp(a) }",
        ["onnx.Add"],
        ("b", "max(n, k)"),
    ),
    "stretched_by_what_may_be_empty": (
        (
            "(float[b, n] x, float[b, t] m, float[b, past] p) => (float[c, d] y) "
            "<int64[1] end = {1000000000}, int64[1] one = {1}> "
            "{ s = Shape<start = 1>(p) r = Slice(m, s, end, one) a = Add(x, r) y = Exp(a) }"
        ),
        ["onnx.Add"],
        ("b", "max(n, t - past) * min(t - past, 1)"),
    ),
    "never_stretched": (
        (
            f"{IMAGE} {{ s = SpaceToDepth<blocksize = 2>(x) a = DepthToSpace<blocksize = 2>(s) "
            "m = Mul(x, a) y = Exp(m) }"
        ),
        ["onnx.Mul"],
        ("b", 3, "(h // 2) * 2", "(w // 2) * 2"),
    ),
    "features": (
        (
            "(float[b, 6] x, int64[k, 2] i) => (float[c, d] y) "
            "{ a = ai.onnx.ml.ArrayFeatureExtractor(x, i) y = Exp(a) }"
        ),
        ["ai.onnx.ml.ArrayFeatureExtractor"],
        ("b", "k * 2"),
    ),
}
"""Models, their kept nodes, and the shapes of the results of these."""


def model(name: str) -> onnx.ModelProto:
    return parse_model(HEADER + CASES[name][0])


@pytest.mark.parametrize("name", CASES)
def test_free_sizes_are_formulas_behind_a_kept_node(name: str) -> None:
    _, kept, shape = CASES[name]

    graph = from_onnx(model(name))

    assert [node.op for node in graph.nodes if node.op.startswith(("onnx.", "ai."))] == kept
    (result,) = graph.outputs
    type_ = graph.nodes[result].type
    assert isinstance(type_, TensorType)
    assert type_.shape == shape


@pytest.mark.parametrize("name", CASES)
def test_results_of_all_sizes_are_those_of_onnxruntime(name: str) -> None:
    def price(kernel: CandidateKernel) -> float:
        return 1e-6 * len(kernel.nodes) if kernel.target == "onnxruntime" else 1e-7

    given = model(name)
    compiled = collage.compile(given, ["native", "onnxruntime"], cost=price, race_seconds=0.01)
    for seed, (h, w, k) in enumerate(((16, 10, 10), (18, 12, 1), (4, 6, 6))):
        random = np.random.default_rng(seed)
        n, t = w if k > 1 else 5, 20 + h
        sizes = {"b": 1 + seed, "h": h, "w": w, "t": t, "n": n, "k": k, "past": t - n}
        inputs = {}
        for value in given.graph.input:
            tensor = value.type.tensor_type
            shape = [dim.dim_value or sizes[dim.dim_param] for dim in tensor.shape.dim]
            is_float = tensor.elem_type == onnx.TensorProto.FLOAT
            inputs[value.name] = (
                random.normal(size=shape).astype(np.float32)
                if is_float
                else random.integers(0, 6, shape)
            )
        (right,) = run_onnx(given, inputs).values()

        found = compiled.run(inputs)["y"]

        assert found.shape == right.shape
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


PADDED = (
    f"{IMAGE} <float[2, 3, 3, 2] k = {{{', '.join(f'{i % 5 - 2}.0' for i in range(36))}}}, "
    "float[2, 2, 1, 1] one = {1.0, 2.0, 3.0, 4.0}> "
    '{ a = Conv<auto_pad = "SAME_UPPER">(x, k) '
    'p = MaxPool<auto_pad = "SAME_LOWER", kernel_shape = [2, 3]>(a) '
    'y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(p, one) }'
)


def test_windows_that_keep_free_sizes_are_native() -> None:
    """Their padding does not depend on the size, nor does that of single elements by strides."""
    given = parse_model(HEADER + PADDED)
    compiled = collage.compile(given, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.01)
    for h, w in ((5, 8), (6, 3)):
        x = np.random.default_rng(h).normal(size=(2, 3, h, w)).astype(np.float32)

        found = compiled.run({"x": x})["y"]

        np.testing.assert_allclose(found, run_onnx(given, {"x": x})["y"], rtol=1e-4, atol=1e-4)
