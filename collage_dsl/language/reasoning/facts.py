"""Derive what several conditions of a pattern together say about its values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import assert_never

from collage_dsl.language.reasoning.differences import Difference, Differences, Node, limits
from collage_dsl.language.reasoning.domain import (
    ANYTHING,
    NATURAL,
    TRUTH,
    Number,
    Values,
    between,
    calculated,
    is_number,
    is_whole,
    one_of,
    solved,
)
from collage_dsl.language.reasoning.linear import difference
from collage_dsl.language.reasoning.terms import Term, terms, without_none
from collage_dsl.rules.condition import (
    And,
    Attr,
    Bytes,
    Calculate,
    Compare,
    Comparison,
    Constant,
    DimAt,
    Dtype,
    Each,
    Expression,
    Has,
    Item,
    Max,
    Min,
    Near,
    Not,
    Or,
    Range,
    Rank,
    Shape,
    Size,
    Uses,
    Value,
    ValueOf,
    Within,
)
from collage_dsl.rules.contents import rounded

_MOST_FACTORS = 8
"""The elements of a value with more dimensions are not counted."""

MOST_WAYS = 32
"""Conditions with `or` are examined in at most this many ways; one that needs more is ignored."""

OPPOSITE: Mapping[Comparison, Comparison] = {
    "==": "!=",
    "!=": "==",
    "<": ">=",
    ">=": "<",
    ">": "<=",
    "<=": ">",
}
_MIRRORED: Mapping[Comparison, Comparison] = {
    "==": "==",
    "!=": "!=",
    "<": ">",
    ">=": "<=",
    ">": "<",
    "<=": ">=",
}


@dataclass(slots=True)
class Facts:
    """
    One way in which conditions can hold: the values that each term may have, which terms are
    equal, and which are known. (A condition on an unknown term does not hold.)

    `attributes` has the values that attributes may have before any condition.
    """

    attributes: Mapping[str, Values]
    values: dict[Term, Values] = field(default_factory=dict)
    same: dict[Term, Term] = field(default_factory=dict)
    shapes: dict[str, str] = field(default_factory=dict)
    """Names of values that have the shape of another one."""
    known: set[Term] = field(default_factory=set)
    differences: Differences = field(default_factory=Differences)
    """How numbers compare, and with what they are compared."""
    possible: bool = True
    is_related: bool = False
    """Whether what operators say (relations.py) has been applied to all that is known."""

    def copy(self) -> "Facts":
        """A copy that can be changed independently. `self` must be possible."""
        values, same, shapes = dict(self.values), dict(self.same), dict(self.shapes)
        known = set(self.known)
        differences = self.differences.copy()
        return Facts(
            self.attributes, values, same, shapes, known, differences, is_related=self.is_related
        )

    def of(self, term: Term) -> Values:
        return self.of_first(self.first(term))

    def of_first(self, term: Term) -> Values:
        return self.values.get(term) or self.before(term)

    def before(self, term: Term) -> Values:
        """The values that a term may have before any condition."""
        match term:
            case Rank() | DimAt() | Size() | Bytes() | Uses():
                return NATURAL
            case Has():
                return TRUTH
            case Attr(name):
                return self.attributes.get(name, ANYTHING)
            case Dtype() | Each() | Item() | ValueOf() | Min() | Max():
                return ANYTHING

    def first(self, term: Term) -> Term:
        """The term that represents all terms equal to this one."""
        term = self.from_the_front(self.of_shape(term))
        while (equal := self.same.get(term)) is not None:
            term = equal
        return term

    def of_shape(self, term: Term) -> Term:
        """The same fact about the value that represents all values of this shape."""
        if self.shapes and isinstance(term, Rank | DimAt | Size) and term.of in self.shapes:
            return replace(term, of=self.representative(term.of))
        return term

    def representative(self, name: str) -> str:
        """The value that represents all values with the shape of `name`."""
        while (other := self.shapes.get(name)) is not None:
            name = other
        return name

    def same_shape(self, left: str, right: str) -> None:
        """Add that two values have the same shape."""
        one, other = self.representative(left), self.representative(right)
        if one == other:
            return
        asked = {*self.values, *self.same, *self.same.values()}
        axes = {term.axis for term in asked if isinstance(term, DimAt) and term.of == other}
        self.equal(Rank(one), Rank(other))
        self.equal(Size(one), Size(other))
        for axis in sorted(axes):
            self.equal(DimAt(one, axis), DimAt(other, axis))
        self.shapes[other] = one
        self.is_related = False

    def count_elements(self, name: str) -> None:
        """Add the number of elements of a value if all its dimensions are known."""
        rank = self.of(Rank(name)).only()
        if not isinstance(rank, int) or rank > _MOST_FACTORS:
            return
        dims = [self.of(DimAt(name, axis)).only() for axis in range(rank)]
        known = [dim for dim in dims if isinstance(dim, int)]
        if len(known) == rank:
            self.narrow(Size(name), one_of((prod(known),)))

    def from_the_front(self, term: Term) -> Term:
        """
        Count the axis from the front if the rank is known: `dim(x, -1)` is `dim(x, 3)` at rank 4.

        Facts on `dim(x, -1)` from before the rank was known have to be added again.
        """
        if isinstance(term, DimAt) and term.axis < 0:
            rank = self.of(Rank(term.of)).only()
            if isinstance(rank, int):
                return DimAt(term.of, rank + term.axis)
        return term

    def may_be(self, expression: Expression, value: Value) -> bool:
        """
        Whether `expression` can be `value`: a quick test that may miss cases.

        It decides only terms whose value does not affect other terms.
        """
        if not isinstance(expression, Dtype | Attr) or _is_related(self.first(expression)):
            return False
        if isinstance(expression, Attr) and (value is not None) not in self.of(
            Has(expression.name)
        ):
            return False
        return value is None or value in self.of(expression)

    def narrow(self, term: Term, values: Values) -> None:
        first = self.first(term)
        before = self.of_first(first)
        met = before.meet(values)
        if met is not before:
            self.set(first, met)

    def set(self, first: Term, values: Values) -> None:
        """Store `values` for `first`, a term that represents itself."""
        self.values[first] = values
        self.possible &= not values.is_empty
        if first in self.differences and self.possible:
            self.differ(*limits(first, values))
        if _is_related(first):
            self.is_related = False

    def equal(self, left: Term, right: Term) -> None:
        one, other = self.first(left), self.first(right)
        if one != other:
            if _is_related(other) and not _is_related(one):
                one, other = other, one
            both = self.of_first(one).meet(self.of_first(other))
            self.values.pop(other, None)
            self.same[other] = one
            self.set(one, both)
            if one in self.differences or other in self.differences:
                self.differ(Difference(one, "==", other, 0))

    def differ(self, *differences: Difference) -> None:
        """Add comparisons of differences of numbers."""
        for each in differences:
            for node in (each.left, each.right):
                if node not in self.differences:
                    self.differences.start(node)
                    self.differ(*limits(node, _values(self, node)))
            self.possible &= self.differences.add(each)

    def whole(self, term: Term) -> Term | None:
        """The term that represents `term`; None if the values are not known to be whole numbers."""
        first = self.first(term)
        return first if is_whole(self.of_first(first)) else None

    def know(self, expression: Expression) -> None:
        """Record that all terms of `expression` are known."""
        for term in terms(expression):
            self.known.add(term)
            if isinstance(term, Has):
                continue
            if isinstance(term, Attr | Each | Item):
                name = term.name if isinstance(term, Attr) else term.attribute.name
                self.narrow(Has(name), one_of((True,)))
                continue
            self.narrow(Has(term.of), one_of((True,)))
            if isinstance(term, DimAt):
                least = term.axis + 1 if term.axis >= 0 else -term.axis
                self.narrow(Rank(term.of), between(least, inf))
            if isinstance(term, DimAt | Size | Bytes):
                self.known.add(Rank(term.of))
            if isinstance(term, Size):
                self.count_elements(term.of)
            if isinstance(term, Bytes):
                self.known |= {Size(term.of), Dtype(term.of)}


def _is_related(term: Term) -> bool:
    """
    Whether new facts on `term` let operators derive more.

    Such a term represents the terms equal to it.
    """
    if isinstance(term, Attr):
        return term.name.endswith(_RELATED_ATTRIBUTES)
    return isinstance(term, Rank | DimAt | Dtype)


_RELATED_ATTRIBUTES = ("axes", "axis", "groups", "keepdims", "layout", "pad_width")
"""The ends of the names of attributes from which operators derive more."""


def assume(
    ways: list[Facts], condition: Expression, *, holds: bool = True, most: int = MOST_WAYS
) -> list[Facts]:
    """
    The ways that remain possible if `condition` holds, or if not `holds`, is known to be false.

    `ways` are changed in place if there is only one alternative. Alternatives (of an `or`) are
    examined as long as there are at most `most` ways.
    """
    condition = without_none(condition)
    match condition:
        case Not(inner):
            return assume(ways, inner, holds=not holds, most=most)
        case And(left, right) if holds:
            return assume(assume(ways, left, most=most), right, most=most)
        case Or(left, right) if not holds:
            some = assume(ways, left, holds=False, most=most)
            return assume(some, right, holds=False, most=most)
        case And(left, right) | Or(left, right):
            if _alternatives(condition, holds) > most:
                return ways
            before = [way.copy() for way in ways]
            found = assume([way.copy() for way in ways], left, holds=holds, most=most)
            found += assume(ways, right, holds=holds, most=most)
            return found if len(found) <= most else before
        case Within(value, Range(least, greatest)) if holds or not isinstance(value, Each):
            above = Compare(">=", value, Constant(least))
            below = Compare("<=", value, Constant(greatest))
            return assume(ways, And(above, below), holds=holds, most=most)
        case _:
            for way in ways:
                _assume_one(way, condition, holds)
            return [way for way in ways if way.possible]


def _alternatives(condition: Expression, holds: bool) -> int:
    """The number of alternatives in which `condition` holds (or not), counted by `or` and `and`."""
    condition = without_none(condition)
    match condition:
        case Not(inner):
            return _alternatives(inner, not holds)
        case Or(left, right) if holds:
            return _alternatives(left, True) + _alternatives(right, True)
        case And(left, right) if not holds:
            return _alternatives(left, False) + _alternatives(right, False)
        case _:
            return 1


def _assume_one(way: Facts, condition: Expression, holds: bool) -> None:
    """Add to `way`, which is possible so far, that `condition` holds, or that it does not."""
    match condition:
        case Compare(_, Each()) | Within(Each()) if not holds:
            return
        case Compare(operator, left, right):
            way.know(condition)
            _compare(way, operator if holds else OPPOSITE[operator], left, right)
        case Within(value, Constant(tuple() as choices)):
            way.know(value)
            _narrow_to_choices(way, value, choices, holds)
        case Constant(value):
            way.possible = bool(value) is holds
        case Has():
            way.narrow(condition, one_of((holds,)))
        case Attr():
            way.know(condition)
            if way.of(condition).allowed is not None:
                way.narrow(condition, one_of((holds,)))
        case Within() | Near():
            way.know(condition)


def _narrow_to_choices(
    way: Facts, value: Expression, choices: tuple[Value, ...], holds: bool
) -> None:
    if isinstance(value, Shape):
        ranks = [len(choice) for choice in choices if isinstance(choice, tuple)]
        if holds:
            way.narrow(Rank(value.of), one_of(ranks))
    elif any(_is_rounded(Constant(choice), value) for choice in choices):
        return
    elif holds:
        _narrow(way, value, one_of(choices))
    else:
        _narrow(way, value, Values(excluded=frozenset(choices)))


def _compare(way: Facts, operator: Comparison, left: Expression, right: Expression) -> None:
    if isinstance(left, Shape) or isinstance(right, Shape):
        if operator == "==":
            _same_shape(way, left, right)
        elif _is_same_shape(way, left, right):
            way.possible = False
        return
    if _is_rounded(left, right) or _is_rounded(right, left):
        return
    _bound(way, operator, left, right)
    _bound(way, _MIRRORED[operator], right, left)
    if way.possible and (found := _difference(way, operator, left, right)):
        way.differ(found)
    if isinstance(left, _TERMS) and isinstance(right, _TERMS):
        if way.first(left) == way.first(right):
            way.possible &= operator in ("==", "<=", ">=")
        elif operator == "==":
            way.equal(left, right)


def _is_rounded(number: Expression, beside: Expression) -> bool:
    """Whether `number` may be rounded to the element type of the constant that it stands beside."""
    match number, beside:
        case Constant(float() as value), ValueOf() | Min() | Max():
            return any(rounded(value, dtype) != value for dtype in ("float16", "bfloat16"))
    return False


def _difference(
    way: Facts, operator: Comparison, left: Expression, right: Expression
) -> Difference | None:
    """
    What a comparison says of the difference of its sides, if that is not said otherwise: equal
    terms are made one, and the values of a term that is compared with a number are narrowed.
    """
    if isinstance(left, Calculate) or isinstance(right, Calculate):
        return difference(operator, left, right, way.whole)
    if operator == "==" or not isinstance(left, _TERMS) or not isinstance(right, _TERMS):
        return None
    is_whole = way.whole(left) is not None and way.whole(right) is not None
    if operator == "!=" and not is_whole:
        return None
    return Difference(way.first(left), operator, way.first(right), 0, is_whole)


_TERMS = (Attr, Dtype, Rank, DimAt, Size, Bytes, Uses, Item, ValueOf, Min, Max)


def _same_shape(way: Facts, left: Expression, right: Expression) -> None:
    match left, right:
        case (Shape(one), Shape(other)):
            way.same_shape(one, other)
        case (Shape(of), Constant(tuple() as dims)) | (Constant(tuple() as dims), Shape(of)):
            way.narrow(Rank(of), one_of((len(dims),)))
            for axis, dim in enumerate(dims):
                way.narrow(DimAt(of, axis), one_of((dim,)))


def _is_same_shape(way: Facts, left: Expression, right: Expression) -> bool:
    """Whether two shapes are known to be equal."""
    match left, right:
        case (Shape(one), Shape(other)):
            return way.representative(one) == way.representative(other)
        case (Shape(of), Constant(tuple() as dims)) | (Constant(tuple() as dims), Shape(of)):
            found = [way.of(DimAt(of, axis)).only() for axis in range(len(dims))]
            return way.of(Rank(of)).only() == len(dims) and found == list(dims)
    return False


def _bound(way: Facts, operator: Comparison, left: Expression, right: Expression) -> None:
    """Narrow the values of `left` by those of `right`."""
    values = _values(way, right)
    least, most = values.bounds()
    match operator:
        case "==":
            _narrow(way, left, values)
        case "!=":
            only = values.only()
            if only is not None:
                _narrow(way, left, Values(excluded=frozenset({only})))
        case "<=":
            _narrow(way, left, between(-inf, most))
        case ">=":
            _narrow(way, left, between(least, inf))
        case "<":
            _narrow(way, left, _without(between(-inf, most), most))
        case ">":
            _narrow(way, left, _without(between(least, inf), least))
        case _:
            assert_never(operator)


def _without(values: Values, end: Number) -> Values:
    return replace(values, excluded=frozenset({end}))


def _values(way: Facts, expression: Node) -> Values:
    """The values that `expression` may have."""
    match expression:
        case None:
            return one_of((0,))
        case Constant(value):
            return one_of((value,))
        case Attr() | Dtype() | Rank() | DimAt() | Size() | Bytes() | Uses() | Has():
            return way.of(expression)
        case Each(Attr()) | Item(Attr()) | ValueOf() | Min() | Max():
            return way.of(expression)
        case Calculate(operator, left, right):
            return calculated(operator, _values(way, left), _values(way, right))
        case _:
            return ANYTHING


def _narrow(way: Facts, expression: Expression, values: Values) -> None:
    """Narrow the terms of `expression`, given that its value is in `values`."""
    match expression:
        case Attr() | Dtype() | Rank() | DimAt() | Size() | Bytes() | Uses():
            way.narrow(expression, values)
        case Each(Attr()) | Item(Attr()) | ValueOf() | Min() | Max():
            way.narrow(expression, values)
        case Constant(value):
            way.possible &= value in values
        case Calculate(operator, left, right):
            result = _values(way, expression).meet(values)
            way.possible &= not result.is_empty
            match left, right:
                case (inner, Constant(number)) if is_number(number):
                    _narrow(way, inner, solved(operator, result, number))
                case (Constant(number), inner) if is_number(number) and operator in ("+", "*"):
                    _narrow(way, inner, solved(operator, result, number))
