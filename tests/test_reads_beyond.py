"""Native kernels of any size read nothing before or after a tensor: there is no memory."""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.schedule import schedule, schedule_variant
from tests.test_schedule import Array, built, native
from tests.test_schedule_slices import Shape, arrays_of, of_any_size

PAGE = mmap.PAGESIZE
SIZES = [{"h": h, "w": w} for h, w in ((2, 2), (2, 9), (3, 17), (5, 8), (5, 33))]


def between_pages(array: Array, *, at_end: bool) -> Array:
    """A copy of `array` that begins after a page that cannot be read, or ends before one."""
    pages = -(-array.nbytes // PAGE) + 2
    memory = mmap.mmap(-1, pages * PAGE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    for page in (0, pages - 1):
        assert protect(ctypes.c_void_p(start + page * PAGE), ctypes.c_size_t(PAGE), 0) == 0
    offset = (pages - 1) * PAGE - array.nbytes if at_end else PAGE
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy


def transposed(emit: Any, x: Any, w: Any) -> Any:
    return R.nn.conv2d_transpose(x, w, strides=2, padding=1)


def convolved(emit: Any, x: Any, w: Any) -> Any:
    return R.nn.conv2d(x, w, padding=2)


def padded_twice(emit: Any, x: Any, w: Any) -> Any:
    once = emit(R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "constant", 2.0))
    return R.nn.conv2d(once, w, padding=1)


def pooled(emit: Any, x: Any, w: Any) -> Any:
    once = emit(R.nn.pad(x, [0, 0, 0, 0, 1, 1, 1, 1], "constant", 2.0))
    return R.add(emit(R.nn.max_pool2d(once, (3, 3), (2, 2), (1, 1))), w)


@pytest.mark.parametrize(
    ("body", "weight", "variant"),
    [
        (transposed, (6, 4, 4, 4), "direct"),
        (transposed, (6, 4, 4, 4), "gemm"),
        (convolved, (8, 6, 3, 3), "direct"),
        (convolved, (8, 6, 3, 3), "gemm"),
        (padded_twice, (8, 6, 3, 3), "direct"),
        (pooled, (1, 6, 1, 1), "direct"),
    ],
)
def test_nothing_beyond_a_tensor_is_read(body: Any, weight: Shape, variant: str) -> None:
    shapes: list[Shape] = [(1, 6, "h", "w"), weight]
    func, target = of_any_size(shapes, body), native()
    whole = built(schedule(func, target=target), target)
    scheduled = schedule_variant(func, variant, target=target)
    kernel = built(scheduled.function, target)
    for sizes in SIZES:
        inputs = arrays_of(shapes, sizes)
        expected = result_of(func, sizes)
        given = tvm.runtime.tensor(expected)
        whole(*map(tvm.runtime.tensor, inputs), given)
        expected = given.numpy()
        taken: list[Any] = list(inputs)
        for position, prepare in scheduled.prepared.items():
            packed = tvm.runtime.empty([int(e) for e in prepare.params[1].shape], "float32")
            pack = built(prepare.with_attr("global_symbol", "kernel"), target)
            pack(tvm.runtime.tensor(inputs[position]), packed)
            taken[position] = packed
        for at_end in (False, True):
            taken[0] = between_pages(inputs[0], at_end=at_end)
            assert ends_well(kernel, taken, result_of(func, sizes), expected), (sizes, at_end)


def result_of(func: Any, sizes: dict[str, int]) -> Array:
    """An array for the result of a function."""

    def size(extent: Any) -> int:
        value = tvm_ffi.structural_map(
            extent, (tvm.ir.Var, lambda var: tirx.const(sizes[var.name], var.ty.dtype))
        )
        return int(tvm.sym.Analyzer().simplify(value).value)

    return np.full(list(map(size, func.params[-1].shape)), 7, "float32")


def ends_well(kernel: Any, inputs: list[Any], result: Array, expected: Array) -> bool:
    """Whether a kernel gives what is expected, in a process of its own."""
    child = os.fork()
    if child == 0:
        arrays = [tvm_ffi.from_dlpack(each, require_alignment=0) for each in (*inputs, result)]
        kernel(*arrays)
        os._exit(0 if np.allclose(result, expected, rtol=1e-4, atol=1e-4) else 1)
    return os.waitpid(child, 0)[1] == 0
