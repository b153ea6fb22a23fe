"""The native schedules compute functions of any batch as those of one image, in a loop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from tvm import tirx
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

import collage_dsl as collage
from collage_dsl.backends.runtime.cores import on_cores
from collage_dsl.backends.schedule import schedule
from collage_dsl.backends.schedule.scheduled import Scheduled
from collage_dsl.backends.schedule.slices import sliced
from collage_dsl.realization.legalize import LEGALIZERS
from tests.reference import run_onnx
from tests.test_schedule import Array, built, convolved, fused, native, vector_loops

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Body = Callable[..., Any]
Shape = tuple[int | str, ...]

SIZES = ({"b": 1, "s": 33}, {"b": 3, "s": 5}, {"b": 2, "s": 16})


def of_any_size(shapes: Sequence[Shape], body: Body) -> Any:
    """The one function of `body`, in which the dimensions with a name have any size."""
    return fused(shapes, body, legalizers=LEGALIZERS)


def gelu(x: Array, c: Array) -> Array:
    y = x + c
    return 0.5 * y * (1 + np.vectorize(math.erf)(y / np.sqrt(2))) + x


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def norm(x: Array, scale: Array) -> Array:
    deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - x.mean(-1, keepdims=True)) / deviation * scale + scale


def instance_norm(x: Array, scale: Array) -> Array:
    flat = norm(x.reshape(*x.shape[:2], -1), np.ones(1)) - 1
    return flat.reshape(x.shape) * scale[:, None, None] + scale[:, None, None]


CASES = {
    "elementwise": (
        [("b", "s", 37), (37,)],
        lambda emit, x, c: R.add(emit(R.nn.gelu(emit(R.add(x, c)))), x),
        gelu,
    ),
    "product": (
        [("b", "s", 40), (40, 50), (50,)],
        lambda emit, x, w, c: R.nn.relu(emit(R.add(emit(R.matmul(x, w)), c))),
        lambda x, w, c: np.maximum(x @ w + c, 0),
    ),
    "norm": (
        [("b", "s", 70), (70,)],
        lambda emit, x, c: R.nn.layer_norm(x, c, c, axes=[-1]),
        norm,
    ),
    "softmax": ([("b", 6, 19)], lambda emit, x: R.nn.softmax(x), softmax),
    "convolution": (
        [("b", 5, 9, 12), (7, 5, 3, 3)],
        lambda emit, x, w: R.nn.relu(emit(R.nn.conv2d(x, w, padding=1))),
        lambda x, w: np.maximum(convolved(x, w, padding=1), 0),
    ),
    "pooling": (
        [("b", 5, 9, 12)],
        lambda emit, x: R.nn.max_pool2d(x, (3, 3), (1, 1)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3)).max((-1, -2)),
    ),
    "permutation": (
        [("b", 17, 36)],
        lambda emit, x: R.permute_dims(
            emit(R.reshape(x, (x.ty.shape[0], 17, 3, 12))), (0, 2, 3, 1)
        ),
        lambda x: x.reshape(len(x), 17, 3, 12).transpose(0, 2, 3, 1),
    ),
    "instance norm": (
        [("b", 5, 6, 7), (5,)],
        lambda emit, x, c: R.nn.instance_norm(x, c, c, 1, [2, 3]),
        instance_norm,
    ),
    "product of both": (
        [("b", 9, 20), ("b", 20, 30)],
        lambda emit, x, y: R.matmul(x, y),
        lambda x, y: x @ y,
    ),
}


def arrays_of(shapes: Sequence[Shape], sizes: dict[str, int]) -> list[Array]:
    random = np.random.default_rng(0)
    dims = [[sizes.get(str(d), d) for d in shape] for shape in shapes]
    return [random.normal(0, 1, each).astype("float32") for each in dims]


def check(
    func: Any,
    shapes: Sequence[Shape],
    expect: Callable[..., Array],
    every: Sequence[dict[str, int]],
    target: tvm.target.Target,
) -> None:
    """The scheduled function computes `expect` within rounding, for each choice of sizes."""
    cores = int(target.attrs["num-cores"])
    kernel = on_cores(built(func, target), cores)
    for sizes in every:
        arrays = arrays_of(shapes, sizes)
        right = expect(*(each.astype("float64") for each in arrays))
        result = tvm.runtime.tensor(np.full(right.shape, 7, "float32"))
        kernel(*map(tvm.runtime.tensor, arrays), result)
        np.testing.assert_allclose(
            result.numpy(), right, rtol=1e-4, atol=1e-4, err_msg=f"for {sizes}"
        )


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_function_of_any_batch(name: str, cores: int) -> None:
    shapes, body, expect = CASES[name]
    func = schedule(of_any_size(shapes, body), target=native(cores))

    check(func, shapes, expect, SIZES, native(cores))
    assert vector_loops(func)


def test_an_empty_batch() -> None:
    shapes, body, _ = CASES["product"]
    kernel = built(schedule(of_any_size(shapes, body), target=native()), native())
    x, *weights = arrays_of(shapes, {"b": 0, "s": 4})

    kernel(
        *map(tvm.runtime.tensor, (x, *weights)), tvm.runtime.tensor(np.empty((0, 4, 50), "float32"))
    )


def test_weights_that_each_schedule_takes_anew_are_the_same_for_all_slices() -> None:
    shapes, body, expect = CASES["product"]

    def of_own_weights(one: Any) -> Scheduled:
        weight = one.params[1]
        own = tirx.decl_buffer(weight.shape, weight.dtype, "own")
        swap = (tvm.ir.Var, lambda var: own if var.same_as(weight) else var)
        return Scheduled(schedule(tvm_ffi.structural_map(one, swap), target=native()))

    made = sliced(of_any_size(shapes, body), of_own_weights, 1)
    assert made is not None
    arrays = arrays_of(shapes, {"b": 2, "s": 19})
    result = tvm.runtime.tensor(np.empty((2, 19, 50), "float32"))

    built(made.function, native())(*map(tvm.runtime.tensor, arrays), result)

    right = expect(*(each.astype("float64") for each in arrays))
    np.testing.assert_allclose(result.numpy(), right, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "body"),
    [
        pytest.param([("b", 6)], lambda emit, x: R.sum(x, axis=0), id="a sum of all"),
        pytest.param(
            [("b", 6)], lambda emit, x: R.subtract(x, emit(R.mean(x, 0))), id="the mean of all"
        ),
        pytest.param([("b", 6)], lambda emit, x: R.flip(x, axis=0), id="the last comes first"),
        pytest.param([("b", 6)], lambda emit, x: R.permute_dims(x), id="no longer leading"),
        pytest.param([("b", "s", "s")], lambda emit, x: R.nn.softmax(x), id="a row of any size"),
        pytest.param([(6, "b")], lambda emit, x: R.nn.relu(x), id="not leading"),
        pytest.param(
            [("b", 6)],
            lambda emit, x: R.divide(x, emit(R.sum(emit(R.ones_like(x)), 0))),
            id="the number of slices",
        ),
    ],
)
def test_slices_that_depend_on_others_or_do_not_lead_are_not_cut(
    shapes: Sequence[Shape], body: Body
) -> None:
    func = of_any_size(shapes, body)

    assert sliced(func, lambda one: schedule(one, target=native()), 1) is None


@pytest.mark.parametrize("variant", ["gemm", "winograd2", "winograd4"])
def test_variants_prepare_weights_for_any_batch(variant: str) -> None:
    spec = collage.load(
        text=f"""collage 1;
        target t on llvm {{
          variants [{variant}];
          rules combine_by_primitives(op_call_by_kind(), using: [kind(anchor -> broadcast)]);
        }}"""
    )["t"]
    weight = np.random.default_rng(0).normal(0, 0.1, (10, 9, 3, 3)).astype("float32")
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17]> g (float[n, 9, 12, 12] x) => (y) {
            c = Conv <pads = [1, 1, 1, 1]> (x, w)
            y = Relu(c)
        }"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))

    made = collage.compile(model, [spec], cost=lambda kernel: 1e-6, race_seconds=0.01)

    assert {kernel.variant for kernel in made.plan.kernels} == {variant}
    for size in (1, 3):
        x = np.random.default_rng(size).normal(0, 1, (size, 9, 12, 12)).astype("float32")
        right = run_onnx(model, {"x": x})["y"]
        np.testing.assert_allclose(made.run({"x": x})["y"], right, rtol=1e-4, atol=1e-4)
