"""The inputs that kernels are timed on: every operator is defined for them."""

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.graph import CandidateKernel, SubGraph, Toolchain, members
from collage_dsl.measuring.built import arrays_of, built
from collage_dsl.measuring.task import kernel_task
from collage_dsl.realization.ranges import POSITIVE, USUAL, Range, range_of

CASES: list[tuple[str, list[Range]]] = [
    ("x: f32[4]; y = nn.relu(x); return y;", [USUAL]),
    ("x: f32[4]; d: f32[4]; y = divide(x, d); return y;", [USUAL, POSITIVE]),
    ("x: f32[4]; d: f32[4]; r = reshape(d, [4]); y = divide(x, r); return y;", [USUAL, POSITIVE]),
    (
        "x: f32[4]; v: f32[4]; e: f32[4]; a = add(v, e); s = sqrt(a); y = divide(x, s); return y;",
        [USUAL, POSITIVE, POSITIVE],
    ),
    ("x: f32[4]; d: f32[4]; a = subtract(x, d); b = exp(a); y = log(b); return y;", [USUAL] * 2),
    ("x: f32[4]; y = acosh(x); return y;", [(1.1, 2.0)]),
    ("x: f32[4]; a = acosh(x); b = asin(x); y = add(a, b); return y;", [POSITIVE]),
    ("x: i32[4]; d: i32[4]; y = floor_divide(x, d); return y;", [(0, 2), (1, 2)]),
    ("x: f32[7, 4]; i: i64[2]; y = take(x, i) [axis=0]; return y;", [USUAL, (0, 7)]),
]


@pytest.mark.parametrize(("text", "ranges"), CASES, ids=[text for text, _ in CASES])
def test_operands_are_drawn_from_where_operators_are_defined(
    text: str, ranges: list[Range]
) -> None:
    graph = collage.parse_graph(text)

    assert [range_of(graph, index) for index in members(graph.parameters)] == ranges


@pytest.mark.parametrize(
    "text",
    [
        *(text for text, _ in CASES if "asin" not in text),
        "d: f32[64]; e = subtract(d, d); a = add(e, d); y = log(a); return y;",
    ],
)
def test_what_a_kernel_gives_is_finite(text: str) -> None:
    graph = collage.parse_graph(text)
    kernel = CandidateKernel(graph, SubGraph(graph.calls), Toolchain("llvm"))

    made = built(kernel_task(kernel, Tvm(), {}), np.random.default_rng(0))

    (result,) = arrays_of(made.run())
    assert np.isfinite(result).all()
    assert len(made.inputs) == graph.parameters.bit_count()
