"""What the lists in a pattern say of the values that operators take and give."""

from collections.abc import Iterator
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.domain import COUNT, between, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import DimAt, Rank
from collage_dsl.rules.pattern import OPEN, ListOf

_GIVE = frozenset({"broadcast_to", "collapse_sum_to", "full", "ones", "reshape", "zeros"})
"""Operators whose result has the shape in their operand `shape`."""

_LENGTHS = {"image.resize2d": 2, "image.resize3d": 3}
"""The lengths of the operand `size`."""


def lists_of(called: Called) -> Iterator[tuple[str, str]]:
    """The operands of a call that are lists: what the operator and what the pattern calls them."""
    known = operators()[called.call.ops[0]]
    for name, takes, operand in zip(
        known.operands or (), known.takes, called.operands, strict=False
    ):
        if takes == "list":
            yield name, operand


def _takes_lists(op: str) -> bool:
    return "list" in operators()[op].takes


def _written(called: Called, facts: Facts) -> None:
    """Add the numbers of the lists that the pattern writes, and how many items they have."""
    for _, name in lists_of(called):
        wanted = called.names.lists.get(name)
        if wanted is None:
            continue
        least = len(wanted.items) - (OPEN in wanted.items)
        most = inf if OPEN in wanted.items else least
        facts.narrow(Rank(name), one_of((least,)) if least == most else between(least, inf))
        for axis, item in _numbers(wanted):
            facts.narrow(DimAt(name, axis), one_of((item,)))


def _numbers(wanted: ListOf) -> Iterator[tuple[int, int]]:
    """The numbers of a list, each with its axis; after `..`, from the end."""
    end = wanted.items.index(OPEN) if OPEN in wanted.items else len(wanted.items)
    for at, item in enumerate(wanted.items):
        if isinstance(item, int):
            yield (at if at < end else at - len(wanted.items)), item


def _gives(called: Called, facts: Facts) -> None:
    """
    The result has the shape of the list. A reshape to -1 or 0, which a graph as text may contain,
    says only the rank.
    """
    name = next(name for operand, name in lists_of(called) if operand == "shape")
    wanted = called.names.lists.get(name)
    numbers = [] if wanted is None else [item for item in wanted.items if isinstance(item, int)]
    if min(numbers, default=1) > 0:
        facts.same_shape(called.result, name)
    else:
        facts.equal(Rank(called.result), Rank(name))


def _sized(called: Called, facts: Facts) -> None:
    length = _LENGTHS[called.call.ops[0]]
    facts.narrow(Rank(called.operands[1]), one_of((length,)))
    for axis in range(length):
        facts.narrow(DimAt(called.operands[1], axis), COUNT)


list_relations = table(
    (
        _takes_lists,
        Relation("the lists of {op} are written in the program", once=_written, is_plain=True),
    ),
    (_GIVE, Relation("{op} gives the shape in its list", once=_gives)),
    (_LENGTHS.keys(), Relation("{op} takes a size above 0 for each axis of an image", once=_sized)),
)
