"""The ranks of what operators take and give, and the axes that attributes may name."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.differences import Difference
from collage_dsl.language.reasoning.domain import Number, between, is_infinite, one_of
from collage_dsl.language.reasoning.facts import Facts
from collage_dsl.language.reasoning.relations import Apply, Relation, broadcasts
from collage_dsl.language.reasoning.required_calls import Called
from collage_dsl.rules.condition import Attr, Rank, Value

REDUCTIONS = frozenset(
    {"argmax", "argmin", "max", "mean", "median", "min", "prod", "std", "sum", "variance"}
)

_FIXED: Mapping[str, int] = {
    "eye": 2,
    "flatten": 1,
    "nn.attention": 4,
    "nn.attention_bias": 4,
    "nn.batch_flatten": 2,
    "nonzero": 2,
    "outer": 2,
    "size": 0,
}
"""Operators whose result always has the same rank."""

_TAKES: Mapping[str, tuple[tuple[Number, Number], ...]] = {
    "nn.attention": ((4, 4),) * 3,
    "nn.attention_bias": ((4, 4),) * 4,
    "nn.batch_flatten": ((2, inf),),
    "matmul": ((1, inf),) * 2,
    "outer": ((1, 1),) * 2,
    "tril": ((2, inf),),
    "triu": ((2, inf),),
}
"""The least and the greatest rank of operands."""

_BY_CHANNEL = frozenset({"nn.batch_norm", "nn.group_norm", "nn.instance_norm"})
"""Operators whose weights are lists, with one number for each channel."""

_SAME_RANK = frozenset(
    {"concat", "dynamic_strided_slice", "gather_elements", "nn.pad", "nn.pixel_shuffle"}
    | {"permute_dims", "split", "strided_slice", "topk"}
)
"""Operators whose results have the rank, but not the shape, of each tensor that comes first."""

_SAME_RANK_ALONG_AXIS = frozenset({"cumprod", "cumsum", "repeat"})
"""Operators that give a list if no axis is said."""

_MAY_SCALE_ALL = frozenset({"dequantize", "quantize"})
"""Operators that take a value of rank 0, whatever the axis is."""


def rank_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    for holds, relation in _RELATIONS:
        if all(map(holds, ops)):
            yield relation
    if all(op in _TAKES for op in ops):
        least, most = _TAKES[ops[0]][0]
        rank = f"{least}" if least == most else f"{least} or more"
        yield Relation(f"{{op}} takes values of rank {rank}", once=_taken)
    if all(op in _FIXED for op in ops):
        ranks = sorted({_FIXED[op] for op in ops})
        said = f"{{op}} gives a value of rank {' or '.join(map(str, ranks))}"
        yield Relation(said, once=partial(_fixed, ranks))
    for attribute in sorted(set.intersection(*(set(operators()[op].axes) for op in ops))):
        more = {operators()[op].axes[attribute] for op in ops}
        if len(more) == 1:
            beyond = more.pop()
            of = "gives" if beyond else "takes"
            said = f"`{attribute}` of {{op}} names dimensions of what it {of}, each once"
            yield Relation(said, again=partial(_axes, attribute, beyond))


def _fixed(ranks: list[int], called: Called, facts: Facts) -> None:
    for name in called.results.values():
        facts.narrow(Rank(name), one_of(ranks))


def _taken(called: Called, facts: Facts) -> None:
    bounds = [_TAKES[op] for op in called.call.ops]
    for name, *allowed in zip(called.operands, *bounds, strict=False):
        least, most = min(low for low, _ in allowed), max(high for _, high in allowed)
        facts.narrow(Rank(name), between(least, most))


def _filled(called: Called, facts: Facts) -> None:
    facts.narrow(Rank(called.operands[1]), one_of((0,)))


def _listed_weights(called: Called, facts: Facts) -> None:
    for weight in called.operands[1:]:
        facts.narrow(Rank(weight), one_of((1,)))


def _weights_by_axis(called: Called, facts: Facts) -> None:
    for weight in called.operands[1:]:
        differ(facts, called.operands[0], weight, 0, inf)


def _same_rank(called: Called, facts: Facts) -> None:
    for name in called.results.values():
        for operand in called.tensors(0):
            facts.equal(Rank(name), Rank(operand))


def _same_rank_along_axis(called: Called, facts: Facts) -> None:
    if called.attribute("axis") in facts.known:
        _same_rank(called, facts)


def differ(
    facts: Facts,
    larger: str,
    smaller: str,
    least: int,
    most: Number,
    surely: int | None = None,
) -> None:
    """
    Add that the rank of `larger` is more than that of `smaller`, by `least` to `most`. If `least`
    may turn out to be too large, `surely` is what it is at least.
    """
    above, below = Rank(larger), Rank(smaller)
    if least == most == 0:
        facts.equal(above, below)
    elif facts.first(above) == facts.first(below):
        facts.possible &= least <= 0
    else:
        low, high = facts.of(below).bounds()
        facts.narrow(above, between(low + least, high + most))
        low, high = facts.of(above).bounds()
        facts.narrow(below, between(low - most, high - least))
        if facts.possible:
            one, other = facts.first(above), facts.first(below)
            facts.differ(Difference(one, ">=", other, least if surely is None else surely))
            if not is_infinite(most):
                facts.differ(Difference(one, "<=", other, int(most)))


def _at_least(called: Called, facts: Facts) -> None:
    differ(facts, called.result, called.operands[0], 0, inf)


def _one_more(called: Called, facts: Facts) -> None:
    for operand in called.tensors(0):
        differ(facts, called.result, operand, 1, 1)


def _expanded(called: Called, facts: Facts) -> None:
    """No axis is new only if the pattern asks for the empty list."""
    axes = asked_list(called, facts, "axis")
    least, most = (1, inf) if axes is None else (len(axes), len(axes))
    surely = 0 if axes is None else least
    differ(facts, called.result, called.operands[0], least, most, surely)


def _squeezed(called: Called, facts: Facts) -> None:
    axes = asked_list(called, facts, "axis")
    differ(facts, called.operands[0], called.result, 0, inf if axes is None else len(axes))


def _reduced(called: Called, facts: Facts) -> None:
    axes = asked_list(called, facts, "axis")
    keeps = facts.of(called.attribute("keepdims")).only()
    known = 0 if keeps is True else len(axes) if axes is not None and keeps is False else None
    least, most = (0, inf) if known is None else (known, known)
    for name in called.results.values():
        differ(facts, called.operands[0], name, least, most)


def asked_list(called: Called, facts: Facts, attribute: str) -> tuple[int, ...] | None:
    """The numbers in an attribute, or the only one; None if they are not known."""
    match facts.of(called.attribute(attribute)).only():
        case bool():
            return None
        case int() as number:
            return (number,)
        case tuple() as numbers:
            return tuple(number for number in numbers if isinstance(number, int))
    return None


def _broadcast_rank(called: Called, facts: Facts) -> None:
    """Add that the rank of the result is the larger rank of the operands."""
    result = Rank(called.result)
    operands = [Rank(name) for name in called.operands]
    for operand in operands[:1] if called.call.optional else operands:
        least, _ = facts.of(operand).bounds()
        if least > 0:
            facts.narrow(result, between(least, inf))
        _, most = facts.of(result).bounds()
        if most < inf:
            facts.narrow(operand, between(-inf, most))
        if facts.possible:
            facts.differ(Difference(facts.first(result), ">=", facts.first(operand), 0))
    if not called.call.optional:
        most = max(facts.of(operand).bounds()[1] for operand in operands)
        if most < inf:
            facts.narrow(result, between(-inf, most))


def _product_rank(called: Called, facts: Facts) -> None:
    left, right = (facts.of(Rank(name)).only() for name in called.operands)
    if isinstance(left, int) and isinstance(right, int):
        rank = max(left, right) if min(left, right) > 1 else max(left, right) - 1
        facts.narrow(Rank(called.result), one_of((rank,)))


def _taken_rank(called: Called, facts: Facts) -> None:
    data, indices = (facts.of(Rank(name)).only() for name in called.operands)
    if isinstance(data, int) and isinstance(indices, int):
        facts.narrow(Rank(called.result), one_of((data + indices - 1,)))
    elif isinstance(indices, int) and facts.possible:
        result, taken = facts.first(Rank(called.result)), facts.first(Rank(called.operands[0]))
        facts.differ(Difference(result, "==", taken, indices - 1))


# Axes.


def _axes(attribute: str, more: int, called: Called, facts: Facts) -> None:
    """Add that an attribute names axes of the first operand, or of one with `more` axes."""
    term, rank = called.attribute(attribute), Rank(called.tensors(0)[0])
    if term not in facts.known:  # it may have no value
        return
    if 0 in facts.of(rank) and _MAY_SCALE_ALL.intersection(called.call.ops):
        return
    allowed = facts.of(term).allowed
    if allowed is None:
        _one_axis(term, rank, more, facts)
        return
    _, most = facts.of(rank).bounds()
    fit = {value: _least_rank(value, more) for value in allowed if value in facts.of(term)}
    fit = {value: least for value, least in fit.items() if least <= most}
    fit = {
        value: least
        for value, least in fit.items()
        if _is_distinct(value, facts.of(rank).only(), more)
    }
    facts.narrow(term, one_of(fit))
    if fit:
        facts.narrow(rank, between(min(fit.values()), inf))


def _one_axis(term: Attr, rank: Rank, more: int, facts: Facts) -> None:
    _, most = facts.of(rank).bounds()
    facts.narrow(term, between(-most - more, most + more - 1))
    low, high = facts.of(term).bounds()
    facts.narrow(rank, between(max(low + 1, -high) - more, inf))


def _numbers(value: Value) -> tuple[int, ...]:
    numbers = value if isinstance(value, tuple) else (value,)
    return tuple(number for number in numbers if isinstance(number, int))


def _least_rank(value: Value, more: int) -> int:
    """The least rank of a value with these axes."""
    axes = _numbers(value)
    return max((axis + 1 if axis >= 0 else -axis for axis in axes), default=0) - more * len(axes)


def _is_distinct(value: Value, rank: Value | None, more: int) -> bool:
    axes = _numbers(value)
    if isinstance(rank, int):
        axes = tuple(axis % max(1, rank + more * len(axes)) for axis in axes)
    return len(set(axes)) == len(axes)


def _permuted(called: Called, facts: Facts) -> None:
    """Add that the axes are each of the first operand once."""
    term, rank = called.attribute("axes"), Rank(called.operands[0])
    allowed = facts.of(term).allowed
    if allowed is not None:
        orders = [value for value in allowed if isinstance(value, tuple) and _is_order(value)]
        facts.narrow(term, one_of(v for v in orders if len(v) in facts.of(rank)))
        facts.narrow(rank, one_of(map(len, orders)))


def _is_order(axes: tuple[Value, ...]) -> bool:
    return {axis % len(axes) for axis in axes if isinstance(axis, int)} == set(range(len(axes)))


def _padded(called: Called, facts: Facts) -> None:
    """Add that there are two widths for each dimension."""
    term, rank = called.attribute("pad_width"), Rank(called.operands[0])
    allowed = facts.of(term).allowed
    if allowed is not None:
        widths = [value for value in allowed if isinstance(value, tuple) and len(value) % 2 == 0]
        facts.narrow(term, one_of(v for v in widths if len(v) // 2 in facts.of(rank)))
        facts.narrow(rank, one_of(len(value) // 2 for value in widths))


def _again(says: str, apply: Apply, *, if_absent: bool = False) -> Relation:
    return Relation(says, again=apply, if_absent=if_absent)


_RELATIONS: tuple[tuple[Callable[[str], bool], Relation], ...] = (
    (_SAME_RANK.__contains__, Relation("{op} keeps the rank", once=_same_rank)),
    (
        _BY_CHANNEL.__contains__,
        Relation("the weights of {op} have one dimension", once=_listed_weights),
    ),
    (
        {"nn.layer_norm", "nn.rms_norm"}.__contains__,
        _again("the weights of {op} have a dimension for each of `axes`", _weights_by_axis),
    ),
    (
        _SAME_RANK_ALONG_AXIS.__contains__,
        _again("{op} keeps the rank, if there is an `axis`", _same_rank_along_axis),
    ),
    (
        {"broadcast_to", "tile"}.__contains__,
        _again("{op} gives a value of the same rank or a higher one", _at_least),
    ),
    ({"one_hot", "stack"}.__contains__, _again("{op} adds a dimension", _one_more)),
    ({"expand_dims"}.__contains__, _again("{op} adds the dimensions in `axis`", _expanded)),
    ({"full"}.__contains__, Relation("{op} takes a number to fill in, of rank 0", once=_filled)),
    (
        {"squeeze"}.__contains__,
        _again("{op} takes out dimensions in `axis`", _squeezed),
    ),
    (
        REDUCTIONS.__contains__,
        _again("{op} takes out the dimensions that `axis` names, unless `keepdims`", _reduced),
    ),
    (
        broadcasts,
        _again("{op} gives the larger rank of its operands", _broadcast_rank, if_absent=True),
    ),
    (
        {"matmul"}.__contains__,
        _again(
            "{op} gives the larger rank, or one less where an operand has rank 1", _product_rank
        ),
    ),
    (
        {"take"}.__contains__,
        _again("{op} puts the dimensions of the indices in the place of one", _taken_rank),
    ),
    ({"permute_dims"}.__contains__, _again("`axes` of {op} names each dimension once", _permuted)),
    (
        {"nn.pad"}.__contains__,
        _again("`pad_width` of {op} has 2 numbers a dimension", _padded),
    ),
)
