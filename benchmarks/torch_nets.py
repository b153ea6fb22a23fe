"""Modules of PyTorch for models that `transformers` does not have: images, detection, sequences."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import torch
from onnxscript import opset18 as op
from torch import Tensor, nn
from torch.nn import functional


def settled(module: nn.Module) -> nn.Module:
    """`module` with batch norms that change values, as training leaves them."""
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            nn.init.normal_(each.running_mean, 0, 0.1)
            nn.init.uniform_(each.running_var, 0.5, 1.5)
            nn.init.uniform_(each.weight, 0.5, 1.5)
            nn.init.normal_(each.bias, 0, 0.1)
        elif isinstance(each, nn.Conv2d):
            nn.init.kaiming_normal_(each.weight)
    return module


def conv(
    taken: int, made: int, size: int, stride: int = 1, groups: int = 1, *, act: nn.Module
) -> nn.Sequential:
    """Convolution, batch norm and activation. An image keeps its size, divided by the stride."""
    inner = nn.Conv2d(taken, made, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(inner, nn.BatchNorm2d(made), act)


# MobileNetV3


class SqueezeExcite(nn.Module):
    """Scales each channel by a number that all of the image gives."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, inner, 1),
            nn.ReLU(),
            nn.Conv2d(inner, channels, 1),
            nn.Hardsigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        scaled: Tensor = x * self.scale(x)
        return scaled


class Inverted(nn.Module):
    def __init__(
        self,
        size: int,
        taken: int,
        inner: int,
        made: int,
        *,
        squeezes: bool,
        act: nn.Module,
        stride: int,
    ) -> None:
        super().__init__()
        self.adds = stride == 1 and taken == made
        widened = [conv(taken, inner, 1, act=act)] if inner != taken else []
        squeezed = [SqueezeExcite(inner, _rounded(inner / 4))] if squeezes else []
        self.body = nn.Sequential(
            *widened,
            conv(inner, inner, size, stride, inner, act=act),
            *squeezed,
            conv(inner, made, 1, act=nn.Identity()),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return x + y if self.adds else y


def _rounded(channels: float, by: int = 8) -> int:
    """The nearest multiple, but not much less."""
    near = max(by, int(channels + by / 2) // by * by)
    return near + by if near < 0.9 * channels else near


class MobileNetV3(nn.Module):
    """The large one."""

    _BLOCKS = (  # size of the kernel, inner and made channels, squeezes, activation, stride
        (3, 16, 16, False, "RE", 1),
        (3, 64, 24, False, "RE", 2),
        (3, 72, 24, False, "RE", 1),
        (5, 72, 40, True, "RE", 2),
        (5, 120, 40, True, "RE", 1),
        (5, 120, 40, True, "RE", 1),
        (3, 240, 80, False, "HS", 2),
        (3, 200, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 184, 80, False, "HS", 1),
        (3, 480, 112, True, "HS", 1),
        (3, 672, 112, True, "HS", 1),
        (5, 672, 160, True, "HS", 2),
        (5, 960, 160, True, "HS", 1),
        (5, 960, 160, True, "HS", 1),
    )

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = [conv(3, 16, 3, 2, act=nn.Hardswish())]
        taken = 16
        for size, inner, made, squeezes, name, stride in self._BLOCKS:
            act = nn.ReLU() if name == "RE" else nn.Hardswish()
            blocks.append(
                Inverted(size, taken, inner, made, squeezes=squeezes, act=act, stride=stride)
            )
            taken = made
        self.body = nn.Sequential(
            *blocks,
            conv(160, 960, 1, act=nn.Hardswish()),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(960, 1280),
            nn.Hardswish(),
            nn.Dropout(0.2),
            nn.Linear(1280, 1000),
        )
        settled(self)
        for each in self.modules():
            if isinstance(each, SqueezeExcite):
                with torch.no_grad():  # Else all scales are 0 or 1, or decided by rounding.
                    each.scale[3].weight *= 0.01

    def forward(self, pixel_values: Tensor) -> Tensor:
        found: Tensor = self.body(pixel_values)
        return found


# U-Net


def _twice(taken: int, made: int) -> nn.Sequential:
    first, second = conv(taken, made, 3, act=nn.ReLU()), conv(made, made, 3, act=nn.ReLU())
    return nn.Sequential(first, second)


class UNet(nn.Module):
    """Five levels of `width` to 16 `width` channels, with transposed convolutions on the way up."""

    def __init__(self, width: int = 32, classes: int = 21) -> None:
        super().__init__()
        widths = [width << level for level in range(5)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in pairwise([3, *widths]))
        ups = list(pairwise(reversed(widths)))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(a, b, 2, 2) for a, b in ups)
        self.up = nn.ModuleList(_twice(a, b) for a, b in ups)
        self.head = nn.Conv2d(width, classes, 1)
        settled(self)

    def forward(self, pixel_values: Tensor) -> Tensor:
        x, passed = pixel_values, []
        for level, block in enumerate(self.down):
            x = block(functional.max_pool2d(x, 2) if level else x)
            passed.append(x)
        for grow, block, other in zip(self.grow, self.up, passed[-2::-1], strict=True):
            x = block(torch.cat([other, grow(x)], 1))
        found: Tensor = self.head(x)
        return found


# A detector


class Split(nn.Module):
    """Some of the channels pass `depth` bottlenecks; all that was on the way is concatenated."""

    def __init__(self, taken: int, made: int, depth: int, *, adds: bool) -> None:
        super().__init__()
        half, self.adds = made // 2, adds
        self.first = conv(taken, made, 1, act=nn.SiLU())
        self.inner = nn.ModuleList(
            nn.Sequential(conv(half, half, 3, act=nn.SiLU()), conv(half, half, 3, act=nn.SiLU()))
            for _ in range(depth)
        )
        self.last = conv((2 + depth) * half, made, 1, act=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.inner:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.adds else y)
        found: Tensor = self.last(torch.cat(parts, 1))
        return found


class Pyramid(nn.Module):
    """Poolings of three sizes, concatenated."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = conv(channels, channels // 2, 1, act=nn.SiLU())
        self.last = conv(2 * channels, channels, 1, act=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        found: Tensor = self.last(torch.cat(parts, 1))
        return found


class Detector(nn.Module):
    """
    As YOLOv8n: a backbone of three scales, a neck up and down again, a head for each scale that
    gives the distances of four sides as distributions, and non-maximum suppression.
    """

    _BINS = 16
    _MOST = 100

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.classes = classes
        act = nn.SiLU()
        self.stem = nn.Sequential(
            conv(3, 16, 3, 2, act=act), conv(16, 32, 3, 2, act=act), Split(32, 32, 1, adds=True)
        )
        self.third = nn.Sequential(conv(32, 64, 3, 2, act=act), Split(64, 64, 2, adds=True))
        self.fourth = nn.Sequential(conv(64, 128, 3, 2, act=act), Split(128, 128, 2, adds=True))
        self.fifth = nn.Sequential(
            conv(128, 256, 3, 2, act=act), Split(256, 256, 1, adds=True), Pyramid(256)
        )
        self.up = nn.ModuleList([Split(384, 128, 1, adds=False), Split(192, 64, 1, adds=False)])
        self.shrink = nn.ModuleList([conv(64, 64, 3, 2, act=act), conv(128, 128, 3, 2, act=act)])
        self.down = nn.ModuleList([Split(192, 128, 1, adds=False), Split(384, 256, 1, adds=False)])
        self.sides = nn.ModuleList(self._head(n, 64, 4 * self._BINS) for n in (64, 128, 256))
        self.kinds = nn.ModuleList(self._head(n, 80, classes) for n in (64, 128, 256))
        settled(self)
        with torch.no_grad():
            for side, kind in zip(self.sides, self.kinds, strict=True):
                side[-1].weight *= 0.1
                kind[-1].weight *= 0.05
                kind[-1].bias.fill_(-5)  # So that few of the boxes are taken for something.

    @staticmethod
    def _head(taken: int, inner: int, made: int) -> nn.Sequential:
        first, second = conv(taken, inner, 3, act=nn.SiLU()), conv(inner, inner, 3, act=nn.SiLU())
        return nn.Sequential(first, second, nn.Conv2d(inner, made, 1))

    def scales(self, pixel_values: Tensor) -> list[Tensor]:
        third = self.third(self.stem(pixel_values))
        fourth = self.fourth(third)
        fifth = self.fifth(fourth)
        middle = self.up[0](torch.cat([_doubled(fifth), fourth], 1))
        large = self.up[1](torch.cat([_doubled(middle), third], 1))
        middle = self.down[0](torch.cat([self.shrink[0](large), middle], 1))
        small = self.down[1](torch.cat([self.shrink[1](middle), fifth], 1))
        return [large, middle, small]

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scales = self.scales(pixel_values)
        sides = [_flat(head(x)) for head, x in zip(self.sides, scales, strict=True)]
        kinds = [_flat(head(x)) for head, x in zip(self.kinds, scales, strict=True)]
        scores = torch.cat(kinds, 2).sigmoid()
        boxes = self.boxes(torch.cat(sides, 2), *_anchors(x.shape[2:] for x in scales))
        kept = suppressed(boxes, scores, self._MOST)
        return boxes[0, kept[:, 2]], scores[0, kept[:, 1], kept[:, 2]], kept[:, 1]

    def boxes(self, sides: Tensor, anchors: Tensor, strides: Tensor) -> Tensor:
        """The corners of boxes in pixels, from the distributions of the distances of sides."""
        batch, _, places = sides.shape
        weights = sides.view(batch, 4, self._BINS, places).softmax(2)
        bins = torch.arange(self._BINS, dtype=sides.dtype).view(1, 1, -1, 1)
        before, after = (weights * bins).sum(2).chunk(2, 1)
        corners = torch.cat([anchors - before, anchors + after], 1) * strides
        return corners.transpose(1, 2)


def _doubled(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2.0, mode="nearest")


def _flat(x: Tensor) -> Tensor:
    return x.flatten(2)


def _anchors(sizes: Iterable[torch.Size]) -> tuple[Tensor, Tensor]:
    """The middle of each cell, in cells, and the size of a cell in pixels."""
    points, strides = [], []
    for level, (high, wide) in enumerate(sizes):
        y, x = torch.meshgrid(torch.arange(high) + 0.5, torch.arange(wide) + 0.5, indexing="ij")
        points.append(torch.stack([x.flatten(), y.flatten()]))
        strides.append(torch.full((1, high * wide), float(8 << level)))
    return torch.cat(points, 1)[None], torch.cat(strides, 1)[None]


@torch.library.custom_op("collage::suppressed", mutates_args=())
def suppressed(boxes: Tensor, scores: Tensor, most: int) -> Tensor:
    """
    The places of the boxes that are left, at most so many of a class, each as image, class and
    box. PyTorch has no such operator: it is `NonMaxSuppression` of ONNX, and not run here.
    """
    raise NotImplementedError


@suppressed.register_fake
def _(boxes: Tensor, scores: Tensor, most: int) -> Tensor:
    count = torch.library.get_ctx().new_dynamic_size()
    return boxes.new_empty((count, 3), dtype=torch.int64)


def suppressed_in_onnx(boxes: Any, scores: Any, most: int) -> Any:
    limits = op.Constant(value_floats=[0.5]), op.Constant(value_floats=[0.25])
    return op.NonMaxSuppression(boxes, scores, op.Constant(value_ints=[most]), *limits)


TRANSLATED = {torch.ops.collage.suppressed.default: suppressed_in_onnx}
"""What `torch.onnx.export` needs to know of operators that are not of PyTorch."""


# Sequences


class Tagger(nn.Module):
    """A tag for each word."""

    def __init__(self, words: int = 10_000, width: int = 128, tags: int = 20) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(2 * width, tags)

    def forward(self, words: Tensor) -> Tensor:
        found: Tensor = self.tags(self.lstm(self.words(words))[0])
        return found


class Keywords(nn.Module):
    """What a recording says, from the last state of a GRU."""

    def __init__(self, features: int = 40, width: int = 128, classes: int = 12) -> None:
        super().__init__()
        self.gru = nn.GRU(features, width, 2, batch_first=True)
        self.last = nn.Linear(width, classes)

    def forward(self, frames: Tensor) -> Tensor:
        found: Tensor = self.last(self.gru(frames)[0][:, -1])
        return found


class Experts(nn.Module):
    """Each token passes the two of eight networks that a router gives the most weight."""

    def __init__(self, width: int, inner: int, experts: int = 8, taken: int = 2) -> None:
        super().__init__()
        self.taken = taken
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, inner) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, inner, width) / inner**0.5)

    def forward(self, x: Tensor) -> Tensor:
        weights, chosen = self.router(x).softmax(-1).topk(self.taken, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        made = functional.silu(x.unsqueeze(-3) @ self.up) @ self.down
        spread = torch.zeros_like(self.router(x)).scatter(-1, chosen, weights)
        return (made * spread.transpose(-1, -2).unsqueeze(-1)).sum(-3)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.experts = Experts(width, 4 * width)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        parts = self.parts(self.before(x)).chunk(3, -1)
        q, k, v = (p.view(batch, tokens, self.heads, -1).transpose(1, 2) for p in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(y.transpose(1, 2).reshape(batch, tokens, width))
        found: Tensor = x + self.experts(self.between(x))
        return found


class Mixture(nn.Module):
    """Four layers of a language model with experts."""

    def __init__(self, width: int = 256, layers: int = 4, words: int = 1000) -> None:
        super().__init__()
        blocks = (Block(width, 4) for _ in range(layers))
        self.body = nn.Sequential(*blocks, nn.LayerNorm(width), nn.Linear(width, words))

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.body(tokens)
        return found
