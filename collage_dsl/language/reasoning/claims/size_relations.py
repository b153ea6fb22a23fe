"""How many elements, and bytes, operators give beside those that they take."""

from collections.abc import Sequence
from math import inf, prod

from collage_dsl.language.reasoning.claims.list_values import asked_list
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.assuming import equate
from collage_dsl.language.reasoning.values.differences import Difference
from collage_dsl.language.reasoning.values.domain import between
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.knowing import count_elements, multiply
from collage_dsl.rules.condition import Bytes, Calculate, Constant, DimAt, Dtype, Size


def at_least(facts: Facts, larger: DimAt | Size | Bytes, smaller: DimAt | Size | Bytes) -> None:
    facts.narrow(larger, between(facts.of(smaller).bounds()[0], inf))
    facts.narrow(smaller, between(-inf, facts.of(larger).bounds()[1]))
    if facts.possible:
        facts.differ(Difference(facts.first(larger), ">=", facts.first(smaller), 0))


def at_least_along(
    facts: Facts, larger: str, others: Sequence[str], axes: Sequence[int] | None
) -> None:
    """
    Add that a value is as long as others of the same rank, or longer, along some axes, or along
    those asked about if these are not known; and that it has as many elements, or more.
    """
    along = facts.asked_axes((larger, *others)) if axes is None else axes
    for smaller in others:
        for axis in along:
            at_least(facts, DimAt(larger, axis), DimAt(smaller, axis))
        if Size(smaller) in facts.known:
            count_elements(facts, larger)
        _has_more(facts, larger, smaller)


def _has_more(facts: Facts, larger: str, smaller: str) -> None:
    """As many elements or more are as many bytes or more, where they have the same dtype."""
    at_least(facts, Size(larger), Size(smaller))
    is_asked = Bytes(larger) in facts.known and Bytes(smaller) in facts.known
    if is_asked and facts.first(Dtype(larger)) == facts.first(Dtype(smaller)):
        at_least(facts, Bytes(larger), Bytes(smaller))


def _cut(called: Called, facts: Facts) -> None:
    """With `assume_inbound`, a slice may be longer than what it is cut from."""
    if not _is_asked(called, facts):
        return
    if facts.of(called.attribute("assume_inbound")).only() is False:
        _has_more(facts, called.operands[0], called.result)


def _broadcast(called: Called, facts: Facts) -> None:
    if _is_asked(called, facts):
        multiply(facts, called.result, called.operands[0])


def _repeated(called: Called, facts: Facts) -> None:
    """How often each element is repeated, along one axis or several."""
    counts = asked_list(called, facts, "repeats") if _is_asked(called, facts) else None
    if counts is not None:
        _times(facts, called.result, prod(counts), called.operands[0])


def _stacked(called: Called, facts: Facts) -> None:
    if _is_asked(called, facts) and called.operands[0] in called.names.tuples:
        tensors = called.tensors(0)
        _times(facts, called.result, len(tensors), tensors[0])


def _times(facts: Facts, whole: str, count: int, part: str) -> None:
    equate(facts, Size(whole), Calculate("*", Size(part), Constant(count)))


def _is_asked(called: Called, facts: Facts) -> bool:
    """Whether anything is asked of how many elements the result has."""
    return Size(called.result) in facts.known or Bytes(called.result) in facts.known


size_relations = table(
    (
        {"strided_slice"},
        Relation("{op} gives no more elements than it takes", again=_cut, asks="all"),
    ),
    ({"broadcast_to"}, Relation("{op} gives a multiple of what it takes", again=_broadcast)),
    (
        {"repeat", "tile"},
        Relation("{op} gives each element as often as `repeats` says", again=_repeated),
    ),
    ({"stack"}, Relation("{op} gives the elements of all its tensors", again=_stacked)),
)
