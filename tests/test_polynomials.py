"""Indices over unknown sizes are simplified, and keep their values."""

from __future__ import annotations

import random
from typing import Any

import pytest
import tvm_ffi
from tvm import sym, tirx
from tvm.ir import Var

from collage_dsl.backends.schedule.polynomials import Indices, least_sizes

H, W, B = (Var(name, "int64") for name in "hwb")
X, Y, Z = (Var(name, "int64") for name in "xyz")
SIZES = {H: 1, W: 1, B: 1}


def number(value: int) -> Any:
    return tirx.IntImm("int64", value)


def value_of(index: Any, at: dict[Any, int]) -> int:
    given = tvm_ffi.structural_map(index, (Var, lambda var: number(at[var])))
    return int(sym.Analyzer().simplify(given).value)


def divisions(index: Any) -> int:
    found: list[Any] = []
    kinds = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
    tvm_ffi.structural_walk(index, (kinds, found.append))
    return len(found)


@pytest.mark.parametrize(
    ("index", "below"),
    [
        pytest.param((X // W) * W + X % W, {}, id="taken apart by one size"),
        pytest.param(((X // W // H) * H + X // W % H) * W + X % W, {}, id="by two sizes"),
        pytest.param((X * W + Y) // W, {Y: W}, id="a row"),
        pytest.param((X * W + Y) % W, {Y: W}, id="a column"),
        pytest.param((X * H * W + Y) // W // H, {Y: H * W}, id="a plane"),
        pytest.param(
            ((X * 64 + Y) * H * W + Z) // W // H // number(64) % B,
            {X: B, Y: number(64), Z: H * W},
            id="an image of a batch",
        ),
        pytest.param(
            (X * (W * 14 - 84) + Y) // (W * 14 - 84),
            {Y: W * 14 - 84},
            id="an image smaller than another",
        ),
        pytest.param(X % W, {X: W}, id="below the divisor"),
    ],
)
def test_divisions_that_sizes_decide_are_gone(index: Any, below: dict[Any, Any]) -> None:
    least = SIZES | {W: 7}

    assert divisions(Indices(below, least).simplified(index)) == 0


def test_a_quotient_that_sizes_do_not_decide_stays() -> None:
    found = Indices({X: H}, SIZES).simplified(X // W)

    assert divisions(found) == 1


def test_what_is_no_polynomial_stays_as_it_is() -> None:
    index = tirx.max(X, Y)

    assert Indices({}, {}).simplified(index).same_as(index)


def expression(chosen: random.Random, depth: int) -> Any:
    """A random index over sizes and axes. Divisors are sizes, which are positive."""
    if depth == 0 or chosen.random() < 0.2:
        return chosen.choice([X, Y, Z, H, W, number(chosen.randint(0, 5))])
    kind = chosen.randrange(5)
    one = expression(chosen, depth - 1)
    if kind < 3:
        other = expression(chosen, depth - 1)
        return (one + other, one - other, one * other)[kind]
    divisor = chosen.choice([H, W, H * W, H - 2, number(3), W * 4])
    return (tirx.floordiv if kind == 3 else tirx.floormod)(one, divisor)


@pytest.mark.parametrize("seed", range(300))
def test_simplified_indices_have_the_same_values(seed: int) -> None:
    chosen = random.Random(seed)
    index = expression(chosen, 4)
    below = {X: H, Y: W, Z: H * W}
    found = Indices(below, {H: 3, W: 1}).simplified(index)

    for _ in range(20):
        h, w = chosen.randint(3, 9), chosen.randint(1, 9)
        at = {H: h, W: w}
        at |= {X: chosen.randrange(h), Y: chosen.randrange(w), Z: chosen.randrange(h * w)}
        assert value_of(found, at) == value_of(index, at), (index, found, at)


def test_sizes_are_as_large_as_shapes_need() -> None:
    shapes = [(H, W - 6), (W * 14 - 84, number(3)), (H * W, (B - 1) // 2 + 1)]
    buffers = [tirx.decl_buffer(shape, "float32") for shape in shapes]

    assert least_sizes(buffers) == {H: 1, W: 7, B: 1}


def test_the_steps_of_an_index() -> None:
    indices = Indices({}, SIZES)

    assert indices.steps((X * H + Y) * 2 + Z, [X, Y, Z]) == [None, 2, 1]
    assert indices.steps(X * Y, [X, Y]) is None
    assert indices.steps(X // W, [X]) is None
