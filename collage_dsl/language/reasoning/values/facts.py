"""What is known of the values of a pattern, in one way in which its conditions can hold."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from math import inf

from collage_dsl.language.reasoning.values.arithmetic import calculated, quotient, rounded_down
from collage_dsl.language.reasoning.values.differences import (
    ZERO,
    Difference,
    Differences,
    Node,
    limits,
)
from collage_dsl.language.reasoning.values.domain import (
    ANYTHING,
    NATURAL,
    TRUTH,
    WHOLE,
    Values,
    between,
    element_of,
    has_element,
    is_whole,
    one_of,
)
from collage_dsl.language.reasoning.values.numbers import elements
from collage_dsl.language.reasoning.values.subjects import subject_of
from collage_dsl.language.reasoning.values.terms import (
    Term,
    comes_first,
    drops_remainder,
    rank_of,
    terms,
)
from collage_dsl.rules.condition import (
    Attr,
    Bytes,
    Calculate,
    Constant,
    DimAt,
    Dtype,
    Each,
    Element,
    Expression,
    Has,
    Item,
    Max,
    Min,
    Place,
    Rank,
    Size,
    Uses,
    ValueOf,
)

_OF_SHAPE = (Rank, DimAt, Size)
"""Terms that are about the shape of a value."""

ELEMENTS = (ValueOf, Min, Max)
"""Terms that are about the elements of a constant."""

_DERIVED = frozenset({*ELEMENTS, Item})
"""Terms whose values depend on those of others."""

_BEFORE = {Dtype: ANYTHING, Rank: NATURAL, Bytes: NATURAL, Uses: NATURAL, Has: TRUTH}
"""The values of terms before any condition, where these are the same in all patterns."""


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
    also_of: dict[Term | str, frozenset[str]] = field(default_factory=dict)
    """The subjects of the terms that a term represents, and of values with the shape of a value."""
    known: set[Term] = field(default_factory=set)
    differences: Differences = field(default_factory=Differences)
    """How numbers compare, and with what they are compared."""
    wholes: dict[str, str] = field(default_factory=dict)
    """By value, one with the same dimensions, but for some of which the value has 1."""
    sums: dict[Expression, Expression] = field(default_factory=dict)
    """Sums that terms equal."""
    possible: bool = True
    lists: frozenset[str] = frozenset()
    """Names of lists, whose items may be negative."""
    news: set[str] = field(default_factory=set)
    """
    The subjects of which more is known, or may be, since what operators say was applied; see
    claims/relations.py.
    """
    dims: Values = NATURAL
    """The values that dimensions and numbers of elements may have before any condition."""
    mismatch: str = ""
    """Why a call does not take what it is given, if that is why this way is not possible."""
    clash: tuple[Term, Values, Values] | None = None
    """A term of which two things are known that exclude each other: the first that was found."""

    def copy(self) -> "Facts":
        """A copy that can be changed independently. `self` must be possible."""
        values, same, shapes = dict(self.values), dict(self.same), dict(self.shapes)
        also_of, known = dict(self.also_of), set(self.known)
        differences = self.differences.copy()
        return Facts(
            *(self.attributes, values, same, shapes, also_of, known, differences),
            wholes=dict(self.wholes),
            sums=dict(self.sums),
            lists=self.lists,
            news=set(self.news),
            dims=self.dims,
        )

    def of(self, term: Term) -> Values:
        return self.of_first(self.first(term))

    def of_first(self, term: Term) -> Values:
        values = self.values.get(term) or _BEFORE.get(type(term)) or self.before(term)
        if type(term) not in _DERIVED:
            return values
        if isinstance(term, ELEMENTS):
            return elements(values, self.of(Dtype(term.of)).allowed)
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
        """The values that a term may have before any condition, if it is not in _BEFORE."""
        match term:
            case DimAt(of) if of in self.lists:
                return WHOLE
            case DimAt() | Size():
                return self.dims
            case Attr(name):
                return self.attributes.get(name, ANYTHING)
            case Each(Attr(name)) | Item(Attr(name)):
                return self.attributes.get(f"{name}[*]", ANYTHING)
            case _:
                return ANYTHING

    def first(self, term: Term) -> Term:
        """The term that represents all terms equal to this one."""
        if isinstance(term, _OF_SHAPE):
            if term.of in self.shapes:
                term = self.of_shape(term)
            if isinstance(term, DimAt) and term.axis < 0:
                term = self.from_the_front(term)
        while (equal := self.same.get(term)) is not None:
            term = equal
        return term

    def of_shape(self, term: Rank | DimAt | Size) -> Rank | DimAt | Size:
        """The same fact about the value that represents all values of this shape."""
        name = self.representative(term.of)
        return DimAt(name, term.axis) if isinstance(term, DimAt) else type(term)(name)

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
        alike = self.subjects(Rank(one)) | self.subjects(Rank(other))
        self.also_of[one] = alike
        for term in [term for term in self.same if isinstance(term, DimAt)]:
            if term.of in (one, other):
                first = self.first(term)
                self.also_of[first] = self.subjects(first) | alike
        self.news |= alike

    def keep_or_one(self, whole: str, part: str) -> None:
        """Add that `part` has the dimensions of `whole`, but for some that are 1."""
        name = self.representative(part)
        if name not in self.wholes:
            self.wholes[name] = whole
            self.news |= self.subjects(Rank(name))

    def is_part(self, name: str, others: Iterable[str]) -> bool:
        """Whether a value is broadcast to the shape of one of `others`, as far as is known."""
        part = self.representative(name)
        whole = self.representative(self.wholes.get(part, part))
        return whole != part and any(self.representative(other) == whole for other in others)

    def asked_axes(self, names: Iterable[str]) -> list[int]:
        """The axes of values of which anything was asked or is known, in order."""
        of = {self.representative(name) for name in names}
        every = chain(self.known, self.values, self.same)
        dims = [term for term in every if isinstance(term, DimAt)]
        return sorted({dim.axis for dim in dims if self.representative(dim.of) in of})

    def from_the_front(self, term: DimAt) -> DimAt:
        """
        Count the axis from the front if the rank is known: `dim(x, -1)` is `dim(x, 3)` at rank 4.
        """
        ranks = self.values.get(self.first(rank_of(term.of)))
        rank = None if ranks is None else ranks.only()
        if isinstance(rank, int) and rank + term.axis >= 0:
            return DimAt(term.of, rank + term.axis)
        return term

    def count_axes_from_the_front(self, rank: Rank, number: int) -> None:
        """Add that `dim(x, -1)`, of which facts may be known, is `dim(x, 3)` for the `number` 4."""
        asked = {*self.values, *self.same.values()}
        ends = [term for term in asked if isinstance(term, DimAt) and -number <= term.axis < 0]
        for end in sorted(ends, key=str):
            if self.first(Rank(end.of)) == rank and end not in self.same:
                self.unite(self.first(DimAt(end.of, number + end.axis)), end)

    def narrow(self, term: Term, values: Values) -> None:
        first = self.first(term)
        before = self.of_first(first)
        met = before.meet(values)
        if met is before and type(first) not in _DERIVED:
            return
        if met.is_empty:
            self.clash = self.clash or (first, before, values)
            self.possible = False
        if met != before:
            self.set(first, met)

    def set(self, first: Term, values: Values) -> None:
        """Store `values` for `first`, a term that represents itself."""
        self.news |= self.subjects(first)
        self.values[first] = values
        self.possible &= not values.is_empty
        if first in self.differences and self.possible:
            self.limit(first, values)
        match first:
            case (Attr() as attribute) | Each(Attr() as attribute) if self.possible:
                self.match_elements(attribute)
            case Item(Attr() as attribute, index) if self.possible:
                self.match_element(attribute, index)
            case Rank() if self.possible and isinstance(number := values.only(), int):
                self.count_axes_from_the_front(first, number)

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
        for term in [term for term in (*self.values, *self.same) if isinstance(term, Item)]:
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

    def subjects(self, first: Term) -> frozenset[str]:
        """
        What `first` and the terms that it represents are about, and those whose values follow from
        its values: items from their list, elements from their dtype.
        """
        found = self.also_of.get(first, frozenset()) | {subject_of(first)}
        match first:
            case Rank(of) | DimAt(of) | Size(of):
                found |= self.also_of.get(of, frozenset())
            case (Attr() as attribute) | Each(Attr() as attribute):
                one = self.first(attribute)
                for term, others in self.also_of.items():
                    if isinstance(term, Item) and isinstance(own := term.attribute, Attr):
                        found |= others if self.first(own) == one else frozenset()
            case Dtype():
                for term, others in self.also_of.items():
                    if isinstance(term, ELEMENTS) and self.first(Dtype(term.of)) == first:
                        found |= others
        return found

    def limit(self, node: Node, values: Values) -> None:
        """Add `node` to what is compared, with the bounds of its `values`."""
        self.differences.start(node)
        self.differences.start(ZERO)
        for bound in limits(node, values):
            self.possible &= self.differences.add(bound)

    def subjects_in(self, node: Node) -> frozenset[str]:
        """The subjects of all terms in `node`."""
        every = () if node is None else terms(node)
        return frozenset().union(*(self.subjects(self.first(term)) for term in every))

    def equal(self, left: Term, right: Term) -> None:
        self.unite(self.first(left), self.first(right))

    def unite(self, one: Term, other: Term) -> None:
        """Add that two terms are equal that represent themselves."""
        if one != other:
            if comes_first(other, one):
                one, other = other, one
            self.also_of[one] = self.subjects(one) | self.subjects(other)
            sides = self.of_first(one), self.of_first(other)
            both = sides[0].meet(sides[1])
            if both.is_empty:
                self.clash = self.clash or (one, *sides)
            self.values.pop(other, None)
            self.same[other] = one
            if other in self.sums:
                self.sums.setdefault(one, self.sums.pop(other))
            self.set(one, both)
            if one in self.differences or other in self.differences:
                self.differ(Difference(one, "==", other, 0))

    def differ(self, *differences: Difference) -> None:
        """Add comparisons of differences of numbers."""
        for each in differences:
            for node in (each.left, each.right):
                if node not in self.differences:
                    self.limit(node, values_of(self, node))
            changes = self.differences.changes
            self.possible &= self.differences.add(each)
            if self.differences.changes > changes:
                self.news |= self.subjects_in(each.left) | self.subjects_in(each.right)

    def whole(self, term: Term) -> Term | None:
        """The term that represents `term`; None if the values are not known to be whole numbers."""
        first = self.first(term)
        return first if is_whole(self.of_first(first)) else None


def with_axis(axis: int) -> Values:
    """The ranks of values that have an axis."""
    return between(axis + 1 if axis >= 0 else -axis, inf)


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
        case Element(of):
            least, most = way.of(Min(of)), way.of(Max(of))
            whole = is_whole(least) and is_whole(most)
            return between(least.bounds()[0], most.bounds()[1], whole=whole)
        case Place(of, axis):
            return between(0, way.of(DimAt(of, axis)).bounds()[1] - 1, whole=True)
        case Calculate("-", Max(of) as most, Min(other) as least) if of == other:
            span = 0 if way.first(most) == way.first(least) else inf
            return calculated("-", way.of(most), way.of(least)).meet(between(0, span))
        case Calculate("*", left, right) if left == right:
            squared = values_of(way, left)
            return calculated("*", squared, squared).meet(between(0, inf))
        case Calculate("-", left, Calculate("%", of, Constant(int() as by))) if left == of:
            return rounded_down(values_of(way, left), by)
        case Calculate(operator, left, right):
            sides = values_of(way, left), values_of(way, right)
            if operator == "/" and (drops := drops_remainder(left, right)) is not None:
                return quotient(*sides, is_exact=not drops)
            return calculated(operator, *sides)
        case _:
            return ANYTHING
