"""ONNX nodes that have no form in Relax: kept, matched, planned, built, saved and run."""

import subprocess
import sys
from collections.abc import Mapping
from math import nan
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx_kept import kept_node
from collage_dsl.frontend.reference import reference_session
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import Graph, Kind, OpaqueType, TensorType, fingerprint
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.language import check
from collage_dsl.realization.objects import run_session
from collage_dsl.realization.onnx_reference import Reference
from collage_dsl.realization.signature import ExecutableError
from collage_dsl.realization.verification import VerificationError
from collage_dsl.source import Source

Array = np.ndarray[Any, Any]

HEAD = '<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]> g '


def model(text: str, **constants: Array) -> onnx.ModelProto:
    made = onnx.parser.parse_model(HEAD + text)
    made.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in constants.items())
    return made


def f32(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


LSTM = model(
    """(float[10,3,8] x) => (float[10,3,5] o) {
      y, h, c = LSTM <hidden_size = 16, direction = "bidirectional"> (x, W, R)
      t = Transpose <perm = [0, 2, 1, 3]> (y)
      r = Reshape (t, s)
      m = MatMul (r, D)
      o = Relu (m)
    }""",
    W=f32(2, 64, 8),
    R=f32(2, 64, 16),
    D=f32(32, 5),
    s=np.array([10, 3, 32]),
)
FOUND = model(
    """(float[4,5] x) => (float[k] o) {
      a = Relu (x)
      n = NonZero (a)
      t = Transpose <perm = [1, 0]> (n)
      v = GatherND (a, t)
      o = Sqrt (v)
    }"""
)
CUSTOM = model(
    """(float[4,5] x) => (float[4,6] o) {
      a = com.microsoft.CDist <metric = "euclidean"> (x, w)
      o = com.microsoft.Trilu (a)
    }""",
    w=f32(6, 5),
)
SEQUENCES = model(
    """(float[6,5] x) => (float[a,b] o, int64 n) {
      s = SplitToSequence <axis = 0> (x, two)
      e = SequenceAt (s, one)
      o = Relu (e)
      n = SequenceLength (s)
    }""",
    two=np.array(2),
    one=np.array(1),
)
BRANCHES = model(
    """(float[4] x, bool c) => (float[4] o) {
      y = Exp (x)
      i = If (c) <
        then_branch = then () => (float[4] p) { p = Mul (y, two) },
        else_branch = otherwise () => (float[4] q) { q = Neg (x) }
      >
      o = Add (i, y)
    }""",
    two=np.array([2.0], np.float32),
)
LOOP = model(
    """(float[4] x) => (float[4] o, float[k,4] all) {
      o, all = Loop (n, yes, x) <
        body = body (int64 i, bool c, float[4] a) => (bool d, float[4] b, float[4] e) {
          d = Identity (c)
          b = Add (a, x)
          e = Mul (b, b)
        }
      >
    }""",
    n=np.array(3),
    yes=np.array(True),
)
SELF_ATTENTION = model(
    """(float[1,6,8] x) => (float[1,6,8] o) {
      e = Relu (x)
      a = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = 1> (e, e, e)
      o = Tanh (a)
    }"""
)

MODELS = {
    "lstm": LSTM,
    "found": FOUND,
    "custom": CUSTOM,
    "sequences": SEQUENCES,
    "branches": BRANCHES,
    "loop": LOOP,
    "attention": SELF_ATTENTION,
}


def node_of(graph: Graph, op: str) -> Any:
    return next(node for node in graph.nodes if node.op == op)


def drawn(made: onnx.ModelProto, seed: int = 1) -> dict[str, Array]:
    constants = {tensor.name for tensor in made.graph.initializer}
    inputs: dict[str, Array] = {}
    for value in made.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        is_bool = value.type.tensor_type.elem_type == TensorProto.BOOL
        if value.name not in constants:
            inputs[value.name] = np.array(True) if is_bool else f32(*shape, seed=seed)
    return inputs


def assert_right(
    made: onnx.ModelProto, found: Mapping[str, Any], inputs: Mapping[str, Any]
) -> None:
    right = run_session(reference_session(made), inputs)
    assert found.keys() == right.keys()
    for name, expected in right.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-4, atol=1e-5)


def test_an_attribute_that_a_node_lacks_is_none_if_it_has_no_default() -> None:
    asked = "clip in [none, 3], hidden_size != none, activation_alpha == none"
    spec = collage.load(
        text=f"collage 1; pattern p(x, w, r) {{ y = onnx.LSTM(x, w, r) [{asked}]; yield y; }}"
        " target lib on llvm { rules dfpattern(p); limits { max_exits any; } }"
    )["lib"]

    assert len(collage.propose(collage.from_onnx(LSTM), spec)) == 1


# ---- The graph ----


def test_a_node_without_a_form_keeps_its_name_attributes_and_types() -> None:
    graph = collage.from_onnx(LSTM)
    lstm = node_of(graph, "onnx.LSTM")

    assert (lstm.name, lstm.kind) == ("y", Kind.OPAQUE)
    assert lstm.attrs == {
        "hidden_size": 16,
        "direction": "bidirectional",
        "input_forget": 0,
        "layout": 0,
    }
    assert lstm.type == TensorType("float32", (10, 2, 3, 16))
    assert [graph.nodes[i].name for i in lstm.inputs] == ["x", "W", "R"]
    assert [node.op for node in graph.nodes if node.is_call] == [
        *("onnx.LSTM", "permute_dims", "reshape", "matmul", "nn.relu"),
    ]


def test_a_domain_is_part_of_the_name() -> None:
    ops = [node.op for node in collage.from_onnx(CUSTOM).nodes if node.is_call]

    assert ops == ["com.microsoft.CDist", "com.microsoft.Trilu"]


def test_what_follows_a_shape_that_is_found_is_kept_too() -> None:
    graph = collage.from_onnx(FOUND)

    assert [node.op for node in graph.nodes if node.is_call] == [
        *("nn.relu", "onnx.NonZero", "onnx.Transpose", "onnx.GatherND", "onnx.Sqrt"),
    ]
    assert node_of(graph, "onnx.NonZero").type == TensorType("int64", ("?", "?"))


def test_a_value_that_is_no_tensor_has_its_type() -> None:
    graph = collage.from_onnx(SEQUENCES)

    assert node_of(graph, "onnx.SplitToSequence").type == OpaqueType("seq(tensor(float))")


def test_equal_nodes_are_equal_whatever_their_values_are_called() -> None:
    first, second = (
        collage.from_onnx(model(f"(float[3,3] {x}) => (float {y}) {{ {y} = Det ({x}) }}"))
        for x, y in (("x", "y"), ("operand", "result"))
    )

    assert node_of(first, "onnx.Det").value == node_of(second, "onnx.Det").value
    assert fingerprint(first) == fingerprint(second)


def test_the_branch_of_a_constant_condition_is_inlined() -> None:
    made = model(
        """(float[4] x) => (float[4] o) {
          y = Exp (x)
          i = If (c) <
            then_branch = then () => (float[4] y2) { z = Mul (y, y) y2 = Neg (z) },
            else_branch = otherwise () => (float[4] q) { q = Neg (x) }
          >
          z = Relu (i)
          o = Add (z, y)
        }""",
        c=np.array(True),
    )
    graph = collage.from_onnx(made)

    ops = [node.op for node in graph.nodes if node.is_call]
    assert ops == ["exp", "multiply", "negative", "nn.relu", "add"]
    executable = compiled(made)
    assert_right(made, executable.run(drawn(made)), drawn(made))


def test_a_node_that_onnxruntime_refuses_is_an_error_at_the_node() -> None:
    made = model("(float[3,4] x) => (float y) { y = Det (x) }")

    with pytest.raises(
        FrontendError, match="cannot import `y`: operator Det is not supported; onnx"
    ):
        collage.from_onnx(made)


# ---- Modules ----


@pytest.mark.parametrize("name", ["lstm", "found", "loop"])
def test_a_module_survives_saving_and_passes_and_runs_without_kernels(name: str) -> None:
    made = MODELS[name]
    graph = collage.from_onnx(made)
    module = to_relax(graph)
    loaded = tvm.ir.load_json(tvm.ir.save_json(module))

    assert fingerprint(collage.from_relax(loaded)) == fingerprint(graph)
    passes = [
        relax.transform.FoldConstant(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.DeadCodeElimination(),
    ]
    lowered = tvm.transform.Sequential(passes)(loaded)
    executable = tvm.compile(lowered, tvm.target.Target({"kind": "llvm"}))
    inputs = drawn(made)
    results = relax.VirtualMachine(executable, tvm.cpu())["main"](
        *(tvm.runtime.tensor(array) for array in inputs.values())
    )
    single = isinstance(results, tvm.runtime.Tensor)
    values = [results] if single else list(results)
    found = {n: v.numpy() for n, v in zip(graph.output_names, values, strict=True)}
    assert_right(made, found, inputs)


def test_a_node_is_read_from_its_text() -> None:
    lstm = node_of(collage.from_onnx(LSTM), "onnx.LSTM")

    assert OnnxNode.from_text(str(lstm.value)) == lstm.value
    assert kept_node(lstm.value).op == "onnx.LSTM"


# ---- Rules ----

SPEC = """
collage 1;
pattern tagger(x, w: const, r: const) {
  y = onnx.LSTM(x, w, r) [hidden_size == 16, direction == "bidirectional"];
  yield y;
}
pattern fused(x) { y = com.microsoft.Trilu(com.microsoft.CDist(x, _)); yield y; }
pattern attention(q, k, v) { y = com.microsoft.MultiHeadAttention(q, k, v); z = tanh(y); yield z; }
target t on llvm {
  compiler "onnxruntime";
  rules union(
    dfpattern(tagger), dfpattern(fused), dfpattern(attention), op_call_by_kind(opaque)
  );
}
"""


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("lstm", [{"y"}]),
        ("custom", [{"a", "o"}, {"a"}, {"o"}]),
        ("attention", [{"a", "o"}, {"a"}]),
    ],
)
def test_patterns_are_over_onnx_operators(name: str, nodes: list[set[str]]) -> None:
    found = collage.propose(collage.from_onnx(MODELS[name]), collage.load(text=SPEC)["t"])

    assert {each.nodes for each in found} == set(map(frozenset, nodes))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("onnx.LSTMM(x)", "unknown operator `onnx.LSTMM`"),
        ("onnx.Det(x, x)", "`onnx.Det` takes 1 operand, but the pattern gives 2"),
        ("onnx.LSTM(x, x, x) [hiden_size == 3]", "`onnx.LSTM` has no attribute `hiden_size`"),
        ('onnx.LSTM(x, x, x) [hidden_size == "a"]', "hidden_size"),
    ],
)
def test_a_wrong_call_of_an_onnx_operator_is_an_error(call: str, said: str) -> None:
    text = f"collage 1; pattern p(x) {{ y = {call}; yield y; }} rule r = dfpattern(p);"

    with pytest.raises(collage.RuleError, match=said):
        collage.load(text=text)


# ---- Kernels ----


def compiled(made: onnx.ModelProto, **given: Any) -> Any:
    return collage.compile(
        made, targets=["native", "onnxruntime"], cost=[price], race_seconds=0.01, **given
    )


def price(kernel: Any) -> float:
    """Native is cheaper where it can."""
    calls = len(kernel.nodes)
    return (1e-6 if kernel.target == "tvm" else 3e-6 * calls) + 1e-7 * calls


def test_models_are_compiled_verified_saved_and_run_in_a_fresh_process(tmp_path: Path) -> None:
    for name, made in MODELS.items():
        executable = compiled(made)
        inputs = drawn(made)
        assert executable.report.verification.passed, name
        assert_right(made, executable.run(inputs), inputs)
        executable.save(tmp_path / name)
        np.savez(tmp_path / name / "inputs.npz", **inputs)

    code = (
        "import sys, numpy as np, collage_dsl as collage\n"
        "for name in sys.argv[1:]:\n"
        "    inputs = dict(np.load(f'{name}/inputs.npz'))\n"
        "    np.savez(f'{name}/found.npz', **collage.load_executable(name).run(inputs))\n"
    )
    subprocess.run([sys.executable, "-c", code, *MODELS], check=True, cwd=tmp_path)
    for name, made in MODELS.items():
        assert_right(made, dict(np.load(tmp_path / name / "found.npz")), drawn(made))


def test_native_kernels_stand_beside_a_kept_node() -> None:
    targets = {k.target: sorted(k.nodes) for k in compiled(LSTM).plan.kernels}

    assert targets["onnxruntime"] == ["y"]
    assert "tvm" in targets


def test_kernels_are_measured_on_what_the_model_finds(tmp_path: Path) -> None:
    executable = collage.compile(
        FOUND,
        targets=["native", "onnxruntime"],
        store=tmp_path / "costs.sqlite",
        race_seconds=0.01,
    )

    assert executable.plan.cost > 0
    assert_right(FOUND, executable.run(drawn(FOUND)), drawn(FOUND))


def test_sequences_and_texts_go_in_and_come_out() -> None:
    texts = model("(string[3] x) => (string[3] y) { y = StringConcat (x, x) }")
    texts.opset_import[0].version = 20
    lists = model(
        """(seq(float[k]) x, float[2] a) => (seq(float[k]) y, float[m] j) {
          y = SequenceInsert (x, a)
          j = ConcatFromSequence <axis = 0> (y)
        }"""
    )
    words = np.array(["a", "b", "é"], object)
    given = {"x": [f32(2), f32(3)], "a": f32(2)}

    assert list(compiled(texts, inputs={"x": words}).run({"x": words})["y"]) == ["aa", "bb", "éé"]
    found = compiled(lists, inputs=given).run(given)
    assert [each.shape for each in found["y"]] == [(2,), (3,), (2,)]
    np.testing.assert_array_equal(found["j"], np.concatenate([*given["x"], given["a"]]))


def test_inputs_that_cannot_be_drawn_are_asked_for() -> None:
    made = model("(seq(float[2]) x) => (int64 n) { n = SequenceLength (x) }")

    with pytest.raises(VerificationError, match=r"`x`, which is seq.tensor.float..: give"):
        compiled(made)


def test_numbers_of_a_byte_and_less_go_in_and_come_out() -> None:
    def cast(source: int, result: int) -> onnx.ModelProto:
        value = helper.make_tensor_value_info
        node = helper.make_node("Cast", ["x"], ["y"], to=result)
        graph = helper.make_graph([node], "g", [value("x", source, [3])], [value("y", result, [3])])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)

    x = np.array([1, -2, 3], np.float32)
    for element, dtype in (
        (TensorProto.FLOAT8E4M3FN, ml_dtypes.float8_e4m3fn),
        (TensorProto.INT4, ml_dtypes.int4),
    ):
        short = compiled(cast(TensorProto.FLOAT, element), inputs={"x": x}).run({"x": x})["y"]
        assert short.dtype == dtype
        back = compiled(cast(element, TensorProto.FLOAT), inputs={"x": short}).run({"x": short})
        np.testing.assert_array_equal(back["y"], x)


def test_what_is_quantized_to_numbers_of_four_bits_comes_out() -> None:
    scale = numpy_helper.from_array(np.float32(0.5), "s")
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=TensorProto.INT4)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.INT4, [3])],
        [scale],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    x = np.float32([1, -1.2, 9])

    found = compiled(made, inputs={"x": x}).run({"x": x})["y"]

    assert (found == np.array([2, -2, 7], ml_dtypes.int4)).all()


def test_an_input_of_four_bits_may_follow_a_constant_of_four_bits() -> None:
    made = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (int4 zero) => (float[3] y) {
          y = DequantizeLinear (q, s, zero)
        }"""
    )
    q = helper.make_tensor("q", TensorProto.INT4, [3], [1, -2, 7])
    scale = numpy_helper.from_array(np.float32(0.5), "s")
    made.graph.initializer.extend([q, scale])
    inputs = {"zero": np.array(2, ml_dtypes.int4)}

    found = compiled(made, inputs=inputs).run(inputs)["y"]

    np.testing.assert_array_equal(found, np.float32([-0.5, -2, 2.5]))


# ---- Old operator sets ----


@pytest.mark.parametrize("opset", [1, 5, 6])
def test_an_old_model_is_upgraded(opset: int) -> None:
    made = model("(float[2,3] x) => (float[2,3] y) { a = Neg (x) y = Relu (a) }")
    made.opset_import[0].version = opset

    assert [n.op for n in collage.from_onnx(made).nodes if n.is_call] == ["negative", "nn.relu"]
    assert_right(made, compiled(made).run(drawn(made)), drawn(made))


# ---- Free dimensions ----


def test_a_free_dimension_takes_any_size() -> None:
    made = model(
        """(float[n,16] x) => (float[n,32] o) {
          a = MatMul (x, w)
          b = Relu (a)
          o = Softmax (b)
        }""",
        w=f32(16, 32),
    )
    executable = compiled(made)

    for size in (1, 2, 7, 100):
        inputs = {"x": f32(size, 16, seed=size)}
        assert_right(made, executable.run(inputs), inputs)
    with pytest.raises(ExecutableError, match=r"`x` is float32\[2, 15\]"):
        executable.run({"x": f32(2, 15)})


def test_ranges_and_slices_may_depend_on_sizes() -> None:
    positions = f32(1, 10, 4)
    sliced = model(
        """(float[b,n,4] x) => (float[b,n,4] y, int64[n] r) {
          s = Shape <start = 1, end = 2> (x)
          w = Slice (positions, zeros, s, ones, ones)
          y = Add (x, w)
          n = Squeeze (s)
          r = Range (zero, n, one)
        }""",
        positions=positions,
        zeros=np.array([0]),
        ones=np.array([1]),
        zero=np.array(0),
        one=np.array(1),
    )
    graph = collage.from_onnx(sliced)
    assert graph.operators(graph.calls) == ("arange", "take", "add", "arange")
    assert str(graph.nodes[graph.index("x")].type) == "f32[b, n, 4]"

    found = collage.compile(sliced, ["native"], cost=lambda _: 1e-5, race_seconds=0.01)
    for batch, size in ((1, 3), (2, 10)):
        x = f32(batch, size, 4)
        outputs = found.run({"x": x})
        np.testing.assert_array_equal(outputs["y"], x + positions[:, :size])
        np.testing.assert_array_equal(outputs["r"], np.arange(size))
    with pytest.raises(ExecutableError, match=r"index 11 is out of range, .* at the Slice node"):
        found.run({"x": f32(1, 12, 4)})


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("GroupQueryAttention(q, pk, pv, s, t) [num_heads == 4, kv_num_heads == 2]", "q pk pv s t"),
        ("QLinearAdd(a, sa, b, sb, sc)", "a sa b sb sc"),
        ("MoE(x, r, f, g) [k == 2]", "x r f g"),
        ("EmbedLayerNormalization(i, w, p, g, b)", "i w p g b"),
    ],
)
def test_a_pattern_may_leave_out_operands_in_the_middle(call: str, names: str) -> None:
    pattern = f"pattern p({names.replace(' ', ', ')}) {{ y = com.microsoft.{call}; yield y; }}"

    assert check(Source("spec.collage", f"collage 1;\n{pattern}\n")) == ()


def test_an_attention_of_packed_values_matches_a_pattern_of_so_many_operands() -> None:
    graph = collage.from_onnx(
        model(
            "(float[1, 1, 64] q, float[1, 2, 3, 8] pk, float[1, 2, 3, 8] pv, int32[1] s, int32 t)"
            " => (float[1, 1, 32] y) { y = com.microsoft.GroupQueryAttention"
            "<num_heads: int = 4, kv_num_heads: int = 2>(q, , , pk, pv, s, t) }"
        )
    )
    text = """collage 1;
        pattern p(q, pk, pv, s, t) {
          y = com.microsoft.GroupQueryAttention(q, pk, pv, s, t);
          yield y;
        }
        target lib on llvm { compiler "lib"; rules dfpattern(p); }
        """
    found = collage.propose(graph, collage.load(text=text)["lib"])

    assert [set(each.nodes) for each in found] == [{"y"}]


def test_a_node_that_takes_sizes_is_timed_with_those_of_the_model() -> None:
    """Random ones would be refused. Its operator set is older than that of what is written."""
    text = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n,2,3,4] x, float[n,2,h,w] other) => (float[n,2,h,w] y) {
      first = Shape <end = 2> (x)
      last = Shape <start = 2> (other)
      sizes = Concat <axis = 0> (first, last)
      resized = Resize <mode = "linear", coordinate_transformation_mode = "align_corners">
        (x, , , sizes)
      y = Add (resized, other)
    }"""
    options: Any = {"cost": lambda _: 1e-5, "race_seconds": 0.01, "plans": 1}
    x, other = np.ones((2, 2, 3, 4), np.float32), np.ones((2, 2, 5, 6), np.float32)

    compiled = collage.compile(onnx.parser.parse_model(text), ["onnxruntime"], **options)

    assert [kernel.label for kernel in compiled.plan.kernels] == ["shape_to_tensor+onnx.Resize+add"]
    np.testing.assert_allclose(compiled.run({"x": x, "other": other})["y"], x[0, 0, 0, 0] + other)


def timed(made: onnx.ModelProto, folder: Path, inputs: Mapping[str, Array]) -> Any:
    """`made`, compiled by the measured costs of the kernels of onnxruntime."""
    return collage.compile(
        made,
        ["native", "onnxruntime"],
        cost=[lambda kernel: 1e-6 if kernel.target == "tvm" else nan],
        store=folder / "costs.sqlite",
        inputs=inputs,
        race_seconds=0.01,
    )


def test_an_attention_with_a_cache_is_timed_with_the_lengths_of_the_model(tmp_path: Path) -> None:
    """As the tools for language models write it: random lengths would be refused."""
    made = model(
        """(float[b,s,8] x, int64[b,t] mask, float[b,1,p,8] k, float[b,1,p,8] v)
        => (float[b,s,8] y, float[b,1,t,8] k2, float[b,1,t,8] v2) {
          counted = ReduceSum <keepdims = 0> (mask, one)
          less = Sub (counted, one)
          lengths = Cast <to = 6> (less)
          shape = Shape (mask)
          at = Constant <value = int64 {1}> ()
          longest = Gather (shape, at)
          total = Cast <to = 6> (longest)
          q = MatMul (x, w)
          y, k2, v2 = com.microsoft.GroupQueryAttention <num_heads = 1, kv_num_heads = 1>
            (q, x, x, k, v, lengths, total)
        }""",
        one=np.array([1]),
        w=f32(8, 8),
    )
    mask = np.ones((1, 5), np.int64)
    inputs = {"x": f32(1, 2, 8), "mask": mask, "k": f32(1, 1, 3, 8), "v": f32(1, 1, 3, 8)}

    assert_right(made, timed(made, tmp_path, inputs).run(inputs), inputs)


def test_kernels_are_timed_at_the_sizes_of_given_inputs(tmp_path: Path) -> None:
    """What the model finds in them, here places up to 6, fits into tensors of these sizes only."""
    made = model(
        """(float[n,4] x) => (float[n,4] y) {
          zero = Constant <value_float = 0.0> ()
          is_more = Greater (x, zero)
          places = NonZero (is_more)
          rows = Slice (places, zeroth, one, zeroth)
          flat = Reshape (rows, any)
          chosen = Gather (x, flat)
          product = MatMul (chosen, w)
          at = Unsqueeze (flat, one)
          none = Sub (x, x)
          y = ScatterND <reduction = "add"> (none, at, product)
        }""",
        any=np.array([-1]),
        one=np.array([1]),
        zeroth=np.array([0]),
        w=f32(4, 4),
    )
    made.opset_import[0].version = 18
    inputs = {"x": f32(7, 4)}

    assert_right(made, timed(made, tmp_path, inputs).run(inputs), inputs)


@pytest.mark.parametrize(
    ("opset", "outside"),
    [
        (16, 'Pad <mode = "reflect"> (x, p)'),  # means the same in the set 16
        (14, "ReduceMax <axes = [1], keepdims = 1> (x)"),  # takes its axes from the set 18 on
    ],
)
def test_a_node_with_graphs_is_beside_operators_of_later_sets(opset: int, outside: str) -> None:
    """What Relax computes `outside` is written in a later operator set than that of the `If`."""
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": {opset}]>
    g (float[4,5] x, bool c) => (float[p,q] y) {{
      a = {outside}
      y = If (c) <
        then_branch = t () => (float[p,q] t) {{
          m = ReduceMean <axes = [1], keepdims = 1> (a)
          t = If (c) <
            then_branch = v () => (float[p,q] v) {{ v = ReduceMin <axes = [0]> (m) }},
            else_branch = w () => (float[p,q] w) {{ w = Neg (m) }}>
        }},
        else_branch = e () => (float[p,q] e) {{ e = Relu (a) }}>
    }}""")
    made.graph.initializer.append(numpy_helper.from_array(np.array([0, 1, 0, 1]), "p"))
    graph = collage.from_onnx(made)
    inputs = {"x": f32(4, 5, seed=1), "c": np.array(True)}

    (y,) = Reference(graph).run(list(inputs.values()))

    (right,) = run_session(reference_session(made), inputs).values()
    np.testing.assert_allclose(y, right, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int8"])
def test_quantization_of_onnxruntimes_own_domain_has_a_form_in_relax(dtype: str) -> None:
    quantized = model(
        """(float[3,4] x) => (float[3,4] o) {
          q = com.microsoft.QuantizeLinear (x, s, z)
          r = com.microsoft.DequantizeLinear <axis = 0> (q, v, w)
          o = Relu (r)
        }""",
        s=np.float32(0.001),
        z=np.array(7, dtype),
        v=np.array([0.001, 0.002, 0.003], np.float32),
        w=np.array([0, 1, 2], dtype),
    )

    executable = compiled(quantized)

    calls = [node.op for node in collage.from_onnx(quantized).nodes if node.is_call]
    assert calls == ["quantize", "dequantize", "nn.relu"]
    assert {kernel.target for kernel in executable.plan.kernels} == {"tvm"}
    inputs = drawn(quantized)
    assert_right(quantized, executable.run(inputs), inputs)


def test_short_floats_are_quantized_to_16_bits_as_onnxruntime_does() -> None:
    quantized = model(
        "(float16[4] x) => (int16[4] o) { o = com.microsoft.QuantizeLinear (x, s, z) }",
        s=np.float16(0.001),
        z=np.int16(7),
    )

    assert node_of(collage.from_onnx(quantized), "com.microsoft.QuantizeLinear").is_call


def test_sizes_that_are_formulas_go_through_a_kept_node() -> None:
    """What follows is native. ONNX infers the formula as if it was a name."""
    made = model(
        """(float[n,2,8] x, float[1,20,8] w, float[1,20,5] r) => (float[k,1,m,5] y) {
          h = Concat <axis = 0> (x, x)
          o = LSTM <hidden_size = 5> (h, w, r)
          y = Relu (o)
        }"""
    )
    graph = collage.from_onnx(made)
    compiled = collage.compile(made, ["native", "onnxruntime"], cost=lambda _: 1e-6)
    inputs = {"x": f32(3, 2, 8), "w": f32(1, 20, 8), "r": f32(1, 20, 5)}

    assert {node.op for node in graph.nodes if node.is_call} == {"concat", "onnx.LSTM", "nn.relu"}
    assert graph.nodes[graph.outputs[0]].type == TensorType("float32", ("n * 2", 1, 2, 5))
    np.testing.assert_allclose(
        compiled.run(inputs)["y"],
        reference_session(made).run(None, inputs)[0],
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("attribute", "bins"), [("", 9), ("<onesided=1>", 9), ("<onesided=0>", 16)]
)
def test_what_follows_a_short_time_fourier_transform_is_native(attribute: str, bins: int) -> None:
    made = model(
        f"""(float[2,128,1] x) => (float[2,a,b,2] z) {{
          y = STFT {attribute} (x, step, window)
          z = Mul (y, y)
        }}""",
        step=np.array(8),
        window=np.hanning(16).astype(np.float32),
    )
    graph = collage.from_onnx(made)
    (right,) = reference_session(made).run(None, {"x": f32(2, 128, 1)})

    assert [node.op for node in graph.nodes if node.is_call] == ["onnx.STFT", "multiply"]
    assert right.shape == (2, 15, bins, 2)
    assert graph.nodes[graph.outputs[0]].type == TensorType("float32", right.shape)


def test_texts_of_any_number_are_encoded_beside_numbers() -> None:
    """As pipelines of scikit-learn do. ONNX makes up a name for the number of texts."""
    made = model(
        """(string[a,1] x, float[n,1] y) => (float[b,4] z) {
          zero = Constant <value_ints = [0]> ()
          column = Gather <axis = 1> (x, zero)
          encoded = ai.onnx.ml.OneHotEncoder <cats_strings = ["a", "b", "c"]> (column)
          to = Constant <value_ints = [-1, 3]> ()
          flat = Reshape (encoded, to)
          z = Concat <axis = 1> (flat, y)
        }"""
    )
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    made.graph.input[0].type.tensor_type.shape.dim[0].Clear()
    inputs = {"x": np.array([["a"], ["c"]], object), "y": f32(2, 1)}
    compiled = collage.compile(
        made, ["native", "onnxruntime"], cost=lambda _: 1e-6, inputs=inputs, race_seconds=0.01
    )

    found = compiled.run(inputs)["z"]

    np.testing.assert_array_equal(found, reference_session(made).run(None, inputs)[0])


def test_a_name_that_inference_makes_up_is_not_that_of_an_input() -> None:
    """tf2onnx writes such names into models."""
    made = model(
        """(float[unk__0,3] x, float[m] v) => (float[unk__0,3] z, float[k] y) {
          z = Abs (x)
          u = Unique (v)
          y = Relu (u)
        }"""
    )
    graph = collage.from_onnx(made)

    types = {node.name: node.type for node in graph.nodes}

    assert types["y"] == TensorType("float32", ("?",))
    assert types["z"] == TensorType("float32", ("unk__0", 3))


@pytest.mark.parametrize("attributes", ["ceil_mode = 1", "dilations = [2, 2]", "p = 3"])
def test_lp_pooling_gives_what_onnxruntime_gives(attributes: str) -> None:
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[1,2,8,8] x) => (float[1,2,p,q] y)'
        f"{{ y = LpPool <kernel_shape = [3, 3], strides = [2, 2], {attributes}> (x) }}"
    )
    inputs = {"x": f32(1, 2, 8, 8)}
    (right,) = reference_session(made).run(None, inputs)
    targets = ["native", "onnxruntime"]

    found = collage.compile(made, targets, cost=lambda _: 1e-6, race_seconds=0.01).run(inputs)

    np.testing.assert_allclose(found["y"], right, rtol=1e-5)
