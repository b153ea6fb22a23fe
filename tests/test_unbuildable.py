"""Kernels that nothing can build: the error says which one, why, and what to do."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import collage_dsl as collage
from tests.partitioned import LLVM

pytestmark = pytest.mark.engine


def kernels_of(module: tvm.IRModule, spec: str) -> tvm.IRModule:
    (given,) = collage.load(text=f"collage 1; {spec}").values()
    graph = collage.from_relax(module)
    plan = collage.choose(graph, collage.propose(graph, given), cost=lambda _: 1e-6)
    return collage.realize(plan)


@I.ir_module
class Outside:
    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            a = R.call_dps_packed("test.scores", (x,), out_ty=R.Tensor((4, 8), "float32"))
            R.output(a)
        return a


@pytest.mark.parametrize(
    ("compiler", "why"),
    [("", "test.scores`, of which TVM has no code"), ('compiler "onnxruntime";', "in ONNX")],
)
def test_a_kernel_that_nothing_can_build_is_an_error_of_ours(compiler: str, why: str) -> None:
    rules = f"target t on llvm {{ rules op_call_by_kind(opaque); {compiler} }}"
    module = kernels_of(Outside, rules)

    with pytest.raises(collage.BuildError, match=why):
        tvm.compile(module, LLVM, relax_pipeline=collage.lowering())


@I.ir_module
class Plain:
    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.tanh(a)
            R.output(b)
        return b


def test_a_kernel_of_a_library_that_tvm_has_compiled_is_an_error_of_ours() -> None:
    partitioned = collage.CollagePartition(["onnxruntime"], cost=lambda _: 1e-6)(Plain)
    module = relax.transform.LegalizeOps()(partitioned)

    with pytest.raises(collage.BuildError, match=r"`tir_exp` in it .* RunCodegen comes before"):
        tvm.compile(module, LLVM, relax_pipeline=collage.lowering())
