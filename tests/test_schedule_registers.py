"""What follows a 1x1 convolution is computed while its sums are in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import s_tir
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from tests.cases import covering
from tests.test_schedule import CORES, check, convolved


def buffer_names(func: Any) -> set[str]:
    found: set[str] = set()

    def note(block: Any) -> None:
        found.update(buffer.name for buffer in block.alloc_buffers)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, note))
    return found


@pytest.mark.parametrize(
    ("size", "channels", "cores"),
    covering([1, 7, 13, 28], [3, 40], [1, 2], rest=[5, 16]),
)
def test_sums_of_a_1x1_convolution_are_not_stored(size: int, channels: int, cores: int) -> None:
    def body(emit: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        return R.nn.relu(emit(R.add(emit(R.add(emit(R.nn.conv2d(x, w)), b)), r)))

    func = check(
        [
            (1, channels, size, size + 1),
            (33, channels, 1, 1),
            (1, 33, 1, 1),
            (1, 33, size, size + 1),
        ],
        body,
        lambda x, w, b, r: np.maximum(convolved(x, w) + b + r, 0),
        cores,
    )
    assert "sums" not in buffer_names(func)


@CORES
@pytest.mark.parametrize("shape", [(1, 1, 1, 13), (1, 1, 9, 1), (1, 1, 9, 13), (1, 1, 1, 1)])
def test_what_follows_may_read_rows_or_columns(shape: tuple[int, ...], cores: int) -> None:
    check(
        [(2, 6, 9, 13), (5, 6, 1, 1), shape],
        lambda emit, x, w, b: R.add(emit(R.nn.conv2d(x, w)), b),
        lambda x, w, b: convolved(x, w) + b,
        cores,
    )


def test_a_long_formula_is_written_once() -> None:
    def body(emit: Any, x: Any, w: Any) -> Any:
        y = emit(R.nn.conv2d(x, w))
        return R.multiply(y, emit(R.sigmoid(y)))

    def expect(x: Any, w: Any) -> Any:
        y = convolved(x, w)
        return y / (1 + np.exp(-y))

    func = check([(1, 6, 9, 13), (35, 6, 1, 1)], body, expect)
    assert "sums" in buffer_names(func)
