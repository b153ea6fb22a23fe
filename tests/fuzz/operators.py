"""Operators for random models. Each function adds one with random operands and attributes."""

from typing import Any

import numpy as np
from onnx import TensorProto

from tests.fuzz.builder import FLOATS, INTEGERS, Builder, Value

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
