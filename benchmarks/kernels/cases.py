"""The kernels that are compared, as ONNX models of one kernel each, by kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx
from layers import Layers

GOALS: dict[str, float | None] = {
    "3x3 vgg19": 0.35,
    "3x3 resnet50 @56 @28": 0.40,
    "3x3 resnet50 @14": 0.55,
    "3x3 resnet50 @7": 0.75,
    "3x3 inception": 0.55,
    "3x3 squeezenet": 0.55,
    "3x3 other": 1.05,
    "1x1": 1.05,
    "strided": 1.05,
    "first": 1.05,
    "5x5": 1.05,
    "1x7 and 7x1": 1.05,
    "grouped": 1.05,
    "depthwise": 1.05,
    "depthwise block": 0.85,
    "depthwise pair": 0.85,
    "transposed": 1.05,
    "dilated": 0.80,
    "3x3x3": 0.80,
    "resize": 1.05,
    "permutation": 1.05,
    "pool": None,
    "LRN": None,
    "join": None,
    "fully connected": 1.05,
    "matmul": 1.05,
    "attention": 1.05,
    "softmax": None,
    "layer norm": None,
    "gelu": None,
    "function": None,
}
"""
Each kind of kernel, with the largest ratio it should have to the better of onnxruntime and
openvino, evicted, on one thread. The last convolutions of VGG-19, on small images, are `3x3 other`.
"""

Write = Callable[[Layers], str]


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel. `write` writes its model and returns the name of its result."""

    kind: str
    name: str
    write: Write

    def model(self) -> onnx.ModelProto:
        layers = Layers()
        result = self.write(layers)
        return onnx.shape_inference.infer_shapes(layers.model(result))


def cases() -> list[Case]:
    """All kernels, in the order of the kinds."""
    made = [
        *convolutions(),
        *depthwise(),
        *transposed(),
        *dilated(),
        *volumes(),
        *resizing(),
        *permutations(),
        *poolings(),
        *joins(),
        *of_tokens(),
    ]
    order = list(GOALS)
    return sorted(made, key=lambda case: order.index(case.kind))


THREE_BY_THREE = {
    "3x3 vgg19": "64@224 64-128@112 128@112 128-256@56 256@56 256-512@28 512@28",
    "3x3 other": "512@14",
    "3x3 resnet50 @56 @28": "64@56 128@28",
    "3x3 resnet50 @14": "256@14",
    "3x3 resnet50 @7": "512@7",
    "3x3 inception": "64-192@56 96-128@28 128-192@28 96-208@14 112-224@14 128-256@14 144-288@14 "
    "160-320@14 160-320@7 192-384@7",
    "3x3 squeezenet": "16-64@55 32-128@27 48-192@13 64-256@13",
}
"""Channels taken and made, and the size of the image; with stride 1, bias and relu."""


def convolutions() -> Iterator[Case]:
    for kind, layers in THREE_BY_THREE.items():
        for layer in layers.split():
            yield convolution(kind, layer)
    for layer in (
        "256-64@56",
        "64-256@56",
        "512-128@28",
        "1024-256@14",
        "1024-512@14",
        "512-2048@7",
        "2048-512@7",
    ):
        yield convolution("1x1", layer, 1)
    for layer in ("256-512@56", "1024-2048@14"):
        yield convolution("1x1", layer, 1, stride=2)
    for layer in ("128@56", "256@28", "512@14"):
        yield convolution("strided", layer, stride=2)
    yield convolution("strided", "96-256@54", 5, stride=2)
    yield convolution("first", "3-64@224", 7, stride=2)
    yield convolution("first", "3-96@224", 7, stride=2)
    yield convolution("first", "3-96@224", 11, stride=4, pad=2)
    yield convolution("first", "3-64@224")
    yield convolution("first", "3-32@224", stride=2)
    yield convolution("5x5", "16-32@28", 5)
    yield convolution("5x5", "32-96@28", 5)
    yield convolution("5x5", "96-256@27", 5, groups=2)
    yield convolution("1x7 and 7x1", "128-192@17", (1, 7))
    yield convolution("1x7 and 7x1", "192@17", (7, 1))
    yield convolution("grouped", "128@56", groups=32)
    yield convolution("grouped", "256@28", groups=32)
    yield convolution("grouped", "512@14", groups=32)
    yield convolution("grouped", "384@13", groups=2)


def convolution(
    kind: str,
    layer: str,
    size: int | tuple[int, int] = 3,
    stride: int = 1,
    groups: int = 1,
    pad: int | None = None,
) -> Case:
    """`layer` is `made@image`, or `taken-made@image`."""
    channels, _, image = layer.partition("@")
    taken, _, made = channels.partition("-")

    def write(net: Layers) -> str:
        x = net.input(1, int(taken), int(image), int(image))
        return net.relu(net.conv(x, int(taken), int(made or taken), size, stride, groups, pad))

    high, wide = (size, size) if isinstance(size, int) else size
    more = f" s{stride}" * (stride > 1) + f" g{groups}" * (groups > 1)
    return Case(kind, f"conv {high}x{wide} {layer}{more}", write)


def depthwise() -> Iterator[Case]:
    for channels, image, size, stride in (
        (32, 112, 3, 1),
        (144, 56, 3, 1),
        (144, 56, 3, 2),
        (384, 14, 3, 1),
        (960, 7, 3, 1),
        (240, 28, 5, 1),
        (672, 14, 5, 2),
    ):
        layer = f"{channels}@{image}"
        yield convolution("depthwise", layer, size, stride, groups=channels)
    for taken, inner, made, image, stride in (
        (32, 32, 16, 112, 1),
        (16, 96, 24, 112, 2),
        (24, 144, 24, 56, 1),
        (32, 192, 32, 28, 1),
        (64, 384, 64, 14, 1),
        (160, 960, 160, 7, 1),
    ):
        yield Case(
            "depthwise block" if inner > taken else "depthwise pair",
            f"{taken}-{inner}-{made}@{image}" + f" s{stride}" * (stride > 1),
            block(taken, inner, made, image, stride),
        )
    for taken, made, image in ((144, 24, 56), (384, 64, 14)):
        yield Case("depthwise pair", f"{taken}-{made}@{image}", block(taken, taken, made, image, 1))


def block(taken: int, inner: int, made: int, image: int, stride: int) -> Write:
    return lambda net: net.inverted(net.input(1, taken, image, image), taken, inner, made, stride)


def transposed() -> Iterator[Case]:
    def case(taken: int, made: int, image: int, size: int, pad: int) -> Case:
        def write(net: Layers) -> str:
            x = net.input(1, taken, image, image)
            weight = net.weight(taken, made, size, size, deviation=0.02)
            bias = net.weight(made)
            return net.node("ConvTranspose", x, weight, bias, strides=[2, 2], pads=[pad] * 4)

        return Case("transposed", f"transposed {size}x{size} s2 {taken}-{made}@{image}", write)

    yield case(1024, 512, 4, 4, 1)
    yield case(512, 256, 8, 4, 1)
    yield case(256, 128, 16, 4, 1)
    yield case(128, 64, 32, 4, 1)
    yield case(64, 3, 64, 4, 1)
    yield case(128, 64, 32, 2, 0)


def dilated() -> Iterator[Case]:
    """Convolutions of the networks that segment images."""

    def case(channels: int, image: int, step: int) -> Case:
        def write(net: Layers) -> str:
            x = net.input(1, channels, image, image)
            weight = net.weight(channels, channels, 3, 3, deviation=(9 * channels) ** -0.5)
            more = {"dilations": [step, step], "pads": [step] * 4}
            return net.relu(net.node("Conv", x, weight, net.weight(channels), **more))

        return Case("dilated", f"conv 3x3 {channels}@{image} d{step}", write)

    yield case(64, 64, 2)
    yield case(256, 28, 2)
    yield case(512, 28, 4)
    yield case(128, 65, 4)


def volumes() -> Iterator[Case]:
    """Convolutions of several planes, as for videos and scans."""

    def case(taken: int, made: int, planes: int, image: int) -> Case:
        def write(net: Layers) -> str:
            x = net.input(1, taken, planes, image, image)
            weight = net.weight(made, taken, 3, 3, 3, deviation=(27 * taken) ** -0.5)
            return net.relu(net.node("Conv", x, weight, net.weight(made), pads=[1] * 6))

        return Case("3x3x3", f"conv 3x3x3 {taken}-{made}@{planes}x{image}", write)

    yield case(3, 32, 8, 56)
    yield case(32, 64, 8, 28)
    yield case(64, 64, 16, 32)
    yield case(128, 128, 4, 14)


def resizing() -> Iterator[Case]:
    """Images made larger, as by the networks that detect and segment."""

    def case(mode: str, coordinates: str, channels: int, image: int, made: int) -> Case:
        def write(net: Layers) -> str:
            x = net.input(1, channels, image, image)
            sizes = net.constant([1, channels, made, made], "int64")
            more = {"coordinate_transformation_mode": coordinates, "nearest_mode": "floor"}
            return net.node("Resize", x, "", "", sizes, mode=mode, **more)

        return Case("resize", f"{mode} {coordinates} {channels}@{image}-{made}", write)

    yield case("nearest", "asymmetric", 256, 20, 40)
    yield case("nearest", "asymmetric", 128, 40, 80)
    yield case("linear", "half_pixel", 64, 64, 128)
    yield case("linear", "align_corners", 21, 65, 513)
    yield case("cubic", "half_pixel", 32, 32, 128)


def permutations() -> Iterator[Case]:
    """Matrices, heads of attention, and images in another layout."""
    for shape, axes in (
        ((768, 768), (1, 0)),
        ((4096, 1024), (1, 0)),
        ((1000, 300), (1, 0)),
        ((1, 197, 12, 64), (0, 2, 1, 3)),
        ((1, 12, 197, 64), (0, 1, 3, 2)),
        ((1, 64, 56, 56), (0, 2, 3, 1)),
        ((1, 56, 56, 64), (0, 3, 1, 2)),
    ):
        yield permutation(shape, axes)


def permutation(shape: tuple[int, ...], axes: tuple[int, ...]) -> Case:
    def write(net: Layers) -> str:
        return net.node("Transpose", net.input(*shape), perm=list(axes))

    name = f"{'x'.join(map(str, shape))} to {''.join(map(str, axes))}"
    return Case("permutation", name, write)


def poolings() -> Iterator[Case]:
    def pool(name: str, channels: int, image: int, kind: str, **attributes: object) -> Case:
        def write(net: Layers) -> str:
            return net.node(kind, net.input(1, channels, image, image), **attributes)

        return Case("LRN" if kind == "LRN" else "pool", f"{name} {channels}@{image}", write)

    three, two = {"kernel_shape": [3, 3]}, {"kernel_shape": [2, 2]}
    yield pool("max 3x3 s2", 64, 112, "MaxPool", **three, strides=[2, 2], pads=[1] * 4)
    yield pool("max 3x3 s2", 96, 55, "MaxPool", **three, strides=[2, 2])
    yield pool("max 3x3 s1", 192, 28, "MaxPool", **three, pads=[1] * 4)
    yield pool("max 2x2 s2", 64, 224, "MaxPool", **two, strides=[2, 2])
    yield pool("max 2x2 s2", 512, 28, "MaxPool", **two, strides=[2, 2])
    yield pool("average 3x3 s1", 192, 28, "AveragePool", **three, pads=[1] * 4)
    yield pool("average 2x2 s2", 128, 56, "AveragePool", **two, strides=[2, 2])
    yield pool("global average", 1000, 13, "GlobalAveragePool")
    yield pool("global average", 2048, 7, "GlobalAveragePool")
    yield pool("LRN", 64, 56, "LRN", size=5, alpha=1e-4, beta=0.75)
    yield pool("LRN", 96, 55, "LRN", size=5, alpha=1e-4, beta=0.75)


def joins() -> Iterator[Case]:
    def concat(net: Layers) -> str:
        return net.node("Concat", *(net.input(1, c, 28, 28) for c in (64, 128, 32, 32)), axis=1)

    def two(net: Layers) -> str:
        return net.node("Concat", net.input(1, 256, 28, 28), net.input(1, 32, 28, 28), axis=1)

    def residual(net: Layers) -> str:
        return net.relu(net.node("Add", net.input(1, 256, 56, 56), net.input(1, 256, 56, 56)))

    yield Case("join", "concat 64+128+32+32@28", concat)
    yield Case("join", "concat 256+32@28", two)
    yield Case("join", "add+relu 256@56", residual)


TOKENS = (1, 128, 1024)


def of_tokens() -> Iterator[Case]:
    for taken, made in ((25088, 4096), (9216, 4096), (4096, 4096), (4096, 1000)):
        yield fully_connected(taken, made)
    widths = ((768, 768), (768, 3072), (3072, 768), (192, 192), (192, 768), (768, 192))
    for tokens in TOKENS:
        for taken, made in widths:
            yield linear(tokens, taken, made)
        for heads in (3, 12):
            yield attention(tokens, heads, 64)
        yield softmax(tokens)
        yield layer_norm(tokens, 768)
        yield gelu(tokens, 3072)
    for kind in ("Tanh", "Sigmoid", "Exp", "Erf"):
        yield function(kind)
    yield function("Gelu", approximate="tanh")


def fully_connected(taken: int, made: int) -> Case:
    def write(net: Layers) -> str:
        return net.fully_connected(net.input(1, taken), taken, made)

    return Case("fully connected", f"fc {taken}-{made}", write)


def linear(tokens: int, taken: int, made: int) -> Case:
    def write(net: Layers) -> str:
        return net.linear(net.input(1, tokens, taken), taken, made)

    return Case("matmul", f"matmul {tokens}x{taken}x{made}", write)


def attention(tokens: int, heads: int, width: int) -> Case:
    """One new token against 128 when `tokens` is 1, as when text is written; else all to all."""

    def write(net: Layers) -> str:
        read = max(tokens, 128)
        q = net.input(1, heads, tokens, width)
        k, v = net.input(1, heads, read, width), net.input(1, heads, read, width)
        return net.attention(q, k, v, width)

    return Case("attention", f"attention {heads}x{tokens}x{width}", write)


def softmax(tokens: int) -> Case:
    def write(net: Layers) -> str:
        return net.node("Softmax", net.input(1, 12, tokens, max(tokens, 128)), axis=-1)

    return Case("softmax", f"softmax 12x{tokens}x{max(tokens, 128)}", write)


def layer_norm(tokens: int, width: int) -> Case:
    def write(net: Layers) -> str:
        return net.layer_norm(net.input(1, tokens, width), width)

    return Case("layer norm", f"layer norm {tokens}x{width}", write)


def gelu(tokens: int, width: int) -> Case:
    def write(net: Layers) -> str:
        return net.node("Gelu", net.input(1, tokens, width))

    return Case("gelu", f"gelu {tokens}x{width}", write)


def function(kind: str, **attributes: str) -> Case:
    """A function of each element, for 128 tokens."""

    def write(net: Layers) -> str:
        return net.node(kind, net.input(1, 128, 3072), **attributes)

    said = " by ".join((kind.lower(), *attributes.values()))
    return Case("function", f"{said} 128x3072", write)
