"""The conditions of a pattern that are examined, with their places, and what they are part of."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Literal

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.axis_relations import axis_relations
from collage_dsl.language.reasoning.claims.dimension_relations import dimension_relations
from collage_dsl.language.reasoning.claims.dtype_relations import (
    dtype_relations,
    number_claims,
    total_claims,
)
from collage_dsl.language.reasoning.claims.image_relations import image_relations
from collage_dsl.language.reasoning.claims.inferred_relations import inferred_relations
from collage_dsl.language.reasoning.claims.inner_uses import taken_claims, use_claims
from collage_dsl.language.reasoning.claims.layout_relations import layout_relations
from collage_dsl.language.reasoning.claims.lettered_relations import lettered_relations
from collage_dsl.language.reasoning.claims.list_relations import list_relations, lists_of
from collage_dsl.language.reasoning.claims.named_axes import named_axes
from collage_dsl.language.reasoning.claims.onnx_dtypes import onnx_dtype_relations
from collage_dsl.language.reasoning.claims.onnx_images import onnx_image_relations
from collage_dsl.language.reasoning.claims.onnx_rank_relations import onnx_rank_relations
from collage_dsl.language.reasoning.claims.onnx_ranks import (
    rank_relations_of_lists,
    rank_relations_of_results,
)
from collage_dsl.language.reasoning.claims.operand_relations import operand_relations
from collage_dsl.language.reasoning.claims.path_relations import path_claims
from collage_dsl.language.reasoning.claims.picking_relations import picking_relations
from collage_dsl.language.reasoning.claims.rank_relations import rank_relations
from collage_dsl.language.reasoning.claims.relations import Claim, claims, relations_of
from collage_dsl.language.reasoning.claims.required_calls import Called, Names, required_calls
from collage_dsl.language.reasoning.claims.size_relations import size_relations
from collage_dsl.language.reasoning.claims.slice_relations import slice_relations
from collage_dsl.language.reasoning.operators.attribute_values import read_length
from collage_dsl.language.reasoning.patterns.kinds_of_calls import named_in
from collage_dsl.language.reasoning.patterns.pattern_shape import may_be_there
from collage_dsl.language.reasoning.patterns.written_out import WrittenOut, written_out
from collage_dsl.language.reasoning.values.terms import renamed
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import (
    All,
    And,
    Attr,
    AttrOf,
    Compare,
    Constant,
    Each,
    Expression,
    Has,
    Or,
    Shape,
    Where,
    Within,
    parts,
    rebuilt,
)
from collage_dsl.rules.pattern import Pattern
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Condition:
    """
    A condition of a pattern. `size` is the effort of assuming it.

    An `implied` one comes from the dimensions of a parameter; it may repeat what is known. So does
    one of a called pattern: `said` is its place there, and `span` that of the call. One `at_call`
    is about the attributes or the kind of a call. `usual` has words for a condition that holds in
    usual models only, where its expression does not say enough.
    """

    expression: Expression
    span: Span
    implied: bool = False
    size: int = 1
    said: Span | None = None
    at_call: bool = False
    usual: str = ""


Premise = Condition | Claim

MOST_CONDITIONS = 100
MOST_CALLS = 40
"""Only this many conditions and calls are examined. The rest cannot make a finding wrong."""

ALL_RELATIONS = (
    *(lettered_relations, size_relations),
    *(inferred_relations, dtype_relations, onnx_dtype_relations, rank_relations, named_axes),
    *(layout_relations, operand_relations, dimension_relations, axis_relations),
    *(picking_relations, image_relations, list_relations, slice_relations),
    *(rank_relations_of_results, rank_relations_of_lists, onnx_rank_relations),
    onnx_image_relations,
)
"""
What operators say of their calls. What they say first is shown first, and what they say last is
preferred in messages.
"""


def what_is_said(op: str) -> tuple[str, ...]:
    """What an operator says of its calls, in words."""
    return tuple(relation.says for relation in relations_of((op,), ALL_RELATIONS))


@dataclass(frozen=True, slots=True)
class Premises:
    """
    What must hold in each match of a pattern: what its operators say, and its conditions. `there`
    are the optional parameters that every match binds, `absent` those that none binds, `places`
    those of the patterns that are called. `lists` are the names of lists, whose numbers may be
    negative.
    """

    calls: tuple[Called, ...]
    claims: tuple[Claim, ...]
    conditions: tuple[Condition, ...]
    there: tuple[str, ...]
    places: frozenset[Span]
    lists: frozenset[str] = frozenset()
    absent: tuple[str, ...] = ()

    @property
    def all(self) -> tuple[Premise, ...]:
        return (*self.claims, *self.conditions)


def premises_of(pattern: Pattern, implied: Sequence[Where]) -> Premises:
    """The premises of `pattern`. `implied` are the conditions from dimensions of parameters."""
    return premises_in(written_out(pattern), implied)


def premises_in(
    whole: WrittenOut, implied: Sequence[Where], *, of_operators: bool = False
) -> Premises:
    """
    The premises of a pattern that is written out. Calls by kind may be known to be `of_operators`.
    """
    pattern = whole.pattern
    found, names = required_calls(whole.pattern, whole.required)
    calls = found[:MOST_CALLS]
    flat = names.flat[:MOST_CALLS]
    said = [claim for call in (*calls, *flat) for claim in claims(call, ALL_RELATIONS)]
    paths = names.paths[:MOST_CALLS]
    said += path_claims(paths, of_operators=of_operators)
    said += [*number_claims(calls), *total_claims(flat), *taken_claims((*calls, *paths))]
    if not whole.count:
        said += use_claims(pattern, calls)
    conditions = islice(_conditions(whole, calls, names, implied), MOST_CONDITIONS)
    optional = [parameter.name for parameter in pattern.parameters if parameter.optional]
    given = (*optional, *sorted(whole.optional))
    there = tuple(names.same.get(name, name) for name in given if name in whole.required)
    used = may_be_there(pattern) if optional else frozenset()
    absent = tuple(name for name in optional if name not in used)
    lists = {name for call in calls if not call.call.kinds for _, name in lists_of(call)}
    return Premises(
        calls,
        tuple(said),
        tuple(conditions),
        there,
        whole.places,
        frozenset((*lists, *names.lists)),
        absent,
    )


def _conditions(
    written: WrittenOut, calls: Sequence[Called], names: Names, implied: Sequence[Where]
) -> Iterator[Condition]:
    """Conditions in the order of examination: attributes, dimensions, `where` statements."""
    known = {id(where) for where in implied}

    def condition(
        where: Where, expression: Expression, span: Span, *, at_call: bool = False
    ) -> Condition:
        said = written.said.get(id(where))
        kept = _of_elements(expression, calls)
        is_implied = said is not None or id(where) in known or kept != expression
        return Condition(kept, span, is_implied, size_of(kept), said, at_call)

    for call in calls:
        if not call.call.optional:
            for where in call.call.attributes:
                expression = _named(_numbered(where.condition, call), names, calls)
                if where.span is not None:
                    yield condition(where, expression, where.span, at_call=True)
    for where in written.pattern.conditions:
        expression = _named(where.condition, names, calls)
        if where.span is not None:
            yield condition(where, expression, where.span)


def _of_elements(expression: Expression, calls: Sequence[Called]) -> Expression:
    """
    `expression` without the parts that also hold for a list that has no elements; of these, only
    that there is a list.
    """
    match expression:
        case And(left, right):
            return And(_of_elements(left, calls), _of_elements(right, calls))
        case _ if _has_elements(expression, calls):
            return expression
        case Compare(_, Each(Attr(name))) | Within(Each(Attr(name))):
            return Has(name)
        case _:
            return Constant(True)


def _has_elements(expression: Expression, calls: Sequence[Called]) -> bool:
    """Whether no `name[*]` in it can be an empty list, of which every condition holds."""
    match expression:
        case Each(Attr(numbered)):
            number, _, name = numbered.partition(".")
            ops = next(call.call.ops for call in calls if str(call.number) == number)
            return bool(ops) and all(read_length(operators()[op], name) for op in ops)
        case _:
            return all(_has_elements(part, calls) for part in parts(expression))


def _numbered(expression: Expression, call: Called) -> Expression:
    """
    Put the number of `call` into attribute names, so that those of two calls differ, and the names
    of its values in place of those that patterns/kinds_of_calls.py gives.
    """
    match expression:
        case Attr(name):
            return call.attribute(name)
        case Shape() | Has():
            return renamed(expression, lambda name: named_in(name, call.result, call.operands))
        case _:
            return rebuilt(expression, partial(_numbered, call=call))


def _named(expression: Expression, names: Names, calls: Sequence[Called]) -> Expression:
    """
    `expression` with the names that represent its values, so that equal values have one name. An
    attribute of a call that is part of every match has the name that it has in that call.
    """
    if names.same:
        expression = renamed(expression, lambda name: names.same.get(name, name))
    return _with_attributes(expression, calls)


def _with_attributes(expression: Expression, calls: Sequence[Called]) -> Expression:
    if isinstance(expression, AttrOf):
        found = (c for c in calls if c.result == expression.of and not c.call.optional)
        return next((call.attribute(expression.name) for call in found), expression)
    return rebuilt(expression, partial(_with_attributes, calls=calls))


def size_of(expression: Expression) -> int:
    """The effort of assuming that `expression` holds."""
    match expression:
        case Constant(tuple() as choices):
            return 1 + len(choices) // 20
        case All(inner):  # it is assumed of several elements, each in a copy of what is known
            return 1 + 6 * size_of(inner)
        case _:
            return 1 + sum(map(size_of, parts(expression)))


def written_parts(
    expression: Expression, written: ast.Expression, by: Literal["and", "or"] = "and"
) -> Iterator[tuple[Expression, ast.Expression]]:
    """The parts that `expression` joins `by` this word, each as it is written."""
    match expression, written:
        case ((And(left, right) | Or(left, right)), ast.Operation(word, one, other)) if (
            word == by and one is not None
        ):
            yield from written_parts(left, one, by)
            yield from written_parts(right, other, by)
        case _:
            yield expression, written


def by_span(written: ast.Pattern) -> dict[tuple[int, int], ast.Expression]:
    """The written conditions by the start and end of their span."""
    found: dict[tuple[int, int], ast.Expression] = {}
    for statement in written.statements:
        match statement:
            case ast.Where(condition):
                found[condition.span.start, condition.span.end] = condition
            case ast.Binding(_, value):
                for condition in _attributes(value):
                    found[condition.span.start, condition.span.end] = condition
    return found


def _attributes(operand: ast.Operand) -> Iterator[ast.Expression]:
    match operand:
        case ast.OperatorCall():
            yield from operand.attributes
            for inner in operand.operands:
                yield from _attributes(inner)
