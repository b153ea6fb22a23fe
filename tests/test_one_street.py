"""What is measured is what runs: the kernels of a result are those that were priced."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

import collage_dsl as collage
from collage_dsl.engine import race
from collage_dsl.frontend.light import light_model
from collage_dsl.measuring.built import kernel_module
from collage_dsl.measuring.task import (
    InTurn,
    InTurnTask,
    KernelTask,
    Overhead,
    OverheadTask,
    Timing,
)
from collage_dsl.measuring.worker import Job, Workers
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.lower import lowering
from collage_dsl.resources import shipped_spec
from tests.cases import slow
from tests.models import small_convolution, transformer_block
from tests.partitioned import LLVM
from tests.partitioned import run as run_plainly
from tests.reference import run_onnx
from tests.workers import answer_jobs

TARGETS = [shipped_spec("native"), shipped_spec("onnxruntime")]
Task = KernelTask | OverheadTask | InTurnTask


class Prices:
    """In place of a worker: keeps the tasks, and gives each kernel a price of its own."""

    def __init__(self) -> None:
        self.tasks: list[KernelTask] = []
        self.random = random.Random(0)

    def run(self, jobs: Iterable[Job[Task, Timing | Overhead | InTurn]]) -> None:
        answer_jobs(jobs, lambda task, _: self.answer(task))

    def answer(self, task: Task) -> Timing | Overhead | InTurn:
        if isinstance(task, OverheadTask):
            return Overhead(launch=1e-6, entry=0.0)
        if isinstance(task, InTurnTask):
            return InTurn(tuple(Timing(self.random.uniform(1e-6, 1e-3)) for _ in task.kernels))
        self.tasks.append(task)
        return Timing(self.random.uniform(1e-6, 1e-3))

    def measured(self) -> list[Any]:
        """The functions of the kernels that were measured."""
        modules = (kernel_module(task, np.random.default_rng(0)) for task in self.tasks)
        return [function for module in modules for function in kernels_in(module)]


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch) -> Iterator[Prices]:
    made = Prices()
    monkeypatch.setattr(Workers, "run", lambda _, jobs: made.run(jobs))
    yield made
    assert made.tasks


def kernels_in(module: tvm.IRModule) -> list[Any]:
    """The functions of kernels, without their names and without the values of weights."""
    functions = (function for _, function in module.functions_items())
    kernels = [f for f in functions if (f.attrs or {}).get("target") is not None]
    # A concatenation in place runs nothing, so it is not measured; tests/test_in_place.py has it.
    running = [f for f in kernels if f.attrs.get("collage_variant") != "in_place"]
    return [_nameless(kernel) for kernel in running]


def _nameless(kernel: Any) -> Any:
    def weightless(constant: Any) -> Any:
        value = constant.value
        if not isinstance(constant.ty, relax.TensorType) or value.numpy().size <= 16:
            return constant
        return relax.const(np.zeros(value.shape, str(value.dtype)))

    plain = kernel.without_attr("global_symbol")
    return tvm_ffi.structural_map(plain, (tvm.ir.GenericConst, weightless))


def assert_measured(module: tvm.IRModule, prices: Prices) -> None:
    """Each kernel in `module` is, up to names, one that was measured."""
    measured: dict[int, list[Any]] = {}
    for function in prices.measured():
        measured.setdefault(tvm_ffi.structural_hash(function), []).append(function)
    kernels = kernels_in(module)
    assert kernels
    for kernel in kernels:
        alike = measured.get(tvm_ffi.structural_hash(kernel), [])
        assert any(tvm_ffi.structural_equal(kernel, each) for each in alike), str(kernel)


class BuiltError(Exception):
    """A module has come to where it would be built."""


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> list[tvm.IRModule]:
    """The modules that `compile` would build."""
    found: list[tvm.IRModule] = []

    def build(module: tvm.IRModule, *_: object, **__: object) -> None:
        found.append(module)
        raise BuiltError

    monkeypatch.setattr(race, "build", build)
    return found


MODELS = {
    "squeezenet": lambda: light_model("squeezenet"),
    "shufflenet": lambda: light_model("shufflenet"),
    "transformer": transformer_block,
}


@pytest.mark.parametrize("model", ["squeezenet", slow("shufflenet"), "transformer"])
def test_compile_builds_the_kernels_that_were_measured(
    model: str, prices: Prices, modules: list[tvm.IRModule], tmp_path: Path
) -> None:
    with pytest.raises(BuiltError):
        collage.compile(MODELS[model](), TARGETS, store=tmp_path / "costs.sqlite")

    assert_measured(modules[0], prices)


@pytest.mark.parametrize("model", ["squeezenet", slow("shufflenet"), "transformer"])
def test_the_pass_makes_the_kernels_that_were_measured(
    model: str, prices: Prices, tmp_path: Path
) -> None:
    module = imported(MODELS[model]())

    result = collage.CollagePartition(TARGETS, store=tmp_path / "costs.sqlite")(module)

    assert_measured(result, prices)


def imported(model: onnx.ModelProto) -> tvm.IRModule:
    """The model as TVM's own importer has it."""
    from tvm.relax.frontend.onnx import from_onnx

    return from_onnx(model, keep_params_in_input=False)


@I.ir_module
class Awkward:
    """A branch, a second function, and calls of a compiled function."""

    @T.prim_func(private=True, s_tir=True)
    def twice(
        x: T.Buffer((T.int64(8), T.int64(8)), "float32"),
        y: T.Buffer((T.int64(8), T.int64(8)), "float32"),
    ):
        T.func_attr({"op_pattern": 0})
        for i, j in T.grid(T.int64(8), T.int64(8)):
            with T.sblock("double"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i, v_j] = x[v_i, v_j] * T.float32(2)

    @R.function
    def helper(x: R.Tensor((8, 8), "float32")) -> R.Tensor((8, 8), "float32"):
        cls = Awkward
        with R.dataflow():
            a = R.matmul(x, x)
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((8, 8), "float32"))
            c = R.nn.relu(b)
            R.output(c)
        return c

    @R.function
    def main(c: R.Tensor((), "bool"), x: R.Tensor((8, 8), "float32")) -> R.Tensor(
        (8, 8), "float32"
    ):
        cls = Awkward
        if c:
            with R.dataflow():
                a = R.exp(x)
                b = R.nn.softmax(a)
                R.output(b)
            r = cls.helper(b)
        else:
            with R.dataflow():
                d = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((8, 8), "float32"))
                e = R.tanh(d)
                R.output(e)
            r = R.abs(e)
        return r


def test_the_pass_makes_the_kernels_that_were_measured_in_a_module_of_any_shape(
    prices: Prices, tmp_path: Path
) -> None:
    result = collage.CollagePartition(TARGETS, store=tmp_path / "costs.sqlite")(Awkward)

    assert_measured(result, prices)


@pytest.mark.parametrize("condition", [True, slow(False)])
def test_the_whole_pipeline_computes_what_the_module_did(condition: bool, tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
    pipeline = collage.pipeline(TARGETS, store=tmp_path / "costs.sqlite")
    executable = tvm.compile(Awkward, LLVM, relax_pipeline=pipeline)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]

    actual = main(tvm.runtime.tensor(np.array(condition)), tvm.runtime.tensor(x)).numpy()

    (expected,) = run_plainly(Awkward, np.array(condition), x)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_the_second_half_is_public_by_itself() -> None:
    x = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)
    partition = collage.CollagePartition(TARGETS, lambda _: 1e-6)
    executable = tvm.compile(partition(Awkward), LLVM, relax_pipeline=lowering())
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]

    actual = main(tvm.runtime.tensor(np.array(True)), tvm.runtime.tensor(x)).numpy()

    (expected,) = run_plainly(Awkward, np.array(True), x)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


# Code generators of libraries.


GENERATOR = "relax.ext.onnxruntime"


def library_chain() -> Any:
    text = 'collage 1; target ort on llvm { compiler "onnxruntime"; rules op_call_by_kind(); }'
    return collage.load(text=text)["ort"]


def relu_module() -> tvm.IRModule:
    x = relax.Var("x", relax.TensorType((8, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            y = builder.emit_output(relax.op.nn.relu(x))
        builder.emit_func_output(y)
    return builder.get()


@pytest.fixture
def no_generator() -> Iterator[None]:
    """TVM without a code generator for onnxruntime, and as it was afterwards."""
    before = tvm_ffi.get_global_func(GENERATOR, allow_missing=True)
    if before is not None:
        tvm_ffi.registry.remove_global_func(GENERATOR)
    yield
    if tvm_ffi.get_global_func(GENERATOR, allow_missing=True) is not None:
        tvm_ffi.registry.remove_global_func(GENERATOR)
    if before is not None:
        tvm_ffi.register_global_func(GENERATOR, before)


@pytest.mark.usefixtures("no_generator")
def test_building_leaves_the_code_generators_of_tvm_as_they_were() -> None:
    module = collage.CollagePartition([library_chain()], lambda _: 1e-6)(relu_module())
    tvm_ffi.registry.remove_global_func(GENERATOR)

    tvm.compile(module, LLVM, relax_pipeline=lowering())
    assert tvm_ffi.get_global_func(GENERATOR, allow_missing=True) is None

    theirs = tvm_ffi.register_global_func(GENERATOR, lambda *_: [], override=True)
    del theirs
    kept = tvm_ffi.get_global_func(GENERATOR)
    tvm.compile(module, LLVM, relax_pipeline=lowering())
    assert tvm_ffi.get_global_func(GENERATOR).same_as(kept)


@pytest.mark.usefixtures("no_generator")
def test_the_pass_does_not_replace_a_code_generator_of_somebody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("collage_dsl.realization.generators._OURS", set())
    tvm_ffi.register_global_func(GENERATOR, lambda *_: [])
    theirs = tvm_ffi.get_global_func(GENERATOR)

    collage.CollagePartition([library_chain()], lambda _: 1e-6)(relu_module())

    assert tvm_ffi.get_global_func(GENERATOR).same_as(theirs)


# In another process.


FRESH = """
import sys
import numpy as np
import tvm
from tvm import relax
import collage_dsl as collage

with open("module.json", encoding="utf-8") as file:
    module = tvm.ir.load_json(file.read())
executable = tvm.compile(module, tvm.target.Target("llvm"), relax_pipeline=collage.lowering())
main = relax.VirtualMachine(executable, tvm.cpu())["main"]
np.save("y.npy", main(tvm.runtime.tensor(np.load("x.npy"))).numpy())
"""


def test_the_module_of_a_plan_is_built_in_a_fresh_process(tmp_path: Path) -> None:
    graph = collage.from_onnx(small_convolution())
    specs = [spec for target in TARGETS for spec in collage.load(target).values()]
    found = collage.propose(graph, *specs)
    costs = {"tvm": 1e-5, "onnxruntime": 1.1e-5}

    def price(candidate: collage.CandidateKernel) -> float:
        """Convolutions are cheaper by the library, all else by TVM."""
        bonus = 0.5 if "conv2d" in candidate.label and candidate.target != "tvm" else 1
        return costs[candidate.target] * bonus * len(candidate.nodes)

    plan = collage.choose(graph, found, cost=price)
    assert {kernel.target for kernel in plan.kernels} == {"tvm", "onnxruntime"}
    x = np.random.default_rng(5).normal(size=(1, 3, 12, 12)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "module.json").write_text(tvm.ir.save_json(collage.realize(plan)), "utf-8")

    done = subprocess.run(
        [sys.executable, "-c", FRESH], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    (expected,) = run_onnx(small_convolution(), {"x": x}).values()
    assert relative_error(np.load(tmp_path / "y.npy"), expected) < 1e-5


def test_the_pipeline_finds_kernels_outside_dataflow_blocks(tmp_path: Path) -> None:
    x = relax.Var("x", relax.TensorType((8, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        y = builder.emit(relax.op.exp(x))
        builder.emit_func_output(builder.emit(relax.op.nn.relu(y)))
    asked: list[str] = []

    def price(candidate: collage.CandidateKernel) -> float:
        asked.append(candidate.label)
        return 1e-6

    pipeline = collage.pipeline([library_chain()], price)
    executable = tvm.compile(builder.get(), LLVM, relax_pipeline=pipeline)
    value = np.random.default_rng(2).normal(size=(8, 8)).astype(np.float32)
    actual = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(value))

    assert asked == ["exp", "nn.relu"]
    np.testing.assert_allclose(actual.numpy(), np.exp(value), rtol=1e-5)
