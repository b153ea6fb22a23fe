"""The native schedules compute a transposed convolution without multiplying any zeros."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
import tvm_ffi
from tvm import tirx
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.schedule import schedule
from collage_dsl.realization.difference import relative_error
from tests.cases import covering
from tests.one_kernel import node, one_kernel, onnx_model
from tests.reference import run_onnx
from tests.test_schedule import CORES, Array, check, fused, native, outputs

Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]
"""The image, the weights, and the attributes."""

CASES: list[Case] = [
    ((2, 7, 6, 5), (7, 5, 3, 3), {"strides": 2, "padding": 1, "output_padding": 1}),
    ((1, 4, 6, 19), (4, 6, 3, 3), {"strides": 3}),
    ((1, 4, 5, 5), (4, 3, 7, 7), {"strides": 3, "padding": 1, "output_padding": 2}),
    ((1, 6, 7, 7), (6, 4, 2, 2), {"strides": 3}),
    ((1, 6, 7, 7), (6, 4, 3, 3), {"strides": 2, "dilation": 2}),
    ((1, 3, 1, 1), (3, 4, 4, 4), {"strides": 2}),
    ((1, 6, 9, 9), (6, 1, 3, 3), {"strides": 2, "padding": 1, "groups": 6}),
    ((1, 6, 9, 9), (6, 4, 3, 3), {"padding": 1}),
    ((1, 4, 5, 6), (4, 3, 3, 2), {"strides": (1, 2), "groups": 2}),
]
MORE_CASES: list[Case] = [
    ((1, 16, 9, 11), (16, 12, 4, 4), {"strides": 2, "padding": 1}),
    ((1, 8, 14, 14), (8, 6, 2, 2), {"strides": 2}),
    ((1, 5, 7, 7), (5, 3, 5, 5), {"strides": 2, "padding": 2}),
    ((1, 6, 7, 7), (6, 4, 8, 8), {"strides": 4, "padding": 2}),
    ((1, 6, 7, 9), (6, 4, 3, 3), {"strides": (2, 1), "padding": 1}),
    ((1, 3, 4, 4), (3, 4, 4, 4), {"strides": 2, "padding": 3}),
    ((1, 8, 9, 9), (8, 3, 4, 4), {"strides": 2, "padding": 1, "groups": 2}),
    ((2, 3, 4, 7), (3, 5, 4, 3), {"strides": (1, 3)}),
]


def transposed(
    x: Array,
    w: Array,
    strides: int | tuple[int, int] = 1,
    padding: int = 0,
    output_padding: int = 0,
    dilation: int = 1,
    groups: int = 1,
) -> Array:
    """Each element of the image, times the kernel, added to the window where it belongs."""
    (sy, sx) = strides if isinstance(strides, tuple) else (strides, strides)
    batch, _, height, width = x.shape
    down, across = ((side - 1) * dilation + 1 for side in w.shape[2:])
    size = ((height - 1) * sy + down, (width - 1) * sx + across)
    parts = []
    for image, kernel in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
        whole = np.zeros((batch, w.shape[1], size[0] + output_padding, size[1] + output_padding))
        for y, x_ in np.ndindex(height, width):
            window = np.einsum("nc,coyx->noyx", image[:, :, y, x_], kernel)
            rows = slice(y * sy, y * sy + down, dilation)
            whole[:, :, rows, x_ * sx : x_ * sx + across : dilation] += window
        parts.append(
            whole[:, :, padding or None : -padding or None, padding or None : -padding or None]
        )
    return np.concatenate(parts, 1)


@pytest.mark.parametrize(
    ("image", "weight", "options", "cores"), covering(CASES, [1, 2], rest=MORE_CASES)
)
def test_a_transposed_convolution_adds_the_kernel_once_for_each_element(
    image: tuple[int, ...], weight: tuple[int, ...], options: dict[str, Any], cores: int
) -> None:
    check(
        [image, weight],
        lambda emit, x, w: R.nn.conv2d_transpose(x, w, **options),
        lambda x, w: transposed(x, w, **options),
        cores,
    )


def test_a_transposed_convolution_of_one_axis_is_exact_too() -> None:
    check(
        [(2, 5, 33), (5, 4, 4)],
        lambda emit, x, w: R.nn.conv1d_transpose(x, w, strides=2, padding=1),
        lambda x, w: transposed(x[:, :, None], w[:, :, None], (1, 2), padding=0)[..., 0, 1:-1],
    )


@pytest.mark.parametrize("strides", [(1, 2, 2), (2, 1, 2), (2, 2, 1), (2, 3, 2)])
def test_a_transposed_convolution_of_volumes_reads_nothing_beside_the_image(
    strides: tuple[int, int, int],
) -> None:
    """It gets a border of zeros in two dimensions only."""

    def expected(x: Array, w: Array) -> Array:
        sizes = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, w.shape[2:], strict=True)]
        whole = np.zeros((1, w.shape[1], *sizes))
        for at in np.ndindex(*x.shape[2:]):
            places = zip(at, strides, w.shape[2:], strict=True)
            window = (slice(i * s, i * s + k) for i, s, k in places)
            whole[:, :, *window] += np.einsum("nc,cozyx->nozyx", x[:, :, *at], w)
        return whole

    check(
        [(1, 4, 3, 4, 5), (4, 2, 3, 2, 3)],
        lambda emit, x, w: R.nn.conv3d_transpose(x, w, strides=strides),
        expected,
    )


@CORES
def test_what_comes_before_and_after_a_transposed_convolution_is_in_its_loops(cores: int) -> None:
    def body(emit: Any, x: Any, w: Any, b: Any, r: Any) -> Any:
        y = emit(R.nn.conv2d_transpose(emit(R.nn.relu(x)), w, strides=2, padding=1))
        return R.nn.relu(emit(R.add(emit(R.add(y, b)), r)))

    check(
        [(1, 6, 7, 7), (6, 5, 4, 4), (1, 5, 1, 1), (1, 5, 14, 14)],
        body,
        lambda x, w, b, r: np.maximum(transposed(np.maximum(x, 0), w, 2, 1) + b + r, 0),
        cores,
    )


@pytest.mark.parametrize("processor", ["haswell", "x86-64"])
def test_a_narrower_processor_computes_the_same(processor: str) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 6, 9, 9)).astype("float32")
    w = random.standard_normal((6, 5, 4, 4)).astype("float32")
    func = fused([x.shape, w.shape], strided(2))
    target = native(processor=processor)
    (found,) = outputs(schedule(func, target=target), target, [x, w])
    np.testing.assert_allclose(found, transposed(x, w, 2), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("stride", [2, 4])
def test_each_weight_is_multiplied_once_for_each_element_of_the_image(stride: int) -> None:
    image, weight = (1, 16, 16, 16), (16, 8, stride, stride)
    func = schedule(fused([image, weight], strided(stride)), target=native())
    assert multiplications(func) == prod(image) * prod(weight[1:])


def strided(stride: int) -> Callable[..., Any]:
    return lambda emit, x, w: R.nn.conv2d_transpose(x, w, strides=stride)


def multiplications(func: Any) -> int:
    """How many products of floats the loops of a function compute."""

    def count(node: Any) -> int:
        if isinstance(node, tirx.For):
            return int(node.extent) * count(node.body)
        if isinstance(node, tirx.SeqStmt):
            return sum(count(part) for part in node.seq)
        if isinstance(node, tirx.BufferStore):
            return _products(node.value)
        inner = [getattr(node, name, None) for name in ("block", "body", "then_case", "else_case")]
        return sum(count(part) for part in inner if part is not None)

    return count(func.body)


def _products(value: Any) -> int:
    found: list[Any] = []
    tvm_ffi.structural_walk(value, (tirx.Mul, found.append))
    return sum(str(each.ty.dtype) == "float32" for each in found)


PADS = [[0, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("batch", "height", "width", "pads"), covering([1, 2, 5], [(1, 1), (1, 2), (2, 1)], PADS)
)
def test_an_image_of_one_element_is_read_inside_only(
    batch: int, height: int, width: int, pads: list[int]
) -> None:
    options = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": pads}
    weights = {"w": np.random.default_rng(1).normal(size=(3, 2, 3, 3)).astype(np.float32)}
    inputs = {
        "x": np.random.default_rng(2).normal(size=(batch, 3, height, width)).astype(np.float32)
    }
    model = onnx_model([node("ConvTranspose", "x w", **options)], inputs, weights)

    actual = one_kernel(model).run(inputs)["y"]

    assert relative_error(actual, run_onnx(model, inputs)["y"]) < 1e-5
