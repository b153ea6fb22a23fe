"""
What operators of ONNX keep of images, `[batch, channels, …]`, where their ranks may be unknown.

Where the ranks are known, claims/inferred_relations.py says more.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from math import inf

from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.assuming import equate
from collage_dsl.language.reasoning.values.domain import between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Calculate, Constant, DimAt, Rank

_WEIGHTS: Mapping[str, int] = {
    **dict.fromkeys(("onnx.Conv", "onnx.ConvInteger", "com.microsoft.FusedConv"), 1),
    **dict.fromkeys(("onnx.ConvTranspose", "onnx.DeformConv"), 1),
    "onnx.QLinearConv": 3,
}
"""The place of the weight, which has the rank of the data."""

_OFFSETS: Mapping[str, int] = {"onnx.DeformConv": 2}
"""The place of another operand that has the rank of the data."""

_TRANSPOSED = "onnx.ConvTranspose"

_GLOBAL = frozenset(f"onnx.Global{sort}Pool" for sort in ("Average", "Lp", "Max"))

_POOLS = _GLOBAL | {f"onnx.{sort}Pool" for sort in ("Average", "Lp", "Max")}


def onnx_image_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    yield from _table(ops)
    if len(ops) == 1 and ops[0] in _WEIGHTS:
        weight = _WEIGHTS[ops[0]]
        places = [weight, *([_OFFSETS[ops[0]]] if ops[0] in _OFFSETS else [])]
        yield Relation("{op} takes data and a weight of one rank", once=partial(_one_rank, places))
        yield Relation("{op} keeps the batch", once=partial(_kept, (0,)))
        said = "{op} takes the channels that its weight is for, in each group"
        yield Relation(said, again=partial(_channels, ops[0] == _TRANSPOSED, weight))
        if ops[0] != _TRANSPOSED:
            yield Relation("{op} gives a channel for each filter", once=partial(_filters, weight))


def _one_rank(places: list[int], called: Called, facts: Facts) -> None:
    data = Rank(called.operands[0])
    facts.narrow(data, between(3, inf))
    for at in places:
        facts.equal(data, Rank(called.operands[at]))
    facts.equal(data, Rank(called.result))


def _kept(axes: tuple[int, ...], called: Called, facts: Facts) -> None:
    if name := called.results.get(0):
        for axis in axes:
            facts.equal(DimAt(name, axis), DimAt(called.operands[0], axis))


def _filters(weight: int, called: Called, facts: Facts) -> None:
    facts.equal(DimAt(called.result, 1), DimAt(called.operands[weight], 0))


def _channels(is_transposed: bool, weight: int, called: Called, facts: Facts) -> None:
    taken, per_group = DimAt(called.operands[0], 1), DimAt(called.operands[weight], 1)
    groups = facts.of(called.attribute("group")).only()
    if is_transposed:
        facts.equal(taken, DimAt(called.operands[weight], 0))
    elif groups == 1:
        facts.equal(taken, per_group)
    elif isinstance(groups, int):
        equate(facts, taken, Calculate("*", per_group, Constant(groups)))


def _image(called: Called, facts: Facts) -> None:
    facts.narrow(Rank(called.operands[0]), between(2, inf))


def _reduced(called: Called, facts: Facts) -> None:
    """All dimensions after the channels are 1; those at the end are if there are three or more."""
    least, _ = facts.of(Rank(called.result)).bounds()
    for axis in facts.asked_axes((called.result,)):
        if axis >= 2 or (axis < 0 and -axis <= least - 2):
            facts.narrow(DimAt(called.result, axis), one_of((1,)))


_table = table(
    (_POOLS, Relation("{op} takes images", once=_image)),
    (
        _POOLS | {"onnx.GridSample", "onnx.MaxUnpool"},
        Relation("{op} keeps the batch and the channels", once=partial(_kept, (0, 1))),
    ),
    (
        {"com.microsoft.NhwcConv", "com.microsoft.NhwcFusedConv", "com.microsoft.QLinearConv"},
        Relation("{op} keeps the batch", once=partial(_kept, (0,))),
    ),
    (_GLOBAL, Relation("{op} gives dimensions of 1 after the channels", again=_reduced)),
)
