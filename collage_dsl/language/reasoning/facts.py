"""What is known of the values of a pattern, in one way in which its conditions can hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd, inf, prod

from collage_dsl.language.reasoning.differences import Difference, Differences, Node, limits
from collage_dsl.language.reasoning.domain import (
    ANYTHING,
    NATURAL,
    TRUTH,
    WHOLE,
    Number,
    Values,
    between,
    calculated,
    divided_by,
    element_of,
    has_element,
    is_infinite,
    is_whole,
    one_of,
)
from collage_dsl.language.reasoning.numbers import of_dtypes, widths_of
from collage_dsl.language.reasoning.terms import Term, terms
from collage_dsl.rules.condition import (
    Attr,
    Bytes,
    Calculate,
    Constant,
    DimAt,
    Dtype,
    Each,
    Expression,
    Has,
    Item,
    Max,
    Min,
    Rank,
    Size,
    Uses,
    Value,
    ValueOf,
)

_OF_SHAPE = (Rank, DimAt, Size)
"""Terms that are about the shape of a value."""

_ELEMENTS = (ValueOf, Min, Max)
"""Terms that are about the elements of a constant."""

_RELATED = (Attr, Each, Item, Has, Rank, DimAt, Dtype)
"""Terms of which new facts let operators derive more."""

_MOST_FACTORS = 8
"""The elements of a value with more dimensions are not counted."""


@dataclass(slots=True)
class Facts:
    """
    One way in which conditions can hold: the values that each term may have, which terms are
    equal, and which are known. (A condition on an unknown term does not hold.)

    `attributes` has the values that attributes may have before any condition, and under a name such
    as `0.strides[*]` those of each number of a list.
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
    lists: frozenset[str] = frozenset()
    """Names of lists, whose items may be negative."""
    is_related: bool = False
    """Whether what operators say (relations.py) has been applied to all that is known."""
    changes: int = 0
    """How often the values of a term, or what is equal, have changed."""
    mismatch: str = ""
    """Why a call does not take what it is given, if that is why this way is not possible."""

    def copy(self) -> "Facts":
        """A copy that can be changed independently. `self` must be possible."""
        values, same, shapes = dict(self.values), dict(self.same), dict(self.shapes)
        known = set(self.known)
        differences = self.differences.copy()
        return Facts(
            *(self.attributes, values, same, shapes, known, differences),
            lists=self.lists,
            is_related=self.is_related,
        )

    def of(self, term: Term) -> Values:
        return self.of_first(self.first(term))

    def of_first(self, term: Term) -> Values:
        values = self.values.get(term) or self.before(term)
        if isinstance(term, _ELEMENTS):
            return values.meet(of_dtypes(self.of(Dtype(term.of)).allowed))
        if isinstance(term, Item) and isinstance(term.attribute, Attr):
            return values.meet(self.of_elements(term.attribute, term.index))
        return values

    def of_elements(self, attribute: Attr, index: int) -> Values:
        """What the lists that an attribute may be, and all its elements, leave for one element."""
        elements, lists = self.of(Each(attribute)), self.of(attribute).allowed
        if not lists:
            return elements
        return elements.meet(one_of(element_of(each, index) for each in lists))

    def before(self, term: Term) -> Values:
        """The values that a term may have before any condition."""
        match term:
            case DimAt(of) if of in self.lists:
                return WHOLE
            case Rank() | DimAt() | Size() | Bytes() | Uses():
                return NATURAL
            case Has():
                return TRUTH
            case Attr(name):
                return self.attributes.get(name, ANYTHING)
            case Each(Attr(name)) | Item(Attr(name)):
                return self.attributes.get(f"{name}[*]", ANYTHING)
            case Dtype() | Each() | Item() | ValueOf() | Min() | Max():
                return ANYTHING

    def first(self, term: Term) -> Term:
        """The term that represents all terms equal to this one."""
        if isinstance(term, _OF_SHAPE):
            term = self.from_the_front(self.of_shape(term))
        while (equal := self.same.get(term)) is not None:
            term = equal
        return term

    def of_shape(self, term: Rank | DimAt | Size) -> Rank | DimAt | Size:
        """The same fact about the value that represents all values of this shape."""
        if term.of in self.shapes:
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
        self.changes += 1
        self.is_related = False

    def asked_axes(self, names: Iterable[str]) -> list[int]:
        """The axes of values of which anything was asked or is known, in order."""
        of = {self.representative(name) for name in names}
        dims = (term for term in (*self.known, *self.values, *self.same) if isinstance(term, DimAt))
        return sorted({dim.axis for dim in dims if self.representative(dim.of) in of})

    def count_elements(self, name: str) -> None:
        """
        Add the number of elements of a value if all its dimensions are known, or that it is a
        multiple of those that are.
        """
        rank = self.of(Rank(name)).only()
        if not isinstance(rank, int) or rank > _MOST_FACTORS:
            for axis in self.asked_axes((name,)):
                dim = self.of(DimAt(name, axis)).only()
                if isinstance(dim, int) and dim > 0 and self.possible:
                    self.narrow(Size(name), divided_by(dim, 0))
            return
        dims = [self.of(DimAt(name, axis)).only() for axis in range(rank)]
        known = prod(dim for dim in dims if isinstance(dim, int))
        left = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int)]
        if not left:
            self.narrow(Size(name), one_of((known,)))
        elif known > 0:
            self.narrow(Size(name), divided_by(known, 0))
            size = self.of(Size(name)).only()
            if len(left) == 1 and isinstance(size, int) and self.possible:
                self.narrow(DimAt(name, left[0]), one_of((size // known,)))

    def count_bytes(self, name: str) -> None:
        """Add that the bytes of a value are those of its elements, each as wide as its dtype."""
        widths = widths_of(self.of(Dtype(name)))
        if not widths or not self.possible:
            return
        narrow, wide = min(widths), max(widths)
        least, most = self.of(Bytes(name)).bounds()
        self.narrow(Size(name), between((least - 1) * 8 // wide + 1, _floor(most * 8, narrow)))
        least, most = self.of(Size(name)).bounds()
        self.narrow(Bytes(name), between(least * narrow // 8, -_floor(-most * wide, 8)))
        size = self.of(Size(name)).only()
        if isinstance(size, int):
            self.narrow(Bytes(name), one_of({-(-size * width // 8) for width in widths}))
        elif (common := gcd(*widths)) % 8 == 0:
            self.narrow(Bytes(name), divided_by(common // 8, 0))

    def order_elements(self, term: Min | Max | ValueOf) -> None:
        """Add how the least and the greatest element of a constant compare: it has elements."""
        least, most = Min(term.of), Max(term.of)
        self.count_elements(term.of)
        if isinstance(term, ValueOf):
            self.equal(least, term)
            self.equal(most, term)
        elif self.of(Size(term.of)).only() == 1:
            self.equal(least, most)
        elif self.possible:
            first, last = self.first(least), self.first(most)
            self.differ(Difference(first, "<=", last, 0, is_whole=False))

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
        elif met.is_empty:
            self.possible = False

    def set(self, first: Term, values: Values) -> None:
        """Store `values` for `first`, a term that represents itself."""
        self.changes += 1
        self.values[first] = values
        self.possible &= not values.is_empty
        if first in self.differences and self.possible:
            self.differ(*limits(first, values))
        match first:
            case (Attr() as attribute) | Each(Attr() as attribute) if self.possible:
                self.match_elements(attribute)
            case Item(Attr() as attribute, index) if self.possible:
                self.match_element(attribute, index)
        if _is_related(first):
            self.is_related = False

    def match_elements(self, attribute: Attr) -> None:
        """
        Take out the lists of `attribute` with elements that `attribute[*]` or `attribute[0]` cannot
        have.
        """
        first, elements = self.first(attribute), self.of_first(Each(attribute))
        lists = self.of_first(first).allowed
        if lists is None:
            return
        left = [v for v in lists if not isinstance(v, tuple) or all(e in elements for e in v)]
        if len(left) < len(lists):
            self.set(first, self.of_first(first).meet(one_of(left)))
        for term in [term for term in self.values if isinstance(term, Item)]:
            if term.attribute == attribute and self.possible:
                self.match_element(attribute, term.index)

    def match_element(self, attribute: Attr, index: int) -> None:
        """Take out the lists of `attribute` whose element `index` is none that it can be."""
        first, allowed = self.first(attribute), self.of(Item(attribute, index))
        lists = self.of_first(first).allowed
        if lists is None:
            return
        left = [value for value in lists if has_element(value, index, allowed)]
        if len(left) < len(lists):
            self.set(first, self.of_first(first).meet(one_of(left)))

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
                    self.differ(*limits(node, values_of(self, node)))
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
            if (has_type := Has(typed(term.of))) in self.values and not isinstance(term, Uses):
                self.narrow(has_type, one_of((True,)))
            if isinstance(term, DimAt):
                self.narrow(Rank(term.of), with_axis(term.axis))
            if isinstance(term, DimAt | Size | Bytes):
                self.known.add(Rank(term.of))
            if isinstance(term, _ELEMENTS):
                self.order_elements(term)
            if isinstance(term, Size):
                self.count_elements(term.of)
            if isinstance(term, Bytes):
                self.known |= {Size(term.of), Dtype(term.of)}
                self.count_elements(term.of)
                self.count_bytes(term.of)


def with_axis(axis: int) -> Values:
    """The ranks of values that have an axis."""
    return between(axis + 1 if axis >= 0 else -axis, inf)


def typed(name: str) -> str:
    """The name of whether a value is a tensor, which has a dtype and a shape."""
    return f"{name}.type"


def _floor(number: Number, by: int) -> Number:
    return number if is_infinite(number) else number // by


def _is_related(term: Term) -> bool:
    """
    Whether new facts on `term` let operators derive more.

    Such a term represents the terms equal to it.
    """
    return isinstance(term, _RELATED)


def values_of(way: Facts, expression: Node) -> Values:
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
        case Calculate("-", Max(of) as most, Min(other) as least) if of == other:
            span = 0 if way.first(most) == way.first(least) else inf
            return calculated("-", way.of(most), way.of(least)).meet(between(0, span))
        case Calculate("*", left, right) if left == right:
            squared = values_of(way, left)
            return calculated("*", squared, squared).meet(between(0, inf))
        case Calculate(operator, left, right):
            return calculated(operator, values_of(way, left), values_of(way, right))
        case _:
            return ANYTHING
