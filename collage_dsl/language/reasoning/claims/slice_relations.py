"""The ranks and dimensions of slices, and of what they are cut from or put into."""

from contextlib import suppress
from itertools import pairwise
from math import inf

from collage_dsl.graph import Dim
from collage_dsl.language.inference.shapes import MismatchError
from collage_dsl.language.inference.slicing import cut_length, slice_length
from collage_dsl.language.reasoning.claims.axis_relations import beside
from collage_dsl.language.reasoning.claims.list_values import asked_list
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.claims.size_relations import at_least
from collage_dsl.language.reasoning.values.assuming import assume, limit
from collage_dsl.language.reasoning.values.domain import Values, between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Calculate, Compare, Constant, DimAt, Rank


def _sliced(called: Called, facts: Facts) -> None:
    """All lists of a slice have an item for each axis, and there are no more axes than the rank."""
    data, axes, *bounds = called.operands
    for each in bounds:
        facts.equal(Rank(each), Rank(axes))
    _, most = facts.of(Rank(data)).bounds()
    facts.narrow(Rank(axes), between(0, most))
    least, _ = facts.of(Rank(axes)).bounds()
    facts.narrow(Rank(data), between(least, inf))


def _within_rank(called: Called, facts: Facts) -> None:
    """The axes of a slice are dimensions of what it takes, along which no step is 0."""
    data, axes, *_ = called.operands
    for at in facts.asked_axes(called.operands[4:]):
        facts.narrow(DimAt(called.operands[4], at), Values(excluded=frozenset({0})))
    length, (least, rank) = facts.of(Rank(axes)).only(), facts.of(Rank(data)).bounds()
    for at in range(length) if isinstance(length, int) else ():
        axis = facts.of(DimAt(axes, at)).only()
        if isinstance(axis, int) and not -rank <= axis < rank and least == rank:
            said = f"what `{called.call.ops[0]}` takes has rank {rank}"
            facts.mismatch = f"{said}, so it has no axis {axis}"
        facts.narrow(DimAt(axes, at), between(-rank, rank - 1))
        low, high = facts.of(DimAt(axes, at)).bounds()
        facts.narrow(Rank(data), between(max(low + 1, -high), inf))


def _each_axis_once(called: Called, facts: Facts) -> None:
    """Two axes of a slice are not the same, also if one of them is counted from the end."""
    data, axes, *_ = called.operands
    named, rank = _items(facts, axes) or (), facts.of(Rank(data)).only()
    if isinstance(rank, int):
        named = tuple(axis % rank for axis in named if rank)
    if len(set(named)) < len(named):
        facts.possible = False
        facts.mismatch = f"`{called.call.ops[0]}` cuts along each axis once"


def _cut(called: Called, facts: Facts) -> None:
    """
    A slice is no longer than its bounds are apart, if both are counted from the same end. With
    `assume_inbound`, it may be longer than what it is cut from.
    """
    data, axes, *bounds = called.operands
    numbers = [_items(facts, name) for name in (axes, *bounds)]
    if numbers[0] is None:
        return
    named = numbers[0]
    for at in beside(facts, (data, called.result), named):
        facts.equal(DimAt(called.result, at), DimAt(data, at))
    is_clipped = facts.of(called.attribute("assume_inbound")).only() is False
    for axis in named if is_clipped else ():
        at_least(facts, DimAt(data, axis), DimAt(called.result, axis))
    begins, ends, steps = (*numbers[1:], (1,) * len(named))[:3]
    for at, axis in enumerate(named if steps is not None and None in (begins, ends) else ()):
        _cut_between(called, facts, axis, at, (steps or ())[at : at + 1])
    if begins is not None and ends is None and steps is not None:
        for at, (axis, begin, step) in enumerate(zip(named, begins, steps, strict=False)):
            _cut_to(called, facts, axis, DimAt(called.operands[3], at), begin, step)
    if begins is None or ends is None:
        return
    if steps is None:
        for axis, begin, end in zip(named, begins, ends, strict=False):
            if (begin < 0) == (end < 0):
                facts.narrow(DimAt(called.result, axis), between(0, abs(end - begin)))
        return
    for axis, begin, end, step in zip(named, begins, ends, steps, strict=False):
        _cut_along(called, facts, axis, (begin, end, step))
        if step > 0 and (begin < 0) == (end < 0):
            most = max(0, -((begin - end) // step))
            facts.narrow(DimAt(called.result, axis), between(0, most))


def _cut_to(called: Called, facts: Facts, axis: int, end: DimAt, begin: int, step: int) -> None:
    """
    A slice goes no further than an end that is not below its begin, and takes every `step`. Where
    it is as long as what it is cut from, it ends no earlier.
    """
    whole, result = DimAt(called.operands[0], axis), DimAt(called.result, axis)
    if step > 0 and 0 <= begin <= facts.of(end).bounds()[0]:
        taken = Calculate("*", result, Constant(step))
        limit(facts, taken, Calculate("+", end, Constant(step - 1 - begin)))
    if step > 0 and facts.first(result) == facts.first(whole) and 0 not in facts.of(whole):
        limit(facts, whole, end)


def _cut_between(called: Called, facts: Facts, axis: int, at: int, steps: tuple[int, ...]) -> None:
    """
    The exact length along an axis whose bounds have names, if it is known in which order they and
    the dimension are. A slice to beyond the end ends there, except with `assume_inbound`.
    """
    whole, result = DimAt(called.operands[0], axis), DimAt(called.result, axis)
    begin, end = (DimAt(list_, at) for list_ in called.operands[2:4])
    if not steps or steps[0] < 1 or facts.of(begin).bounds()[0] < 0:
        return
    is_clipped = facts.of(called.attribute("assume_inbound")).only() is False
    for last, other in ((end, whole), (whole, end)) if is_clipped else ((end, whole),):
        if facts.possible and _is_ordered(facts, begin, last, other):
            taken, cut = Calculate("*", result, Constant(steps[0])), Calculate("-", last, begin)
            limit(facts, cut, taken)
            limit(facts, taken, Calculate("+", cut, Constant(steps[0] - 1)))


def _is_ordered(facts: Facts, *terms: DimAt) -> bool:
    """Whether no term can be greater than the next one."""
    pairs = (Compare(">", one, other) for one, other in pairwise(terms))
    return not any(assume([facts.copy()], pair, most=0) for pair in pairs)


def _cut_along(called: Called, facts: Facts, axis: int, bounds: tuple[int, int, int]) -> None:
    """The exact length along an axis, if it is known how many there are."""
    whole = facts.of(DimAt(called.operands[0], axis)).only()
    if not isinstance(whole, int) or not facts.possible:
        return
    inbound = facts.of(called.attribute("assume_inbound"))
    lengths = list[Dim]()
    for is_inbound in (False, True):
        if is_inbound in inbound:
            with suppress(MismatchError):
                lengths.append(cut_length(whole, *bounds, is_inbound=is_inbound))
    facts.narrow(DimAt(called.result, axis), one_of(lengths))


def _items(facts: Facts, name: str) -> tuple[int, ...] | None:
    """The items of a list; None if they are not all known."""
    length = facts.of(Rank(name)).only()
    if not isinstance(length, int):
        return None
    found = (facts.of(DimAt(name, at)).only() for at in range(length))
    known = tuple(item for item in found if isinstance(item, int))
    return known if len(known) == length else None


def _bounded(called: Called, facts: Facts) -> None:
    """Each bound of a dynamic slice is a tensor with a number for each dimension."""
    data, *bounds = called.operands
    for name in bounds:
        facts.equal(Rank(data), DimAt(name, 0))


def _replaced(called: Called, facts: Facts) -> None:
    """What is put in has the rank of the data, and its dimensions except along the axis."""
    data, given, *_ = called.operands
    facts.equal(Rank(data), Rank(given))
    axis = asked_list(called, facts, "axis")
    if axis is None:
        return
    for at in beside(facts, (data, given), axis):
        facts.equal(DimAt(given, at), DimAt(data, at))
    try:
        length = slice_length(*map(called.written, (2, 3, 4)))
    except MismatchError:
        facts.possible = False
        return
    if isinstance(length, int):
        facts.narrow(DimAt(given, axis[0]), one_of((length,)))


slice_relations = table(
    (
        {"strided_slice"},
        Relation("the lists of {op} have an item for each axis that is cut", again=_sliced),
    ),
    (
        {"strided_slice"},
        Relation(
            "{op} cuts dimensions of what it takes, with steps that are not 0", again=_within_rank
        ),
    ),
    ({"strided_slice"}, Relation("{op} cuts along each axis once", again=_each_axis_once)),
    (
        {"strided_slice"},
        Relation("{op} keeps the other dimensions, and cuts no more than is asked", again=_cut),
    ),
    (
        {"dynamic_strided_slice"},
        Relation("{op} takes lists with a number for each dimension", once=_bounded),
    ),
    ({"slice_scatter"}, Relation("{op} takes the shape that it replaces", again=_replaced)),
)
