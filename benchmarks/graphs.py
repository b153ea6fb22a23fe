"""Make the graphs of the models that benchmarks/search.py uses. All weights are one number."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from collage_dsl import Graph, parse_graph
from collage_dsl.graph import Form


class Text:
    """
    Collects the statements of a graph, with a new name for each value. Weights with the same
    shape are one value.
    """

    def __init__(self, **inputs: str) -> None:
        self.lines = [f"{name}: {type_};" for name, type_ in inputs.items()]
        self.weights: dict[str, str] = {}
        self.numbers: Iterator[int] = count()

    def weight(self, *shape: int) -> str:
        type_ = f"f32[{', '.join(map(str, shape))}]"
        if type_ not in self.weights:
            self.weights[type_] = f"w{len(self.weights)}"
            self.lines.append(f"{self.weights[type_]} = const {type_};")
        return self.weights[type_]

    def call(self, op: str, *operands: object, **attributes: object) -> str:
        name = f"v{next(self.numbers)}"
        said = ", ".join(f"{key} = {value}" for key, value in attributes.items())
        brackets = f" [{said}]" if said else ""
        self.lines.append(f"{name} = {op}({', '.join(map(str, operands))}){brackets};")
        return name

    def concatenated(self, *values: str) -> str:
        name = f"v{next(self.numbers)}"
        self.lines.append(f"{name} = ({', '.join(values)});")
        return self.call("concat", name, axis=1)

    def field(self, x: str, index: int) -> str:
        name = f"v{next(self.numbers)}"
        self.lines.append(f"{name} = {x}.{index};")
        return name

    def returned(self, *values: str) -> Graph:
        lines = (*self.lines, f"return {', '.join(values)};")
        graph = parse_graph("graph {\n  " + "\n  ".join(lines) + "\n}\n")
        nodes = [
            replace(node, value=np.broadcast_to(np.float32(0.5), node.tensor.static_shape))
            if node.form is Form.CONSTANT
            else node
            for node in graph.nodes
        ]
        return Graph(nodes, graph.outputs)

    # Blocks.

    def conv(self, x: str, taken: int, made: int, size: int = 3, stride: int = 1) -> str:
        """Convolution and bias, as batch norm is folded."""
        pad = f"[{', '.join([str(size // 2)] * 4)}]"
        weight = self.weight(made, taken, size, size)
        strides = f"[{stride}, {stride}]"
        y = self.call("nn.conv2d", x, weight, padding=pad, strides=strides)
        return self.call("add", y, self.weight(1, made, 1, 1))

    def conv_relu(self, x: str, taken: int, made: int, size: int = 3, stride: int = 1) -> str:
        return self.call("nn.relu", self.conv(x, taken, made, size, stride))

    def linear(self, x: str, taken: int, made: int) -> str:
        return self.call("add", self.call("matmul", x, self.weight(taken, made)), self.weight(made))

    def layer_norm(self, x: str, width: int) -> str:
        """Layer normalization in nine operators, as exporters write it."""
        mean = self.call("mean", x, axis="[-1]", keepdims="true")
        centred = self.call("subtract", x, mean)
        square = self.call("power", centred, self.number())
        variance = self.call("mean", square, axis="[-1]", keepdims="true")
        deviation = self.call("sqrt", self.call("add", variance, self.number()))
        scaled = self.call("divide", centred, deviation)
        return self.call(
            "add", self.call("multiply", scaled, self.weight(width)), self.weight(width)
        )

    def number(self) -> str:
        return self.weight(1)


def repeated(block: Graph, times: int) -> Graph:
    """`block` repeated. Each one takes the output of the one before; all have the same weights."""
    inputs = [index for index, node in enumerate(block.nodes) if not node.inputs]
    nodes = [block.nodes[index] for index in inputs]
    outer = {index: place for place, index in enumerate(inputs)}
    (taken,) = (i for i in inputs if block.nodes[i].name == "x")
    (made,) = block.outputs
    for number in range(times):
        inner = dict(outer)
        for index, node in enumerate(block.nodes):
            if node.inputs:
                inner[index] = len(nodes)
                operands = tuple(inner[operand] for operand in node.inputs)
                nodes.append(replace(node, name=f"{node.name}_{number}", inputs=operands))
        outer[taken] = inner[made]
    return Graph(nodes, [outer[taken]])


def chain(blocks: int) -> Graph:
    """Convolution, bias and relu, one after the other: three operators a block."""
    text = Text(x="f32[1, 16, 8, 8]")
    return repeated(text.returned(text.conv_relu("x", 16, 16)), blocks)


def resnet(blocks: int) -> Graph:
    """Bottleneck blocks of one width: ten operators a block, with an addition of two branches."""
    text = Text(x="f32[1, 64, 8, 8]")
    y = text.conv_relu("x", 64, 16, 1)
    y = text.conv_relu(y, 16, 16, 3)
    y = text.conv(y, 16, 64, 1)
    block = text.returned(text.call("nn.relu", text.call("add", "x", y)))
    return repeated(block, blocks)


def resnet50() -> Graph:
    """ResNet-50 with batch norm folded, a quarter as wide: 176 operators."""
    text = Text(x="f32[1, 3, 224, 224]")
    x = text.conv_relu("x", 3, 16, 7, 2)
    x = text.call("nn.max_pool2d", x, pool_size="[3, 3]", strides="[2, 2]", padding="[1, 1, 1, 1]")
    taken = 16
    for stage, repeats in enumerate((3, 4, 6, 3)):
        width = 16 << stage
        for block in range(repeats):
            stride = 2 if stage and not block else 1
            y = text.conv_relu(x, taken, width, 1)
            y = text.conv_relu(y, width, width, 3, stride)
            y = text.conv(y, width, 4 * width, 1)
            if not block:
                x = text.conv(x, taken, 4 * width, 1, stride)
            x = text.call("nn.relu", text.call("add", x, y))
            taken = 4 * width
    x = text.call("nn.adaptive_avg_pool2d", x, output_size="[1, 1]")
    x = text.call("reshape", x, "[1, 512]")
    return text.returned(text.linear(x, 512, 100))


def _heads(text: Text, x: str, tokens: int, heads: int, width: int) -> str:
    x = text.call("reshape", x, f"[1, {tokens}, {heads}, {width // heads}]")
    return text.call("permute_dims", x, axes="[0, 2, 1, 3]")


def _attention(text: Text, q: str, k: str, v: str, tokens: int, width: int, *masks: str) -> str:
    k = text.call("permute_dims", k, axes="[0, 1, 3, 2]")
    scores = text.call("divide", text.call("matmul", q, k), text.number())
    for mask in masks:
        scores = text.call("add", scores, mask)
    x = text.call("matmul", text.call("nn.softmax", scores), v)
    x = text.call("permute_dims", x, axes="[0, 2, 1, 3]")
    return text.call("reshape", x, f"[1, {tokens}, {width}]")


def bert(layers: int, tokens: int = 128, width: int = 256, heads: int = 4) -> Graph:
    """Encoders with norms and activations written out as operators: fifty operators a layer."""
    text = Text(x=f"f32[1, {tokens}, {width}]", mask=f"f32[1, 1, 1, {tokens}]")
    x = "x"
    for _ in range(layers):
        q, k, v = (
            _heads(text, text.linear(x, width, width), tokens, heads, width) for _ in range(3)
        )
        y = _attention(text, q, k, v, tokens, width, "mask")
        x = text.layer_norm(text.call("add", x, text.linear(y, width, width)), width)
        y = text.linear(x, width, 4 * width)
        erf = text.call("erf", text.call("divide", y, text.number()))
        y = text.call("multiply", y, text.call("add", erf, text.number()))
        y = text.call("multiply", y, text.number())
        x = text.layer_norm(text.call("add", x, text.linear(y, 4 * width, width)), width)
    return text.returned(x)


def gpt2(layers: int = 14, tokens: int = 64, width: int = 256, heads: int = 4) -> Graph:
    """Decoders, with the reshapes that exporters put around every product: 64 operators a layer."""
    text = Text(x=f"f32[1, {tokens}, {width}]", mask=f"f32[1, 1, {tokens}, {tokens}]")

    def flat(x: str, taken: int, made: int) -> str:
        x = text.call("reshape", x, f"[{tokens}, {taken}]")
        return text.call("reshape", text.linear(x, taken, made), f"[1, {tokens}, {made}]")

    x = "x"
    for _ in range(layers):
        y = text.layer_norm(x, width)
        parts = text.call("split", flat(y, width, 3 * width), axis="-1", indices_or_sections="3")
        q, k, v = (_heads(text, text.field(parts, part), tokens, heads, width) for part in range(3))
        allowed = text.call("multiply", "mask", text.number())
        hidden = text.call("multiply", text.call("subtract", allowed, text.number()), text.number())
        y = _attention(text, q, k, v, tokens, width, allowed, hidden)
        x = text.call("add", x, flat(y, width, width))
        y = flat(text.layer_norm(x, width), width, 4 * width)
        cube = text.call("multiply", text.call("power", y, text.number()), text.number())
        inner = text.call("multiply", text.call("add", y, cube), text.number())
        y = text.call(
            "multiply",
            text.call("multiply", y, text.number()),
            text.call("add", text.call("tanh", inner), text.number()),
        )
        x = text.call("add", x, flat(y, 4 * width, width))
    y = text.layer_norm(x, width)
    return text.returned(text.call("matmul", y, text.weight(width, 512)))


def inception(blocks: int) -> Graph:
    """Four branches that a concatenation joins: 22 operators a block."""
    text = Text(x="f32[1, 64, 16, 16]")
    x = "x"
    for _ in range(blocks):
        one = text.conv_relu(x, 64, 16, 1)
        two = text.conv_relu(text.conv_relu(x, 64, 16, 1), 16, 16, 3)
        three = text.conv_relu(text.conv_relu(x, 64, 16, 1), 16, 16, 5)
        pool = text.call(
            "nn.max_pool2d", x, pool_size="[3, 3]", strides="[1, 1]", padding="[1, 1, 1, 1]"
        )
        four = text.conv_relu(pool, 64, 16, 1)
        x = text.concatenated(one, two, three, four)
    return text.returned(x)


def nasnet(cells: int) -> Graph:
    """
    Cells that take the two cells before them, each with five pairs of separable convolutions and
    poolings.
    """
    text = Text(x="f32[1, 32, 8, 8]")

    def separable(x: str, size: int) -> str:
        for _ in range(2):
            x = text.call("nn.relu", x)
            pad = f"[{', '.join([str(size // 2)] * 4)}]"
            x = text.call("nn.conv2d", x, text.weight(32, 1, size, size), padding=pad, groups="32")
            x = text.conv(x, 32, 32, 1)
        return x

    def pool(x: str) -> str:
        return text.call(
            "nn.avg_pool2d", x, pool_size="[3, 3]", strides="[1, 1]", padding="[1, 1, 1, 1]"
        )

    before, x = "x", text.conv("x", 32, 32, 1)
    for _ in range(cells):
        p = text.conv(text.call("nn.relu", before), 32, 32, 1)
        h = text.conv(text.call("nn.relu", x), 32, 32, 1)
        pairs = [
            text.call("add", separable(h, 3), h),
            text.call("add", separable(p, 3), separable(h, 5)),
            text.call("add", pool(h), p),
            text.call("add", pool(p), pool(p)),
            text.call("add", separable(p, 5), separable(p, 3)),
        ]
        joined = text.concatenated(p, *pairs)
        before, x = x, text.conv(text.call("nn.relu", joined), 192, 32, 1)
    return text.returned(x)


def branches(number: int) -> Graph:
    """Matrix products of one value side by side, added up. Horizontal rules join them."""
    text = Text(x="f32[32, 64]")
    tops = [text.call("nn.relu", text.linear("x", 64, 64)) for _ in range(number)]
    while len(tops) > 1:
        pairs = zip(tops[::2], tops[1::2], strict=True)
        tops = [text.call("add", one, other) for one, other in pairs]
    return text.returned(tops[0])
