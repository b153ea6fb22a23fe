"""The values of attributes that are lists, as a whole or by their elements."""

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.operators.attribute_values import read_length, stored_length
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Attr, Each, Has, Item, Rank


def asked_list(called: Called, facts: Facts, name: str) -> tuple[int, ...] | None:
    """
    The numbers that TVM reads of an attribute, or the only one; None if they are not all known. It
    may store more: see `read_length`.
    """
    attribute = called.attribute(name)
    match facts.of(attribute).only():
        case bool():
            return None
        case int() as number:
            return (number,)
        case tuple() as numbers:
            return tuple(number for number in numbers if isinstance(number, int))
    return _by_elements(called, facts, name, attribute)


def is_none(called: Called, facts: Facts, name: str) -> bool:
    """Whether an attribute is known to have no value."""
    return facts.of(Has(called.attribute(name).name)).only() is False


def _by_elements(
    called: Called, facts: Facts, name: str, attribute: Attr
) -> tuple[int, ...] | None:
    """The numbers of a list of which each element is known."""
    length, is_all = _length(called, facts, name)
    if length is None or is_none(called, facts, name):
        return None
    found: list[int] = []
    for at in range(length):
        values = facts.of(Each(attribute)).meet(facts.of(Item(attribute, at)))
        if is_all:
            values = values.meet(facts.of(Item(attribute, at - length)))
        only = values.only()
        if not isinstance(only, int):
            return None
        found.append(only)
    return tuple(found)


def _length(called: Called, facts: Facts, name: str) -> tuple[int | None, bool]:
    """How many numbers TVM reads of a list, and whether these are all."""
    known = [operators()[op] for op in called.call.ops]
    read = {read_length(operator, name) for operator in known}
    if read == {None}:
        return _by_rank(called, facts, name), True
    is_all = read == {stored_length(operator, name) for operator in known}
    return (read.pop() if len(read) == 1 else None), is_all


def _by_rank(called: Called, facts: Facts, name: str) -> int | None:
    """The length of a list with numbers for each dimension of the first operand."""
    count = {_PER_DIMENSION.get((op, name)) for op in called.call.ops}
    rank = facts.of(Rank(called.operands[0])).only()
    if len(count) > 1 or not isinstance(rank, int):
        return None
    each = count.pop()
    return None if each is None else each * rank


_PER_DIMENSION = {("nn.pad", "pad_width"): 2, ("permute_dims", "axes"): 1}
"""How many numbers attributes have for each dimension of the first operand."""
