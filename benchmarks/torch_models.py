"""
Models as PyTorch exports them to ONNX: well-known architectures with random weights.

    python benchmarks/torch_models.py FOLDER [MODEL …] [--free]

Those of `transformers` are made from their configurations, without a download. The others are
modules of `torch_nets.py`. Each is exported by `torch.onnx.export` with what it does by default.
The same seed gives the same weights. Needs what `requirements-models.txt` lists.
"""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch_nets as nets
import transformers as hf
from torch import Tensor, nn

SEED = 0


@dataclass(frozen=True, slots=True)
class Traced:
    """
    A module, and what it is traced with: its arguments by name, and the names of its outputs.
    `free` has the dimensions of arguments that `export` can leave open.
    """

    module: nn.Module
    arguments: Mapping[str, Tensor]
    outputs: Sequence[str]
    free: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


def names() -> tuple[str, ...]:
    return tuple(_MODELS)


def export(name: str, folder: Path, *, free: bool = False) -> Path:
    """
    The file of a model in `folder`, which is written if it is not there. With `free`, its batch
    and the length of its texts can be of any size.
    """
    path = folder / f"{name}{'-free' if free else ''}.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(SEED)
    traced = _MODELS[name]()
    stir(traced.module)
    traced.module.eval()
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    partial = path.with_suffix(".partial")
    with warnings.catch_warnings(), torch.no_grad(), open(os.devnull, "w") as nowhere:
        warnings.simplefilter("ignore")  # Advice to those who write the exporter.
        with redirect_stdout(nowhere):
            torch.onnx.export(
                traced.module,
                kwargs=_several(traced.arguments) if free else dict(traced.arguments),
                f=partial,
                input_names=list(traced.arguments),
                output_names=list(traced.outputs),
                dynamic_shapes=_open(traced) if free else None,
                external_data=False,
                custom_translation_table=nets.TRANSLATED,
            )
    partial.rename(path)
    return path


def stir(module: nn.Module) -> None:
    """
    Random numbers for parameters that begin as a constant: biases of 0, scales of 1, and scales of
    layers of 1e-6, which would hide what the layers compute.
    """
    with torch.no_grad():
        for each in module.parameters():
            if each.numel() > 1 and each.min() == each.max():
                each.add_(0.1 * torch.randn_like(each))


def _several(arguments: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The arguments for a batch of two: PyTorch takes a size of one for a fixed one."""
    return {name: torch.cat([each, each]) for name, each in arguments.items()}


def _open(traced: Traced) -> dict[str, dict[int, str]]:
    if not traced.free:
        raise ValueError("no dimension of the model is free")
    return {name: dict(traced.free.get(name, {})) for name in traced.arguments}


def _text(model: Any, words: int, tokens: int, *outputs: str) -> Traced:
    """A model that takes the numbers of words, and which of them are not padding."""
    ids, mask = torch.randint(0, words, (1, tokens)), torch.ones(1, tokens, dtype=torch.int64)
    free = {0: "batch", 1: "tokens"}
    arguments = {"input_ids": ids, "attention_mask": mask}
    return Traced(model, arguments, outputs, dict.fromkeys(arguments, free))


def _images(model: nn.Module, size: int, *outputs: str) -> Traced:
    arguments = {"pixel_values": torch.randn(1, 3, size, size)}
    return Traced(model, arguments, outputs, {"pixel_values": {0: "batch"}})


def _logits(model: Any, size: int = 224) -> Traced:
    return _images(model, size, "logits")


def bert_base() -> Traced:
    config = hf.BertConfig()
    model = hf.BertModel(config)
    return _text(model, config.vocab_size, 128, "last_hidden_state", "pooler_output")


def minilm() -> Traced:
    """MiniLM-L6, as in sentence transformers."""
    config = hf.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = hf.BertModel(config, add_pooling_layer=False)
    return _text(model, config.vocab_size, 128, "last_hidden_state")


def distilbert() -> Traced:
    config = hf.DistilBertConfig()
    return _text(hf.DistilBertModel(config), config.vocab_size, 128, "last_hidden_state")


def gpt2() -> Traced:
    config = hf.GPT2Config(use_cache=False)
    return _text(hf.GPT2LMHeadModel(config), config.vocab_size, 64, "logits")


def llama() -> Traced:
    """A small model of the architecture: rotary embedding, RMSNorm, heads that share keys."""
    config = hf.LlamaConfig(
        hidden_size=256,
        intermediate_size=688,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=2,
        use_cache=False,
    )
    return _text(hf.LlamaForCausalLM(config), config.vocab_size, 64, "logits")


def t5_small_encoder() -> Traced:
    config = hf.T5Config()
    return _text(hf.T5EncoderModel(config), config.vocab_size, 128, "last_hidden_state")


def whisper_tiny_encoder() -> Traced:
    """On the spectrum of 30 seconds of sound."""
    config = hf.WhisperConfig(
        d_model=384,
        encoder_layers=4,
        encoder_attention_heads=6,
        encoder_ffn_dim=1536,
        decoder_layers=4,
        decoder_attention_heads=6,
        decoder_ffn_dim=1536,
    )
    features = {"input_features": torch.randn(1, config.num_mel_bins, 3000)}
    model = hf.WhisperModel(config).encoder
    return Traced(model, features, ["last_hidden_state"], {"input_features": {0: "batch"}})


def vit_base() -> Traced:
    return _logits(hf.ViTForImageClassification(hf.ViTConfig(num_labels=1000)))


def swin_tiny() -> Traced:
    return _logits(hf.SwinForImageClassification(hf.SwinConfig(num_labels=1000)))


def convnext_tiny() -> Traced:
    return _logits(hf.ConvNextForImageClassification(hf.ConvNextConfig(num_labels=1000)))


def efficientnet_b0() -> Traced:
    config = hf.EfficientNetConfig(
        image_size=224,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_dim=1280,
        num_labels=1000,
    )
    return _logits(nets.settled(hf.EfficientNetForImageClassification(config)))


def mobilenet_v3() -> Traced:
    return _images(nets.MobileNetV3(), 224, "logits")


def unet() -> Traced:
    return _images(nets.UNet(), 256, "masks")


def yolo() -> Traced:
    return _images(nets.Detector(), 320, "boxes", "scores", "classes")


def lstm_tagger() -> Traced:
    ids = {"words": torch.randint(0, 10_000, (1, 32))}
    return Traced(nets.Tagger(), ids, ["tags"])


def gru() -> Traced:
    """On a second of sound in frames of 10 ms."""
    features = {"frames": torch.randn(1, 100, 40)}
    return Traced(nets.Keywords(), features, ["logits"])


def mixture_of_experts() -> Traced:
    return Traced(nets.Mixture(), {"tokens": torch.randn(1, 64, 256)}, ["logits"])


_MODELS: Mapping[str, Callable[[], Traced]] = {
    each.__name__: each
    for each in (
        bert_base,
        minilm,
        distilbert,
        gpt2,
        llama,
        t5_small_encoder,
        whisper_tiny_encoder,
        vit_base,
        swin_tiny,
        convnext_tiny,
        efficientnet_b0,
        mobilenet_v3,
        unet,
        yolo,
        lstm_tagger,
        gru,
        mixture_of_experts,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Export models of PyTorch to ONNX.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(names()))
    parser.add_argument("--free", action="store_true", help="with dimensions of any size")
    given = parser.parse_args()
    for name in given.models or names():
        print(export(name, given.folder, free=given.free), flush=True)


if __name__ == "__main__":
    main()
