"""Patterns of calls of functions that TVM has compiled: by their names and their kinds."""

from typing import Any

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.diagnostics import RuleError

SPEC = """
collage 1;
pattern product(x, w) { y = call_tir(x, w) [function == "matmul"]; yield y; }
pattern epilogue(x, w) {
  s = call_tir(x, w) [op_pattern == "anchor"];
  y = call_tir(s) [op_pattern == "elementwise"];
  yield y;
}
pattern other(x) { y = call_tir(x) [function == "softmax"]; yield y; }
target t on llvm { rules union(dfpattern(product), dfpattern(epilogue), dfpattern(other)); }
"""


@pytest.fixture
def legalized() -> Any:
    import tvm
    from tvm import relax

    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4, 8), "float32"))
    w = relax.Var("w", relax.TensorType((8, 8), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            s = builder.emit(relax.op.matmul(x, w), "s")
            y = builder.emit(relax.op.nn.relu(s), "y")
            result = builder.emit_output(y, "result")
        builder.emit_func_output(result)
    passes = [relax.transform.LegalizeOps(), relax.transform.AnnotateTIROpPattern()]
    return tvm.transform.Sequential(passes)(builder.get())


@pytest.mark.engine
def test_functions_of_a_module_are_found(legalized: Any) -> None:
    graph = collage.from_relax(legalized)

    found = collage.propose(graph, collage.load(text=SPEC)["t"])

    assert {each.nodes for each in found} == {frozenset("s"), frozenset("sy")}
    assert collage.parse_graph(collage.format_graph(graph)).calls == graph.calls
    kinds = [str(node.kind) for node in graph.nodes if node.op == "call_tir"]
    again = collage.parse_graph(collage.format_graph(graph))
    assert [str(n.kind) for n in again.nodes if n.op == "call_tir"] == kinds
    assert kinds[:2] == ["anchor", "elementwise"]


@pytest.mark.engine
def test_the_pass_puts_them_into_one_kernel(legalized: Any) -> None:
    import tvm
    from tvm import relax

    spec = collage.load(text=SPEC)["t"]
    module = collage.CollagePartition([spec], cost=lambda candidate: 1.0)(legalized)

    kernels = [
        function
        for function in module.functions.values()
        if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {})
    ]
    assert len(kernels) == 1
    generator = np.random.default_rng(0)
    x, w = (generator.standard_normal(shape, np.float32) for shape in ((4, 8), (8, 8)))
    built = tvm.compile(
        module, tvm.target.Target({"kind": "llvm"}), relax_pipeline=collage.pipeline([spec])
    )
    machine = relax.VirtualMachine(built, tvm.cpu())
    result = machine["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(w)).numpy()
    np.testing.assert_allclose(result, np.maximum(x @ w, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('y: f32[4] = call_tir(x) [function = "f", op_pattern = "foo"];', "never"),
        ("y: f32[4] = call_tir(x);", "needs a value for `function`"),
        ('y: f32[4] = call_tir(x) [function = "f", op_patern = "opaque"];', "did you mean"),
    ],
)
def test_what_is_wrong_in_a_graph_is_said(text: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        collage.parse_graph(f"x: f32[4]; {text} return y;")
