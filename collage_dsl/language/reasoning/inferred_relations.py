"""What the inference of graphs says of a call, as far as its operands are known."""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collage_dsl.graph import Attribute, Dim, OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.infer import has_rule, infer
from collage_dsl.language.inference.shapes import UNKNOWN_DIM, Call, MismatchError
from collage_dsl.language.reasoning.assuming import equate
from collage_dsl.language.reasoning.domain import one_of
from collage_dsl.language.reasoning.facts import Facts
from collage_dsl.language.reasoning.list_relations import lists_of
from collage_dsl.language.reasoning.relations import Relation
from collage_dsl.language.reasoning.required_calls import Called
from collage_dsl.language.reasoning.terms import Term
from collage_dsl.rules.condition import (
    Arithmetic,
    Calculate,
    Constant,
    DimAt,
    Expression,
    Has,
    Rank,
)
from collage_dsl.rules.pattern import Number, Operand

_UNKNOWN = "unknown"

_ALL_DIMS = frozenset({"squeeze"})
"""Operators of which the rule takes a dimension that is not known to be a symbolic one."""

_NOT_OF_SHAPES = frozenset({"dtype", "out_dtype", "ret_type"})
"""Attributes that say nothing of a shape, or of the shapes in a tuple."""


_COUNTS = frozenset({"groups", "num_groups"})
"""Attributes without which a shape can be inferred, although not all that they refuse is."""


_NAME = re.compile(r"\bd[0-9]+\b")
"""A name of `_Dims`, which no user knows."""


class _UnknownError(Exception):
    """Something that the type of a call depends on is not known."""


def inferred_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    if len(ops) == 1 and has_rule(ops[0]):
        yield Relation("{op} gives the shape that follows from what it takes", again=_inferred)


def _inferred(called: Called, facts: Facts) -> None:
    dims = _Dims(facts)
    lists = {name for _, name in lists_of(called)}
    types = [_type_of(called, name, dims, name in lists) for name in called.operands]
    numbers = {name: _number(operand) for name, operand in _operands(called)}
    is_any_known = bool(lists) or any(map(_is_known, types)) or any(numbers.values())
    if not is_any_known or any(map(_is_missing, operators()[called.call.ops[0]].takes, types)):
        return
    if dims.terms and called.call.ops[0] in _ALL_DIMS:
        return
    values = [dims.of(name) if name in lists else numbers[name] for name in called.operands]
    attributes = _Attributes(called, facts)
    try:
        found = infer(Call(called.call.ops[0], tuple(types), tuple(values), attributes))
    except _UnknownError:
        return
    except MismatchError as problem:
        facts.possible = False
        if not _NAME.search(str(problem)):
            facts.mismatch = f"in `{called.call.ops[0]}`, {problem}"
        return
    if isinstance(found, TupleType):
        named = called.names.fields.get(called.result, {})
        results = [(named[at], each) for at, each in enumerate(found.fields) if at in named]
    else:
        results = [(called.result, found)]
    for name, type_ in results:
        if isinstance(type_, TensorType) and type_.shape is not None and facts.possible:
            _has_shape(facts, name, type_.shape, dims)
            if not facts.possible and not dims.terms:
                facts.mismatch = f"`{called.call.ops[0]}` gives the shape {list(type_.shape)} here"


def _operands(called: Called) -> Iterator[tuple[str, Operand]]:
    return zip(called.operands, called.call.operands, strict=True)


def _number(operand: Operand) -> int | None:
    """The whole number that the pattern writes for an operand."""
    match operand:
        case Number(value, tolerance=0.0) if value.is_integer():
            return int(value)
        case _:
            return None


def _is_missing(takes: str | None, type_: Type) -> bool:
    """Whether nothing is known of the tuple that an operand is."""
    return takes == "tuple" and not isinstance(type_, TupleType)


def _type_of(called: Called, name: str, dims: "_Dims", is_list: bool) -> Type:
    if is_list:
        return OpaqueType("shape")
    if parts := called.names.tuples.get(name):
        return TupleType(tuple(_tensor(each, dims) for each in parts))
    return _tensor(name, dims)


def _tensor(name: str, dims: "_Dims") -> TensorType:
    return TensorType(_UNKNOWN, dims.of(name))


def _is_known(type_: Type) -> bool:
    fields: Sequence[Type] = type_.fields if isinstance(type_, TupleType) else (type_,)
    return any(isinstance(each, TensorType) and each.shape is not None for each in fields)


def _has_shape(facts: Facts, name: str, shape: Sequence[Dim], dims: "_Dims") -> None:
    facts.narrow(Rank(name), one_of((len(shape),)))
    for axis, dim in enumerate(shape):
        if not facts.possible:
            return
        if isinstance(dim, int):
            facts.narrow(DimAt(name, axis), one_of((dim,)))
        elif (found := dims.expression(dim)) is not None:
            equate(facts, DimAt(name, axis), found)


@dataclass(slots=True)
class _Dims:
    """The dimensions of values: their numbers, and names for those that are not known."""

    facts: Facts
    terms: list[Term] = field(default_factory=list)

    def of(self, name: str) -> tuple[Dim, ...] | None:
        """The shape of a value, or the items of a list; None if the rank is not known."""
        rank = self.facts.of(Rank(name)).only()
        if not isinstance(rank, int):
            return None
        return tuple(self._dim(DimAt(name, axis)) for axis in range(rank))

    def _dim(self, term: DimAt) -> Dim:
        only = self.facts.of(term).only()
        if isinstance(only, int):
            return only
        first = self.facts.first(term)
        if first not in self.terms:
            self.terms.append(first)
        return f"d{self.terms.index(first)}"

    def expression(self, dim: str) -> Expression | None:
        """What a dimension of a result is in terms of known values; None if that is not known."""
        return None if dim == UNKNOWN_DIM else self._parsed(ast.parse(dim, mode="eval").body)

    def _parsed(self, node: ast.expr) -> Expression | None:
        match node:
            case ast.Name(name):
                return self.terms[int(name[1:])]
            case ast.Constant(int() as number):
                return Constant(number)
            case ast.BinOp(left, operator, right):
                one, other = self._parsed(left), self._parsed(right)
                known = _OPERATORS.get(type(operator))
                if one is None or other is None or known is None:
                    return None
                return Calculate(known, one, other)
            case _:
                return None


_OPERATORS: Mapping[type[ast.operator], Arithmetic] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "/",
}
"""A division of whole numbers drops the remainder in conditions too."""


class _Attributes(Mapping[str, Attribute]):
    """The attributes of a call. One that is read and not known raises `_UnknownError`."""

    def __init__(self, called: Called, facts: Facts) -> None:
        self._called = called
        self._facts = facts

    def __getitem__(self, name: str) -> Attribute:
        if name not in operators()[self._called.call.ops[0]].attrs:
            raise KeyError(name)
        attribute = self._called.attribute(name)
        if self._facts.of(Has(attribute.name)).only() is False:
            return None
        value = self._facts.of(attribute).only()
        if value is not None:
            return value
        if name in _NOT_OF_SHAPES:
            return _UNKNOWN
        if name in _COUNTS:
            return None
        raise _UnknownError(name)

    def __iter__(self) -> Iterator[str]:
        raise _UnknownError

    def __len__(self) -> int:
        raise _UnknownError
