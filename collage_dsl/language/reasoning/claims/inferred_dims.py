"""Give inference the dimensions that are known, and find what dimensions of results are."""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from collage_dsl.graph import Dim
from collage_dsl.language.inference.shapes import UNKNOWN_DIM
from collage_dsl.language.reasoning.values.assuming import equate
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.language.reasoning.values.terms import Term, rank_of
from collage_dsl.rules.condition import Arithmetic, Calculate, Constant, DimAt, Expression

_MOST_DIMS = 64
"""
A shape or list that is longer is not inferred. No tensor has so many dimensions, but a pattern may
say that one has.
"""


@dataclass(slots=True)
class Dims:
    """The dimensions of values: their numbers, and names for those that are not known."""

    facts: Facts
    terms: list[Term] = field(default_factory=list)
    given: dict[Dim, DimAt] = field(default_factory=dict)
    """By a dimension of a result, one that has been found to be it."""

    def of(self, name: str) -> tuple[Dim, ...] | None:
        """The shape of a value, or the items of a list; None if the rank is not known, or high."""
        rank = self.facts.of(rank_of(name)).only()
        if not isinstance(rank, int) or rank > _MOST_DIMS:
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

    def equate(self, term: DimAt, dim: Dim) -> None:
        """Add that `term` is `dim`: what has the same dimension already is equal to it."""
        if dim in self.given:
            self.facts.equal(term, self.given[dim])
        elif (found := self.expression(dim)) is not None:
            equate(self.facts, term, found)
            self.given[dim] = term

    def expression(self, dim: Dim) -> Expression | None:
        """What a dimension is in terms of known values; None if that is not known."""
        if isinstance(dim, int):
            return Constant(dim)
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
