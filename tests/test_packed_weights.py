"""Constants that TVM cannot hold, such as those of four bits, are operands of the ONNX nodes."""

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

import collage_dsl as collage
from collage_dsl.backends.registry import find_backend
from collage_dsl.engine.lock import model_hash
from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.frontend.to_relax import dataflow_of
from collage_dsl.graph import CandidateKernel, Graph, fingerprint
from collage_dsl.graph.onnx_node import OnnxNode
from collage_dsl.graph.types import short_dtype
from collage_dsl.language.loading import patterns
from collage_dsl.realization.kernel import kernel_view
from collage_dsl.report.why import why
from tests.cases import covering

SPEC = """
collage 1;

pattern packed(x, w: const, s: const, z?: const) {
  d = (onnx.DequantizeLinear(w, s) | onnx.DequantizeLinear(w, s, z));
  y = matmul(x, d);
  where dtype(w) == DTYPE and shape(w) == [32, 16] and bytes(w) * 8 == BITS * size(w);
  yield y;
}
target lib on llvm { compiler "onnxruntime"; rules RULES; fallback; }
"""
EVERY = "union(dfpattern(packed), op_call_by_kind(), op_call_by_kind(opaque))"


def spec(dtype: str = "int4", rules: str = EVERY) -> collage.FusionSpec:
    bits = next(bits for bits in (8, 4, 2) if str(bits) in dtype)
    text = SPEC.replace("DTYPE", short_dtype(dtype)).replace("BITS", str(bits))
    return collage.load(text=text.replace("RULES", rules))["lib"]


def made(
    dtype: str = "int4", *, zero: bool = True, layers: int = 1, prefix: str = "", seed: int = 0
) -> onnx.ModelProto:
    """Products of inputs with the same weights, which are dequantized for each anew."""
    generator, number = np.random.default_rng(seed), getattr(ml_dtypes, dtype)
    weights = generator.integers(0 if dtype.startswith("u") else -2, 2, (32, 16)).astype(number)
    scales = generator.uniform(0.1, 0.5, 16).astype(np.float32)
    zeros = np.full(16, 0 if dtype.startswith("float") else 1, np.float32).astype(number)
    arrays = {"w": weights, "s": scales} | ({"z": zeros} if zero else {})
    names = [prefix + name for name in arrays]
    nodes = []
    for layer in range(layers):
        nodes += [
            helper.make_node("DequantizeLinear", names, [f"d{layer}"]),
            helper.make_node("MatMul", [f"x{layer}", f"d{layer}"], [f"y{layer}"]),
        ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value(f"x{layer}", TensorProto.FLOAT, [4, 32]) for layer in range(layers)],
        [value(f"y{layer}", TensorProto.FLOAT, [4, 16]) for layer in range(layers)],
        [numpy_helper.from_array(array, prefix + name) for name, array in arrays.items()],
    )
    opset = 25 if "int2" in dtype else 21
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def size_first(candidate: CandidateKernel) -> float:
    return 1.0 / len(candidate.nodes)


def run_plainly(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return list(onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds))


@pytest.mark.parametrize(
    ("dtype", "zero"),
    covering(["int4", "uint4", "int2", "uint2", "float8_e4m3fn", "float8_e5m2"], [True, False]),
)
def test_a_pattern_matches_the_operands_of_the_schema(dtype: str, zero: bool) -> None:
    model = made(dtype, zero=zero)
    graph = collage.from_onnx(model)
    whole = [each for each in collage.propose(graph, spec(dtype)) if len(each.nodes) == 2]

    (product,) = whole
    assert product.constants == {"w", "s", *("z" for _ in range(zero))}
    weights = graph.nodes[graph.index("w")]
    assert str(weights.type) == f"{short_dtype(dtype)}[32, 16]"
    assert weights.value.dtype == getattr(ml_dtypes, dtype)  # type: ignore[attr-defined]

    x = np.random.default_rng(1).normal(size=(4, 32)).astype(np.float32)
    executable = collage.compile(model, targets=[spec(dtype)], cost=size_first)
    assert [set(each.nodes) for each in executable.plan.kernels] == [{"d0", "y0"}]
    (right,) = run_plainly(model, {"x0": x})
    np.testing.assert_allclose(executable.run({"x0": x})["y0"], right, rtol=1e-5, atol=1e-5)


def test_constants_for_several_nodes_are_one_node_and_one_kernel() -> None:
    graph = collage.from_onnx(made(layers=2))
    plan = collage.choose(graph, collage.propose(graph, spec()), cost=size_first)
    module = collage.realize(plan)

    assert collage.format_graph(graph).count("const i4[32, 16]") == 1
    assert {var.name_hint for var in module.get_global_vars()} == {
        "main",
        "lib_DequantizeLinear_matmul",
    }


def test_a_graph_in_the_text_notation_has_them() -> None:
    text = collage.format_graph(collage.from_onnx(made()))

    assert "d0: f32[32, 16] = onnx.DequantizeLinear(w, s, z);" in text
    again = collage.parse_graph(text)
    assert collage.format_graph(again) == text
    assert any(len(each.nodes) == 2 for each in collage.propose(again, spec()))


def test_a_module_keeps_their_names_and_values_as_text_and_as_json() -> None:
    graph = collage.from_onnx(made())
    module = dataflow_of(graph).module
    by_json = tvm.ir.load_json(tvm.ir.save_json(module))
    by_text = tvm.script.from_source(module.script(show_meta=True))

    for found in (collage.from_relax(by_json), collage.from_relax(by_text)):
        for name in ("w", "z"):
            one, other = (each.nodes[each.index(name)] for each in (graph, found))
            assert one.type == other.type
            assert np.array_equal(one.value, other.value)  # type: ignore[arg-type]
        assert any(len(each.nodes) == 2 for each in collage.propose(found, spec()))


def test_a_pass_makes_the_kernel() -> None:
    module = dataflow_of(collage.from_onnx(made())).module
    found = collage.CollagePartition([spec()], cost=size_first)(module)
    names = {var.name_hint for var in found.get_global_vars()}
    assert names == {"main", "lib_DequantizeLinear_matmul"}


@pytest.mark.parametrize(
    "rules",
    [
        'composite("onnxruntime.packed", dfpattern(packed))',
        'op_predicate("onnxruntime.supports", ops: [onnx.DequantizeLinear, matmul])',
        f"combine_by_primitives({EVERY}, using: [constants, join_anything])",
    ],
)
def test_rules_that_bind_constants_bind_them(rules: str) -> None:
    model = made()
    found = collage.propose(collage.from_onnx(model), spec(rules=rules))
    assert any("w" in each.constants for each in found)

    x = np.random.default_rng(1).normal(size=(4, 32)).astype(np.float32)
    given = collage.compile(model, targets=[spec(rules=rules)], cost=size_first).run({"x0": x})
    (right,) = run_plainly(model, {"x0": x})
    np.testing.assert_allclose(given["y0"], right, rtol=1e-5, atol=1e-5)


def test_a_folder_and_a_lock_have_them(tmp_path: Path) -> None:
    model = made()
    frozen = collage.compile(model, targets=[spec()], cost=size_first)
    frozen.freeze(tmp_path / "lock.json")
    again = collage.compile(model, targets=[spec()], frozen=tmp_path / "lock.json")
    again.save(tmp_path / "saved")
    x = np.random.default_rng(1).normal(size=(4, 32)).astype(np.float32)
    given = collage.load_executable(tmp_path / "saved").run({"x0": x})
    np.testing.assert_array_equal(given["y0"], frozen.run({"x0": x})["y0"])


def test_a_lock_knows_their_values() -> None:
    one, same, other = (collage.from_onnx(made(seed=seed)) for seed in (0, 0, 1))
    assert model_hash(one) == model_hash(same) != model_hash(other)


def kernel(model: onnx.ModelProto) -> Graph:
    """The graph that a backend gets of the product with its weights."""
    candidates = collage.propose(collage.from_onnx(model), spec())
    (whole,) = (each for each in candidates if len(each.nodes) == 2)
    return kernel_view(whole, find_backend("onnxruntime")).graph


def test_a_backend_sees_them() -> None:
    (call,) = (node for node in kernel(made()).nodes if node.op == "onnx.DequantizeLinear")
    operands = [kernel(made()).nodes[index] for index in call.inputs]
    assert [(each.name, str(each.type)) for each in operands] == [
        ("w", "i4[32, 16]"),
        ("s", "f32[16]"),
        ("z", "i4[16]"),
    ]


def test_costs_do_not_depend_on_their_names() -> None:
    one, renamed, other = made(), made(prefix="layer."), made(seed=1)
    assert fingerprint(kernel(one)) == fingerprint(kernel(renamed)) != fingerprint(kernel(other))


def test_one_that_only_a_graph_inside_takes_is_no_operand() -> None:
    """As an operand that is no constant, it would come after those of the schema."""
    value = helper.make_tensor_value_info
    branch = helper.make_graph(
        [helper.make_node("DequantizeLinear", ["w", "s"], ["a"])],
        "then",
        [],
        [value("a", TensorProto.FLOAT, [3])],
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["b"])], "else", [], [value("b", TensorProto.FLOAT, [3])]
    )
    node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=other)
    graph = helper.make_graph(
        [node],
        "g",
        [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [3])],
        [value("y", TensorProto.FLOAT, [3])],
        [
            numpy_helper.from_array(np.array([1, 2, 3]).astype(ml_dtypes.int4), "w"),
            numpy_helper.from_array(np.float32(0.5), "s"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    (call,) = (node for node in collage.from_onnx(model).nodes if node.is_call)
    assert call.op == "onnx.If"
    executable = collage.compile(model, targets=[spec()], cost=size_first)
    found = executable.run({"c": np.array(True), "x": np.ones(3, np.float32)})
    np.testing.assert_array_equal(found["y"], np.array([0.5, 1, 1.5], np.float32))


def test_a_constant_of_texts_is_no_operand() -> None:
    node = helper.make_node("StringConcat", ["x", "t"], ["y"])
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node],
        "g",
        [value("x", TensorProto.STRING, [2])],
        [value("y", TensorProto.STRING, [2])],
        [helper.make_tensor("t", TensorProto.STRING, [1], [b"!"])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    found = collage.from_onnx(model)
    assert [found.nodes[i].name for i in found.nodes[found.index("y")].inputs] == ["x"]

    text = "collage 1; pattern p(x, t: const) { y = onnx.StringConcat(x, t); yield y; }"
    said = str(why(patterns(text=text)["p"], found, at="y"))
    assert "`y` has 1 operand, not 2: " in said
    assert "constants of texts, are not counted" in said


def test_a_module_with_a_constant_of_no_type_is_refused() -> None:
    module = dataflow_of(collage.from_onnx(made())).module
    call = module["main"].body.blocks[0].bindings[0].value
    model = onnx.ModelProto.FromString(OnnxNode.from_text(str(call.args[1].value)).model)
    model.graph.initializer[0].data_type = 99
    broken = OnnxNode(model.SerializeToString())
    text = module.script(show_meta=True).replace(str(call.args[1].value), str(broken))
    with pytest.raises(UnsupportedRelax, match="`d0` has no ONNX node"):
        collage.from_relax(tvm.script.from_source(text))
