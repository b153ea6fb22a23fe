"""Bring comparisons of whole numbers to the form `x - y <= 3`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf

from collage_dsl.language.reasoning.differences import ZERO, Difference, Node
from collage_dsl.language.reasoning.terms import Term
from collage_dsl.rules.condition import (
    MIRRORED,
    Attr,
    Bytes,
    Calculate,
    Comparison,
    Constant,
    DimAt,
    Expression,
    Rank,
    Size,
    Uses,
)

Named = Callable[[Term], Term | None]
"""The term that represents a term and its equals; None if their values are not whole numbers."""


_Times = tuple[Node, int]
"""A node, and how many times it counts."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """`2 * x - y + 3`: the factors of its nodes, and the number."""

    factors: Mapping[Node, int]
    number: int = 0

    def plus(self, other: "_Sum") -> "_Sum":
        factors = dict(self.factors)
        for node, factor in other.factors.items():
            factors[node] = factors.get(node, 0) + factor
        return _Sum(factors, self.number + other.number)

    def times(self, factor: int) -> "_Sum":
        return _Sum({n: each * factor for n, each in self.factors.items()}, self.number * factor)


Least = Callable[[Node], float]
"""The least value that a node may have."""


def difference(
    operator: Comparison, left: Expression, right: Expression, named: Named, least: Least
) -> Difference | None:
    """
    `left operator right` as a comparison of one difference with a number, or what follows for one
    difference: `m == 2 * k` says that `m >= k`. None if there is none.
    """
    found = _sum(Calculate("-", left, right), named)
    if found is None:
        return None
    match [(node, factor) for node, factor in found.factors.items() if factor]:
        case []:
            return Difference(ZERO, operator, ZERO, -found.number)
        case [(node, factor)] if not isinstance(node, Calculate):
            return _divided(Difference(node, operator, ZERO, -found.number), factor)
        case [(node, factor), (other, opposite)] if factor == -opposite:
            return _divided(Difference(node, operator, other, -found.number), factor)
        case [(node, factor), (other, opposite)] if factor * opposite < 0:
            if factor > 0:
                ends = (node, factor), (other, -opposite)
                return _weaker(operator, *ends, -found.number, least)
            ends = (node, -factor), (other, opposite)
            return _weaker(MIRRORED[operator], *ends, found.number, least)
        case _:
            return None


def _weaker(
    operator: Comparison, one: _Times, other: _Times, number: int, least: Least
) -> Difference | None:
    """
    What `p * x - q * y operator number` says of `x - y`: `one` is `x` and `p`, `other` `y` and `q`.

    Where `q` is greater, `q * y` is `p * y` and at least `q - p` times the least `y` more.
    """
    (x, p), (y, q) = one, other
    if p > q:
        return _weaker(MIRRORED[operator], other, one, -number, least)
    low = least(y)
    if operator not in ("==", ">=", ">") or not 0 <= low < inf:
        return None
    number += (q - p) * ceil(low) + (operator == ">")
    return Difference(x, ">=", y, -(-number // p))


def _sum(expression: Expression, named: Named) -> _Sum | None:
    """`expression` as a sum; None if it is not always a whole number."""
    match expression:
        case Constant(int() as number) if not isinstance(number, bool):
            return _Sum({}, number)
        case Attr() | Rank() | DimAt() | Size() | Bytes() | Uses():
            node = named(expression)
            return None if node is None else _Sum({node: 1})
        case Calculate(operator, left, right):
            one, other = _sum(left, named), _sum(right, named)
            if one is None or other is None:
                return None
            match operator:
                case "+":
                    return one.plus(other)
                case "-":
                    return one.plus(other.times(-1))
                case "*" if not other.factors:
                    return one.times(other.number)
                case "*" if not one.factors:
                    return other.times(one.number)
                case _:
                    return _Sum({expression: 1})
        case _:
            return None


def _divided(multiple: Difference, factor: int) -> Difference | None:
    """`multiple` says something of its difference times `factor`; the result, of the difference."""
    if factor < 0:
        return _divided(replace(multiple, left=multiple.right, right=multiple.left), -factor)
    number, rest = divmod(multiple.number, factor)
    match multiple.operator:
        case "==" if rest:
            return Difference(ZERO, "==", ZERO, 1)  # never
        case "!=" if rest:
            return None
        case "<" | ">=" if rest:
            number += 1
    return replace(multiple, number=number)
