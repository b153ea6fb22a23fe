"""The operators that a call by kind may be of, in groups of which the same is known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.reasoning.values.subjects import typed
from collage_dsl.rules.condition import Compare, Expression, Has, Not, Shape, Where
from collage_dsl.rules.pattern import (
    Call,
    FieldOf,
    Flat,
    ListOf,
    Operand,
    Reference,
    TupleOf,
    TupleOfEach,
)

RESULT = "="
"""Stands for the name of the value of a call, in conditions that are added to it."""


def operand_at(at: int) -> str:
    """Stands for the name of the operand at the place `at`."""
    return f"{RESULT}{at}"


def named_in(name: str, result: str, operands: Sequence[str]) -> str:
    """The name that `name` stands for in a call with this result and these operands."""
    if not name.startswith(RESULT):
        return name
    at, dot, rest = name[1:].partition(".")
    return f"{operands[int(at)] if at else result}{dot}{rest}"


Alike = Callable[[str], object]
"""What is the same for operators of which the same is known."""


@cache
def of_kinds(ops: tuple[str, ...], kinds: tuple[Kind, ...], count: int) -> tuple[Operator, ...]:
    """
    The operators of some names or kinds that take `count` operands. Compiled functions, which may
    be of any kind, are left out: nothing is known of them.
    """
    return tuple(
        operator
        for operator in operators().values()
        if operator.operands is not None
        and (operator.name in ops or not operator.kinds.isdisjoint(kinds))
        and len(operator.operands) - operator.optional <= count <= len(operator.operands)
    )


def of_operators(call: Call, alike: Alike, values: Mapping[str, Operand]) -> Iterator[Call]:
    """
    The calls of operators that a call by kind may be, one for each group of operators that are
    `alike`. `values` are those of names.
    """
    operands = [_value(operand, values) for operand in call.operands]
    for ops, conditions in _groups(call.ops, call.kinds, len(call.operands), alike):
        if all(map(_may_take, operators()[ops[0]].takes, operands)):
            asked = tuple(Where(condition, span=call.span) for condition in conditions)
            yield replace(call, ops=ops, kinds=(), attributes=(*call.attributes, *asked))


def _value(operand: Operand, values: Mapping[str, Operand]) -> Operand:
    """What a name stands for, and what an optional call is where it is absent."""
    match operand:
        case Reference(name) if name in values:
            return _value(values[name], values)
        case Call(operands=(first, *_), optional=True):
            return _value(first, values)
        case _:
            return operand


def _may_take(takes: str, operand: Operand) -> bool:
    """Whether an operand may be what an operator takes there, as far as it is written."""
    if takes in ("list", "number"):
        return not isinstance(operand, Call | Flat | FieldOf | TupleOf | TupleOfEach)
    if isinstance(operand, TupleOf | TupleOfEach):
        return takes != "tensor"
    return not isinstance(operand, ListOf)


@cache
def _groups(
    ops: tuple[str, ...], kinds: tuple[Kind, ...], count: int, alike: Alike
) -> tuple[tuple[tuple[str, ...], tuple[Expression, ...]], ...]:
    """Groups of operators that take `count` operands, with what their kind says of a call."""
    found: dict[object, list[str]] = {}
    said: dict[object, tuple[Expression, ...]] = {}
    for operator in of_kinds(ops, kinds, count):
        of_kind = () if operator.name in ops else _of_kind(operator, kinds, count)
        conditions = (*of_kind, *_of_others(operator, count))
        key = (alike(operator.name), operator.takes, operator.gives, conditions)
        found.setdefault(key, []).append(operator.name)
        said[key] = conditions
    return tuple((tuple(names), said[key]) for key, names in found.items())


def _of_kind(operator: Operator, kinds: tuple[Kind, ...], count: int) -> Iterator[Expression]:
    """A broadcasting call is elementwise where all that it takes and gives has one shape."""
    if operator.kind is Kind.BROADCAST and Kind.BROADCAST not in kinds:
        for at, takes in enumerate(operator.takes[:count]):
            if takes == "tensor":
                yield Compare("==", Shape(RESULT), Shape(operand_at(at)))


def _of_others(operator: Operator, count: int) -> Iterator[Expression]:
    """What is no tensor, but a list, a number or a tuple, has no dtype and no dimensions."""
    for at, takes in enumerate(operator.takes[:count]):
        if takes in ("list", "number", "tuple"):
            yield Not(Has(typed(operand_at(at))))
