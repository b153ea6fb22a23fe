"""Operators on types for which TVM makes no code, or none of the right type, beside numpy."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.relax import op

import collage_dsl as collage
from tests.cases import slow

GENERATOR = np.random.default_rng(0)
A, B = GENERATOR.random((2, 5, 9)) > 0.6
Arrays = tuple[Any, ...]


def run(function: Callable[..., Any], *given: Any) -> Arrays:
    """What `function` of arrays gives, through the pipeline."""
    builder = relax.BlockBuilder()
    types = (relax.TensorType(each.shape, str(each.dtype)) for each in given)
    parameters = [relax.Var(f"x{number}", each) for number, each in enumerate(types)]
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(function(*parameters))
        builder.emit_func_output(result)
    pipeline = collage.pipeline(["native"], cost=lambda kernel: 1e-5 * len(kernel.nodes))
    executable = tvm.compile(builder.get(), tvm.target.Target("llvm"), relax_pipeline=pipeline)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    found = main(*map(tvm.runtime.tensor, given))
    return tuple(each.numpy() for each in ([found] if hasattr(found, "numpy") else found))


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda a, b: op.cumsum(a, axis=1), np.cumsum(A, axis=1) > 0),
        (lambda a, b: op.cumprod(a, axis=1), np.cumprod(A, axis=1) > 0),
        (lambda a, b: op.cumsum(a, axis=0, dtype="int64"), np.cumsum(A, axis=0)),
        (lambda a, b: op.sum(a, axis=1), A.any(axis=1)),
        (lambda a, b: op.prod(a, axis=0, keepdims=True), A.all(axis=0, keepdims=True)),
        (lambda a, b: op.max(a), A.any()),
        (lambda a, b: op.min(a, axis=[0]), A.all(axis=0)),
        (lambda a, b: op.argmax(a, axis=1), np.argmax(A, axis=1)),
        (lambda a, b: op.argmin(a, axis=0), np.argmin(A, axis=0)),
        (lambda a, b: op.less(a, b), A < B),
        (lambda a, b: op.greater_equal(a, op.logical_not(b)), A >= ~B),
        (lambda a, b: op.subtract(a, b), A ^ B),
        (lambda a, b: op.matmul(a, op.permute_dims(b)), (A.astype(int) @ B.T.astype(int)) > 0),
        (lambda a, b: op.nn.relu(op.negative(a)), A),
        (lambda a, b: op.sort(a, axis=1), np.sort(A, axis=1)),
        (
            lambda a, b: op.argsort(a, axis=1),
            np.argsort(A, axis=1, kind="stable").astype(np.int32),
        ),
    ],
)
def test_an_operator_calculates_with_truth_values(
    function: Callable[..., Any], wanted: Any
) -> None:
    (found,) = run(function, A, B)

    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_a_tuple_has_truth_values_and_places() -> None:
    values, places = run(lambda a, b: op.topk(a, 2, axis=1, ret_type="both"), A, B)

    assert values.dtype == bool
    np.testing.assert_array_equal(values, np.sort(A, axis=1)[:, :-3:-1])
    np.testing.assert_array_equal(np.take_along_axis(A, places.astype(int), 1), values)


NUMBERS = GENERATOR.integers(1, 100, (4, 6))


@pytest.mark.parametrize(
    "dtype", [slow("int8"), "uint8", "int16", slow("uint16"), slow("int32"), "uint32"]
)
def test_integers_are_averaged_and_sorted(dtype: str) -> None:
    def function(x: Any) -> Any:
        image = op.reshape(x, (1, 1, 4, 6))
        pooled = op.nn.avg_pool2d(image, (2, 2), (2, 2))
        return relax.Tuple([op.mean(x, 1), op.variance(x, 1), op.std(x, 1), pooled, op.sort(x, 1)])

    x = NUMBERS.astype(dtype)
    mean, variance, std, pooled, ordered = run(function, x)

    assert {str(each.dtype) for each in (mean, variance, std, pooled, ordered)} == {dtype}
    wide = x.astype(np.int64)
    whole = wide.sum(1) // 6
    np.testing.assert_array_equal(mean, whole)
    np.testing.assert_array_equal(
        variance, (((wide - whole[:, None]) ** 2).sum(1) // 6).astype(dtype)
    )
    np.testing.assert_array_equal(std, wide.std(1).astype(dtype))
    np.testing.assert_array_equal(pooled[0, 0], wide.reshape(2, 2, 3, 2).sum((1, 3)) // 4)
    np.testing.assert_array_equal(ordered, np.sort(x, 1))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_numbers_without_a_sign_are_negated(dtype: str) -> None:
    x = (NUMBERS % 3).astype(dtype)

    negative, sign = run(lambda x: relax.Tuple([op.negative(x), op.sign(x)]), x)

    np.testing.assert_array_equal(negative, np.negative(x))
    np.testing.assert_array_equal(sign, np.sign(x))


def test_functions_of_bfloat16() -> None:
    x = GENERATOR.normal(0, 3, (4, 6)).astype(ml_dtypes.bfloat16)
    x[0, :3] = np.nan, np.inf, -np.inf

    nan, infinite, finite, sign, power, remainder = run(
        lambda x: relax.Tuple(
            [
                *(op.isnan(x), op.isinf(x), op.isfinite(x), op.sign(x)),
                op.power(op.abs(x), relax.const(1.5, "bfloat16")),
                op.mod(op.abs(x), relax.const(2.0, "bfloat16")),
            ]
        ),
        x,
    )

    wide = x.astype(np.float32)
    np.testing.assert_array_equal(nan, np.isnan(wide))
    np.testing.assert_array_equal(infinite, np.isinf(wide))
    np.testing.assert_array_equal(finite, np.isfinite(wide))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(sign.astype(np.float32), np.sign(wide))
        np.testing.assert_allclose(power.astype(np.float32), np.abs(wide) ** 1.5, rtol=1e-2)
        np.testing.assert_allclose(remainder.astype(np.float32), np.abs(wide) % 2, atol=1e-2)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("bfloat16", 2e-2)])
@pytest.mark.parametrize("axes", [[-1], [1, 2], [0]])
def test_a_normalization_of_layers(dtype: str, tolerance: float, axes: list[int]) -> None:
    x = GENERATOR.normal(3, 2, (4, 3, 8)).astype(dtype)
    shape = [x.shape[axis] for axis in axes]
    scale, shift = (GENERATOR.normal(0, 1, shape).astype(dtype) for _ in range(2))

    (found,) = run(
        lambda x, scale, shift: op.nn.layer_norm(x, scale, shift, axes, 2.0**-10), x, scale, shift
    )

    wide = x.astype(np.float64)
    over = tuple(axes)
    deviation = np.sqrt(wide.var(over, keepdims=True) + 2.0**-10)
    broadcast = [n if axis in axes or axis - 3 in axes else 1 for axis, n in enumerate(x.shape)]
    factor, summand = (each.astype(np.float64).reshape(broadcast) for each in (scale, shift))
    wanted = (wide - wide.mean(over, keepdims=True)) / deviation * factor + summand
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("times", [7, 8, 16])
def test_bfloat16_numbers_that_are_repeated(times: int) -> None:
    x = GENERATOR.normal(size=(2, 8)).astype("bfloat16")

    (found,) = run(lambda x: op.repeat(x, times, 1), x)

    np.testing.assert_array_equal(found, np.repeat(x, times, 1))
