"""Products of bytes by dot products of the processor are those of whole numbers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from numpy.lib.stride_tricks import sliding_window_view
from onnxruntime.quantization import QuantFormat, QuantType
from tvm import relax, tirx
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

import collage_dsl as collage
from collage_dsl import parse_graph
from collage_dsl.backends.onnx_writer import to_onnx
from collage_dsl.backends.runtime.cores import on_cores
from collage_dsl.backends.schedule import schedule, schedule_variant
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import unpromising, unsuitable
from collage_dsl.offline import onnxruntime
from collage_dsl.realization.kernel import kernel_of
from collage_dsl.realization.legalize import legalized
from collage_dsl.realization.variants import pinned
from collage_dsl.resources import folder
from tests.cases import covering, slow
from tests.processors import here
from tests.reference import run_onnx
from tests.test_schedule import Array, built, native, outputs
from tests.test_schedule_planes import intrinsics

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from layers import Layers
from quantized import dynamic, static

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Build = Callable[..., Any]


RUNNING = (
    None,
    *here("haswell", "skylake-avx512", "alderlake", "icelake-server", "sapphirerapids"),
)
"""Processors whose code this one can run; None is this one."""


def function(arrays: Sequence[Array], build: Build) -> Any:
    """The one function that TVM fuses what `build` emits into."""
    types = [relax.TensorType(array.shape, str(array.dtype)) for array in arrays]
    return of_types(types, build)


def of_types(types: Sequence[Any], build: Build) -> Any:
    builder = relax.BlockBuilder()

    def parameters() -> list[Any]:
        return [relax.Var(f"p{i}", kind) for i, kind in enumerate(types)]

    inner, outer = parameters(), parameters()
    with builder.function("kernel", inner, private=True, attrs={"Primitive": True}):
        with builder.dataflow():
            result = builder.emit_output(build(builder.emit, *inner))
        builder.emit_func_output(result)
    (kernel,) = builder.get().get_global_vars()
    with builder.function("main", outer):
        with builder.dataflow():
            result = builder.emit_output(relax.Call(kernel, outer))
        builder.emit_func_output(result)
    module = builder.get()
    for lowering in ("LegalizeOps", "AnnotateTIROpPattern", "FuseOps", "FuseTIR"):
        module = getattr(relax.transform, lowering)()(module)
    (func,) = (f for name, f in module.functions.items() if name.name_hint != "main")
    return func.with_attr("global_symbol", "kernel")


def computed(
    arrays: Sequence[Array], build: Build, target: Any, variant: str | None = None
) -> Array:
    """By `variant`, or by `gemm` where the processor multiplies bytes."""
    func = function(arrays, build)
    variant = variant or ("gemm" if machine_of(target).dots else "direct")
    scheduled = schedule_variant(func, variant, target=target)
    inputs = [tvm.runtime.tensor(array) for array in arrays]
    for position, prepare in scheduled.prepared.items():
        weight, packed = inputs[position], prepare.params[1]
        inputs[position] = tvm.runtime.empty([int(e) for e in packed.shape], str(packed.dtype))
        built(prepare.with_attr("global_symbol", "kernel"), target)(weight, inputs[position])
    (last,) = func.params[len(arrays) :]
    result = tvm.runtime.tensor(np.full([int(e) for e in last.shape], 7, str(last.dtype)))
    kernel = on_cores(built(scheduled.function, target), int(target.attrs["num-cores"]))
    kernel(*inputs, result)
    return result.numpy()


def drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Bytes of which a quarter is the least and a quarter the largest."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    array = rng.integers(limits.min, limits.max + 1, shape)
    extreme = rng.choice([limits.min, limits.max], shape)
    return np.where(rng.random(shape) < 0.5, extreme, array).astype(dtype)


BYTES = [("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")]
SIZES = [
    (1, 5, 3),
    (2, 33, 70),
    (3, 30, 40),
    (5, 64, 16),
    (7, 130, 17),
    (29, 100, 96),
    (64, 257, 33),
    (130, 768, 40),
]


def wide(emit: Any, x: Any, zero: Any) -> Any:
    return emit(R.subtract(emit(R.astype(x, "int32")), emit(R.astype(zero, "int32"))))


PROCESSORS = [(processor,) for processor in RUNNING]


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "operand", "weight", "processor"),
    covering(SIZES, BYTES, PROCESSORS),
)
def test_a_product_of_integers_is_exact(
    rows: int, inner: int, columns: int, operand: str, weight: str, processor: str | None
) -> None:
    x, w = drawn((rows, inner), operand, 0), drawn((inner, columns), weight, 1)
    a, b = drawn((), operand, 2), drawn((columns,), weight, 3)

    def build(emit: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
        return R.matmul(wide(emit, x, a), wide(emit, w, b))

    found = computed([x, w, a, b], build, native(processor=processor))

    right = (x.astype("int32") - a) @ (w.astype("int32") - b)
    np.testing.assert_array_equal(found, right)


OF_FEW_PIXELS = [
    ((1, 129, 7, 7), (48, 129, 3, 3), {"padding": 1}),
    ((2, 258, 13, 13), (30, 258, 3, 3), {"padding": 1, "strides": 2}),
    ((1, 1024, 7, 7), (16, 1024, 1, 1), {}),
    ((1, 96, 5, 9), (64, 96, 3, 3), {"padding": (1, 2, 1, 2), "dilation": 2}),
]

IMAGES = [
    ((1, 5, 9, 9), (3, 5, 3, 3), {"padding": 1}),
    ((2, 16, 7, 7), (20, 16, 1, 1), {}),
    ((1, 3, 21, 18), (8, 3, 5, 3), {"padding": (2, 1), "strides": 2}),
    ((1, 7, 12, 31), (6, 7, 3, 3), {"padding": (0, 1, 2, 0), "dilation": 2}),
    ((1, 64, 14, 14), (33, 64, 3, 3), {"padding": 1}),
    ((1, 130, 4, 4), (17, 130, 1, 1), {"strides": 2}),
    *OF_FEW_PIXELS,
]


def convolved(x: Array, w: Array, strides: int = 1, padding: Any = 0, dilation: int = 1) -> Array:
    top, left, *others = np.broadcast_to(padding, 2) if np.size(padding) < 4 else padding
    bottom, right = others or (top, left)
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    reach = [(extent - 1) * dilation + 1 for extent in w.shape[2:]]
    seen = sliding_window_view(x, reach, axis=(2, 3))[:, :, ::strides, ::strides]
    return np.einsum("nchwyx,ocyx->nohw", seen[..., ::dilation, ::dilation], w)


def quantized(emit: Any, x: Any, scale: Any, zero: Any, axis: int) -> Any:
    return emit(R.dequantize(x, scale, zero, axis))


@pytest.mark.parametrize(
    ("image", "filters", "attrs", "operand", "weight", "processor"),
    covering(IMAGES, BYTES, PROCESSORS),
)
def test_a_convolution_of_dequantized_bytes_is_exact(
    image: tuple[int, ...],
    filters: tuple[int, ...],
    attrs: dict[str, Any],
    operand: str,
    weight: str,
    processor: str | None,
) -> None:
    """Scales are powers of two, so that no float is rounded."""
    x, w = drawn(image, operand, 0), drawn(filters, weight, 1)
    a, b = drawn((), operand, 2), drawn(filters[:1], weight, 3)
    s, t = np.array(0.5, "float32"), np.exp2(np.arange(filters[0]) % 3).astype("float32")

    def build(emit: Any, x: Any, w: Any, a: Any, b: Any, s: Any, t: Any) -> Any:
        return R.nn.conv2d(quantized(emit, x, s, a, 1), quantized(emit, w, t, b, 0), **attrs)

    found = computed([x, w, a, b, s, t], build, native(1 + len(attrs) % 2, processor))

    one = x.astype("float64") - a
    other = w.astype("float64") - b.astype("float64")[:, None, None, None]
    right = 0.5 * convolved(one, other, **attrs) * t[:, None, None]
    np.testing.assert_array_equal(found, right.astype("float32"))


@pytest.mark.parametrize(("image", "filters", "attrs"), OF_FEW_PIXELS)
def test_lanes_have_channels_where_an_image_has_few_pixels(
    image: tuple[int, ...], filters: tuple[int, ...], attrs: dict[str, Any]
) -> None:
    target = tvm.target.Target({"kind": "llvm", "mcpu": "znver4"})
    x, w, zero = drawn(image, "uint8", 0), drawn(filters, "int8", 1), drawn((), "uint8", 2)
    scale = np.array(0.5, "float32")

    def build(emit: Any, x: Any, w: Any, a: Any, s: Any) -> Any:
        zeros = relax.const(np.zeros((), "int8"))
        return R.nn.conv2d(quantized(emit, x, s, a, 1), quantized(emit, w, s, zeros, 0), **attrs)

    scheduled = schedule_variant(function([x, w, zero, scale], build), "gemm", target=target)

    (prepare,) = scheduled.prepared.values()
    columns = -(-filters[0] // 16) * 16
    steps = -(-filters[1] // 4) * filters[2] * filters[3]
    assert [int(e) for e in prepare.params[1].shape] == [columns * (steps + 1) + steps]


@pytest.mark.parametrize(
    ("rows", "inner", "columns", "cores", "processor"),
    covering([(1, 100, 70, 2), (9, 33, 50, 1), (40, 64, 16, 2)], RUNNING),
)
def test_a_product_of_dequantized_bytes_is_as_right_as_one_of_floats(
    rows: int, inner: int, columns: int, cores: int, processor: str | None
) -> None:
    x, w = drawn((2, rows, inner), "uint8", 0), drawn((columns, inner), "int8", 1)
    a, b = drawn((), "uint8", 2), np.zeros(columns, "int8")
    rng = np.random.default_rng(4)
    s, t = rng.random((), "float32"), rng.random(columns, "float32")

    def build(emit: Any, x: Any, w: Any, a: Any, b: Any, s: Any, t: Any) -> Any:
        weight = emit(R.permute_dims(quantized(emit, w, t, b, 0)))
        return R.nn.relu(emit(R.matmul(quantized(emit, x, s, a, 2), weight)))

    target = native(cores, processor)
    found = computed([x, w, a, b, s, t], build, target)

    one, other = (x.astype("float64") - a) * s, w.T * t.astype("float64")
    largest = (np.abs(one) @ np.abs(other)).max()  # before terms of the other sign are added
    rounding = 0 if machine_of(target).dots else np.finfo("float32").eps * largest
    np.testing.assert_allclose(found, np.maximum(one @ other, 0), rtol=3e-7, atol=rounding)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_product_of_dequantized_bytes_may_be_read_elsewhere(dtype: str) -> None:
    """Then its sums are in memory, and their scale is in the loops that read them."""
    x, w = drawn((19, 37), "uint8", 0), drawn((37, 11), "int8", 1)
    a, b = drawn((), "uint8", 2), drawn((), "int8", 3)
    s, one = np.array(0.5, "float32"), np.array(2.0**14, "float32")

    def build(emit: Any, x: Any, w: Any, a: Any, b: Any, s: Any, one: Any) -> Any:
        product = emit(R.matmul(quantized(emit, x, s, a, 0), quantized(emit, w, s, b, 1)))
        padded = emit(R.nn.pad(product, [0, 0, 2, 3], "circular"))
        if dtype == "float32":
            return R.multiply(padded, one)
        return R.quantize(padded, one, b, axis=1, out_dtype=dtype)

    found = computed([x, w, a, b, s, one], build, native())

    right = 0.25 * ((x.astype("float64") - a) @ (w.astype("float64") - b))
    right = np.pad(right, ((0, 0), (2, 3)), mode="wrap")
    if dtype == "float32":
        np.testing.assert_allclose(found, right * one, rtol=1e-6)
    else:
        rounded = np.round(right / one) + b
        np.testing.assert_array_equal(found, np.clip(rounded, -128, 127).astype(dtype))


def test_a_quantized_product_is_off_by_a_step_where_a_float_is_next_to_half_of_one() -> None:
    x, w = drawn((64, 300), "uint8", 0), drawn((300, 96), "int8", 1)
    a, b = np.array(117, "uint8"), np.zeros(96, "int8")
    rng = np.random.default_rng(4)
    s, t = np.array(0.0213, "float32"), 0.01 + 0.01 * rng.random(96, "float32")
    u, c = np.array(0.37, "float32"), np.array(131, "uint8")

    def build(emit: Any, *given: Any) -> Any:
        x, w, a, b, s, t, u, c = given
        y = emit(R.matmul(quantized(emit, x, s, a, 1), quantized(emit, w, t, b, 1)))
        return R.quantize(y, u, c, 1, "uint8")

    found = computed([x, w, a, b, s, t, u, c], build, native()).astype("int32")

    wide = [array.astype("float32") for array in (x, a, w, c)]
    y = ((wide[0] - wide[1]) * s) @ (wide[2] * t)
    right = np.clip(np.round(y / u) + wide[3], 0, 255).astype("int32")
    assert len(np.unique(right)) > 100
    assert np.abs(found - right).max() <= 1
    assert (found != right).mean() < 1e-3


def test_a_processor_without_an_instruction_for_bytes_multiplies_floats() -> None:
    x, w = drawn((5, 64), "uint8", 0), drawn((64, 48), "int8", 1)
    s, z = np.array(0.5, "float32"), np.array(0, "int8")

    def build(emit: Any, x: Any, w: Any, s: Any, z: Any) -> Any:
        return R.matmul(quantized(emit, x, s, z, 1), quantized(emit, w, s, z, 1))

    func, target = function([x, w, s, z], build), native(processor="x86-64")
    with pytest.raises(VariantError, match="no sum of this function is a product"):
        schedule_variant(func, "gemm", target=target)
    (found,) = outputs(schedule(func, target=target), target, [x, w, s, z])
    np.testing.assert_allclose(found, 0.25 * (x.astype("int32") @ w.astype("int32")), rtol=1e-6)


def test_a_product_of_one_number_is_no_product_with_packed_bytes() -> None:
    x, w = drawn((1, 64), "uint8", 0), drawn((64, 1), "int8", 1)
    a, b = drawn((), "uint8", 2), drawn((), "int8", 3)

    def build(emit: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
        return R.matmul(wide(emit, x, a), wide(emit, w, b))

    func = function([x, w, a, b], build)
    with pytest.raises(VariantError, match="no sum of this function is a product"):
        schedule_variant(func, "gemm", target=native(processor="haswell"))


BYTES_GIVEN = "x: u8[1,8,9,9]; s: f32[]; a: u8[]; w: i8[16,8,3,3]; t: f32[16]; b: i8[16];"
DEQUANTIZED = "p = dequantize(x, s, a); q = dequantize(w, t, b) [axis = 0]; y = nn.conv2d(p, q);"


def test_only_gemm_packs_bytes() -> None:
    graph = parse_graph(f"{BYTES_GIVEN} {DEQUANTIZED} return y;")
    weights = {graph.index(name) for name in "wtb"}
    assert unsuitable("gemm", graph, weights) is None
    assert unpromising("gemm", graph) is None
    for variant in ("gemv", "depthwise"):
        assert "of bytes" in str(unsuitable(variant, graph, weights))


INSTRUCTIONS = {
    "sapphirerapids": ("tdpbusd", "%tmm"),
    "znver4": ("vpdpbusd", "%zmm"),
    "alderlake": ("vpdpbusd", "%ymm"),
    "skylake-avx512": ("vpmaddwd", "%zmm"),
    "haswell": ("vpmaddwd", "%ymm"),
}


def test_code_has_the_instruction_of_the_processor() -> None:
    x, w = drawn((20, 64), "uint8", 0), drawn((64, 48), "int8", 1)
    a, b = drawn((), "uint8", 2), drawn((), "int8", 3)

    def build(emit: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
        return R.matmul(wide(emit, x, a), wide(emit, w, b))

    func = function([x, w, a, b], build)
    for processor, (instruction, register) in INSTRUCTIONS.items():
        target = native(processor=processor)
        scheduled = schedule_variant(func, "gemm", target=target)
        library = tvm.compile(tvm.IRModule({"kernel": scheduled.function}), target=target)
        lines = library.mod.inspect_source("asm").splitlines()
        assert [line for line in lines if instruction in line and register in line]


@pytest.mark.parametrize(
    ("processor", "rows", "dtype"),
    [("haswell", 3, "int16"), ("haswell", 4, "int32"), ("znver4", 1, "int32")],
)
def test_weights_that_few_rows_read_are_packed_as_bytes(
    processor: str, rows: int, dtype: str
) -> None:
    x, w = drawn((rows, 64), "uint8", 0), drawn((64, 48), "int8", 1)
    a, b = drawn((), "uint8", 2), drawn((), "int8", 3)

    def build(emit: Any, x: Any, w: Any, a: Any, b: Any) -> Any:
        return R.matmul(wide(emit, x, a), wide(emit, w, b))

    func = function([x, w, a, b], build)
    scheduled = schedule_variant(func, "gemm", target=native(processor=processor))
    (prepare,) = scheduled.prepared.values()
    assert str(prepare.params[1].dtype) == dtype


def test_filters_are_rows_of_matrices() -> None:
    """Those of few channels are not: most of a row would be empty."""
    target = native(processor="sapphirerapids")
    for channels, instruction in ((32, "tdpbsud"), (3, "vpdpbusd")):
        x, w = drawn((1, channels, 8, 8), "uint8", 0), drawn((24, channels, 3, 3), "int8", 1)
        s, z = np.array(0.5, "float32"), np.array(0, "int8")

        def build(emit: Any, x: Any, w: Any, s: Any, z: Any) -> Any:
            return R.nn.conv2d(quantized(emit, x, s, z, 1), quantized(emit, w, s, z, 0))

        scheduled = schedule_variant(function([x, w, s, z], build), "gemm", target=target)
        library = tvm.compile(tvm.IRModule({"kernel": scheduled.function}), target=target)
        assert instruction in library.mod.inspect_source("asm")


def test_bytes_are_accessed_with_masks_between_buffers_of_floats() -> None:
    """In one function, whose buffers TVM may put into the same memory."""
    x = np.random.default_rng(0).integers(0, 255, (1, 32, 14, 14), "uint8")
    w = np.random.default_rng(1).integers(-128, 127, (16, 32, 3, 3), "int8")
    scale, zero = np.array(0.5, "float32"), np.array(0, "int8")

    def build(emit: Any, x: Any, w: Any, s: Any, z: Any) -> Any:
        image, filters = emit(R.dequantize(x, s, z, 1)), emit(R.dequantize(w, s, z, 0))
        y = emit(R.nn.conv2d(image, filters, padding=1))
        return R.quantize(y, s, z, axis=1, out_dtype="int8")

    func = function([x, w, scale, zero], build)
    target = native(processor="skylake-avx512")
    found = schedule_variant(func, "gemm", target=target).function
    assert {"llvm.masked.load", "llvm.masked.store"} <= intrinsics(found)


REFUSED = """
import ctypes
class Stack(ctypes.Structure):
    _fields_ = [("pointer", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t)]
memory = ctypes.create_string_buffer(4096)
stack = Stack(ctypes.addressof(memory), 0, 4096)
assert ctypes.CDLL(None).sigaltstack(ctypes.byref(stack), None) == 0

from collage_dsl.backends.instructions import hidden, host_cpu
assert "-amx-int8" in hidden(host_cpu()), hidden(host_cpu())

import numpy, tvm
from collage_dsl.backends.schedule.byte_products.matrices import allowed
from tvm import tirx
made = tirx.decl_buffer((1,), "int32")
body = allowed(tirx.BufferStore(made, tirx.IntImm("int32", 1), [tirx.IntImm("int64", 0)]))
tensor = tvm.runtime.tensor(numpy.zeros(1, "int32"))
function = tirx.PrimFunc([made], body).with_attr("global_symbol", "kernel")
kernel = tvm.compile(tvm.IRModule({"kernel": function}), target="llvm")
try:
    kernel["kernel"](tensor)
except RuntimeError as error:
    assert "does not let the process use AMX" in str(error)
    assert tensor.numpy()[0] == 0
    print("refused")
"""


@pytest.mark.skipif("sapphirerapids" not in RUNNING, reason="this processor has no AMX")
def test_code_with_matrices_says_that_the_system_refuses_them() -> None:
    """Linux refuses them to a process whose stack for signals is too small for their state."""
    command = [sys.executable, "-c", REFUSED]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "refused\n"


ROWS = [1, 4, 7, 16, 33, 100]


@pytest.mark.parametrize("processor", RUNNING)
@pytest.mark.parametrize("inner", [64, 70])
def test_a_product_of_any_number_of_rows_is_exact(inner: int, processor: str | None) -> None:
    w, target = drawn((inner, 40), "int8", 1), native(1, processor)
    a, n = drawn((), "uint8", 2), tirx.Var("n", "int64")
    shapes = [((1, n, inner), "uint8"), (w.shape, "int8"), ((), "uint8")]
    types = [relax.TensorType(*each) for each in shapes]

    def build(emit: Any, x: Any, w: Any, a: Any) -> Any:
        return R.matmul(wide(emit, x, a), emit(R.astype(w, "int32")))

    scheduled = schedule_variant(of_types(types, build), "gemm", target=target)
    ((position, prepare),) = scheduled.prepared.items()
    assert position == 1
    packed = tvm.runtime.empty([int(e) for e in prepare.params[1].shape], "int32")
    built(prepare.with_attr("global_symbol", "kernel"), target)(tvm.runtime.tensor(w), packed)
    kernel = built(scheduled.function, target)
    for rows in ROWS:
        x = drawn((1, rows, inner), "uint8", rows)
        result = tvm.runtime.tensor(np.full((1, rows, 40), 7, "int32"))
        kernel(tvm.runtime.tensor(x), packed, tvm.runtime.tensor(a), result)
        right = (x.astype("int32") - a.astype("int32")) @ w.astype("int32")
        np.testing.assert_array_equal(result.numpy(), right)


PRODUCT = {"matmul", "nn.conv2d"}


def ops_of(kernel: Any) -> list[str]:
    return kernel.label.split("+")


@pytest.fixture
def packed_first(tmp_path: Path) -> Path:
    """The native spec, by the variant `gemm` wherever it can compute a kernel."""
    text = (folder("specs") / "native.collage").read_text()
    assert "  fallback;" in text
    path = tmp_path / "native.collage"
    variants = "gemm, direct" if machine_of(native()).dots else "direct"
    path.write_text(text.replace("  fallback;", f"  variants [{variants}];\n  fallback;"))
    shutil.copytree(folder("specs") / "std", tmp_path / "std")
    return path


def product_net() -> onnx.ModelProto:
    net = Layers()
    x = net.relu(net.fully_connected(net.input(9, 37), 37, 50))
    return net.model(net.fully_connected(x, 50, 21), [9, 21])


def image_net() -> onnx.ModelProto:
    net = Layers()
    x = net.relu(net.conv(net.input(1, 3, 13, 11), 3, 18, stride=2))
    return net.model(net.conv(net.relu(net.conv(x, 18, 9)), 9, 12, 1), [1, 12, 7, 6])


def dynamic_net() -> onnx.ModelProto:
    net = Layers()
    x = net.relu(net.linear(net.input(1, 6, 35), 35, 40))
    return net.model(net.linear(x, 40, 19), [1, 6, 19])


def of_type(activations: QuantType, per_channel: bool) -> Any:
    def quantize(source: Path, made: Path) -> None:
        static(source, made, activations, per_channel=per_channel)

    return quantize


def with_operators_on_bytes(source: Path, made: Path) -> None:
    static(source, made, form=QuantFormat.QOperator)


QUANTIZED_NETS = [
    (product_net, of_type(QuantType.QUInt8, per_channel=False)),
    (image_net, of_type(QuantType.QInt8, per_channel=True)),
    (dynamic_net, dynamic),
    slow(image_net, dynamic),
    (image_net, with_operators_on_bytes),
]


@pytest.mark.parametrize(("net", "quantize"), QUANTIZED_NETS)
def test_a_quantized_model_is_compiled_to_products_of_bytes(
    net: Callable[[], onnx.ModelProto], quantize: Any, packed_first: Path, tmp_path: Path
) -> None:
    source, made = tmp_path / "source.onnx", tmp_path / "made.onnx"
    onnx.save(net(), source)
    quantize(source, made)
    loaded = onnx.load(made)

    options: Any = {"cost": lambda kernel: 1e-5 / len(kernel.nodes), "race_seconds": 0.01}
    found = collage.compile(loaded, [packed_first], plans=1, **options)

    chosen = [kernel.candidate for kernel in found.plan.kernels if PRODUCT & set(ops_of(kernel))]
    assert chosen
    used = {pinned(each, Tvm()).toolchain.variant for each in chosen}
    assert used == {"gemm" if machine_of(native()).dots else "direct"}
    (value,) = loaded.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    x = {value.name: np.random.default_rng(7).standard_normal(shape, np.float32)}
    (right,) = run_onnx(loaded, x).values()
    (result,) = found.executable.run(x).values()
    differences = np.abs(result - right)
    # A float that is rounded to an integer may be rounded to the next one, and change few others.
    assert differences.max() <= 0.02 * np.abs(right).max()
    assert (differences > 1e-5 * np.abs(right).max()).mean() <= 0.02


def test_zero_points_that_are_zero_are_no_operands(tmp_path: Path) -> None:
    source, made = tmp_path / "source.onnx", tmp_path / "made.onnx"
    onnx.save(image_net(), source)
    static(source, made)
    graph = collage.from_onnx(onnx.load(made))
    kernels = collage.gather({"kind": "llvm"}).candidates(graph)
    kernel = next(each for each in kernels if {"dequantize", "nn.conv2d"} <= set(ops_of(each)))

    outlined = kernel_of(kernel, Tvm())

    values = [np.asarray(graph.nodes[index].value) for index in outlined.weights]
    assert any(value.ndim and not value.any() for value in values)
    bound = outlined.bound([relax.const(value) for value in values])
    module = legalized(tvm.IRModule({"main": bound.with_attr("global_symbol", "main")}), set())
    taken = [f.params for _, f in module.functions_items() if isinstance(f, tirx.PrimFunc)]
    operands = [each for params in taken for each in params]
    assert not any(len(each.shape) == 1 and "int8" in str(each.dtype) for each in operands)


def test_signed_bytes_are_multiplied_with_unsigned_ones_without_zero_points() -> None:
    x, w = drawn((4, 31), "int8", 0), drawn((31, 64), "uint8", 1)

    def build(emit: Any, x: Any, w: Any) -> Any:
        return R.matmul(emit(R.astype(x, "int32")), emit(R.astype(w, "int32")))

    found = computed([x, w], build, native())

    np.testing.assert_array_equal(found, x.astype("int32") @ w.astype("int32"))


def test_onnxruntime_makes_convolutions_of_bytes_of_the_model_that_it_gets(tmp_path: Path) -> None:
    source, made = tmp_path / "source.onnx", tmp_path / "made.onnx"
    onnx.save(image_net(), source)
    static(source, made)
    model, constants = to_onnx(collage.from_onnx(onnx.load(made)))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    lent = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in constants.values()]
    options.add_external_initializers(list(constants), lent)

    onnxruntime.InferenceSession(model.SerializeToString(), options)

    optimised = onnx.load(options.optimized_model_filepath, load_external_data=False)
    ops = [node.op_type for node in optimised.graph.node]
    assert ops.count("QLinearConv") == 3
    assert "Conv" not in ops
