"""The native schedules compute chains of convolutions in strips of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.schedule import strips
from tests.test_schedule import Array, allocated, check, convolved, padded, windows

Step = tuple[int, int, int, bool]
"""The output channels of a convolution, its kernel and stride, and whether it is depthwise."""

BLOCKS: list[tuple[tuple[int, ...], list[Step], bool]] = [
    ((1, 4, 14, 14), [(6, 1, 1, False), (6, 3, 1, True), (4, 1, 1, False)], True),
    ((1, 4, 14, 13), [(6, 1, 1, False), (6, 3, 2, True), (5, 1, 1, False)], False),
    ((1, 4, 15, 16), [(6, 1, 1, False), (6, 5, 1, True), (4, 1, 1, False)], True),
    ((1, 4, 17, 9), [(6, 1, 1, False), (6, 5, 2, True), (4, 1, 1, False)], False),
    ((2, 4, 13, 13), [(6, 1, 1, False), (6, 3, 1, True), (4, 1, 1, False)], True),
    ((1, 6, 20, 7), [(6, 3, 1, True), (9, 1, 1, False)], False),
    ((1, 6, 21, 7), [(6, 3, 2, True), (9, 1, 1, False)], False),
    ((1, 5, 23, 33), [(7, 1, 1, False), (7, 3, 1, True)], False),
    ((1, 3, 19, 19), [(5, 3, 1, False), (6, 3, 2, False), (4, 3, 1, False)], False),
    ((1, 3, 19, 19), [(5, 3, 2, False), (5, 3, 1, True), (5, 3, 1, True)], False),
    ((1, 4, 40, 3), [(6, 1, 1, False), (6, 7, 1, True), (4, 1, 1, False)], True),
]


def block(steps: list[Step], residual: bool) -> Callable[..., Any]:
    def body(emit: Any, x: Any, *weights: Any) -> Any:
        y = x
        for (channels, kernel, stride, depthwise), w in zip(steps, weights, strict=True):
            groups = channels if depthwise else 1
            y = emit(R.nn.conv2d(y, w, strides=stride, padding=kernel // 2, groups=groups))
            y = emit(R.clip(y, 0.0, 6.0))
        return R.add(y, x) if residual else y

    return body


def expected(steps: list[Step], residual: bool) -> Callable[..., Array]:
    def result(x: Array, *weights: Array) -> Array:
        y = x
        for (channels, kernel, stride, depthwise), w in zip(steps, weights, strict=True):
            groups = channels if depthwise else 1
            y = np.clip(convolved(y, w, stride, kernel // 2, groups=groups), 0, 6)
        return y + x if residual else y

    return result


def shapes(image: tuple[int, ...], steps: list[Step]) -> list[tuple[int, ...]]:
    found, channels = [image], image[1]
    for out, kernel, _, depthwise in steps:
        found.append((out, 1 if depthwise else channels, kernel, kernel))
        channels = out
    return found


@pytest.fixture
def small_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strips of few rows, also where everything would stay in the cache."""
    monkeypatch.setattr(strips, "WORTH_BYTES", 0)
    monkeypatch.setattr(strips, "RING_BYTES", 6 * 1024)


@pytest.mark.usefixtures("small_cache")
@pytest.mark.parametrize(("image", "steps", "residual"), BLOCKS)
def test_a_chain_of_convolutions_is_computed_in_strips(
    image: tuple[int, ...], steps: list[Step], residual: bool
) -> None:
    func = check(shapes(image, steps), block(steps, residual), expected(steps, residual))
    between = [size for size in allocated(func) if size]
    heights = [image[2], -(-image[2] // steps[0][2])]
    assert len(between) == len(steps) - 1
    assert between[0] < image[0] * steps[0][0] * heights[1] * image[3]


@pytest.mark.usefixtures("small_cache")
def test_pooling_follows_its_convolution_in_strips() -> None:
    def body(emit: Any, x: Any, w: Any) -> Any:
        y = emit(R.nn.relu(emit(R.nn.conv2d(x, w, strides=2, padding=3))))
        return R.nn.max_pool2d(y, (3, 3), (2, 2), (1, 1))

    def expect(x: Array, w: Array) -> Array:
        y = np.maximum(convolved(x, w, 2, 3), 0)
        return windows(padded(y, 1, -np.inf), 3, 2).max((-2, -1))

    check([(1, 3, 45, 47), (8, 3, 7, 7)], body, expect)


@pytest.mark.usefixtures("small_cache")
def test_a_value_that_is_read_again_is_kept_whole() -> None:
    def body(emit: Any, x: Any, w: Any, v: Any) -> Any:
        y = emit(R.nn.relu(emit(R.nn.conv2d(x, w, padding=1))))
        return R.add(emit(R.nn.conv2d(y, v, padding=1)), y)

    def expect(x: Array, w: Array, v: Array) -> Array:
        y = np.maximum(convolved(x, w, padding=1), 0)
        return convolved(y, v, padding=1) + y

    func = check([(1, 3, 19, 19), (5, 3, 3, 3), (5, 5, 3, 3)], body, expect)
    assert 5 * 19 * 19 in allocated(func)


def test_a_block_of_mobilenet_keeps_little_in_memory() -> None:
    image, steps = (1, 24, 56, 56), [(144, 1, 1, False), (144, 3, 1, True), (24, 1, 1, False)]
    func = check(shapes(image, steps), block(steps, True), expected(steps, True))
    assert sum(4 * size for size in allocated(func)) <= strips.RING_BYTES
