"""Winograd convolutions of dequantized bytes compute what those of floats do, or are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tvm import relax
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl import parse_graph
from collage_dsl.backends.schedule import schedule_variant
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.variants import unpromising, unsuitable
from collage_dsl.graph import Toolchain
from tests.cases import covering
from tests.reference import run_onnx
from tests.test_byte_products import RUNNING, computed, drawn, function
from tests.test_schedule import Array, native
from tests.test_winograd import ERROR, check

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")


@dataclass(frozen=True)
class Layer:
    """A convolution by its attributes in Relax; those of ONNX that differ have other names."""

    image: tuple[int, ...] = (1, 16, 9, 11)
    filters: tuple[int, ...] = (24, 16, 3, 3)
    padding: tuple[int, ...] = (1, 1, 1, 1)
    strides: int = 1
    dilation: int = 1
    groups: int = 1
    op: str = "conv2d"
    operand: str = "uint8"
    weight: tuple[str, int] = ("int8", 0)
    by_filter: bool = True

    @property
    def axis(self) -> int:
        """The axis of the filters."""
        return 1 if self.op == "conv2d_transpose" else 0

    def attributes(self) -> dict[str, Any]:
        own = {"strides": self.strides, "padding": self.padding}
        others = {} if self.axis else {"dilation": self.dilation, "groups": self.groups}
        return own | others

    def right(self, x: Array, w: Array) -> Array:
        """What onnxruntime computes of floats."""
        sides = len(self.image) - 2
        operator = "ConvTranspose" if self.axis else "Conv"
        attributes = {
            "strides": [self.strides] * sides,
            "pads": list(self.padding),
            "dilations": [self.dilation] * sides,
            "group": self.groups,
        }
        node = helper.make_node(operator, ["x", "w"], ["y"], **attributes)
        given = {"x": x, "w": w}
        infos = {n: helper.make_tensor_value_info(n, 1, a.shape) for n, a in given.items()}
        result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph([node], "layer", list(infos.values()), [result])
        opsets = [helper.make_opsetid("", 20)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        return run_onnx(model, given)["y"]


LAYERS = {
    "plain": Layer(),
    "unsigned filters": Layer(weight=("uint8", 128), padding=(2, 0, 0, 1)),
    "one scale": Layer(by_filter=False, operand="int8"),
    "strides": Layer(filters=(20, 16, 5, 5), strides=2, padding=(2, 2, 2, 2)),
    "groups": Layer(image=(2, 32, 8, 8), filters=(32, 16, 3, 3), groups=2),
    "dilation": Layer(image=(1, 16, 14, 15), dilation=2, padding=(2, 2, 2, 2)),
    "transposed": Layer(filters=(16, 24, 4, 4), strides=2, op="conv2d_transpose"),
    "volumes": Layer((1, 8, 4, 8, 8), (16, 8, 3, 3, 3), padding=(1,) * 6, op="conv3d"),
    "floats": Layer(operand="float32"),
}


@pytest.mark.parametrize(
    ("name", "variant", "processor", "cores"),
    covering(LAYERS, ERROR, RUNNING, [1, 2]),
)
def test_results_are_those_of_floats(
    name: str, variant: str, processor: str | None, cores: int
) -> None:
    layer, rng = LAYERS[name], np.random.default_rng(0)
    dtype, zero = layer.weight
    w = drawn(layer.filters, dtype, 1)
    made = layer.filters[layer.axis]
    scales = rng.uniform(0.01, 0.02, made if layer.by_filter else ()).astype("float32")
    s = np.array(0.037, "float32")
    if is_float := layer.operand == "float32":
        x, a = rng.standard_normal(layer.image, "float32"), np.array(0, "uint8")
    else:
        x, a = drawn(layer.image, layer.operand, 0), drawn((), layer.operand, 2)

    def build(emit: Any, x: Any, w: Any, t: Any, *of_image: Any) -> Any:
        operand = emit(R.dequantize(x, *of_image, axis=1)) if of_image else x
        zeros = relax.const(np.array(zero, dtype))
        weight = emit(R.dequantize(w, t, zeros, axis=layer.axis))
        convolution = getattr(R.nn, layer.op)
        return R.nn.relu(emit(convolution(operand, weight, **layer.attributes())))

    arrays = [x, w, scales] if is_float else [x, w, scales, s, a]
    found = computed(arrays, build, native(cores, processor), variant)

    one = x if is_float else (x.astype("float32") - a.astype("float32")) * s
    shape = [-1 if axis == layer.axis else 1 for axis in range(w.ndim)]
    other = (w.astype("float32") - zero) * scales.reshape(shape)
    check(variant, found, np.maximum(layer.right(one, other.astype("float32")), 0))


def test_zero_points_that_are_no_constants_are_refused() -> None:
    """Sums of the image would have to be subtracted."""
    x, w = drawn((1, 16, 9, 9), "uint8", 0), drawn((16, 16, 3, 3), "int8", 1)
    s, a, b = np.array(0.5, "float32"), drawn((), "uint8", 2), drawn((), "int8", 3)

    def build(emit: Any, x: Any, w: Any, s: Any, a: Any, b: Any) -> Any:
        weight = emit(R.dequantize(w, s, b, axis=0))
        return R.nn.conv2d(emit(R.dequantize(x, s, a, axis=1)), weight)

    with pytest.raises(VariantError, match="no convolution of stride 1"):
        schedule_variant(function([x, w, s, a, b], build), "winograd4", target=native())


GIVEN = "x: u8[1,16,9,9]; s: f32[]; a: u8[]; w: i8[32,16,3,3]; t: f32[32];"
OF_CHANNELS = GIVEN.replace("[32]", "[16]")
DEQUANTIZED = "p = dequantize(x, s, a); q = dequantize(w, t, b) [axis = AXIS];"
CONVOLUTION = "y = nn.conv2d(p, q); return y;"


def refused(text: str, variant: str = "winograd4") -> str | None:
    graph = parse_graph(text)
    return unsuitable(variant, graph, {graph.index(name) for name in "wtb"})


@pytest.mark.parametrize(
    ("given", "axis", "expected"),
    [
        (f"{GIVEN} b = const i8[32];", "0", None),
        (f"{GIVEN} b = const i8[32];", "-4", None),
        (f"{GIVEN} b: i8[32];", "0", "zero points are all 0, or all 128; see `b`"),
        (f"{OF_CHANNELS} b = const i8[16];", "1", "by filters, `q` does so along axis 1"),
    ],
)
def test_filters_need_known_zero_points_and_a_scale_each(
    given: str, axis: str, expected: str | None
) -> None:
    found = refused(f"{given} {DEQUANTIZED.replace('AXIS', axis)} {CONVOLUTION}")
    assert found is None if expected is None else expected in str(found)


def test_filters_that_are_computed_are_refused() -> None:
    text = f"{GIVEN} b = const i8[32]; v = abs(w); {DEQUANTIZED.replace('(w', '(v')} {CONVOLUTION}"
    assert "known when a model is loaded" in str(refused(text.replace("AXIS", "0")))


def test_it_is_measured_where_no_instruction_adds_products_of_bytes() -> None:
    text = f"{GIVEN} b = const i8[32]; {DEQUANTIZED.replace('AXIS', '0')} {CONVOLUTION}"
    graph = parse_graph(text)
    assert "gemm is faster" in str(unpromising("winograd4", graph))
    for processor, is_measured in (("haswell", True), ("skylake-avx512", True), ("znver4", False)):
        toolchain = Toolchain("tvm", options={"mcpu": processor})
        reason = Tvm().unpromising("winograd4", graph, toolchain)
        assert (reason is None) == is_measured
        assert Tvm().unpromising("gemm", graph, toolchain) is None
