"""Nodes that exporters write often, and that random models of all operators seldom have."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.realization.runners import runner
from tests.cases import covering, sample


def test_a_comparison_with_a_truth_value_is_fused() -> None:
    """PyTorch divides integers rounded down in this way."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18]> g (int64[2,5] x) => (bool[2,5] y, bool[2,5] z) {
          zero = Constant <value_int = 0> ()
          true = Constant <value = bool {1}> ()
          a = Less (x, zero)
          y = Equal (a, true)
          b = Not (a)
          c = Equal (true, b)
          z = Not (c)
        }"""
    )
    compiled = collage.compile(model, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.01)
    x = np.arange(-5, 5).reshape(2, 5)

    found = compiled.run({"x": x})

    assert (found["y"] == (x < 0)).all()
    assert (found["z"] == (x < 0)).all()


@pytest.mark.parametrize(
    ("mode", "target"),
    covering(["constant", "reflect", "edge", "wrap"], ["native", "onnxruntime"]),
)
def test_negative_padding_takes_elements_away(mode: str, target: str) -> None:
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 19]>
        g (float[5] x) => (float[k] a, float[m] b, float[n] c) {{
          first = Constant <value_ints = [2, -1]> ()
          a = Pad <mode = "{mode}"> (x, first)
          second = Constant <value_ints = [-1, 2]> ()
          b = Pad <mode = "{mode}"> (x, second)
          third = Constant <value_ints = [-2, -1]> ()
          c = Pad <mode = "{mode}"> (x, third)
        }}"""
    )
    compiled = collage.compile(model, [target], cost=[lambda kernel: 1e-6], race_seconds=0.01)
    inputs = {"x": np.arange(1, 6, dtype=np.float32)}

    found = compiled.run(inputs)

    for name, right in runner(model)(inputs).items():
        assert found[name].tolist() == right.tolist()


def test_padding_with_a_quantized_number_is_native() -> None:
    """The tools of onnxruntime quantize the value of a `Pad` like that of any operator."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18]> g (float[2,3] x) => (float[2,4] y)
        <float s = {0.5}, uint8 z = {3}, uint8 q = {8}, int64[4] by = {0, 1, 0, 0}> {
          value = DequantizeLinear (q, s, z)
          y = Pad (x, by, value)
        }"""
    )
    compiled = collage.compile(model, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.01)
    x = np.ones((2, 3), np.float32)

    assert compiled.run({"x": x})["y"].tolist() == [[2.5, 1, 1, 1]] * 2


@pytest.mark.parametrize(("trains", "ops"), [(0, ["nn.relu"]), (1, ["onnx.Dropout", "nn.relu"])])
def test_a_dropout_that_is_not_trained_is_left_out(trains: int, ops: list[str]) -> None:
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (float[3] x) => (float[3] y) {{
          trains = Constant <value = bool {{{trains}}}> ()
          ratio = Constant <value_float = 0.3> ()
          d = Dropout (x, ratio, trains)
          y = Relu (d)
        }}"""
    )

    assert [node.op for node in collage.from_onnx(model).nodes if node.is_call] == ops


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_enlarged_image_may_hold_infinities(mode: str) -> None:
    """Beside an infinity, a weight of 0 gives NaN, and a weight of 1e-8 gives infinity."""
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[1,1,5,6] x) => (float[1,1,15,19] y) <int64[4] sizes = {{1, 1, 15, 19}}> {{
          y = Resize <mode = "{mode}"> (x, , , sizes)
        }}"""
    )

    collage.compile(model, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.01)


def test_rounding_decides_between_integers_of_16_bits() -> None:
    """The last digit of a sigmoid is a hundredth of a step."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 21]>
        g (float[64,64] x) => (float[64,64] y)
        <float s = {5e-5}, uint16 z = {35000}, float t = {1.25e-5}, uint16 zero = {0}> {
          q = QuantizeLinear (x, s, z)
          d = DequantizeLinear (q, s, z)
          g = Sigmoid (d)
          r = QuantizeLinear (g, t, zero)
          y = DequantizeLinear (r, t, zero)
        }"""
    )

    def cost(kernel: collage.CandidateKernel) -> float:
        """Small, but for the kernel of the first four calls."""
        return 1e-7 if kernel.nodes == {"q", "d", "g", "r"} else 1e-6 * len(kernel.nodes)

    for target in ("native", "onnxruntime"):
        collage.compile(model, [target], cost=[cost], race_seconds=0.01)


def test_an_attribute_of_a_function_has_its_default() -> None:
    """ONNX's own inliner leaves it out, so that an operator inside takes its own default."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18, "own": 1]>
        g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) {
          y = own.outer (x)
          z = If (c) <
            then_branch = then () => (float[2,3] a) { a = own.leaky <slope = 0.75> (x) },
            else_branch = otherwise () => (float[2,3] b) { b = own.leaky (x) }
          >
        }
        <domain: "own", opset_import: ["": 18, "own": 1]>
        outer (x) => (y) { y = own.leaky (x) }
        <domain: "own", opset_import: ["": 18]>
        leaky <slope: float = 0.25> (x) => (y) { y = LeakyRelu <alpha: float = @slope> (x) }"""
    )
    targets = ["native", "onnxruntime"]
    compiled = collage.compile(model, targets, cost=[lambda kernel: 1e-6], race_seconds=0.01)
    x = -np.ones((2, 3), np.float32)

    found = compiled.run({"x": x, "c": np.array(False)})

    assert (found["y"] == -0.25).all()
    assert (found["z"] == -0.25).all()
    assert (compiled.run({"x": x, "c": np.array(True)})["z"] == -0.75).all()


@pytest.mark.parametrize(
    ("standard", "own", "body", "made"),
    [
        (18, 18, "Relu (x)", "nn.relu"),  # jax2onnx has the version of the standard for all domains
        (12, 1, "Relu (x)", "nn.relu"),
        (13, 1, "ReduceMean <axes = [1]> (x)", "mean"),
        (18, 1, "com.microsoft.Gelu (x)", "nn.gelu"),
    ],
)
def test_a_function_may_be_of_other_operator_sets(
    standard: int, own: int, body: str, made: str
) -> None:
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": 18, "own": 1]>
        g (float[2,3] x) => (float[p,q] y) {{
          z = own.f (x)
          y = Neg (z)
        }}
        <domain: "own", opset_import: ["": {standard}, "own": {own}, "com.microsoft": 1]>
        f (x) => (y) {{ y = {body} }}"""
    )

    graph = collage.from_onnx(model)

    assert made in [node.op for node in graph.nodes]


def test_a_function_of_another_set_may_have_values_of_unknown_types() -> None:
    """ONNX's converter would need the types, which are not known inside of the branches."""
    model = parse_model(
        """<ir_version: 10, opset_import: ["": 22, "own": 1]>
        g (float[2,3] x, bool c) => (float[2,3] y) { y = own.f (x, c) }
        <domain: "own", opset_import: ["": 21, "own": 1]>
        f (x, c) => (y) {
          y = If (c) <
            then_branch = then () => (a) { two = Constant <value_float = 2.0> ()
              a = own.scaled (x, two) },
            else_branch = otherwise () => (b) { b = Neg (x) }
          >
        }
        <domain: "own", opset_import: ["": 21]>
        scaled (x, s) => (y) { t = CastLike (s, x)
          y = Mul (x, t) }"""
    )
    targets = ["native", "onnxruntime"]
    compiled = collage.compile(model, targets, cost=[lambda kernel: 1e-6], race_seconds=0.01)
    x = np.ones((2, 3), np.float32)

    assert (compiled.run({"x": x, "c": np.array(True)})["y"] == 2).all()
    assert (compiled.run({"x": x, "c": np.array(False)})["y"] == -1).all()


FUSED = {
    "gelu": "(float[2,8] x) => (float[2,8] y) { y = com.microsoft.Gelu (x) }",
    "quick gelu": """(float[2,8] x) => (float[2,8] y) {
      y = com.microsoft.QuickGelu <alpha = 1.5> (x)
    }""",
    "product": """(float[2,8,3] x, float[2,5,8] z) => (float[2,3,5] y) {
      y = com.microsoft.FusedMatMul <transA = 1, transB = 1, alpha = 0.25> (x, z)
    }""",
    "product of weights": """(float[2,3,8] x) => (float[2,3,4] y) {
      y = com.microsoft.FusedMatMul <transB = 1, alpha = 0.25> (x, w48)
    }""",
    "gemm": """(float[2,8] x) => (float[2,4] y) {
      y = com.microsoft.FusedGemm <activation = "LeakyRelu", activation_alpha = 0.2, transB = 1>
        (x, w48, v4)
    }""",
    "convolution": """(float[1,3,6,6] x, float[1,4,4,4] z) => (float[1,4,4,4] y) {
      y = com.microsoft.FusedConv <kernel_shape = [3, 3], activation = "Relu"> (x, k, v4, z)
    }""",
    "clipped convolution": """(float[1,3,6,6] x) => (float[1,4,4,4] y) {
      y = com.microsoft.FusedConv <
        kernel_shape = [3, 3], activation = "Clip", activation_params = [0.0, 6.0]
      > (x, k, v4)
    }""",
    "norm": """(float[2,3,8] x, float[3,8] z) => (float[2,3,8] y, float[2,3,8] s) {
      y, , , s = com.microsoft.SkipLayerNormalization <epsilon = 1e-5> (x, z, v8, w8, u8)
    }""",
    "norm without shift": """(float[2,3,8] x, float[2,3,8] z) => (float[2,3,8] y) {
      y = com.microsoft.SkipLayerNormalization (x, z, v8)
    }""",
    "root mean square": """(float[2,3,8] x, float[2,3,8] z) => (float[2,3,8] y, float[2,3,8] s) {
      a, , , s = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 1e-6> (x, z, v8)
      y = SimplifiedLayerNormalization <axis = -1, epsilon = 1e-6, stash_type = 1> (a, w8)
    }""",
    "embedding": """(int32[2,3] x, int32[2,3] z, int32[2,3] m)
      => (float[2,3,8] y, int32[2] c, float[2,3,8] s) {
      y, c, s = com.microsoft.EmbedLayerNormalization (x, z, w48, w48, w48, v8, w8, m)
    }""",
    "embedding without mask": """(int32[b,n] x) => (float[b,n,8] y, int32[b] c) {
      y, c = com.microsoft.EmbedLayerNormalization (x, , w48, w48, , v8, w8)
    }""",
    "dynamic product": """(float[2,8] x) => (float[2,4] y) {
      y = com.microsoft.DynamicQuantizeMatMul (x, q, v4s, z4, v4)
    }""",
    "product of bytes": """(float[2,8] x) => (float[2,4] y) {
      b, s, z = DynamicQuantizeLinear (x)
      y = com.microsoft.MatMulIntegerToFloat (b, q, s, v4s, z, z4, v4)
    }""",
}
"""Nodes that the optimizer of onnxruntime writes, and those of its own examples."""


def fused(name: str, opset: int) -> onnx.ModelProto:
    generator = np.random.default_rng(0)
    constants = {
        "w48": generator.normal(size=(4, 8)).astype(np.float32),
        "k": generator.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "q": generator.integers(0, 256, (8, 4), np.uint8),
        "z4": generator.integers(0, 256, 4, np.uint8),
        "v4s": generator.uniform(0.01, 0.02, 4).astype(np.float32),
        "v4": generator.normal(size=4).astype(np.float32),
    } | {n: generator.normal(size=8).astype(np.float32) for n in ("v8", "w8", "u8")}
    head = f'<ir_version: 9, opset_import: ["": {opset}, "com.microsoft": 1]> g '
    model = parse_model(head + FUSED[name])
    used = {operand for node in model.graph.node for operand in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array, n) for n, array in constants.items() if n in used
    )
    return model


@pytest.mark.parametrize(("name", "opset"), covering(FUSED, [11, 17]))
def test_what_onnxruntime_fused_is_native(name: str, opset: int) -> None:
    """Each kernel and the whole model are compared with onnxruntime."""
    cost = [lambda kernel: 1e-6]

    compiled = collage.compile(fused(name, opset), ["native"], cost=cost, race_seconds=0.01)

    assert {kernel.target for kernel in compiled.plan.kernels} == {"tvm"}


def test_parts_of_a_node_have_its_name_and_come_from_it() -> None:
    graph = collage.from_onnx(fused("norm", 17))

    assert [node.name for node in graph.nodes if node.is_call] == ["y.0.add", "s", "y"]
    assert [each.op for each in graph.onnx["y.0.add"]] == ["SkipLayerNormalization"]


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
@pytest.mark.parametrize("dtype", ["float", "float16"])
@pytest.mark.parametrize(
    ("node", "op"),
    [
        ("GroupNormalization <num_groups = 2>", "nn.group_norm"),
        ("InstanceNormalization", "nn.instance_norm"),
    ],
)
def test_norms_of_groups_are_one_operator(node: str, op: str, dtype: str, target: str) -> None:
    """onnxruntime could not take TVM's three, of which one has no scale; nor need it take eight."""
    model = parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]> g ({dtype}[2,4,5,5] x, {dtype}[4] s)
        => ({dtype}[2,4,5,5] y) {{ y = {node} (x, s, s) }}"""
    )

    collage.compile(model, [target], cost=[lambda kernel: 1e-6], race_seconds=0.01)

    ops = [node.op for node in collage.from_onnx(model).nodes if node.is_call]
    assert [each for each in ops if each != "astype"] == [op]


@pytest.mark.parametrize("opset", [12, 17])
def test_a_norm_of_doubles_has_a_native_kernel(opset: int) -> None:
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": {opset}]> g (double[2,3,4] x, double[4] s)
        => (double[2,3,4] y) {{ y = LayerNormalization (x, s, s) }}"""
    )

    compiled = collage.compile(model, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.01)

    assert [kernel.nodes for kernel in compiled.plan.kernels] == [{"y"}]


ATTENTION = {
    "standard": """(float[2,4,5,8] q, float[2,2,6,8] k, float[2,2,6,8] v, bool[5,6] m)
      => (float[2,4,5,8] y) { y = Attention (q, k, v, m) }""",
    "standard, one count": """(float[2,4,5,8] q, float[2,4,6,8] k, float[2,4,6,8] v)
      => (float[2,4,5,8] y) { y = Attention <q_num_heads = 4> (q, k, v) }""",
    "standard, in order": """(float[2,5,32] q, float[2,5,16] k, float[2,5,16] v)
      => (float[2,5,32] y) {
      y = Attention <is_causal = 1, q_num_heads = 4, kv_num_heads = 2, scale = 0.5> (q, k, v)
    }""",
    "free sizes": """(float[b,n,32] q, float[b,m,32] k, float[b,m,32] v) => (float[b,n,32] y) {
      y = Attention <q_num_heads = 4, kv_num_heads = 4> (q, k, v)
    }""",
    "several heads": """(float[2,4,8] q, float[2,6,8] k, float[2,6,8] v, int32[2,6] m)
      => (float[2,4,8] y) {
      y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, bias, m)
    }""",
    "past": """(float[b,1,8] q, float[b,1,8] k, float[b,1,8] v, float[b,2,p,4] r, float[b,2,p,4] s)
      => (float[b,1,8] y, float[b,2,t,4] a, float[b,2,t,4] c) {
      y, a, c = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v, , , , r, s)
    }""",
    "rotation": """(float[b,2,n,8] x, int64[b,n] p) => (float[b,2,n,8] y) {
      y = com.microsoft.RotaryEmbedding (x, p, table, table)
    }""",
    "rotation of pairs": """(float[2,4,16] x, int64[2,4] p) => (float[2,4,16] y) {
      y = com.microsoft.RotaryEmbedding <interleaved = 1> (x, p, table, table)
    }""",
    "rotation of a part": """(float[2,4,20] x, int64[2,4] p) => (float[2,4,20] y) {
      y = com.microsoft.RotaryEmbedding <num_heads = 2, rotary_embedding_dim = 8>
        (x, p, table, table)
    }""",
    "standard rotation": """(float[2,4,16] x, int64[2,4] p) => (float[2,4,16] y) {
      y = RotaryEmbedding <num_heads = 2> (x, table, table, p)
    }""",
}


def attending(name: str) -> onnx.ModelProto:
    generator = np.random.default_rng(0)
    model = parse_model(
        f'<ir_version: 11, opset_import: ["": 23, "com.microsoft": 1]> g {ATTENTION[name]}'
    )
    constants = {"bias": generator.normal(size=24), "table": generator.normal(size=(9, 4))}
    used = {operand for node in model.graph.node for operand in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(array.astype(np.float32), n)
        for n, array in constants.items()
        if n in used
    )
    return model


@pytest.mark.parametrize("name", sample(2, ATTENTION))
def test_attention_in_one_node_is_native(name: str) -> None:
    cost = [lambda kernel: 1e-6]

    compiled = collage.compile(attending(name), ["native"], cost=cost, race_seconds=0.01)

    assert {kernel.target for kernel in compiled.plan.kernels} == {"tvm"}


def test_a_row_of_which_a_mask_leaves_nothing_is_zero() -> None:
    compiled = collage.compile(
        attending("standard"), ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.1
    )
    generator = np.random.default_rng(0)
    shapes = {"q": (2, 4, 5, 8), "k": (2, 2, 6, 8), "v": (2, 2, 6, 8)}
    inputs = {n: generator.normal(size=shape).astype(np.float32) for n, shape in shapes.items()}
    inputs["m"] = np.tri(5, 6, -1, bool)

    found = compiled.run(inputs)["y"]

    assert (found[:, :, 0] == 0).all()
    np.testing.assert_allclose(
        found, runner(attending("standard"))(inputs)["y"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("past", [5, "past"])
def test_attention_of_groups_adds_to_its_past(past: int | str) -> None:
    """Inference of shapes says that the past stays as long as it is."""
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 17, "com.microsoft": 1]>
        g (float[1,1,32] q, float[1,1,16] k, float[1,1,16] v, float[1,2,{past},8] r,
           float[1,2,{past},8] s, int32[1] n, int32 t)
        => (float[1,1,32] y, float[1,2,all,8] a, float[1,2,all,8] b) {{
          o, a, b = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2>
            (q, k, v, r, s, n, t)
          y = Relu (o)
        }}"""
    )
    generator = np.random.default_rng(0)
    shapes = {"q": (1, 1, 32), "k": (1, 1, 16), "v": (1, 1, 16), "r": (1, 2, 5, 8)}
    inputs = {n: generator.normal(size=each).astype(np.float32) for n, each in shapes.items()}
    inputs |= {"s": inputs["r"] + 1, "n": np.array([5], np.int32), "t": np.array(6, np.int32)}

    compiled = collage.compile(
        model,
        ["native", "onnxruntime"],
        cost=[lambda kernel: 1e-6],
        race_seconds=0.1,
        inputs=inputs,
    )

    found = compiled.run(inputs)
    for name, right in runner(model)(inputs).items():
        np.testing.assert_allclose(found[name], right, rtol=1e-4, atol=1e-5)
    assert "nn.relu" in [node.op for node in collage.from_onnx(model).nodes]


@pytest.mark.parametrize(
    ("opset", "mode"), covering([11, 13, 19], ["half_pixel", "tf_crop_and_resize"])
)
def test_scales_without_elements_are_none(mode: str, opset: int) -> None:
    """`Resize` had to have scales before operator set 13."""
    model = parse_model(
        f"""<ir_version: 8, opset_import: ["": {opset}]>
        g (float[1,2,3,4] x) => (float[1,2,5,2] y)
        <float[8] r = {{0, 0, 0.1, 0.2, 1, 1, 0.9, 0.8}}, float[0] e = {{}},
         int64[4] s = {{1, 2, 5, 2}}> {{
          y = Resize <mode = "linear", coordinate_transformation_mode = "{mode}"> (x, r, e, s)
        }}"""
    )
    assert [node.op for node in collage.from_onnx(model).nodes if node.is_call] == [
        "image.resize2d"
    ]
    compiled = collage.compile(model, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.01)
    inputs = {"x": np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)}

    found = compiled.run(inputs)

    np.testing.assert_allclose(found["y"], runner(model)(inputs)["y"], rtol=1e-4, atol=1e-6)


def test_nodes_may_stand_before_those_that_they_need() -> None:
    """quantize_dynamic sorts nodes, and forgets what branches take from outside."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 17]> g (float[3] x, bool c) => (float[3] y) {
          y = If (c) <
            then_branch = p () => (float[3] z) { z = Neg (b) },
            else_branch = q () => (float[3] w) { w = Abs (b) }>
          b = Add (a, a)
          a = Exp (x)
        }"""
    )
    compiled = collage.compile(
        model, ["native", "onnxruntime"], cost=[lambda kernel: 1e-6], race_seconds=0.01
    )
    inputs = {"x": np.arange(3, dtype=np.float32), "c": np.array([True])[0]}

    found = compiled.run(inputs)

    np.testing.assert_allclose(found["y"], -2 * np.exp(inputs["x"]), rtol=1e-5)
    assert [node.output[0] for node in model.graph.node] == ["y", "b", "a"]


@pytest.mark.parametrize(
    ("results", "right"),
    [
        ("(float[2] q, float[2] h)", [[1, 1], [2, 3]]),
        ("(float[2] q, float[2] q)", [[2, 3], [5, 7]]),
        ("(float[2] q, float[2] p)", [[1, 2], [3, 4]]),
    ],
)
def test_a_step_of_a_scan_may_give_a_state_or_what_it_takes(
    results: str, right: list[list[float]]
) -> None:
    """onnxruntime itself writes nothing to such an output."""
    model = parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]>
        g (float[2,2] x, float[2] s) => (float[2] e, float[2,2] y) {{
          e, y = Scan <num_scan_inputs = 1, body = b (float[2] h, float[2] p) => {results} {{
            q = Add (h, p)
          }}> (s, x)
        }}"""
    )
    compiled = collage.compile(model, ["onnxruntime"], cost=[lambda k: 1e-6], race_seconds=0.01)

    found = compiled.run({"x": np.float32([[1, 2], [3, 4]]), "s": np.ones(2, np.float32)})

    assert found["e"].tolist() == [5, 7]
    assert found["y"].tolist() == right


def test_the_node_of_an_output_gets_a_name_that_nothing_has() -> None:
    x, first, second = (
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2]) for name in ("x", "y", "z")
    )
    c = helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [])
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["x"], [f"x/{at}"])],
            op,
            [],
            [x, helper.make_tensor_value_info(f"x/{at}", onnx.TensorProto.FLOAT, [2])],
        )
        for at, op in enumerate(("Abs", "Neg"))
    ]
    then, otherwise = branches
    node = helper.make_node("If", ["c"], ["y", "z"], then_branch=then, else_branch=otherwise)
    graph = helper.make_graph([node], "g", [x, c], [first, second])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    compiled = collage.compile(model, ["onnxruntime"], cost=[lambda k: 1e-6], race_seconds=0.01)

    found = compiled.run({"x": np.float32([-1, 2]), "c": np.array(True)})

    assert [found[name].tolist() for name in ("y", "z")] == [[-1, 2], [1, 2]]
