"""Native kernels linked to a library: the target's option `libs`, and composites inside."""
# TVMScript has the syntax of Python, and other habits.
# ruff: noqa: N805, N812

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from onnx.parser import parse_model
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R

import collage_dsl as collage
from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import installed
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import host_target
from collage_dsl.cost import CostStore, Infeasible
from collage_dsl.graph import CandidateKernel, Composite, Form, Graph, SubGraph, Toolchain, members
from collage_dsl.language import parse_graph
from collage_dsl.measuring.built import kernel_module
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.key import context_of
from collage_dsl.measuring.overheads import MeasuringError
from collage_dsl.measuring.task import kernel_task
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.kernel import makers
from collage_dsl.realization.lower import build, lower
from collage_dsl.realization.onnx_reference import Reference
from collage_dsl.realization.partition import realize
from collage_dsl.realization.variants import pinned
from tests.faulty_backends import Faulty, Lacking, Refusing
from tests.models import small_convolution


@dataclass(frozen=True, slots=True)
class Unfit(Faulty):
    """A library that says of every kernel that it cannot run it."""

    @property
    def name(self) -> str:
        return "acme"

    def supports(self, graph: Graph) -> str | None:
        return "it knows no convolution" if "nn.conv2d" in graph.operators(graph.calls) else None


LIBS: Any = ("onnxruntime",)
LINKED = Toolchain("native", options={"libs": LIBS})
BACKEND_OF = installed()
LABEL = "onnxruntime.part"

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """A graph, the nodes of one kernel of it, and those of the composites inside."""

    text: str
    inside: str
    composites: tuple[str, ...]

    @property
    def graph(self) -> Graph:
        return with_weights(parse_graph(self.text, name="main"))

    def kernels(
        self, graph: Graph, toolchain: Toolchain = LINKED, label: str = LABEL
    ) -> list[CandidateKernel]:
        """The kernel, and one for each other call."""
        inside = graph.set_of(*self.inside.split())
        parts = [graph.set_of(*names.split()) for names in self.composites]
        composites = tuple(Composite(label, part, _constants(graph, part)) for part in parts)
        rest = [SubGraph(1 << index) for index in members(graph.calls & ~inside)]
        chosen = [SubGraph(inside, 0, composites), *rest]
        chosen.sort(key=lambda sub_graph: sub_graph.inside.bit_length())
        return [CandidateKernel(graph, each, toolchain) for each in chosen]


def with_weights(graph: Graph) -> Graph:
    """`graph` with random values for its constants."""
    generator = np.random.default_rng(3)
    nodes = [
        replace(node, value=generator.normal(size=node.tensor.static_shape).astype("float32"))
        if node.form is Form.CONSTANT
        else node
        for node in graph.nodes
    ]
    return Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)


def _constants(graph: Graph, inside: int) -> int:
    return graph.input(inside) & graph.constants


CHAIN = """
    x: f32[4,8]; w = const f32[8,8]; v = const f32[8,6]; b = const f32[6];
    e = tanh(x); m = matmul(e, w); r = nn.relu(m); n = matmul(r, v); a = add(n, b); y = exp(a);
    return y;
"""
TWO_RESULTS = """
    x: f32[4,8]; w = const f32[8,8];
    m = matmul(x, w); r = tanh(m); s = multiply(r, m); y = exp(s);
    return y;
"""
CASES = {
    "all of it": Case(CHAIN, "m", ("m",)),
    "at the beginning": Case(CHAIN, "m r", ("m",)),
    "at the end": Case(CHAIN, "e m", ("m",)),
    "in the middle": Case(CHAIN, "e m r", ("m",)),
    "two": Case(CHAIN, "e m r n a y", ("m", "n a")),
    "two in a row": Case(CHAIN, "e m r n a", ("m r", "n a")),
    "several results": Case(TWO_RESULTS, "m r s", ("m r",)),
    "several results of all of it": Case(TWO_RESULTS, "m r", ("m r",)),
    "a weight of the rest, too": Case(
        """
        x: f32[8,8]; w = const f32[8,8];
        m = matmul(x, w); s = add(m, w); y = nn.relu(s);
        return y;
        """,
        "m s y",
        ("m",),
    ),
    "a tuple": Case(
        """
        x: f32[4,8]; w = const f32[12,8];
        a = exp(x); b = tanh(x); t = (a, b, x); c = concat(t) [axis=0]; s = multiply(c, w);
        y = abs(s);
        return y;
        """,
        "t c s y",
        ("t c s",),
    ),
    "no constant inside": Case(
        "x: f32[4,8]; u: f32[8,8]; m = matmul(x, u); y = nn.relu(m); return y;", "m y", ("m",)
    ),
    "pure TVM": Case(CHAIN, "m r", ()),
}


def results(graph: Graph, executable: Any) -> list[Array]:
    arguments = inputs(graph)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    found = main(*map(tvm.runtime.tensor, arguments.values()))
    return [each.numpy() for each in (found if graph.returns_tuple else [found])]


def inputs(graph: Graph) -> dict[str, Array]:
    generator = np.random.default_rng(4)
    nodes = [graph.nodes[index] for index in members(graph.parameters)]
    return {n.name: generator.normal(size=n.tensor.static_shape).astype("float32") for n in nodes}


def expected(graph: Graph) -> list[Array]:
    return Reference(graph).run(list(inputs(graph).values()))


def assert_right(graph: Graph, executable: Any) -> None:
    for actual, wanted in zip(results(graph, executable), expected(graph), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


def library_calls(module: tvm.IRModule) -> Sequence[str]:
    """The external functions that the functions of a lowered module call."""
    found: list[str] = []

    def visit(expr: Any) -> None:
        if isinstance(expr, relax.ExternFunc):
            found.append(str(expr.global_symbol))

    for _, function in module.functions_items():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function.body, visit)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_library_runs_each_composite_and_the_result_is_right(case: str) -> None:
    chosen = CASES[case]
    graph = chosen.graph
    module = realize(graph, chosen.kernels(graph), BACKEND_OF)

    relax.analysis.well_formed(module)
    assert len(library_calls(lower(module, host_target()))) == len(chosen.composites)
    assert_right(graph, build(module))


def inner_labels(module: tvm.IRModule) -> list[str]:
    """The labels of the inner functions of primitive kernels."""
    functions = [f for _, f in module.functions_items() if (f.attrs or {}).get("Primitive")]
    bindings = [b for each in functions for block in each.body.blocks for b in block.bindings]
    inner = [b.value for b in bindings if isinstance(b.value, relax.Function)]
    return [str(each.attrs["Composite"]) for each in inner]


@pytest.mark.parametrize(
    ("libs", "label", "kept"),
    [
        ("onnxruntime", "onnxruntime.part", True),
        (["blas", "onnxruntime"], "onnxruntime.part", True),
        (("onnxruntime",), "onnx.part", False),
        (("blas",), "onnxruntime.part", False),
        ((), "onnxruntime.part", False),
    ],
)
def test_a_composite_is_kept_where_the_target_names_its_library(
    libs: Any, label: str, kept: bool
) -> None:
    case = CASES["in the middle"]
    graph = case.graph
    kernels = case.kernels(graph, Toolchain("native", options={"libs": libs}), label)

    module = realize(graph, kernels, BACKEND_OF)

    assert inner_labels(module) == ([label] if kept else [])
    assert_right(graph, build(module))


def test_a_composite_of_a_target_without_libraries_is_not_kept() -> None:
    case = CASES["in the middle"]
    graph = case.graph

    assert not inner_labels(realize(graph, case.kernels(graph, Toolchain("native")), BACKEND_OF))


def test_a_linked_kernel_runs_for_any_batch() -> None:
    case = Case(CHAIN.replace("[4,8]", "[n,8]"), "e m r n a y", ("m", "n a"))
    graph = case.graph
    executable = build(realize(graph, case.kernels(graph), BACKEND_OF))
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]

    for batch in (1, 5):
        static = replace(case, text=CHAIN.replace("[4,8]", f"[{batch},8]")).graph
        (x,), (wanted,) = inputs(static).values(), expected(static)
        np.testing.assert_allclose(
            main(tvm.runtime.tensor(x)).numpy(), wanted, rtol=1e-4, atol=1e-5
        )


def test_what_the_library_does_not_run_is_one_fused_function_for_the_target_of_the_kernel() -> None:
    case = CASES["in the middle"]
    graph = case.graph
    options = {"libs": LIBS, "mcpu": "x86-64"}
    kernels = case.kernels(graph, Toolchain("native", options=options))
    lowered = lower(realize(graph, kernels, BACKEND_OF), host_target())

    assert len(library_calls(lowered)) > 1, "code for another processor is a module of its own"
    assert_right(graph, build(realize(graph, kernels, BACKEND_OF), host_target()))


def test_a_linked_kernel_calls_functions_that_nothing_else_calls() -> None:
    text = """
        x: f32[4,8]; w = const f32[8,8];
        m = matmul(x, w); r = nn.relu(m); n = matmul(r, w); y = nn.relu(n);
        return y;
    """
    graph = Case(text, "m r", ("m",)).graph
    first, *_ = Case(text, "m r", ("m",)).kernels(graph)
    other = Toolchain("other", options={"libs": LIBS, "mcpu": "x86-64"})
    tagged = Composite(LABEL, graph.set_of("n"), _constants(graph, graph.set_of("n")))
    second = CandidateKernel(graph, SubGraph(graph.set_of("n", "y"), 0, (tagged,)), other)
    module = realize(graph, [first, second], BACKEND_OF)

    lowered = lower(module, host_target())

    names = [v.name_hint for v, f in lowered.functions_items() if isinstance(f, tirx.PrimFunc)]
    assert names == ["native_matmul_relu_relu"], "that of the other kernel is a module of its own"
    assert library_calls(lowered).count("other_matmul_relu_relu") == 1
    assert_right(graph, build(module, host_target()))


@I.ir_module
class Helped:
    """A private function, in which there is work to be done."""

    @R.function(private=True)
    def helper(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        with R.dataflow():
            a = R.exp(x)
            b = R.nn.relu(a)
            R.output(b)
        return b

    @R.function
    def main(x: R.Tensor((4, 8), "float32")) -> R.Tensor((4, 8), "float32"):
        cls = Helped
        y = cls.helper(x)
        return R.add(y, x)


def test_kernels_of_a_library_in_a_private_function_are_run_by_the_library() -> None:
    text = 'collage 1; target ort on llvm { compiler "onnxruntime"; rules op_call_by_kind(); }'
    partition = collage.CollagePartition(collage.load(text=text).values(), cost=lambda _: 1e-5)
    module = partition(Helped)
    x = np.random.default_rng(5).normal(size=(4, 8)).astype(np.float32)
    main = relax.VirtualMachine(build(module), tvm.cpu())["main"]

    assert len(library_calls(lower(module, host_target()))) == 2
    np.testing.assert_allclose(
        main(tvm.runtime.tensor(x)).numpy(), np.maximum(np.exp(x), 0) + x, rtol=1e-5
    )


def test_a_library_that_is_missing_is_named_where_the_kernel_is_built() -> None:
    case = CASES["in the middle"]
    graph = case.graph
    kernels = case.kernels(graph, Toolchain("native", options={"libs": "acme"}), "acme.part")
    module = realize(graph, kernels, BACKEND_OF)

    with pytest.raises(BuildError) as caught:
        build(module)

    assert str(caught.value) == (
        "nothing makes kernels of the library `acme`: no backend is named `acme`; known are "
        "`onnxruntime`, `tvm`, `tvm_gpu`"
    )


# Measuring.


def spec(library: str) -> collage.FusionSpec:
    """Convolutions are the library's, alone or with what follows; all else is native."""
    text = f"""
        collage 1;
        pattern conv(x, w: const) {{ y = nn.conv2d(x, w); yield y; }}
        pattern product(x, w) {{ y = matmul(x, w); yield y; }}
        pattern softmax(x) {{ y = nn.softmax(x); yield y; }}
        rule around = op_call_by_kind(elementwise, broadcast, injective, reduce);
        target linked on llvm {{
          rules union(
            combine_by_primitives(
              union(composite("{library}.conv", dfpattern(conv)), around), using: tvm_default
            ),
            dfpattern(product),
            dfpattern(softmax),
          );
        }}
    """
    found = collage.load(text=text)["linked"]
    libs: Any = (library,)
    return replace(found, target=replace(found.target, options={"libs": libs}))


def candidates(library: str) -> list[CandidateKernel]:
    """The linked ones of a small model."""
    found = collage.propose(collage.from_onnx(small_convolution()), spec(library))
    return [candidate for candidate in found if candidate.sub_graph.composites]


def test_linked_kernels_are_measured_built_and_run_when_they_are_loaded(tmp_path: Path) -> None:
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[1,2,4,4] x) => (float[1,2,4,4] y)
        <float[2,2,1,1] w = {1, -2, 3, 4}> { c = Conv (x, w)  y = Relu (c) }"""
    )
    options: Any = {"store": tmp_path / "costs", "race_seconds": 0.01, "plans": 1}
    compiled = collage.compile(model, [spec("onnxruntime")], **options)
    x = np.random.default_rng(5).normal(size=(1, 2, 4, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    compiled.save(tmp_path / "out")
    program = f"""
import numpy as np, tvm
from tvm import relax
library = tvm.runtime.load_module({str(tmp_path / "out" / "model.so")!r})
main = relax.VirtualMachine(library, tvm.cpu())["main"]
y = main(tvm.runtime.tensor(np.load({str(tmp_path / "x.npy")!r})))
np.save({str(tmp_path / "y.npy")!r}, y.numpy())
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert compiled.report.measurements.measured > 0
    assert compiled.report.measurements.infeasible == 0
    assert any(kernel.candidate.sub_graph.composites for kernel in compiled.plan.kernels)
    assert compiled.report.verification is not None
    assert compiled.report.verification.passed
    assert relative_error(np.load(tmp_path / "y.npy"), compiled.run({"x": x})["y"]) < 1e-6


def test_what_is_measured_is_what_is_built() -> None:
    for unpinned in candidates("onnxruntime"):
        backend, *libraries = makers(unpinned, BACKEND_OF)
        candidate = pinned(unpinned, backend)
        task = kernel_task(candidate, backend, {}, libraries=tuple(libraries))
        measured = kernel_module(task, np.random.default_rng(0))["kernel"]
        rest = [
            CandidateKernel(candidate.graph, SubGraph(1 << index), candidate.toolchain)
            for index in members(candidate.graph.calls & ~candidate.sub_graph.inside)
        ]
        module = realize(candidate.graph, [candidate, *rest], BACKEND_OF)
        (built,) = [f for _, f in module.functions_items() if inner_labels(tvm.IRModule({"k": f}))]

        tvm.ir.assert_structural_equal(weightless(built), weightless(measured))
        assert [type(library).__name__ for library in task.libraries] == ["OnnxRuntime"]


def weightless(function: Any) -> Any:
    """`function` with zeros for its weights."""

    def zeros(constant: Any) -> Any:
        return relax.const(np.zeros_like(constant.value.numpy()))

    return tvm_ffi.structural_map(function, (tvm.ir.GenericConst, zeros))


def test_a_library_that_is_missing_makes_its_kernels_infeasible(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs") as store, MeasuredCost(BACKEND_OF, store) as cost:
        prices = {cost(candidate) for candidate in candidates("acme")}

    why = "no backend is named `acme`; known are `onnxruntime`, `tvm`, `tvm_gpu`"
    assert prices == {Infeasible(why)}


@pytest.mark.parametrize(
    ("backend", "why"),
    [
        (
            Refusing(on="nn.conv2d"),
            (
                "`refusing` cannot make kernel `kernel_refusing`: "
                "RuntimeError: this library has no such kernel"
            ),
        ),
        (Unfit(), "acme.conv: it knows no convolution"),
    ],
)
def test_what_the_library_cannot_run_is_infeasible(
    backend: Backend, why: str, tmp_path: Path
) -> None:
    given = installed([backend])
    with CostStore(tmp_path / "costs") as store, MeasuredCost(given, store) as cost:
        price = cost(candidates(backend.name)[0])

    assert isinstance(price, Infeasible)
    assert price.reason == why


def test_a_compiler_that_the_library_lacks_is_the_fault_of_the_machine(tmp_path: Path) -> None:
    given = installed([Lacking()])
    with (
        CostStore(tmp_path / "costs") as store,
        MeasuredCost(given, store) as cost,
        pytest.raises(MeasuringError, match="compiler `missing`: install"),
    ):
        cost(candidates("lacking")[0])


def test_another_version_of_the_library_has_costs_of_its_own() -> None:
    native, toolchain = Tvm(), candidates("refusing")[0].toolchain
    contexts = {
        context_of(toolchain, native),
        context_of(toolchain, native, Refusing()),
        context_of(toolchain, native, Refusing(on="add")),
        context_of(toolchain, native, Lacking()),
    }

    assert len(contexts) == 4
