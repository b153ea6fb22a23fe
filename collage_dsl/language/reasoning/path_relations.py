"""What paths of calls keep, because each call that may be on them keeps it."""

from collections.abc import Iterator, Sequence
from math import inf

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.dimension_relations import broadcast_to
from collage_dsl.language.reasoning.facts import Facts
from collage_dsl.language.reasoning.rank_relations import REDUCTIONS, differ
from collage_dsl.language.reasoning.relations import Claim, Relation, broadcasts, keeps_shape
from collage_dsl.language.reasoning.required_calls import Called


def path_claims(paths: Sequence[Called], *, of_operators: bool) -> Iterator[Claim]:
    """
    What holds for the value of each of `paths` and the value that it is from. Calls by kind are
    known if they are `of_operators`, and no compiled functions.
    """
    for path in paths:
        ops = path.call.ops
        if path.call.kinds:
            if of_operators and not ops and path.call.kinds == (Kind.ELEMENTWISE,):
                yield Claim(_RANK, path)
        elif all(map(_keeps, ops)):
            yield Claim(_SHAPE, path)
        elif all(_keeps(op) or broadcasts(op) for op in ops):
            yield Claim(_NO_LOWER, path)
            yield Claim(_BROADCAST, path)
        elif all(_keeps(op) or op in REDUCTIONS for op in ops):
            yield Claim(_NO_HIGHER, path)


def what_is_kept(op: str) -> tuple[bool, ...]:
    """What the result of an operator has in common with what it takes, in few words."""
    return keeps_shape(op), broadcasts(op), op in REDUCTIONS


def _keeps(op: str) -> bool:
    return keeps_shape(op) and len(operators()[op].operands or ()) == 1


def _same_shape(called: Called, facts: Facts) -> None:
    facts.same_shape(called.result, called.operands[0])


def _same_rank(called: Called, facts: Facts) -> None:
    differ(facts, called.result, called.operands[0], 0, 0)


def _no_lower(called: Called, facts: Facts) -> None:
    differ(facts, called.result, called.operands[0], 0, inf)


def _no_higher(called: Called, facts: Facts) -> None:
    differ(facts, called.operands[0], called.result, 0, inf)


_SHAPE = Relation("a path of {op} keeps the shape", once=_same_shape)
_RANK = Relation("a path of {op} keeps the rank", once=_same_rank)
_NO_LOWER = Relation("a path of {op} gives the same rank or a higher one", again=_no_lower)
_BROADCAST = Relation("a path of {op} keeps dimensions that are not 1", again=broadcast_to)
_NO_HIGHER = Relation("a path of {op} gives the same rank or a lower one", again=_no_higher)
