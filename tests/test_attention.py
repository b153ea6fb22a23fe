"""A chain of products with stages along the rows between them is computed by tiles of rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

import collage_dsl as collage
from collage_dsl.backends.schedule import schedule
from collage_dsl.realization.lower import lower
from tests.cases import slow
from tests.test_schedule import (
    Array,
    Shapes,
    allocated,
    fused,
    native,
    outputs,
    softmax,
)

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

SPECS = Path(__file__).parent.parent / "specs"
CORES = pytest.mark.parametrize("cores", [slow(1), 2])
"""For two cores, the loops for one are within parallel ones. Many shapes are tried with one."""


def check(
    shapes: Shapes,
    body: Callable[..., Any],
    expect: Callable[..., Array],
    cores: int = 1,
    processor: str | None = None,
) -> Any:
    """The scheduled function computes `expect` within rounding; it is returned."""
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(shape).astype("float32") for shape in shapes]
    target = native(cores, processor)
    func = schedule(fused(shapes, body), target=target)
    (found,) = outputs(func, target, arrays)
    wanted = expect(*[array.astype("float64") for array in arrays])
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 3e-6 * np.abs(wanted).max()
    return func


def attended(q: Array, k: Array, v: Array, mask: Array | float = 0.0, scale: float = 1.0) -> Array:
    return softmax(q @ k.swapaxes(-1, -2) * scale + mask, -1) @ v


def attention(emit: Any, q: Any, k: Any, v: Any) -> Any:
    scores = emit(R.matmul(q, emit(R.permute_dims(k, [0, 2, 1]))))
    return R.matmul(emit(R.nn.softmax(scores)), v)


SIZES = [(2, 33, 33, 16), slow(3, 197, 197, 64), (1, 4, 50, 8), slow(12, 128, 128, 64),
         (2, 30, 17, 33), (1, 65, 1000, 24)]  # fmt: skip


@CORES
@pytest.mark.parametrize(("heads", "rows", "columns", "size"), SIZES)
def test_the_scores_of_attention_are_never_stored(
    heads: int, rows: int, columns: int, size: int, cores: int
) -> None:
    shapes = [(heads, rows, size), (heads, columns, size), (heads, columns, size)]
    func = check(shapes, attention, attended, cores)
    assert not allocated(func)


@pytest.mark.parametrize("processor", ["haswell", "x86-64"])
def test_a_narrower_processor_computes_the_same(processor: str) -> None:
    check([(2, 33, 16), (2, 40, 16), (2, 40, 24)], attention, attended, processor=processor)


@CORES
def test_a_scale_and_a_mask_are_computed_on_the_scores(cores: int) -> None:
    def body(emit: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
        scores = emit(R.matmul(q, emit(R.permute_dims(k, [0, 1, 3, 2]))))
        scaled = emit(R.multiply(scores, relax.const(0.125, "float32")))
        return R.matmul(emit(R.nn.softmax(emit(R.add(scaled, mask)))), v)

    shapes = [(1, 3, 45, 16), (1, 3, 50, 16), (1, 3, 50, 20), (1, 1, 45, 50)]
    check(shapes, body, lambda q, k, v, m: attended(q, k, v, m, 0.125), cores)


def test_an_epilogue_follows_each_product() -> None:
    def body(emit: Any, q: Any, k: Any, v: Any, r: Any) -> Any:
        scores = emit(R.tanh(emit(R.matmul(q, k))))
        return R.nn.relu(emit(R.add(emit(R.matmul(emit(R.nn.softmax(scores)), v)), r)))

    check(
        [(2, 30, 16), (2, 16, 40), (2, 40, 24), (2, 30, 24)],
        body,
        lambda q, k, v, r: np.maximum(softmax(np.tanh(q @ k), -1) @ v + r, 0),
    )


def test_scores_that_are_a_result_too_are_stored() -> None:
    def body(emit: Any, q: Any, k: Any, v: Any) -> Any:
        weights = emit(R.nn.softmax(emit(R.matmul(q, k))))
        return relax.Tuple([weights, emit(R.matmul(weights, v))])

    shapes = [(2, 30, 16), (2, 16, 40), (2, 40, 24)]
    random = np.random.default_rng(0)
    q, k, v = (random.standard_normal(shape).astype("float32") for shape in shapes)
    func = schedule(fused(shapes, body), target=native())
    weights, result = outputs(func, native(), [q, k, v])
    np.testing.assert_allclose(weights, softmax(q.astype("float64") @ k, -1), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(result, weights @ v, rtol=1e-4, atol=1e-5)


def test_rows_that_differ_by_much_lose_no_more_than_rounding() -> None:
    """Scores of up to a thousand: each row is shifted by its own maximum."""
    random = np.random.default_rng(2)
    q, k, v = (random.standard_normal((2, 50, 32)).astype("float32") for _ in range(3))
    q *= np.logspace(-3, 2, 50, dtype="float32")[:, None]
    target = native()
    func = schedule(fused([q.shape] * 3, attention), target=target)
    (found,) = outputs(func, target, [q, k, v])
    wanted = attended(*[array.astype("float64") for array in (q, k, v)])
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_products_without_a_row_between_them_are_computed_one_after_the_other() -> None:
    check(
        [(20, 16), (16, 40), (40, 24)],
        lambda emit, x, w, u: R.matmul(emit(R.nn.relu(emit(R.matmul(x, w)))), u),
        lambda x, w, u: np.maximum(x @ w, 0) @ u,
    )


def test_the_sum_of_a_softmax_is_divided_by_once_a_row() -> None:
    func = schedule(fused([(40, 64)], lambda emit, x: R.nn.softmax(x)), target=native())
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tvm.tirx.Div, found.append))
    assert len(found) == 1
    assert isinstance(found[0].a, tvm.tirx.FloatImm)


@pytest.mark.parametrize("size", [3, 8, 16, 50257])
def test_short_and_long_rows_are_exact(size: int) -> None:
    random = np.random.default_rng(3)
    x = (random.standard_normal((5, size)) * 10).astype("float32")
    func = schedule(fused([x.shape], lambda emit, x: R.nn.softmax(x)), target=native())
    (found,) = outputs(func, native(), [x])
    np.testing.assert_allclose(found, softmax(x.astype("float64"), -1), rtol=2e-5, atol=1e-30)


def test_an_exponential_of_any_size_is_within_a_millionth() -> None:
    x = np.linspace(-87.3, 88.7, 100_001).astype("float32")
    func = schedule(fused([x.shape], lambda emit, x: R.exp(x)), target=native())
    (found,) = outputs(func, native(), [x])
    np.testing.assert_allclose(found, [math.exp(value) for value in x], rtol=5e-7)


def test_the_native_spec_makes_one_kernel_of_attention_and_what_orders_its_operands() -> None:
    """TVM fuses no two products by itself. A primitive function of several becomes one PrimFunc."""
    builder = relax.BlockBuilder()
    shapes = [(1, 40, 2, 16)] * 3
    names = ("q", "k", "v")
    params = [
        relax.Var(n, relax.TensorType(s, "float32")) for n, s in zip(names, shapes, strict=True)
    ]
    with builder.function("main", params):
        with builder.dataflow():
            q, v = (builder.emit(R.permute_dims(params[i], [0, 2, 1, 3])) for i in (0, 2))
            k = builder.emit(R.permute_dims(params[1], [0, 2, 3, 1]))
            scores = builder.emit(R.multiply(builder.emit(R.matmul(q, k)), relax.const(0.25)))
            result = builder.emit(R.matmul(builder.emit(R.nn.softmax(scores)), v))
            output = builder.emit_output(result)
        builder.emit_func_output(output)
    graph = collage.from_relax(builder.get(), "main")
    (spec,) = collage.load(SPECS / "native.collage").values()
    found = collage.propose(graph, spec)
    plan = collage.choose(graph, found, cost=lambda _: 1.0)
    assert [len(kernel.nodes) for kernel in plan.kernels] == [7]
    lowered = lower(collage.realize(plan), native())
    (kernel,) = (f for _, f in lowered.functions_items() if isinstance(f, tvm.tirx.PrimFunc))
    assert not allocated(kernel)
