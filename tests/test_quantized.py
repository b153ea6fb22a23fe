"""Models that onnxruntime's own tools quantize are compiled, and their integers are the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import collage_dsl as collage

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))

from layers import Layers
from onnx_cases import built, planned
from quantized import dynamic, integers_alone, static, with_outputs

from tests.reference import run_onnx


def images() -> onnx.ModelProto:
    net = Layers()
    x = net.relu(net.conv(net.input(1, 3, 12, 12), 3, 8))
    y = net.node("Add", x, net.conv(x, 8, 8, groups=8))
    y = net.node("Flatten", net.node("GlobalAveragePool", net.node("Concat", x, y, axis=1)))
    return net.model(net.fully_connected(y, 16, 5), [1, 5])


def words() -> onnx.ModelProto:
    net = Layers()
    x = net.layer_norm(net.input(1, 6, 16), 16)
    parts = [net.linear(x, 16, 16) for _ in range(3)]
    heads = [net.node("Unsqueeze", part, net.constant([0], "int64")) for part in parts]
    y = net.node("Squeeze", net.attention(*heads, 16), net.constant([0], "int64"))
    return net.model(net.linear(y, 16, 7), [1, 6, 7])


@pytest.mark.parametrize(
    ("model", "quantized", "nodes"),
    [(images, static, "QuantizeLinear"), (words, dynamic, "MatMulInteger")],
)
def test_a_quantized_model_computes_the_integers_of_onnxruntime(
    model: Callable[[], onnx.ModelProto],
    quantized: Callable[[Path, Path], None],
    nodes: str,
    tmp_path: Path,
) -> None:
    source, made = tmp_path / "source.onnx", tmp_path / "made.onnx"
    onnx.save(model(), source)
    quantized(source, made)
    loaded = onnx.load(made)
    assert nodes in {node.op_type for node in loaded.graph.node}

    found = collage.compile(loaded, ["native"], cost=lambda _: 1e-5, race_seconds=0.01)
    assert found.report.verification.unchecked == []

    alone = integers_alone(loaded)
    graph = collage.from_onnx(alone)
    executable, _ = built(graph, planned(graph))
    taken = [value.name for value in alone.graph.input]
    (value,) = loaded.graph.input
    shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    x = {value.name: np.random.default_rng(5).standard_normal(shape, np.float32)}
    values = {**run_onnx(with_outputs(loaded, taken), x), **x}
    feeds = {name: values[name] for name in taken}
    outputs = executable.run(feeds)
    for name, right in run_onnx(alone, feeds).items():
        np.testing.assert_array_equal(outputs[name], right)


def test_an_lstm_that_quantizes_is_compared_on_one_core(tmp_path: Path) -> None:
    """On more cores, onnxruntime quantizes each part of the batch by itself."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[5,4,8] x) => (float[5,2,4,12] y) {'
        'y = LSTM <direction = "bidirectional", hidden_size = 12> (x, w, r) }'
    )
    for name, shape in (("w", (2, 48, 8)), ("r", (2, 48, 12))):
        array = rng.normal(size=shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    source, made = tmp_path / "source.onnx", tmp_path / "made.onnx"
    onnx.save(model, source)
    dynamic(source, made)
    loaded = onnx.load(made)
    assert "DynamicQuantizeLSTM" in {node.op_type for node in loaded.graph.node}

    found = collage.compile(loaded, ["onnxruntime"], cost=lambda _: 1e-5, race_seconds=0.01)

    assert found.report.verification.error == 0
