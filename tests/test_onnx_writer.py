"""
Each Relax operator, written in ONNX and run by onnxruntime, gives what TVM gives.

All cases are functions of one module, which TVM compiles once.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from tvm import relax
from tvm.relax import op

from collage_dsl.backends.onnx_writer import Unsupported, outline, to_onnx
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.graph import Form, Graph, Node, TensorType
from tests.cases import sample

Array = np.ndarray[Any, Any]
Build = Callable[..., relax.Expr]


@dataclass(frozen=True)
class Case:
    """A function of `arguments`: arrays as parameters."""

    build: Build
    arguments: tuple[Array, ...]
    tolerance: float = 1e-5
    oracle: Callable[..., Array] | None = None
    """What to compare with where TVM cannot compile the operator."""


RNG = np.random.default_rng(20240607)


def f32(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return RNG.uniform(0.1, 0.9, size=shape).astype(np.float32)


def i64(high: int, *shape: int) -> Array:
    return RNG.integers(0, high, size=shape).astype(np.int64)


def distinct(*shape: int) -> Array:
    return RNG.permutation(int(np.prod(shape))).reshape(shape).astype(np.float32)


def mask(*shape: int) -> Array:
    return RNG.random(size=shape) < 0.5


IMAGE = (2, 6, 9, 8)


# fmt: off
ANYWHERE = (
    "abs", "asinh", "atan", "ceil", "cos", "cosh", "erf", "exp", "floor", "isfinite", "isinf",
    "isnan", "negative", "round", "sigmoid", "sign", "sin", "sinh", "square", "tan", "tanh",
    "trunc", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.log_softmax", "nn.relu", "nn.selu",
    "nn.silu", "nn.softmax", "nn.softplus",
)
# fmt: on
BETWEEN_0_AND_1 = ("acos", "asin", "atanh", "log", "rsqrt", "sqrt")
ARITHMETIC = ("add", "divide", "floor_mod", "maximum", "minimum", "mod", "multiply", "subtract")
OF_TRUTH: Mapping[str, Callable[..., Array]] = {
    "add": np.logical_or,
    "equal": np.equal,
    "maximum": np.logical_or,
    "minimum": np.logical_and,
    "multiply": np.logical_and,
    "not_equal": np.not_equal,
}
"""What operators compute of two truth values; TVM has no code for most of them."""
COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")


def unary() -> Iterator[tuple[str, Case]]:
    for name in ANYWHERE:
        yield name, Case(operator(name), (f32(2, 3, 5) * 2,))
    for name in BETWEEN_0_AND_1:
        yield name, Case(operator(name), (positive(2, 3, 5),))
    yield "acosh", Case(op.acosh, (positive(2, 3) + 1,))
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5], np.float32)
    yield "round_halves", Case(op.round, (halves,))
    yield "logical_not", Case(op.logical_not, (mask(4, 5),))
    yield "bitwise_not", Case(op.bitwise_not, (i64(99, 4),))
    yield "softplus_beta", Case(lambda x: op.nn.softplus(x, beta=2.0), (f32(40) * 9,))


def clips() -> Iterator[tuple[str, Case]]:
    """Bounds of integers that TVM refuses or rounds, as `torch.clamp` with one bound has them."""
    for dtype, low, high in (
        *(("int32", -3.0, np.inf), ("uint8", -5, 100), ("uint8", 9, 300)),
        ("int64", 0, 2**53 + 1),
    ):
        x = np.array([-7 if dtype == "int32" else 7, 0, 60, 2**53 + 7]).astype(dtype)
        wanted = np.array([min(max(int(each), low), high) for each in x], dtype)
        yield (
            f"clip_{dtype}_{low}",
            Case(lambda x, a=low, b=high: op.clip(x, a, b), (x,), oracle=lambda _, w=wanted: w),
        )


def quantizing() -> Iterator[tuple[str, Case]]:
    for dtype in ("int8", "uint8", "int16", "uint16"):
        x, zero = f32(3, 40) * 200, np.array(7, dtype)
        points, whole = np.array([7, 0, 100], dtype), (3 * x).clip(0, 100).astype(dtype)
        scales = positive(3)
        for sort, scale, point in (
            ("", np.array(0.3, np.float32), zero),
            ("_channels", scales, points),
        ):
            axis = 0 if sort else -1
            yield (
                f"quantize_{dtype}{sort}",
                Case(
                    lambda x, s, z, d=dtype, a=axis: op.quantize(x, s, z, a, d), (x, scale, point)
                ),
            )
            yield (
                f"dequantize_{dtype}{sort}",
                Case(lambda x, s, z, a=axis: op.dequantize(x, s, z, a), (whole, scale, point)),
            )


def binary() -> Iterator[tuple[str, Case]]:
    for name in (*ARITHMETIC, *COMPARISONS, "floor_divide"):
        yield name, Case(operator(name), (f32(2, 3, 5), f32(3, 1)))
    for name in (*ARITHMETIC, *COMPARISONS):
        yield f"{name}_i64", Case(operator(name), (i64(50, 4, 5) - 25, i64(9, 5) + 1))
    for name in ("logical_and", "logical_or", "logical_xor"):
        yield name, Case(operator(name), (mask(4, 5), mask(5)))
    for name, right in OF_TRUTH.items():
        yield f"{name}_bool", Case(operator(name), (mask(4, 5), mask(5)), oracle=right)
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        yield name, Case(operator(name), (i64(99, 4, 5), i64(99, 5)))
    for direction in ("left_shift", "right_shift"):
        bits = i64(99, 4, 5).astype(np.uint8), i64(7, 5).astype(np.uint8)
        yield direction, Case(operator(direction), bits)
    yield "power", Case(op.power, (positive(3, 4), f32(4)))
    yield "where", Case(op.where, (mask(3, 1), f32(3, 4), f32(4)))
    yield "clip", Case(lambda x: op.clip(x, -0.5, 0.5), (f32(3, 4),))
    yield "clip_i64", Case(lambda x: op.clip(x, 2, 6), (i64(9, 7),))
    yield "prelu", Case(lambda x, a: op.nn.prelu(x, a, axis=1), (f32(2, 4, 3), f32(4)))
    for dtype in ("float16", "float64", "int32", "int8", "bool"):
        yield f"astype_{dtype}", Case(lambda x, d=dtype: op.astype(x, d), (f32(30) * 9,))


def operator(name: str) -> Build:
    scope, _, last = name.rpartition(".")
    return getattr(op.nn if scope else op, last)  # type: ignore[no-any-return]


def convolutions() -> Iterator[tuple[str, Case]]:
    conv = op.nn.conv2d
    image, kernel = f32(*IMAGE), f32(4, 6, 3, 3)
    yield "conv2d", Case(lambda x, w: conv(x, w), (image, kernel))
    yield (
        "conv2d_uneven",
        Case(
            lambda x, w: conv(x, w, strides=(2, 1), padding=(1, 0, 2, 1), dilation=(1, 2)),
            (image, kernel),
        ),
    )
    yield (
        "conv2d_groups",
        Case(lambda x, w: conv(x, w, groups=2, padding=1), (image, f32(4, 3, 3, 3))),
    )
    yield (
        "conv2d_depthwise",
        Case(lambda x, w: conv(x, w, groups=6, padding=1), (image, f32(6, 1, 3, 3))),
    )
    yield (
        "conv2d_channels_last",
        Case(
            lambda x, w: conv(x, w, padding=1, data_layout="NHWC", kernel_layout="HWIO"),
            (f32(2, 9, 8, 6), f32(3, 3, 6, 4)),
        ),
    )
    yield (
        "conv1d",
        Case(lambda x, w: op.nn.conv1d(x, w, padding=1, strides=2), (f32(1, 3, 9), f32(4, 3, 3))),
    )
    yield (
        "conv3d",
        Case(
            lambda x, w: op.nn.conv3d(x, w, padding=(1, 0, 1)),
            (f32(1, 2, 5, 6, 4), f32(3, 2, 3, 2, 3)),
        ),
    )
    yield (
        "conv2d_transpose",
        Case(
            lambda x, w: op.nn.conv2d_transpose(
                x, w, strides=(2, 2), padding=(1, 1, 1, 1), output_padding=(1, 1)
            ),
            (f32(1, 4, 5, 5), f32(4, 3, 3, 3)),
        ),
    )
    yield (
        "conv1d_transpose",
        Case(lambda x, w: op.nn.conv1d_transpose(x, w, strides=2), (f32(1, 4, 5), f32(4, 3, 3))),
    )


def pools() -> Iterator[tuple[str, Case]]:
    image = f32(*IMAGE)
    for name in ("max_pool2d", "avg_pool2d"):
        pool = operator("nn." + name)
        yield name, Case(lambda x, p=pool: p(x, (3, 2), strides=(2, 2), padding=(1, 0)), (image,))
        yield (
            f"{name}_ceil",
            Case(lambda x, p=pool: p(x, (3, 3), strides=(2, 2), ceil_mode=True), (image,)),
        )
        yield (
            f"{name}_ceil_padded",
            Case(
                lambda x, p=pool: p(x, (3, 3), strides=(2, 2), padding=1, ceil_mode=True),
                (image,),
            ),
        )
        yield (
            f"{name}_count_pad",
            Case(
                lambda x, p=pool: p(x, (3, 3), strides=(2, 2), padding=1, count_include_pad=True),
                (image,),
            ),
        )
        yield (
            f"{name}_dilated",
            Case(lambda x, p=pool: p(x, (2, 2), dilation=(2, 2), padding=1), (image,)),
        )
    yield (
        "avg_pool2d_ceil_count_pad",
        Case(
            lambda x: op.nn.avg_pool2d(
                x, (3, 3), strides=(2, 2), padding=1, ceil_mode=True, count_include_pad=True
            ),
            (f32(1, 2, 8, 8),),
        ),
    )
    yield (
        "avg_pool2d_channels_last",
        Case(
            lambda x: op.nn.avg_pool2d(x, (2, 3), padding=(0, 1), layout="NHWC"),
            (f32(2, 9, 8, 6),),
        ),
    )
    yield "max_pool1d", Case(lambda x: op.nn.max_pool1d(x, 3, strides=2), (f32(1, 3, 9),))
    yield "avg_pool3d", Case(lambda x: op.nn.avg_pool3d(x, 2, strides=2), (f32(1, 2, 4, 6, 4),))
    adaptive = op.nn.adaptive_avg_pool2d
    yield "adaptive_one", Case(lambda x: adaptive(x, (1, 1)), (image,))
    yield "adaptive_divides", Case(lambda x: adaptive(x, (3, 4)), (image,))


def normalizations() -> Iterator[tuple[str, Case]]:
    image, c, spatial = f32(*IMAGE), 6, [2, 3]
    yield (
        "batch_norm",
        Case(
            lambda x, g, b, m, v: op.nn.batch_norm(x, g, b, m, v, axis=1, training=False),
            (image, f32(c), f32(c), f32(c), positive(c)),
        ),
    )
    yield (
        "layer_norm",
        Case(
            lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[-1], epsilon=1e-3),
            (f32(2, 3, 8), f32(8), f32(8)),
        ),
    )
    yield (
        "layer_norm_two_axes",
        Case(
            lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[1, 2]),
            (f32(2, 3, 8), f32(3, 8), f32(3, 8)),
        ),
    )
    yield (
        "group_norm",
        Case(
            lambda x, g, b: op.nn.group_norm(x, g, b, 3, channel_axis=1, axes=spatial),
            (image, f32(c), f32(c)),
            1e-4,
        ),
    )
    yield (
        "instance_norm",
        Case(
            lambda x, g, b: op.nn.instance_norm(x, g, b, channel_axis=1, axes=spatial),
            (image, f32(c), f32(c)),
            1e-4,
        ),
    )
    yield (
        "rms_norm",
        Case(lambda x, w: op.nn.rms_norm(x, w, axes=[-1]), (f32(2, 3, 8), f32(8))),
    )
    yield "softmax_axis", Case(lambda x: op.nn.softmax(x, axis=1), (f32(2, 3, 8),))


def transformers() -> Iterator[tuple[str, Case]]:
    yield "matmul", Case(op.matmul, (f32(2, 3, 4), f32(4, 5)))
    yield "matmul_batches", Case(op.matmul, (f32(2, 1, 3, 4), f32(3, 4, 5)))
    yield "matmul_vector", Case(op.matmul, (f32(3, 4), f32(4)))
    yield "einsum", Case(lambda a, b: op.einsum([a, b], "bij,kj->bik"), (f32(2, 3, 4), f32(5, 4)))
    qkv = f32(2, 5, 3, 8), f32(2, 7, 3, 8), f32(2, 7, 3, 8)
    yield "attention", Case(lambda q, k, v: op.nn.attention(q, k, v), qkv)
    yield "attention_scale", Case(lambda q, k, v: op.nn.attention(q, k, v, scale=0.3), qkv)
    yield (
        "attention_bias",
        Case(lambda q, k, v, b: op.nn.attention(q, k, v, bias=b), (*qkv, f32(2, 3, 5, 7))),
    )


def reductions() -> Iterator[tuple[str, Case]]:
    x = f32(2, 3, 4, 5)
    for name in ("sum", "mean", "max", "min", "prod", "variance", "std"):
        reduce = operator(name)
        yield f"{name}_all", Case(reduce, (x,), 1e-4)
        yield f"{name}_keep", Case(lambda x, r=reduce: r(x, [1, -1], keepdims=True), (x,), 1e-4)
        yield f"{name}_axis", Case(lambda x, r=reduce: r(x, 2), (x,), 1e-4)
        yield f"{name}_no_axes", Case(lambda x, r=reduce: r(x, [], keepdims=True), (x,), 1e-4)
    yield "mean_of_images", Case(lambda x: op.mean(x, [2, 3], keepdims=True), (x,))
    for name in ("argmax", "argmin"):
        arg = operator(name)
        yield name, Case(lambda x, a=arg: a(x, axis=1, keepdims=True), (distinct(3, 4, 5),))
        yield f"{name}_all", Case(lambda x, a=arg: a(x, keepdims=True), (distinct(3, 4),))
    yield (
        "mean_of_float64",
        Case(lambda x: op.mean(x, [2, 3], keepdims=True), (x.astype(np.float64),)),
    )
    yield "cumsum", Case(lambda x: op.cumsum(x, axis=1), (x,))
    yield "cumsum_exclusive", Case(lambda x: op.cumsum(x, axis=-1, exclusive=True), (x,))
    yield "cumsum_flat", Case(lambda x: op.cumsum(x, dtype="float64"), (x,))
    for which in ("both", "values", "indices"):
        yield (
            f"topk_{which}",
            Case(lambda x, w=which: op.topk(x, 3, axis=1, ret_type=w), (distinct(4, 7),)),
        )
    yield "sort", Case(lambda x: op.sort(x, axis=0, descending=True), (distinct(5, 3),))


def arrangements() -> Iterator[tuple[str, Case]]:
    x = f32(2, 3, 4)
    yield "eye_like", Case(lambda x: op.eye_like(x, 1, "float32"), (f32(3, 5),))
    yield "permute_dims", Case(lambda x: op.permute_dims(x, [2, 0, 1]), (x,))
    yield "permute_reversed", Case(lambda x: op.permute_dims(x), (x,))
    yield "reshape", Case(lambda x: op.reshape(x, (4, -1)), (x,))
    yield "flatten", Case(op.flatten, (x,))
    yield "flatten_empty", Case(op.flatten, (f32(4, 0),))
    yield "repeat_empty", Case(lambda x: op.repeat(x, 2, axis=0), (f32(4, 0),))
    yield "batch_flatten", Case(op.nn.batch_flatten, (x,))
    yield "expand_dims", Case(lambda x: op.expand_dims(x, [0, -1]), (x,))
    yield "squeeze", Case(lambda x: op.squeeze(x, [1]), (f32(2, 1, 1, 3),))
    yield "squeeze_all", Case(lambda x: op.squeeze(x), (f32(2, 1, 1, 3),))
    yield "broadcast_to", Case(lambda x: op.broadcast_to(x, (5, 2, 3, 4)), (x,))
    yield "concat", Case(lambda a, b: op.concat([a, b, a], axis=-2), (x, f32(2, 1, 4)))
    yield "stack", Case(lambda a, b: op.stack([a, b], axis=-1), (x, f32(2, 3, 4)))
    yield "split", Case(lambda x: op.split(x, 2, axis=-1), (x,))
    yield "split_at", Case(lambda x: op.split(x, [1, 2], axis=1), (f32(2, 6, 4),))
    yield "tile", Case(lambda x: op.tile(x, (2, 1, 3, 1)), (x,))
    yield "tile_short", Case(lambda x: op.tile(x, (2,)), (x,))
    yield "repeat", Case(lambda x: op.repeat(x, 3, axis=1), (x,))
    yield "repeat_flat", Case(lambda x: op.repeat(x, 2), (x,))
    yield "flip", Case(lambda x: op.flip(x, axis=1), (x,))
    yield "tril", Case(lambda x: op.tril(x, 1), (x,))
    yield "triu", Case(lambda x: op.triu(x, -1), (x,))
    yield (
        "pixel_shuffle",  # TVM 0.27 has the operator, but not the function that it calls.
        Case(lambda x: op.nn.pixel_shuffle(x, 2), (f32(1, 8, 3, 4),), oracle=shuffled_by_two),
    )
    yield "pad", Case(lambda x: op.nn.pad(x, [0, 1, 2, 0, 1, 1], pad_value=0.5), (x,))
    for mode in ("replicate", "reflect", "circular"):
        yield (
            f"pad_{mode}",
            Case(lambda x, m=mode: op.nn.pad(x, [0, 0, 2, 0, 1, 1], pad_mode=m), (x,)),
        )
    yield "zeros", Case(lambda x: op.add(x, op.zeros((2, 3, 1), "float32")), (x,))
    yield "ones_like", Case(lambda x: op.add(x, op.ones_like(x)), (x,))
    yield "full", Case(lambda x: op.add(x, op.full((4,), relax.const(2.5), "float32")), (x,))
    yield "arange", Case(lambda x: op.add(x, op.arange(0, 8, 2, "float32")), (x,))


def shuffled_by_two(x: Array) -> Array:
    n, c, h, w = x.shape
    blocks = x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, c // 4, h * 2, w * 2)


def picks() -> Iterator[tuple[str, Case]]:
    x = f32(4, 5, 6)
    yield "strided_slice", Case(lambda x: op.strided_slice(x, [0, 2], [1, -4], [3, 6]), (x,))
    yield "slice_steps", Case(lambda x: op.strided_slice(x, [1], [0], [5], [2]), (x,))
    yield "slice_back", Case(lambda x: op.strided_slice(x, [2], [5], [1], [-2]), (x,))
    yield "take", Case(lambda x, i: op.take(x, i, axis=1), (x, i64(5, 2, 3)))
    yield "take_flat", Case(lambda x, i: op.take(x, i), (f32(9), i64(9, 4)))
    yield "take_clip", Case(lambda x, i: op.take(x, i, axis=0, mode="clip"), (x, i64(9, 4) - 3))
    yield "take_wrap", Case(lambda x, i: op.take(x, i, axis=0, mode="wrap"), (x, i64(9, 4) - 3))
    yield "gather_elements", Case(lambda x, i: op.gather_elements(x, i, 1), (x, i64(5, 4, 2, 6)))
    yield "gather_nd", Case(lambda x, i: op.gather_nd(x, i), (x, i64(4, 3, 2)))
    yield "gather_nd_batch", Case(lambda x, i: op.gather_nd(x, i, 1), (x, i64(5, 4, 1)))
    once = np.stack([RNG.permutation(4) for _ in range(5)], 1).astype(np.int64)
    yield (
        "scatter_elements",
        Case(lambda x, i, u: op.scatter_elements(x, i, u, 0), (f32(4, 5), once, f32(4, 5))),
    )
    rows = np.array([[2], [0]], np.int64)
    yield "scatter_nd", Case(lambda x, i, u: op.scatter_nd(x, i, u), (x, rows, f32(2, 5, 6)))
    yield (
        "one_hot",
        Case(
            lambda i: op.one_hot(i, relax.prim_value(7), relax.prim_value(2), 5, -1),
            (i64(5, 3),),
        ),
    )


def samplings() -> Iterator[tuple[str, Case]]:
    image, places = f32(2, 3, 5, 6), f32(2, 2, 4, 3)
    for method in ("nearest", "bilinear"):
        for aligned in (False, True):
            yield (
                f"grid_sample_{method}_{aligned}",
                Case(
                    lambda x, g, m=method, a=aligned: op.image.grid_sample(
                        x, g, m, padding_mode="border", align_corners=a
                    ),
                    (image, places),
                ),
            )
    corners = np.array([[0.3, 0.2, 2.4, 2.1], [1.5, 0.9, 1.8, 2.7]], np.float32)
    regions = np.concatenate([np.array([[1], [0]], np.float32), corners], axis=1)
    for aligned in (False, True):
        yield (
            f"roi_align_{aligned}",
            Case(
                lambda x, r, a=aligned: op.vision.roi_align(
                    x, r, (2, 3), spatial_scale=2.0, sample_ratio=1, aligned=a
                ),
                (image, regions),
            ),
        )


def resizings() -> Iterator[tuple[str, Case]]:
    image = f32(1, 2, 5, 6)
    for coordinates in ("half_pixel", "align_corners", "asymmetric"):
        yield (
            f"resize_linear_{coordinates}",
            Case(
                lambda x, c=coordinates: op.image.resize2d(
                    x, (10, 9), method="linear", coordinate_transformation_mode=c
                ),
                (image,),
                1e-4,
            ),
        )
    for rounding in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        yield (
            f"resize_nearest_{rounding}",
            Case(
                lambda x, r=rounding: op.image.resize2d(
                    x,
                    (10, 12),
                    method="nearest_neighbor",
                    coordinate_transformation_mode="asymmetric",
                    rounding_method=r,
                ),
                (image,),
            ),
        )
    yield (
        "resize_nearest_round",
        Case(
            lambda x: op.image.resize2d(x, (10, 12), method="nearest_neighbor"),
            (image,),
        ),
    )
    yield (
        "resize_cubic",
        Case(lambda x: op.image.resize2d(x, (10, 9), method="cubic"), (image,), 1e-4),
    )


CASES: Mapping[str, Case] = {
    name: case
    for group in (
        unary,
        clips,
        quantizing,
        binary,
        convolutions,
        pools,
        normalizations,
        transformers,
        reductions,
        arrangements,
        picks,
        resizings,
        samplings,
    )
    for name, case in group()
}


# ---- Running a case ----


def function(case: Case) -> relax.Function:
    parameters = [
        relax.Var(f"x{i}", relax.TensorType(array.shape, str(array.dtype)))
        for i, array in enumerate(case.arguments)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", parameters):
        with builder.dataflow():
            result = builder.emit_output(case.build(*parameters))
        builder.emit_func_output(result)
    return builder.get()["main"]


@pytest.fixture(scope="module")
def machine() -> relax.VirtualMachine:
    module = tvm.IRModule()
    for name, case in CASES.items():
        if case.oracle is None:
            module[name] = function(case).with_attr("global_symbol", name)
    # LLVM takes twice as long to optimize what is run once.
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    return relax.VirtualMachine(executable, tvm.cpu())


def expected(machine: relax.VirtualMachine, name: str, case: Case) -> list[Array]:
    if case.oracle is not None:
        return [case.oracle(*case.arguments)]
    result = machine[name](*map(tvm.runtime.tensor, case.arguments))
    results = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [each.numpy() for each in results]


def graph_of(case: Case) -> Graph:
    return from_relax(tvm.IRModule({"main": function(case)}))


def run_onnx(graph: Graph, arguments: tuple[Array, ...]) -> list[Array]:
    model, constants = to_onnx(graph)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # else each session has threads, which wait busily
    options.log_severity_level = 3
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in constants.values()]
    options.add_external_initializers(list(constants), values)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [each.name for each in session.get_inputs()]
    return session.run(None, dict(zip(names, arguments, strict=True)))  # type: ignore[no-any-return]


# ---- Tests ----


@pytest.mark.parametrize("name", sample(2, CASES))
def test_onnxruntime_gives_what_tvm_gives(name: str, machine: relax.VirtualMachine) -> None:
    case = CASES[name]

    found = run_onnx(graph_of(case), case.arguments)

    wanted = expected(machine, name, case)
    assert [each.dtype for each in found] == [each.dtype for each in wanted]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=case.tolerance, atol=case.tolerance)


REFUSED: Mapping[str, tuple[str, Case]] = {
    "no ONNX operator is known": ("median", Case(lambda x: op.median(x, 1), (f32(3, 4),))),
    "it is in training mode": (
        "nn.batch_norm",
        Case(
            lambda x, g, b, m, v: op.nn.batch_norm(x, g, b, m, v, axis=1, training=True),
            (f32(2, 3, 4, 4), f32(3), f32(3), f32(3), positive(3)),
        ),
    ),
    "the layout is NCHW4c": (
        "nn.max_pool2d",
        Case(
            lambda x: op.nn.max_pool2d(x, (2, 2), layout="NCHW4c", out_layout="NCHW4c"),
            (f32(1, 2, 6, 6, 4),),
        ),
    ),
    "its last window would lie in the padding": (
        "nn.max_pool2d",
        Case(
            lambda x: op.nn.max_pool2d(x, (2, 2), strides=(3, 3), padding=1, ceil_mode=True),
            (f32(1, 1, 7, 7),),
        ),
    ),
    "ONNX divides whole numbers towards zero": (
        "floor_divide",
        Case(op.floor_divide, (i64(9, 4), i64(9, 4) + 1)),
    ),
    "int64 is not bool": ("logical_and", Case(op.logical_and, (i64(2, 4), i64(2, 4)))),
    "its axes (1,) are not the last ones": (
        "nn.layer_norm",
        Case(lambda x, g, b: op.nn.layer_norm(x, g, b, axes=[1]), (f32(2, 3, 4), f32(3), f32(3))),
    ),
    "it rounds halves to even": (
        "image.resize2d",
        Case(
            lambda x: op.image.resize2d(
                x,
                (10, 12),
                method="nearest_neighbor",
                coordinate_transformation_mode="asymmetric",
                rounding_method="round",
            ),
            (f32(1, 2, 5, 6),),
        ),
    ),
    "(5, 5) does not divide into (2, 2)": (
        "nn.adaptive_avg_pool2d",
        Case(lambda x: op.nn.adaptive_avg_pool2d(x, (2, 2)), (f32(1, 1, 5, 5),)),
    ),
    "its threshold is 1": (
        "nn.softplus",
        Case(lambda x: op.nn.softplus(x, threshold=1.0), (f32(3, 4),)),
    ),
    "the data has 3 axes": (
        "nn.pixel_shuffle",
        Case(lambda x: op.nn.pixel_shuffle(x, 2), (f32(8, 3, 4),)),
    ),
    "it has a causal mask": (
        "nn.attention",
        Case(
            lambda q: op.nn.attention(q, q, q, causal_mask="TopLeft"),
            (f32(1, 4, 2, 8),),
        ),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_onnx_cannot_say_is_refused_with_the_reason(reason: str) -> None:
    name, case = REFUSED[reason]

    with pytest.raises(Unsupported) as refused:
        to_onnx(graph_of(case))

    assert refused.value.op == name
    assert reason in refused.value.reason


def test_a_refusal_is_one_sentence_that_names_the_node() -> None:
    assert str(Unsupported("gv", "median", "no ONNX operator is known for it")) == (
        "`median` at `gv` cannot be written in ONNX: no ONNX operator is known for it"
    )


F32 = TensorType("float32", (3, 4))


def constant(name: str, array: Array | None, shape: tuple[int, ...]) -> Node:
    return Node(name, Form.CONSTANT, TensorType("float32", shape), value=array)


def call(name: str, op_name: str, *inputs: int, type_: TensorType = F32) -> Node:
    return Node(name, Form.CALL, type_, inputs, op_name)


def test_only_small_constants_are_in_the_model() -> None:
    matrix, scalar = f32(4, 400), f32()
    wide = TensorType("float32", (3, 400))
    nodes = [
        Node("x", Form.INPUT, F32),
        constant("matrix", matrix, (4, 400)),
        constant("scalar", scalar, ()),
        call("y", "matmul", 0, 1, type_=wide),
        call("z", "add", 3, 2, type_=wide),
    ]

    model, constants = to_onnx(Graph(nodes, [4]))

    assert list(constants) == ["matrix"]
    assert constants["matrix"] is matrix
    assert model.ByteSize() < matrix.nbytes


def test_constants_without_values_can_be_checked_but_not_written() -> None:
    nodes = [
        Node("x", Form.INPUT, F32),
        constant("w", None, (3, 4)),
        call("y", "add", 0, 1),
    ]
    graph = Graph(nodes, [2])

    assert [node.op_type for node in outline(graph)[0].graph.node] == ["Add"]
    with pytest.raises(ValueError, match="constant `w` has no value"):
        to_onnx(graph)


def test_a_value_may_be_returned_twice_and_an_input_as_it_is() -> None:
    nodes = [Node("x", Form.INPUT, F32), call("y", "negative", 0)]
    x = f32(3, 4)

    found = run_onnx(Graph(nodes, [1, 0, 1]), (x,))

    for ours, wanted in zip(found, (-x, x, -x), strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_symbolic_dimensions_keep_their_names() -> None:
    rows = TensorType("float32", ("n", 4))
    flat = TensorType("float32", ("n * 4",))
    nodes = [
        Node("x", Form.INPUT, rows),
        call("y", "nn.relu", 0, type_=rows),
        call("z", "flatten", 1, type_=flat),
    ]
    graph = Graph(nodes, [2])
    x = f32(5, 4)

    (found,) = run_onnx(graph, (x,))

    dims = to_onnx(graph)[0].graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["n", 4]
    np.testing.assert_array_equal(found, np.maximum(x, 0).ravel())


def test_names_with_the_form_of_ours_do_not_collide() -> None:
    nodes = [
        Node("x", Form.INPUT, F32),
        call("y", "rsqrt", 0),
        call("y.0", "negative", 1),
        call("y.1", "negative", 2),
    ]
    x = positive(3, 4)

    (found,) = run_onnx(Graph(nodes, [3]), (x,))

    np.testing.assert_allclose(found, 1 / np.sqrt(x), rtol=1e-6)
