"""What fused operators of ONNX and onnxruntime take and give, as far as letters do not say it."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.attention_nodes import ATTENDING
from collage_dsl.language.inference.lettered import fitted
from collage_dsl.language.inference.onnx_letters import LETTERED
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    differ,
    dtype_of,
    is_no_multiple,
    result,
    unknown,
)


def lettered(call: Call) -> Type:
    return fitted(call, LETTERED[call.op])


def attention_with_weights(call: Call) -> Type:
    """
    The weights have the columns of the query, the keys and the values of each head: a third each,
    unless `qkv_hidden_sizes` says how many. The result has those of the values.
    """
    weights, heads, given = call.shape(1), call.known_whole("num_heads"), call.shape()
    sizes_of: Mapping[str, Dim] = {} if heads is None else {"n": heads}
    type_ = fitted(call, replace(LETTERED[call.op], sizes=sizes_of))
    if weights is None or len(weights) != 2:
        return type_
    columns = weights[1]
    if heads and is_no_multiple(columns, heads):
        raise MismatchError(f"{columns} columns do not make {heads} heads")
    sizes = _hidden_sizes(call, columns) if isinstance(columns, int) else ()
    for size in sizes if heads else ():
        if is_no_multiple(size, heads or 1):
            raise MismatchError(f"a query of {size} does not make {heads} heads")
    if given is None or not sizes or not isinstance(type_, TupleType):
        return type_
    shape = (*given[:2], sizes[2])
    return TupleType((TensorType(dtype_of(call), shape), *type_.fields[1:]))


def _hidden_sizes(call: Call, columns: int) -> tuple[int, ...]:
    """The columns of the queries, the keys and the values; none if they are not known."""
    if call.lacks("qkv_hidden_sizes"):
        if columns % 3:
            raise MismatchError(f"{columns} columns do not make a query, keys and values")
        return (columns // 3,) * 3
    known = call.known("qkv_hidden_sizes")
    sizes = tuple(n for n in known if isinstance(n, int)) if isinstance(known, tuple) else ()
    if sizes and (len(sizes) != 3 or sizes[0] != sizes[1]):
        raise MismatchError("`qkv_hidden_sizes` are 3 numbers, of which the first two are the same")
    if sizes and sum(sizes) != columns:
        raise MismatchError(f"`qkv_hidden_sizes` are {sum(sizes)} columns, not {columns}")
    return sizes


def batch_normalizing(call: Call) -> Type:
    """In the oldest versions, the weights may also have all dimensions after the batch."""
    shape = call.shape()
    if shape is not None and len(shape) > 1:
        for at in range(1, 5):
            weight = call.shape(at)
            if weight is not None and len(weight) == 1:
                message = f"a weight of {weight[0]} does not fit {shape[1]} channels"
                call.agree(weight[0], shape[1], message)
    return result(call, shape)


def layer_normalizing(call: Call) -> Type:
    """Weights are broadcast to the data."""
    shape = call.shape()
    for at in range(1, len(call.types)):
        _check_broadcast(call.shape(at), shape)
    return unknown(call)


def _check_broadcast(given: Shape | None, to: Shape | None) -> None:
    if given is None or to is None:
        return
    if len(given) > len(to):
        message = f"a weight of {len(given)} dimensions does not fit data of {len(to)}"
        raise MismatchError(message)
    for dim, whole in zip(reversed(given), reversed(to), strict=False):
        if dim != 1 and differ(dim, whole):
            raise MismatchError(f"a weight of {dim} does not fit a dimension of {whole}")


def group_normalizing(call: Call) -> Type:
    """The oldest version has a weight for each group, the newer one for each channel."""
    shape, groups = call.shape(), call.known_whole("num_groups")
    if shape is not None and len(shape) > 1 and groups:
        if is_no_multiple(shape[1], groups):
            raise MismatchError(f"{shape[1]} channels do not make {groups} groups")
        for at in (1, 2):
            weight = call.shape(at)
            if weight is not None and len(weight) != 1:
                raise MismatchError(f"a weight has 1 dimension, not {len(weight)}")
            if weight is not None and _is_none_of(weight[0], (shape[1], groups)):
                message = f"a weight of {weight[0]} does not fit {shape[1]} channels"
                raise MismatchError(message)
    return result(call, shape)


def _is_none_of(dim: Dim, dims: tuple[Dim, ...]) -> bool:
    numbers = (dim, *dims)
    return all(isinstance(each, int) for each in numbers) and dim not in dims


def group_normalizing_images(call: Call) -> Type:
    """Channels come last, unless `channels_last` is 0."""
    _check_images_of_groups(call)
    return result(call, call.shape())


def skipping_images(call: Call) -> Type:
    """The second result is the sum that is normalized."""
    _check_images_of_groups(call)
    shape, skipped = call.shape(), call.shape(3)
    if shape and skipped and call.known_whole("channels_last") == 1:
        message = f"what is added has {skipped[-1]} channels, not {shape[-1]}"
        call.agree(skipped[-1], shape[-1], message)
    one = result(call, call.shape())
    return TupleType((one, one))


def _check_images_of_groups(call: Call) -> None:
    weights = [shape for shape in (call.shape(at) for at in (1, 2)) if shape and len(shape) == 1]
    for one, other in pairwise(weights):
        message = f"weights of {one[0]} and {other[0]} are not for the same channels"
        call.agree(one[0], other[0], message)
    shape, groups = call.shape(), call.known_whole("groups")
    is_last = call.known_whole("channels_last")
    if shape is None or len(shape) < 2 or is_last is None:
        return
    channels = shape[-1] if is_last else shape[1]
    if groups and is_no_multiple(channels, groups):
        raise MismatchError(f"{channels} channels do not make {groups} groups")
    for weight in weights:
        message = f"a weight of {weight[0]} does not fit {channels} channels"
        call.agree(weight[0], channels, message)


def halving(call: Call) -> Type:
    """The second half of the channels is a gate for the first."""
    shape, bias = call.shape(), call.shape(1)
    if shape is None:
        return unknown(call)
    if len(shape) != 3:
        raise MismatchError(f"`X` has 3 dimensions, not {len(shape)}")
    if bias is not None and len(bias) == 1:
        call.agree(bias[0], shape[2], f"a bias of {bias[0]} does not fit {shape[2]} channels")
    if is_no_multiple(shape[2], 2):
        raise MismatchError(f"{shape[2]} channels have no halves")
    half = shape[2] // 2 if isinstance(shape[2], int) else UNKNOWN_DIM
    return result(call, (*shape[:2], half))


def convolving_with_state(call: Call) -> Type:
    """The state is what comes before the data: one less than the kernel is wide."""
    type_, weights = lettered(call), call.shape(1)
    states = [shape for shape in (call.shape(at) for at in (2, 3)) if shape and len(shape) == 3]
    if not weights or not isinstance(weights[2], int) or not isinstance(type_, TupleType):
        return type_
    for state in states:
        message = f"a state of {state[2]} does not fit a kernel of {weights[2]}"
        call.agree(state[2], weights[2] - 1, message)
    shape = (*weights[:1], weights[2] - 1)
    batch = (call.shape() or (UNKNOWN_DIM,))[0]
    return TupleType((type_.fields[0], TensorType(dtype_of(call), (batch, *shape))))


def rotating(call: Call) -> Type:
    """The caches have half as many columns as are turned: all of a head if no attribute says."""
    type_, fused = lettered(call), call.op.startswith("com.microsoft.")
    turned, head = call.known_whole("rotary_embedding_dim"), _head_size(call)
    if turned == 0 or call.lacks("rotary_embedding_dim"):
        turned = head
    for at in (2, 3) if fused else (1, 2):
        cache = call.shape(at)
        if not cache:
            continue
        said = f"`{(operators()[call.op].operands or ())[at]}` has {cache[-1]} columns, not half of"
        if turned is not None:
            call.agree(cache[-1], turned // 2, f"{said} the {turned} turned")
        elif head is not None and isinstance(cache[-1], int) and cache[-1] > head // 2:
            raise MismatchError(f"{said} a head of {head}, or less")
    return type_


def _head_size(call: Call) -> int | None:
    """The size of a head, if it is a number."""
    shape, heads = call.shape(), call.known_whole("num_heads")
    last = shape[-1] if shape else None
    if shape is None or not isinstance(last, int):
        return None
    if len(shape) == 4:
        return last
    return last // heads if heads else None


def choosing_experts(call: Call) -> Type:
    """The first weights of an expert have the features as rows or as columns."""
    type_, shape, weights = lettered(call), call.shape(), call.shape(2)
    _check_chosen(call)
    if shape and weights is not None and _is_none_of(shape[-1], weights[1:]):
        message = f"weights of {weights[1]} by {weights[2]} do not fit {shape[-1]} features"
        raise MismatchError(message)
    return type_


def choosing_packed_experts(call: Call) -> Type:
    """The first dimension of all weights is that of the experts."""
    _check_chosen(call)
    scores, weights = call.shape(1), call.shape(2)
    if scores and weights:
        message = f"weights of {weights[0]} experts do not fit scores of {scores[-1]}"
        call.agree(scores[-1], weights[0], message)
    return result(call, call.shape())


def _check_chosen(call: Call) -> None:
    scores, chosen = call.shape(1), call.known_whole("k")
    count = scores[-1] if scores else None
    if chosen and isinstance(count, int) and chosen > count:
        raise MismatchError(f"{chosen} of {count} experts cannot be chosen")


FUSED: Mapping[str, Callable[[Call], Type]] = {
    **dict.fromkeys(LETTERED, lettered),
    **dict.fromkeys(("onnx.LayerNormalization", "onnx.RMSNormalization"), layer_normalizing),
    **dict.fromkeys(
        ("com.microsoft.Attention", "com.microsoft.QAttention"), attention_with_weights
    ),
    "com.microsoft.BiasSplitGelu": halving,
    "onnx.CausalConvWithState": convolving_with_state,
    "com.microsoft.MoE": choosing_experts,
    "com.microsoft.QMoE": choosing_packed_experts,
    "onnx.BatchNormalization": batch_normalizing,
    "onnx.GroupNormalization": group_normalizing,
    "com.microsoft.GroupNorm": group_normalizing_images,
    "com.microsoft.SkipGroupNorm": skipping_images,
    **ATTENDING,
    **{f"{domain}.RotaryEmbedding": rotating for domain in ("onnx", "com.microsoft")},
}
