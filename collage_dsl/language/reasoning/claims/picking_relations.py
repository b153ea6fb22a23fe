"""The dimensions of what is taken, repeated or ranked, where ranks may be unknown."""

from collections.abc import Sequence
from math import inf

from collage_dsl.language.reasoning.claims.axis_relations import beside
from collage_dsl.language.reasoning.claims.dimension_relations import MOST_AXES
from collage_dsl.language.reasoning.claims.list_values import asked_list, is_none
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.claims.size_relations import at_least
from collage_dsl.language.reasoning.values.assuming import equate
from collage_dsl.language.reasoning.values.domain import between, divided_by, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import multiply
from collage_dsl.rules.condition import Calculate, Constant, DimAt, Rank, Size


def _taken(called: Called, facts: Facts) -> None:
    """The dimensions of the indices are in the place of one of the data."""
    data, indices = called.operands
    axis = asked_list(called, facts, "axis")
    rank = facts.of(Rank(data))
    if rank.only() == 1 or (is_none(called, facts, "axis") and 1 in rank):
        facts.same_shape(indices, called.result)
    if axis is None:
        return
    only, least = rank.only(), min(int(rank.bounds()[0]), MOST_AXES)
    before, after = _around(axis[0], only if isinstance(only, int) else None)
    for at in range(least + axis[0] if before is None else before):
        facts.equal(DimAt(called.result, at), DimAt(data, at))
    for at in range(axis[0] + 1 - least if after is None else -after, 0):
        facts.equal(DimAt(called.result, at), DimAt(data, at))
    most = min(int(facts.of(Rank(indices)).bounds()[0]), MOST_AXES)
    for at in range(most):
        if before is not None:
            facts.equal(DimAt(called.result, before + at), DimAt(indices, at))
        if after is not None:
            facts.equal(DimAt(called.result, -after - most + at), DimAt(indices, at - most))


def _around(axis: int, rank: int | None) -> tuple[int | None, int | None]:
    """How many dimensions are before and after an axis; None if that is not known."""
    if rank is not None and -rank <= axis < rank:
        return axis % rank, rank - 1 - axis % rank
    return (axis, None) if axis >= 0 else (None, -1 - axis)


def _like_second(called: Called, facts: Facts) -> None:
    facts.same_shape(called.operands[1], called.result)


def _meshed(called: Called, facts: Facts) -> None:
    """Each vector has a dimension of its own in all results."""
    vectors = called.names.tuples.get(called.operands[0])
    if vectors is None:
        return
    for vector in vectors:
        facts.narrow(Rank(vector), one_of((1,)))
    for name in called.results.values() if called.result in called.names.fields else ():
        facts.narrow(Rank(name), one_of((len(vectors),)))
        for at, vector in enumerate(vectors):
            facts.equal(DimAt(name, at), DimAt(vector, 0))


def _repeated(called: Called, facts: Facts) -> None:
    count, axis = (asked_list(called, facts, name) for name in ("repeats", "axis"))
    if count is None:
        return
    if axis is not None:
        _multiplied(facts, called, axis[0], count[0])
    elif is_none(called, facts, "axis"):
        size = Calculate("*", Size(called.operands[0]), Constant(count[0]))
        equate(facts, DimAt(called.result, 0), size)


def _multiplied(facts: Facts, called: Called, axis: int, count: int) -> None:
    product = Calculate("*", DimAt(called.operands[0], axis), Constant(count))
    equate(facts, DimAt(called.result, axis), product)


def _gathered_from_workers(called: Called, facts: Facts) -> None:
    """The first dimension is that of all workers together."""
    multiply(facts, called.result, called.operands[0])
    if count := asked_list(called, facts, "num_workers"):
        _multiplied(facts, called, 0, count[0])
    for at in beside(facts, (called.result, called.operands[0]), (0,)):
        facts.equal(DimAt(called.result, at), DimAt(called.operands[0], at))


def _scattered_to_workers(called: Called, facts: Facts) -> None:
    """Each worker has an equal part along the axis."""
    multiply(facts, called.operands[0], called.result)
    count, axis = (asked_list(called, facts, name) for name in ("num_workers", "axis"))
    if count is not None and axis is not None:
        whole, part = DimAt(called.operands[0], axis[0]), DimAt(called.result, axis[0])
        equate(facts, whole, Calculate("*", part, Constant(count[0])))


def _tiled(called: Called, facts: Facts) -> None:
    """The last dimension is repeated as often as the last number says, and so on."""
    counts = asked_list(called, facts, "repeats")
    if counts is None:
        return
    least, most = facts.of(Rank(called.operands[0])).bounds()
    facts.narrow(Rank(called.result), between(max(least, len(counts)), max(most, len(counts))))
    for at in range(-len(counts), 0):
        if not facts.possible:
            return
        if -at <= least:
            _multiplied(facts, called, at, counts[at])
        elif -at > most:
            facts.narrow(DimAt(called.result, at), one_of((counts[at],)))
        elif counts[at] > 0:
            facts.narrow(DimAt(called.result, at), divided_by(counts[at], 0))


def _ranked(called: Called, facts: Facts) -> None:
    """At most `k` elements are left along the axis, or all if `k` is below 1."""
    count, axis = (asked_list(called, facts, name) for name in ("k", "axis"))
    if axis is None:
        return
    data = DimAt(called.operands[0], axis[0])
    for name in called.results.values():
        _shortened(facts, DimAt(name, axis[0]), data, count)


def _shortened(facts: Facts, result: DimAt, data: DimAt, count: Sequence[int] | None) -> None:
    at_least(facts, data, result)
    if count is None or not facts.possible:
        return
    if count[0] < 1:
        facts.equal(result, data)
        return
    facts.narrow(result, between(0, count[0]))
    whole, _ = facts.of(data).bounds()
    if whole != inf and whole >= count[0]:
        facts.narrow(result, one_of((count[0],)))


def _shuffled(called: Called, facts: Facts) -> None:
    """Channels become rows and columns, `upscale_factor` times as many of each."""
    factor = asked_list(called, facts, "upscale_factor")
    if factor is None or not facts.possible:
        return
    _multiplied(facts, called, -1, factor[0])
    _multiplied(facts, called, -2, factor[0])
    left = Calculate("*", DimAt(called.result, -3), Constant(factor[0] ** 2))
    equate(facts, DimAt(called.operands[0], -3), left)


_DIFFERENTIATED = ("avg_pool2d", "max_pool2d", "nll_loss", "take")
"""Operators of which Relax has the gradient."""

picking_relations = table(
    (
        {"gather_elements", "onnx.GatherElements"},
        Relation("{op} gives the shape of the indices", once=_like_second),
    ),
    (
        frozenset(f"grad.{op}_backward" for op in _DIFFERENTIATED),
        Relation("{op} gives the shape of what the operator took", once=_like_second),
    ),
    ({"meshgrid"}, Relation("{op} gives a dimension for each vector that it takes", once=_meshed)),
    (
        {"nn.pixel_shuffle"},
        Relation(
            "{op} makes rows and columns of channels, as `upscale_factor` says", again=_shuffled
        ),
    ),
    (
        {"take"},
        Relation(
            "{op} keeps the dimensions of the indices, and those of the data beside the axis",
            again=_taken,
        ),
    ),
    (
        {"ccl.allgather"},
        Relation("{op} gives the tensors of all workers together", again=_gathered_from_workers),
    ),
    (
        {"ccl.scatter_from_worker0"},
        Relation("{op} gives each worker an equal part", again=_scattered_to_workers),
    ),
    ({"repeat"}, Relation("{op} repeats each element along the axis", again=_repeated)),
    ({"tile"}, Relation("{op} repeats the last dimensions as `repeats` says", again=_tiled)),
    ({"topk"}, Relation("{op} gives `k` elements along the axis, or fewer", again=_ranked)),
)
