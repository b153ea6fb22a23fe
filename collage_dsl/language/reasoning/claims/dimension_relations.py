"""The shapes, dimensions and numbers of elements of what operators take and give."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import combinations, pairwise
from math import gcd, inf, prod

from collage_dsl.language.reasoning.claims.list_values import asked_list, is_none
from collage_dsl.language.reasoning.claims.relations import (
    Relation,
    broadcasts,
    keeps_dtype,
    keeps_shape,
    table,
)
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.alternatives import is_one_of, may_be_one
from collage_dsl.language.reasoning.values.assuming import equate
from collage_dsl.language.reasoning.values.domain import between, divided_by, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import count_elements, multiply
from collage_dsl.language.reasoning.values.terms import Term, rank_of
from collage_dsl.rules.condition import Bytes, Calculate, Constant, DimAt, Expression, Rank, Size

MOST_AXES = 8
"""Only this many dimensions of a value are looked at, from the last one on."""

SAME_SIZE = frozenset(
    {"cumprod", "cumsum", "expand_dims", "flatten", "nn.batch_flatten", "permute_dims", "reshape"}
    | {"squeeze"}
)
"""Operators that keep all elements."""


def keeps_all(op: str) -> bool:
    """Whether the result of `op` has as many elements as its first operand."""
    return keeps_shape(op) or op in SAME_SIZE


_FIRST_KEEPS_SHAPE = frozenset({"nn.batch_norm", "nn.dropout", "to_vdevice"})
"""Other operators whose first result has the shape of the first operand."""


def dimension_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    yield from _table(ops)
    if all(op in _WEIGHED for op in ops):
        yield Relation("the weights of {op} have one shape", once=_alike)
    if len({_WEIGHED.get(op) for op in ops}) == 1 and ops[0] in _WEIGHED:
        said = "the weights of {op} have the dimensions that its axes name"
        yield Relation(said, again=_weights)


def _same_shape(called: Called, facts: Facts) -> None:
    if name := called.results.get(0):
        facts.same_shape(called.operands[0], name)


def _same_bytes(called: Called, facts: Facts) -> None:
    facts.equal(Bytes(called.result), Bytes(called.operands[0]))


def _same_state(called: Called, facts: Facts) -> None:
    """Where all three results are used, it is known which ones these are."""
    if {1, 2} <= called.results.keys():
        facts.same_shape(called.results[1], called.results[2])


def same_size(called: Called, facts: Facts) -> None:
    facts.equal(Size(called.result), Size(called.operands[0]))


def counted(called: Called, facts: Facts) -> None:
    for name in (called.result, called.operands[0]):
        count_elements(facts, name)
    _same_product(called, facts)


def _same_product(called: Called, facts: Facts) -> None:
    """What is left of both shapes without their common dimensions has the same product."""
    one, other = (_dims_of(facts, name) for name in (called.result, called.operands[0]))
    if one is None or other is None:
        return
    for dim in list(one):
        if dim in other and 0 not in facts.of(dim):
            one.remove(dim)
            other.remove(dim)
    shapes = one, other
    known = [[facts.of(dim).only() for dim in dims] for dims in shapes]
    numbers = [prod(each for each in dims if isinstance(each, int)) for dims in known]
    left = [[dim for dim in dims if not isinstance(facts.of(dim).only(), int)] for dims in shapes]
    match left:
        case [[], []]:
            facts.possible &= numbers[0] == numbers[1]
        case [[dim], []] if numbers[0] > 0:
            _divide(facts, dim, numbers[1], numbers[0])
        case [[], [dim]] if numbers[1] > 0:
            _divide(facts, dim, numbers[0], numbers[1])
        case [[], several] if min(numbers) > 0:
            _product_is(facts, several, numbers[0], numbers[1])
        case [several, []] if min(numbers) > 0:
            _product_is(facts, several, numbers[1], numbers[0])
        case [[dim], [of]] if numbers[0] == numbers[1] > 0:
            facts.equal(dim, of)
        case [[_, *_], [_, *_]] if min(numbers) > 0:
            common = gcd(*numbers)
            sides = (
                _times(*side) for side in zip(left, (n // common for n in numbers), strict=True)
            )
            equate(facts, *sides)


def _product_is(facts: Facts, dims: Sequence[Term], number: int, by: int) -> None:
    """Add that the product of `dims` and the number `by` is `number`, above 0."""
    if number % by:
        facts.possible = False
        facts.mismatch = f"{number} elements do not make parts of {by}"
    for dim in dims:
        facts.narrow(dim, between(1, number // by))


def _times(dims: Sequence[Term], number: int) -> Expression:
    """The product of `dims`, of which there is one at least, and of a number."""
    every: list[Expression] = [*dims, *([Constant(number)] if number != 1 else [])]
    return reduce(partial(Calculate, "*"), every)


def _dims_of(facts: Facts, name: str) -> list[Term] | None:
    rank = facts.of(Rank(name)).only()
    if not isinstance(rank, int) or rank > MOST_AXES:
        return None
    return [facts.first(DimAt(name, axis)) for axis in range(rank)]


def _divide(facts: Facts, dim: Term, whole: int, by: int) -> None:
    facts.possible &= whole % by == 0
    facts.narrow(dim, one_of((whole // by,)))


def _axes_of(facts: Facts, name: str) -> int:
    """How many of the last axes a value has at least, as far as they are looked at."""
    least, _ = facts.of(rank_of(name)).bounds()
    return min(int(least), MOST_AXES)


def _broadcast(called: Called, facts: Facts) -> None:
    """
    From the last dimension on; if all have the same rank, also from the first one on. Beside
    scalars and parts, an operand keeps its shape.
    """
    shaped = [name for name in called.operands if facts.of(rank_of(name)).only() != 0]
    wholes = [name for name in shaped if not facts.is_part(name, shaped)]
    if len({facts.representative(name) for name in wholes}) <= 1:
        facts.same_shape((wholes or called.operands)[0], called.result)
        return
    for name in called.operands:
        multiply(facts, called.result, name)
    _broadcast_at(called, facts, range(-_axes_of(facts, called.result), 0))
    names = [*called.operands, called.result]
    if len({facts.first(rank_of(name)) for name in called.operands}) == 1:
        facts.equal(Rank(called.result), Rank(called.operands[0]))
        _broadcast_at(called, facts, [axis for axis in facts.asked_axes(names) if axis >= 0])


def _broadcast_at(called: Called, facts: Facts, axes: Iterable[int]) -> None:
    """Two dimensions that are broadcast are equal, or one of them is 1."""
    ranks = [(name, facts.of(rank_of(name)).bounds()) for name in called.operands]
    for axis in axes:
        given = [DimAt(name, axis) for name, (least, _) in ranks if least >= -axis]
        absent = [name for name, (_, most) in ranks if most < -axis]
        large = [dim for dim in given if not may_be_one(facts, dim)]
        for one, other in combinations(large, 2):
            facts.equal(one, other)
        if large:
            facts.equal(DimAt(called.result, axis), large[0])
            only = facts.of(large[0]).only()
            if only is not None:
                for dim in given:
                    facts.narrow(dim, one_of((1, only)))
        elif given and len(given) + len(absent) == len(called.operands):
            unknown = {facts.first(dim): dim for dim in given if facts.of(dim).only() != 1}
            if len(unknown) <= 1:
                facts.equal(DimAt(called.result, axis), next(iter(unknown.values()), given[0]))
        others = [DimAt(name, axis) for name in called.operands if name not in absent]
        if others:
            is_one_of(facts, DimAt(called.result, axis), others)


def broadcast_to(called: Called, facts: Facts) -> None:
    """A dimension of the operand is that of the result, or 1."""
    data, result = called.operands[0], called.result
    for axis in range(-_axes_of(facts, data), 0):
        if not may_be_one(facts, DimAt(data, axis)):
            facts.equal(DimAt(data, axis), DimAt(result, axis))
        elif (only := facts.of(DimAt(result, axis)).only()) is not None:
            facts.narrow(DimAt(data, axis), one_of((1, only)))
    rank = facts.of(Rank(result)).only()
    for axis in facts.asked_axes([data]):
        if isinstance(rank, int) and 0 <= axis < rank <= MOST_AXES:
            # The rank of the operand may be unknown: from there on, it may be any dimension.
            given = {facts.of(DimAt(result, at)).only() for at in range(axis, rank)}
            if None not in given:
                facts.narrow(DimAt(data, axis), one_of((1, *given)))


def _same_batch(called: Called, facts: Facts) -> None:
    facts.equal(DimAt(called.result, 0), DimAt(called.operands[0], 0))


def _has(facts: Facts, name: str, axis: int) -> bool:
    return facts.of(Rank(name)).bounds()[0] >= -axis


def _lacks(facts: Facts, name: str, axis: int) -> bool:
    return facts.of(Rank(name)).bounds()[1] < -axis


def _product(called: Called, facts: Facts) -> None:
    """The columns of the first operand are as many as the rows of the second."""
    left, right = called.operands
    rows = _rows(facts, right)
    if rows is None:
        return
    facts.equal(DimAt(left, -1), DimAt(right, rows))
    if rows == -2 and facts.representative(left) == facts.representative(right):
        facts.same_shape(left, called.result)
    if rows == -2:
        facts.equal(DimAt(called.result, -1), DimAt(right, -1))
        facts.narrow(Rank(called.result), between(1, inf))
    if rows == -2 and _has(facts, left, -2):
        facts.equal(DimAt(called.result, -2), DimAt(left, -2))


def _batches(called: Called, facts: Facts) -> None:
    if all(_has(facts, name, -2) for name in called.operands):
        _broadcast_at(called, facts, range(-_axes_of(facts, called.result), -2))


def _rows(facts: Facts, name: str) -> int | None:
    """The axis of the rows of a matrix, or of a vector; None if it is not known which it is."""
    if _has(facts, name, -2):
        return -2
    return -1 if _lacks(facts, name, -2) else None


def _permuted(called: Called, facts: Facts) -> None:
    """Without `axes`, they are in reverse order."""
    result, data = called.result, called.operands[0]
    axes = asked_list(called, facts, "axes")
    for at, axis in enumerate(axes or ()):
        facts.equal(DimAt(result, at), DimAt(data, axis % len(axes or ())))
    if is_none(called, facts, "axes"):
        for at in facts.asked_axes((result,)):
            facts.equal(DimAt(result, at), DimAt(data, -1 - at))
        for at in facts.asked_axes((data,)):
            facts.equal(DimAt(result, -1 - at), DimAt(data, at))


_WEIGHED = {
    "nn.batch_norm": "axis",
    "nn.group_norm": "channel_axis",
    "nn.instance_norm": "channel_axis",
    "nn.layer_norm": "axes",
    "nn.rms_norm": "axes",
}
"""By operator, the attribute with the axes of the first operand that the others belong to."""


def _weights(called: Called, facts: Facts) -> None:
    data, *weights = called.operands
    axes = asked_list(called, facts, _WEIGHED[called.call.ops[0]])
    if axes is None:
        _weights_of_some_axes(facts, data, weights)
        return
    for weight in weights:
        facts.narrow(Rank(weight), one_of((len(axes),)))
        for at, axis in enumerate(axes):
            facts.equal(DimAt(weight, at), DimAt(data, axis))


def _weights_of_some_axes(facts: Facts, data: str, weights: Sequence[str]) -> None:
    """Each dimension of weights is one of those of the data."""
    rank = facts.of(Rank(data)).only()
    if not isinstance(rank, int) or rank > _MOST_DIMENSIONS:
        return
    dims = [DimAt(data, axis) for axis in range(rank)]
    for weight in weights:
        number = facts.of(Rank(weight)).only()
        for axis in range(min(number, rank) if isinstance(number, int) else 0):
            is_one_of(facts, DimAt(weight, axis), dims)


_MOST_DIMENSIONS = 8
"""Of data with more dimensions, those of the weights are not known."""


def _alike(called: Called, facts: Facts) -> None:
    for one, other in pairwise(called.operands[1:]):
        facts.same_shape(one, other)


def _attention(called: Called, facts: Facts) -> None:
    """Operands are `[batch, sequence, heads, size]`."""
    query, key, value, *_ = called.operands
    for one, other in ((query, key), (query, value)):
        facts.equal(DimAt(one, 0), DimAt(other, 0))
    facts.equal(DimAt(key, 1), DimAt(value, 1))
    facts.equal(DimAt(query, 3), DimAt(key, 3))
    for axis in range(3):
        facts.equal(DimAt(called.result, axis), DimAt(query, axis))
    facts.equal(DimAt(called.result, 3), DimAt(value, 3))


def _heads(called: Called, facts: Facts) -> None:
    """The heads of the query are a multiple of those of the keys and of the values."""
    query, *others = (DimAt(name, 2) for name in called.operands[:3])
    for other in others:
        only, (least, _) = facts.of(other).only(), facts.of(other).bounds()
        if isinstance(only, int) and only > 0:
            facts.narrow(query, divided_by(only, 0))
        if 0 not in facts.of(query):
            facts.narrow(query, between(least, inf))


def _biased(called: Called, facts: Facts) -> None:
    """The bias is `[batch, heads, sequence, sequence of the keys]`; all but the last may be 1."""
    query, key, _, bias = called.operands
    facts.equal(DimAt(bias, 3), DimAt(key, 1))
    for axis, of in enumerate((0, 2, 1)):
        if not may_be_one(facts, DimAt(bias, axis)):
            facts.equal(DimAt(bias, axis), DimAt(query, of))


_table = table(
    (broadcasts, Relation("{op} takes dimensions that are equal, or 1", again=_broadcast)),
    (
        {"matmul"},
        Relation(
            "{op} takes as many columns in the first operand as rows in the second", again=_product
        ),
    ),
    ({"matmul"}, Relation("{op} takes batches that are equal, or 1", again=_batches)),
    (
        {"nn.attention", "nn.attention_bias"},
        Relation("{op} takes `[batch, sequence, heads, size]` three times", once=_attention),
    ),
    (
        {"nn.attention", "nn.attention_bias"},
        Relation("{op} takes a multiple of the heads of the keys as heads", again=_heads),
    ),
    (
        {"nn.attention_bias"},
        Relation("{op} takes a bias for each key, and for each query or for all", again=_biased),
    ),
    (
        {"broadcast_to"},
        Relation("{op} takes the dimensions that it gives, or 1", again=broadcast_to),
    ),
    ({"nn.batch_flatten"}, Relation("{op} keeps the first dimension", once=_same_batch)),
    ({"permute_dims"}, Relation("{op} reorders the dimensions", again=_permuted)),
    (SAME_SIZE, Relation("{op} keeps all elements", once=same_size, again=counted, if_absent=True)),
    (
        lambda op: keeps_shape(op) or op in _FIRST_KEEPS_SHAPE,
        Relation("{op} keeps the shape", once=_same_shape, if_absent=True, is_plain=True),
    ),
    (
        lambda op: op == "onnx.BitCast" or (keeps_dtype(op) and keeps_all(op)),
        Relation("{op} keeps the number of bytes", once=_same_bytes, if_absent=True),
    ),
    (
        {"com.microsoft.DynamicQuantizeLSTM", "onnx.LSTM"},
        Relation("{op} gives a state and a cell of one shape", once=_same_state),
    ),
)
