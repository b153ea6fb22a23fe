"""
Models with numbers of a byte, as the tools of onnxruntime make them from those of PyTorch.

A static one has `QuantizeLinear` and `DequantizeLinear` around its operators, with ranges from runs
on seeded inputs. In a dynamic one, `DynamicQuantizeLinear` finds the ranges as the model runs, and
`MatMulInteger` multiplies bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from collage_dsl.frontend.onnx_model import inputs_of

_RUNS = 4
"""How many inputs the ranges of a static model are found with."""


class _Runs(CalibrationDataReader):  # type: ignore[misc]  # of a package without types
    """Seeded images, or other floats, of a normal distribution."""

    def __init__(self, source: Path) -> None:
        graph = onnx.load(source, load_external_data=False).graph
        shapes = {
            value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            for value in inputs_of(graph)
        }
        generator = np.random.default_rng(0)
        self.left = [
            {n: generator.standard_normal(s, np.float32) for n, s in shapes.items()}
            for _ in range(_RUNS)
        ]

    def get_next(self) -> dict[str, Any] | None:
        return self.left.pop() if self.left else None


def static(
    source: Path,
    made: Path,
    activations: QuantType = QuantType.QUInt8,
    *,
    per_channel: bool = True,
    form: QuantFormat = QuantFormat.QDQ,
) -> None:
    quantize_static(
        source,
        made,
        _Runs(source),
        quant_format=form,
        per_channel=per_channel,
        activation_type=activations,
        weight_type=QuantType.QInt8,
    )


def dynamic(source: Path, made: Path) -> None:
    quantize_dynamic(source, made, weight_type=QuantType.QInt8)


def quantized(
    model: onnx.ModelProto, quantize: Callable[[Path, Path], None] = static
) -> onnx.ModelProto:
    """What `quantize`, which reads a file and writes another, makes of a model."""
    with TemporaryDirectory() as folder:
        source, made = Path(folder, "source.onnx"), Path(folder, "made.onnx")
        onnx.save(model, source)
        quantize(source, made)
        return onnx.load(made)


QUANTIZED: Mapping[str, tuple[str, Callable[[Path, Path], None]]] = {
    "mobilenet_v3-static": ("mobilenet_v3", static),
    "unet-static": ("unet", static),
    "minilm-dynamic": ("minilm", dynamic),
}
"""The model that each is made of, and how."""


def quantize(name: str, source: Path) -> Path:
    """The file of a quantized model beside its `source`, which is written if it is not there."""
    path = source.with_stem(name)
    if not path.exists():
        partial = path.with_suffix(".partial.onnx")
        QUANTIZED[name][1](source, partial)
        partial.rename(path)
    return path


def integers_alone(model: onnx.ModelProto) -> onnx.ModelProto:
    """
    The nodes of `model` that compute integers of 8 or 32 bits, without what is between them: what
    such a node takes is an input, unless it is constant.
    """
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value for value in (*graph.value_info, *graph.output, *graph.input)}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes = [node for node in graph.node if any(_is_integer(types, n) for n in node.output)]
    taken = dict.fromkeys(name for node in nodes for name in node.input if name)
    made = [types[name] for node in nodes for name in node.output]
    # What one node makes and another takes is made under another name.
    for node in nodes:
        node.output[:] = [f"{name}{MADE}" for name in node.output]
    return onnx.helper.make_model(
        onnx.helper.make_graph(
            nodes,
            "integers",
            [types[name] for name in taken if name not in constants],
            [_renamed(value) for value in made],
            [constants[name] for name in taken if name in constants],
        ),
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )


MADE = ":made"
"""The end of the names of what `integers_alone` computes."""

_INTEGERS = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8, onnx.TensorProto.INT32)


def _is_integer(types: Mapping[str, onnx.ValueInfoProto], name: str) -> bool:
    return name in types and types[name].type.tensor_type.elem_type in _INTEGERS


def _renamed(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    renamed = onnx.ValueInfoProto()
    renamed.CopyFrom(value)
    renamed.name += MADE
    return renamed


def with_outputs(model: onnx.ModelProto, names: Iterable[str]) -> onnx.ModelProto:
    """`model` with more of its values as outputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    known = {value.name for value in (*model.graph.output, *model.graph.input)}
    new = [name for name in names if name not in known]
    result.graph.output.extend(onnx.ValueInfoProto(name=name) for name in new)
    return result
