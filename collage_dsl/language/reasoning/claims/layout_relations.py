"""The ranks of images and the sizes of their blocks, which their layouts say."""

import re
from collections.abc import Mapping
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.domain import between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Attr, DimAt, Rank

_OF_IMAGES = {
    f"nn.{sort}{rank}d": rank + 2
    for sort in ("conv", "max_pool", "avg_pool", "adaptive_avg_pool")
    for rank in (1, 2, 3)
} | {f"nn.conv{rank}d_transpose": rank + 2 for rank in (1, 2, 3)}
"""The least rank of the data, the weight and the result. Blocked layouts have a higher rank."""

_RESIZED = frozenset({"image.grid_sample", "image.resize2d", "image.resize3d"})
"""Operators that give an image of the layout that they take."""


def _images(called: Called, facts: Facts) -> None:
    least = between(min(_OF_IMAGES[op] for op in called.call.ops), inf)
    for name in (called.result, *layouts_of(called)):
        facts.narrow(Rank(name), least)


def _layouts(called: Called, facts: Facts) -> None:
    for operand, layout in _named(called).items():
        known = facts.of(layout).allowed
        if known is not None:
            ranks = one_of(rank_of_layout(str(text)) for text in known)
            facts.narrow(Rank(operand), ranks)


def _blocks(called: Called, facts: Facts) -> None:
    _narrow_blocks(_named(called), facts)


def _resized_blocks(called: Called, facts: Facts) -> None:
    layout = called.attribute("layout")
    _narrow_blocks({called.operands[0]: layout, called.result: layout}, facts)


def _narrow_blocks(named: Mapping[str, Attr], facts: Facts) -> None:
    """The last dimension of `NCHW16c` is 16."""
    for name, layout in named.items():
        sizes = re.findall(r"(\d*)[A-Za-z]", str(facts.of(layout).only() or ""))
        for at, size in enumerate(sizes):
            if size:
                facts.narrow(DimAt(name, at), one_of((int(size),)))


def _named(called: Called) -> dict[str, Attr]:
    """What a call takes and gives, each with the attribute of its layout."""
    return {**layouts_of(called), called.result: called.attribute("out_layout")}


def _resized(called: Called, facts: Facts) -> None:
    """What is taken and what is given have the same layout."""
    data = Rank(called.operands[0])
    facts.equal(data, Rank(called.result))
    known = facts.of(called.attribute("layout")).allowed
    if known is not None:
        facts.narrow(data, one_of(rank_of_layout(str(text)) for text in known))


def layouts_of(called: Called) -> dict[str, Attr]:
    """Each operand whose rank a layout determines, with the attribute of that layout."""
    if operators()[called.call.ops[0]].operands != ("data", "weight"):
        return {called.operands[0]: called.attribute("layout")}
    data, weight = called.operands
    return {data: called.attribute("data_layout"), weight: called.attribute("kernel_layout")}


def rank_of_layout(layout: str) -> int:
    """The rank of a layout: 4 for `NCHW`, 5 for `NCHW16c`."""
    return sum(map(str.isalpha, layout))


_BLOCKS = "the blocks of what {op} takes and gives are as large as the layouts say"

layout_relations = table(
    (
        _OF_IMAGES.keys(),
        Relation(
            "{op} takes and gives images, of the ranks of their layouts",
            once=_images,
            again=_layouts,
            is_plain=True,
        ),
    ),
    (_OF_IMAGES.keys(), Relation(_BLOCKS, again=_blocks)),
    (
        _RESIZED,
        Relation(
            "{op} takes and gives images of one rank, that of the layout",
            again=_resized,
            is_plain=True,
        ),
    ),
    (_RESIZED, Relation(_BLOCKS, again=_resized_blocks)),
)
