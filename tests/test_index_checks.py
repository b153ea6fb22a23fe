"""Native kernels take indices as onnxruntime does, and refuse those that are out of range."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.relax import op

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.signature import ExecutableError
from tests.commands import assert_one_message, said
from tests.one_kernel import Array, node, one_kernel, onnx_model
from tests.reference import run_onnx

SPEC = Path(__file__).parent.parent / "specs" / "native.collage"


@dataclass(frozen=True)
class Case:
    """
    An operator with the inputs `data` (`x` first), `i` (random indices below the `sizes` of the
    axes, or negative) and `more`.
    """

    op: str
    data: tuple[int, ...]
    indices: tuple[int, ...]
    sizes: int | tuple[int, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "int64"
    updates: tuple[int, ...] = ()
    opset: int = 18

    @property
    def model(self) -> onnx.ModelProto:
        names = "x i u" if self.updates else "x i"
        nodes = [node(self.op, names, **self.attributes)]
        return onnx_model(nodes, self.inputs, opset=self.opset)

    @property
    def inputs(self) -> dict[str, Array]:
        random = np.random.default_rng(3)
        x = random.standard_normal(self.data).astype(np.float32)
        indices = random.integers(-np.array(self.sizes), self.sizes, self.indices)
        inputs = {"x": x, "i": indices.astype(self.dtype)}
        if self.updates:
            inputs["u"] = random.standard_normal(self.updates).astype(np.float32)
        return inputs

    @property
    def last(self) -> int:
        """The size of the axis of the last index."""
        return self.sizes if isinstance(self.sizes, int) else self.sizes[-1]


ADDED = {"reduction": "add"}
CASES = {
    "gather": Case("Gather", (7, 4, 3), (2, 9), 7),
    "gather of int32": Case("Gather", (5, 6, 3), (11,), 6, {"axis": 1}, "int32"),
    "gather of one": Case("Gather", (5, 6, 3), (), 3, {"axis": -1}),
    "elements": Case("GatherElements", (5, 6, 3), (4, 33, 2), 6, {"axis": 1}),
    "last elements": Case("GatherElements", (5, 6), (5, 64), 6, {"axis": -1}, "int32"),
    "points": Case("GatherND", (5, 6, 3), (4, 7, 2), (5, 6)),
    "points in batches": Case("GatherND", (5, 6, 3), (5, 9, 2), (6, 3), {"batch_dims": 1}),
    "scatter": Case(
        "ScatterElements", (5, 6), (3, 6), 5, {"axis": 0, **ADDED}, updates=(3, 6)
    ),
    "scatter in part": Case(
        "ScatterElements", (5, 6, 3), (4, 9, 2), 6, {"axis": 1, **ADDED}, updates=(4, 9, 2)
    ),
    "scatter points": Case("ScatterND", (5, 6, 3), (8, 2), (5, 6), ADDED, updates=(8, 3)),
    "scatter rows": Case("ScatterND", (5, 6, 3), (2, 1), (5,), ADDED, updates=(2, 6, 3)),
    "old scatter": Case("Scatter", (5, 6), (1, 4), 5, {"axis": 0}, updates=(1, 4), opset=10),
}  # fmt: skip


@cache
def kernel_of(name: str) -> ModelExecutable:
    return one_kernel(CASES[name].model)


@pytest.mark.parametrize("name", CASES)
def test_indices_from_the_start_and_the_end_are_those_of_onnxruntime(name: str) -> None:
    case = CASES[name]
    actual = kernel_of(name).run(case.inputs)["y"]

    np.testing.assert_allclose(actual, run_onnx(case.model, case.inputs)["y"], rtol=1e-6)


def refused(executable: ModelExecutable, inputs: Mapping[str, Array], index: int) -> str:
    with pytest.raises(ExecutableError) as caught:
        executable.run(inputs)
    message = str(caught.value)
    assert f"index {index} is out of range" in message
    return message


@pytest.mark.parametrize("name", CASES)
def test_an_index_out_of_range_is_refused_and_the_next_call_works(name: str) -> None:
    case = CASES[name]
    executable, inputs = kernel_of(name), case.inputs
    expected = executable.run(inputs)["y"]

    for index in (case.last, 5000, -case.last - 1, -5000, 2**33, -(2**63)):
        if abs(index) < 2**31 or case.dtype == "int64":
            wrong = {**inputs, "i": inputs["i"].copy()}
            wrong["i"].reshape(-1)[-1] = index
            message = refused(executable, wrong, index)
            assert message.endswith(f"valid are {-case.last} to {case.last - 1}")

    np.testing.assert_array_equal(executable.run(inputs)["y"], expected)


def test_the_error_names_the_operator() -> None:
    case = CASES["scatter points"]
    wrong = {**case.inputs, "i": np.full((8, 2), 6)}

    message = refused(kernel_of("scatter points"), wrong, 6)

    assert message == "scatter_nd: index 6 is out of range, valid are -5 to 4"


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.usefixtures("small_loops_are_shared")
def test_indices_that_the_kernel_computes_are_checked(cores: int) -> None:
    """They are the sums of two inputs, and the first result has the indices of the second."""
    nodes = [
        node("Add", "i j", "k"),
        node("Gather", "x k", "rows"),
        node("Gather", "z rows", "picked"),
        node("Relu", "picked"),
    ]
    random = np.random.default_rng(0)
    inputs = {
        "x": random.integers(-9, 9, 64),
        "z": random.standard_normal((9, 33)).astype(np.float32),
        "i": random.integers(0, 32, (40, 5)),
        "j": random.integers(-32, 32, (40, 5)),
    }
    model = onnx_model(nodes, inputs)
    executable = one_kernel(model, cores)

    expected = run_onnx(model, inputs)["y"]
    np.testing.assert_array_equal(executable.run(inputs)["y"], expected)
    refused(executable, {**inputs, "j": np.full((40, 5), 64)}, 64 + int(inputs["i"].max()))
    refused(executable, {**inputs, "x": np.full(64, -10)}, -10)
    np.testing.assert_array_equal(executable.run(inputs)["y"], expected)


def test_the_maximum_that_the_kernel_finds_is_an_index() -> None:
    nodes = [node("ArgMax", "x", "best", axis=1, keepdims=0), node("Gather", "z best")]
    random = np.random.default_rng(0)
    inputs = {
        "x": random.standard_normal((6, 8)).astype(np.float32),
        "z": random.standard_normal((8, 3)).astype(np.float32),
    }
    model = onnx_model(nodes, inputs)

    actual = one_kernel(model).run(inputs)["y"]

    np.testing.assert_array_equal(actual, run_onnx(model, inputs)["y"])


def test_an_axis_without_elements_has_no_index() -> None:
    inputs, constants = {"i": np.zeros(2, np.int64)}, {"x": np.zeros((0, 3), np.float32)}
    executable = one_kernel(onnx_model([node("Gather", "x i")], inputs, constants))

    assert refused(executable, inputs, 0).endswith("the axis has no elements")


REGIONS: dict[str, tuple[onnx.NodeProto, dict[str, Array], str]] = {
    "roi_align": (
        node("RoiAlign", "x r i", output_height=2, output_width=2),
        {"r": np.array([[0, 0, 2, 2]], np.float32), "i": np.array([1])},
        "i",
    ),
    "roi_pool": (
        node("MaxRoiPool", "x r", pooled_shape=[2, 2]),
        {"r": np.array([[1, 0, 0, 2, 2]], np.float32)},
        "r",
    ),
}


@pytest.mark.parametrize("operator", REGIONS)
def test_the_index_of_an_image_is_checked(operator: str) -> None:
    made, more, name = REGIONS[operator]
    x = np.random.default_rng(0).standard_normal((2, 2, 4, 4)).astype(np.float32)
    inputs = {"x": x, **more}
    model = onnx_model([made], inputs)
    executable = one_kernel(model)

    expected = run_onnx(model, inputs)["y"]
    np.testing.assert_allclose(executable.run(inputs)["y"], expected, rtol=1e-5)
    for index in (2, 5000, -1):
        wrong = {**inputs, name: more[name].copy()}
        wrong[name].flat[0] = index
        assert refused(executable, wrong, index).startswith(f"{operator}: ")


def test_one_hot_of_an_index_out_of_range_is_off() -> None:
    constants = {"depth": np.array(5), "values": np.array([2, 3], np.float32)}
    inputs = {"i": np.array([0, 4, -5, -1, 5, -6, 5000, 2**33, -(2**62)])}
    model = onnx_model([node("OneHot", "i depth values")], inputs, constants)

    actual = one_kernel(model).run(inputs)["y"]

    np.testing.assert_array_equal(actual, run_onnx(model, inputs)["y"])


CONSTANT = {
    "Gather": (np.array([0, 7]), ()),
    "GatherElements": (np.array([[0, -6]]), ()),
    "GatherND": (np.array([[0, 3]]), ()),
    "ScatterElements": (np.array([[0, 5]]), (1, 2)),
    "ScatterND": (np.array([[-6, 0]]), (1,)),
}


@pytest.mark.parametrize("operator", CONSTANT)
def test_a_constant_index_out_of_range_is_refused_at_its_node(operator: str) -> None:
    indices, updates = CONSTANT[operator]
    inputs = {"x": np.zeros((5, 3), np.float32)}
    if updates:
        inputs["u"] = np.zeros(updates, np.float32)
    nodes = [node(operator, "x i u" if updates else "x i")]

    with pytest.raises(FrontendError, match=rf"`the_{operator}`: .* index -?\d is out of range"):
        from_onnx(onnx_model(nodes, inputs, {"i": indices}))


def test_top_k_of_more_than_there_are_is_refused() -> None:
    inputs = {"x": np.zeros((5, 3), np.float32)}
    nodes = [onnx.helper.make_node("TopK", ["x", "k"], ["y", "at"], name="the_TopK")]

    with pytest.raises(FrontendError, match="`the_TopK`: "):
        from_onnx(onnx_model(nodes, inputs, {"k": np.array([4])}))


@pytest.mark.parametrize("axis", [2, -3])
def test_a_sum_along_an_axis_that_is_not_there_is_refused(axis: int) -> None:
    inputs = {"x": np.zeros((5, 3), np.float32)}

    with pytest.raises(FrontendError, match="`the_CumSum`: "):
        from_onnx(onnx_model([node("CumSum", "x a")], inputs, {"a": np.array(axis)}))


# Operators that only Relax has.


def relax_machine(body: Any, *arrays: Array) -> Any:
    builder = relax.BlockBuilder()
    params = [
        relax.Var(f"p{place}", relax.TensorType(array.shape, str(array.dtype)))
        for place, array in enumerate(arrays)
    ]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(builder.emit(body(*params)))
        builder.emit_func_output(result)
    main = relax.VirtualMachine(build(builder.get()), tvm.cpu())["main"]
    return lambda *given: main(*map(tvm.runtime.tensor, given)).numpy()


def test_advanced_indices_are_checked() -> None:
    x = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)
    i, j = np.array([0, -1, 2]), np.array([[1], [-4]])
    run = relax_machine(lambda x, i, j: op.index_tensor(x, [i, j]), x, i, j)

    np.testing.assert_array_equal(run(x, i, j), x[i, j])
    with pytest.raises(ExecutableError, match="index_tensor: index 4 is out of range"):
        run(x, i, j + 3)


def test_values_put_at_advanced_indices_are_checked() -> None:
    x = np.random.default_rng(0).standard_normal((5, 4)).astype(np.float32)
    i, j, v = np.array([0, -1, 2]), np.array([1, -4, 3]), np.ones(3, np.float32)
    run = relax_machine(lambda x, i, j, v: op.index_put(x, relax.Tuple([i, j]), v), x, i, j, v)
    expected = x.copy()
    expected[i, j] = v

    np.testing.assert_array_equal(run(x, i, j, v), expected)
    with pytest.raises(ExecutableError, match="index_put: index -5 is out of range"):
        run(x, i, j - 1, v)


@pytest.mark.parametrize(("mode", "expected"), [("wrap", 2.0), ("clip", 4.0), ("nan", np.nan)])
def test_a_take_of_another_mode_has_no_index_out_of_range(mode: str, expected: float) -> None:
    x, i = np.arange(5, dtype=np.float32), np.array([7])

    run = relax_machine(lambda x, i: op.take(x, i, 0, mode=mode), x, i)

    np.testing.assert_array_equal(run(x, i), [expected])


# What a user sees.


def test_building_and_running_a_gather_warns_of_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    case = CASES["gather"]

    one_kernel(case.model).run(case.inputs)

    assert capfd.readouterr() == ("", "")


def test_a_kernel_whose_only_valid_index_is_zero_is_measured(tmp_path: Path) -> None:
    inputs = {"x": np.zeros((1, 3), np.float32), "i": np.zeros(2, np.int64)}
    model = onnx_model([node("Gather", "x i", "g"), node("Relu", "g")], inputs)

    compiled = collage.compile(model, [SPEC], store=tmp_path / "costs", race_seconds=0.01)

    assert compiled.plan.cost > 0


def test_a_saved_model_refuses_an_index_out_of_range(
    tmp_path: Path,
) -> None:
    case = CASES["gather"]
    compiled = collage.compile(case.model, [SPEC], cost=lambda _: 1e-6, race_seconds=0.01)
    compiled.save(tmp_path / "out")
    np.savez(tmp_path / "in.npz", **{**case.inputs, "i": np.full((2, 9), 7)})

    script = (
        f"import collage_dsl, numpy\n"
        f"given = dict(numpy.load({str(tmp_path / 'in.npz')!r}))\n"
        f"collage_dsl.load_executable({str(tmp_path / 'out')!r}).run(given)"
    )
    alone = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "InputError: index 7 is out of range" in alone.stderr

    done = said("run", tmp_path / "out", "--inputs", tmp_path / "in.npz")

    assert_one_message(
        done,
        1,
        "error: index 7 is out of range, valid are -7 to 6, at the Gather node `the_Gather`",
    )


def test_random_inputs_that_a_model_refuses_are_not_called_wrong_inputs(tmp_path: Path) -> None:
    inputs = {"x": np.zeros((1, 3), np.float32), "i": np.zeros(50, np.int64)}
    model = onnx_model([node("Gather", "x i", "g"), node("Relu", "g")], inputs)
    collage.compile(model, [SPEC], cost=lambda _: 1e-6, race_seconds=0.01).save(tmp_path / "out")

    done = said("run", tmp_path / "out")

    assert done.code == 2
    assert done.err.startswith("error: the model cannot run on random inputs: index 1 is out of")
    assert done.err.endswith("give other sizes with --sizes, or inputs with --inputs FILE.npz\n")
