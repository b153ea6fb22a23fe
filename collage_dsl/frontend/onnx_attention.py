"""
Nodes of attention, as the products, the softmax and the rotations that they stand for.

A row of which a mask leaves nothing gives 0, which a softmax does not. So masks are taken that are
known to leave something in each row, or are truth values.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from collage_dsl.frontend.errors import WrongNodeError
from collage_dsl.frontend.onnx_parts import Parts

Nodes = list[onnx.NodeProto]
_OLDEST = 13
"""The first operator set in which `Unsqueeze` takes its axes as an operand."""

_BY_HEADS = [0, 2, 1, 3]
_HEADS = {"kv_num_heads", "q_num_heads"}
"""The attributes that operands of three dimensions need. With four, the heads are in the shapes."""


@dataclass(frozen=True, slots=True)
class _Heads:
    """Query, keys and values, as tensors of four dimensions: batch, heads, places, numbers."""

    query: str
    keys: str
    values: str
    scale: float


def attention(parts: Parts) -> Nodes | None:
    """`Attention` of the standard, without past. Raises `WrongNodeError`."""
    attrs, ranks = parts.attrs, {len(parts.sizes(place)) for place in (0, 1, 2)}
    if ranks == {3} and (missing := sorted(_HEADS - attrs.keys())):
        raise WrongNodeError(f"the attribute `{missing[0]}` of Attention is missing")
    others = attrs.keys() - _HEADS - {"is_causal", "scale"}
    is_plain = not any(attrs[name] for name in others) and len(parts.node.input) < 5
    if not is_plain or parts.values.opset < _OLDEST or parts.is_used(1, 2, 3) or len(ranks) > 1:
        return None
    sizes = [parts.sizes(place) for place in (0, 1)]
    if (rank := ranks.pop()) == 3:
        counts = [attrs["q_num_heads"], attrs["kv_num_heads"]]
        sizes = [[b, n, s, w and w // n] for (b, s, w), n in zip(sizes, counts, strict=True)]
    (_, heads, rows, head), (_, groups, columns, _) = sizes
    if head is None or not heads or not groups or heads % groups:
        return None
    x, keys, values = (
        _split(parts, name, n) if rank == 3 else name
        for name, n in zip(parts.node.input, (heads, groups, groups), strict=False)
    )
    keys, values = (_repeated(parts, name, groups, heads) for name in (keys, values))
    whole = _Heads(x, keys, values, attrs.get("scale", head**-0.5))
    made = _masked(parts, whole, rows, columns)
    if not made:
        return None
    return parts.result(_joined(parts, made) if rank == 3 else made)


def _masked(parts: Parts, whole: _Heads, rows: int | None, columns: int | None) -> str:
    """The result under the mask of an `Attention`, and under that of order; empty if not known."""
    name, is_causal = parts.operand(3), bool(parts.attrs.get("is_causal", 0))
    if not name and not is_causal:
        return _attended(parts, whole)
    if rows is None or columns is None:
        return ""
    order = np.tri(rows, columns, dtype=bool) if is_causal else np.ones((rows, columns), bool)
    mask = parts.values.constant(name) if name else order
    if name and parts.sizes(3)[-2:] not in ([rows, columns], [1, columns]):
        return ""
    if mask is not None:
        added = np.where(mask, 0, -np.inf) if mask.dtype == bool else mask.astype(np.float32)
        added = np.where(order, added, -np.inf).astype(np.float32)
        is_open = np.isfinite(added).any(axis=-1).all() and not np.isnan(added).any()
        return _attended(parts, whole, [parts.constant(added, "float32")]) if is_open else ""
    if parts.values.dtype(name) != "bool":
        return ""
    if is_causal:
        name = parts.emit("And", name, parts.constant(order, "bool"))
    return _attended(parts, whole, allowed=name)


def multi_head_attention(parts: Parts) -> Nodes | None:
    """`MultiHeadAttention` of onnxruntime, of three tensors of three dimensions."""
    attrs = parts.attrs
    ranks = [len(parts.sizes(place)) if parts.operand(place) else 0 for place in range(3)]
    if parts.values.opset < _OLDEST or attrs.get("unidirectional") or ranks != [3, 3, 3]:
        return None
    past = [parts.operand(6), parts.operand(7)]
    mask, width, count = parts.operand(4), parts.sizes(0)[2], attrs["num_heads"]
    if any(map(parts.operand, (8, 9))) or width is None or any(past) != all(past):
        return None
    if mask and (any(past) or len(parts.sizes(4)) != 2):
        return None
    x, keys, values = (_split(parts, name, count) for name in _biased(parts, width))
    if all(past):
        keys, values = (
            parts.emit("Concat", old, new, axis=2)
            for old, new in zip(past, (keys, values), strict=True)
        )
    added = [_padding(parts, mask)] if mask else []
    added += filter(None, [parts.operand(5)])
    scale = attrs.get("scale") or (width // count) ** -0.5
    made = _attended(parts, _Heads(x, keys, values, scale), added)
    return parts.result(_joined(parts, made), keys, values)


def _biased(parts: Parts, width: int) -> list[str]:
    """Query, key and value, with their parts of the bias."""
    names = list(parts.node.input[:3])
    if not (bias := parts.operand(3)):
        return names
    ends = (width, 2 * width, np.iinfo(np.int64).max)
    shifts = [
        _cut(parts, bias, start, end) for start, end in zip((0, *ends[:2]), ends, strict=True)
    ]
    return [parts.emit("Add", *each) for each in zip(names, shifts, strict=True)]


def _padding(parts: Parts, mask: str) -> str:
    """What is added for keys of which the mask is not above 0."""
    dtype = parts.values.dtype(mask)
    is_kept = parts.emit("Greater", mask, parts.constant(0, dtype))
    least = parts.constant(parts.attrs.get("mask_filter_value", -10000.0), "float32")
    added = parts.emit("Where", is_kept, parts.constant(0, "float32"), least)
    return parts.emit("Unsqueeze", added, parts.numbers(1, 2))


def _attended(parts: Parts, whole: _Heads, added: Sequence[str] = (), allowed: str = "") -> str:
    """The values by their weights, to whose logarithms is added; others than the allowed are 0."""
    keys = parts.emit("Transpose", whole.keys, perm=[0, 1, 3, 2])
    weights = parts.emit("MatMul", whole.query, keys)
    weights = parts.emit("Mul", weights, parts.constant(whole.scale, "float32"))
    for name in added:
        weights = parts.emit("Add", weights, name)
    if allowed:
        nothing = parts.constant(-np.inf, "float32")
        weights = parts.emit("Where", allowed, weights, nothing)
    weights = parts.emit("Softmax", weights, axis=-1)
    if allowed:
        weights = parts.emit("Where", allowed, weights, parts.constant(0, "float32"))
    return parts.emit("MatMul", weights, whole.values)


def _split(parts: Parts, x: str, count: int) -> str:
    heads = parts.emit("Reshape", x, parts.numbers(0, 0, count, -1))
    return parts.emit("Transpose", heads, perm=_BY_HEADS)


def _joined(parts: Parts, x: str) -> str:
    rows = parts.emit("Transpose", x, perm=_BY_HEADS)
    return parts.emit("Reshape", rows, parts.numbers(0, 0, -1))


def _repeated(parts: Parts, x: str, groups: int, heads: int) -> str:
    """Keys or values, each as often as there are queries for it."""
    if groups == heads:
        return x
    each = parts.emit("Unsqueeze", x, parts.numbers(2))
    every = parts.emit("Expand", each, parts.numbers(1, 1, heads // groups, 1, 1))
    pairs = parts.emit("Transpose", every, perm=[0, 3, 4, 1, 2])
    joined = parts.emit("Reshape", pairs, parts.numbers(0, 0, 0, heads))
    return parts.emit("Transpose", joined, perm=[0, 3, 1, 2])


# ---- Rotations ----

_PLACES: Mapping[str, tuple[int, int, int]] = {"": (1, 2, 3), "com.microsoft": (2, 3, 1)}
"""The operands of a `RotaryEmbedding` that are cosines, sines and places, by its domain."""


def rotary(parts: Parts) -> Nodes | None:
    """`RotaryEmbedding`: pairs of numbers are turned by an angle that their place has."""
    attrs, sizes = parts.attrs, parts.sizes(0)
    cosines, sines, at = _PLACES[parts.node.domain.replace("ai.onnx", "", 1)]
    half = parts.sizes(cosines)[-1]
    if parts.values.opset < _OLDEST or attrs.get("is_packed_batching") or half is None:
        return None
    if attrs.get("scale", 1.0) != 1 or len(sizes) not in (3, 4) or sizes[-1] is None:
        return None
    if parts.operand(at) and len(parts.sizes(at)) != 2:
        return None
    is_flat, x, width = len(sizes) == 3, parts.operand(0), sizes[-1]
    if is_flat:
        width //= attrs.get("num_heads") or width // (2 * half)
        x = parts.emit("Reshape", x, parts.numbers(0, 0, -1, width))
    if (attrs.get("rotary_embedding_dim") or width) != 2 * half:
        return None
    axes = [2 if is_flat else 1, *([-1] if attrs.get("interleaved") else [])]
    cosine, sine = (_of_places(parts, place, at, axes) for place in (cosines, sines))
    pairs = _cut(parts, x, 0, 2 * half) if width > 2 * half else x
    turned = _turned(parts, pairs, cosine, sine, half)
    if width > 2 * half:
        turned = parts.emit("Concat", turned, _cut(parts, x, 2 * half, width), axis=-1)
    return parts.result(_flat(parts, turned, sizes[-1]) if is_flat else turned)


def _flat(parts: Parts, x: str, width: int) -> str:
    return parts.emit("Reshape", x, parts.numbers(0, 0, width))


def _of_places(parts: Parts, place: int, at: int, axes: Sequence[int]) -> str:
    """The cosines or sines for each place, for all heads."""
    table, places = parts.operand(place), parts.operand(at)
    each = parts.emit("Gather", table, places) if places else table
    return parts.emit("Unsqueeze", each, parts.numbers(*axes))


def _turned(parts: Parts, x: str, cosine: str, sine: str, half: int) -> str:
    """The pairs are numbers beside each other, or number by number of two halves."""
    is_beside = parts.attrs.get("interleaved", 0)
    if is_beside:
        x = parts.emit("Reshape", x, parts.numbers(0, 0, 0, half, 2))
        half = 1
    first, second = _cut(parts, x, 0, half), _cut(parts, x, half, 2 * half)
    left = parts.emit("Sub", parts.emit("Mul", first, cosine), parts.emit("Mul", second, sine))
    right = parts.emit("Add", parts.emit("Mul", first, sine), parts.emit("Mul", second, cosine))
    turned = parts.emit("Concat", left, right, axis=-1)
    return parts.emit("Reshape", turned, parts.numbers(0, 0, 0, -1)) if is_beside else turned


def _cut(parts: Parts, x: str, start: int, end: int) -> str:
    """These numbers of the last axis."""
    return parts.emit("Slice", x, *(parts.numbers(each) for each in (start, end, -1)))
