"""Run a model in onnxruntime without optimisations, to get reference outputs."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from collage_dsl.crashes import with_named_outputs, without_crashes
from collage_dsl.exact_products import exact
from collage_dsl.frontend.errors import FrontendError, RefusedInputsError
from collage_dsl.frontend.onnx_inlined import inlined, is_read_otherwise
from collage_dsl.frontend.onnx_model import Shapes, load_structure
from collage_dsl.frontend.onnx_newest import is_too_new, lowered
from collage_dsl.frontend.onnx_own_outputs import with_own_outputs
from collage_dsl.frontend.onnx_upgrade import OLDEST_OPSET, opset_of, upgraded
from collage_dsl.in_float32 import has_dtype, without_bfloat16, without_float64
from collage_dsl.offline import onnxruntime
from collage_dsl.offline import onnxruntime_pybind11_state as refusals
from collage_dsl.onnx_nodes import nodes_within
from collage_dsl.reading import is_in_utf8

REFUSALS = (
    RefusedInputsError,
    refusals.Fail,
    refusals.InvalidArgument,
    refusals.InvalidGraph,
    refusals.InvalidProtobuf,
    refusals.NotImplemented,
    refusals.RuntimeException,
)
"""What is raised for a model, or for inputs, that onnxruntime or PyTorch does not run."""


def reference_session(
    model: str | Path | onnx.ModelProto, shapes: Shapes | None = None, *, approximates: bool = False
) -> Any:
    """
    An onnxruntime session that runs `model` without optimisations, for inputs of the `shapes` where
    they are given. Raises `FrontendError` if onnxruntime refuses the model; it is better to learn
    this before a compilation than after. A session that `approximates` computes nodes on float64
    without a kernel of it in float32.

    Names of nodes have no meaning, but onnxruntime refuses a model with the same name twice. The
    names of such a model are left out. What ends the process in onnxruntime is an error, or right.
    An output of a graph inside a node is right where onnxruntime would write nothing to it.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    is_file = not isinstance(model, onnx.ModelProto)
    loaded = model if isinstance(model, onnx.ModelProto) else load_structure(Path(model))
    structure = loaded
    if is_read_otherwise(loaded) or _changes_functions(loaded, approximates=approximates):
        loaded = inlined(loaded)
    if is_too_new(loaded):
        loaded = lowered(loaded)
    if opset_of(loaded) < OLDEST_OPSET:
        loaded = upgraded(loaded)
    if shapes or _has_name_twice(loaded):
        loaded = _without_names(loaded)
        _reshape(loaded.graph, shapes or {})
    if any(node.op_type in _BY_THREAD for node in nodes_within(loaded.graph.node)):
        options.intra_op_num_threads = 1
    loaded = without_bfloat16(loaded)
    if approximates:
        loaded = without_float64(loaded)
    used = exact(without_crashes(with_named_outputs(with_own_outputs(loaded))))
    if is_file and used is structure:
        return _session(_in_utf8(str(model), model), options)
    if is_file:
        folder = str(Path(model).absolute().parent)
        options.add_session_config_entry(_WEIGHTS_FOLDER, _in_utf8(folder, model))
    return _session(used.SerializeToString(), options)


def _in_utf8(path: str, model: object) -> str:
    """`path`, which leads to `model` or its weights."""
    if not is_in_utf8(path):
        raise FrontendError(
            f"cannot read {model} with onnxruntime, which takes only paths in UTF-8: rename the "
            "file, or the folder that it is in"
        )
    return path


def _changes_functions(model: onnx.ModelProto, *, approximates: bool) -> bool:
    """
    Whether nodes in functions may be computed in float32. They are inlined for it, since the types
    in a function follow from its calls.
    """
    types = (TensorProto.BFLOAT16, TensorProto.DOUBLE) if approximates else (TensorProto.BFLOAT16,)
    return bool(model.functions) and any(has_dtype(model, each) for each in types)


_BY_THREAD = frozenset({"DynamicQuantizeLSTM"})
"""
Operators that onnxruntime computes otherwise on several cores: each core quantizes its part of the
batch by the numbers in that part. Kernels have one core, if their target says nothing else.
"""


def _reshape(graph: onnx.GraphProto, shapes: Shapes) -> None:
    """Declare the inputs with `shapes`, and nothing else that may follow from others."""
    for value in graph.input:
        if value.name in shapes:
            element = value.type.tensor_type.elem_type
            dims = [dim if isinstance(dim, str) else int(dim) for dim in shapes[value.name]]
            value.type.CopyFrom(helper.make_tensor_type_proto(element, dims))
    if shapes:
        del graph.value_info[:]
        for value in graph.output:
            if value.type.HasField("tensor_type"):  # which clearing a part of it would add
                value.type.tensor_type.ClearField("shape")


_WEIGHTS_FOLDER = "session.model_external_initializers_file_folder_path"


def _session(source: str | bytes, options: Any) -> Any:
    try:
        return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except REFUSALS as error:
        raise FrontendError(f"onnxruntime refuses the model: {reason_of(error)}") from error


_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : |Load model from .*? failed:"
    r"|/onnxruntime_src/\S+:\d+ .*?\) (?:const )?(?:\[with .*?\] )?"
)
"""What errors of onnxruntime say of its own code, and the path that is known."""


def reason_of(error: Exception) -> str:
    """What an error of onnxruntime says, in one line."""
    return _NOISE.sub("", " ".join(str(error).split())).rstrip(".")


def _has_name_twice(model: onnx.ModelProto) -> bool:
    counts = Counter(node.name for node in model.graph.node if node.name)
    return any(count > 1 for count in counts.values())


def _without_names(model: onnx.ModelProto) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for node in result.graph.node:
        node.ClearField("name")
    return result
