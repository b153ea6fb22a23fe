"""The native schedules of depthwise convolutions and pooling, and of vectors that are not full."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from numpy.lib.stride_tricks import sliding_window_view
from tvm import relax
from tvm.relax import op as R  # noqa: N812 - as TVM prints it
from tvm.target.codegen import llvm_get_intrinsic_name

from collage_dsl.backends.schedule import schedule
from tests.cases import covering, slow
from tests.test_schedule import (
    CORES,
    Array,
    check,
    convolved,
    fused,
    local_sizes,
    native,
    outputs,
    padded,
    vector_loops,
    windows,
)

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Planes = tuple[tuple[int, ...], int, dict[str, int]]
"""The image, the side of the kernel, and the attributes of a depthwise convolution."""

DEPTHWISE: list[Planes] = [
    ((1, 5, 1, 40), 3, {"padding": 1}),
    ((1, 5, 40, 2), 3, {"padding": 1}),
    ((1, 9, 7, 7), 5, {"padding": 2}),
    ((1, 4, 17, 33), 7, {"padding": 3}),
    ((1, 3, 28, 27), 5, {"padding": 2, "strides": 2}),
    ((1, 3, 29, 19), 3, {"strides": 3}),
    ((1, 3, 19, 21), 3, {"padding": 2, "dilation": 2}),
]
MORE_DEPTHWISE: list[Planes] = [
    ((2, 6, 3, 3), 3, {"padding": 1}),
    ((1, 4, 13, 15), 3, {"padding": 1}),
    ((1, 3, 31, 31), 3, {"padding": 1, "strides": 2}),
    ((1, 3, 113, 112), 3, {"padding": 1}),
    ((1, 2, 9, 700), 3, {"padding": 1}),
]


@pytest.mark.parametrize(
    ("image", "kernel", "options", "cores"), covering(DEPTHWISE, [1, 2], rest=MORE_DEPTHWISE)
)
def test_a_depthwise_convolution_of_any_shape_is_the_sum_over_its_windows(
    image: tuple[int, ...], kernel: int, options: dict[str, int], cores: int
) -> None:
    channels = image[1]
    check(
        [image, (channels, 1, kernel, kernel)],
        lambda emit, x, w: R.nn.conv2d(x, w, groups=channels, **options),
        lambda x, w: convolved(x, w, groups=channels, **options),
        cores,
    )


@CORES
@pytest.mark.parametrize("size", [7, slow(14), 28])
def test_what_follows_a_depthwise_convolution_is_computed_from_registers(
    size: int, cores: int
) -> None:
    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        y = emit(R.add(emit(R.nn.conv2d(x, w, padding=1, groups=6)), b))
        return R.add(emit(R.clip(y, 0.0, 6.0)), x)

    check(
        [(1, 6, size, size), (6, 1, 3, 3), (1, 6, 1, 1)],
        body,
        lambda x, w, b: np.clip(convolved(x, w, padding=1, groups=6) + b, 0, 6) + x,
        cores,
    )


@pytest.mark.parametrize(
    ("kernel", "stride", "pad", "size", "cores"),
    covering([(3, 2, 1), (2, 2, 0), (3, 1, 1), (5, 3, 2)], [6, 13, 33], [1, 2]),
)
def test_pooling_takes_the_maximum_or_the_mean_of_its_windows(
    kernel: int, stride: int, pad: int, size: int, cores: int
) -> None:
    image = [(2, 3, size, size + 1)]
    arguments = ((kernel, kernel), (stride, stride), (pad, pad))

    def largest(x: Array) -> Array:
        return windows(padded(x, pad, -np.inf), kernel, stride).max((-2, -1))

    def mean(x: Array) -> Array:
        return windows(padded(x, pad), kernel, stride).mean((-2, -1))

    check(image, lambda emit, x: R.nn.max_pool2d(x, *arguments), largest, cores)
    average = {"count_include_pad": True}
    check(image, lambda emit, x: R.nn.avg_pool2d(x, *arguments, **average), mean, cores)


@pytest.mark.parametrize(("processor", "size"), covering(["haswell", "x86-64"], [7, 13]))
def test_a_narrower_processor_computes_the_same_planes(processor: str, size: int) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 5, size, size)).astype("float32")
    w = random.standard_normal((5, 1, 3, 3)).astype("float32")
    shapes = [x.shape, w.shape]
    func = fused(shapes, lambda emit, x, w: R.nn.conv2d(x, w, padding=1, groups=5))
    target = native(processor=processor)
    (found,) = outputs(schedule(func, target=target), target, [x, w])
    np.testing.assert_allclose(found, convolved(x, w, padding=1, groups=5), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("width", [3, slow(5), slow(7), 10, 13, slow(14), slow(15)])
def test_a_vector_that_is_not_full_is_accessed_by_one_masked_instruction(width: int) -> None:
    image = [(1, 2, 9, width)]
    relu = schedule(fused(image, lambda emit, x: R.nn.relu(x)), target=native(processor="znver4"))
    pooled = schedule(
        fused(image, lambda emit, x: R.nn.max_pool2d(x, (3, 3), (1, 1), (1, 1))),
        target=native(processor="znver4"),
    )
    for func in (relu, pooled):
        assert all(extent & (extent - 1) == 0 for extent in vector_loops(func))
    assert {"llvm.masked.load", "llvm.masked.store"} <= intrinsics(pooled)


def test_a_processor_without_masks_gets_none() -> None:
    func = fused([(1, 2, 9, 13)], lambda emit, x: R.nn.max_pool2d(x, (3, 3), (1, 1), (1, 1)))
    assert not intrinsics(schedule(func, target=native(processor="haswell")))


def intrinsics(func: Any) -> set[str]:
    """The names of the LLVM functions that a function calls."""
    found: set[str] = set()

    def note(call: Any) -> None:
        if "call_llvm_intrin" in str(getattr(call.op, "name", "")):
            found.add(llvm_get_intrinsic_name(int(call.args[0])))

    tvm_ffi.structural_walk(func.body, (tvm.ir.Call, note))
    return found


def test_lanes_beyond_the_end_of_a_result_are_not_written() -> None:
    target = native()
    shape = (1, 3, 9, 13)
    func = schedule(fused([shape], lambda emit, x: R.nn.relu(x)), target=target)
    kernel = tvm.compile(tvm.IRModule({"kernel": func}), target=target)["kernel"]
    size = int(np.prod(shape))
    whole = tvm.runtime.tensor(np.full(size + 16, -7, "float32"))
    view = whole._create_view(shape)
    kernel(tvm.runtime.tensor(np.ones(shape, "float32")), view)
    found = whole.numpy()
    assert (found[:size] == 1).all()
    assert (found[size:] == -7).all()


@pytest.mark.parametrize("size", [slow(3), 5, slow(9)])
def test_a_local_response_norm_is_one_pass_over_its_planes(size: int) -> None:
    half = size // 2

    def body(emit: Any, x: Any) -> Any:
        y = emit(R.expand_dims(emit(R.multiply(x, x)), [1]))
        pads = (half, 0, 0, half, 0, 0)
        y = emit(R.nn.avg_pool3d(y, (size, 1, 1), (1, 1, 1), pads, count_include_pad=True))
        y = emit(R.multiply(emit(R.squeeze(y, [1])), relax.const(0.2, "float32")))
        y = emit(R.power(emit(R.add(y, relax.const(2.0, "float32"))), relax.const(0.75, "float32")))
        return R.divide(x, y)

    def expect(x: Array) -> Array:
        squares = np.pad(x * x, ((0, 0), (half, half), (0, 0), (0, 0)))
        total = sliding_window_view(squares, size, axis=1).sum(-1)
        return x / (2 + 0.2 * total / size) ** 0.75

    func = check([(2, 11, 9, 13)], body, expect)
    assert not local_sizes(func)


def test_padding_is_not_read_by_a_vector_that_is_not_full() -> None:
    """The last channels are beyond the end of the tensor, and reading them may crash."""
    check(
        [(1, 4, 3, 13)],
        lambda emit, x: R.nn.relu(emit(R.nn.pad(x, (0, 0, 300, 300, 0, 0, 0, 0)))),
        lambda x: np.maximum(np.pad(x, ((0, 0), (300, 300), (0, 0), (0, 0))), 0),
    )
