"""Calls of a compiled model: what is taken and given without a copy, and by many threads."""

import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import host_target
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, Toolchain
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build, lower
from collage_dsl.realization.ownership import owned_outputs
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import ExecutableError, Signature
from tests.models import small_convolution
from tests.reference import run_onnx

Array = np.ndarray[Any, Any]

SPECS = Path(__file__).parent.parent / "specs"
WEIGHT = np.random.default_rng(1).normal(size=(16, 16)).astype(np.float32)
SHAPE = (4, 16)


def model(nodes: str, outputs: str, shape: tuple[int | str, ...] = SHAPE) -> onnx.ModelProto:
    """A model of two inputs `a` and `b`; a node is written `Add a b y`."""
    made = [
        helper.make_node(op, names[:-1], names[-1:])
        for op, *names in map(str.split, nodes.split(";"))
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "ab"]
    given = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs.split()
    ]
    weights = [
        numpy_helper.from_array(WEIGHT, "w"),
        numpy_helper.from_array(np.array([-1]), "flat"),
    ]
    graph = helper.make_graph(made, "model", inputs, given, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def compiled(given: onnx.ModelProto, spec: str) -> collage.Compiled:
    """`given` compiled with every kernel at one price, which measures none."""
    specs = [SPECS / f"{spec}.collage"]
    return collage.compile(given, specs, cost=lambda candidate: 1e-6, race_seconds=0.01)


@pytest.fixture(scope="module", params=["native", "onnxruntime"])
def executable(request: pytest.FixtureRequest) -> ModelExecutable:
    """y = relu((a + b) @ w), z = -a"""
    nodes = "Add a b s;MatMul s w p;Relu p y;Neg a z"
    return compiled(model(nodes, "y z"), request.param).executable


def arrays(seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=SHAPE).astype(np.float32) for name in "ab"}


def expected(inputs: Mapping[str, Array]) -> dict[str, Array]:
    a, b = inputs["a"], inputs["b"]
    return {"y": np.maximum((a + b) @ WEIGHT, 0), "z": -a}


def assert_right(outputs: Mapping[str, Array], inputs: Mapping[str, Array]) -> None:
    assert list(outputs) == ["y", "z"]
    for name, value in expected(inputs).items():
        np.testing.assert_allclose(outputs[name], value, rtol=1e-4, atol=1e-5)


class Foreign:
    """An array of another library: nothing but DLPack, on a device of the type `kind`."""

    def __init__(self, array: Array, kind: int = 1) -> None:
        self.memory = array
        self.kind = kind

    def __dlpack__(self, **options: Any) -> Any:
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, 0)


class Old(Foreign):
    """An array by the first version of DLPack, which does not say what may be written."""

    def __dlpack__(self, stream: None = None) -> Any:
        return self.memory.__dlpack__()


@pytest.fixture
def seen(executable: ModelExecutable, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    return watched(executable, monkeypatch)


def watched(executable: ModelExecutable, monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The addresses of the inputs that the virtual machine is given, call by call."""
    calls: list[list[int]] = []
    call = executable.call

    def noted(tensors: list[Any]) -> list[Any]:
        calls.append([address(tensor) for tensor in tensors])
        return call(tensors)

    monkeypatch.setattr(executable, "call", noted)
    return calls


def address(tensor: Any) -> int:
    return tensor.ctypes.data if isinstance(tensor, np.ndarray) else tensor.data_ptr()


# ---- Inputs ----


def shifted(array: Array, elements: int) -> Array:
    """The same values, so many elements after a multiple of 64 bytes."""
    memory = np.empty(array.size + 32, array.dtype)
    start = -memory.ctypes.data % 64 // array.itemsize + elements
    return fill(memory[start : start + array.size].reshape(array.shape), array)


def fill(memory: Array, array: Array) -> Array:
    memory[...] = array
    return memory


def read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


AS_THEY_ARE: dict[str, Callable[[Array], Any]] = {
    "aligned": lambda array: shifted(array, 0),
    "as numpy aligns": lambda array: shifted(array, 4),
    "aligned to its elements": lambda array: shifted(array, 1),
    "read-only": read_only,
    "a part of another": lambda array: fill(np.empty((9, *SHAPE), np.float32)[3:7:4][0], array),
    "mapped": lambda array: fill(np.memmap("/dev/zero", np.float32, "c", shape=SHAPE), array),
    "another library": lambda array: Foreign(array),
    "an old library": lambda array: Old(array),
    "tvm": tvm.runtime.tensor,
}
COPIED: dict[str, Callable[[Array], Any]] = {
    "of strides": lambda array: fill(np.empty((4, 32), np.float32)[:, ::2], array),
    "transposed": np.asfortranarray,
    "backwards": lambda array: fill(np.empty(SHAPE, np.float32)[::-1], array),
    "unaligned": lambda array: fill(
        np.empty(257, np.uint8)[1:].view(np.float32).reshape(SHAPE), array
    ),
    "of strides, of another library": lambda array: Foreign(np.asfortranarray(array)),
}


def memory_of(given: Any) -> int:
    return address(given.memory if isinstance(given, Foreign) else given)


@pytest.mark.parametrize("form", AS_THEY_ARE)
def test_a_contiguous_input_is_used_where_it_is(
    executable: ModelExecutable, seen: list[list[int]], form: str
) -> None:
    inputs = arrays()
    given = {name: AS_THEY_ARE[form](array) for name, array in inputs.items()}

    outputs = executable.run(given)

    assert seen == [[memory_of(each) for each in given.values()]]
    assert_right(outputs, inputs)


@pytest.mark.parametrize("form", AS_THEY_ARE)
def test_an_input_of_any_size_is_used_where_it_is(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = compiled(model("Add a b y", "y", ("n", 16)), "native").executable
    calls = watched(executable, monkeypatch)
    inputs = arrays()
    given = {name: AS_THEY_ARE[form](array) for name, array in inputs.items()}

    (output,) = executable.run(given).values()

    assert calls == [[memory_of(each) for each in given.values()]]
    np.testing.assert_array_equal(output, inputs["a"] + inputs["b"])


@pytest.mark.parametrize("form", COPIED)
def test_any_other_input_is_copied_to_the_same_buffers_again(
    executable: ModelExecutable, seen: list[list[int]], form: str
) -> None:
    for seed in range(3):
        inputs = arrays(seed)
        given = {name: COPIED[form](array) for name, array in inputs.items()}

        outputs = executable.run(given)

        assert not {memory_of(each) for each in given.values()} & {*seen[-1]}
        assert_right(outputs, inputs)

    assert seen[0] == seen[1] == seen[2]


def test_inputs_are_neither_written_nor_kept(executable: ModelExecutable) -> None:
    class Tracked(np.ndarray[Any, Any]):
        """Unlike a plain array, it says when it is gone."""

    inputs = arrays()
    given = {name: array.copy().view(Tracked) for name, array in inputs.items()}
    gone = [weakref.ref(array) for array in given.values()]

    executable.run(given)

    for name, array in inputs.items():
        np.testing.assert_array_equal(given[name], array)
    given.clear()
    assert [each() for each in gone] == [None, None]


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
def test_a_call_that_fails_leaves_nothing_behind(spec: str) -> None:
    executable = compiled(model("Add a b y", "y"), spec).executable

    for wrong in (np.ones(SHAPE), [1.0]):
        with pytest.raises(ExecutableError):
            executable.run({"a": np.asfortranarray(arrays()["a"]), "b": wrong})
        np.testing.assert_allclose(executable.run(arrays(1))["y"], sum(arrays(1).values()))


REFUSED: dict[str, tuple[Any, str]] = {
    "list": ([[1.0] * 16] * 4, "input `b` is of type list, which is no array"),
    "tuple": ((1.0,), "input `b` is of type tuple, which is no array"),
    "number": (1.0, "input `b` is of type float, which is no array"),
    "none": (None, "input `b` is of type NoneType, which is no array"),
    "scalar": (np.float32(1), r"input `b` is float32\[\], the model takes float32\[4, 16\]"),
    "dtype": (np.ones(SHAPE), r"input `b` is float64\[4, 16\], the model takes float32"),
    "byte order": (np.ones(SHAPE, ">f4"), r"input `b` is >f4\[4, 16\], the model takes float32"),
    "shape": (np.ones((4, 15), np.float32), r"input `b` is float32\[4, 15\], the model takes"),
    "foreign shape": (Foreign(np.ones(3, np.float32)), r"input `b` is float32\[3\], the model"),
    "device": (Foreign(np.ones(SHAPE, np.float32), kind=2), "input `b` is on a device of DLPack"),
    "objects": (Foreign(np.empty(SHAPE, object)), "input `b` cannot be used: "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_input_that_cannot_be_taken_is_refused(executable: ModelExecutable, case: str) -> None:
    wrong, said = REFUSED[case]

    for call in (executable.run, executable.tensors):
        with pytest.raises(ExecutableError, match=said):
            call({"a": arrays()["a"], "b": wrong})


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ([np.ones(SHAPE, np.float32)] * 2, "inputs are given by name in a dict, not in a list"),
        (np.ones(SHAPE, np.float32), "inputs are given by name in a dict, not in a ndarray"),
        (1, "inputs are given by name in a dict, not in a int"),
        ({"a": np.ones(SHAPE, np.float32)}, "input `b` is missing"),
        ({"a": arrays()["a"], "c": 2}, "the model has no input `c`"),
        ({**arrays(), "c": 1, 2: 3}, "the model has no input `2`"),
    ],
)
def test_inputs_have_the_names_of_the_model(
    executable: ModelExecutable, inputs: Any, said: str
) -> None:
    for call in (executable.run, executable.tensors):
        with pytest.raises(ExecutableError, match=said):
            call(inputs)


# ---- Alignment ----


def test_kernels_of_every_kind_take_any_alignment() -> None:
    x = np.random.default_rng(3).normal(size=(1, 3, 12, 12)).astype(np.float32)
    given = compiled(small_convolution(), "native").executable
    expected = run_onnx(small_convolution(), {"x": x})["y"]

    for elements in (0, 1, 4, 8):
        (y,) = given.run({"x": shifted(x, elements)}).values()
        np.testing.assert_allclose(y, expected, rtol=1e-4)


def test_no_native_function_assumes_more_than_its_elements_need() -> None:
    graph = from_onnx(small_convolution())
    (spec,) = collage.load(SPECS / "native.collage").values()
    plan = collage.choose(graph, collage.propose(graph, spec), cost=lambda _: 1e-6)
    module = lower(realize(graph, plan.candidates, lambda _: Tvm()), host_target())

    functions = [f for _, f in module.functions_items() if isinstance(f, tvm.tirx.PrimFunc)]
    found = {(str(p.dtype), p.data_alignment) for f in functions for p in f.params}

    assert len(functions) > 2
    assert found == {("float32", 4)}


# ---- Outputs ----


def test_an_output_is_the_memory_that_was_computed(executable: ModelExecutable) -> None:
    outputs = executable.run(arrays())

    for array in outputs.values():
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert not array.flags.owndata


def test_an_output_never_changes(executable: ModelExecutable) -> None:
    kept = [executable.run(arrays(seed)) for seed in range(100)]

    for seed, outputs in enumerate(kept):
        assert_right(outputs, arrays(seed))
    del kept[::2]
    later = [executable.run(arrays(200 + seed)) for seed in range(100)]
    for seed, outputs in enumerate(kept):
        assert_right(outputs, arrays(2 * seed + 1))
    for seed, outputs in enumerate(later):
        assert_right(outputs, arrays(200 + seed))


def test_an_output_outlives_its_executable() -> None:
    outputs = compiled(model("Neg a y;Abs b z", "y z"), "native").run(arrays())

    np.testing.assert_array_equal(outputs["y"], -arrays()["a"])


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ("Identity a y;Neg b z", "y z"),
        ("Relu a y;Identity w z", "y z"),
        ("Relu a y;Identity y z", "y z"),
        ("Relu a y;Reshape y flat z", "y z"),
        ("Reshape a flat y;Neg b z", "y z"),
        ("Reshape w flat y;Neg b z", "y z"),
        ("Identity a y;Identity w z", "z y a"),
    ],
)
def test_outputs_are_of_the_caller_alone(nodes: str, outputs: str, spec: str) -> None:
    executable = compiled(model(nodes, outputs), spec).executable
    inputs = arrays()
    before = {name: array.copy() for name, array in executable.run(inputs).items()}

    for _ in range(3):
        results = executable.run(inputs)
        for name, array in results.items():
            np.testing.assert_array_equal(array, before[name])
            array[...] = 7

    for name, array in inputs.items():
        np.testing.assert_array_equal(array, arrays()[name])


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
def test_an_input_that_is_an_output_is_not_kept(spec: str) -> None:
    executable = compiled(model("Identity a y;Neg b z", "y z"), spec).executable
    given = {
        name: array.view(type("Tracked", (np.ndarray,), {})) for name, array in arrays().items()
    }
    gone = [weakref.ref(array) for array in given.values()]

    outputs = executable.run(given)

    given.clear()
    assert [each() for each in gone] == [None, None]
    np.testing.assert_array_equal(outputs["y"], arrays()["a"])


@pytest.mark.parametrize("dtype", ["float16", "float64", "int64", "int8", "uint8", "bool"])
def test_every_dtype_is_exchanged(dtype: str) -> None:
    executable = one_kernel("x: DTYPE[3, 5]; y = squeeze(x); return y;", dtype)
    x = np.random.default_rng(5).integers(0, 2, (3, 5)).astype(dtype)

    (y,) = executable.run({"x": x}).values()

    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x)


def test_a_dtype_that_numpy_does_not_exchange_is_copied() -> None:
    executable = one_kernel("x: DTYPE[4, 8]; y = nn.relu(x); return y;", "bf16")
    x = np.linspace(-1, 1, 32).reshape(4, 8).astype("bfloat16")
    y = np.zeros((4, 8), "bfloat16")

    (found,) = executable.run({"x": x.T.copy().T}).values()
    executable.run({"x": x}, out={"y": y})

    np.testing.assert_array_equal(found, np.maximum(x, 0))
    np.testing.assert_array_equal(y, found)


def one_kernel(text: str, dtype: str) -> ModelExecutable:
    graph = collage.parse_graph(text.replace("DTYPE", dtype))
    graph = Graph(graph.nodes, graph.outputs, name="main")
    whole = CandidateKernel(graph, SubGraph(graph.computed, 0), Toolchain("tvm"))
    executable = build(realize(graph, [whole], lambda _: Tvm()))
    return ModelExecutable(executable, Signature.of(graph))


# ---- Outputs that the caller has memory for ----


@pytest.mark.parametrize(
    "form",
    [
        lambda: np.empty(SHAPE, np.float32),
        lambda: np.empty((4, 32), np.float32)[:, ::2],
        lambda: np.empty(SHAPE, np.float32, order="F"),
        lambda: Foreign(np.empty(SHAPE, np.float32)),
        lambda: tvm.runtime.empty(SHAPE, "float32"),
    ],
    ids=["array", "strides", "fortran", "another library", "tvm"],
)
def test_outputs_are_written_to_what_is_given_for_them(
    executable: ModelExecutable, form: Callable[[], Any]
) -> None:
    inputs, y = arrays(), form()

    outputs = executable.run(inputs, out={"y": y})

    assert outputs["y"] is y
    filled = y.memory if isinstance(y, Foreign) else np.from_dlpack(y)
    assert_right({**outputs, "y": filled}, inputs)


def test_an_input_may_be_the_memory_of_an_output(executable: ModelExecutable) -> None:
    inputs = arrays()

    outputs = executable.run(inputs, out={"z": inputs["a"], "y": inputs["b"]})

    assert_right(outputs, arrays())


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
def test_an_output_that_is_an_input_is_written_before_the_input_is(spec: str) -> None:
    executable = compiled(model("Neg a y;Identity a z", "y z"), spec).executable
    inputs = arrays()

    outputs = executable.run(inputs, out={"y": inputs["a"]})

    np.testing.assert_array_equal(inputs["a"], -arrays()["a"])
    np.testing.assert_array_equal(outputs["z"], arrays()["a"])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"q": np.empty(SHAPE, np.float32)}, "the model has no output `q`"),
        ({"z": np.empty(SHAPE)}, r"output `z` is float32\[4, 16\], the array given .* float64"),
        ({"z": np.empty((16, 4), np.float32)}, r"the array given for it is float32\[16, 4\]"),
        ({"z": read_only(np.empty(SHAPE, np.float32))}, "given for output `z` is read-only"),
        ({"z": Foreign(read_only(np.empty(SHAPE, np.float32)))}, "for output `z` is read-only"),
        ({"z": Old(np.empty(SHAPE, np.float32))}, "for output `z` is read-only"),
        ({"z": Foreign(np.empty(SHAPE, np.float32), kind=2)}, "output `z` in `out` is on a device"),
        ({"z": [0.0]}, "output `z` in `out` is of type list, which is no array"),
        ({"z": np.float32(0)}, "output `z` in `out` is of type float32, which is no"),
    ],
)
def test_nothing_is_written_where_an_output_has_no_place(
    executable: ModelExecutable, wrong: Mapping[str, Any], said: str
) -> None:
    y = np.zeros(SHAPE, np.float32)

    with pytest.raises(ExecutableError, match=said):
        executable.run(arrays(), out={"y": y, **wrong})

    assert not y.any()


def test_outputs_are_given_by_name(executable: ModelExecutable) -> None:
    for wrong in ([np.empty(SHAPE)], np.empty(SHAPE), 1):
        with pytest.raises(ExecutableError, match="`out` is a dict of arrays by"):
            executable.run(arrays(), out=wrong)  # type: ignore[arg-type]


def test_a_compiled_model_takes_out_too() -> None:
    y = np.empty(SHAPE, np.float32)

    compiled(model("Add a b y", "y"), "native").run(arrays(), out={"y": y})

    np.testing.assert_allclose(y, sum(arrays().values()), rtol=1e-6)


# ---- Threads ----


def test_threads_may_call_at_once(executable: ModelExecutable) -> None:
    def call_often(seed: int) -> None:
        inputs = arrays(seed)
        strided = {name: np.asfortranarray(array) for name, array in inputs.items()}
        y = np.empty(SHAPE, np.float32)
        for _ in range(200):
            assert_right(executable.run(inputs), inputs)
            assert_right(executable.run(strided, out={"y": y}), inputs)

    with ThreadPoolExecutor(8) as pool:
        for _ in pool.map(call_often, range(8)):
            pass


# ---- Which outputs are new tensors ----


LISTING = """
@main:
  call  vm.builtin.check_tensor_info in: %0, i2, c[0], c[1] dst: %void
  call  vm.builtin.alloc_storage in: %vm, c[2], i0, c[3], c[4] dst: %1
  call  vm.builtin.alloc_tensor in: %1, i0, c[5], c[0] dst: %2
  call  vm.builtin.null_value in:              dst: %1
  call  vm.builtin.alloc_tensor in: %1, i0, c[5], c[0] dst: %4
  call  tvm_relu         in: %0, %2       dst: %void
  BODY

@other:
  ret   %0
"""


@pytest.mark.parametrize(
    ("body", "owned"),
    [
        ("ret   %2", [True]),
        ("ret   %0", [False]),
        ("ret   %9", [False]),
        ("call  vm.builtin.reshape in: %2, c[1] dst: %3\n  ret   %3", [False]),
        ("call  vm.builtin.null_value in:      dst: %2\n  ret   %2", [False]),
        ("call  other in: %2 dst: %2\n  ret   %2", [False]),
        ("call  vm.builtin.make_tuple in: %2, %4 dst: %3\n  ret   %3", [True, True]),
        ("call  vm.builtin.make_tuple in: %2, %0, c[1] dst: %3\n  ret   %3", [True, False, False]),
        ("call  vm.builtin.make_tuple in: %2, %4, %2 dst: %3\n  ret   %3", [False, True, False]),
        ("call  vm.builtin.make_tuple in: %2, %4 dst: %3\n  ret   %3", [False]),
        ("if    %0, 2\n  ret   %2", [False]),
        ("goto  2\n  ret   %2", [False]),
        ("", [False]),
    ],
)
def test_only_what_is_surely_a_new_tensor_is_owned(body: str, owned: list[bool]) -> None:
    assert owned_outputs(LISTING.replace("BODY", body), len(owned)) == tuple(owned)


def test_a_listing_without_main_owns_nothing() -> None:
    assert owned_outputs("@other:\n  ret   %0\n", 2) == (False, False)


def test_the_outputs_of_a_model_are_found_to_be_new(executable: ModelExecutable) -> None:
    assert owned_outputs(executable.module["as_text"](), 2) == (True, True)


def test_an_array_of_another_size_than_the_output_is_refused() -> None:
    given = model("Add a b y", "y", ("n", 4))
    executable = compiled(given, "native")
    y, x = np.full((3, 4), 7, np.float32), np.ones((1, 4), np.float32)

    with pytest.raises(ExecutableError, match=r"`y` has the shape \[1, 4\] here, .* \[3, 4\]"):
        executable.run({"a": x, "b": x}, out={"y": y})

    assert (y == 7).all()
