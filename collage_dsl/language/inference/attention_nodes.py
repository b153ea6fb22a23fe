"""
Infer the types of nodes of attention. A query may hold the keys and the values too; the rank of an
operand says which.
"""

from collections.abc import Callable, Mapping

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.language.inference.lettered import fitted
from collage_dsl.language.inference.onnx_letters import LETTERED
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    dtype_of,
    is_no_multiple,
    product,
    result,
    times,
    unknown,
)


def attention(call: Call) -> Type:
    """Heads have a dimension of their own, or attributes say how many there are."""
    query, key, value = (call.shape(at) for at in range(3))
    ranks = {len(shape) for shape in (query, key, value) if shape is not None}
    if not ranks <= {3, 4} or len(ranks) > 1:
        raise MismatchError("the query, key and value have 3 dimensions each, or 4")
    for name in ("q_num_heads", "kv_num_heads") if 3 in ranks else ():
        if call.lacks(name):
            raise MismatchError(f"a query of 3 dimensions needs `{name}`")
    heads: Dim | None = call.known_whole("q_num_heads")
    groups: Dim | None = call.known_whole("kv_num_heads")
    if 4 in ranks:
        heads, groups = _heads("Q", query, heads, call), _heads("K", key, groups, call)
        _agree(call, "head sizes", query, key, 3)
        _agree(call, "heads", key, value, 1)
    elif 3 in ranks:
        _check_heads("a query", query, heads)
        _check_heads("a key", key, groups)
        _check_heads("a value", value, groups)
        _agree_sizes(call, query, heads, key, groups)
    if heads and groups and is_no_multiple(heads, groups):
        raise MismatchError(f"{heads} heads are no multiple of {groups}")
    _agree(call, "batches", query, key, 0)
    _agree(call, "batches", key, value, 0)
    _agree(call, "lengths", key, value, -2)
    if len(call.types) == 4 and key is not None:  # no keys come before
        _check_mask(call.shape(3), key[-2])
    output = None
    if ranks:
        output = _unknown_but(ranks.pop(), *(query or ())[:1])
    return _attended(call, output, heads, groups)


def _heads(name: str, shape: Shape | None, said: Dim | None, call: Call) -> Dim | None:
    """How many heads an operand of 4 dimensions has: as many as an attribute says, if it does."""
    if shape is None:
        return said
    if said is not None:
        call.agree(shape[1], said, f"`{name}` has {shape[1]} heads, not {said}")
    return shape[1]


def _unknown_but(rank: int, *dims: Dim) -> Shape:
    """A shape of which only the first dimensions are known."""
    return (*dims, *[UNKNOWN_DIM] * (rank - len(dims)))


def _attended(call: Call, output: Shape | None, heads: Dim | None, groups: Dim | None) -> Type:
    """The output, the keys and values of each of the `groups`, and the scores of the `heads`."""
    batch = output[0] if output else UNKNOWN_DIM
    cache, scores = (
        _unknown_but(4, batch, UNKNOWN_DIM if count is None else count) for count in (groups, heads)
    )
    shapes = output, cache, cache, scores
    return TupleType(tuple(TensorType(dtype_of(call), shape) for shape in shapes))


def _check_heads(named: str, shape: Shape | None, heads: Dim | None) -> None:
    if shape is not None and heads and is_no_multiple(shape[2], heads):
        raise MismatchError(f"{named} of {shape[2]} does not make {heads} heads")


def _agree_sizes(
    call: Call, query: Shape | None, heads: Dim | None, key: Shape | None, groups: Dim | None
) -> None:
    """Heads of the keys are as large as those of the query."""
    if query is None or key is None or not isinstance(heads, int) or not isinstance(groups, int):
        return
    message = f"{heads} heads of a query of {query[2]} are not as large as "
    message += f"{groups} heads of keys of {key[2]}"
    call.agree(times(query[2], groups), times(key[2], heads), message)


def _check_mask(mask: Shape | None, length: Dim) -> None:
    """
    Keys beyond the end of a mask are hidden. What has 4 dimensions may be past keys, and what has
    1 may be lengths.
    """
    last = mask[-1] if mask and 1 < len(mask) < 4 else None
    if isinstance(last, int) and isinstance(length, int) and last > length:
        raise MismatchError(f"a mask for {last} keys does not fit {length} keys")


def _agree(call: Call, name: str, one: Shape | None, other: Shape | None, at: int) -> None:
    if one is not None and other is not None:
        call.agree(one[at], other[at], f"the {name} {one[at]} and {other[at]} differ")


def multi_head_attention(call: Call) -> Type:
    """
    The query is `[batch, length, width]`, or holds the keys and values too, in 5 dimensions. Keys
    beside a query of 3 dimensions come next, and hold the values too if they have 5 dimensions.
    """
    query, heads = call.shape(0), call.known_whole("num_heads")
    if query is None:
        return _attended(call, _unknown_but(3), heads, heads)
    if len(query) == 5:
        _check_packed(call, "query", query[2:], heads, 3)
        output = (*query[:2], product((query[2], query[4])))
        return _attended(call, output, heads, heads)
    if len(query) != 3:
        raise MismatchError(f"`query` has 3 dimensions or 5, not {len(query)}")
    _check_heads("a query", query, heads)
    if len(call.types) == 1:
        raise MismatchError("a query of 3 dimensions needs keys")
    _agree(call, "batches", query, call.shape(1), 0)
    return _attended(call, (*query[:2], _width(call, query, heads)), heads, heads)


def _check_packed(call: Call, name: str, shape: Shape, heads: int | None, parts: int) -> None:
    """Check the heads of a packed operand, with so many parts each: the last 3 dimensions."""
    if heads is not None:
        call.agree(shape[0], heads, f"`{name}` has {shape[0]} heads, not {heads}")
    call.agree(shape[1], parts, f"each head of `{name}` has {parts} parts, not {shape[1]}")


def _width(call: Call, query: Shape, heads: int | None) -> Dim:
    """The width of the result, which is that of the values."""
    key, value = call.shape(1), call.shape(2)
    if key is None:
        return UNKNOWN_DIM
    if len(key) == 5:
        _check_packed(call, "key", key[2:], heads, 2)
        _agree_width(call, query, (key[2], key[4]))
        return query[2]
    if len(key) not in (3, 4) or len(call.types) == 2:
        raise MismatchError("keys have 5 dimensions, or come with values of 3 or 4 dimensions each")
    if value is not None and len(value) != len(key):
        message = f"keys of {len(key)} dimensions do not fit values of {len(value)}"
        raise MismatchError(message)
    if len(key) == 4:
        if heads is not None:
            call.agree(key[1], heads, f"`key` has {key[1]} heads, not {heads}")
        _agree_width(call, query, (key[1], key[3]))
        if value is not None:
            call.agree_all(key, value, "keys and values of 4 dimensions have one shape")
        return query[2]
    _agree(call, "widths", query, key, 2)
    _agree(call, "batches", key, value, 0)
    _agree(call, "lengths", key, value, 1)
    _check_heads("a value", value, heads)
    return UNKNOWN_DIM if value is None else value[2]


def _agree_width(call: Call, query: Shape, heads: tuple[Dim, Dim]) -> None:
    count, size = heads
    message = f"{count} heads of {size} are not as wide as a query of {query[2]}"
    call.agree(product(heads), query[2], message)


def stepping_attention(call: Call) -> Type:
    """The query is one step."""
    query = call.shape()
    if query is not None and len(query) not in (3, 5):
        raise MismatchError(f"`query` has 3 dimensions or 5, not {len(query)}")
    if query is not None and len(query) == 3:
        call.agree(query[1], 1, f"a query is one step, not {query[1]}")
    return unknown(call)


def grouped_attention(call: Call) -> Type:
    """
    Keys of 3 dimensions come next, with heads of the size of those of the query. Without keys, the
    query has the keys and the values too.
    """
    heads, groups = call.known_whole("num_heads"), call.known_whole("kv_num_heads")
    if heads and groups and is_no_multiple(heads, groups):
        raise MismatchError(f"{heads} heads are no multiple of {groups}")
    query, key = call.shape(0), call.shape(1)
    if query is None:
        return _attended(call, _unknown_but(3), heads, groups)
    if len(query) != 3:
        raise MismatchError(f"`query` has 3 dimensions, not {len(query)}")
    if key is None or len(key) != 3:
        return _attended(call, _unknown_but(3, *query[:2]), heads, groups)
    _check_heads("a query", query, heads)
    _agree_sizes(call, query, heads, key, groups)
    _agree(call, "batches", query, key, 0)
    value = call.shape(2)
    if value is not None and len(value) == 3:
        call.agree_all(key, value, "keys and values have one shape")
    for past in (call.shape(at) for at in (3, 4)):  # the values come before the cache
        if past is not None and len(past) == 4:
            _check_cache(call, past, key, groups)
    if heads:
        _check_rotation(call, query[2], heads)
    return _attended(call, query, heads, groups)


def _check_rotation(call: Call, width: Dim, heads: int) -> None:
    """Cosines and sines, for half of a head or less, are two matrices behind the lengths."""
    matrices = [shape for shape in map(call.shape, (7, 8)) if shape and len(shape) == 2]
    for columns in (shape[1] for shape in matrices if len(matrices) == 2):
        half = columns * heads if isinstance(columns, int) else 0
        if isinstance(width, int) and 2 * half > width:
            message = f"cosines of {columns} columns do not fit {heads} heads of a query of {width}"
            raise MismatchError(message)


def _check_cache(call: Call, past: Shape, key: Shape, groups: int | None) -> None:
    """A cache is `[batch, heads, length, size]`, unless its numbers are packed."""
    call.agree(past[0], key[0], f"the batches {past[0]} and {key[0]} differ")
    if groups:
        message = f"a cache with {past[1]} heads does not fit {groups} heads of keys"
        call.agree(past[1], groups, message)
    quantized = call.known("k_quant_type"), call.known("v_quant_type")
    if groups and quantized == ("NONE", "NONE"):
        message = f"a cache with heads of {past[3]} does not fit {groups} heads of keys of {key[2]}"
        call.agree(times(past[3], groups), key[2], message)


def linear_attention(call: Call) -> Type:
    """The state of each head is a matrix of the size of a key by that of a value."""
    type_ = fitted(call, LETTERED[call.op])
    heads, groups = call.known_whole("q_num_heads"), call.known_whole("kv_num_heads")
    query, key, value, past = (call.shape(at) for at in range(4))
    _check_heads("a query", query, heads)
    _check_heads("a key", key, groups)
    _check_heads("a value", value, groups)
    _agree_sizes(call, query, heads, key, groups)
    if groups and past is not None and len(past) == 4:
        message = f"a state with {past[1]} heads does not fit {groups} heads of keys"
        call.agree(past[1], groups, message)
        for name, shape, size in (("keys", key, past[2]), ("values", value, past[3])):
            if shape is not None:
                message = f"a state for {size} does not fit {groups} heads of {name} of {shape[2]}"
                call.agree(times(size, groups), shape[2], message)
    return type_


def packed_attention(call: Call) -> Type:
    """The query is `[tokens, width]`, or holds the keys and values too, in 4 dimensions."""
    query, heads = call.shape(), call.known_whole("num_heads")
    if query is None:
        return unknown(call)
    if len(query) == 4:
        _check_packed(call, "query", query[1:], heads, 3)
        return result(call, (query[0], product((query[1], query[3]))))
    if len(query) != 2:
        raise MismatchError(f"`query` has 2 dimensions or 4, not {len(query)}")
    if len(call.types) == 3:
        raise MismatchError("a query of 2 dimensions needs keys")
    if heads and is_no_multiple(query[1], heads):
        raise MismatchError(f"a query of {query[1]} does not make {heads} heads")
    return result(call, (query[0], UNKNOWN_DIM))


ATTENDING: Mapping[str, Callable[[Call], Type]] = {
    "onnx.Attention": attention,
    "onnx.LinearAttention": linear_attention,
    "com.microsoft.DecoderMaskedMultiHeadAttention": stepping_attention,
    "com.microsoft.GroupQueryAttention": grouped_attention,
    "com.microsoft.MultiHeadAttention": multi_head_attention,
    "com.microsoft.PackedMultiHeadAttention": packed_attention,
}
