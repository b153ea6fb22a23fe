"""Patterns of calls of packed functions, which are registered with TVM by name."""

from typing import Any

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.diagnostics import RuleError

SPEC = """
collage 1;
pattern attention(q, k) {
  s = call_dps_packed(q, k) [function == "acme.scores"];
  y = call_pure_packed(nn.relu(s), _) [function in ["acme.softmax", "acme.softmax2"]];
  yield y;
}
target acme on llvm { compiler "acme"; rules composite("acme.attention", dfpattern(attention)); }
"""
NATIVE = "collage 1; target tvm on llvm { rules op_call_by_kind(); fallback; }"


@pytest.fixture
def module() -> Any:
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    type_ = relax.TensorType((4, 4), "float32")
    q, k = relax.Var("q", type_), relax.Var("k", type_)
    with builder.function("main", [q, k]):
        with builder.dataflow():
            e = builder.emit(relax.op.exp(q), "e")
            s = builder.emit(relax.call_dps_packed("acme.scores", (e, k), type_), "s")
            r = builder.emit(relax.op.nn.relu(s), "r")
            axis = tvm.tirx.IntImm("int64", 1)
            y = builder.emit(relax.call_pure_packed("acme.softmax", r, axis, ty_args=[type_]), "y")
            z = builder.emit(relax.call_pure_packed("acme.other", y, axis, ty_args=[type_]), "z")
            result = builder.emit_output(relax.op.negative(z), "result")
        builder.emit_func_output(result)
    return builder.get()


@pytest.mark.engine
def test_calls_are_found_by_the_name_of_the_function(module: Any) -> None:
    graph = collage.from_relax(module)
    written = collage.parse_graph(collage.format_graph(graph))

    for each in (graph, written):
        (found,) = collage.propose(each, collage.load(text=SPEC)["acme"])
        assert found.nodes == {"s", "r", "y"}
    assert [node.attrs for node in written.nodes] == [node.attrs for node in graph.nodes]


@pytest.mark.engine
def test_a_graph_becomes_the_same_calls(module: Any) -> None:
    import tvm

    from collage_dsl.frontend.to_relax import to_relax

    graph = collage.from_relax(module)

    tvm.ir.assert_structural_equal(to_relax(graph)["main"], module["main"])


@pytest.mark.engine
def test_a_library_gets_them_in_its_function_and_tvm_does_not(module: Any) -> None:
    import tvm
    from tvm import relax

    specs = [collage.load(text=SPEC)["acme"], collage.load(text=NATIVE)["tvm"]]
    partition = collage.CollagePartition(specs, cost=lambda candidate: 1.0)
    found = partition(module)

    callees = [
        str(getattr(binding.value.op, "name_hint", getattr(binding.value.op, "name", "")))
        for binding in found["main"].body.blocks[0].bindings
    ]
    first, library, left, last = callees
    assert (first, left, last) == ("tvm_exp", "relax.call_pure_packed", "tvm_negative")
    assert found[library].attrs["Codegen"] == "acme"
    text = found[library].script()
    assert "acme.scores" in text
    assert "acme.softmax" in text
    relax.analysis.well_formed(found)  # raises where it is not
    tvm.ir.assert_structural_equal(partition(found), found)


@pytest.mark.engine
def test_a_module_with_calls_that_no_library_takes_runs(module: Any) -> None:
    import tvm
    from tvm import relax

    @tvm.register_global_func("acme.scores", override=True)
    def scores(q: Any, k: Any, result: Any) -> None:
        result.copyfrom(q.numpy() @ k.numpy())

    @tvm.register_global_func("acme.softmax", override=True)
    def softmax(x: Any, axis: int) -> Any:
        return tvm.runtime.tensor(x.numpy() / x.numpy().sum(axis, keepdims=True))

    @tvm.register_global_func("acme.other", override=True)
    def other(x: Any, axis: int) -> Any:
        return tvm.runtime.tensor(np.flip(x.numpy(), axis).copy())

    spec = collage.load(text=NATIVE)["tvm"]
    target = tvm.target.Target({"kind": "llvm"})
    built = tvm.compile(module, target, relax_pipeline=collage.pipeline([spec]))
    generator = np.random.default_rng(0)
    q, k = (generator.standard_normal((4, 4), np.float32) for _ in range(2))
    machine = relax.VirtualMachine(built, tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(q), tvm.runtime.tensor(k)).numpy()

    kept = np.maximum(np.exp(q) @ k, 0)
    expected = -np.flip(kept / kept.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_what_is_wrong_in_a_graph_is_said() -> None:
    with pytest.raises(RuleError, match="needs a value for `function`"):
        collage.parse_graph("x: f32[4]; y: f32[4] = call_pure_packed(x); return y;")


def test_the_name_of_a_function_has_to_be_text() -> None:
    text = SPEC.replace('== "acme.scores"', "== 3")
    with pytest.raises(RuleError, match="`function` is a string"):
        collage.load(text=text)


@pytest.mark.engine
@pytest.mark.parametrize("specs", [["native"], ["native", "onnxruntime"]])
def test_a_packed_function_of_the_user_writes_its_result_whatever_it_takes(
    specs: list[str],
) -> None:
    """As the functions of TVM's paged cache for attention, which take the cache and numbers."""
    import tvm
    import tvm_ffi
    from tvm import relax

    def scale(_cache: Any, sizes: Any, factor: float, x: Any, result: Any) -> None:
        result.copyfrom(x.numpy() * factor + sizes[1])

    tvm_ffi.register_global_func("test.scale", scale, override=True)
    builder = relax.BlockBuilder()
    type_ = relax.TensorType((4, 4), "float32")
    x, cache = relax.Var("x", type_), relax.Var("cache", relax.ObjectType())
    with builder.function("main", [x, cache]):
        with builder.dataflow():
            a = builder.emit(relax.op.exp(x))
            operands = (cache, relax.ShapeExpr([2, 3]), tvm.tirx.FloatImm("float64", 0.5), a)
            b = builder.emit(relax.call_dps_packed("test.scale", relax.Tuple(operands), type_))
            result = builder.emit_output(relax.op.add(b, a))
        builder.emit_func_output(result)
    values = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)

    passes = collage.pipeline(
        specs, cost=lambda kernel: 1e-6 if kernel.target == specs[-1] else 1e-4
    )
    executable = tvm.compile(builder.get(), tvm.target.Target("llvm"), relax_pipeline=passes)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    actual = main(tvm.runtime.tensor(values), tvm.runtime.ShapeTuple([])).numpy()

    np.testing.assert_allclose(actual, np.exp(values) * 1.5 + 3, rtol=1e-5)
