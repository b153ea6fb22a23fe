"""Derive what several conditions of a pattern together say about its values."""

from collections.abc import Sequence

from collage_dsl.language.reasoning.values.comparing import TERMS, differences
from collage_dsl.language.reasoning.values.differences import ZERO
from collage_dsl.language.reasoning.values.domain import (
    NOTHING,
    Values,
    between,
    hull,
    is_number,
    one_of,
)
from collage_dsl.language.reasoning.values.each_element import (
    constants_in,
    first_element,
    may_be_empty,
    of_ends,
)
from collage_dsl.language.reasoning.values.facts import Facts, values_of, with_axis
from collage_dsl.language.reasoning.values.knowing import know, match_lists
from collage_dsl.language.reasoning.values.narrowing import (
    as_element,
    bound,
    narrow,
    near,
    near_all,
    rounding_of,
)
from collage_dsl.language.reasoning.values.terms import Term, factors_of, without_none
from collage_dsl.rules.condition import (
    MIRRORED,
    OPPOSITE,
    All,
    And,
    Attr,
    Calculate,
    Compare,
    Comparison,
    Constant,
    DimAt,
    Dtype,
    Each,
    Expression,
    Has,
    Max,
    Min,
    Near,
    Not,
    Or,
    Range,
    Rank,
    Shape,
    Size,
    Value,
    Within,
    asked_places,
)

MOST_WAYS = 32
"""Conditions with `or` are examined in at most this many ways; one that needs more is ignored."""


def assume(
    ways: list[Facts], condition: Expression, *, holds: bool = True, most: int = MOST_WAYS
) -> list[Facts]:
    """
    The ways that remain possible if `condition` holds, or if not `holds`, is known to be false.

    `ways` are changed in place if there is only one alternative. Alternatives (of an `or`) are
    examined as long as there are at most `most` ways. If that is 0, only the first of them that is
    possible is taken.
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
        case And(left, right) | Or(left, right) if most == 0:
            first = assume([way.copy() for way in ways], left, holds=holds, most=0)
            return first or assume(ways, right, holds=holds, most=0)
        case And(left, right) | Or(left, right):
            if alternatives(condition, holds=holds) > most:
                return ways
            before = [way.copy() for way in ways]
            found = assume([way.copy() for way in ways], left, holds=holds, most=most)
            found += assume(ways, right, holds=holds, most=most)
            return found if len(found) <= most else before
        case All(And(left, right)):
            return assume(ways, And(All(left), All(right)), holds=holds, most=most)
        case All(inner):
            return [each for way in ways for each in _assume_of_all(way, inner, holds, most)]
        case Within(value, Range(least, greatest)) if holds or not isinstance(value, Each):
            above = Compare(">=", value, Constant(least))
            below = Compare("<=", value, Constant(greatest))
            return assume(ways, And(above, below), holds=holds, most=most)
        case _:
            for way in ways:
                _assume_one(way, condition, holds)
            return [way for way in ways if way.possible]


def alternatives(condition: Expression, *, holds: bool = True) -> int:
    """The number of alternatives in which `condition` holds (or not), counted by `or` and `and`."""
    condition = without_none(condition)
    match condition:
        case Not(inner):
            return alternatives(inner, holds=not holds)
        case Or(left, right) if holds:
            return alternatives(left) + alternatives(right)
        case And(left, right) if not holds:
            return alternatives(left, holds=False) + alternatives(right, holds=False)
        case _:
            return 1


def _assume_one(way: Facts, condition: Expression, holds: bool) -> None:
    """Add to `way`, which is possible so far, that `condition` holds, or that it does not."""
    match condition:
        case Compare(_, Each()) | Within(Each()) if not holds:
            return
        case Compare(operator, left, right):
            know(way, condition)
            _compare(way, operator if holds else OPPOSITE[operator], left, right)
        case Within(value, Constant(tuple() as choices)):
            know(way, value)
            _narrow_to_choices(way, value, choices, holds)
        case Constant(value):
            way.possible = bool(value) is holds
        case Has():
            way.narrow(condition, one_of((holds,)))
        case Attr():
            know(way, condition)
            if way.of(condition).allowed is not None:
                way.narrow(condition, one_of((holds,)))
        case Near(left, Constant(value), tolerance) | Near(Constant(value), left, tolerance) if (
            holds and is_number(value)
        ):
            know(way, condition)
            near(way, left, value, tolerance)
        case Near(left, right) if left == right:
            way.possible &= holds
            know(way, condition)
        case Near(left, right, tolerance) if holds:
            know(way, condition)
            for one, other in ((left, right), (right, left)):
                near_all(way, one, values_of(way, other), tolerance)
        case Within() | Near():
            know(way, condition)


def _assume_of_all(way: Facts, inner: Expression, holds: bool, most: int) -> list[Facts]:
    """
    The way that remains possible, or none, if `inner` holds for each element of constants, or if
    not `holds`, if it does not for elements at one place.
    """
    for place in asked_places(inner):
        way.narrow(Rank(place.of), with_axis(place.axis))
    empty = [name for name in constants_in(inner) if holds and may_be_empty(way, name)]
    if not way.possible:
        return []
    some = _assume_of_some(way.copy() if empty else way, inner, holds, most)
    if not empty:
        return some
    if not some and len(empty) == 1:
        way.narrow(Size(empty[0]), one_of((0,)))
    return [way] if way.possible else []


def _assume_of_some(way: Facts, inner: Expression, holds: bool, most: int) -> list[Facts]:
    """
    Like `_assume_of_all`, in a way in which there are elements. What alternatives say of the least
    and the greatest element is joined, so that there remains one way.
    """
    names = constants_in(inner)
    ends: list[Term] = [end for name in names for end in (Min(name), Max(name))]
    for end in ends:
        if way.possible:
            know(way, end)
    if holds and asked_places(inner):
        ends += map(first_element, names)
        for name in names:
            _know_first(way, name)
    for each in of_ends(way, inner) if holds else (inner,):
        if not way.possible:
            return []
        found = assume([way.copy()], each, holds=holds, most=most)
        if len(found) == 1:
            way = found[0]
            continue
        for end in ends:
            way.narrow(end, hull(one.of(end) for one in found) if found else NOTHING)
    return [way] if way.possible else []


def _know_first(way: Facts, name: str) -> None:
    """Add that the first element of a constant is one of its elements."""
    first = first_element(name)
    if way.possible:
        way.equal(Dtype(first.of), Dtype(name))
        know(way, first)
    limit(way, Min(name), first)
    limit(way, first, Max(name))


def _narrow_to_choices(
    way: Facts, value: Expression, choices: tuple[Value, ...], holds: bool
) -> None:
    if isinstance(value, Shape):
        shapes = [choice for choice in choices if isinstance(choice, tuple)]
        if holds:
            _has_one_of(way, value.of, shapes)
        else:
            way.possible &= not any(_is_same_shape(way, value, Constant(each)) for each in shapes)
        return
    items = frozenset(as_element(way, choice, value) for choice in choices)
    slack = max((rounding_of(way, Constant(item), value) for item in items), default=0.0)
    if not slack:
        narrow(way, value, one_of(items) if holds else Values(excluded=items))
    elif holds:
        least, most = one_of(items).bounds()
        narrow(way, value, between(least - slack, most + slack))


def _has_one_of(way: Facts, of: str, shapes: Sequence[tuple[Value, ...]]) -> None:
    """Add that a value has one of some shapes."""
    left = [shape for shape in shapes if may_have(way, of, shape)]
    ranks = {len(shape) for shape in left}
    way.narrow(Rank(of), one_of(ranks))
    if len(ranks) == 1:
        for axis, dims in enumerate(zip(*left, strict=True)):
            way.narrow(DimAt(of, axis), one_of(dims))


def may_have(way: Facts, of: str, shape: Sequence[object]) -> bool:
    """Whether a value may have the rank and each of the known dimensions of a shape."""
    known = ((axis, dim) for axis, dim in enumerate(shape) if isinstance(dim, int))
    return len(shape) in way.of(Rank(of)) and all(
        dim in way.of(DimAt(of, axis)) for axis, dim in known
    )


def _compare(way: Facts, operator: Comparison, left: Expression, right: Expression) -> None:
    if isinstance(left, Shape) or isinstance(right, Shape):
        if operator == "==":
            _same_shape(way, left, right)
        elif _is_same_shape(way, left, right):
            way.possible = False
        return
    left, right = _beside(way, left, right), _beside(way, right, left)
    left, right = _counted(way, left), _counted(way, right)
    bound(way, operator, left, right)
    bound(way, MIRRORED[operator], right, left)
    is_exact = not rounding_of(way, left, right) and not rounding_of(way, right, left)
    for found in differences(way, operator, left, right) if is_exact else ():
        if not way.possible:
            return
        way.differ(found)
        if isinstance(found.left, (*TERMS, Calculate)) and found.right is ZERO and way.possible:
            bound(way, found.operator, found.left, Constant(found.number))
    if isinstance(left, TERMS) and isinstance(right, TERMS):
        if way.first(left) == way.first(right):
            way.possible &= operator in ("==", "<=", ">=")
        elif operator == "==":
            way.equal(left, right)
            if isinstance(left, Attr):
                match_lists(way, left)


def _beside(way: Facts, expression: Expression, other: Expression) -> Expression:
    """`expression`, rounded like `other` if that is an element of a constant."""
    if isinstance(expression, Constant):
        return Constant(as_element(way, expression.value, other))
    return expression


def equate(way: Facts, left: Expression, right: Expression) -> None:
    """Add that two expressions are equal where both are known."""
    if way.possible:
        _compare(way, "==", left, right)


def limit(way: Facts, left: Expression, right: Expression) -> None:
    """Add that `left` is at most `right` where both are known."""
    if way.possible:
        _compare(way, "<=", left, right)


def _counted(way: Facts, expression: Expression) -> Expression:
    """The number of elements, if `expression` is the product of all dimensions of a value."""
    dims = list(factors_of(expression))
    if len(dims) < 2 or not all(isinstance(dim, DimAt) for dim in dims):
        return expression
    named = [way.first(dim) for dim in dims if isinstance(dim, DimAt)]
    of = {dim.of for dim in named if isinstance(dim, DimAt)}
    axes = {dim.axis for dim in named if isinstance(dim, DimAt)}
    name = next(iter(of), "")
    is_all = len(of) == 1 and axes == set(range(len(dims)))
    if not is_all or way.of(Rank(name)).only() != len(dims):
        return expression
    know(way, Size(name))
    return Size(name)


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
            return way.representative(one) == way.representative(other) or _are_equal(
                way, one, other
            )
        case (Shape(of), Constant(tuple() as dims)) | (Constant(tuple() as dims), Shape(of)):
            found = [way.of(DimAt(of, axis)).only() for axis in range(len(dims))]
            return way.of(Rank(of)).only() == len(dims) and found == list(dims)
    return False


def _are_equal(way: Facts, one: str, other: str) -> bool:
    """Whether two values are known to have the same dimensions."""
    rank = way.of(Rank(one)).only()
    if not isinstance(rank, int) or way.of(Rank(other)).only() != rank:
        return False
    dims = [(DimAt(one, axis), DimAt(other, axis)) for axis in range(rank)]
    return all(
        way.first(left) == way.first(right)
        or way.of(left).only() == way.of(right).only() is not None
        for left, right in dims
    )
