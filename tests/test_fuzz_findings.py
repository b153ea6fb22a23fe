"""
What random models of all operators found (`tests/fuzz/graphs.py`), each as a small model.

Each is compiled with native kernels where there are some, one operator a kernel, and gives what
onnxruntime gives without optimisations.
"""

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import collage_dsl as collage
from collage_dsl.backends.registry import installed
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import MIXED, searched
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.graph import CandidateKernel
from collage_dsl.measuring.kernels import supported
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.runners import runner
from collage_dsl.realization.signature import ExecutableError, Signature
from collage_dsl.resources import shipped_spec
from tests.cases import covering, slow

Array = np.ndarray[Any, Any]

NATIVE, LIBRARY = (
    spec for name in ("native", "onnxruntime") for spec in collage.load(shipped_spec(name)).values()
)


def parsed(text: str, opset: int, **constants: Array) -> onnx.ModelProto:
    head = f'<ir_version: 9, opset_import: ["" : {opset}, "com.microsoft" : 1]> g '
    made = onnx.parser.parse_model(head + text)
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    return made


def compiled(
    model: onnx.ModelProto, native: float = 1.0, library: float = 50.0, grows: float = 10.0
) -> ModelExecutable:
    """
    The model with kernels of the target that costs less where both can run them. They are small,
    unless their cost does not grow with the number of their operators.
    """
    graph = collage.from_onnx(model)

    def cost(kernel: CandidateKernel) -> float:
        factor = native if kernel.target == NATIVE.name else library
        return 1e-6 * factor * grows ** len(kernel.nodes)

    priced = supported(cost, installed())
    plan = searched(graph, (NATIVE, LIBRARY), priced, lookup(allow_extern=False)).plans[MIXED]
    assert not isinstance(plan, str)
    module = realize(graph, plan.candidates, installed())
    return ModelExecutable(build(module), Signature.of(graph))


def agrees(model: onnx.ModelProto, inputs: dict[str, Array], **costs: float) -> None:
    right = runner(model)(inputs)
    found = compiled(model, **costs).run(inputs)
    for name, wanted in right.items():
        assert found[name].dtype == wanted.dtype
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-6)


def f32(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("operands", ["c, x", "x, c", "x, x"])
def test_native_kernels_pass_on_a_size_that_is_a_constant_plus_a_name(operands: str) -> None:
    model = parsed(
        f"""(float[3,n] x) => (float[3,k] y) {{
          a = Concat <axis = 1> ({operands})
          y = Softmax (a)
        }}""",
        17,
        c=f32(3, 1),
    )

    agrees(model, {"x": f32(3, 4)})


def test_a_library_kernel_takes_a_value_of_computed_size() -> None:
    model = parsed(
        """(float[n,m] x) => (float16[k] a, float[4] y) {
          h = Cast <to = 10> (x)
          r = Reshape (h, flat)
          a = Tile (r, twice)
          s = Slice (a, zero, four)
          y = Cast <to = 1> (s)
        }""",
        17,
        flat=np.array([-1]),
        twice=np.array([2]),
        zero=np.array([0]),
        four=np.array([4]),
    )

    agrees(model, {"x": f32(2, 3)}, native=1, library=1)
    agrees(model, {"x": f32(2, 3)}, native=50, library=1)


def test_a_kernel_may_take_a_shape_that_another_computes() -> None:
    model = parsed(
        """(float[n,m] x) => (int64[1,m] y) {
          y = ArgMin <keepdims = 1, select_last_index = 1> (x)
        }""",
        17,
    )

    agrees(model, {"x": np.array([[2, 2], [2, 1], [3, 1]], np.float32)})


def test_truth_values_are_compared() -> None:
    model = parsed("(bool[3,16] x, bool[3,16] y) => (bool[3,16] z) { z = Equal (x, y) }", 17)
    generator = np.random.default_rng(0)

    agrees(model, {name: generator.integers(0, 2, (3, 16)).astype(bool) for name in "xy"})


def test_an_output_that_nobody_uses_stays_where_its_operator_needs_it() -> None:
    model = parsed(
        "(float[2,4] x) => (float[2,1] m) { y, m = LayerNormalization (x, scale) }",
        17,
        scale=f32(4),
    )

    agrees(model, {"x": f32(2, 4)})


def test_a_node_in_a_branch_may_be_of_a_domain_that_is_not_imported() -> None:
    model = parsed(
        """(bool c, float[4] x) => (float[4] y) {
          y = If (c) <
            then_branch = yes () => (float[4] p) { p = com.microsoft.QuickGelu (x) },
            else_branch = no () => (float[4] q) { q = Neg (x) }
          >
        }""",
        17,
    )
    model.opset_import.pop()

    agrees(model, {"c": np.array(True), "x": f32(4)})


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_an_upsample_begins_at_the_first_element(mode: str) -> None:
    model = parsed(
        f'(float[1,2,3,3] x) => (float[1,2,6,9] y) {{ y = Upsample <mode = "{mode}"> (x, s) }}',
        9,
        s=np.array([1, 1, 2, 3], np.float32),
    )

    agrees(model, {"x": f32(1, 2, 3, 3)})


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_constant_is_computed_by_the_rules_of_its_operator_set(op: str) -> None:
    model = parsed(
        f"(float[2,3,4] x) => (float[2,3,4] y) {{ s = {op} <axis = 1> (c)  y = Add (x, s) }}",
        11,
        c=f32(2, 3, 4),
    )

    agrees(model, {"x": f32(2, 3, 4)})


def test_a_sum_of_squares_over_no_axes_is_squares() -> None:
    model = parsed(
        """(float[2,3] x) => (float[2,3] y) {
          s = ReduceSumSquare <noop_with_empty_axes = 1> (c, none)
          y = Add (x, s)
        }""",
        18,
        c=f32(2, 3),
        none=np.zeros(0, np.int64),
    )

    agrees(model, {"x": f32(2, 3)})


def test_a_constant_of_half_a_byte_may_be_an_output() -> None:
    model = parsed(
        "(float[2] x) => (int4[3] y, float[2] z) { y = Cast <to = 22> (c)  z = Neg (x) }",
        25,
        c=np.array([-3, 0, 7], np.float32),
    )

    found = compiled(model).run({"x": f32(2)})

    assert found["y"].astype(int).tolist() == [-3, 0, 7]


def test_parts_of_a_split_may_be_empty() -> None:
    model = parsed(
        "(float[3] x) => (float[0] a, float[3] b, float[0] c) { a, b, c = Split (x, sizes) }",
        17,
        sizes=np.array([0, 3, 0]),
    )

    agrees(model, {"x": f32(3)})


def test_a_tensor_without_elements_is_normalized() -> None:
    model = parsed(
        "(float[3,3,3,0] x) => (float[3,3,3,0] y) { y = MeanVarianceNormalization (x) }", 17
    )

    agrees(model, {"x": f32(3, 3, 3, 0)})


def test_an_empty_batch_is_flattened() -> None:
    model = parsed("(float[0,4,3] x) => (float[0,12] y) { y = Flatten (x) }", 17)

    agrees(model, {"x": f32(0, 4, 3)})


def test_the_maximum_of_no_elements_is_minus_infinity() -> None:
    model = parsed("(float[n,0] x) => (float[n,1] y) { y = ReduceMax <axes = [1]> (x) }", 17)

    agrees(model, {"x": f32(3, 0)})


@pytest.mark.parametrize(
    ("dtype", "node"),
    [("uint16", "Shrink <lambd = 1.5> (x)"), ("int32", "ReduceMean <axes = [1]> (x)")],
)
def test_integers_are_shrunk_and_averaged(dtype: str, node: str) -> None:
    shape = "[2,1]" if "Mean" in node else "[2,3]"
    model = parsed(f"({dtype}[2,3] x) => ({dtype}{shape} y) {{ y = {node} }}", 13)

    agrees(model, {"x": np.array([[0, 1, 2], [3, 4, 9]], dtype)})


@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (6, 4, 5), (5, 4, 3, 2), (3, 5, 8)])
def test_a_tile_may_be_reshaped_twice(shape: tuple[int, ...]) -> None:
    model = parsed(
        """(float[8] x) => (float[1,120] y) {
          t = Tile (x, n)
          r = Reshape (t, s)
          y = Flatten <axis = 0> (r)
        }""",
        21,
        n=np.array([15]),
        s=np.array(shape),
    )

    agrees(model, {"x": f32(8)}, grows=1.0)


def test_the_least_of_truth_values_is_found() -> None:
    model = parsed("(bool[3,2] x) => (bool[3,1] y) { y = ReduceMin (x, a) }", 20, a=np.array([1]))

    agrees(model, {"x": np.array([[True, True], [True, False], [False, False]])})


def test_the_logarithm_of_a_constant_softmax_is_finite() -> None:
    model = parsed(
        "(float[2,2] x) => (float[2,2] y) { s = LogSoftmax <axis = 0> (c)  y = Add (x, s) }",
        17,
        c=np.array([[0, 1], [1e4, 1e4]], np.float32),
    )

    agrees(model, {"x": f32(2, 2)})


def test_the_places_of_maxima_of_a_constant_are_those_of_onnxruntime() -> None:
    model = parsed(
        """(int64 x) => (int64[1,1,3,3] y) {
          m, i = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (c)
          y = Add (i, x)
        }""",
        17,
        c=np.zeros((1, 1, 3, 3), np.uint8),
    )

    agrees(model, {"x": np.array(1)})


def test_the_scale_of_zeros_alone_is_one() -> None:
    model = parsed(
        """(float[2,3] x) => (uint8[2,3] y, float s, uint8 z) {
          y, s, z = DynamicQuantizeLinear (x)
        }""",
        17,
    )

    agrees(model, {"x": np.zeros((2, 3), np.float32)})
    agrees(model, {"x": f32(2, 3)})


def test_regions_of_an_image_of_any_size_are_aligned() -> None:
    model = parsed(
        """(float[1,1,n,m] x) => (float[2,1,3,3] y) {
          y = RoiAlign <output_height = 3, output_width = 3, sampling_ratio = 2> (x, r, i)
        }""",
        17,
        r=np.array([[0, 0, 4, 4], [1, 2, 5, 5]], np.float32),
        i=np.array([0, 0]),
    )

    agrees(model, {"x": f32(1, 1, 6, 7)})


def test_constant_regions_are_aligned_by_the_rules_of_their_operator_set() -> None:
    model = parsed(
        """(float[2,1,3,3] x) => (float[2,1,3,3] y) {
          a = RoiAlign <output_height = 3, output_width = 3, sampling_ratio = 2> (c, r, i)
          y = Add (a, x)
        }""",
        10,
        c=f32(1, 1, 6, 6),
        r=np.array([[0, 0, 4, 4], [1, 2, 5, 5]], np.float32),
        i=np.array([0, 0]),
    )

    agrees(model, {"x": f32(2, 1, 3, 3)})


def test_regions_are_scaled_before_half_a_pixel_is_taken_from_them() -> None:
    model = parsed(
        """(float[1,1,8,8] x, float[2,4] r) => (float[2,1,2,2] y) {
          y = RoiAlign
            <output_height = 2, output_width = 2, sampling_ratio = 1, spatial_scale = 4.0>
            (x, r, i)
        }""",
        16,
        i=np.array([0, 0]),
    )
    regions = np.array([[0.3, 0.2, 1.4, 1.1], [0.5, 0.9, 0.8, 1.7]], np.float32)

    agrees(model, {"x": f32(1, 1, 8, 8), "r": regions})


@pytest.mark.parametrize("reduction", [slow("ReduceSum"), slow("ReduceProd"), "ReduceL2"])
def test_a_reduction_of_a_part_that_may_be_empty_starts_anyway(reduction: str) -> None:
    model = parsed(
        f"""(float[n,64] x) => (float[1,64] y, float[64,64] z) {{
          part = Slice (x, first, last, first)
          y = {reduction} (part, first)
          turned = Transpose (part)
          z = MatMul (turned, part)
        }}""",
        18,
        first=np.array([0]),
        last=np.array([-1]),
    )

    for size in (1, 2, 7):
        agrees(model, {"x": f32(size, 64)})


def test_a_product_over_no_elements_is_zero() -> None:
    model = parsed(
        "(float[5,0] x, float[0,64] w) => (float[5,64] y) { y = MatMul (x, w) }",
        18,
    )

    agrees(model, {"x": f32(5, 0), "w": f32(0, 64)})


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_image_of_any_size_gets_the_size_of_another_one(mode: str) -> None:
    model = parsed(
        f"""(float[n,2,h,w] x, float[n,2,5,7] other) => (float[n,2,5,7] y) {{
          first = Shape <end = 2> (x)
          last = Shape <start = 2> (other)
          sizes = Concat <axis = 0> (first, last)
          resized = Resize <mode = "{mode}"> (x, , , sizes)
          y = Add (resized, other)
        }}""",
        17,
    )

    assert [node.op for node in collage.from_onnx(model).nodes if node.is_call] == [
        "image.resize2d",
        "add",
    ]
    for n, h, w in ((1, 3, 4), (2, 1, 1), (3, 8, 7)):
        agrees(model, {"x": f32(n, 2, h, w), "other": f32(n, 2, 5, 7)})


def test_the_nearest_element_of_an_image_of_any_size_is_that_of_onnxruntime() -> None:
    model = parsed(
        """(float[n,1,h,w] x, float[n,1,p,q] other) => (float[n,1,p,q] y) {
          first = Shape <end = 2> (x)
          last = Shape <start = 2> (other)
          sizes = Concat <axis = 0> (first, last)
          y = Resize (x, , , sizes)
        }""",
        17,
    )

    for h, w in ((3, 4), (8, 3), (7, 7)):
        agrees(model, {"x": f32(1, 1, h, w), "other": f32(1, 1, 7, 5)})


@pytest.mark.parametrize(("mode", "across"), [("linear", 3), ("nearest", 4)])
def test_an_image_of_any_size_is_scaled_by_whole_numbers(mode: str, across: int) -> None:
    model = parsed(
        f"""(float[1,2,h,w] x) => (float[1,2,p,q] y) {{
          y = Resize <mode = "{mode}"> (x, , scales)
        }}""",
        17,
        scales=np.array([1, 1, 2, across], np.float32),
    )

    assert [node.op for node in collage.from_onnx(model).nodes if node.is_call] == [
        "image.resize2d"
    ]
    agrees(model, {"x": f32(1, 2, 4, 3)})


def test_corners_of_an_image_with_a_size_of_1_are_aligned() -> None:
    model = parsed(
        """(float[1,2,3,4] x, float[1,2,h,w] other) => (float[1,2,h,w] y) {
          first = Shape <end = 2> (x)
          last = Shape <start = 2> (other)
          sizes = Concat <axis = 0> (first, last)
          y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners">
            (x, , , sizes)
        }""",
        17,
    )

    for h, w in ((1, 1), (5, 7)):
        agrees(model, {"x": f32(1, 2, 3, 4), "other": f32(1, 2, h, w)})


def test_a_cubic_grid_sample_with_reflection_is_kept() -> None:
    model = parsed(
        """(float[1,1,4,4] x, float[1,2,2,2] g) => (float[1,1,2,2] y) {
          y = GridSample <mode = "cubic", padding_mode = "reflection"> (x, g)
        }""",
        20,
    )

    agrees(model, {"x": f32(1, 1, 4, 4), "g": f32(1, 2, 2, 2)})


def test_an_einsum_over_sizes_of_different_names_is_kept() -> None:
    """One of them may be 1, which counts as the other one: TVM would read more than there is."""
    model = parsed(
        """(float[n,4] x, float[k,4] y) => (float[p,4] z) {
          z = Einsum <equation = "bi, bi -> bi"> (x, y)
        }""",
        17,
    )

    assert [each.op for each in collage.from_onnx(model).nodes if each.is_call] == ["onnx.Einsum"]
    agrees(model, {"x": f32(3, 4), "y": f32(3, 4)})


@pytest.mark.parametrize("equation", ["bij,bjk->bik", "...ij,...jk", "bij,bjj->i"])
def test_an_einsum_of_any_size_runs_in_both_targets(equation: str) -> None:
    model = parsed("(float[n,4,4] x, float[n,4,4] y) => (z) { z = Abs (e) }", 17)
    made = onnx.helper.make_node("Einsum", ["x", "y"], ["e"], equation=equation)
    model.graph.node.insert(0, made)
    calls = [each.op for each in collage.from_onnx(model).nodes if each.is_call]

    assert calls == ["einsum", "abs"]
    agrees(model, {"x": f32(2, 4, 4), "y": f32(2, 4, 4)})


def test_bounds_that_are_computed_limit_as_constant_ones_do() -> None:
    model = parsed(
        """(float[3,4] x, float low, float high) => (float[3,4] y, float[3,4] z) {
          y = Clip (x, low, high)
          z = Clip (x, , high)
        }""",
        17,
    )
    calls = {each.op for each in collage.from_onnx(model).nodes if each.is_call}

    assert calls == {"isnan", "where", "maximum", "minimum"}
    for low, high in ((-0.5, 0.5), (0.5, -0.5), (np.nan, 0.1)):
        bounds = {"low": np.array(low, np.float32), "high": np.array(high, np.float32)}
        agrees(model, {"x": f32(3, 4), **bounds})


def test_nothing_is_scattered_into_nothing() -> None:
    model = parsed(
        """(float[0,5] x, float[0,2] u) => (float[0,5] y) {
          y = ScatterElements <reduction = "max"> (x, i, u)
        }""",
        18,
        i=np.zeros((0, 2), np.int64),
    )

    agrees(model, {"x": f32(0, 5), "u": f32(0, 2)})


def test_the_maximum_of_a_constant_volume_has_its_rank() -> None:
    model = parsed(
        "(float x) => (float[4,1,1,1,1] y) { a = GlobalMaxPool (c)  y = Add (a, x) }",
        17,
        c=f32(4, 1, 3, 1, 1),
    )

    agrees(model, {"x": np.array(1, np.float32)})


@pytest.mark.parametrize(
    ("node", "type_"),
    [
        ("ReduceSumSquare <axes = [1], keepdims = 0> (c)", "int32[3]"),
        ("LpNormalization <p = 1> (f)", "float[3,2]"),
        ("MeanVarianceNormalization <axes = [0]> (f)", "float[3,2]"),
    ],
)
def test_constants_are_those_of_onnxruntime(node: str, type_: str) -> None:
    model = parsed(
        f"(float x) => ({type_} y, float z) {{ y = {node}  z = Neg (x) }}",
        13,
        c=np.array([[1, 2], [3, 4], [5, 6]], np.int32),
        f=f32(3, 2),
    )

    agrees(model, {"x": np.array(1, np.float32)})


def test_the_best_of_operator_set_10_are_as_many_as_asked_for() -> None:
    model = parsed(
        "(float[3,4] x) => (float[3,2] y, int64[3,2] i) { y, i = TopK (x, k) }",
        10,
        k=np.array([2]),
    )

    agrees(model, {"x": f32(3, 4)})


def test_a_slice_may_begin_after_its_end() -> None:
    model = parsed(
        "(float[5,3] x) => (float[0,3] y) { y = Slice (x, b, e) }",
        17,
        b=np.array([4]),
        e=np.array([1]),
    )

    agrees(model, {"x": f32(5, 3)})


def test_groups_may_be_of_channels_with_a_name() -> None:
    model = parsed(
        "(float[1,n,4,4] x) => (float[1,2,2,2] y) { y = Conv <group = 2> (x, w) }",
        17,
        w=f32(2, 1, 3, 3),
    )

    agrees(model, {"x": f32(1, 2, 4, 4)})


def test_regions_are_aligned_in_float16() -> None:
    model = parsed(
        """(float16[1,1,6,6] x) => (float16[2,1,3,3] y) {
          y = RoiAlign <output_height = 3, output_width = 3, sampling_ratio = 2> (x, r, i)
        }""",
        17,
        r=np.array([[0, 0, 4, 4], [1, 2, 5, 5]], np.float16),
        i=np.array([0, 0]),
    )
    x = f32(1, 1, 6, 6).astype(np.float16)

    found = compiled(model).run({"x": x})["y"]

    np.testing.assert_allclose(found, runner(model)({"x": x})["y"], atol=4e-3)


def test_a_short_time_fourier_transform_has_one_side() -> None:
    model = parsed(
        "(float[1,128,1] x) => (float[1,a,b,2] y) { y = STFT (x, step, window) }",
        17,
        step=np.array(8),
        window=np.hanning(16).astype(np.float32),
    )

    agrees(model, {"x": f32(1, 128, 1)})


def test_the_result_of_attention_has_the_size_of_its_bias() -> None:
    model = parsed(
        """(float[2,3,4] x, float[4,12] w, float[n] b) => (float[p,q,r] y) {
          y = com.microsoft.Attention <num_heads = 1> (x, w, b)
        }""",
        17,
    )

    agrees(model, {"x": f32(2, 3, 4), "w": f32(4, 12), "b": f32(12)})


MOVED = {
    "Add": "(float[32,32] x) => (float[32,32] y) { t = Transpose (x) s = Add (t, c) u = Abs (s) "
    "y = Transpose (u) }",
    "Concat": "(float[32,32] x) => (float[64,32] y) { t = Transpose (x) "
    "s = Concat <axis = 1> (t, c) u = Abs (s) y = Transpose (u) }",
    "Where": "(float[32,32] x) => (float[32,32] y) { t = Transpose (x) z = Sub (t, t) "
    "g = Greater (t, z) s = Where (g, t, c) u = Abs (s) y = Transpose (u) }",
    "MatMul": "(float[32,32] x) => (float[32,32] y) { t = Transpose (x) a = Add (t, c) "
    "s = MatMul (a, c) y = Transpose (s) }",
}


@pytest.mark.parametrize("op", MOVED)
def test_a_library_may_move_a_transposition_past_a_constant(op: str) -> None:
    """onnxruntime transposes the constant, which is not the one that we hold any more."""
    model = parsed(MOVED[op], 17, c=f32(64, 32)[32:])

    agrees(model, {"x": f32(32, 32)}, native=50.0, library=1.0, grows=1.0)


def test_an_optimisation_of_a_library_may_be_wrong() -> None:
    """That of pooling without channels makes a node that onnxruntime refuses."""
    model = parsed("(float[0,0,3,3] x) => (float[0,0,1,1] y) { y = GlobalAveragePool (x) }", 17)

    agrees(model, {"x": f32(0, 0, 3, 3)})


def test_the_body_of_a_function_does_not_change_the_rank() -> None:
    agrees(parsed("(float x) => (float y) { y = Celu <alpha = 2.0> (x) }", 17), {"x": f32()})


def test_a_normalization_in_float16_takes_what_is_computed() -> None:
    model = parsed(
        """(float16[2,3,8] x, float16[3] b, float16[3] m) => (float16[2,3,8] y) {
          y = BatchNormalization (x, c, b, m, c)
        }""",
        15,
        c=np.array([2.0, 2.5, 0.5], np.float16),
    )
    x = {
        name: f32(*shape).astype(np.float16)
        for name, shape in {"x": (2, 3, 8), "b": (3,), "m": (3,)}.items()
    }

    found = compiled(model).run(x)["y"]

    np.testing.assert_allclose(found, runner(model)(x)["y"], atol=4e-3)


@pytest.mark.parametrize(
    ("text", "opset", "constants"),
    [
        ("() => (y, n) { y, n = StringSplit (x) }", 20, {"x": np.array(["a  b", "c"], object)}),
        (
            "() => (y, s, z) { y, s, z = DynamicQuantizeLinear (x) }",
            17,
            {"x": np.zeros((0,), np.float32)},
        ),
        ("() => (y) { y = HannWindow (x) }", 17, {"x": np.array(5)}),
        (
            "() => (y) { a = Softplus (x) y = Cast <to = 9> (a) }",
            17,
            {"x": np.array([-49, 1], np.float32)},
        ),
        (
            "() => (y) { y = ReduceSumSquare <noop_with_empty_axes = 1> (x) }",
            18,
            {"x": np.array([2, 3], np.float32)},
        ),
    ],
    ids=["StringSplit", "DynamicQuantizeLinear", "HannWindow", "Softplus", "ReduceSumSquare"],
)
def test_a_constant_is_what_the_library_computes(
    text: str, opset: int, constants: dict[str, Array]
) -> None:
    model = parsed(text, opset, **constants)

    found = compiled(model).run({})

    for name, right in runner(model)({}).items():
        assert found[name].dtype == right.dtype
        np.testing.assert_array_equal(found[name], right)


def test_sums_of_no_elements() -> None:
    model = parsed("(double[2,0] x) => (double[2,0] y) { y = CumSum (x, c) }", 17, c=np.array(1))

    agrees(model, {"x": np.zeros((2, 0))})


def test_one_batch_may_be_written_in_one_dimension() -> None:
    model = parsed(
        """(float[24] u, float[24] v) => (float[18] y) {
          a = Reshape (u, k)
          b = Reshape (v, l)
          p = MatMul (a, b)
          y = Reshape (p, m)
        }""",
        17,
        k=np.array([2, 3, 4]),
        l=np.array([2, 4, 3]),
        m=np.array([-1]),
    )

    agrees(model, {"u": f32(24), "v": f32(24)})


def test_the_zero_point_of_a_vector_adds_no_dimension() -> None:
    model = parsed(
        "(uint8[3,2] b, uint8[1] s, uint8[1] t) => (int32[2] y) { y = MatMulInteger (a, b, s, t) }",
        13,
        a=np.array([11, 7, 3], np.uint8),
    )
    one = np.array([7], np.uint8)

    agrees(model, {"b": np.array([[1, 2], [3, 4], [5, 250]], np.uint8), "s": one, "t": one})


def test_a_normalization_of_channels_with_a_name() -> None:
    model = parsed(
        "(float[1,n,2,2] x) => (float[1,n,2,2] y) { y = BatchNormalization (x, c, c, c, c) }",
        15,
        c=np.array([1.5, 2.0, 0.5], np.float32),
    )

    agrees(model, {"x": f32(1, 3, 2, 2)})


def test_regions_of_no_elements() -> None:
    model = parsed(
        """(float[1,1,6,6] x, float[2,4] r) => (float[2,1,0,3] y) {
          y = RoiAlign <output_height = 0, output_width = 3> (x, r, i)
        }""",
        17,
        i=np.array([0, 0]),
    )

    agrees(model, {"x": f32(1, 1, 6, 6), "r": f32(2, 4)})


def test_what_a_branch_passes_on_is_constant() -> None:
    model = parsed(
        """() => (float[3] y) {
          a = If (yes) <then_branch = t () => (u) { u = Cast <to = 1> (x) },
                        else_branch = e () => (v) { v = Cast <to = 1> (x) }>
          y = Pow (a, p)
        }""",
        17,
        yes=np.array(True),
        x=np.array([0, 1, 3]),
        p=np.array([4, 5, 6], np.int32),
    )

    agrees(model, {})


def test_the_shape_of_gathered_points_follows_from_the_indices() -> None:
    model = parsed(
        "(float[3,4] x, int64[n,n] i) => (float[m] y) { y = com.microsoft.GatherND (x, i) }", 17
    )

    agrees(model, {"x": f32(3, 4), "i": np.array([[0, 1], [2, 3]])})


def test_slopes_of_channels_in_an_old_operator_set() -> None:
    model = parsed("(float[2,3,4] x) => (float[2,3,4] y) { y = PRelu (x, s) }", 6, s=f32(3))
    x = f32(2, 3, 4)

    found = compiled(model).run({"x": x})["y"]

    np.testing.assert_allclose(found, np.where(x < 0, x * f32(3)[:, None], x), rtol=1e-6)


def test_slopes_that_do_not_fit_are_refused() -> None:
    model = parsed("(float[2,3,4] x) => (y) { y = PRelu (x, s) }", 17, s=f32(3))

    with pytest.raises(
        FrontendError, match="`y`: operator PRelu: 3 slopes do not fit an axis of 4"
    ):
        collage.from_onnx(model)


def test_slopes_along_an_axis_with_a_name_are_checked_when_the_model_runs() -> None:
    model = parsed("(float[2,n] x) => (float[2,n] y) { y = PRelu (x, s) }", 17, s=f32(3))

    agrees(model, {"x": f32(2, 3)})
    with pytest.raises(ExecutableError):
        compiled(model).run({"x": f32(2, 4)})


def test_constants_in_bfloat16_reach_a_library() -> None:
    x = f32(2, 3, 32).astype(ml_dtypes.bfloat16)
    model = parsed(
        "() => (y, m, d) { y, m, d = LayerNormalization (x, s) }",
        17,
        x=x,
        s=x[0, 0],
    )

    found = compiled(model).run({})["y"]

    wide = x.astype(np.float32)
    spread = np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    wanted = (wide - wide.mean(-1, keepdims=True)) / spread * wide[0, 0]
    np.testing.assert_allclose(found.astype(np.float32), wanted, rtol=0.02, atol=0.02)


def test_the_sign_of_what_has_none() -> None:
    model = parsed("(uint16[3] x) => (uint16[3] y) { y = Sign (x) }", 17)

    agrees(model, {"x": np.array([0, 1, 700], np.uint16)})


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_several_scales_have_one_zero_point(op: str) -> None:
    dtypes = ("float", "uint8") if op == "QuantizeLinear" else ("uint8", "float")
    model = parsed(
        "({}[3,4] x, float[3] s) => ({}[3,4] y) {{ y = {} <axis = 0> (x, s) }}".format(*dtypes, op),
        17,
    )
    x = np.arange(12).reshape(3, 4)
    inputs = {"x": x.astype(dtypes[0].replace("float", "float32")), "s": f32(3) ** 2 + 0.5}

    agrees(model, inputs)
    agrees(model, inputs, native=50.0, library=1.0)


def test_an_axis_with_a_name_may_be_resized() -> None:
    model = parsed(
        '(float[1,1,n,4] x) => (y) { y = Resize <mode = "cubic"> (x, "", s) }',
        17,
        s=np.array([1, 1, 0.8, 0.8], np.float32),
    )

    agrees(model, {"x": f32(1, 1, 4, 4)})
    agrees(model, {"x": f32(1, 1, 7, 4)})


def test_the_mean_of_tensors_without_elements() -> None:
    agrees(parsed("(float[3,0] x) => (float[3,0] y) { y = Mean (x) }", 17), {"x": f32(3, 0)})
    agrees(
        parsed("(float[3,n] x, float[3,1] z) => (float[3,n] y) { y = Mean (x, z, x) }", 17),
        {"x": f32(3, 4), "z": f32(3, 1)},
    )


def test_a_tensor_without_elements_is_a_constant() -> None:
    model = parsed(
        """(float[3,4,0] x, float[2,3] z) => (float[1,3,4,0] y, float[3,4,0] v, float[2,6] w) {
          y = Unsqueeze (x, first)
          v = Exp (x)
          n = Reshape (x, flat)
          w = Concat <axis = 1> (z, n, z)
        }""",
        17,
        first=np.array([0]),
        flat=np.array([2, 0]),
    )
    model.graph.node[2].attribute.append(onnx.helper.make_attribute("allowzero", 1))

    agrees(model, {"x": f32(3, 4, 0), "z": f32(2, 3)})


def test_a_normalization_in_training_has_all_outputs() -> None:
    model = parsed(
        """(float[2,3,4] x) => (float[2,3,4] y, float[3] m) {
          y, m, unused = BatchNormalization <training_mode = 1> (x, c, c, c, c)
        }""",
        15,
        c=np.array([1.5, 2.0, 0.5], np.float32),
    )

    agrees(model, {"x": f32(2, 3, 4)})


def test_a_threshold_below_zero() -> None:
    model = parsed("(float[5] x) => (y) { y = Shrink <lambd = -1.0, bias = 1.5> (x) }", 18)

    agrees(model, {"x": np.array([-2, -1, 0, 1, 2], np.float32)})


def test_an_image_of_any_size_is_sampled() -> None:
    model = parsed(
        """(float[1,1,3,n] x, float[1,m,4,2] z) => (float[1,1,m,4] y) {
          y = GridSample <padding_mode = "border"> (x, z)
        }""",
        16,
    )

    agrees(model, {"x": f32(1, 1, 3, 2), "z": f32(1, 2, 4, 2)})


def test_channels_may_be_resized() -> None:
    model = parsed(
        '(float[4,4,4,4] x) => (float[1,1,8,8] y) { y = Resize <mode = "nearest"> (x, "", "", s) }',
        14,
        s=np.array([1, 1, 8, 8]),
    )

    agrees(model, {"x": f32(4, 4, 4, 4)})


@pytest.mark.parametrize("op", ["Exp", "Tanh", "Erf"])
def test_a_function_of_a_truth_value(op: str) -> None:
    model = parsed(
        f"""(float[64] x, float[64] z) => (float[64] y) {{
          g = Greater (x, z)
          c = Cast <to = 1> (g)
          d = Mul (c, x)
          y = {op} (d)
        }}""",
        17,
    )

    agrees(model, {"x": f32(64), "z": f32(8, 8).reshape(64)}, grows=1.0)


def test_no_elements_are_quantized() -> None:
    model = parsed(
        """(float[0,4] x) => (uint8[0,4] y, float s, uint8 z) {
          y, s, z = DynamicQuantizeLinear (x)
        }""",
        17,
    )

    agrees(model, {"x": f32(0, 4)})


def test_an_operator_that_onnxruntime_has_only_by_its_definition_in_an_old_operator_set() -> None:
    model = parsed(
        """(uint64[3,2] x) => (uint64[3] y) {
          axes = Constant <value_ints = [1]> ()
          y = ReduceLogSumExp <keepdims = 0> (x, axes)
        }""",
        18,
    )

    agrees(model, {"x": np.array([[15, 3], [60, 6], [90, 3]], np.uint64)})


@pytest.mark.parametrize("dtype", ["int16", "int8", "uint8"])
def test_integers_that_tvm_does_not_sort(dtype: str) -> None:
    model = parsed(
        f"""({dtype}[3,4] x) => ({dtype}[3,2] y, int64[3,2] z) {{
          k = Constant <value_ints = [2]> ()
          y, z = TopK <axis = 1> (x, k)
        }}""",
        25,
    )
    values = np.random.default_rng(0).permutation(12).reshape(3, 4)

    agrees(model, {"x": values.astype(dtype)})


def test_a_size_that_is_rounded_up() -> None:
    model = parsed(
        """(float[1,2,n,n] x) => (float[1,2,m,m] y) {
          y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x)
        }""",
        11,
    )

    agrees(model, {"x": f32(1, 2, 5, 5)})


def test_places_in_an_image_of_another_type() -> None:
    model = parsed(
        """(float16[1,1,3,2] x, float[1,2,4,2] places) => (float16[1,1,2,4] y) {
          y = GridSample <padding_mode = "border"> (x, places)
        }""",
        23,
    )

    agrees(model, {"x": f32(1, 1, 3, 2).astype(np.float16), "places": f32(1, 2, 4, 2)})


def test_what_follows_a_node_that_inference_does_not_know() -> None:
    """For some operators, inference ends the process where it has no type of an operand."""
    model = parsed(
        """(float[4,4] x) => (float[4,4] y) {
          f = com.microsoft.Gelu (x)
          r = Reshape (f, n)
          y = EyeLike (r)
        }""",
        20,
        n=np.array([4, 4]),
    )
    model.opset_import.add(domain="com.microsoft", version=1)

    agrees(model, {"x": f32(4, 4)})


def test_a_sum_of_products_of_no_elements() -> None:
    text = '(float[3,0] x, float[0] y) => (float[3] z) { z = Einsum <equation = "ij,j"> (x, y) }'

    agrees(parsed(text, 17), {"x": f32(3, 0), "y": f32(0)})


REDUCTIONS = ["Sum", "Max", "Min", "Prod", "Mean", "L2", "LogSumExp"]


@pytest.mark.parametrize(("kind", "size"), covering(REDUCTIONS, [1, 2, 5]))
def test_a_slice_that_may_be_empty_is_reduced(kind: str, size: int) -> None:
    model = parsed(
        f"""(float[3,n] x) => (float[3,1] y) {{
          s = Slice (x, one, most, one)
          y = Reduce{kind} <axes = [1]> (s)
        }}""",
        11,
        one=np.array([1]),
        most=np.array([2**31 - 1]),
    )

    agrees(model, {"x": f32(3, size)})


@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.parametrize(("kernel", "stride", "size"), [(2, 2, 6), (3, 2, 7), (4, 3, 13)])
def test_an_average_of_a_window_with_gaps_counts_its_elements(
    kernel: int, stride: int, size: int, before: int
) -> None:
    window = f"kernel_shape = [{kernel}], strides = [{stride}], dilations = [2]"
    text = f"y = AveragePool <{window}, pads = [{before}, 0]> (x)"
    model = parsed(f"(float[1,2,{size}] x) => (float[1,2,n] y) {{ {text} }}", 19)

    agrees(model, {"x": f32(1, 2, size)})


@pytest.mark.parametrize("shape", ["9,1", "1,31", "9,31"])
def test_a_limit_before_a_softmax(shape: str) -> None:
    model = parsed(
        f"""(float[9,48] x, float[48,31] w, float[{shape}] b) => (float[9,31] y) {{
          p = MatMul (x, w)
          m = Min (b, p)
          y = Softmax (m)
        }}""",
        17,
    )

    b = f32(*map(int, shape.split(",")))
    agrees(model, {"x": f32(9, 48), "w": f32(48, 31), "b": b}, grows=1.0)


def test_the_border_of_gathered_rows_is_repeated() -> None:
    model = parsed(
        """(float[2,3,4,32] x, int64[2,5,4,32] i) => (float[2,5,4,37] y) {
          g = GatherElements <axis = 1> (x, i)
          y = Pad <mode = "edge"> (g, pads)
        }""",
        17,
        pads=np.array([0, 0, 0, 2, 0, 0, 0, 3]),
    )
    places = np.random.default_rng(3).integers(0, 3, (2, 5, 4, 32))

    agrees(model, {"x": f32(2, 3, 4, 32), "i": places}, grows=1.0)


def test_the_largest_of_none_have_no_elements() -> None:
    text = "(float[2,5] x) => (float[2,k] y, int64[2,m] z) { y, z = TopK (x, none) }"

    agrees(parsed(text, 17, none=np.array([0])), {"x": f32(2, 5)})


def test_a_kept_node_gives_outputs_without_names_that_it_has_to_give() -> None:
    model = parsed("(float[2,3] x) => (bool[2,3] y) { z, y = Dropout (x) }", 12)
    model.graph.node[0].output[0] = ""

    agrees(model, {"x": f32(2, 3)})


def test_a_one_hot_may_put_its_axis_before_the_last() -> None:
    text = "(int64[2,3] x) => (float[a,b,c] y) { y = OneHot <axis = -2> (x, depth, values) }"
    model = parsed(text, 17, depth=np.array(4), values=np.array([0, 2], np.float32))

    agrees(model, {"x": np.array([[0, -1, 3], [2, 1, 0]])})
