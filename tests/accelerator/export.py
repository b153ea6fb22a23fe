"""
Write the models in this folder anew: small ones with random weights, as PyTorch exports them.

    .venv-models/bin/python tests/accelerator/export.py [MODEL …]

Each is exported by both exporters of PyTorch: `NAME.onnx` by that of today, which goes through
`torch.export`, and `NAME-traced.onnx` by the older one. The names of modules, which the files also
hold, are left out. `tests/test_accelerator.py` finds fusions in them.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
import transformers as hf
from torch import Tensor, nn
from torch.nn import functional

FOLDER = Path(__file__).parent
sys.path.append(str(FOLDER.parent.parent / "benchmarks"))

import quantized  # noqa: E402 - a module of the benchmarks
import torch_models  # noqa: E402 - a module of the benchmarks
import torch_nets as nets  # noqa: E402 - a module of the benchmarks

TRACED = "-traced"
"""The end of the name of a model that the older exporter wrote."""


@dataclass(frozen=True, slots=True)
class Small:
    """A module and the arguments that it is exported with, by name."""

    module: nn.Module
    arguments: Mapping[str, Tensor]


# Texts. A width of 8 keeps the files small.

_TEXT: dict[str, Any] = {
    "vocab_size": 10,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 8,
    "type_vocab_size": 2,
}


def _text(model: nn.Module, tokens: int = 6) -> Small:
    ids, mask = torch.randint(0, 10, (1, tokens)), torch.ones(1, tokens, dtype=torch.int64)
    return Small(model, {"input_ids": ids, "attention_mask": mask})


def bert() -> Small:
    return _text(hf.BertModel(hf.BertConfig(**_TEXT)))


def bert_eager() -> Small:
    """Attention in the operators that it is made of, and GELU as in the first BERT."""
    config = hf.BertConfig(**_TEXT, attn_implementation="eager", hidden_act="gelu_python")
    return _text(hf.BertModel(config, add_pooling_layer=False))


def gpt2() -> Small:
    return _text(hf.GPT2Model(_gpt2("sdpa")))


def gpt2_eager() -> Small:
    return _text(hf.GPT2Model(_gpt2("eager")))


def _gpt2(attention: str) -> Any:
    return hf.GPT2Config(
        vocab_size=10,
        n_positions=8,
        n_embd=8,
        n_layer=2,
        n_head=2,
        use_cache=False,
        attn_implementation=attention,
    )


def llama() -> Small:
    """Rotary embedding, RMSNorm, SwiGLU, and two heads of queries for each of keys."""
    return _text(hf.LlamaModel(_llama("sdpa")))


def llama_eager() -> Small:
    return _text(hf.LlamaModel(_llama("eager")))


def _llama(attention: str) -> Any:
    return hf.LlamaConfig(
        vocab_size=10,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=8,
        use_cache=False,
        attn_implementation=attention,
    )


class Decoder(nn.Module):
    """Causal attention as `torch.nn.functional` has it, on one sequence."""

    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.parts, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        batch, length, width = tokens.shape
        parts = self.parts(tokens).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        joined: Tensor = self.joined(y.transpose(1, 2).reshape(batch, length, width))
        return joined


def causal() -> Small:
    return Small(Decoder(), {"tokens": torch.randn(1, 6, 8)})


# Images


def _images(model: nn.Module, size: int) -> Small:
    return Small(model, {"pixel_values": torch.randn(1, 3, size, size)})


def vit() -> Small:
    config = hf.ViTConfig(
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=8,
        patch_size=4,
        num_labels=4,
    )
    return _images(hf.ViTForImageClassification(config), 8)


def convnext() -> Small:
    config = hf.ConvNextConfig(hidden_sizes=[4, 8], depths=[1, 1], num_stages=2, num_labels=4)
    return _images(hf.ConvNextForImageClassification(config), 32)


class Mobile(nn.Module):
    """The first blocks of a MobileNet, with the activation of its version 2 or 3."""

    def __init__(self, act: nn.Module, *, squeezes: bool) -> None:
        super().__init__()
        shape = {"squeezes": squeezes, "act": act}
        self.body = nn.Sequential(
            nets.conv(3, 8, 3, 2, act=act),
            nets.Inverted(3, 8, 16, 8, stride=1, **shape),
            nets.Inverted(3, 8, 16, 8, stride=2, **shape),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 16),
            act,
            nn.Linear(16, 4),
        )
        nets.settled(self)

    def forward(self, pixel_values: Tensor) -> Tensor:
        found: Tensor = self.body(pixel_values)
        return found


def mobilenet_v2() -> Small:
    return _images(Mobile(nn.ReLU6(), squeezes=False), 16)


def mobilenet_v3() -> Small:
    return _images(Mobile(nn.Hardswish(), squeezes=True), 16)


class Inception(nn.Module):
    """Modules of three and of four branches, and one whose branches take different values."""

    def __init__(self) -> None:
        super().__init__()
        relu = nn.ReLU()
        self.stem = nets.conv(3, 4, 3, 2, act=relu)
        self.three = nn.ModuleList(nets.conv(4, 4, size, act=relu) for size in (1, 3, 5))
        self.four = nn.ModuleList(nets.conv(12, 4, size, act=relu) for size in (1, 3, 1, 5))
        self.other = nets.conv(16, 4, 1, act=relu)
        nets.settled(self)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x = self.stem(pixel_values)
        x = torch.cat([branch(x) for branch in self.three], 1)
        x = torch.cat([branch(x) for branch in self.four], 1)
        return torch.cat([self.other(x), functional.max_pool2d(x, 3, 1, 1)], 1)


def inception() -> Small:
    return _images(Inception(), 8)


# Features


class Dense(nn.Module):
    """Stacks of five and of two dense layers, with something else between them."""

    def __init__(self) -> None:
        super().__init__()
        self.five = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(5)))
        self.two = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4), nn.ReLU())

    def forward(self, features: Tensor) -> Tensor:
        found: Tensor = self.two(torch.tanh(self.five(features)))
        return found


def dense() -> Small:
    return Small(Dense(), {"features": torch.randn(2, 8)})


class Spellings(nn.Module):
    """
    GELU, hard-swish and SiLU as people write them, and functions that look like them and are none.
    Each is on a tensor of its own.
    """

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(x * number) for number, function in enumerate(_SPELLINGS, 2))


_SPELLINGS: tuple[Callable[[Tensor], Tensor], ...] = (
    # GELU
    functional.gelu,
    lambda x: x * 0.5 * (1.0 + torch.erf(x / 2**0.5)),
    lambda x: 0.5 * x * (1.0 + torch.erf(x * 0.7071067811865476)),
    lambda x: x * (0.5 * (1.0 + torch.erf(x / 2**0.5))),
    lambda x: 0.5 * (x * (1.0 + torch.erf(x / 2**0.5))),
    lambda x: x * ((1.0 + torch.erf(x / 2**0.5)) / 2),
    lambda x: x * (1.0 + torch.erf(x / 2**0.5)) / 2,
    lambda x: x * (0.5 + 0.5 * torch.erf(x / 2**0.5)),
    # GELU by tanh
    lambda x: functional.gelu(x, approximate="tanh"),
    lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3)))),
    lambda x: 0.5 * x * (1 + torch.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x))),
    lambda x: 0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))),
    # GELU by sigmoid
    lambda x: x * torch.sigmoid(1.702 * x),
    # Hard-swish
    functional.hardswish,
    lambda x: x * functional.relu6(x + 3) / 6,
    lambda x: x * (functional.relu6(x + 3) / 6),
    lambda x: functional.relu6(x + 3) * x / 6,
    lambda x: x * functional.hardsigmoid(x),
    lambda x: x * torch.clamp(x / 6 + 0.5, 0, 1),
    lambda x: x * torch.clamp(x + 3, 0, 6) * (1 / 6),
    # SiLU
    functional.silu,
    lambda x: x * torch.sigmoid(x),
    lambda x: x / (1 + torch.exp(-x)),
    # None of them
    lambda x: x * 0.5 * (1.0 + torch.erf(x / 1.5)),
    lambda x: 0.5 * x * (2.0 + torch.erf(x / 2**0.5)),
    lambda x: x * functional.relu6(x + 2) / 6,
    lambda x: x * torch.clamp(x + 3, 0, 5) / 6,
    lambda x: x * torch.clamp(x + 3, 0, 6) / 5,
    lambda x: (x + 1) * torch.sigmoid(x),
)


def spellings() -> Small:
    return Small(Spellings(), {"x": torch.randn(2, 4)})


class Turns(nn.Module):
    """
    Rotary embedding of neighbours as people write it, and functions that look like it and are none.
    Each is on a tensor of its own, with angles of its own.
    """

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            turn(x * number, cos * number, sin * number) for number, turn in enumerate(_TURNS, 2)
        )


def _interleaved(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), -1).flatten(-2)


def _apart(a: Tensor, b: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    cos, sin = cos[..., :2], sin[..., :2]
    return _interleaved(a * cos - b * sin, a * sin + b * cos)


def _pairs(x: Tensor) -> Tensor:
    return x.reshape(*x.shape[:-1], -1, 2)


_TURNS: tuple[Callable[[Tensor, Tensor, Tensor], Tensor], ...] = (
    lambda x, cos, sin: x * cos + _interleaved(-x[..., 1::2], x[..., ::2]) * sin,
    lambda x, cos, sin: _apart(x[..., ::2], x[..., 1::2], cos, sin),
    lambda x, cos, sin: _apart(_pairs(x)[..., 0], _pairs(x)[..., 1], cos, sin),
    lambda x, cos, sin: _apart(*_pairs(x).unbind(-1), cos, sin),
    # None of them
    lambda x, cos, sin: x * cos + _interleaved(x[..., 1::2], x[..., ::2]) * sin,
    lambda x, cos, sin: x * cos + _interleaved(x[..., ::2], -x[..., 1::2]) * sin,
    lambda x, cos, sin: _apart(x[..., 1::2], x[..., ::2], cos, sin),
    lambda x, cos, sin: _apart(x[..., :2], x[..., 2:], cos, sin),
    lambda x, cos, sin: x * cos + torch.cat((-x[..., 1::2], x[..., ::2]), -1) * sin,
)


def turns() -> Small:
    x, angles = torch.randn(1, 2, 6, 4), torch.randn(2, 6, 4)
    return Small(Turns(), {"x": x, "cos": angles[0], "sin": angles[1]})


MODELS: Mapping[str, Callable[[], Small]] = {
    each.__name__: each
    for each in (
        bert,
        bert_eager,
        gpt2,
        gpt2_eager,
        llama,
        llama_eager,
        causal,
        vit,
        convnext,
        mobilenet_v2,
        mobilenet_v3,
        inception,
        dense,
        spellings,
        turns,
    )
}

QUANTIZED = ("dense", "vit")
"""The models that onnxruntime quantizes too, as `NAME-quantized.onnx`."""


def export(name: str) -> list[Path]:
    written = [FOLDER / f"{name}.onnx", FOLDER / f"{name}{TRACED}.onnx"]
    for path in written:
        torch.manual_seed(0)
        small = MODELS[name]()
        torch_models.stir(small.module)
        _write(small, path, traced=path.stem.endswith(TRACED))
        _shorten(path)
    if name in QUANTIZED:
        written.append(FOLDER / f"{name}-quantized.onnx")
        quantized.static(written[0], written[-1])
        _shorten(written[-1])
    return written


class First(nn.Module):
    """A model of `transformers` with its first output alone, which both exporters take."""

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *values: Tensor) -> Tensor:
        first: Tensor = self.model(**dict(zip(self.names, values, strict=True)))[0]
        return first


def _write(small: Small, path: Path, *, traced: bool) -> None:
    for logger in ("torch.onnx", "onnx_ir", "onnxscript"):
        logging.getLogger(logger).setLevel(logging.ERROR)
    named, values = tuple(small.arguments), tuple(small.arguments.values())
    transformed = isinstance(small.module, hf.PreTrainedModel)
    module = First(small.module, named) if transformed else small.module
    with warnings.catch_warnings(), torch.no_grad(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")  # Advice to those who write the exporter.
        with redirect_stdout(nowhere):
            torch.onnx.export(
                module.eval(),
                values,
                path,
                input_names=list(named),
                dynamo=not traced,
                external_data=False,
            )


def _shorten(path: Path) -> None:
    """Leave out what says only from where in the module a node is."""
    model = onnx.load(path)
    del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.name = node.doc_string = ""
    model.graph.doc_string = ""
    onnx.save(model, path)


def main() -> None:
    for name in sys.argv[1:] or MODELS:
        for path in export(name):
            sys.stdout.write(f"{path.stat().st_size:7} {path.name}\n")


if __name__ == "__main__":
    main()
