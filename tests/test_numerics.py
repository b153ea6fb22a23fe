"""
Native kernels compute what IEEE 754 and ONNX say for NaN, infinities, signed zeros, denormal and
huge numbers, and sum float16 in float32. See docs/numerics.md.

All operators of a table are one model, so that few modules are compiled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx import helper, numpy_helper

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, Toolchain
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature
from collage_dsl.report.documents import PlanDocument
from collage_dsl.report.text import plan_text
from collage_dsl.search import Plan
from tests.cases import covering, slow
from tests.one_kernel import one_kernel_of

Array = np.ndarray[Any, Any]

NATIVE = collage.load(Path(__file__).parent.parent / "specs" / "native.collage")["tvm"]
OPSET = 23

NAN, INF = math.nan, math.inf
SPECIAL = np.array(
    [
        *(NAN, INF, -INF, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, 1e-8, -1e-8, 3e38, -3e38),
        *(104, -104, 100, -100, 89.5, 88.8, -88.8, 20, -20, 7, 6, 5.5, -5.5, 3.92, -3.92, 3, -3),
        *(2.5, -2.5, 1.5, -1.5, 1, -1, 0.5, -0.5, 0.15, -0.15),
    ],
    np.float32,
)


@dataclass(frozen=True)
class Case:
    """An operator on inputs and constants. `expect` is the oracle if onnxruntime is not."""

    op: str
    constants: Sequence[Any] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    expect: Callable[..., Array] | None = None
    constants_first: bool = False


def model(cases: Sequence[Case], inputs: Mapping[str, Array]) -> onnx.ModelProto:
    """All cases side by side. Each takes all inputs, in order."""
    taken = [tuple(inputs)] * len(cases)
    return _model(cases, taken, inputs, [f"y{number}" for number in range(len(cases))])


def chain_of(cases: Sequence[Case], x: Array) -> onnx.ModelProto:
    """The cases one after the other."""
    taken = [("x",), *((f"y{number}",) for number in range(len(cases) - 1))]
    return _model(cases, taken, {"x": x}, [f"y{len(cases) - 1}"])


def _model(
    cases: Sequence[Case],
    taken: Sequence[Sequence[str]],
    inputs: Mapping[str, Array],
    outputs: Sequence[str],
) -> onnx.ModelProto:
    nodes, constants = [], []
    for number, (case, operands) in enumerate(zip(cases, taken, strict=True)):
        names = []
        for place, array in enumerate(case.constants):
            names.append(f"c{number}_{place}" if array is not None else "")
            if array is not None:
                constants.append(numpy_helper.from_array(np.asarray(array), names[-1]))
        both = [*names, *operands] if case.constants_first else [*operands, *names]
        nodes.append(helper.make_node(case.op, both, [f"y{number}"], **case.attributes))
    types = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in inputs.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "numerics", types, results, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def by_native(made: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    graph = collage.from_onnx(made)
    plan = collage.choose(graph, collage.propose(graph, NATIVE), cost=lambda kernel: 1e-6)
    executable = ModelExecutable(build(collage.realize(plan)), Signature.of(graph, cores=1))
    return list(executable.run(inputs).values())


def by_onnxruntime(made: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        made.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(inputs)))


def check(
    cases: Sequence[Case], inputs: Mapping[str, Array], rtol: float = 1e-5, atol: float = 1e-6
) -> None:
    """Every case gives what its oracle gives; all that differ are shown."""
    made = model(cases, inputs)
    found = by_native(made, inputs)
    usual = by_onnxruntime(made, inputs)
    wrong = []
    for case, actual, default in zip(cases, found, usual, strict=True):
        expected = default
        if case.expect is not None:
            wide = [x.astype(np.float64) for x in inputs.values()]
            with np.errstate(all="ignore"):
                expected = case.expect(*wide).astype(default.dtype)
        try:
            assert actual.dtype == default.dtype
            np.testing.assert_allclose(actual, expected, rtol, atol)
        except AssertionError as error:
            wrong.append(f"{case.op} {case.attributes}{error}")
    assert not wrong, "\n".join(wrong)


def one_kernel(given: Graph, *variants: str) -> Callable[[Mapping[str, Array]], list[Array]]:
    """Runs a graph as one native kernel, by one of `variants` if any are given."""
    graph = Graph(given.nodes, given.outputs, name="main")
    kernel = CandidateKernel(graph, SubGraph(graph.calls), Toolchain("tvm", variants=variants))
    module = realize(graph, [kernel], lambda _: Tvm())
    executable = ModelExecutable(build(module), Signature.of(graph, cores=1))
    return lambda inputs: list(executable.run(inputs).values())


# Elementwise.


def gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / 2**0.5))


UNARY = [
    *map(Case, ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cosh", "Elu")),
    *map(Case, ("Erf", "Exp", "Floor", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu")),
    *map(Case, ("Log", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sign")),
    *map(Case, ("Sinh", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu")),
    Case("Gelu", expect=gelu),
    Case("Gelu", attributes={"approximate": "tanh"}),
    Case("Sigmoid", expect=lambda x: 1 / (1 + np.exp(-x))),
    Case("Clip", [np.float32(0), np.float32(6)], expect=lambda x: np.clip(x, 0, 6)),
    Case("Clip", [np.float32(-1)], expect=lambda x: np.maximum(x, -1)),
    Case("Clip", [None, np.float32(2)], expect=lambda x: np.minimum(x, 2)),
    Case("Clip", [np.float32(-INF), np.float32(INF)], expect=lambda x: x),
    Case("Clip", [np.float32(2), np.float32(1)], expect=lambda x: np.where(np.isnan(x), x, 1)),
]

CONSTANTS = [np.array([c], np.float32) for c in (0, -0.0, 0.5, 3, -1.5, 1e-40, NAN, INF, -INF)]


def with_constants(op: str, **more: Any) -> list[Case]:
    return [Case(op, [c], constants_first=first, **more) for c in CONSTANTS for first in (0, 1)]


def pairs(values: Array) -> dict[str, Array]:
    a, b = np.meshgrid(values, values)
    return {"a": a.ravel().copy(), "b": b.ravel().copy()}


BINARY = [
    *map(Case, ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mean", "Sum", "Pow", "PRelu", "Less")),
    *map(Case, ("Greater", "Equal", "LessOrEqual", "GreaterOrEqual")),
    Case("Mod", attributes={"fmod": 1}),
]


def test_unary_operators() -> None:
    check(UNARY, {"x": SPECIAL})


def test_erf_and_tanh_are_never_beyond_one() -> None:
    x = np.linspace(-9, 9, 100_001).astype(np.float32)
    by_tanh = Case("Gelu", attributes={"approximate": "tanh"})
    cases = [Case("Erf"), Case("Tanh"), Case("Gelu", expect=gelu), by_tanh]

    check(cases, {"x": x})
    erf, tanh, *activated = by_native(model(cases, {"x": x}), {"x": x})

    assert np.abs(erf).max() == np.abs(tanh).max() == 1
    assert all((each[x < 0] <= 0).all() for each in activated)


@pytest.mark.parametrize(("dtype", "size"), covering(["f32", "f64", "f16", "bf16"], ["n", "512"]))
def test_tanh_of_small_numbers_has_all_its_digits(size: str, dtype: str) -> None:
    types = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
    x = np.geomspace(1e-4, 1, 512).astype(types[dtype])
    text = f"graph {{ x: {dtype}[{size}]; y = tanh(x); return y; }}"

    (found,) = one_kernel(collage.parse_graph(text))({"x": x})

    precision = 8 * float(ml_dtypes.finfo(x.dtype).eps)
    np.testing.assert_allclose(found.astype(float), np.tanh(x.astype(float)), precision, 0)


def test_binary_operators() -> None:
    check(BINARY, pairs(SPECIAL))


@pytest.mark.parametrize("op", ["Add", slow("Sub"), slow("Mul"), "Div", slow("Max"), "Min", "Pow"])
def test_binary_operators_with_constants(op: str) -> None:
    check(with_constants(op), {"x": SPECIAL})


def test_what_cancels_for_real_numbers_does_not_for_floats() -> None:
    graph = collage.parse_graph("""
        graph {
          x: f32[40];
          y: f32[40];
          nothing = subtract(x, x);
          same = equal(x, x);
          other = not_equal(x, x);
          unequal = not_equal(x, y);
          total = add(x, y);
          back = subtract(total, y);
          below = less(x, y);
          at_least = logical_not(below);
          ordered = greater_equal(x, y);
          either = logical_or(below, ordered);
          rest = where(ordered, x, total);
          chosen = where(below, y, rest);
          return nothing, same, other, unequal, back, at_least, either, chosen;
        }
    """)
    run = one_kernel(graph)
    x, y = SPECIAL, np.roll(SPECIAL, 5)

    nothing, same, other, unequal, back, at_least, either, chosen = run({"x": x, "y": y})

    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(nothing, x - x)
        np.testing.assert_array_equal(back, (x + y) - y)
        np.testing.assert_array_equal(chosen, np.where(x < y, y, np.where(x >= y, x, x + y)))
    np.testing.assert_array_equal(same, x == x)
    np.testing.assert_array_equal(other, x != x)
    np.testing.assert_array_equal(either, (x < y) | (x >= y))
    np.testing.assert_array_equal(unequal, x != y)
    np.testing.assert_array_equal(at_least, ~(x < y))


# Reductions, poolings and normalisations.


def rows() -> Array:
    ones = np.ones(40)
    at = np.arange(40)
    return np.stack(
        [
            *(ones * c for c in (NAN, INF, -INF, -0.0, 1e-40)),
            *(np.where(at == place, NAN, 1.0) for place in (0, 7, 39)),
            *(np.where(at == 7, NAN, c) for c in (INF, -INF)),
            *(np.where(at == 37, c, at) for c in (INF, -INF)),
            np.where(at < 39, -INF, 2.0),
            np.where(at % 2, 300.0, -300.0),
            np.random.default_rng(1).standard_normal(40),
        ]
    ).astype(np.float32)


def reductions(axis: int) -> list[Case]:
    axes, along = [np.array([axis], np.int64)], {"axis": axis, "keepdims": 0}
    off = {"keepdims": 0}

    def last(best: Callable[..., Array]) -> Callable[[Array], Array]:
        return lambda x: x.shape[axis] - 1 - best(np.flip(x, axis), axis)

    return [
        Case("ReduceMax", axes, off, lambda x: np.max(x, axis)),
        Case("ReduceMin", axes, off, lambda x: np.min(x, axis)),
        Case("ArgMax", (), along, lambda x: np.argmax(x, axis)),
        Case("ArgMin", (), along, lambda x: np.argmin(x, axis)),
        Case("ArgMax", (), {**along, "select_last_index": 1}, last(np.argmax)),
        Case("ArgMin", (), {**along, "select_last_index": 1}, last(np.argmin)),
        *(Case(f"Reduce{kind}", axes, off) for kind in ("Sum", "Mean", "Prod", "L1", "L2")),
        *(Case(f"Reduce{kind}", axes, off) for kind in ("LogSum", "LogSumExp", "SumSquare")),
        Case("Softmax", (), {"axis": axis}),
        Case("LogSoftmax", (), {"axis": axis}),
        Case("CumSum", [np.array(axis, np.int64)]),
    ]


def test_reductions_along_memory() -> None:
    check(reductions(1), {"x": rows()})


def test_reductions_across_memory() -> None:
    check(reductions(0), {"x": np.ascontiguousarray(rows().T)})


def image() -> Array:
    x = np.random.default_rng(2).standard_normal((1, 8, 9, 9)).astype(np.float32)
    for channel, number in enumerate((NAN, INF, -INF)):
        x[0, channel] = number
    x[0, 3, 4, 4], x[0, 4, 0, 0], x[0, 4, 8, 8] = NAN, NAN, NAN
    x[0, 5, :2, :2], x[0, 6, 5, 5], x[0, 6, 2, 2] = -INF, INF, NAN
    return x


def largest(kernel: int, stride: int, pad: int) -> Callable[[Array], Array]:
    def pooled(x: Array) -> Array:
        padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)), constant_values=-INF)
        windows = sliding_window_view(padded, (kernel, kernel), (2, 3))
        return windows[:, :, ::stride, ::stride].max((4, 5))

    return pooled


def pooling(kernel: int, stride: int, pad: int) -> dict[str, Any]:
    return {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}


WINDOWS = [(3, 1, 1), (2, 2, 0), (3, 2, 1), (5, 1, 2), (1, 2, 0), (9, 1, 4)]


def test_poolings_of_images() -> None:
    check(
        [
            *(Case("MaxPool", (), pooling(*w), largest(*w)) for w in WINDOWS),
            *(Case("AveragePool", (), pooling(*w)) for w in WINDOWS[:3]),
            Case("GlobalMaxPool", expect=lambda x: x.max((2, 3), keepdims=True)),
            Case("GlobalAveragePool"),
            Case("LpPool", (), {"kernel_shape": [2, 2], "p": 2}),
        ],
        {"x": image()},
    )


def test_poolings_of_lines_and_volumes() -> None:
    lines, volume = image()[0], image()[None]
    check(
        [
            Case(
                "MaxPool",
                (),
                {"kernel_shape": [3], "pads": [1, 1]},
                lambda x: sliding_window_view(
                    np.pad(x, ((0, 0), (0, 0), (1, 1)), constant_values=-INF), 3, 2
                ).max(3),
            )
        ],
        {"x": lines},
    )
    check(
        [
            Case(
                "MaxPool",
                (),
                {"kernel_shape": [2, 2, 2]},
                lambda x: sliding_window_view(x, (2, 2, 2), (2, 3, 4)).max((5, 6, 7)),
            )
        ],
        {"x": volume},
    )


def normalisations(dtype: str) -> list[Case]:
    random = np.random.default_rng(3)
    scale = random.uniform(0.5, 1.5, 8).astype(dtype)
    shift = random.standard_normal(8).astype(dtype)
    mean, wide = shift, np.ones(9, dtype)
    return [
        Case("BatchNormalization", [scale, shift, mean, scale]),
        Case("GroupNormalization", [scale, shift], {"num_groups": 2}),
        Case("InstanceNormalization", [scale, shift]),
        Case("LayerNormalization", [wide, wide]),
        Case("RMSNormalization", [wide]),
        Case("LogSoftmax"),
        Case("Softmax"),
    ]


def test_normalisations() -> None:
    check(normalisations("float32"), {"x": image()}, rtol=1e-4, atol=1e-5)


def test_a_variance_that_is_small_beside_the_mean_keeps_its_digits() -> None:
    x = np.random.default_rng(8).normal(100, 1, (2, 3, 5, 7)).astype(np.float32)
    wide = x.astype(np.float64)
    centred = wide - wide.mean((0, 2, 3), keepdims=True)
    right = centred / np.sqrt((centred**2).mean((0, 2, 3), keepdims=True))
    case = Case("MeanVarianceNormalization", expect=lambda x: right.astype(np.float32))
    check([case], {"x": x}, rtol=1e-4, atol=3e-5)


@pytest.mark.parametrize("mean", [3.0, 300.0])
@pytest.mark.parametrize(
    ("op", "groups"), [("GroupNormalization", 2), ("InstanceNormalization", 8)]
)
def test_norms_of_groups_keep_the_digits_of_a_small_variance(
    op: str, groups: int, mean: float
) -> None:
    random = np.random.default_rng(9)
    x = random.normal(mean, 1, (2, 8, 5, 9)).astype(np.float32)
    scale, shift = random.normal(1, 0.5, (2, 8)).astype(np.float32)
    wide = x.astype(np.float64).reshape(2, groups, -1)
    normal = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    right = normal.reshape(x.shape) * scale[:, None, None] + shift[:, None, None]
    more = {"num_groups": groups} if op == "GroupNormalization" else {}

    check(
        [Case(op, [scale, shift], more, expect=lambda x: right.astype(np.float32))],
        {"x": x},
        rtol=1e-4,
        atol=1e-6 * mean,
    )


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("axes", "scales", "shifts"),
    [((2, 1), True, True), ((1, 2), True, False), ((1, 2), False, True)],
)
def test_a_layer_norm_without_a_part_or_with_axes_in_another_order(
    axes: tuple[int, int], scales: bool, shifts: bool, dtype: str
) -> None:
    """TVM 0.27 would always scale and shift, and read what is beside the scale."""
    shape = (3, 7, 40)
    lengths = ", ".join(str(shape[axis]) for axis in axes)
    asked = f"axes=[{axes[0]}, {axes[1]}], scale={scales}, center={shifts}".lower()
    parsed = collage.parse_graph(f"""graph {{
      x: {dtype}[3, 7, 40]; g: {dtype}[{lengths}]; b: {dtype}[{lengths}];
      y = nn.layer_norm(x, g, b) [{asked}];
      return y;
    }}""")
    graph = Graph(parsed.nodes, parsed.outputs, name="main")
    random = np.random.default_rng(10)
    x = random.normal(size=shape)
    scale, shift = random.normal(size=(2, *(shape[axis] for axis in axes)))
    inputs = {"x": x, "g": scale, "b": shift}
    given = {name: array.astype(f"float{dtype[1:]}") for name, array in inputs.items()}

    found = one_kernel_of(graph).run(given)["y"]

    order = np.argsort(axes)
    right = (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-5)
    right = right * scale.transpose(order) if scales else right
    right = right + shift.transpose(order) if shifts else right
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (0, 2), (1,), (2, 0, 1)])
def test_an_rms_norm_over_any_axes(axes: tuple[int, ...], dtype: str) -> None:
    shape = (3, 7, 40)
    lengths = [shape[axis] for axis in axes]
    parsed = collage.parse_graph(f"""graph {{
      x: {dtype}[3, 7, 40]; g: {dtype}{lengths};
      y = nn.rms_norm(x, g) [axes={list(axes)}];
      return y;
    }}""")
    graph = Graph(parsed.nodes, parsed.outputs, name="main")
    random = np.random.default_rng(11)
    x, scale = random.normal(size=shape), random.normal(size=lengths)
    given = {n: array.astype(f"float{dtype[1:]}") for n, array in (("x", x), ("g", scale))}

    found = one_kernel_of(graph).run(given)["y"]

    wide = [shape[axis] if axis in axes else 1 for axis in range(3)]
    right = x / np.sqrt((x * x).mean(axes, keepdims=True) + 1e-5)
    right *= scale.transpose(np.argsort(axes)).reshape(wide)
    np.testing.assert_allclose(found, right, rtol=1e-12 if dtype == "f64" else 1e-4)


def attention(scores: Array, v: Array) -> Array:
    with np.errstate(all="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v


def test_attention_with_rows_that_are_masked_whole_or_have_nan() -> None:
    random = np.random.default_rng(4)
    q, k, v = (random.standard_normal((2, 24, 16)).astype(np.float32) for _ in range(3))
    mask = np.where(random.random((2, 24, 24)) < 0.3, -INF, 0.0).astype(np.float32)
    mask[0, 3], mask[1, 5, :23] = -INF, -INF
    q[0, 9, 2] = NAN
    keys = np.ascontiguousarray(k.swapaxes(1, 2))
    graph = collage.parse_graph("""
        graph {
          q: f32[2, 24, 16]; k: f32[2, 16, 24]; v: f32[2, 24, 16]; mask: f32[2, 24, 24];
          raw = matmul(q, k);
          scores = add(raw, mask);
          shares = nn.softmax(scores);
          y = matmul(shares, v);
          return y;
        }
    """)
    run = one_kernel(graph)

    (found,) = run({"q": q, "k": keys, "v": v, "mask": mask})

    expected = attention(q.astype(np.float64) @ keys + mask, v)
    assert np.isnan(expected[0, [3, 9]]).all()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


# float16.

HALF = np.float16


def test_unary_operators_of_float16() -> None:
    random = np.random.default_rng(5)
    values = np.concatenate([SPECIAL, random.normal(0, 3, 100)])
    with np.errstate(over="ignore"):
        x = values.astype(HALF)
    names = {"Sign", "Clip"}
    cases = [case for case in UNARY if case.op not in names]
    sign = Case("Sign", expect=lambda x: np.where(np.isnan(x), x, np.sign(x)))
    check([*cases, sign], {"x": x}, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("factor", [slow(1), 100])
def test_sums_of_float16_neither_overflow_nor_lose_digits(factor: int) -> None:
    random = np.random.default_rng(6)
    x = (random.normal(1, 1, (1, 8, 12, 9)) * factor).astype(HALF)
    weight = random.normal(0, 0.01, (4, 8, 3, 3)).astype(HALF)
    check(
        [
            *(case for case in normalisations("float16") if case.op != "BatchNormalization"),
            Case("LRN", (), {"size": 5}),
            Case("MeanVarianceNormalization"),
            Case("AveragePool", (), {"kernel_shape": [3, 3]}),
            Case("GlobalAveragePool"),
            Case("Conv", [weight]),
            Case("MatMul", [random.normal(0, 0.01, (9, 5)).astype(HALF)]),
            *(
                Case(f"Reduce{kind}", [np.array([1, 2], np.int64)])
                for kind in ("Mean", "L2", "LogSum", "LogSumExp")
            ),
        ],
        {"x": x},
        rtol=2e-3,
        atol=2e-3,
    )


def test_long_sums_of_float16() -> None:
    x = np.random.default_rng(7).normal(10, 1, (4, 4000)).astype(HALF)
    axes = [np.array([1], np.int64)]
    kinds = ("Sum", "Mean", "L1", "L2")
    check([Case(f"Reduce{kind}", axes) for kind in kinds], {"x": x}, rtol=1e-3)


# Fused kernels and variants.

ACTIVATIONS = {
    "relu": Case("Relu"),
    "clip": Case("Clip", [np.float32(0), np.float32(6)]),
    "hard_swish": Case("HardSwish"),
}
CONVOLUTIONS = {
    "direct": ("direct", (8, 6, 3, 3), 1),
    "planes": ("direct", (6, 1, 3, 3), 6),
    "gemm": ("gemm", (8, 6, 1, 1), 1),
    "winograd2": ("winograd2", (8, 6, 3, 3), 1),
    "winograd4": ("winograd4", (8, 6, 3, 3), 1),
}


@pytest.mark.parametrize(("convolution", "activation"), covering(CONVOLUTIONS, ACTIVATIONS))
def test_nan_passes_the_activation_of_every_variant(convolution: str, activation: str) -> None:
    variant, weights, groups = CONVOLUTIONS[convolution]
    pad = weights[-1] // 2
    random = np.random.default_rng(8)
    x = random.standard_normal((1, 6, 14, 14)).astype(np.float32)
    w = random.standard_normal(weights).astype(np.float32)
    dirty = x.copy()
    dirty[0, :, 5, 5] = NAN
    made = chain_of(
        [Case("Conv", [w], {"pads": [pad] * 4, "group": groups}), ACTIVATIONS[activation]], x
    )
    run = one_kernel(collage.from_onnx(made), variant)

    (clean,), (found,) = run({"x": x}), run({"x": dirty})

    reached = slice(5 - pad, 6 + pad)
    assert np.isnan(found[0, :, reached, reached]).all()
    number = ~np.isnan(found)
    assert number[0, :, 12:, 12:].all()
    np.testing.assert_array_equal(found[number], clean[number])


@pytest.mark.parametrize(
    ("body", "expect"),
    [
        ("y = nn.relu(x);", lambda x: np.maximum(x, 0)),
        ("z = negative(x); y = maximum(x, z);", np.abs),
        ('f = astype(x) [dtype="float32"]; z = negative(f); y = maximum(f, z);', np.abs),
        ('f = astype(x) [dtype="float32"]; y = exp(f);', np.exp),
        ("y = tanh(x);", np.tanh),
        ("y = max(x) [axis=[1]];", lambda x: x.max(1)),
        ("y = sum(x) [axis=[1]];", lambda x: x.sum(1)),
        ("y = nn.softmax(x);", lambda x: attention(x, np.eye(40))),
        ("y = argmax(x) [axis=1];", lambda x: x.argmax(1)),
        ("s = sum(x) [axis=[1]]; z = negative(s); y = maximum(z, s);", lambda x: abs(x.sum(1))),
        ("z = nn.relu(x); y = subtract(z, x);", lambda x: np.maximum(x, 0) - x),
    ],
    ids=[
        *("relu", "maximum", "wide maximum", "wide exp", "tanh", "max", "sum", "softmax", "argmax"),
        *("maximum of sums", "difference"),
    ],
)
def test_kernels_that_read_bfloat16(body: str, expect: Callable[[Array], Array]) -> None:
    x = np.random.default_rng(9).normal(0, 3, (6, 40)).astype(ml_dtypes.bfloat16)
    x[1, 7], x[2, 8], x[3, :] = NAN, INF, -INF
    run = one_kernel(collage.parse_graph(f"graph {{ x: bf16[6, 40]; {body} return y; }}"))

    (found,) = run({"x": x})

    with np.errstate(all="ignore"):
        expected = expect(x.astype(np.float64))
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=1e-2)


# Fast math.


def test_fast_math_is_said_and_leaves_numbers_right() -> None:
    given = "collage 1; target tvm on llvm({}) {{ rules op_call_by_kind(); fallback; }}"
    numbers = np.linspace(-4, 4, 1000, dtype=np.float32)
    made = model([Case("Relu"), Case("Tanh"), Case("ReduceMax")], {"x": numbers})
    graph = collage.from_onnx(made)

    def plan(option: str) -> Plan:
        spec = collage.load(text=given.format(option))["tvm"]
        return collage.choose(graph, collage.propose(graph, spec), cost=lambda kernel: 1e-6)

    fast, exact = plan("fast_math: true"), plan("fast_math: false")
    executable = ModelExecutable(build(collage.realize(fast)), Signature.of(graph, cores=1))
    outputs = list(executable.run({"x": numbers}).values())

    for actual, expected in zip(outputs, by_onnxruntime(made, {"x": numbers}), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-6)
    assert PlanDocument.of("m", fast).fast_math == ["tvm"]
    assert PlanDocument.of("m", exact).fast_math == []
    said = "fast math in kernels of tvm: NaN and infinities may be lost"
    assert said in plan_text(PlanDocument.of("m", fast))
    assert "fast math" not in plan_text(PlanDocument.of("m", exact))
