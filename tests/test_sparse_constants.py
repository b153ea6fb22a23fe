"""Sparse constants become dense ones, as the standard says."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx_check import MOST_DENSE, array_of_sparse
from tests.reference import run_onnx

Array = np.ndarray[Any, Any]


def sparse(
    indices: list[Any], dims: list[int], values: list[Any] | None = None, name: str = "w"
) -> onnx.SparseTensorProto:
    given = np.arange(1, len(indices) + 1) if values is None else np.asarray(values)
    return helper.make_sparse_tensor(
        numpy_helper.from_array(given.astype(np.float32), name),
        numpy_helper.from_array(np.asarray(indices, np.int64), f"{name}.indices"),
        dims,
    )


FORMS = {
    "counted through": ([2, 3, 11], [3, 4]),
    "by dimension": ([[0, 2], [0, 3], [2, 3]], [3, 4]),
    "of one dimension": ([1, 3], [4]),
    "with one element": ([[2]], [4]),
    "of three dimensions": ([[0, 1, 0], [1, 0, 1]], [2, 2, 2]),
    "without elements": (np.zeros((0, 2), np.int64).tolist(), [3, 4]),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_elements_are_where_the_standard_says(name: str) -> None:
    """An index of several numbers is one for each dimension; one number counts in row order."""
    indices, dims = FORMS[name]
    expected = np.zeros(dims, np.float32)
    for value, index in enumerate(indices, 1):
        at = tuple(index) if isinstance(index, list) else np.unravel_index(index, dims)
        expected[at] = value

    np.testing.assert_array_equal(array_of_sparse(sparse(indices, dims), "it"), expected)


def model(*, is_node: bool) -> onnx.ModelProto:
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[2,3] x) => (float[2,4] y) '
        "{ y = MatMul (x, w) }"
    )
    weight = sparse([[0, 2], [0, 3], [2, 3]], [3, 4])
    if is_node:
        made.graph.node.insert(0, helper.make_node("Constant", [], ["w"], sparse_value=weight))
    else:
        made.graph.sparse_initializer.append(weight)
    return made


@pytest.mark.parametrize("is_node", [True, False])
def test_a_model_with_a_sparse_constant_gives_what_onnxruntime_does(is_node: bool) -> None:
    made = model(is_node=is_node)
    x = np.random.default_rng(0).standard_normal((2, 3), np.float32)
    graph = collage.from_onnx(made)
    executable = collage.compile(made, ["native"], cost=[lambda _: 1e-6], race_seconds=0.01)

    assert graph.names(graph.constants) == {"w"}
    np.testing.assert_allclose(
        executable.run({"x": x})["y"], run_onnx(made, {"x": x})["y"], rtol=1e-5, atol=1e-6
    )


def test_a_sparse_constant_of_a_branch_that_is_inlined_is_read() -> None:
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[4] x) => (float[4] o) {
      o = If (c) < then_branch = a () => (float[4] p) { p = Add (x, w) },
                   else_branch = b () => (float[4] q) { q = Neg (x) } >
    }"""
    made = onnx.parser.parse_model(text)
    made.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    branch = next(each.g for each in made.graph.node[0].attribute if each.name == "then_branch")
    branch.sparse_initializer.append(sparse([1, 3], [4]))

    graph = collage.from_onnx(made)
    (constant,) = (node for node in graph.nodes if node.value is not None)
    np.testing.assert_array_equal(constant.value, [0, 1, 0, 2])


@pytest.mark.parametrize(
    ("indices", "dims", "said"),
    [
        ([1, 1], [4], "its indices are not in order"),
        ([3, 1], [4], "its indices are not in order"),
        ([4], [4], "its indices are not in order"),
        ([-1], [4], "its indices are not in order"),
        ([[0, 0, 0]], [2, 2], "its indices are not in order"),
        ([0], [MOST_DENSE + 1], f"would have {MOST_DENSE + 1} elements"),
        ([0], [-1], "has the shape"),
    ],
)
def test_a_damaged_sparse_constant_is_refused(indices: Any, dims: list[int], said: str) -> None:
    made = model(is_node=False)
    made.graph.sparse_initializer[0].CopyFrom(sparse([0], [4]))
    given = made.graph.sparse_initializer[0]
    given.indices.CopyFrom(numpy_helper.from_array(np.asarray(indices, np.int64)))
    given.values.CopyFrom(numpy_helper.from_array(np.ones(len(indices), np.float32), "w"))
    del given.dims[:]
    given.dims.extend(dims)

    with pytest.raises(FrontendError, match=said):
        collage.from_onnx(made)


def test_texts_are_empty_elsewhere() -> None:
    values = helper.make_tensor("w", TensorProto.STRING, [1], [b"a"])
    indices = numpy_helper.from_array(np.array([1]))

    found = array_of_sparse(helper.make_sparse_tensor(values, indices, [3]), "it")
    assert found.tolist() == ["", "a", ""]


def test_a_constant_of_a_branch_is_not_that_of_the_model_of_the_same_name(tmp_path: Any) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17]> g (float[20000] x) => (float[20000] o) {
      o = If (c) < then_branch = a () => (float[20000] p) { p = Add (x, w) },
                   else_branch = b () => (float[20000] q) { q = Neg (x) } >
    }"""
    made = onnx.parser.parse_model(text)
    large = np.zeros(20000, np.float32)
    made.graph.initializer.append(numpy_helper.from_array(np.array(True), "c"))
    made.graph.initializer.append(numpy_helper.from_array(large, "w"))
    branch = next(each.g for each in made.graph.node[0].attribute if each.name == "then_branch")
    branch.initializer.append(numpy_helper.from_array(large + 1, "w"))
    onnx.save(made, tmp_path / "m.onnx")

    graph = collage.from_onnx(tmp_path / "m.onnx")
    (constant,) = (node for node in graph.nodes if node.value is not None)
    assert (constant.value == 1).all()
