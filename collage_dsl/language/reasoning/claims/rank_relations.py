"""The ranks of what operators take and give."""

from collections.abc import Iterator, Mapping
from functools import partial
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import listed
from collage_dsl.language.reasoning.claims.list_values import asked_list, is_none
from collage_dsl.language.reasoning.claims.onnx_ranks import (
    BROADCASTING_IN_ONNX,
    PRODUCTS_IN_ONNX,
    RANKS_OF_ONNX,
    SAME_RANK_IN_ONNX,
    TAKES_IN_ONNX,
)
from collage_dsl.language.reasoning.claims.product_ranks import product_rank
from collage_dsl.language.reasoning.claims.rank_differences import differ
from collage_dsl.language.reasoning.claims.relations import Apply, Relation, broadcasts, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.alternatives import is_one_of, may_be_equal
from collage_dsl.language.reasoning.values.differences import Difference
from collage_dsl.language.reasoning.values.domain import (
    FALSE,
    TRUE,
    Number,
    between,
    divided_by,
    is_infinite,
    one_of,
)
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.terms import rank_of
from collage_dsl.rules.condition import Has, Rank

REDUCTIONS = frozenset(
    {"argmax", "argmin", "max", "mean", "median", "min", "prod", "std", "sum", "variance"}
)

_FIXED: Mapping[str, int] = {
    "arange": 1,
    "eye": 2,
    "flatten": 1,
    "hamming_window": 1,
    "nn.attention": 4,
    "nn.attention_bias": 4,
    "nn.attention_var_len": 4,
    "nn.batch_flatten": 2,
    "nn.cross_entropy_with_logits": 0,
    "multinomial_from_uniform": 2,
    "nonzero": 2,
    "outer": 2,
    "shape_to_tensor": 1,
    "size": 0,
    "vision.roi_align": 4,
    "vision.roi_pool": 4,
    **RANKS_OF_ONNX,
}
"""Operators whose result always has the same rank."""

_ALONG_AXIS = frozenset(
    {"ccl.scatter_from_worker0", "concat", "flip", "nn.batch_norm", "nn.group_norm"}
    | {"nn.instance_norm", "nn.log_softmax", "nn.prelu", "nn.softmax", "split", "take", "topk"}
)
"""Operators that go along an axis of what comes first, whatever their attributes are."""

_TAKES: Mapping[str, tuple[tuple[Number, Number], ...]] = {
    **dict.fromkeys(_ALONG_AXIS, ((1, inf),)),
    "bucketize": ((0, inf), (1, 1)),
    "ccl.allgather": ((1, inf),),
    "dynamic_strided_slice": ((0, inf), (1, 1), (1, 1), (1, 1)),
    "eye_like": ((2, 2),),
    "full_like": ((0, inf), (0, 0)),
    "gather_elements": ((1, inf),) * 2,
    "gather_nd": ((0, inf), (1, inf)),
    "image.affine_grid": ((3, 3),),
    "multinomial_from_uniform": ((2, 2),) * 3,
    "nn.attention": ((4, 4),) * 3,
    "nn.attention_bias": ((4, 4),) * 4,
    "nn.attention_var_len": ((4, 4),) * 3,
    "nn.batch_flatten": ((2, inf),),
    "nn.pixel_shuffle": ((3, inf),),
    "nn.nll_loss": ((1, inf), (0, inf), (1, 1)),
    "matmul": ((1, inf),) * 2,
    "outer": ((1, 1),) * 2,
    "reverse_sequence": ((1, inf), (1, 1)),
    "scatter_nd": ((0, inf), (1, inf)),
    "slice_scatter": ((1, inf),) * 2,
    "tril": ((2, inf),),
    "triu": ((2, inf),),
    "vision.all_class_non_max_suppression": ((3, 3),) * 2,
    "vision.get_valid_counts": ((3, 3),),
    "vision.multibox_transform_loc": ((3, 3), (2, 2), (3, 3)),
    "vision.non_max_suppression": ((3, 3), (1, 1), (2, 2)),
    "vision.roi_align": ((4, 4), (2, 2)),
    "vision.roi_pool": ((4, 4), (2, 2)),
    **TAKES_IN_ONNX,
}
"""The least and the greatest rank of operands."""

_BY_CHANNEL = frozenset({"nn.batch_norm", "nn.group_norm", "nn.instance_norm"})
"""Operators whose weights are lists, with one number for each channel."""

_SAME_RANK = frozenset(
    {"ccl.allgather", "ccl.scatter_from_worker0"}
    | {"concat", "dynamic_strided_slice", "gather_elements", "nn.pad", "nn.pixel_shuffle"}
    | {"permute_dims", "split", "strided_slice", "topk"}
    | SAME_RANK_IN_ONNX
)
"""Operators whose results have the rank, but not the shape, of each tensor that comes first."""

_SAME_RANK_ALONG_AXIS = frozenset({"cumprod", "cumsum", "onnx.Compress", "repeat"})
"""Operators that give a list if no axis is said."""


def rank_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    yield from _table(ops)
    if all(op in _TAKES for op in ops):
        yield Relation(f"{{op}} takes {_said_of_ranks(ops[0])}", once=_taken)
    if all(op in _FIXED for op in ops):
        ranks = sorted({_FIXED[op] for op in ops})
        said = f"{{op}} gives a value of rank {' or '.join(map(str, ranks))}"
        yield Relation(said, once=partial(_fixed, ranks))


def _said_of_ranks(op: str) -> str:
    """`values of rank 4`, or the names of the operands with their ranks."""
    bounds, names = _TAKES[op], operators()[op].operands or ()
    if len(set(bounds)) == 1:
        these = listed(names[: len(bounds)], "and") if len(bounds) < len(names) else "values"
        return f"{these} of rank {_range(*bounds[0])}"
    said = (f"`{name}` of rank {_range(*each)}" for name, each in zip(names, bounds, strict=False))
    return " and ".join(each for each, (least, _) in zip(said, bounds, strict=True) if least)


def _range(least: Number, most: Number) -> str:
    if least == most:
        return f"{least}"
    return f"{least} or more" if most == inf else f"{least} to {most}"


def _fixed(ranks: list[int], called: Called, facts: Facts) -> None:
    for name in called.results.values():
        facts.narrow(Rank(name), one_of(ranks))


def _taken(called: Called, facts: Facts) -> None:
    bounds = [_TAKES[op] for op in called.call.ops]
    for at, allowed in enumerate(zip(*bounds, strict=False)):
        if at == len(called.operands):
            return
        least, most = min(low for low, _ in allowed), max(high for _, high in allowed)
        for name in called.tensors(at):
            facts.narrow(Rank(name), between(least, most))


def _filled(called: Called, facts: Facts) -> None:
    facts.narrow(Rank(called.operands[1]), one_of((0,)))


def _listed_weights(called: Called, facts: Facts) -> None:
    for weight in called.operands[1:]:
        facts.narrow(Rank(weight), one_of((1,)))


def _listed_statistics(called: Called, facts: Facts) -> None:
    for field, name in called.results.items():
        if field > 0:
            facts.narrow(Rank(name), one_of((1,)))


def _weights_by_axis(called: Called, facts: Facts) -> None:
    for weight in called.operands[1:]:
        differ(facts, called.operands[0], weight, 0, inf)


def same_rank(called: Called, facts: Facts) -> None:
    for name in called.results.values():
        for operand in called.tensors(0):
            facts.equal(Rank(name), Rank(operand))


def _same_rank_along_axis(called: Called, facts: Facts) -> None:
    result, data = Rank(called.result), Rank(called.operands[0])
    has_axis = Has(called.attribute("axis").name)
    if facts.of(has_axis).only() is True:
        same_rank(called, facts)
    elif is_none(called, facts, "axis") or not may_be_equal(facts, result, data):
        facts.narrow(has_axis, FALSE)
        facts.narrow(result, one_of((1,)))
    else:
        _, most = facts.of(Rank(called.operands[0])).bounds()
        facts.narrow(Rank(called.result), between(1, max(most, 1)))


def _listed_without_axis(called: Called, facts: Facts) -> None:
    if is_none(called, facts, "axis"):
        for name in called.tensors(0):
            facts.narrow(Rank(name), one_of((1,)))


def _distinct(called: Called, facts: Facts) -> None:
    """The values have the rank of the data along an axis; all else is a list."""
    data, *_ = called.operands
    has_axis = len(called.operands) == len(operators()["unique"].operands or ())
    if has_axis:
        facts.narrow(Rank(data), between(1, inf))
    for field, name in called.results.items():
        if has_axis and field == 0:
            facts.equal(Rank(name), Rank(data))
        else:
            facts.narrow(Rank(name), one_of((1,)))


def no_lower(called: Called, facts: Facts) -> None:
    """Add that the result has the rank of the first operand, or a higher one."""
    differ(facts, called.result, called.operands[0], 0, inf)


def no_higher(called: Called, facts: Facts) -> None:
    differ(facts, called.operands[0], called.result, 0, inf)


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
    data = called.operands[0]
    for name in called.results.values():
        if axes and keeps is None and not may_be_equal(facts, Rank(data), Rank(name)):
            facts.narrow(called.attribute("keepdims"), FALSE)
            keeps = False
        if axes and keeps is None:
            _, most = facts.of(Rank(data)).bounds()
            if facts.of(Rank(name)).bounds()[0] > most - len(axes):
                facts.narrow(called.attribute("keepdims"), TRUE)
                keeps = True
        known = 0 if keeps is True else len(axes) if axes is not None and keeps is False else None
        if known is None and _reduces_one(called) and 0 not in facts.of(Rank(name)):
            differ(facts, data, name, 0, 1)
            continue
        least, most = (0, inf) if known is None else (known, known)
        differ(facts, data, name, least, most)


def _reduces_one(called: Called) -> bool:
    """Whether the operators take out one dimension, or else all."""
    return all(operators()[op].attrs["axis"] == "int" for op in called.call.ops)


def _reduced_to_one(called: Called, facts: Facts) -> None:
    is_kept = facts.of(called.attribute("keepdims")).only()
    for name in called.results.values():
        if is_kept is False and is_none(called, facts, "axis"):
            facts.narrow(Rank(name), one_of((0,)))


def _at_least_each(called: Called, facts: Facts) -> None:
    """Add that the rank of the result is at least that of each operand."""
    result = facts.first(rank_of(called.result))
    for name in called.operands[:1] if called.call.optional else called.operands:
        facts.differ(Difference(result, ">=", facts.first(rank_of(name)), 0))


def _broadcast_rank(called: Called, facts: Facts) -> None:
    """Add that the rank of the result is the larger rank of the operands."""
    result = rank_of(called.result)
    operands = [rank_of(name) for name in called.operands]
    for operand in operands[:1] if called.call.optional else operands:
        least, _ = facts.of(operand).bounds()
        if least > 0:
            facts.narrow(result, between(least, inf))
        _, most = facts.of(result).bounds()
        if most < inf:
            facts.narrow(operand, between(-inf, most))
    is_one_of(facts, result, operands)
    if not called.call.optional:
        most = max(facts.of(operand).bounds()[1] for operand in operands)
        if most < inf:
            facts.narrow(result, between(-inf, most))


def _taken_rank(called: Called, facts: Facts) -> None:
    data, indices = (Rank(name) for name in called.operands)
    (least, most), (few, many) = facts.of(data).bounds(), facts.of(indices).bounds()
    facts.narrow(Rank(called.result), between(least + few - 1, most + many - 1))
    if facts.first(data) == facts.first(indices) and facts.possible:
        facts.narrow(Rank(called.result), divided_by(2, 1))
        low, high = facts.of(Rank(called.result)).bounds()
        facts.narrow(data, between((low + 1) // 2, inf if high == inf else (high + 1) // 2))
    for one, other in ((data, indices), (indices, data)):
        if facts.possible:
            low, high = facts.of(one).bounds()
            result, rest = facts.first(Rank(called.result)), facts.first(other)
            facts.differ(Difference(result, ">=", rest, int(low) - 1))
            if not is_infinite(high):
                facts.differ(Difference(result, "<=", rest, int(high) - 1))


def _again(says: str, apply: Apply, *, is_plain: bool = False) -> Relation:
    return Relation(says, again=apply, is_plain=is_plain)


_table = table(
    (_SAME_RANK, Relation("{op} keeps the rank", once=same_rank, is_plain=True)),
    (_BY_CHANNEL, Relation("the weights of {op} have one dimension", once=_listed_weights)),
    (
        {"nn.batch_norm"},
        Relation("the statistics of {op} have one dimension", once=_listed_statistics),
    ),
    (
        {"nn.layer_norm", "nn.rms_norm"},
        _again("the weights of {op} have a dimension for each of `axes`", _weights_by_axis),
    ),
    (
        _SAME_RANK_ALONG_AXIS,
        _again(
            "{op} keeps the rank along an `axis`, else gives rank 1",
            _same_rank_along_axis,
            is_plain=True,
        ),
    ),
    (
        {"concat", "take"},
        _again("{op} takes data of rank 1, if there is no `axis`", _listed_without_axis),
    ),
    (
        {"broadcast_to", "com.microsoft.QLinearAdd", "com.microsoft.QLinearMul", "onnx.Expand"}
        | {"onnx.Unsqueeze", "tile"},
        _again("{op} gives a value of the same rank or a higher one", no_lower, is_plain=True),
    ),
    (
        {"unique"},
        Relation("{op} gives lists, and values of the rank of the data along an axis", _distinct),
    ),
    ({"one_hot", "onnx.OneHot", "stack"}, _again("{op} adds a dimension", _one_more)),
    ({"expand_dims"}, _again("{op} adds the dimensions in `axis`", _expanded)),
    ({"full"}, Relation("{op} takes a number to fill in, of rank 0", once=_filled)),
    ({"squeeze"}, _again("{op} takes out dimensions in `axis`", _squeezed)),
    (
        REDUCTIONS,
        _again("{op} takes out the dimensions that `axis` names, unless `keepdims`", _reduced),
    ),
    (
        REDUCTIONS,
        _again(
            "{op} gives a value of rank 0 if there is no `axis`, unless `keepdims`", _reduced_to_one
        ),
    ),
    (
        lambda op: broadcasts(op) or op in BROADCASTING_IN_ONNX,
        Relation(
            "{op} gives the larger rank of its operands",
            once=_at_least_each,
            again=_broadcast_rank,
            if_absent=True,
            is_plain=True,
        ),
    ),
    (
        {"matmul", *PRODUCTS_IN_ONNX},
        _again(
            "{op} gives the larger rank, or one less where an operand has rank 1",
            product_rank,
            is_plain=True,
        ),
    ),
    (
        {"onnx.Gather", "take"},
        _again("{op} puts the dimensions of the indices in the place of one", _taken_rank),
    ),
)
