"""The native schedules compute functions in whose middle or last dimensions sizes are unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import tvm_ffi
from tvm import relax, tirx
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

import collage_dsl as collage
from collage_dsl.backends.schedule import schedule
from collage_dsl.backends.schedule.sizes import size_of
from tests.processors import here
from tests.reference import run_onnx
from tests.test_schedule import Array, convolved, native, padded, softmax, windows
from tests.test_schedule_slices import Shape, check, of_any_size

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

TOKENS = [{"b": b, "s": s} for b, s in ((1, 1), (2, 7), (1, 16), (3, 33), (1, 70), (1, 131))]
IMAGES = [
    {"b": b, "h": h, "w": w}
    for b, h, w in ((1, 3, 3), (2, 5, 16), (1, 8, 17), (1, 33, 40), (2, 3, 75))
]


def attended(q: Array, k: Array, v: Array, mask: Array) -> Array:
    return softmax(0.25 * (q @ k.swapaxes(-1, -2)) + mask, -1) @ v


def attention(emit: Any, q: Any, k: Any, v: Any, mask: Any) -> Any:
    scores = emit(R.matmul(q, emit(R.permute_dims(k, (0, 1, 3, 2)))))
    scaled = emit(R.multiply(scores, relax.const(0.25, "float32")))
    return R.matmul(emit(R.nn.softmax(emit(R.add(scaled, mask)))), v)


def heads(x: Array) -> Array:
    return x.reshape(*x.shape[:2], 4, 6).transpose(0, 2, 1, 3)


def pooled(x: Array) -> Array:
    return windows(padded(x, 1, -np.inf), 3, 2).max((-1, -2))


def twice(x: Array, at: Callable[[int], Array]) -> Array:
    """Images of twice the sides, whose places in each side of `x` are those that `at` gives."""
    for axis in (2, 3):
        length = x.shape[axis]
        places = np.clip(at(length), 0, length - 1)
        rows = np.array([np.interp(places, np.arange(length), row) for row in np.eye(length)])
        x = np.moveaxis(np.moveaxis(x, axis, -1) @ rows, -1, axis)
    return x


def resized(method: str, coordinates: str, rounding: str) -> Callable[..., Any]:
    def body(emit: Any, x: Any) -> Any:
        *_, height, width = x.ty.shape
        return R.image.resize2d(
            x,
            (height * 2, width * 2),
            layout="NCHW",
            method=method,
            coordinate_transformation_mode=coordinates,
            rounding_method=rounding,
        )

    return body


CASES: dict[str, tuple[list[Shape], Any, Any, list[dict[str, int]]]] = {
    "attention": (
        [("b", 3, "s", 10), ("b", 3, "s", 10), ("b", 3, "s", 20), ("b", 1, 1, "s")],
        attention,
        attended,
        TOKENS,
    ),
    "attention of one token": (
        [(2, 3, 1, 10), (2, 3, "s", 10), (2, 3, "s", 20), (2, 1, 1, "s")],
        attention,
        attended,
        TOKENS,
    ),
    "attention of others": (
        [("b", 9, 10), ("b", "s", 10), ("b", "s", 20)],
        lambda emit, q, k, v: R.matmul(
            emit(R.nn.softmax(emit(R.matmul(q, emit(R.permute_dims(k, (0, 2, 1))))))), v
        ),
        lambda q, k, v: softmax(q @ k.swapaxes(-1, -2), -1) @ v,
        TOKENS,
    ),
    "softmax along": (
        [("b", "s", "s")],
        lambda emit, x: R.nn.softmax(x),
        lambda x: softmax(x, -1),
        TOKENS,
    ),
    "softmax across": (
        [("b", "s", 20)],
        lambda emit, x: R.nn.softmax(x, 1),
        lambda x: softmax(x, 1),
        TOKENS,
    ),
    "mean": (
        [("b", 5, "s")],
        lambda emit, x: R.mean(x, -1),
        lambda x: x.mean(-1),
        TOKENS,
    ),
    "product": (
        [("b", "s", 9), ("b", 9, "s")],
        lambda emit, x, y: R.nn.relu(emit(R.matmul(x, y))),
        lambda x, y: np.maximum(x @ y, 0),
        TOKENS,
    ),
    "product of known rows": (
        [(2, 30, 9), (9, "s")],
        lambda emit, x, y: R.matmul(x, y),
        lambda x, y: x @ y,
        TOKENS,
    ),
    "product with one weight": (
        [("b", 4, "s"), ("s", 40)],
        lambda emit, x, y: R.matmul(x, y),
        lambda x, y: x @ y,
        TOKENS,
    ),
    "heads": (
        [("b", "s", 24)],
        lambda emit, x: R.permute_dims(
            emit(R.reshape(x, (x.ty.shape[0], x.ty.shape[1], 4, 6))), (0, 2, 1, 3)
        ),
        heads,
        TOKENS,
    ),
    "transposed": (
        [("b", "s", 24)],
        lambda emit, x: R.exp(emit(R.permute_dims(x, (0, 2, 1)))),
        lambda x: np.exp(x.transpose(0, 2, 1)),
        TOKENS,
    ),
    "one after the other": (
        [("b", 3, "s", 5), ("b", 3, 4, 5)],
        lambda emit, x, y: R.concat([x, y], 2),
        lambda x, y: np.concatenate([x, y], 2),
        TOKENS,
    ),
    "channels": (
        [("b", 5, "h", "w"), (5, 1, 1)],
        lambda emit, x, c: R.nn.relu(emit(R.add(x, c))),
        lambda x, c: np.maximum(x + c, 0),
        IMAGES,
    ),
    "to tokens": (
        [("b", 5, "h", "w")],
        lambda emit, x: R.permute_dims(
            emit(R.reshape(x, (x.ty.shape[0], 5, x.ty.shape[2] * x.ty.shape[3]))), (0, 2, 1)
        ),
        lambda x: x.reshape(*x.shape[:2], -1).transpose(0, 2, 1),
        IMAGES,
    ),
    "to channels last": (
        [("b", 20, "h", "w")],
        lambda emit, x: R.permute_dims(x, (0, 2, 3, 1)),
        lambda x: x.transpose(0, 2, 3, 1),
        IMAGES,
    ),
    "padded pooling": (
        [("b", 5, "h", "w")],
        lambda emit, x: R.nn.max_pool2d(x, (3, 3), (2, 2), (1, 1)),
        pooled,
        IMAGES,
    ),
    "convolution": (
        [("b", 5, "h", "w"), (6, 5, 3, 3), (6, 1, 1)],
        lambda emit, x, w, c: R.nn.relu(emit(R.add(emit(R.nn.conv2d(x, w, padding=1)), c))),
        lambda x, w, c: np.maximum(convolved(x, w, padding=1) + c, 0),
        IMAGES,
    ),
    "convolution of one tap": (
        [("b", 5, "h", "w"), (16, 5, 1, 1), (16, 1, 1)],
        lambda emit, x, w, c: R.nn.relu(emit(R.add(emit(R.nn.conv2d(x, w)), c))),
        lambda x, w, c: np.maximum(convolved(x, w) + c, 0),
        IMAGES,
    ),
    "convolution to eight channels": (
        [("b", 3, "h", "w"), (8, 3, 3, 3)],
        lambda emit, x, w: R.nn.conv2d(x, w, padding=(2, 1, 0, 1)),
        lambda x, w: convolved(np.pad(x, ((0, 0), (0, 0), (2, 0), (1, 1))), w),
        IMAGES,
    ),
    "convolution of stride 2": (
        [("b", 3, "h", "w"), (8, 3, 3, 3)],
        lambda emit, x, w: R.nn.conv2d(x, w, strides=2, padding=1),
        lambda x, w: convolved(x, w, strides=2, padding=1),
        IMAGES,
    ),
    "convolution of stride 3": (
        [("b", 3, "h", "w"), (7, 3, 3, 3)],
        lambda emit, x, w: R.nn.conv2d(x, w, strides=3, padding=1),
        lambda x, w: convolved(x, w, strides=3, padding=1),
        IMAGES,
    ),
    "depthwise": (
        [("b", 6, "h", "w"), (6, 1, 3, 3)],
        lambda emit, x, w: R.nn.conv2d(x, w, padding=1, groups=6),
        lambda x, w: convolved(x, w, padding=1, groups=6),
        IMAGES,
    ),
    "depthwise of stride 2": (
        [("b", 6, "h", "w"), (6, 1, 3, 3)],
        lambda emit, x, w: R.nn.conv2d(x, w, strides=2, padding=1, groups=6),
        lambda x, w: convolved(x, w, strides=2, padding=1, groups=6),
        IMAGES,
    ),
    "depthwise with gaps": (
        [("b", 6, "h", "w"), (6, 1, 3, 3)],
        lambda emit, x, w: R.nn.conv2d(x, w, padding=4, dilation=4, groups=6),
        lambda x, w: convolved(x, w, padding=4, dilation=4, groups=6),
        IMAGES,
    ),
    "mean of neighbours": (
        [("b", 6, "h", "w")],
        lambda emit, x: R.nn.avg_pool2d(x, (3, 3), (1, 1), (1, 1)),
        lambda x: (
            windows(padded(x, 1), 3).sum((-1, -2))
            / windows(padded(np.ones_like(x), 1), 3).sum((-1, -2))
        ),
        IMAGES,
    ),
    "nearest neighbours": (
        [("b", 6, "h", "w")],
        resized("nearest_neighbor", "asymmetric", "floor"),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        IMAGES,
    ),
    "between neighbours": (
        [("b", 6, "h", "w")],
        resized("linear", "half_pixel", ""),
        lambda x: twice(x, lambda n: (np.arange(2 * n) + 0.5) / 2 - 0.5),
        IMAGES,
    ),
    "between corners": (
        [("b", 6, "h", "w")],
        resized("linear", "align_corners", ""),
        lambda x: twice(x, lambda n: np.arange(2 * n) * (n - 1) / (2 * n - 1)),
        IMAGES,
    ),
    "smaller image, reshaped": (
        [("b", 4, "h", 9), (3, 4, 3, 3)],
        lambda emit, x, w: R.reshape(
            emit(R.nn.conv2d(x, w)), (x.ty.shape[0], 3, (x.ty.shape[2] - 2) * 7)
        ),
        lambda x, w: convolved(x, w).reshape(len(x), 3, -1),
        IMAGES,
    ),
    "mean of images": (
        [("b", 5, "h", "w")],
        lambda emit, x: R.mean(x, [2, 3]),
        lambda x: x.mean((2, 3)),
        IMAGES,
    ),
}


def shares(func: Any) -> bool:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.For, found.append))
    return any(loop.kind == tirx.ForKind.PARALLEL for loop in found)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_a_function_of_any_size(name: str, cores: int) -> None:
    shapes, body, expect, every = CASES[name]
    func = schedule(of_any_size(shapes, body), target=native(cores))

    check(func, shapes, expect, every, native(cores))
    assert shares(func) == (cores > 1)


OF_OTHERS = (
    *("attention", "convolution of stride 2", "convolution of one tap"),
    *("convolution to eight channels", "to channels last", "depthwise of stride 2"),
    *("padded pooling", "nearest neighbours", "between neighbours"),
)


@pytest.mark.parametrize("processor", here("haswell", "x86-64", "skylake-avx512"))
@pytest.mark.parametrize("name", OF_OTHERS)
def test_a_function_of_any_size_on_other_processors(name: str, processor: str) -> None:
    shapes, body, expect, every = CASES[name]
    func = schedule(of_any_size(shapes, body), target=native(1, processor))

    check(func, shapes, expect, every, native(1, processor))


@pytest.mark.parametrize("cores", [1, 2])
def test_packed_weights_for_any_number_of_rows(cores: int) -> None:
    spec = collage.load(
        text=f"""collage 1;
        target t on llvm(num_cores: {cores}) {{
          variants [gemm];
          rules combine_by_primitives(op_call_by_kind(), using: [kind(anchor -> broadcast)]);
        }}"""
    )["t"]
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17]> g (float[b, s, 70] x) => (y) {
            p = MatMul (x, w)
            q = Add (p, c)
            y = Relu (q)
        }"""
    )
    random = np.random.default_rng(0)
    for name, shape in (("w", (70, 45)), ("c", (45,))):
        values = random.normal(0, 1, shape).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))

    made = collage.compile(model, [spec], cost=lambda kernel: 1e-6, race_seconds=0.01)

    assert [kernel.variant for kernel in made.plan.kernels] == ["gemm"]
    for b, s in ((1, 1), (1, 4), (2, 4), (1, 9), (3, 5), (1, 40), (2, 131), (7, 100)):
        x = random.normal(0, 1, (b, s, 70)).astype("float32")
        right = run_onnx(model, {"x": x})["y"]
        np.testing.assert_allclose(made.run({"x": x})["y"], right, rtol=1e-4, atol=1e-4)


def test_no_unknown_size_is_taken_for_one() -> None:
    """Axes of one element have no loops."""
    past, total = (tirx.Var(name, "int64") for name in ("past", "total"))

    for extent in (total - past, tirx.min(total, 1), past // 200, total % 2):
        assert size_of(extent) > 1
    assert size_of(total - total + 1) == 1
