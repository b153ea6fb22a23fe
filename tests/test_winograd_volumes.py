"""Winograd convolutions of volumes compute what direct ones do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from tests.cases import covering
from tests.test_winograd import ERROR, check, computed, reason

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Array = Any


@dataclass(frozen=True)
class Layer:
    """`shape` is NCDHW, `pads` those at the front, top and left, then behind, below and right."""

    shape: tuple[int, ...] = (1, 16, 4, 9, 11)
    filters: int = 16
    kernel: tuple[int, int, int] = (3, 3, 3)
    stride: int = 1
    dilation: int = 1
    pads: tuple[int, ...] = (1, 1, 1, 1, 1, 1)


LAYERS = {
    "several volumes": Layer(shape=(3, 8, 3, 8, 8)),
    "uneven padding": Layer(pads=(2, 1, 0, 0, 2, 1)),
    "strides of planes": Layer(shape=(1, 8, 7, 8, 8), stride=2),
    "dilated planes": Layer(shape=(1, 8, 7, 8, 8), dilation=2, pads=(2, 1, 1, 2, 1, 1)),
    "even taps of planes": Layer(kernel=(2, 3, 3), pads=(0, 1, 1, 1, 1, 1)),
    "one tap of rows": Layer(kernel=(3, 1, 3), pads=(1, 0, 1, 1, 0, 1)),
}
MORE = {
    "plain": Layer(),
    "one plane of results": Layer(shape=(2, 8, 3, 8, 8), pads=(0, 1, 1, 0, 1, 1)),
    "no padding": Layer(pads=(0, 0, 0, 0, 0, 0)),
    "few channels": Layer(shape=(1, 3, 4, 12, 12), filters=20),
    "one tap of planes": Layer(kernel=(1, 3, 3), pads=(0, 1, 1, 0, 1, 1)),
}


def convolved(x: Array, w: Array, layer: Layer) -> Array:
    """The convolution, directly, in float64."""
    pads = zip(layer.pads[:3], layer.pads[3:], strict=True)
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), *pads))
    reach = layer.dilation * (w.shape[2] - 1) + 1
    seen = sliding_window_view(x, (reach, *w.shape[3:]), axis=(2, 3, 4))
    seen = seen[:, :, :: layer.stride, :, :, :: layer.dilation]
    return np.einsum("ncdhwzyx,oczyx->nodhw", seen, w.astype("float64"), optimize=True)


@pytest.mark.parametrize(("name", "variant", "cores"), covering(LAYERS, ERROR, [1, 2], rest=MORE))
def test_results_are_those_of_a_direct_convolution(name: str, variant: str, cores: int) -> None:
    layer, rng = {**LAYERS, **MORE}[name], np.random.default_rng(0)
    x = rng.standard_normal(layer.shape, "float32")
    w = rng.standard_normal((layer.filters, layer.shape[1], *layer.kernel), "float32")
    b = rng.standard_normal((layer.filters, 1, 1, 1), "float32")

    def body(emit: Any, x: Any, w: Any, b: Any) -> Any:
        strides, dilation = (layer.stride, 1, 1), (layer.dilation, 1, 1)
        y = R.nn.conv3d(x, w, strides=strides, padding=layer.pads, dilation=dilation)
        return R.nn.relu(emit(R.add(emit(y), b)))

    (found,) = computed(variant, (x, w, b), body, cores)

    check(variant, found, np.maximum(convolved(x, w, layer) + b, 0))


def refused(attrs: str, weight: str) -> str | None:
    return reason(f"x: f32[1,16,6,8,8]; w = const f32{weight}; y = nn.conv3d(x, w) [{attrs}];")


@pytest.mark.parametrize(
    ("attrs", "weight", "expected"),
    [
        ("strides = [2,1,1]", "[16,16,3,3,3]", None),
        ("dilation = [2,1,1]", "[16,16,3,3,3]", None),
        (
            "strides = [1,2,2]",
            "[16,16,3,5,5]",
            "winograd4 computes volumes with strides of planes only, here they are (1, 2, 2)",
        ),
        (
            "groups = 2",
            "[16,8,3,3,3]",
            "winograd4 computes volumes in one group, here are 2",
        ),
        (
            "dilation = [1,2,2]",
            "[16,16,3,3,3]",
            "winograd4 computes volumes with dilation of planes only, here it is (1, 2, 2)",
        ),
    ],
)
def test_other_volumes_are_refused(attrs: str, weight: str, expected: str | None) -> None:
    assert refused(attrs, weight) == expected
