"""Random valid models of a few operators, inputs of eight kinds, and whether two results agree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

OPSET = 18
LARGEST = 4096
"""The most elements of a value."""

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT16)
INTEGERS = (TensorProto.INT32, TensorProto.INT64)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the model. It is `exact` if rounding cannot change it."""

    name: str
    dtype: int
    shape: Shape
    exact: bool

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(slots=True)
class Made:
    """A model, and how many indices are valid where it takes an input as indices."""

    model: ModelProto
    indices: Mapping[str, int]


@dataclass(slots=True)
class Builder:
    """Adds nodes to a graph as long as shape inference finds them right."""

    chosen: Random
    values: list[Value] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    weights: list[TensorProto] = field(default_factory=list)
    nodes: list[NodeProto] = field(default_factory=list)
    indices: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def name(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def input(self, dtype: int, shape: Shape) -> Value:
        value = Value(self.name("x"), dtype, shape, exact=True)
        self.inputs.append(helper.make_tensor_value_info(value.name, dtype, shape))
        self.values.append(value)
        return value

    def index(self, valid: int, shape: Shape, dtype: int = TensorProto.INT64) -> str:
        """Indices below `valid`: an input, or a constant."""
        if self.chosen.random() < 0.5:
            name = self.name("i")
            self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
            self.indices[name] = valid
            return name
        return self.weight(self.numpy().integers(-valid, valid, shape))

    def weight(self, array: Array, dtype: int | None = None) -> str:
        name = self.name("w")
        if dtype is not None:
            array = array.astype(helper.tensor_dtype_to_np_dtype(dtype))
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def floats(self, dtype: int, *shape: int) -> str:
        return self.weight(self.numpy().normal(size=shape), dtype)

    def numpy(self) -> np.random.Generator:
        return np.random.default_rng(self.chosen.randrange(2**32))

    def any(self, holds: Callable[[Value], bool] = lambda value: True) -> Value:
        """One of the values, rather a late one. Raises `IndexError` if none fits."""
        fitting = [value for value in self.values if holds(value)]
        return self.chosen.choice(fitting[-3:])

    def float(self, *ranks: int) -> Value:
        return self.any(lambda v: v.is_float and (not ranks or v.rank in ranks))

    def axis(self, value: Value) -> int:
        return self.chosen.randrange(-value.rank, value.rank)

    def node(
        self, op: str, *inputs: str, outputs: int = 1, exact: bool = False, **attrs: Any
    ) -> None:
        """Add a node. Raises an error of `onnx` if it is wrong, and ValueError if too large."""
        names = [self.name("y") for _ in range(outputs)]
        made = helper.make_node(op, list(inputs), names, **attrs)
        types = _types(self.model([made], names, checked=False))
        found = [Value(n, *types[n], exact=exact) for n in names]
        if any(np.prod(v.shape) > LARGEST or 0 in v.shape for v in found):
            raise ValueError("too large, or empty")
        self.nodes.append(made)
        self.values += found

    def model(
        self, more: Sequence[NodeProto], outputs: Sequence[str], *, checked: bool
    ) -> ModelProto:
        results = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(
            [*self.nodes, *more], "values", self.inputs, results, self.weights
        )
        opsets = [helper.make_opsetid("", OPSET)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(made, strict_mode=True) if checked else made


def _types(model: ModelProto) -> dict[str, tuple[int, Shape]]:
    inferred = onnx.shape_inference.infer_shapes(model, True, True, True)
    return {
        each.name: _static(each.type)
        for each in (*inferred.graph.value_info, *inferred.graph.output)
    }


def _static(type_: TypeProto) -> tuple[int, Shape]:
    tensor = type_.tensor_type
    if not tensor.HasField("shape") or any(
        not dim.HasField("dim_value") for dim in tensor.shape.dim
    ):
        raise ValueError("its shape is not known")
    return tensor.elem_type, tuple(dim.dim_value for dim in tensor.shape.dim)


def made(seed: int) -> Made:
    """A valid model."""
    chosen = Random(seed)
    while True:
        builder = Builder(chosen)
        dtype = chosen.choice(FLOATS)
        rank = chosen.choice((1, 2, 2, 3, 4, 4, 4))
        builder.input(dtype, tuple(chosen.choices((1, 2, 3, 5, 8, 17), k=rank)))
        if chosen.random() < 0.3:
            builder.input(chosen.choice((dtype, *INTEGERS)), builder.values[0].shape)
        wanted = chosen.randint(1, 5)
        for _ in range(60):
            if len(builder.nodes) == wanted:
                break
            try:
                chosen.choice(OPERATORS)(builder)
            except (IndexError, ValueError, onnx.shape_inference.InferenceError):
                continue
        if not builder.nodes:
            continue
        used = {name for node in builder.nodes for name in node.input}
        ends = [n for node in builder.nodes for n in node.output if n not in used]
        model = builder.model([], ends, checked=True)
        taken = [each for each in model.graph.input if each.name in used]
        kept = [each for each in model.graph.initializer if each.name in used]
        for there, those in ((model.graph.input, taken), (model.graph.initializer, kept)):
            copies = [type(each).FromString(each.SerializeToString()) for each in those]
            del there[:]
            there.extend(copies)  # type: ignore[arg-type]
        return Made(model, {n: v for n, v in builder.indices.items() if n in used})


# Operators. Each function adds one with random operands and attributes.

SMOOTH = (
    *(
        "Abs",
        "Neg",
        "Exp",
        "Log",
        "Sqrt",
        "Sin",
        "Cos",
        "Tanh",
        "Erf",
        "Relu",
        "Sigmoid",
        "Softplus",
    ),
    *("Softsign", "Selu", "HardSwish", "Mish", "Reciprocal", "Identity", "Atan", "Sinh", "Cosh"),
)
SLOPED = ("Elu", "LeakyRelu", "Celu", "ThresholdedRelu", "HardSigmoid")
STEPS = ("Floor", "Ceil", "Round", "Sign", "IsNaN")
KEEP = ("Abs", "Neg", "Relu", "Identity")
"""Operators of `SMOOTH` that do not round."""


def unary(b: Builder) -> None:
    op, x = b.chosen.choice(SMOOTH), b.float()
    b.node(op, x.name, exact=x.exact and op in KEEP)


def sloped(b: Builder) -> None:
    op = b.chosen.choice(SLOPED)
    alpha = b.chosen.choice((0.01, 0.2, 1.0, 1.5))
    b.node(op, b.float().name, alpha=alpha)


def steps(b: Builder) -> None:
    x = b.any(lambda v: v.is_float and v.exact)
    b.node(b.chosen.choice(STEPS), x.name, exact=True)


def binary(b: Builder) -> None:
    x = b.float()
    op = b.chosen.choice(("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "PRelu"))
    b.node(op, x.name, b.chosen.choice((b.float().name, weight_for(b, x))))


def weight_for(b: Builder, x: Value) -> str:
    """A constant that is broadcast to `x`."""
    shape = [size if b.chosen.random() < 0.6 else 1 for size in x.shape]
    return b.floats(x.dtype, *shape[b.chosen.randrange(x.rank + 1) :])


def integers(b: Builder) -> None:
    x = b.any(lambda v: v.dtype in INTEGERS)
    op = b.chosen.choice(("Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Abs", "Neg"))
    values = b.numpy().choice([-7, -2, -1, 1, 2, 3, 10], x.shape)
    others = () if op in ("Abs", "Neg") else (b.weight(values, x.dtype),)
    b.node(op, x.name, *others, exact=True)


def compare(b: Builder) -> None:
    x = b.any(lambda v: v.exact and v.dtype != TensorProto.BOOL)
    op = b.chosen.choice(("Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"))
    other = b.weight(b.numpy().integers(-1, 2, x.shape), x.dtype)
    b.node(op, x.name, other, exact=True)


def logic(b: Builder) -> None:
    x = b.any(lambda v: v.dtype == TensorProto.BOOL)
    op = b.chosen.choice(("Not", "And", "Or", "Xor", "Where", "Cast"))
    if op == "Not":
        b.node(op, x.name, exact=True)
    elif op == "Cast":
        b.node(op, x.name, to=b.chosen.choice((*FLOATS, *INTEGERS)), exact=True)
    elif op == "Where":
        other = b.float()
        b.node(op, x.name, other.name, weight_for(b, other), exact=other.exact)
    else:
        mask = b.weight(b.numpy().integers(0, 2, x.shape), TensorProto.BOOL)
        b.node(op, x.name, mask, exact=True)


def cast(b: Builder) -> None:
    x = b.any(lambda v: v.dtype != TensorProto.BOOL)
    b.node("Cast", x.name, to=b.chosen.choice(FLOATS), exact=False)


def clip(b: Builder) -> None:
    x = b.float()
    low, high = b.weight(np.array(-0.5), x.dtype), b.weight(np.array(1.25), x.dtype)
    given = b.chosen.choice(((low, high), (low, ""), ("", high)))
    b.node("Clip", x.name, *given, exact=x.exact)


def reduction(b: Builder) -> None:
    x = b.float()
    kinds = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare", "LogSum")
    kind = b.chosen.choice(kinds)
    axes = b.chosen.sample(range(x.rank), b.chosen.randint(1, x.rank))
    given = () if b.chosen.random() < 0.2 else (b.weight(np.array(axes, np.int64)),)
    keep = b.chosen.randrange(2)
    b.node(f"Reduce{kind}", x.name, *given, keepdims=keep, exact=x.exact and kind in ("Max", "Min"))


def best(b: Builder) -> None:
    x = b.any(lambda v: v.exact and v.is_float and v.rank > 0)
    op, axis, flag = b.chosen.choice(("ArgMax", "ArgMin", "TopK")), b.axis(x), b.chosen.randrange(2)
    if op == "TopK":
        count = b.weight(np.array([b.chosen.randint(1, x.shape[axis])], np.int64))
        b.node(op, x.name, count, outputs=2, axis=axis, largest=flag, exact=True)
    else:
        b.node(op, x.name, axis=axis, keepdims=flag, select_last_index=1 - flag, exact=True)


def softmax(b: Builder) -> None:
    x = b.any(lambda v: v.is_float and v.rank > 0)
    b.node(b.chosen.choice(("Softmax", "LogSoftmax")), x.name, axis=b.axis(x))


def cumulated(b: Builder) -> None:
    x = b.any(lambda v: v.is_float and v.rank > 0)
    flags = {"exclusive": b.chosen.randrange(2), "reverse": b.chosen.randrange(2)}
    b.node("CumSum", x.name, b.weight(np.array(b.axis(x), np.int64)), **flags)


def convolution(b: Builder) -> None:
    x = b.float(3, 4)
    channels = x.shape[1]
    groups = b.chosen.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    kernel = [b.chosen.choice((1, 2, 3)) for _ in x.shape[2:]]
    strides = [b.chosen.choice((1, 1, 2)) for _ in kernel]
    pads = [b.chosen.choice((0, 1)) for _ in range(2 * len(kernel))]
    given = {"kernel_shape": kernel, "strides": strides, "pads": pads, "group": groups}
    out = b.chosen.choice((1, 2, 16)) * groups
    if b.chosen.random() < 0.25:
        b.node(
            "ConvTranspose", x.name, b.floats(x.dtype, channels, out // groups, *kernel), **given
        )
    else:
        bias = (b.floats(x.dtype, out),) if b.chosen.random() < 0.5 else ()
        w = b.floats(x.dtype, out, channels // groups, *kernel)
        b.node("Conv", x.name, w, *bias, **given)


def pool(b: Builder) -> None:
    x = b.float(3, 4)
    op = b.chosen.choice(("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"))
    kernel = [b.chosen.choice((1, 2, 3)) for _ in x.shape[2:]]
    pads = [b.chosen.randrange(min(kernel)) for _ in range(2 * len(kernel))]
    strides = [b.chosen.choice((1, 2))] * len(kernel)
    given: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if op.startswith("Global"):
        given = {}
    elif op == "AveragePool":
        given["count_include_pad"] = b.chosen.randrange(2)
    b.node(op, x.name, exact=x.exact and "Max" in op, **given)


def normalization(b: Builder) -> None:
    x = b.float(3, 4)
    channels, positive = x.shape[1], b.numpy().uniform(0.5, 2, x.shape[1])
    scale, bias = b.floats(x.dtype, channels), b.floats(x.dtype, channels)
    op = b.chosen.choice(
        ("BatchNormalization", "InstanceNormalization", "LRN", "LayerNormalization")
    )
    if op == "BatchNormalization":
        mean, variance = b.floats(x.dtype, channels), b.weight(positive, x.dtype)
        b.node(op, x.name, scale, bias, mean, variance)
    elif op == "InstanceNormalization":
        b.node(op, x.name, scale, bias)
    elif op == "LRN" and x.rank == 4:
        b.node(op, x.name, size=b.chosen.choice((1, 3, 5)))
    else:
        b.node(op, x.name, b.floats(x.dtype, x.shape[-1]), b.floats(x.dtype, x.shape[-1]), axis=-1)


def product(b: Builder) -> None:
    x = b.any(lambda v: v.is_float and v.rank > 0)
    out = b.chosen.choice((1, 4, 16, 33))
    if x.rank == 2 and b.chosen.random() < 0.5:
        bias = b.floats(x.dtype, out)
        flip = b.chosen.randrange(2)
        sizes = (out, x.shape[-1]) if flip else (x.shape[-1], out)
        b.node("Gemm", x.name, b.floats(x.dtype, *sizes), bias, transB=flip, alpha=0.5)
    else:
        b.node("MatMul", x.name, b.floats(x.dtype, x.shape[-1], out))


def move(b: Builder) -> None:
    x = b.any(lambda v: v.rank > 0)
    axis, size = b.axis(x), int(np.prod(x.shape))
    ops = (
        "Transpose",
        "Reshape",
        "Flatten",
        "Unsqueeze",
        "Tile",
        "Expand",
        "Concat",
        "Slice",
        "Pad",
    )
    op = b.chosen.choice((*ops, "Split", "Trilu", "DepthToSpace", "SpaceToDepth"))
    numbers = {
        "Reshape": [-1, b.chosen.choice([d for d in (1, 2, 3, 4, 5) if size % d == 0])],
        "Unsqueeze": [b.chosen.randrange(-x.rank - 1, x.rank + 1)],
        "Tile": [b.chosen.choice((1, 2)) for _ in x.shape],
        "Expand": [2, *x.shape],
    }
    if op == "Transpose":
        b.node(op, x.name, perm=b.chosen.sample(range(x.rank), x.rank), exact=x.exact)
    elif op == "Flatten":
        b.node(op, x.name, axis=axis, exact=x.exact)
    elif op in numbers:
        b.node(op, x.name, b.weight(np.array(numbers[op], np.int64)), exact=x.exact)
    elif op == "Concat":
        other = b.any(lambda v: v.dtype == x.dtype and v.rank == x.rank)
        b.node(op, x.name, other.name, axis=axis, exact=x.exact and other.exact)
    elif op == "Slice":
        ends = sorted(b.chosen.sample(range(x.shape[axis] + 1), 2))
        step = b.chosen.choice((1, 1, 2, -1))
        start, end = ends if step > 0 else (ends[1] - 1, ends[0] - 1 - x.shape[axis])
        given = ([start], [end], [axis], [step])
        b.node(op, x.name, *(b.weight(np.array(each, np.int64)) for each in given), exact=x.exact)
    elif op == "Pad":
        pads = b.weight(np.array(b.chosen.choices((0, 1), k=2 * x.rank), np.int64))
        mode = b.chosen.choice(("constant", "reflect", "edge"))
        b.node(op, x.name, pads, mode=mode, exact=x.exact)
    elif op == "Split":
        b.node(op, x.name, outputs=2, num_outputs=2, axis=axis, exact=x.exact)
    elif op == "Trilu":
        b.node(op, x.name, upper=b.chosen.randrange(2), exact=x.exact)
    else:
        b.node(op, x.name, blocksize=2, exact=x.exact)


def indexed(b: Builder) -> None:
    x = b.any(lambda v: v.rank > 0)
    axis = b.axis(x)
    valid = x.shape[axis]
    op = b.chosen.choice(("Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"))
    shape = tuple(b.chosen.choices((1, 2, 3), k=b.chosen.randrange(3)))
    if op == "Gather":
        b.node(op, x.name, b.index(valid, shape), axis=axis, exact=x.exact)
    elif op == "GatherElements":
        b.node(op, x.name, b.index(valid, x.shape), axis=axis, exact=x.exact)
    elif op == "GatherND":
        b.node(op, x.name, b.index(x.shape[0], (*shape, 1)), exact=x.exact)
    elif op == "ScatterElements":
        part = tuple(1 if at == axis % x.rank else size for at, size in enumerate(x.shape))
        update = b.weight(b.numpy().normal(size=part) * 4, x.dtype)
        b.node(op, x.name, b.index(valid, part), update, axis=axis, exact=x.exact)
    else:
        update = b.weight(b.numpy().normal(size=(1, *x.shape[1:])) * 4, x.dtype)
        b.node(op, x.name, b.index(x.shape[0], (1, 1)), update, exact=x.exact)


def one_hot(b: Builder) -> None:
    depth, values = b.weight(np.array(5, np.int64)), b.weight(np.array([-1, 2], np.float32))
    b.node("OneHot", b.index(5, (3,)), depth, values, axis=-1, exact=True)


def resized(b: Builder) -> None:
    x = b.float(4)
    sizes = b.weight(np.array([*x.shape[:2], *(2 * size for size in x.shape[2:])], np.int64))
    mode = b.chosen.choice((("nearest", "asymmetric"), ("linear", "half_pixel")))
    extra = {"nearest_mode": "floor"} if mode[0] == "nearest" else {}
    names = (x.name, "", "", sizes)
    b.node("Resize", *names, mode=mode[0], coordinate_transformation_mode=mode[1], **extra)


OPERATORS = (
    *(unary, unary, sloped, steps, binary, binary, integers, compare, logic, cast, clip, reduction),
    *(reduction, best, softmax, cumulated, convolution, convolution, pool, normalization, product),
    *(move, move, indexed, indexed, one_hot, resized),
)


# Inputs.


def draws(made: Made, seed: int) -> Iterator[tuple[str, dict[str, Array]]]:
    """Inputs of eight kinds. Those of `wrong indices` have one, where the model takes indices."""
    for number, (kind, floats) in enumerate(DRAWS.items()):
        generator = np.random.default_rng((seed, number))
        yield (
            kind,
            {
                value.name: _drawn(value, kind, floats, generator, made.indices)
                for value in made.model.graph.input
            },
        )


def _drawn(
    value: onnx.ValueInfoProto,
    kind: str,
    floats: Callable[[np.random.Generator, Shape], Array],
    generator: np.random.Generator,
    indices: Mapping[str, int],
) -> Array:
    type_, shape = _static(value.type)
    dtype = helper.tensor_dtype_to_np_dtype(type_)
    if type_ in FLOATS:
        with np.errstate(over="ignore"):
            return np.asarray(floats(generator, shape), dtype)
    valid = indices.get(value.name)
    if valid is None:
        return np.asarray(generator.integers(-1000, 1000, shape), dtype)
    array = np.asarray(generator.integers(-valid, valid, shape), dtype)
    if kind == "wrong indices":
        array.flat[generator.integers(array.size)] = generator.choice([valid, -valid - 1, 2**40])
    return array


def _special(generator: np.random.Generator, shape: Shape) -> Array:
    array = np.ravel(generator.normal(size=shape))
    kinds = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e4, -1e4, 1e-40]
    places = generator.permutation(array.size)[: max(1, array.size // 8)]
    array[places] = generator.choice(kinds, places.size)
    return array.reshape(shape)


def _infinite(generator: np.random.Generator, shape: Shape) -> Array:
    return np.asarray(generator.choice([np.inf, -np.inf, 1.0, -1.0], shape))


DRAWS: Mapping[str, Callable[[np.random.Generator, Shape], Array]] = {
    "usual": lambda generator, shape: generator.normal(size=shape),
    "large": lambda generator, shape: 100 * generator.normal(size=shape),
    "tiny": lambda generator, shape: 1e-4 * generator.normal(size=shape),
    "negative": lambda generator, shape: -np.abs(generator.normal(size=shape)),
    "whole": lambda generator, shape: np.asarray(generator.integers(-3, 4, shape), float),
    "special": _special,
    "infinite": _infinite,
    "wrong indices": lambda generator, shape: generator.normal(size=shape),
}


# Results.

_TOLERANCE = {False: 1e-4, True: 8e-3}
"""
Allowed differences without and with float16 in a model, relative to the largest finite value of a
tensor.
"""

DIFFERENT = (
    *(
        "ArgMax",
        "ArgMin",
        "Clip",
        "GlobalMaxPool",
        "LRN",
        "MaxPool",
        "ReduceMax",
        "ReduceMin",
        "Sigmoid",
    ),
    *("Sign", "TopK"),
)
"""Operators whose results are compared for finite numbers only: see docs/numerics.md."""


_LAST_OF_ONE = 2.0**-22
"""The last digits of 1: `exp(x) - 1` of a tiny `x` has no more. See docs/numerics.md."""


def is_different(model: ModelProto) -> bool:
    """Whether results are compared only where all values on the way are finite numbers."""
    operators = {node.op_type for node in model.graph.node}
    return is_short(model) or is_tiny(model) or not operators.isdisjoint(DIFFERENT)


def is_tiny(model: ModelProto) -> bool:
    """Whether a model magnifies what rounding leaves of numbers: see docs/numerics.md."""
    operators = {node.op_type for node in model.graph.node}
    normalizes = not operators.isdisjoint(("InstanceNormalization", "LayerNormalization"))
    return operators >= {"Softplus", "Pow"} or (is_short(model) and normalizes)


def is_short(model: ModelProto) -> bool:
    """Whether a value of the model is float16, as which onnxruntime does not round all of them."""
    graph = model.graph
    types = (each.type.tensor_type.elem_type for each in (*graph.value_info, *graph.input))
    return TensorProto.FLOAT16 in types


def with_all_values(model: ModelProto) -> ModelProto:
    """`model` with every value as an output."""
    found = ModelProto.FromString(model.SerializeToString())
    del found.graph.output[:]
    found.graph.output.extend(model.graph.output)
    known = {value.name for value in model.graph.output}
    found.graph.output.extend(each for each in model.graph.value_info if each.name not in known)
    return found


def differences(actual: Array, right: Sequence[Array], *, short: bool) -> str:
    """
    How `actual` differs from all of several results, of which each is right but for rounding;
    empty if it does not. `right` begins with that of onnxruntime. A model is `short` that has
    float16 inside.
    """
    first = right[0]
    if actual.shape != first.shape or actual.dtype != first.dtype:
        return f"{actual.dtype}{actual.shape} in place of {first.dtype}{first.shape}"
    same = np.zeros(first.shape, bool)
    if first.dtype.kind != "f":
        for each in right:
            same |= actual == each
        return _shown(actual, right, ~same)
    wide = [np.asarray(each, np.float64) for each in right]
    taken = actual.astype(np.float64)
    finite = [each[np.isfinite(each)] for each in wide]
    largest = max((float(np.abs(each).max()) for each in finite if each.size), default=0.0)
    spread = np.zeros(first.shape)
    with np.errstate(invalid="ignore"):
        for each in wide[1:]:
            spread = np.fmax(spread, np.where(np.isfinite(each - wide[0]), abs(each - wide[0]), 0))
        for each in wide:
            allowed = _TOLERANCE[short] * largest + 8 * spread + _LAST_OF_ONE
            near = abs(taken - each) <= allowed + np.finfo(first.dtype).tiny
            same |= near | (taken == each) | (np.isnan(taken) & np.isnan(each))
    return _shown(actual, right, ~same)


def _shown(actual: Array, right: Sequence[Array], wrong: Array) -> str:
    if not wrong.any():
        return ""
    at = tuple(map(int, np.argwhere(wrong)[0]))
    wanted = ", ".join(str(each[at]) for each in right)
    return f"{int(wrong.sum())} of {wrong.size} elements differ; at {at} {actual[at]}, not {wanted}"
