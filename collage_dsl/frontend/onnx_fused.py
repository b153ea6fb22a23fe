"""
Nodes that stand for several, as those that the optimizer of onnxruntime writes, as these several.

Only those that compute in float32 are replaced: others round only once at the end.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import onnx

from collage_dsl.frontend.onnx_attention import attention, multi_head_attention, rotary
from collage_dsl.frontend.onnx_limits import MICROSOFT
from collage_dsl.frontend.onnx_ml import MACHINE_LEARNING
from collage_dsl.frontend.onnx_parts import Parts
from collage_dsl.frontend.onnx_quantized import QUANTIZED
from collage_dsl.frontend.onnx_values import Values

Nodes = list[onnx.NodeProto]
_OLDEST = 11
"""The first operator set in which `Clip` and others take operands in place of attributes."""
_OLDEST_QUANTIZED = 10
"""The first operator set with `QuantizeLinear`, which quantized nodes end with."""


def unfused(
    node: onnx.NodeProto, values: Values, fresh: Callable[[str], str]
) -> list[onnx.NodeProto] | None:
    """The nodes that together compute what `node` does; None if it is not replaced."""
    key = "" if node.domain == "ai.onnx" else node.domain, node.op_type
    write = QUANTIZED.get(key) or _OTHERS.get(key)
    oldest = _OLDEST_QUANTIZED if key in QUANTIZED else _OLDEST
    if write is None or values.opset < oldest:
        return None
    names = list(filter(None, node.input))
    if not all(map(values.is_tensor, names)):
        return None
    if any(0 in (values.static_shape(name) or ()) for name in names) or any(
        values.dtype(name) in ("float16", "bfloat16", "float64") for name in names
    ):
        return None
    return write(Parts(node, values, fresh))


def _gelu(parts: Parts) -> Nodes:
    return parts.result(parts.emit("Gelu", parts.operand(0)))


def _quick_gelu(parts: Parts) -> Nodes:
    x, alpha = parts.operand(0), parts.attrs.get("alpha", 1.702)
    scaled = parts.emit("Mul", x, parts.constant(alpha, "float32")) if alpha != 1 else x
    return parts.result(parts.emit("Mul", x, parts.emit("Sigmoid", scaled)))


def _matmul(parts: Parts) -> Nodes | None:
    attrs = parts.attrs
    if attrs.get("transBatchA") or attrs.get("transBatchB"):
        return None
    factors = [_transposed(parts, place, name) for place, name in enumerate(("transA", "transB"))]
    product, alpha = parts.emit("MatMul", *factors), attrs.get("alpha", 1.0)
    if alpha != 1:
        product = parts.emit("Mul", product, parts.constant(alpha, "float32"))
    return parts.result(product)


def _transposed(parts: Parts, place: int, attribute: str) -> str:
    """An operand with the last two axes exchanged, if the attribute says so."""
    x, rank = parts.operand(place), len(parts.sizes(place))
    if not parts.attrs.get(attribute) or rank < 2:
        return x
    return parts.emit("Transpose", x, perm=[*range(rank - 2), rank - 1, rank - 2])


def _gemm(parts: Parts) -> Nodes | None:
    attrs = parts.attrs
    own = {name: attrs[name] for name in ("alpha", "beta", "transA", "transB") if name in attrs}
    numbers = [attrs[f"activation_{n}"] for n in ("alpha", "beta") if f"activation_{n}" in attrs]
    product = parts.emit("Gemm", *parts.node.input, **own)
    return _activated(parts, product, numbers)


def _convolution(parts: Parts) -> Nodes | None:
    attrs = parts.attrs
    own = {n: v for n, v in attrs.items() if not n.startswith("activation")}
    made = parts.emit("Conv", *parts.node.input[:3], **own)
    if addend := parts.operand(3):
        made = parts.emit("Add", made, addend)
    return _activated(parts, made, list(attrs.get("activation_params", ())))


def _activated(parts: Parts, x: str, numbers: list[float]) -> Nodes | None:
    """The nodes, with the activation that the node names, which takes these numbers."""
    name = parts.attrs.get("activation", b"").decode()
    if not name:
        return parts.result(x)
    if name == "Clip" and len(numbers) == 2:
        low, high = (parts.constant(number, "float32") for number in numbers)
        return parts.result(parts.emit("Clip", x, low, high))
    taken = _ACTIVATIONS.get(name)
    if taken is None or len(numbers) > len(taken):
        return None
    return parts.result(parts.emit(name, x, **dict(zip(taken, numbers, strict=False))))


_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "Relu": (),
    "Sigmoid": (),
    "Tanh": (),
}
"""The activations of products and convolutions, and the attributes that take their numbers."""


def _skip_norm(norm: str, parts: Parts) -> Nodes | None:
    """The sum of what a block takes and gives, normalized. Its last output is the sum."""
    if parts.is_used(1, 2) or not _fit(parts.sizes(0), parts.sizes(1)):
        return None
    has_shift = norm == "LayerNormalization"
    x, skip, scale, *others = parts.node.input
    shift = others[:1] if has_shift else []
    bias = parts.operand(4 if has_shift else 3)
    total = parts.emit("Add", x, skip)
    if bias:
        total = parts.emit("Add", total, bias)
    epsilon = parts.attrs.get("epsilon", 1e-12)
    made = parts.emit(norm, total, scale, *filter(None, shift), epsilon=epsilon)
    return parts.result(made, "", "", total)


def _fit(whole: Sequence[int | None], part: Sequence[int | None]) -> bool:
    """Whether the dimensions of `part` are those of `whole` or 1, as far as they are known."""
    pairs = zip(reversed(whole), reversed(part), strict=False)
    return len(part) <= len(whole) and all(y in (1, x, None) or x is None for x, y in pairs)


def _embedding(parts: Parts) -> Nodes:
    """
    The embeddings of words, places and segments, added and normalized; then how many numbers of
    the mask are 1, and the sum before the normalization.
    """
    ids, segments, words, places, kinds, scale, shift = parts.node.input[:7]
    at = parts.operand(8)
    if not at:
        shape = parts.emit("Shape", ids)
        length = parts.emit("Gather", shape, parts.constant(1, "int64"))
        at = parts.emit("Range", parts.constant(0, "int64"), length, parts.constant(1, "int64"))
    total = parts.emit("Add", parts.emit("Gather", words, ids), parts.emit("Gather", places, at))
    if segments:
        total = parts.emit("Add", total, parts.emit("Gather", kinds, segments))
    epsilon = parts.attrs.get("epsilon", 1e-12)
    made = parts.emit("LayerNormalization", total, scale, shift, epsilon=epsilon)
    count = _count(parts, ids) if parts.is_used(1) else ""
    return parts.result(made, count, total)


def _count(parts: Parts, ids: str) -> str:
    """How many numbers of the mask are 1, for each text; 0 without a mask."""
    mask = parts.operand(7)
    source = mask or ids
    is_one = parts.emit("Equal", source, parts.constant(1, "int32"))
    count = parts.emit("Cast", is_one, to=onnx.TensorProto.INT32)
    if not mask:
        count = parts.emit("Mul", count, parts.constant(0, "int32"))
    if parts.values.opset < 13:
        return parts.emit("ReduceSum", count, axes=[1], keepdims=0)
    return parts.emit("ReduceSum", count, parts.numbers(1), keepdims=0)


def _dynamic_product(parts: Parts) -> Nodes:
    """A product of what is quantized as the model runs and a weight of bytes."""
    x, weight, scale = parts.node.input[:3]
    values, step, zero = parts.emit_several("DynamicQuantizeLinear", 3, x)
    product = _integers(parts, (values, weight, zero, parts.operand(3)))
    return parts.result(_scaled(parts, product, (step, scale), parts.operand(4)))


def _product_of_bytes(parts: Parts) -> Nodes | None:
    if any(size != 1 for size in parts.sizes(2)):
        return None
    x, weight, *scales = parts.node.input[:4]
    product = _integers(parts, (x, weight, parts.operand(4), parts.operand(5)))
    return parts.result(_scaled(parts, product, scales, parts.operand(6)))


def _integers(parts: Parts, operands: tuple[str, ...]) -> str:
    given = operands[: max(place for place, name in enumerate(operands, 1) if name)]
    return parts.emit("Cast", parts.emit("MatMulInteger", *given), to=onnx.TensorProto.FLOAT)


def _scaled(parts: Parts, x: str, scales: tuple[str, ...] | list[str], bias: str) -> str:
    made = parts.emit("Mul", x, parts.emit("Mul", *scales))
    return parts.emit("Add", made, bias) if bias else made


_OTHERS: Mapping[tuple[str, str], Callable[[Parts], Nodes | None]] = {
    ("", "Attention"): attention,
    ("", "RotaryEmbedding"): rotary,
    (MICROSOFT, "DynamicQuantizeMatMul"): _dynamic_product,
    (MICROSOFT, "EmbedLayerNormalization"): _embedding,
    (MICROSOFT, "FusedConv"): _convolution,
    (MICROSOFT, "FusedGemm"): _gemm,
    (MICROSOFT, "FusedMatMul"): _matmul,
    (MICROSOFT, "Gelu"): _gelu,
    (MICROSOFT, "MatMulIntegerToFloat"): _product_of_bytes,
    (MICROSOFT, "MultiHeadAttention"): multi_head_attention,
    (MICROSOFT, "QuickGelu"): _quick_gelu,
    (MICROSOFT, "RotaryEmbedding"): rotary,
    (MICROSOFT, "SkipLayerNormalization"): partial(_skip_norm, "LayerNormalization"),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): partial(
        _skip_norm, "SimplifiedLayerNormalization"
    ),
    (MICROSOFT, "TransposeMatMul"): _matmul,
    **MACHINE_LEARNING,
}
