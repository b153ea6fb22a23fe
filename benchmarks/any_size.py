"""
How fast native kernels of any size are.

    python benchmarks/any_size.py [CASE …] [--store FILE] [--seconds N]

A model is compiled for native kernels alone, for all sizes of some dimensions, and for each of some
sizes. These and onnxruntime run in turn at that size, N seconds for each (default 3). The cases are
`batch` (SqueezeNet for any number of images), `sides` (SqueezeNet for images of any sides),
`tokens` (two layers of a transformer, for any number of texts and tokens), `bytes` (two products
of bytes, for one text with any number of tokens), and single operators of images of any sides.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import suite
from layers import Layers
from onnx import TensorProto, helper, numpy_helper
from quantized import quantized

import collage_dsl as collage
from collage_dsl.engine.compile import Compiled
from collage_dsl.graph.arrays import Array
from collage_dsl.measuring.timing import interleaved, low

WIDTH, HEADS, WIDER = 384, 12, 1536  # of MiniLM

Shapes = Mapping[str, Sequence[int | str]]


@dataclass(frozen=True, slots=True)
class Case:
    """A model whose inputs have these shapes, in which names are free, and sizes for the names."""

    model: Callable[[], onnx.ModelProto]
    shapes: Shapes
    sizes: Sequence[Mapping[str, int]]


def transformer(layers: int = 2) -> onnx.ModelProto:
    """Layers of attention and two products, for any number of texts and tokens."""
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def constant(values: object, dtype: str = "float32") -> str:
        name = f"c{len(constants)}"
        constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def weight(*shape: int) -> str:
        return constant(random.normal(0, 0.05, shape))

    def emit(kind: str, *operands: str, **attributes: object) -> str:
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, operands, [name], **attributes))
        return name

    def linear(x: str, taken: int, made: int) -> str:
        return emit("Add", emit("MatMul", x, weight(taken, made)), weight(made))

    def heads(x: str, *axes: int) -> str:
        shape = constant([0, 0, HEADS, WIDTH // HEADS], "int64")
        return emit("Transpose", emit("Reshape", linear(x, WIDTH, WIDTH), shape), perm=axes)

    def normal(x: str) -> str:
        return emit("LayerNormalization", x, weight(WIDTH), weight(WIDTH))

    x = "x"
    for _ in range(layers):
        query, key, value = heads(x, 0, 2, 1, 3), heads(x, 0, 2, 3, 1), heads(x, 0, 2, 1, 3)
        scores = emit("Mul", emit("MatMul", query, key), constant((WIDTH // HEADS) ** -0.5))
        chosen = emit("Softmax", emit("Add", scores, "mask"), axis=-1)
        found = emit("Transpose", emit("MatMul", chosen, value), perm=(0, 2, 1, 3))
        joined = emit("Reshape", found, constant([0, 0, WIDTH], "int64"))
        y = normal(emit("Add", linear(joined, WIDTH, WIDTH), x))
        wide = linear(y, WIDTH, WIDER)
        half = emit("Mul", wide, constant(0.5))
        error = emit("Erf", emit("Div", wide, constant(np.sqrt(2))))
        gelu = emit("Mul", half, emit("Add", error, constant(1.0)))
        x = normal(emit("Add", linear(gelu, WIDER, WIDTH), y))
    graph = helper.make_graph(
        nodes,
        "transformer",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["b", "s", WIDTH]),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["b", 1, 1, "s"]),
        ],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, ["b", "s", WIDTH])],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def products_of_bytes() -> onnx.ModelProto:
    """Two products with a maximum between them, which onnxruntime's tools have quantized."""
    net = Layers()
    wide = net.relu(net.linear(net.input(1, 128, WIDTH), WIDTH, WIDER))
    made = quantized(net.model(net.linear(wide, WIDER, WIDTH), [1, 128, WIDTH]))
    del made.graph.value_info[:]
    return made


def operator(kind: str, *weight: int, **attributes: object) -> Case:
    """One operator of an image of 64 channels and any sides, with a weight if it has a shape."""

    def model() -> onnx.ModelProto:
        net = Layers()
        operands = [net.input(1, 64, 56, 56), *([net.weight(*weight)] if weight else [])]
        if kind == "Resize":
            operands += ["", net.constant([1, 1, 2, 2])]
        return net.model(net.node(kind, *operands, **attributes))

    return Case(model, {"x0": (1, 64, "h", "w")}, [{"h": 56, "w": 56}, {"h": 28, "w": 30}])


AROUND = [1, 1, 1, 1]
OPERATORS = {
    "convolution 3x3": operator("Conv", 64, 64, 3, 3, pads=AROUND),
    "convolution 3x3 s2": operator("Conv", 128, 64, 3, 3, pads=AROUND, strides=[2, 2]),
    "convolution 1x1": operator("Conv", 256, 64, 1, 1),
    "transposed 2x2 s2": operator("ConvTranspose", 64, 32, 2, 2, strides=[2, 2]),
    "transposed 4x4 s2": operator("ConvTranspose", 64, 32, 4, 4, pads=AROUND, strides=[2, 2]),
    "transposed 3x3 s2": operator("ConvTranspose", 64, 32, 3, 3, pads=AROUND, strides=[2, 2]),
    "depthwise 3x3": operator("Conv", 64, 1, 3, 3, pads=AROUND, group=64),
    "depthwise 3x3 s2": operator("Conv", 64, 1, 3, 3, pads=AROUND, strides=[2, 2], group=64),
    "pooling 3x3 s2": operator("MaxPool", kernel_shape=[3, 3], pads=AROUND, strides=[2, 2]),
    "resizing, linear": operator("Resize", mode="linear"),
    "resizing, cubic": operator("Resize", mode="cubic"),
}

CASES = {
    **OPERATORS,
    "batch": Case(
        lambda: suite.model("squeezenet"),
        {"data_0": ("n", 3, 224, 224)},
        [{"n": 1}, {"n": 4}],
    ),
    "sides": Case(
        lambda: suite.model("squeezenet"),
        {"data_0": (1, 3, "h", "w")},
        [{"h": 224, "w": 224}, {"h": 200, "w": 300}],
    ),
    "tokens": Case(
        transformer,
        {"x": ("b", "s", WIDTH), "mask": ("b", 1, 1, "s")},
        [{"b": 1, "s": 128}, {"b": 4, "s": 32}, {"b": 1, "s": 7}],
    ),
    "bytes": Case(products_of_bytes, {"x0": (1, "s", WIDTH)}, [{"s": 128}, {"s": 7}]),
}


def with_sizes(shapes: Shapes, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    return {
        name: tuple(sizes[dim] if isinstance(dim, str) else dim for dim in shape)
        for name, shape in shapes.items()
    }


def library(model: onnx.ModelProto, shapes: Shapes) -> onnxruntime.InferenceSession:
    """The model in onnxruntime, on one core and with the same free dimensions."""
    free = onnx.ModelProto()
    free.CopyFrom(model)
    del free.graph.value_info[:]
    for value in free.graph.input:
        dims = value.type.tensor_type.shape.dim
        for dim, size in zip(dims, shapes.get(value.name, ()), strict=False):  # weights have none
            if isinstance(size, str):
                dim.dim_param = size
    for value in free.graph.output:
        value.type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(free.SerializeToString(), options)


def rows(name: str, given: argparse.Namespace) -> None:
    case = CASES[name]
    model = case.model()
    native, session = collage.gather({"kind": "llvm"}), library(model, case.shapes)

    def compiled(shapes: Shapes, inputs: Mapping[str, Array]) -> Compiled:
        return collage.compile(
            model,
            [native],
            shapes={name: tuple(shape) for name, shape in shapes.items()},
            inputs=dict(inputs),
            store=given.store,
            race_seconds=0.5,
        )

    of_any: Compiled | None = None
    for sizes in case.sizes:
        shapes = with_sizes(case.shapes, sizes)
        random = np.random.default_rng(0)
        inputs = {each: random.random(shape, np.float32) for each, shape in shapes.items()}
        of_any = of_any or compiled(case.shapes, inputs)

        def runner(made: Compiled, inputs: Mapping[str, Array] = inputs) -> Callable[[], object]:
            tensors = made.executable.tensors(inputs)
            return lambda: made.executable.call(tensors)

        def of_library(inputs: Mapping[str, Array] = inputs) -> object:
            return session.run(None, dict(inputs))

        calls = [runner(of_any), runner(compiled(shapes, inputs)), of_library]
        seconds = [low(each) for each in interleaved(calls, 1, budget=given.seconds * len(calls))]
        shown = " | ".join(f"{each * 1e3:.2f} ms" for each in seconds)
        said = ", ".join(f"{dim} = {size}" for dim, size in sizes.items())
        print(f"| {name} | {said} | {shown} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", default=list(CASES))
    parser.add_argument("--store", type=Path)
    parser.add_argument("--seconds", type=float, default=3)
    given = parser.parse_args()
    print("| case | sizes | any size | this size | onnxruntime |\n|---|---|---:|---:|---:|")
    for name in given.cases:
        rows(name, given)


if __name__ == "__main__":
    main()
