"""The dtypes that tensors have in nearly all models."""

from collections.abc import Iterator, Sequence

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.dtype_relations import gives_either_dtype
from collage_dsl.language.reasoning.claims.path_relations import has_one_dtype
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.conclusions.premises import Condition
from collage_dsl.language.reasoning.values.domain import Values
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.terms import Term, terms
from collage_dsl.rules.condition import Attr, Compare, Constant, Dtype, Expression, Has

_FLOATS = frozenset({"bf16", "f16", "f32", "f64"})

_SAYING = ("dtype", "out_dtype")
"""Attributes that say the dtype of a result."""


def usual_dtypes(
    calls: Sequence[Called], conditions: Sequence[Condition], ways: Sequence[Facts]
) -> Iterator[Condition]:
    """
    That none of two tensors is `bool` whose dtypes are said to differ, and, where a condition is
    about dtypes, that nothing is added or multiplied that is `bool`.
    """
    for condition in conditions:
        match condition.expression:
            case Compare("!=", Dtype() as one, Dtype() as other):
                for dtype in (one, other):
                    if _may_be_bool(dtype, ways):
                        yield Condition(Compare("!=", dtype, Constant("bool")), condition.span)
    if any(_is_of_dtype(term) for c in conditions for term in terms(c.expression)):
        yield from _no_bool(calls, ways)


def _is_of_dtype(term: Term) -> bool:
    is_said = isinstance(term, Attr) and term.name.rpartition(".")[2] in _SAYING
    return isinstance(term, Dtype) or is_said


def _no_bool(calls: Sequence[Called], ways: Sequence[Facts]) -> Iterator[Condition]:
    """That operands are not `bool` whose order decides which dtype the result has."""
    for called in calls:
        if called.span is not None and not called.call.kinds and not called.call.ordered:
            given = called.operands
            if called.is_path:
                operands = given if has_one_dtype(called.call.ops) else ()
            else:
                operands = given if all(map(gives_either_dtype, called.call.ops)) else ()
                operands = operands[:1] if called.call.optional else operands
            for dtype in map(Dtype, operands):
                if _may_be_bool(dtype, ways):
                    yield Condition(Compare("!=", dtype, Constant("bool")), called.span)


def _may_be_bool(dtype: Dtype, ways: Sequence[Facts]) -> bool:
    """Whether `dtype` may be `bool` or another one."""
    known = [way.of(dtype) for way in ways]
    return any("bool" in each for each in known) and not any(each.only() for each in known)


def usual_factors(called: Called, ways: Sequence[Facts]) -> Iterator[tuple[Expression, str]]:
    """
    That a product of floats has operands of one dtype, with words for it. It is said only where
    their dtypes are known to differ, and the pattern does not say the one of the result.
    """
    known = [operators()[op] for op in called.call.ops]
    if not all(each.kind is Kind.ANCHOR and "out_dtype" in each.attrs for each in known):
        return
    one, other = map(Dtype, called.operands[:2])
    words = f"`{called.call.ops[0]}`, without an `out_dtype`, takes floats of one dtype"
    if all(not _says(called, way) and _is_mixed(way.of(one), way.of(other)) for way in ways):
        yield Compare("==", one, other), words


def _says(called: Called, way: Facts) -> bool:
    """Whether the pattern says something of the dtype of the result."""
    said = called.attribute("out_dtype")
    return said in way.known or way.of(Has(said.name)).only() is True


def _is_mixed(one: Values, other: Values) -> bool:
    """Whether one of two dtypes is a float of 16 bits or more, and the other one another dtype."""
    if one.allowed is None or other.allowed is None or one.allowed & other.allowed:
        return False
    return one.allowed <= _FLOATS or other.allowed <= _FLOATS
