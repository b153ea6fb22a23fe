"""The dimensions along and beside the axes that attributes name, where ranks may be unknown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import pairwise
from math import inf

from collage_dsl.language.reasoning.claims.list_values import asked_list, is_none
from collage_dsl.language.reasoning.claims.rank_differences import differ
from collage_dsl.language.reasoning.claims.rank_relations import REDUCTIONS
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.claims.size_relations import at_least_along
from collage_dsl.language.reasoning.values.assuming import equate, limit
from collage_dsl.language.reasoning.values.domain import Values, between, divided_by, hull, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import multiply
from collage_dsl.rules.condition import (
    Calculate,
    Constant,
    DimAt,
    Expression,
    Has,
    Rank,
    Size,
    Value,
)

_SCANS = frozenset({"cumprod", "cumsum"})
"""Operators whose result has the shape of the operand, if an axis is said."""


_NOT_ONE = Values(excluded=frozenset({1}))

_MOST_ADDED = 8
"""More lengths that are not known are not added."""


def _reduced_to_one(called: Called, facts: Facts) -> None:
    if is_none(called, facts, "axis"):
        for result in called.results.values():
            facts.narrow(Size(result), one_of((1,)))
            _ones(facts, result, facts.asked_axes((result,)))


def _reduced(called: Called, facts: Facts) -> None:
    data, axes = called.operands[0], asked_list(called, facts, "axis")
    keeps = facts.of(called.attribute("keepdims")).only()
    for result in called.results.values():
        multiply(facts, data, result)
        if keeps:
            facts.keep_or_one(data, result)
    if axes is None or keeps is None:
        return
    for result in called.results.values():
        if keeps:
            _ones(facts, result, axes)
            for at in beside(facts, (data, result), axes):
                facts.equal(DimAt(result, at), DimAt(data, at))
        else:
            _without(facts, data, result, axes)


def _expanded(called: Called, facts: Facts) -> None:
    axes = asked_list(called, facts, "axis")
    if axes is not None:
        _ones(facts, called.result, axes)
        _without(facts, called.result, called.operands[0], axes)
    for at in (0, -1):
        _new_or_kept(called, facts, at)


def _new_or_kept(called: Called, facts: Facts, axis: int) -> None:
    """A dimension at an end of what `expand_dims` gives is 1, or the one that it takes there."""
    data, result = DimAt(called.operands[0], axis), DimAt(called.result, axis)
    rank, _ = facts.of(Rank(called.operands[0])).bounds()
    if 1 not in facts.of(result) and facts.possible:
        facts.narrow(Rank(data.of), between(1, inf))
        facts.equal(result, data)
    elif rank >= 1:
        facts.narrow(result, hull((one_of((1,)), facts.of(data))))


def _squeezed(called: Called, facts: Facts) -> None:
    """
    A number other than 1 stays. A dimension of 1 is taken out if `axis` names it, or is `none`.
    """
    data, named = called.operands[0], asked_list(called, facts, "axis")
    ranks = [facts.of(Rank(name)).only() for name in (data, called.result)]
    if is_none(called, facts, "axis"):
        for at in facts.asked_axes((called.result,)):
            facts.narrow(DimAt(called.result, at), _NOT_ONE)
    axes = range(ranks[0]) if named is None and isinstance(ranks[0], int) else named
    if axes is None:
        return
    dims = [(axis, facts.of(DimAt(data, axis)).only()) for axis in axes]
    is_sure = named is not None or is_none(called, facts, "axis")
    gone = [axis for axis, dim in dims if dim == 1 and is_sure]
    unsure = [axis for axis, dim in dims if dim in (1, None) and axis not in gone]
    if len(unsure) < len(dims):
        differ(facts, data, called.result, len(gone), len(gone) + len(unsure))
    match ranks:
        case [int(rank), int(left)] if rank - left == len(gone) + len(unsure):
            _without(facts, data, called.result, [*gone, *unsure])
        case [int(rank), int(left)] if rank - left > len(gone):
            pass
        case _ if not unsure or None not in ranks:
            _without(facts, data, called.result, gone)


def _ones(facts: Facts, name: str, axes: Iterable[int]) -> None:
    for axis in axes:
        facts.narrow(DimAt(name, axis), one_of((1,)))


def beside(facts: Facts, names: Sequence[str], axes: Sequence[int]) -> Iterator[int]:
    """
    The axes that are none of `axes`, of values of the same rank. If the rank is not known, these
    are axes that anything was asked of.
    """
    rank = facts.of(Rank(names[0])).only()
    if isinstance(rank, int):
        gone = {axis % rank for axis in axes if rank}
        yield from (at for at in range(rank) if at not in gone)
    else:
        yield from (at for at in facts.asked_axes(names) if _is_beside(facts, names[0], at, axes))


def _is_beside(facts: Facts, name: str, at: int, axes: Sequence[int]) -> bool:
    """
    Whether an axis is none of `axes`, whatever the rank of `name` is. Those counted from the other
    end are surely on the other side of it if the rank is high enough.
    """
    least, _ = facts.of(Rank(name)).bounds()
    same, others = _of_end(axes, at), _of_end(axes, -1 - at)
    return at not in same and all(
        at < least + other if at >= 0 else other < least + at for other in others
    )


def _of_end(axes: Sequence[int], at: int) -> list[int]:
    """Those of `axes` that are counted from the same end as `at`."""
    return [axis for axis in axes if (axis >= 0) == (at >= 0)]


def _without(facts: Facts, whole: str, rest: str, axes: Sequence[int]) -> None:
    """`rest` has the dimensions of `whole` without those along `axes`."""
    rank = facts.of(Rank(whole)).only()
    if isinstance(rank, int):
        pairs = list(enumerate(beside(facts, (whole,), axes)))
    else:
        asked = facts.asked_axes((whole,))
        asked += [_moved(at, _of_end(axes, at)) for at in facts.asked_axes((rest,))]
        left = [at for at in asked if _is_beside(facts, whole, at, axes)]
        pairs = [(_moved_back(at, _of_end(axes, at)), at) for at in left]
    for at, axis in pairs:
        facts.equal(DimAt(rest, at), DimAt(whole, axis))


def _moved(at: int, axes: Sequence[int]) -> int:
    """The axis of the whole that is the axis `at` without `axes`."""
    step = 1 if at >= 0 else -1
    for axis in sorted(set(axes), reverse=step < 0):
        if (at - axis) * step >= 0:
            at += step
    return at


def _moved_back(at: int, axes: Sequence[int]) -> int:
    if at >= 0:
        return at - sum(axis < at for axis in set(axes))
    return at + sum(axis > at for axis in set(axes))


def _beside_axis(called: Called, facts: Facts, name: str = "axis") -> None:
    """All dimensions are equal, except those along the axes that the attribute `name` names."""
    first, *others = (*called.tensors(0), *called.results.values())
    axis = asked_list(called, facts, name)
    for at in beside(facts, (first, *others), axis) if axis is not None else ():
        for name in others:
            facts.equal(DimAt(first, at), DimAt(name, at))


def _scanned(called: Called, facts: Facts) -> None:
    has_axis = facts.of(Has(called.attribute("axis").name)).only()
    if has_axis or 1 not in facts.of(Rank(called.result)):
        facts.same_shape(called.operands[0], called.result)


def _split(called: Called, facts: Facts) -> None:
    """
    Equal sections are as long as the longest, except the last; else the axis is cut there. None is
    longer than the whole, or than from one cut to the next.
    """
    data, axis = called.operands[0], asked_list(called, facts, "axis")
    at_least_along(facts, data, tuple(called.results.values()), axis)
    if axis is None:
        return
    whole = facts.of(DimAt(data, axis[0])).only()
    cuts = facts.of(called.attribute("indices_or_sections")).only()
    for at, longest in enumerate(_distances(cuts)):
        if at in called.results:
            facts.narrow(DimAt(called.results[at], axis[0]), between(0, longest))
    if whole is None and isinstance(cuts, int) and cuts > 1:
        _share(called, facts, axis[0], cuts)
    if not isinstance(whole, int) or isinstance(cuts, bool):
        return
    ends = _ends(whole, cuts)
    for at, name in called.results.items():
        if at < len(ends):
            start = ends[at - 1] if at else 0
            facts.narrow(DimAt(name, axis[0]), one_of((max(0, ends[at] - start),)))


def _share(called: Called, facts: Facts, axis: int, count: int) -> None:
    """The longest section is an equal part of the whole, rounded up."""
    whole = DimAt(called.operands[0], axis)
    for at, name in called.results.items():
        parts = Calculate("*", DimAt(name, axis), Constant(count))
        limit(facts, parts, Calculate("+", whole, Constant(count - 1)))
        if at == 0:
            limit(facts, whole, parts)


def _distances(cuts: Value | None) -> Iterator[int]:
    """From the beginning to the first cut, and from each cut to the next."""
    ends = [end for end in cuts if isinstance(end, int)] if isinstance(cuts, tuple) else []
    if all(end >= 0 for end in ends):
        for start, end in pairwise((0, *ends)):
            yield max(0, end - start)


def _ends(whole: int, cuts: Value) -> list[int]:
    match cuts:
        case int() if cuts > 0:
            longest = -(-whole // cuts)
            return [min(whole, longest * (at + 1)) for at in range(cuts)]
        case tuple():
            return [min(whole, end) for end in (*cuts, whole) if isinstance(end, int)]
        case _:
            return []


def _joined(called: Called, facts: Facts) -> None:
    """The result of `concat` is as long as its tensors together."""
    axis = (0,) if is_none(called, facts, "axis") else asked_list(called, facts, "axis")
    if called.operands[0] not in called.names.tuples:
        return
    at_least_along(facts, called.result, called.tensors(0), axis)
    if axis is None:
        return
    whole, parts = DimAt(called.result, axis[0]), [DimAt(n, axis[0]) for n in called.tensors(0)]
    known = [facts.of(part).only() for part in parts]
    number = Constant(sum(each for each in known if isinstance(each, int)))
    left = [part for part, only in zip(parts, known, strict=True) if not isinstance(only, int)]
    if len(left) <= _MOST_ADDED:
        equate(facts, whole, _sum(number, map(facts.first, left)))


def _sum(number: Expression, terms: Iterable[Expression]) -> Expression:
    counts = Counter(terms).items()
    added = (Calculate("*", t, Constant(count)) if count > 1 else t for t, count in counts)
    return reduce(partial(Calculate, "+"), added, number)


def _stacked(called: Called, facts: Facts) -> None:
    """The result of `stack` has an element along the axis for each of its tensors."""
    axis = (0,) if is_none(called, facts, "axis") else asked_list(called, facts, "axis")
    parts = called.names.tuples.get(called.operands[0])
    if axis is None and parts is not None:
        axis = _only_axis(facts, called.result, one_of((len(parts),)))
    if axis is not None and parts is not None:
        facts.narrow(DimAt(called.result, axis[0]), one_of((len(parts),)))
        for part in parts:
            _without(facts, called.result, part, axis)


def _only_axis(facts: Facts, name: str, lengths: Values) -> tuple[int, ...] | None:
    """The only axis with one of these lengths; None if there are several, or no rank is known."""
    rank = facts.of(Rank(name)).only()
    if not isinstance(rank, int):
        return None
    dims = (facts.of(DimAt(name, at)) for at in range(rank))
    found = tuple(at for at, dim in enumerate(dims) if not dim.meet(lengths).is_empty)
    facts.possible &= bool(found)
    return found if len(found) == 1 else None


def _one_hot(called: Called, facts: Facts) -> None:
    axis, depth = (asked_list(called, facts, name) for name in ("axis", "depth"))
    if axis is None and depth is not None:
        axis = _only_axis(facts, called.result, one_of(depth))
    if axis is None:
        return
    if depth is not None:
        facts.narrow(DimAt(called.result, axis[0]), one_of(depth))
    _without(facts, called.result, called.operands[0], axis)


def _scaled(called: Called, facts: Facts) -> None:
    """There is one scale, or one for each element along the axis."""
    data, *scales = called.operands
    axis = asked_list(called, facts, "axis")
    listed = [name for name in scales if facts.of(Rank(name)).bounds()[0] >= 1]
    long = [DimAt(name, 0) for name in listed if 1 not in facts.of(DimAt(name, 0))]
    if axis is not None:
        long.append(DimAt(data, axis[0]))
    for one, other in pairwise(long):
        facts.equal(one, other)


def _grouped(called: Called, facts: Facts) -> None:
    _make_groups(called, facts, asked_list(called, facts, "channel_axis"))


def _grouped_in_onnx(called: Called, facts: Facts) -> None:
    """Where the rank is known, more is inferred."""
    if facts.of(Rank(called.operands[0])).only() is None:
        _make_groups(called, facts, (1,))


def _make_groups(called: Called, facts: Facts, axis: Sequence[int] | None) -> None:
    groups = asked_list(called, facts, "num_groups")
    if axis is not None and groups is not None and groups[0] > 0:
        facts.narrow(DimAt(called.operands[0], axis[0]), divided_by(groups[0], 0))


axis_relations = table(
    (REDUCTIONS, Relation("{op} keeps the dimensions that `axis` does not name", again=_reduced)),
    (REDUCTIONS, Relation("{op} gives one element, if there is no `axis`", again=_reduced_to_one)),
    ({"expand_dims"}, Relation("{op} adds dimensions of 1", again=_expanded)),
    ({"squeeze"}, Relation("{op} takes out dimensions of 1", again=_squeezed)),
    (
        _SCANS,
        Relation("{op} keeps the shape along an `axis`, else gives rank 1", again=_scanned),
    ),
    (
        {"ccl.scatter_from_worker0", "concat", "repeat", "split", "topk"},
        Relation("{op} keeps the dimensions beside the axis", again=_beside_axis),
    ),
    (
        {"onnx.CenterCropPad"},
        Relation(
            "{op} keeps the dimensions that `axes` does not name",
            again=partial(_beside_axis, name="axes"),
        ),
    ),
    (
        {"split"},
        Relation(
            "{op} gives parts of one size, except the last, or the parts between the indices",
            again=_split,
            asks="all",
        ),
    ),
    (
        {"concat"},
        Relation("{op} gives as much along the axis as it takes", again=_joined, asks="all"),
    ),
    (
        {"stack"},
        Relation("{op} takes tensors of one shape, whose number is along the axis", again=_stacked),
    ),
    ({"one_hot"}, Relation("{op} gives `depth` elements along a new axis", again=_one_hot)),
    (
        {"dequantize", "quantize"},
        Relation("{op} takes one scale, or one for each element along the axis", again=_scaled),
    ),
    *(
        ({op}, Relation("{op} takes groups of as many channels each", again=grouped))
        for op, grouped in (
            ("nn.group_norm", _grouped),
            ("onnx.GroupNormalization", _grouped_in_onnx),
        )
    ),
)
