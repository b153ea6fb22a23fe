"""How the ranks of what operators of ONNX give follow from what they take."""

from collections.abc import Iterator, Mapping
from functools import partial

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.onnx_ranks import REDUCTIONS_OF_ONNX
from collage_dsl.language.reasoning.claims.rank_differences import differ
from collage_dsl.language.reasoning.claims.rank_relations import no_higher, same_rank
from collage_dsl.language.reasoning.claims.relations import Relation, table
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.assuming import equate
from collage_dsl.language.reasoning.values.domain import one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Calculate, Constant, DimAt, Rank

_BY_LENGTH: Mapping[str, tuple[int, int]] = {
    "onnx.AffineGrid": (1, 0),
    "onnx.Col2Im": (1, 2),
    "onnx.ConstantOfShape": (0, 0),
    "onnx.Reshape": (1, 0),
}
"""
The place of an operand that is a list with a number for each dimension of the result, and how many
dimensions come before these.
"""


def onnx_rank_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    yield from _table(ops)
    if len(ops) == 1 and ops[0] in _BY_LENGTH:
        at, others = _BY_LENGTH[ops[0]]
        name = (operators()[ops[0]].operands or ())[at]
        after = f" after the first {others}" if others else ""
        said = f"{{op}} gives a dimension for each number of `{name}`{after}"
        yield Relation(said, again=partial(_by_length, at, others))


def _kept(called: Called, facts: Facts) -> None:
    if facts.of(called.attribute("keepdims")).only() == 1:
        same_rank(called, facts)
    else:
        no_higher(called, facts)


def _of_matrices(called: Called, facts: Facts) -> None:
    differ(facts, called.operands[0], called.result, 2, 2)


def _by_length(at: int, others: int, called: Called, facts: Facts) -> None:
    """
    A list without numbers is usual, unlike other tensors without elements, so nothing is said where
    it may have none. In the oldest versions, some operators have the list as an attribute.
    """
    if at >= len(called.operands):
        return
    length, rank = DimAt(called.operands[at], 0), Rank(called.result)
    facts.narrow(Rank(length.of), one_of((1,)))
    if facts.of(length).only() is not None or others not in facts.of(rank):
        equate(facts, rank, Calculate("+", length, Constant(others)))


_table = table(
    (REDUCTIONS_OF_ONNX, Relation("{op} keeps the rank if `keepdims` is 1", again=_kept)),
    ({"onnx.Det"}, Relation("{op} takes out the last two dimensions", again=_of_matrices)),
    ({"onnx.Squeeze"}, Relation("{op} takes out dimensions", again=no_higher)),
)
