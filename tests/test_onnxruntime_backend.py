"""The backend `onnxruntime`: from a sub-graph to a kernel in a TVM executable."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import tvm
import tvm_ffi
from onnx import TensorProto, helper
from onnx.parser import parse_model
from tvm import relax

import collage_dsl as collage
from collage_dsl.backends.base import Backend, LibraryBackend
from collage_dsl.backends.engines import EngineError, _Kernel, pack, run_onnxruntime, unpack
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.backends.registry import UnknownBackend, backend_names, find_backend
from collage_dsl.backends.runtime.build import addons
from collage_dsl.frontend.from_relax import from_relax
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import Form, Graph, Node, Option, TensorType, TupleType
from collage_dsl.realization.generators import offer_code_generator

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(11)
BACKEND = OnnxRuntime()


def f32(*shape: int) -> Array:
    return RNG.normal(size=shape).astype(np.float32)


def tensor(*shape: int | str, dtype: str = "float32") -> TensorType:
    return TensorType(dtype, shape)


class Nodes:
    """Collects the nodes of a graph."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def input(self, name: str, type_: TensorType) -> int:
        return self.add(Node(name, Form.INPUT, type_))

    def constant(self, name: str, array: Array) -> int:
        type_ = TensorType(str(array.dtype), array.shape)
        return self.add(Node(name, Form.CONSTANT, type_, value=array))

    def call(
        self, name: str, op: str, *inputs: int, type_: TensorType | TupleType, **attrs: Any
    ) -> int:
        return self.add(Node(name, Form.CALL, type_, inputs, op, attrs))

    def part(self, name: str, whole: int, index: int) -> int:
        fields = self.nodes[whole].type
        assert isinstance(fields, TupleType)
        return self.add(Node(name, Form.PROJECTION, fields.fields[index], (whole,), value=index))

    def add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def graph(self, *outputs: int) -> Graph:
        return Graph(self.nodes, outputs)


def run(graph: Graph, *inputs: Array, **options: Option) -> list[Array]:
    """The results of the kernel of `graph`."""
    kernel = BACKEND.codegen(graph, "kernel", options)["kernel"]
    types = [graph.nodes[i].tensor for i in graph.outputs]
    outputs = [tvm.runtime.empty(type_.static_shape, type_.dtype) for type_ in types]
    kernel(*map(tvm.runtime.tensor, inputs), *outputs)
    return [output.numpy() for output in outputs]


def dense(weight: Array, bias: Array) -> Graph:
    """relu(x @ weight + bias)"""
    nodes, result = Nodes(), tensor(8, weight.shape[1])
    x = nodes.input("x", tensor(8, weight.shape[0]))
    w, b = nodes.constant("w", weight), nodes.constant("b", bias)
    product = nodes.call("product", "matmul", x, w, type_=result)
    biased = nodes.call("biased", "add", product, b, type_=result)
    return nodes.graph(nodes.call("y", "nn.relu", biased, type_=result))


# ---- Numbers ----


@pytest.mark.parametrize("num_cores", [1, 2])
def test_a_kernel_gives_what_numpy_gives(num_cores: int) -> None:
    x, w, b = f32(8, 64), f32(64, 96), f32(96)

    (found,) = run(dense(w, b), x, num_cores=num_cores)

    np.testing.assert_allclose(found, np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)


def test_several_results_are_written_in_their_order() -> None:
    nodes, half = Nodes(), tensor(4, 3)
    x = nodes.input("x", tensor(4, 6))
    both = nodes.call("both", "split", x, type_=TupleType((half, half)), axis=1)
    left, right = nodes.part("left", both, 0), nodes.part("right", both, 1)
    total = nodes.call("total", "add", left, right, type_=half)
    value = f32(4, 6)

    found = run(nodes.graph(right, total, left), value)

    first, second = value[:, :3], value[:, 3:]
    for ours, wanted in zip(found, (second, first + second, first), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-6)


def test_constants_that_the_optimizer_folds_give_the_same_numbers() -> None:
    """A batch norm after a convolution: onnxruntime makes one weight of the constants."""
    image, channels = tensor(1, 16, 9, 9), 64
    nodes, result = Nodes(), tensor(1, channels, 9, 9)
    x, weight = f32(1, 16, 9, 9), f32(channels, 16, 1, 1)
    gamma, beta, mean = f32(channels), f32(channels), f32(channels)
    variance = RNG.uniform(0.5, 2, channels).astype(np.float32)
    convolved = nodes.call(
        "convolved",
        "nn.conv2d",
        nodes.input("x", image),
        nodes.constant("weight", weight),
        type_=result,
        strides=(1, 1),
        padding=(0, 0, 0, 0),
        dilation=(1, 1),
        groups=1,
        data_layout="NCHW",
        kernel_layout="OIHW",
    )
    statistics = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    normal = nodes.call(
        "normal",
        "nn.batch_norm",
        convolved,
        *(nodes.constant(name, array) for name, array in statistics.items()),
        type_=TupleType((result, tensor(channels), tensor(channels))),
        axis=1,
        epsilon=1e-3,
        training=False,
    )

    (found,) = run(nodes.graph(nodes.part("y", normal, 0)), x)

    factor = gamma / np.sqrt(variance + 1e-3)
    product = np.einsum("oi,nihw->nohw", weight[:, :, 0, 0], x)
    spread = [array[:, None, None] for array in (mean, factor, beta)]
    wanted = (product - spread[0]) * spread[1] + spread[2]
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)


def test_constants_are_used_where_they_are() -> None:
    table, rows = f32(1000, 256), np.array([3, 999, 0])
    nodes = Nodes()
    indices = nodes.input("indices", tensor(3, dtype="int64"))
    w = nodes.constant("w", table)
    taken = nodes.call("taken", "take", w, indices, type_=tensor(3, 256), axis=0)
    kernel = BACKEND.codegen(nodes.graph(taken), "kernel", {})["kernel"]
    output = tvm.runtime.empty((3, 256), "float32")

    table += 1  # Nobody should; it shows that there is no copy.
    kernel(tvm.runtime.tensor(rows), output)

    np.testing.assert_array_equal(output.numpy(), table[rows])


# ---- Calls ----


def test_a_kernel_follows_its_tensors_from_call_to_call() -> None:
    w, b = f32(16, 4), f32(4)
    kernel = BACKEND.codegen(dense(w, b), "kernel", {})["kernel"]
    kept = []

    for _ in range(100):  # more sets of tensors than stay bound
        x, y = f32(8, 16), tvm.runtime.empty((8, 4), "float32")
        kernel(tvm.runtime.tensor(x), y)
        kept.append((x, y))

    for x, y in kept:
        np.testing.assert_allclose(y.numpy(), np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [["n"], None])
def test_a_kernel_of_any_length_follows_the_length_at_one_address(shape: list[str] | None) -> None:
    value = partial(helper.make_tensor_value_info, elem_type=TensorProto.FLOAT, shape=shape)
    neg = helper.make_node("Neg", ["x"], ["y"])
    graph = helper.make_graph([neg], "kernel", [value("x")], [value("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    kernel = run_onnxruntime("kernel", pack(model.SerializeToString(), {}), {})
    x, y = f32(8), np.zeros(8, np.float32)

    for length in (8, 2, 8, 5):
        y[:] = 0
        kernel(*(tvm_ffi.from_dlpack(array[:length]) for array in (x, y)))

        np.testing.assert_array_equal(y, np.concatenate([-x[:length], np.zeros(8 - length)]))


@pytest.mark.parametrize("offset", [1, 2, 4, 15])
def test_a_kernel_takes_tensors_that_are_aligned_to_their_elements(offset: int) -> None:
    w, b = f32(16, 4), f32(4)
    kernel = BACKEND.codegen(dense(w, b), "kernel", {})["kernel"]
    x, y = f32(offset + 8 * 16)[offset:].reshape(8, 16), f32(offset + 8 * 4)[offset:].reshape(8, 4)

    kernel(tvm_ffi.from_dlpack(x), tvm_ffi.from_dlpack(y))

    np.testing.assert_allclose(y, np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-5)


def test_two_calls_at_once_do_not_share_a_binding() -> None:
    class Session:
        """Calls the kernel on the same tensors again, once, while the first call runs."""

        used: ClassVar[list[object]] = []

        def get_inputs(self) -> list[Any]:
            return [SimpleNamespace(name="x", type="tensor(float)", shape=[8])]

        get_outputs = get_inputs

        def io_binding(self) -> Any:
            return SimpleNamespace(bind_input=lambda *_: None, bind_output=lambda *_: None)

        def run_with_iobinding(self, binding: object) -> None:
            self.used.append(binding)
            if len(self.used) == 1:
                kernel(*tensors)

    tensors = [tvm.runtime.tensor(f32(8)) for _ in range(2)]
    kernel = _Kernel("kernel", Session(), [])

    kernel(*tensors)

    first, second = Session.used
    assert first is not second


def test_threads_may_share_a_kernel() -> None:
    w, b = f32(64, 64), f32(64)
    kernel = BACKEND.codegen(dense(w, b), "kernel", {})["kernel"]

    def call_often(x: Array) -> Array:
        given, y = tvm.runtime.tensor(x), tvm.runtime.empty((8, 64), "float32")
        for _ in range(200):
            kernel(given, y)
        return y.numpy()  # type: ignore[no-any-return]

    inputs = [f32(8, 64) for _ in range(8)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(call_often, inputs))

    for x, y in zip(inputs, found, strict=True):
        np.testing.assert_allclose(y, np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)


def test_a_wrong_shape_is_an_error_that_names_the_kernel() -> None:
    kernel = BACKEND.codegen(dense(f32(16, 4), f32(4)), "dense_7", {})["dense_7"]
    y = tvm.runtime.empty((8, 4), "float32")

    with pytest.raises(Exception, match=r"onnxruntime cannot run kernel `dense_7`: .*x"):
        kernel(tvm.runtime.tensor(f32(8, 15)), y)
    with pytest.raises(Exception, match="kernel `dense_7`: 3 tensors given, 2 wanted"):
        kernel(y, y, y)


# ---- In an executable ----


def module_with_kernel(weight: Array, bias: Array) -> tvm.IRModule:
    """main(x) = exp(kernel(x)), where kernel is relu(x @ weight + bias) of the library."""
    x = relax.Var("x", relax.TensorType((8, weight.shape[0]), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("kernel", [x], attrs={"Codegen": "test", "global_symbol": "kernel"}):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(x, relax.const(weight)))
            biased = builder.emit(relax.op.add(product, relax.const(bias)))
            result = builder.emit_output(relax.op.nn.relu(biased))
        builder.emit_func_output(result)
    kernel = next(iter(builder.get().get_global_vars()))
    outer = relax.Var("x", x.ty)
    with builder.function("main", [outer]):
        with builder.dataflow():
            y = builder.emit(relax.Call(kernel, [outer]))
            result = builder.emit_output(relax.op.exp(y))
        builder.emit_func_output(result)
    return builder.get()


def compiled(weight: Array, bias: Array) -> Any:
    def codegen(functions: list[Any], _options: Any, _names: Any) -> list[Any]:
        graphs = [from_relax(tvm.IRModule({"kernel": each}), "kernel") for each in functions]
        return [BACKEND.codegen(graph, "kernel", {}) for graph in graphs]

    tvm_ffi.register_global_func("relax.ext.test", codegen, override=True)
    module = relax.transform.RunCodegen()(module_with_kernel(weight, bias))
    tvm_ffi.registry.remove_global_func("relax.ext.test")
    return tvm.compile(module, tvm.target.Target({"kind": "llvm"}))


def test_run_codegen_makes_an_executable_of_it() -> None:
    x, w, b = f32(8, 32), f32(32, 16) / 8, f32(16)

    machine = relax.VirtualMachine(compiled(w, b), tvm.cpu())

    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, np.exp(np.maximum(x @ w + b, 0)), rtol=1e-4)


def lowered(weight: Array, bias: Array) -> Any:
    """The same as `compiled`, by the second half of the pipeline."""
    module = module_with_kernel(weight, bias)
    target = tvm.target.Target({"kind": "llvm"})
    return tvm.compile(module, target, relax_pipeline=collage.lowering([RenamedOnnxRuntime()]))


def generated(weight: Array, bias: Array) -> Any:
    """The same, by a code generator of TVM's registry that `CollagePartition` has offered."""
    offer_code_generator(RenamedOnnxRuntime())
    module = relax.transform.RunCodegen()(module_with_kernel(weight, bias))
    return tvm.compile(module, tvm.target.Target({"kind": "llvm"}))


class RenamedOnnxRuntime(OnnxRuntime):
    @property
    def name(self) -> str:
        return "test"


@pytest.mark.parametrize(
    ("make", "added"),
    [
        pytest.param(compiled, addons, id="addons"),
        pytest.param(lowered, list, id="pipeline"),
        pytest.param(lowered, addons, id="pipeline and addons", marks=pytest.mark.slow),
        pytest.param(generated, list, id="code generator"),
    ],
)
def test_an_exported_library_gives_the_same_in_a_process_that_imports_only_tvm(
    make: Callable[[Array, Array], Any], added: Callable[[], list[str]], tmp_path: Path
) -> None:
    x, w, b = f32(8, 1500), f32(1500, 700) / 40, f32(700)  # 4 MB of weights
    make(w, b).export_library(str(tmp_path / "library.so"), addons=added())
    np.save(tmp_path / "x.npy", x)
    script = dedent("""
        import sys
        import numpy as np
        import tvm
        module = tvm.runtime.load_module(f"{sys.argv[1]}/library.so")
        machine = tvm.relax.VirtualMachine(module, tvm.cpu())
        y = machine["main"](tvm.runtime.tensor(np.load(f"{sys.argv[1]}/x.npy")))
        np.save(f"{sys.argv[1]}/y.npy", y.numpy())
        print(sorted({"collage_dsl.language", "lark", "onnx"} & set(sys.modules)))
        """)

    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n", "only what runs the kernel is imported"
    wanted = np.exp(np.maximum(x @ w + b, 0))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4)


# ---- What it says of itself ----


def test_a_graph_without_weights_can_be_supported() -> None:
    graph = dense(f32(16, 40), f32(40))
    bare = [Node(n.name, n.form, n.type, n.inputs, n.op, n.attrs, value=None) for n in graph.nodes]

    assert BACKEND.supports(Graph(bare, graph.outputs)) is None


def unsupported(op: str, type_: TensorType) -> str | None:
    nodes = Nodes()
    x = nodes.input("x", type_)
    return BACKEND.supports(nodes.graph(nodes.call("y", op, x, type_=type_)))


def test_why_a_graph_is_not_supported_is_said() -> None:
    assert unsupported("tan", tensor(4)) is None
    assert unsupported("tan", tensor(4, dtype="float64")) == (
        "onnxruntime has no kernel of Tan for tensor(double)"
    )
    assert unsupported("tan", tensor(4, dtype="float16")) is None
    assert unsupported("nn.relu", tensor("n", 4)) is None
    assert unsupported("nn.relu", tensor("?", 4)) is None
    assert unsupported("nn.relu", TensorType("float32", None)) is None
    assert unsupported("negative", tensor(4, dtype="bfloat16")) is None
    assert unsupported("median", tensor(4)) == (
        "`median` at `y` cannot be written in ONNX: no ONNX operator is known for it"
    )


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "int64", "int8", "bool"])
@pytest.mark.parametrize(
    "op", ["nn.relu", "exp", "erf", "abs", "sign", "negative", "nn.gelu", "nn.softmax", "nn.selu"]
)
def test_what_is_supported_can_be_made(op: str, dtype: str) -> None:
    type_ = tensor(4, dtype=dtype)
    nodes = Nodes()
    x = nodes.input("x", type_)
    graph = nodes.graph(nodes.call("y", op, x, type_=type_))

    module = BACKEND.codegen(graph, "kernel", {})

    if BACKEND.supports(graph) is None:
        module.get_function("kernel")
    else:
        with pytest.raises(Exception, match="onnxruntime cannot make kernel `kernel`"):
            module.get_function("kernel")


def test_floor_mod_of_bfloat16_is_that_of_floats() -> None:
    type_, nodes = tensor(3, dtype="bfloat16"), Nodes()
    operands = [nodes.input(name, type_) for name in "xy"]
    graph = nodes.graph(nodes.call("z", "floor_mod", *operands, type_=type_))
    x, y = (np.array(each).astype("bfloat16") for each in ([3.5, -7, 9], [2, 2, -2]))

    (found,) = run(graph, x, y)

    np.testing.assert_array_equal(found.astype("float32"), [1.5, 1, -1])


def test_only_the_options_of_a_session_are_in_a_payload() -> None:
    model, options = unpack(pack(b"\n{model}\n", {"mcpu": "znver4", "num_cores": 4}, ["w"]))

    assert model == b"\n{model}\n"
    assert options == {"num_cores": 4, "shared": ["w"]}


def test_a_backend_travels_to_another_process() -> None:
    assert pickle.loads(pickle.dumps(BACKEND)) == BACKEND
    assert "onnxruntime 1." in BACKEND.version
    assert BACKEND.binds_constants


# ---- Finding it ----


@dataclass(frozen=True, slots=True)
class Mine(LibraryBackend):
    """A backend of a caller's own."""

    name: str = "mine"
    version: str = "1"

    def supports(self, graph: Graph) -> str | None:
        return None

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        raise NotImplementedError


def test_backends_are_found_by_name_those_given_first() -> None:
    mine: Backend = Mine("onnxruntime")

    assert find_backend("onnxruntime") == BACKEND
    assert find_backend("onnxruntime", [mine]) is mine
    assert {"mine", "onnxruntime", "tvm"} <= set(backend_names([Mine()]))


def test_an_unknown_backend_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UnknownBackend) as caught:
        find_backend("onxruntime", [Mine()])

    assert str(caught.value) == (
        "no backend is named `onxruntime` (did you mean `onnxruntime`?); "
        "known are `mine`, `onnxruntime`, `tvm`, `tvm_gpu`"
    )


@pytest.mark.parametrize("type_", ["float16", "float"])
def test_a_transposed_operand_of_float16_does_not_end_the_process(type_: str) -> None:
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]>
        g ({type_}[4, 2, 5] x, {type_}[5, 3] w) => ({type_}[2, 4, 3] y) {{
          t = Transpose <perm = [1, 0, 2]> (x)
          y = MatMul (t, w)
        }}"""
    )
    made = collage.compile(model, ["onnxruntime"], cost=lambda _: 1e-5, race_seconds=0.01)
    dtype = np.float16 if type_ == "float16" else np.float32
    inputs = {"x": np.ones((4, 2, 5), dtype), "w": np.ones((5, 3), dtype)}

    np.testing.assert_array_equal(made.run(inputs)["y"], np.full((2, 4, 3), 5.0))


def test_a_session_is_tried_with_other_settings_without_a_warning(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(EngineError, match="cannot make kernel `k`"):
        run_onnxruntime("k", pack(b"no model", {}), {})

    assert "already exists" not in capfd.readouterr().err


def test_a_loop_of_a_module_that_was_not_partitioned_does_not_end_the_process() -> None:
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18]>
        g (int64 times, float16[5, 2, 5] x, float16[5, 5] w) => (float16[k, m, n] y)
        <bool go = {1}> {
          y = Loop <body = step (int64 i, bool on, float16[a, b, c] v)
              => (bool further, float16[d, e, f] z) {
            further = Identity (on)
            t = Transpose <perm = [1, 0, 2]> (v)
            p = MatMul (t, w)
            z = Transpose <perm = [1, 0, 2]> (p)
          }> (times, go, x)
        }"""
    )
    module = to_relax(collage.from_onnx(model))
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm"}))
    inputs = [np.array(1), np.ones((5, 2, 5), np.float16), np.ones((5, 5), np.float16)]

    found = relax.VirtualMachine(executable, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs))

    np.testing.assert_array_equal(found.numpy(), np.full((5, 2, 5), 5.0))
