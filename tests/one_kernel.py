"""A model of ONNX nodes as one native kernel, and the same in onnxruntime."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from collage_dsl.backends.tvm import Tvm
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, Toolchain
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature

Array = np.ndarray[Any, Any]


def onnx_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    constants: Mapping[str, Array] | None = None,
    opset: int = 18,
) -> onnx.ModelProto:
    """A model that takes arrays like `inputs` and gives `y`."""
    types = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in inputs.items()
    ]
    kept = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", types, [onnx.ValueInfoProto(name="y")], kept)
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def node(op: str, inputs: str, output: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), [output], name=f"the_{op}", **attributes)


def one_kernel(model: onnx.ModelProto, cores: int = 1) -> ModelExecutable:
    """All calls of the model in one native kernel."""
    return one_kernel_of(from_onnx(model), cores)


def one_kernel_of(graph: Graph, cores: int = 1) -> ModelExecutable:
    """All calls of a graph in one native kernel."""
    toolchain = Toolchain("native", options={"num_cores": cores})
    kernel = CandidateKernel(graph, SubGraph(graph.calls), toolchain)
    module = realize(graph, [kernel], lambda _: Tvm())
    return ModelExecutable(build(module), Signature.of(graph, cores=cores))
