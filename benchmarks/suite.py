"""
Models that the light ones lack, in their true architectures, with random weights.

`bert_base` and `minilm` are exported by PyTorch (`torch_models.py`), which is no dependency:
`make models` has it in an environment of its own, `.venv-models`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from math import sqrt
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from layers import Layers

from collage_dsl.frontend.light import light_model, light_models

EXPORTED = ("bert_base", "minilm")
"""The models that PyTorch exports."""


def names() -> tuple[str, ...]:
    """The nine light models, those of this file, and those of PyTorch where it is installed."""
    return (*light_models(), *_WRITTEN, *(EXPORTED if find_spec("torch") else ()))


def model(name: str) -> onnx.ModelProto:
    """The model of a name, or of an ONNX file."""
    if name.endswith(".onnx"):
        return onnx.load(name)
    if name in EXPORTED:
        return _exported(name)
    if name not in _WRITTEN:
        return light_model(name)
    net = Layers()
    return onnx.shape_inference.infer_shapes(net.model(_WRITTEN[name](net)))


def _exported(name: str) -> onnx.ModelProto:
    import torch_models  # needs PyTorch

    with TemporaryDirectory() as folder:
        return onnx.load(torch_models.export(name, Path(folder)))


def mobilenet_v2(net: Layers) -> str:
    """Batch norm is folded into the convolutions, as exporters do."""
    x = net.relu6(net.conv(net.input(1, 3, 224, 224), 3, 32, 3, 2))
    taken = 32
    for expansion, made, repeats, first_stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for index in range(repeats):
            x = net.inverted(x, taken, expansion * taken, made, 1 if index else first_stride)
            taken = made
    x = net.relu6(net.conv(x, taken, 1280, 1))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.fully_connected(x, 1280, 1000)


def vit_tiny(net: Layers) -> str:
    """Patches of 16, width 192, 12 layers of 3 heads."""
    width, tokens = 192, 197
    x = net.conv(net.input(1, 3, 224, 224), 3, width, 16, 16, pad=0)
    x = net.node("Reshape", x, net.constant([1, width, tokens - 1], "int64"))
    x = net.node("Transpose", x, perm=[0, 2, 1])
    x = net.node("Concat", net.weight(1, 1, width, deviation=0.5), x, axis=1)
    x = net.node("Add", x, net.weight(1, tokens, width, deviation=0.5))
    for _ in range(12):
        x = net.encoder(x, tokens, width, 3)
    x = net.node("Gather", net.layer_norm(x, width), net.constant(0, "int64"), axis=1)
    return net.fully_connected(x, width, 1000)


def convnext_tiny(net: Layers) -> str:
    def norm(x: str, width: int) -> str:
        """Of the channels of an image."""
        x = net.layer_norm(net.node("Transpose", x, perm=[0, 2, 3, 1]), width)
        return net.node("Transpose", x, perm=[0, 3, 1, 2])

    def block(x: str, width: int) -> str:
        y = net.conv(x, width, width, 7, groups=width)
        y = net.layer_norm(net.node("Transpose", y, perm=[0, 2, 3, 1]), width)
        y = net.linear(net.node("Gelu", net.linear(y, width, 4 * width)), 4 * width, width)
        y = net.node("Mul", y, net.weight(width, deviation=0.1, mean=0.3))
        return net.node("Add", net.node("Transpose", y, perm=[0, 3, 1, 2]), x)

    x = norm(net.conv(net.input(1, 3, 224, 224), 3, 96, 4, 4, pad=0), 96)
    for stage, (width, blocks) in enumerate(((96, 3), (192, 3), (384, 9), (768, 3))):
        if stage:
            x = net.conv(norm(x, width // 2), width // 2, width, 2, 2, pad=0)
        for _ in range(blocks):
            x = block(x, width)
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    return net.fully_connected(net.layer_norm(x, 768), 768, 1000)


def gpt2(net: Layers) -> str:
    """
    The smallest GPT-2 on 64 tokens: 12 layers of 12 heads, width 768, 50 257 words. It takes tokens
    after the look-up of words, which pnnx does not convert.
    """
    width, tokens, words = 768, 64, 50257
    x = net.node("Add", net.input(1, tokens, width), net.weight(1, tokens, width, deviation=0.1))
    hidden = np.triu(np.full((1, 1, tokens, tokens), -1e4, np.float32), 1)
    mask = net.constant(hidden)
    for _ in range(12):
        x = net.decoder(x, tokens, width, 12, mask)
    x = net.layer_norm(x, width)
    return net.node("MatMul", x, net.weight(width, words, deviation=1 / sqrt(width)))


_WRITTEN: Mapping[str, Callable[[Layers], str]] = {
    "mobilenet_v2": mobilenet_v2,
    "vit_tiny": vit_tiny,
    "convnext_tiny": convnext_tiny,
    "gpt2": gpt2,
}
