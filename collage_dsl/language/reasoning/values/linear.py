"""Bring comparisons of whole numbers to the form `x - y <= 3`."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial, reduce
from itertools import permutations, product
from math import floor, gcd, inf

from collage_dsl.language.reasoning.values.differences import ZERO, Difference, Node
from collage_dsl.language.reasoning.values.domain import Number, is_infinite
from collage_dsl.language.reasoning.values.terms import Term, is_count, terms
from collage_dsl.rules.condition import (
    MIRRORED,
    Attr,
    Bytes,
    Calculate,
    Comparison,
    Constant,
    DimAt,
    Expression,
    Item,
    Rank,
    Size,
    Uses,
)

Named = Callable[[Term], Term | Constant | None]
"""
The number that a term is, else the term that represents it and its equals; None if their values are
not whole numbers.
"""

Bounds = Callable[[Node], tuple[Number, Number]]
"""The least and the greatest value that a node may have."""

_MOST_NODES = 4
"""Of a sum of more nodes, no two are compared."""


@dataclass(frozen=True, slots=True)
class Sum:
    """`2 * x - y + 3`: the factors of its nodes, none of them 0, and the number."""

    factors: Mapping[Expression, int]
    number: int = 0

    def plus(self, other: "Sum", times: int = 1) -> "Sum":
        if not other.factors:
            return Sum(self.factors, self.number + other.number * times)
        factors = dict(self.factors)
        for node, factor in other.factors.items():
            factors[node] = factors.get(node, 0) + factor * times
        left = {node: factor for node, factor in factors.items() if factor}
        return Sum(left, self.number + other.number * times)

    def times(self, factor: int) -> "Sum":
        return Sum({}).plus(self, factor)

    @property
    def is_plain(self) -> bool:
        """Whether it is a number, or one node or the difference of two and a number."""
        return len(self.factors) < 2 or (len(self.factors) == 2 and sum(self.factors.values()) == 0)

    def solved(self) -> tuple[Expression, Expression] | None:
        """
        If it is 0: one of its terms, and the sum of others that this equals. None if each counts
        more than once, or is part of a product or quotient too, or if the sum is plain, without
        products and quotients.
        """
        is_simple = self.is_plain and not any(isinstance(n, Calculate) for n in self.factors)
        for node, factor in () if is_simple else self.factors.items():
            if abs(factor) == 1 and not isinstance(node, Calculate):
                others = _written(self.plus(Sum({node: -factor})).times(-factor))
                if node not in set[Expression](terms(others)):
                    return node, others
        return None


@dataclass(frozen=True, slots=True)
class Linear:
    """What comparisons say of differences, by what is known of terms."""

    named: Named
    sums: Mapping[Expression, Expression]
    bounds: Bounds

    def differences(self, operator: Comparison, found: Sum) -> Iterator[Difference]:
        """
        `found operator 0` as a comparison of one difference with a number, and what follows from
        it: `m == 2 * k` says that `m >= k`, and `m == k / 2` that `k - 2 * m` is 0 or 1.
        """
        found = self.divided(found)
        yield from _compared(operator, found)
        if not found.is_plain or any(map(_divisor, found.factors)):
            for each in _at_least(operator, found):
                yield from self.following(each)

    def following(self, found: Sum) -> Iterator[Difference]:
        """What follows if `found` is at least 0."""
        quotient = next(filter(_divisor, found.factors), None)
        if quotient is not None:
            without = self.divided(self.multiplied(found, quotient))
            yield from _compared(">=", without)
            yield from self.following(without)
        if not found.is_plain and len(found.factors) <= _MOST_NODES:
            yield from self.pairs(found)

    def multiplied(self, found: Sum, quotient: Expression) -> Sum:
        """
        What is at least 0 if `found` is, without the quotient: `x / 4 >= y` says `x >= 4 * y`, and
        `x / 4 <= y` says `x <= 4 * y + 3`.
        """
        assert isinstance(quotient, Calculate), quotient
        inner, by = self.summed(quotient.left), _divisor(quotient)
        assert inner is not None, quotient
        factor = found.factors[quotient]
        rest = found.plus(Sum({quotient: -factor})).times(by).plus(inner, factor)
        return rest.plus(Sum({}, max(0, -factor) * (by - 1)))

    def pairs(self, found: Sum) -> Iterator[Difference]:
        """
        What follows for the differences of two nodes if `found` is at least 0, by the greatest
        value of the rest of it.
        """
        for (one, factor), (other, opposite) in permutations(found.factors.items(), 2):
            if factor > 0 > opposite:
                times = min(factor, -opposite)
                most = self.most(found.plus(Sum({one: -times, other: times})))
                if most < inf:
                    yield Difference(one, ">=", other, -(floor(most) // times))

    def most(self, found: Sum) -> Number:
        """The greatest value that `found` may have."""
        most: Number = found.number
        for node, factor in found.factors.items():
            end = self.bounds(node)[factor > 0]
            if is_infinite(end):
                return inf
            most += factor * end
        return most

    def divided(self, found: Sum) -> Sum:
        """`found`, divided by what all of it is a multiple of, if that is above 0."""
        if found.number or not any(isinstance(node, Calculate) for node in found.factors):
            return found
        nodes = {node: _parts(node) for node in found.factors}
        first, *others = nodes.values()
        for part in first:
            if all(part in each for each in others) and self.bounds(part)[0] >= 1:
                left = Sum({})
                for node, factor in found.factors.items():
                    rest = list(nodes[node])
                    rest.remove(part)
                    left = left.plus(_product(rest), factor)
                return self.divided(left)
        return found

    def summed(
        self, expression: Expression, inside: frozenset[Expression] = frozenset()
    ) -> Sum | None:
        """
        `expression` as a sum; None if it is not always a whole number. It is part of the sums that
        the terms `inside` equal.
        """
        match expression:
            case Constant(int() as number) if not isinstance(number, bool):
                return Sum({}, number)
            case Attr() | Item() | Rank() | DimAt() | Size() | Bytes() | Uses():
                known = self.named(expression)
                if known is None or isinstance(known, Constant):
                    return None if known is None else self.summed(known)
                if known in self.sums and known not in inside:
                    return self.summed(self.sums[known], inside | {known})
                return Sum({known: 1})
            case Calculate(operator, left, right):
                one, other = self.summed(left, inside), self.summed(right, inside)
                if one is None or other is None:
                    return None
                if operator == "%" and self.is_multiple(one, other):
                    return Sum({})
                if operator == "%" and (rest := _rest_of_multiples(one, other)) is not None:
                    return Sum({}, rest)
                found = _calculated(operator, one, other, expression)
                return self.with_remainders(found, inside) if operator == "*" else found
            case _:
                return None

    def with_remainders(self, found: Sum, inside: frozenset[Expression]) -> Sum:
        """`found` with `x - x % 4` in place of `x / 4 * 4`."""
        for node, factor in found.factors.items():
            by = _divisor(node)
            if by and factor % by == 0:
                assert isinstance(node, Calculate), node
                inner = self.summed(node.left, inside)
                assert inner is not None, node
                rest = Calculate("%", node.left, node.right)
                whole = inner.plus(Sum({rest: 1}), -1).times(factor // by)
                found = found.plus(Sum({node: -factor})).plus(whole)
        return found

    def is_multiple(self, one: Sum, other: Sum) -> bool:
        """Whether each part of a sum is a multiple of the node above 0 that `other` is."""
        if one.number or other.number or list(other.factors.values()) != [1]:
            return False
        (node,) = other.factors
        by = Counter(_parts(node))
        is_above = all(self.bounds(part)[0] >= 1 for part in by)
        return is_above and all(by <= Counter(_parts(each)) for each in one.factors)


def _rest_of_multiples(one: Sum, other: Sum) -> int | None:
    """What a sum leaves when it is divided by a number, of which each node is a multiple."""
    if other.factors or other.number <= 0 or any(f % other.number for f in one.factors.values()):
        return None
    return one.number % other.number


def _calculated(operator: str, one: Sum, other: Sum, expression: Expression) -> Sum:
    match operator:
        case "+":
            return one.plus(other)
        case "-":
            return one.plus(other, -1)
        case "*" if not other.factors:
            return one.times(other.number)
        case "*" if not one.factors:
            return other.times(one.number)
        case "*" if len(one.factors) * len(other.factors) <= _MOST_NODES:
            both = one.times(other.number).plus(Sum(other.factors), one.number)
            for (node, factor), (by, times) in product(one.factors.items(), other.factors.items()):
                both = both.plus(_product([*_parts(node), *_parts(by)]), factor * times)
            return both
        case "/" if not other.factors and other.number > 0 and is_count(expression):
            if not any(factor % other.number for factor in one.factors.values()):
                quotients = {n: factor // other.number for n, factor in one.factors.items()}
                return Sum(quotients, one.number // other.number)
            return Sum({Calculate("/", _written(one), Constant(other.number)): 1})
        case _:
            return Sum({expression: 1})


def _divisor(node: Expression) -> int:
    """The number that divides in a quotient of whole numbers; 0 if `node` is none."""
    match node:
        case Calculate("/", _, Constant(int() as number)) if number > 0 and is_count(node):
            return number
        case _:
            return 0


def _parts(node: Expression) -> list[Expression]:
    """The factors of a product."""
    match node:
        case Calculate("*", left, right):
            return [*_parts(left), *_parts(right)]
        case _:
            return [node]


def _product(nodes: list[Expression]) -> Sum:
    """The product of nodes, as one node that is the same for each order."""
    if not nodes:
        return Sum({}, 1)
    return Sum({reduce(partial(Calculate, "*"), sorted(nodes, key=_place)): 1})


def _written(found: Sum) -> Expression:
    """`found` as an expression that is the same for each order of its nodes."""
    each = [
        node if factor == 1 else Calculate("*", node, Constant(factor))
        for node, factor in sorted(found.factors.items(), key=_at_node)
    ]
    if found.number:
        each.append(Constant(found.number))
    return reduce(partial(Calculate, "+"), each)


@lru_cache(1024)
def _place(node: Expression) -> str:
    """What orders nodes in the same way in each run."""
    return str(node)


def _at_node(factor: tuple[Expression, int]) -> str:
    return _place(factor[0])


def _at_least(operator: Comparison, found: Sum) -> Iterator[Sum]:
    """What is at least 0 if `found operator 0`."""
    if operator in (">=", ">", "=="):
        yield found.plus(Sum({}, -1 if operator == ">" else 0))
    if operator in ("<=", "<", "=="):
        yield found.times(-1).plus(Sum({}, -1 if operator == "<" else 0))


def _compared(operator: Comparison, found: Sum) -> Iterator[Difference]:
    """`found operator 0`, as a comparison of a difference, or of one node for the whole sum."""
    match [*found.factors.items()]:
        case []:
            yield Difference(ZERO, operator, ZERO, -found.number)
        case [(node, factor)] if factor < 0:
            yield from _compared(MIRRORED[operator], found.times(-1))
        case [(node, factor)]:
            yield from _divided(Difference(node, operator, ZERO, -found.number), factor)
        case [(node, factor), (other, opposite)] if factor == -opposite:
            yield from _divided(Difference(node, operator, other, -found.number), factor)
        case _ if operator == "==" and found.solved():
            return  # It is kept what a term equals.
        case factors:
            common = gcd(*(factor for _, factor in factors))
            common = common if min(factors, key=_at_node)[1] > 0 else -common
            node = _written(Sum({node: factor // common for node, factor in factors}))
            yield from _divided(Difference(node, operator, ZERO, -found.number), common)


def _divided(multiple: Difference, factor: int) -> Iterator[Difference]:
    """`multiple` says something of its difference times `factor`; the result, of the difference."""
    if factor < 0:
        yield from _divided(replace(multiple, left=multiple.right, right=multiple.left), -factor)
        return
    number, rest = divmod(multiple.number, factor)
    match multiple.operator:
        case "==" if rest:
            yield Difference(ZERO, "==", ZERO, 1)  # never
            return
        case "!=" if rest:
            return
        case "<" | ">=" if rest:
            number += 1
    yield replace(multiple, number=number)
