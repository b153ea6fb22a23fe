"""The native schedules read along another axis than they write in blocks, turned in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.schedule import schedule
from tests.cases import covering
from tests.test_schedule import CORES, Array, Shapes, fused, native, outputs

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Permutation = tuple[tuple[int, ...], tuple[int, ...]]

PERMUTATIONS: list[Permutation] = [
    ((16, 16), (1, 0)),
    ((37, 41), (1, 0)),
    ((8, 300), (1, 0)),
    ((515, 9), (1, 0)),
    ((1, 12, 33, 24), (0, 1, 3, 2)),
    ((2, 9, 10, 11), (0, 2, 3, 1)),
    ((2, 10, 11, 9), (0, 3, 1, 2)),
    ((12, 10, 5, 11), (3, 1, 2, 0)),
    ((10, 3, 1, 12), (2, 3, 1, 0)),
]
DTYPES = ["float32", "float64", "float16", "int8", "uint16", "int64"]

BY_ONE = [
    pytest.param((16, 16), (0, 1), "float32", id="in order"),
    pytest.param((7, 16), (1, 0), "float32", id="short"),
    pytest.param((16, 24), (1, 0), "bfloat16", id="bfloat16"),
    pytest.param((16, 24), (1, 0), "bool", id="bool"),
]
"""Permutations without blocks."""


def array(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> Array:
    numbers = np.random.default_rng(seed).normal(size=shape) * 10
    return numbers.astype(np.uint16 if dtype == "bfloat16" else dtype)


def shuffles(func: Any) -> int:
    """How often vectors are shuffled, as they are where blocks are transposed."""
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.Shuffle, found.append))
    return len(found)


def computed(
    shapes: Shapes, body: Callable[..., Any], arrays: list[Array], cores: int = 1
) -> tuple[Array, bool]:
    """What the scheduled function gives, and whether it turns blocks."""
    func = schedule(fused(shapes, body, str(arrays[0].dtype)), target=native(cores))
    (result,) = outputs(func, native(cores), arrays)
    return result, shuffles(func) > 0


@CORES
@pytest.mark.parametrize(("shape", "axes", "dtype"), covering(PERMUTATIONS, DTYPES))
def test_a_permutation(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, cores: int
) -> None:
    x = array(shape, dtype)

    result, turned = computed([shape], lambda _, x: R.permute_dims(x, axes), [x], cores)

    np.testing.assert_array_equal(result, x.transpose(axes))
    assert turned


@pytest.mark.parametrize(("shape", "axes", "dtype"), BY_ONE)
def test_what_needs_no_blocks_or_cannot_have_them(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str
) -> None:
    func = schedule(fused([shape], lambda _, x: R.permute_dims(x, axes), dtype), target=native())

    assert not shuffles(func)


def test_a_value_that_is_used_twice_is_turned_once() -> None:
    def scheduled(body: Callable[..., Any]) -> Any:
        return schedule(fused([(16, 24)], body), target=native())

    once = scheduled(lambda _, x: R.permute_dims(x))
    twice = scheduled(lambda emit, x: R.nn.silu(emit(R.permute_dims(x))))

    assert shuffles(twice) == shuffles(once) > 0


@CORES
@pytest.mark.parametrize(("rows", "columns", "wanted"), [(37, 41, False), (32, 48, True)])
def test_no_element_is_computed_twice_over_what_it_is_computed_from(
    rows: int, columns: int, wanted: bool, cores: int
) -> None:
    """TVM writes the sum over the first product. The last blocks would repeat some of it."""
    shapes = [(rows, 9), (9, columns), (columns, 9), (9, rows), (columns, 24)]
    a, b, c, d, e = arrays = [array(each, seed=n) / 10 for n, each in enumerate(shapes)]

    def body(emit: Callable[[Any], Any], a: Any, b: Any, c: Any, d: Any, e: Any) -> Any:
        one, other = emit(R.matmul(a, b)), emit(R.matmul(c, d))
        return R.matmul(emit(R.add(one, emit(R.permute_dims(other)))), e)

    result, turned = computed(shapes, body, arrays, cores)

    np.testing.assert_allclose(result, (a @ b + (c @ d).T) @ e, rtol=1e-4, atol=1e-3)
    assert turned is wanted


@CORES
def test_other_operands_may_be_read_in_order_or_turned_too(cores: int) -> None:
    """A value that is read in two orders, and rows and columns that are added."""
    x, y, row, column = (
        array(s, seed=n) for n, s in enumerate([(19, 35), (19, 35), (19,), (35, 1)])
    )

    def body(emit: Callable[[Any], Any], x: Any, y: Any, row: Any, column: Any) -> Any:
        a = emit(R.permute_dims(emit(R.nn.relu(x))))
        b = emit(R.permute_dims(emit(R.multiply(y, x))))
        return R.add(emit(R.add(emit(R.maximum(a, b)), row)), column)

    result, turned = computed(
        [x.shape, y.shape, row.shape, column.shape], body, [x, y, row, column], cores
    )

    wanted = np.maximum(np.maximum(x, 0).T, (y * x).T) + row + column
    np.testing.assert_allclose(result, wanted, rtol=1e-6, atol=1e-5)
    assert turned


@pytest.mark.parametrize(
    ("shape", "reshaped", "axes"),
    [
        pytest.param((2, 19, 36), (2, 19, 3, 12), (0, 2, 3, 1), id="split, as heads of attention"),
        pytest.param((2, 20, 32, 16), (2, 20, 512), (0, 2, 1), id="joined, as pixels are tokens"),
        pytest.param((2, 20, 6, 7), (2, 20, 42), (0, 2, 1), id="joined, of no powers of two"),
    ],
)
def test_axes_that_a_reshape_splits_or_joins(
    shape: tuple[int, ...], reshaped: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    x = array(shape)

    def body(emit: Callable[[Any], Any], x: Any) -> Any:
        return R.permute_dims(emit(R.reshape(x, reshaped)), axes)

    result, turned = computed([x.shape], body, [x])

    np.testing.assert_array_equal(result, x.reshape(reshaped).transpose(axes))
    assert turned


def test_what_lies_outside_is_not_read() -> None:
    """Padding chooses between a number and a value that is not always there."""
    x = array((19, 35))

    def body(emit: Callable[[Any], Any], x: Any) -> Any:
        return R.permute_dims(emit(R.nn.pad(x, (1, 2, 3, 4))))

    result, turned = computed([x.shape], body, [x])

    np.testing.assert_array_equal(result, np.pad(x, ((1, 2), (3, 4))).T)
    assert not turned
