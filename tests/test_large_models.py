"""The weights of a model are in memory once while it is imported."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import collage_dsl as collage
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.onnx_data import read
from collage_dsl.frontend.onnx_model import load, load_apart
from tests.cases import slow

ROWS = 2048
LAYERS = 12
WEIGHTS = LAYERS * ROWS * ROWS * 4
"""About 200 MB."""


def large_model(op: str) -> onnx.ModelProto:
    """A chain of layers with random weights, which are transposed for `Gemm`."""
    generator = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for layer in range(LAYERS):
        array = generator.random((ROWS, ROWS), np.float32)
        weights.append(numpy_helper.from_array(array, f"w{layer}"))
        attributes = {"transB": 1} if op == "Gemm" else {}
        nodes.append(helper.make_node(op, [last, f"w{layer}"], [f"m{layer}"], **attributes))
        nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"]))
        last = f"r{layer}"
    value = helper.make_tensor_value_info
    ends = [[value(name, TensorProto.FLOAT, [1, ROWS])] for name in ("x", last)]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


CHILD = """
import sys
from pathlib import Path
import onnx
import collage_dsl as collage

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))

text = '<ir_version: 9, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
collage.from_onnx(onnx.parser.parse_model(text))
before = peak()
graph = collage.from_onnx(sys.argv[1])
print(peak() - before)
"""


@pytest.mark.parametrize(
    ("op", "is_external"),
    [("MatMul", True), slow("MatMul", False), slow("Gemm", True), slow("Gemm", False)],
)
def test_weights_are_in_memory_once(op: str, is_external: bool, tmp_path: Path) -> None:
    """With a margin, since a layer that is transposed is there twice for a moment."""
    file = tmp_path / "large.onnx"
    options: dict[str, Any] = {"save_as_external_data": True, "location": "weights"}
    onnx.save(large_model(op), file, **(options if is_external else {}))

    found = subprocess.run(
        [sys.executable, "-c", CHILD, os.fspath(file)], capture_output=True, text=True, check=True
    )
    growth = int(found.stdout)
    assert WEIGHTS <= growth < 1.3 * WEIGHTS


ARRAYS = {
    "f32": np.arange(40_000, dtype=np.float32).reshape(200, 200),
    "f16": np.arange(60_000).astype(np.float16).reshape(60_000),
    "bf16": np.arange(50_000).astype(ml_dtypes.bfloat16).reshape(5, 10_000),
    "i64": np.arange(20_000).reshape(1, 20_000),
    "flags": np.arange(70_000) % 3 == 0,
    "int4": (np.arange(200_000) % 7).astype(ml_dtypes.int4),
    "small": np.ones(3, np.float32),
}


def with_arrays(folder: Path, *, is_external: bool) -> Path:
    tensors = [numpy_helper.from_array(array, name) for name, array in ARRAYS.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}.out"]) for name in ARRAYS]
    outputs = [
        helper.make_tensor_value_info(f"{each.name}.out", each.data_type, each.dims)
        for each in tensors
    ]
    graph = helper.make_graph(nodes, "g", [], outputs, tensors)
    file = folder / "m.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(made, file, save_as_external_data=is_external, location="weights", size_threshold=0)
    return file


@pytest.mark.parametrize("is_external", [True, False])
def test_data_that_are_read_apart_are_those_of_the_file(is_external: bool, tmp_path: Path) -> None:
    file = with_arrays(tmp_path, is_external=is_external)
    apart, data = load_apart(file)
    assert data is not None

    assert len(apart.SerializeToString()) < 4000
    for tensor in apart.graph.initializer:
        np.testing.assert_array_equal(data.array(tensor), ARRAYS[tensor.name])
        assert data.array(tensor).dtype == ARRAYS[tensor.name].dtype
    for kept, whole in zip(apart.graph.initializer, load(file).graph.initializer, strict=True):
        assert (kept.name, list(kept.dims), kept.data_type) == (
            *(whole.name, list(whole.dims), whole.data_type),
        )


def test_a_file_that_is_cut_short_is_an_error_and_no_crash(tmp_path: Path) -> None:
    file = with_arrays(tmp_path, is_external=False)
    whole = file.read_bytes()

    for size in range(0, len(whole), len(whole) // 40):
        file.write_bytes(whole[:size])
        with pytest.raises(FrontendError):
            collage.from_onnx(file)


def test_data_that_are_shorter_than_their_shape_are_an_error(tmp_path: Path) -> None:
    array = np.zeros((200, 200), np.float32)
    made = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[1,200] x) => (float[1,200] y) '
        "{ y = MatMul (x, w) }"
    )
    made.graph.initializer.append(numpy_helper.from_array(array, "w"))
    made.graph.initializer[0].dims[0] = 300
    onnx.save(made, tmp_path / "m.onnx")

    with pytest.raises(FrontendError, match="the data of the constant `w` are damaged"):
        collage.from_onnx(tmp_path / "m.onnx")


def test_a_file_of_another_form_is_left_to_protobuf(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\xff" * 100_000)

    assert read(tmp_path / "m.onnx") is None
