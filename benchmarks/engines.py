"""The engines that the benchmarks compare with: each loads an ONNX model, in float32."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import onnxruntime

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]

INSTALL = "pip install --no-deps -r benchmarks/requirements.txt"


class CannotLoadError(Exception):
    """An engine cannot load a model. The message says why."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in an engine, with its inputs in place. `output` is a copy of its result."""

    call: Callable[[], object]
    output: Callable[[], Array]


Load = Callable[[onnx.ModelProto, Inputs, int], Loaded]


def engines() -> dict[str, Load]:
    """Those installed. Each takes a model of one output, its inputs, and a number of threads."""
    known: dict[str, tuple[Load, tuple[str, ...]]] = {
        "onnxruntime": (load_onnxruntime, ("onnxruntime",)),
        "openvino": (load_openvino, ("openvino",)),
        "ncnn": (load_ncnn, ("ncnn", "pnnx")),
    }
    return {name: load for name, (load, needed) in known.items() if all(map(is_installed, needed))}


def is_installed(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def load_onnxruntime(model: onnx.ModelProto, inputs: Inputs, threads: int) -> Loaded:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (result,) = session.get_outputs()
    (first,) = session.run(None, dict(inputs))
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros_like(first))
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    binding.bind_ortvalue_output(result.name, value)
    return Loaded(lambda: session.run_with_iobinding(binding), lambda: value.numpy().copy())


def load_openvino(model: onnx.ModelProto, inputs: Inputs, threads: int) -> Loaded:
    import openvino

    core = openvino.Core()
    settings = {
        "INFERENCE_NUM_THREADS": threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
    }
    try:
        compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings)
    except RuntimeError as error:
        said = [line for line in str(error).splitlines() if line.strip()]
        raise CannotLoadError(f"openvino cannot load it: {' '.join(said[-1:])}") from error
    request = compiled.create_infer_request()
    tensors = {name: openvino.Tensor(array, shared_memory=True) for name, array in inputs.items()}
    for name, tensor in tensors.items():
        request.set_tensor(name, tensor)

    def output() -> Array:
        # The request reads the memory of the tensors, so they must live as long as it does.
        assert tensors
        return np.array(request.get_output_tensor().data)

    return Loaded(request.infer, output)


def load_ncnn(model: onnx.ModelProto, inputs: Inputs, threads: int) -> Loaded:
    import ncnn

    with TemporaryDirectory() as folder:
        given, (result,) = converted(model, Path(folder))
        net = ncnn_net(Path(folder), threads)
    mats = [
        ncnn.Mat(array, batch_index=index).clone()
        for array, index in zip(inputs.values(), given, strict=True)
    ]
    shape = tuple(dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim)
    kept: list[Any] = [None]

    def call() -> None:
        extractor = net.create_extractor()
        for index, mat in enumerate(mats):
            extractor.input(f"in{index}", mat)
        status, kept[0] = extractor.extract("out0")
        if status:
            raise CannotLoadError(f"ncnn stops with status {status}")

    def output() -> Array:
        array = np.array(kept[0].numpy(batch_index=result))
        return array.reshape(shape) if shape else array

    call()
    return Loaded(call, output)


def ncnn_net(folder: Path, threads: int) -> Any:
    """What `converted` wrote into `folder`, in float32 throughout."""
    import ncnn

    net = ncnn.Net()
    for name in dir(net.opt):
        if any(kind in name for kind in ("fp16", "bf16", "int8")):
            setattr(net.opt, name, False)
    net.opt.use_vulkan_compute = False
    net.opt.num_threads = threads
    net.opt.blob_allocator, net.opt.workspace_allocator = ncnn_allocators()
    net.load_param(f"{folder}/model.ncnn.param")
    net.load_model(f"{folder}/model.ncnn.bin")
    return net


def modern(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model by operators of version 15 or later, where softmax has one axis."""
    if any(not opset.domain and opset.version >= 15 for opset in model.opset_import):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.ir_version = 9
    return onnx.version_converter.convert_version(copy, 15)


def as_pnnx_reads_it(model: onnx.ModelProto) -> onnx.ModelProto:
    """pnnx leaves out average pooling with padding on one side. Over a whole image it is global."""
    inferred = onnx.shape_inference.infer_shapes(modern(model))
    shapes = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*inferred.graph.input, *inferred.graph.value_info)
    }
    for node in inferred.graph.node:
        if node.op_type == "AveragePool" and is_global(node, shapes[node.input[0]]):
            node.op_type = "GlobalAveragePool"
            del node.attribute[:]
    return inferred


def is_global(node: onnx.NodeProto, image: Sequence[int]) -> bool:
    """Whether an average pooling makes one number of each channel, the mean of its whole image."""
    attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
    window = attributes["kernel_shape"]
    pads = attributes.get("pads", [0, 0, 0, 0])
    padded = [size + pads[i] + pads[i + 2] for i, size in enumerate(image[2:])]
    is_larger = all(size <= w for size, w in zip(padded, window, strict=True))
    return is_larger and not attributes.get("count_include_pad", 0)


@cache
def ncnn_allocators() -> tuple[Any, Any]:
    """Memory that is kept for the next call, as in ncnn's own benchmark. All models share it."""
    import ncnn

    return ncnn.UnlockedPoolAllocator(), ncnn.PoolAllocator()


def converted(model: onnx.ModelProto, folder: Path) -> tuple[list[int], list[int]]:
    """
    Convert a model for ncnn, with float32 weights. Returns which axis of each input, and of each
    output, is the batch axis that ncnn's tensors leave out; pnnx writes that into a test script.
    """
    onnx.save_model(as_pnnx_reads_it(model), folder / "model.onnx")
    spec = importlib.util.find_spec("pnnx")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).with_name("pnnx")
    command = [str(program), "model.onnx", "fp16=0"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    script = folder / "model_ncnn.py"
    if done.returncode or not script.exists():
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise CannotLoadError(f"pnnx cannot convert the model: {' '.join(last)}")
    text = script.read_text()
    given = re.findall(r'ex\.input\("in\d+", .*batch_index=(\d+)', text)
    made = re.findall(r"numpy\(batch_index=(\d+)\)", text)
    return [int(index) for index in given], [int(index) for index in made]
