"""The example of the original design: MNIST for five toolchains, and every variety of kernel."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx

import collage_dsl as collage
from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.graph import Graph, Option, TensorType, members
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.lower import build, lowering
from tests.models import mnist
from tests.reference import run_onnx

TABLE = collage.CostTable.load(Path(__file__).parent / "original_example_costs.yaml")


def costs(kernel: collage.CandidateKernel) -> Cost:
    """Those of the table. TensorRT has no quick algorithm for the second convolution."""
    seconds = TABLE(kernel)
    if kernel.target != "tensorrt" or isinstance(seconds, Infeasible):
        return seconds
    nodes = (kernel.graph.nodes[index] for index in members(kernel.sub_graph.inside))
    convolved = (kernel.graph.nodes[n.inputs[0]].type for n in nodes if n.op == "nn.conv2d")
    is_slow = any(isinstance(type_, TensorType) and type_.bytes > 4096 for type_ in convolved)
    return seconds + 1e-3 * is_slow


COMPILERS = ("cutlass", "tensorrt")
LIBRARIES = ("cudnn", "cublas")


def module() -> tvm.IRModule:
    """The model as TVM's own importer has it: paddings are calls of compiled functions."""
    found = from_onnx(mnist(), keep_params_in_input=False)
    assert "call_tir" in found.script()
    return found


def targets(kind: str) -> list[Any]:
    """The five targets of the example, as TVM has them."""
    compilers = [{"kind": kind, "feature.compiler": name} for name in COMPILERS]
    return [{"kind": kind}, *compilers, *(linked(kind, name) for name in LIBRARIES)]


def linked(kind: str, library: str) -> Any:
    """`cuda -libs=cudnn`: a native target linked to a library, with the library's patterns."""
    text = f"""
        collage 1;
        import pattern_table "{library}" as table;
        target {library} on {kind}(libs: ["{library}"]) {{ rules table.all; }}
    """
    spec = collage.load(text=text)[library]
    return collage.attach({"kind": kind, "libs": [library]}, spec)


@dataclass(frozen=True)
class Variety:
    """What a kernel shows: its marks, the composites inside, and the operators it calls."""

    marks: str
    composites: tuple[str, ...]
    operators: tuple[str, ...]


NATIVE = "Primitive"


def varieties(module: tvm.IRModule) -> list[Variety]:
    """The kernels that `main` calls, in order."""
    calls = [value for value in bindings_of(module["main"]) if isinstance(value, tvm.ir.Call)]
    kernels = [module[call.op] for call in calls if isinstance(call.op, tvm.ir.GlobalVar)]
    return [variety(kernel) for kernel in kernels]


def variety(kernel: Any) -> Variety:
    bindings = bindings_of(kernel)
    inner = [value for value in bindings if isinstance(value, relax.Function)]
    marks = NATIVE if kernel.attrs.get("Primitive") else str(kernel.attrs["Codegen"])
    return Variety(
        marks,
        tuple(str(function.attrs["Composite"]) for function in inner),
        tuple(op for value in bindings for op in operators_of(value)),
    )


def bindings_of(function: Any) -> list[Any]:
    return [binding.value for block in function.body.blocks for binding in block.bindings]


def operators_of(value: Any) -> list[str]:
    """The operators that a value calls, those of inner functions too."""
    if isinstance(value, relax.Function):
        return [op for each in bindings_of(value) for op in operators_of(each)]
    is_call = isinstance(value, tvm.ir.Call) and isinstance(value.op, tvm.ir.Op)
    return [str(value.op.name).removeprefix("relax.")] if is_call else []


EXPECTED = [
    Variety(NATIVE, (), ("call_tir",)),
    Variety(
        "tensorrt",
        ("tensorrt.nn.conv2d", "tensorrt.add", "tensorrt.nn.relu", "tensorrt.nn.max_pool2d"),
        ("nn.conv2d", "add", "nn.relu", "nn.max_pool2d"),
    ),
    Variety(NATIVE, (), ("call_tir",)),
    Variety(NATIVE, ("cudnn.conv2d.nhwc_ohwi",), ("nn.conv2d",)),
    Variety(NATIVE, (), ("add", "nn.relu")),
    Variety(NATIVE, (), ("nn.max_pool2d",)),
    Variety(NATIVE, (), ("reshape",)),
    Variety("cutlass", ("cutlass.matmul_bias",), ("matmul", "add")),
]
"""
Native, native linked to a library, native fused, a library's pattern with an inner composite, and
the region of a compiler: each variety that the design shows.
"""


def test_the_example_has_each_variety_of_kernel_that_the_design_shows() -> None:
    result = collage.CollagePartition(targets("cuda"), cost=costs)(module())

    relax.analysis.well_formed(result)
    assert varieties(result) == EXPECTED
    kinds = {
        str(f.attrs["target"].kind) for _, f in result.functions_items() if "target" in f.attrs
    }
    assert kinds == {"cuda"}


def test_the_kernel_that_is_linked_says_so_by_its_target() -> None:
    result = collage.CollagePartition(targets("cuda"), cost=costs)(module())
    libs = {
        var.name_hint: tuple(map(str, function.attrs["target"].attrs["libs"]))
        for var, function in result.functions_items()
        if "target" in (function.attrs or {}) and "libs" in function.attrs["target"].attrs
    }

    assert libs == {"cudnn_conv2d": ("cudnn",)}


def test_the_tables_of_the_libraries_are_compilers_too() -> None:
    """As TVM itself has them: each of the four is a `Codegen`."""
    names = (*COMPILERS, *LIBRARIES)
    compilers = [{"kind": "cuda", "feature.compiler": name} for name in names]

    result = collage.CollagePartition([{"kind": "cuda"}, *compilers], cost=costs)(module())

    expected = [
        replace(each, marks="cudnn") if "cudnn.conv2d.nhwc_ohwi" in each.composites else each
        for each in EXPECTED
    ]
    assert varieties(result) == expected


# From the module to an executable.


@dataclass(frozen=True, slots=True)
class StandIn(LibraryBackend):
    """A library that is not installed here: onnxruntime runs its kernels."""

    called: str

    @property
    def name(self) -> str:
        return self.called

    @property
    def version(self) -> str:
        return "1"

    def supports(self, graph: Graph) -> str | None:
        return None

    def codegen(self, graph: Graph, symbol: str, options: dict[str, Option]) -> Any:
        return OnnxRuntime().codegen(graph, symbol, options)


BACKENDS = [StandIn(name) for name in (*COMPILERS, *LIBRARIES)]


def assert_right(executable: Any) -> None:
    """The executable computes what onnxruntime does of the model file."""
    x = np.random.default_rng(5).normal(size=(1, 1, 28, 28)).astype(np.float32)
    main = relax.VirtualMachine(executable, tvm.cpu())["main"]
    (expected,) = run_onnx(mnist(), {"x": x}).values()
    assert relative_error(main(tvm.runtime.tensor(x)).numpy(), expected) < 1e-5


def test_the_example_runs_from_module_to_executable() -> None:
    partition = collage.CollagePartition(targets("llvm"), cost=costs, backends=BACKENDS)
    partitioned = partition(module())
    assert varieties(partitioned) == EXPECTED

    target = tvm.target.Target({"kind": "llvm"})
    executable = tvm.compile(partitioned, target, relax_pipeline=lowering(BACKENDS))
    assert_right(executable)


def test_the_model_file_runs_with_the_same_targets() -> None:
    """Our own importer leaves no padding beside the two halves, which touch."""
    specs = list(map(collage.gather, targets("llvm")))
    graph = collage.from_onnx(mnist())
    found = collage.propose(graph, *specs, backends=BACKENDS)
    plan = collage.choose(graph, found, cost=costs, merge=specs)
    realized = collage.realize(plan, backends=BACKENDS)

    _, region, _, *second_half = EXPECTED
    assert varieties(realized) == [region, *second_half]
    assert_right(build(realized, backends=BACKENDS))
