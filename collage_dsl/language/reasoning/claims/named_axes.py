"""The dimensions that attributes name: they exist, and each is named once."""

from collections.abc import Iterator
from functools import partial
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.list_values import asked_list
from collage_dsl.language.reasoning.claims.relations import Relation
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.domain import between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Attr, Rank, Value

_TAKE_RANK_0 = frozenset({"argsort", "dequantize", "quantize", "sort"})
"""Operators that take a value of rank 0, whatever the axis is."""

_WITH_AXIS_IN_ONNX = frozenset(
    f"onnx.{op}"
    for op in (
        *("ArgMax", "ArgMin", "Gather", "GatherElements", "LayerNormalization"),
        *("LpNormalization", "RMSNormalization", "ScatterElements", "Split", "TopK"),
    )
)
"""Operators of ONNX whose `axis` names a dimension of the first operand."""

_NORMS_OF_CHANNELS = frozenset({"nn.group_norm", "nn.instance_norm"})


def named_axes(ops: tuple[str, ...]) -> Iterator[Relation]:
    if set(ops) == {"permute_dims"}:
        yield Relation("`axes` of {op} names each dimension once", again=_permuted)
    if set(ops) == {"nn.pad"}:
        yield Relation("`pad_width` of {op} has 2 numbers a dimension", again=_padded)
    if all(op in _WITH_AXIS_IN_ONNX for op in ops):
        said = "`axis` of {op} names a dimension of what it takes"
        yield Relation(said, again=partial(_axes, "axis", 0), axes_in="axis")
    if set(ops) == {"onnx.MeanVarianceNormalization"}:
        said = "`axes` of {op} names dimensions of what it takes, each once"
        yield Relation(said, again=partial(_axes, "axes", 0), axes_in="axes")
    if set(ops) == {"onnx.ReverseSequence"}:
        yield Relation(
            "`batch_axis` and `time_axis` of {op} are 0 and 1, or 1 and 0", again=_other_axis
        )
    for attribute in sorted(set.intersection(*(set(operators()[op].axes) for op in ops))):
        more = {operators()[op].axes[attribute] for op in ops}
        if len(more) == 1:
            beyond = more.pop()
            of = "gives" if beyond else "takes"
            said = f"`{attribute}` of {{op}} names dimensions of what it {of}, each once"
            yield Relation(said, again=partial(_axes, attribute, beyond), axes_in=attribute)
    if all(op in _NORMS_OF_CHANNELS for op in ops):
        said = "`axes` of {op} does not name the axis of the channels"
        yield Relation(said, again=_without_channels)


def _other_axis(called: Called, facts: Facts) -> None:
    """
    Add that one axis is 0 and the other 1. If only one of them is known, nothing is said of the
    other: `[batch_axis == 0, time_axis == 1]` is how people write it.
    """
    batch, time = (facts.of(called.attribute(f"{name}_axis")).only() for name in ("batch", "time"))
    facts.possible &= {batch, time} <= {None, 0, 1} and (batch is None or batch != time)


def _without_channels(called: Called, facts: Facts) -> None:
    channels, axes = (asked_list(called, facts, name) for name in ("channel_axis", "axes"))
    if channels is not None and axes is not None:
        rank = facts.of(Rank(called.operands[0])).only()
        both = [
            {at % rank if isinstance(rank, int) and rank else at for at in each}
            for each in (channels, axes)
        ]
        facts.possible &= both[0].isdisjoint(both[1])


def _axes(attribute: str, more: int, called: Called, facts: Facts) -> None:
    """Add that an attribute names axes of the first operand, or of one with `more` axes."""
    term, rank = called.attribute(attribute), Rank(called.tensors(0)[0])
    if term not in facts.known:  # it may have no value
        return
    if 0 in facts.of(rank) and _TAKE_RANK_0.intersection(called.call.ops):
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
        fit = [value for value in orders if len(value) in facts.of(rank)]
        facts.narrow(rank, one_of(map(len, orders)))
        facts.narrow(term, one_of(fit))


def _is_order(axes: tuple[Value, ...]) -> bool:
    return {axis % len(axes) for axis in axes if isinstance(axis, int)} == set(range(len(axes)))


def _padded(called: Called, facts: Facts) -> None:
    """Add that there are two widths for each dimension."""
    term, rank = called.attribute("pad_width"), Rank(called.operands[0])
    allowed = facts.of(term).allowed
    if allowed is not None:
        widths = [value for value in allowed if isinstance(value, tuple) and len(value) % 2 == 0]
        fit = [value for value in widths if len(value) // 2 in facts.of(rank)]
        facts.narrow(rank, one_of(len(value) // 2 for value in widths))
        facts.narrow(term, one_of(fit))
