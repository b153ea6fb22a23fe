"""Evaluate conditions on the values that a match has bound."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import assert_never

from collage_dsl.graph import Attribute, Dim, Node, TensorType
from collage_dsl.graph.floats import rounded
from collage_dsl.graph.types import short_dtype
from collage_dsl.rules.condition import (
    MIRRORED,
    UNKNOWN,
    All,
    And,
    Attr,
    AttrOf,
    Bindings,
    Bytes,
    Calculate,
    Compare,
    Comparison,
    Constant,
    DimAt,
    Dtype,
    Each,
    Element,
    Expression,
    Given,
    Has,
    Holds,
    Item,
    Max,
    Min,
    Near,
    Not,
    Or,
    Place,
    Range,
    Rank,
    Shape,
    Size,
    Unknown,
    Uses,
    Value,
    ValueOf,
    Within,
    asked_places,
    every_part,
)
from collage_dsl.rules.contents import Ends, ends, is_empty, listed
from collage_dsl.rules.lists import dims_of_list
from collage_dsl.rules.three_valued import calculated, compare, every, in_range, near, within


def evaluate(expression: Expression, given: Given) -> Value | Unknown:
    """
    The value of `expression` for `given`.

    The value is `UNKNOWN` if it depends on a symbolic dimension or an unknown rank, unless one
    side of `and` or `or` decides alone. An absent optional operand has no dtype, rank or
    dimension; the answer about it is `UNKNOWN` too. An attribute that has no value is `none`, and
    how it compares with anything else is `UNKNOWN`.
    """
    match expression:
        case Constant(value):
            return value
        case Attr() | AttrOf():
            return _plain(_attribute(expression, given))
        case Item(attribute, index):
            return _item(evaluate(attribute, given), index)
        case ValueOf(name) | Min(name) | Max(name):
            return _content(expression, ends(given.bound.get(name)))
        case Element(name):
            return given.elements.get(name, UNKNOWN)
        case Place():
            return given.places.get(expression, UNKNOWN)
        case All(condition):
            return every_element(condition, given)
        case Has(name):
            return name in given.bound
        case Uses(name):
            assert given.world is not None, "uses are asked about in a graph"
            node = given.bound.get(name)
            return UNKNOWN if node is None else given.world.uses(node)
        case Holds(predicate, names):
            assert given.world is not None, "predicates are asked about in a graph"
            return given.world.holds(predicate, tuple(given.bound.get(name) for name in names))
        case Dtype(name) | Rank(name) | Shape(name) | DimAt(name) | Size(name) | Bytes(name):
            return _fact(expression, given.bound.get(name))
        case Each(attribute):
            return evaluate(attribute, given)
        case Range(least, most):
            return (least, most)
        case Calculate(operator, left, right):
            return calculated(operator, evaluate(left, given), evaluate(right, given))
        case Compare():
            return _compared(expression, given)
        case Near(left, right, tolerance):
            return near(evaluate(left, given), evaluate(right, given), tolerance)
        case Within():
            return _contained(expression, given)
        case Not(condition):
            held = evaluate(condition, given)
            return held if isinstance(held, Unknown) else not held
        case And(left, right):
            return _decided(left, right, given, by=False)
        case Or(left, right):
            return _decided(left, right, given, by=True)
        case _:
            assert_never(expression)


def _compared(asked: Compare, given: Given) -> bool | Unknown:
    operator = asked.operator
    match asked.left, asked.right:
        case (Attr() | AttrOf() as attribute, Constant(None)) if operator in ("==", "!="):
            return _is_none(attribute, given, operator)
        case (Constant(None), Attr() | AttrOf() as attribute) if operator in ("==", "!="):
            return _is_none(attribute, given, operator)
        case Each(attribute), right:
            items = _items(evaluate(attribute, given))
            return every(compare(operator, item, evaluate(right, given)) for item in items)
        case (DimAt() as left, DimAt() as right) if operator in ("==", "!="):
            return _same_dim(operator, _dim(left, given.bound), _dim(right, given.bound))
        case left, right:
            return compare(operator, _beside(left, right, given), _beside(right, left, given))


def _contained(asked: Within, given: Given) -> bool | Unknown:
    match asked.value, asked.choices:
        case Each(attribute), choices:
            items = _items(evaluate(attribute, given))
            return every(_in(item, choices, given) for item in items)
        case (Attr() | AttrOf() as attribute, Constant(tuple() as items)) if (
            _is_none(attribute, given) is True
        ):
            return True if None in items else UNKNOWN
        case value, Range(least, most):
            ends_ = (_beside(Constant(end), value, given) for end in (least, most))
            return in_range(evaluate(value, given), *ends_)
        case value, choices:
            return within(evaluate(value, given), _beside(choices, value, given))


def _attribute(asked: Attr | AttrOf, given: Given) -> Attribute:
    if isinstance(asked, Attr):
        return given.attrs.get(asked.name)
    node = given.bound.get(asked.of)
    return None if node is None else node.attrs.get(asked.name)


def _is_none(asked: Attr | AttrOf, given: Given, operator: Comparison = "==") -> bool | Unknown:
    """Whether an attribute is `none`, or for `!=`, is not. Of a call that is not there: unknown."""
    if isinstance(asked, AttrOf) and asked.of not in given.bound:
        return UNKNOWN
    return (_attribute(asked, given) is None) == (operator == "==")


def _item(value: Value | Unknown, index: int) -> Value | Unknown:
    """An element of a list; a single number is the number for all axes."""
    if not isinstance(value, tuple):
        return value
    return value[index] if -len(value) <= index < len(value) else UNKNOWN


def _content(asked: ValueOf | Min | Max, found: Ends) -> Value | Unknown:
    if found.unknown or (isinstance(asked, ValueOf) and found.least != found.most):
        return UNKNOWN
    return found.most if isinstance(asked, Max) else found.least


def _beside(expression: Expression, other: Expression, given: Given) -> Value | Unknown:
    """The value of `expression`, rounded like `other` if that is an element of a constant."""
    value = evaluate(expression, given)
    if not isinstance(other, ValueOf | Min | Max | Element) or not isinstance(expression, Constant):
        return value
    node = given.bound.get(other.of)
    dtype = node.type.dtype if node and isinstance(node.type, TensorType) else ""
    if isinstance(value, tuple):
        return tuple(_rounded(item, dtype) for item in value)
    return value if isinstance(value, Unknown) else _rounded(value, dtype)


def _rounded(value: Value, dtype: str) -> Value:
    return rounded(value, dtype) if isinstance(value, float) else value


def _items(value: Value | Unknown) -> tuple[Value | Unknown, ...]:
    """The elements of a list; a single number is the number for all axes."""
    return value if isinstance(value, tuple) else (value,)


def _in(value: Value | Unknown, choices: Expression, given: Given) -> bool | Unknown:
    if isinstance(choices, Range):
        return in_range(value, choices.least, choices.most)
    return within(value, evaluate(choices, given))


def _dim(dim: DimAt, bound: Bindings) -> Dim | Unknown:
    shape = _fact(Shape(dim.of), bound.get(dim.of))
    if not isinstance(shape, tuple) or not -len(shape) <= dim.axis < len(shape):
        return UNKNOWN
    found = shape[dim.axis]
    assert isinstance(found, int | str)
    return found


def _same_dim(operator: Comparison, left: Dim | Unknown, right: Dim | Unknown) -> bool | Unknown:
    """Two dimensions with the same symbolic name are equal."""
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    return compare(operator, (left,), (right,))


def _plain(value: Attribute) -> Value | Unknown:
    """An attribute's value. A dtype of TVM, which is a string, gets its short name."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return short_dtype(value)
    if isinstance(value, tuple):
        items = tuple(_plain(item) for item in value)
        return UNKNOWN if any(isinstance(item, Unknown) for item in items) else items  # type: ignore[return-value]
    return value


def _fact(
    question: Dtype | Rank | Shape | DimAt | Size | Bytes, node: Node | None
) -> Value | Unknown:
    if node is None:
        return UNKNOWN
    if not isinstance(node.type, TensorType):
        return _fact_of_list(question, dims_of_list(node))
    type_ = node.type
    if isinstance(question, Dtype):
        return short_dtype(type_.dtype)
    if type_.shape is None:
        return UNKNOWN
    match question:
        case Rank():
            return len(type_.shape)
        case Shape():
            return type_.shape
        case Size():
            return UNKNOWN if type_.size is None else type_.size
        case Bytes():
            return UNKNOWN if type_.bytes is None else type_.bytes
        case DimAt(_, axis):
            inside = -len(type_.shape) <= axis < len(type_.shape)
            return _number(type_.shape[axis]) if inside else UNKNOWN
        case _:
            assert_never(question)


def _fact_of_list(
    question: Dtype | Rank | Shape | DimAt | Size | Bytes, items: tuple[Dim, ...] | None
) -> Value | Unknown:
    """A list that the program writes has a length and items, as a shape has dimensions."""
    match question:
        case Rank() if items is not None:
            return len(items)
        case Shape() if items is not None:
            return items
        case DimAt(_, axis) if items is not None and -len(items) <= axis < len(items):
            return _number(items[axis])
        case _:
            return UNKNOWN


def _number(dim: Dim) -> int | Unknown:
    return dim if isinstance(dim, int) else UNKNOWN


def _decided(left: Expression, right: Expression, given: Given, *, by: bool) -> bool | Unknown:
    """The value of `or` (`by` is true) or `and` (`by` is false): a side equal to `by` decides."""
    sides = (evaluate(left, given), evaluate(right, given))
    if any(not isinstance(side, Unknown) and bool(side) is by for side in sides):
        return by
    return UNKNOWN if any(isinstance(side, Unknown) for side in sides) else not by


# Every element of constants.


def every_element(condition: Expression, given: Given) -> bool | Unknown:
    """
    Whether `condition` holds for every element. Where the least and the greatest element decide,
    the others are not looked at.
    """
    match condition:
        case And(left, right):
            return every((every_element(left, given), every_element(right, given)))
        case Compare(operator, Element(of), right) if not has_element(right):
            answer = _of_ends(operator, Element(of), right, given)
        case Compare(operator, left, Element(of)) if not has_element(left):
            answer = _of_ends(MIRRORED[operator], Element(of), left, given)
        case Within(Element() as element, Range(least, most)):
            above = Compare(">=", element, Constant(least))
            return every_element(And(above, Compare("<=", element, Constant(most))), given)
        case Near(Element() as element, other, tolerance) if not has_element(other):
            answer = _near_ends(element, other, tolerance, given)
        case _:
            answer = None
    return _one_by_one(condition, given) if answer is None else answer


def has_element(expression: Expression) -> bool:
    return any(isinstance(part, Element | Place) for part in every_part(expression))


def _of_ends(
    operator: Comparison, element: Element, other: Expression, given: Given
) -> bool | Unknown | None:
    """The answer as far as the least and the greatest element decide it; None if they do not."""
    node = given.bound.get(element.of)
    if is_empty(node):
        return True
    found = ends(node)
    if found.unknown:
        return UNKNOWN
    value = _beside(other, element, given)
    first, last = (compare(operator, end, value) for end in (found.least, found.most))
    if operator != "!=" or not (first is True and last is True):
        return every((first, last))
    outside = compare("<", value, found.least), compare(">", value, found.most)
    return True if True in outside else None


def _near_ends(
    element: Element, other: Expression, tolerance: float, given: Given
) -> bool | Unknown:
    """The numbers near another one lie together, so the least and the greatest decide."""
    node = given.bound.get(element.of)
    if is_empty(node):
        return True
    found, value = ends(node), evaluate(other, given)
    if found.unknown:
        return UNKNOWN
    return every(near(end, value, tolerance) for end in (found.least, found.most))


def _one_by_one(condition: Expression, given: Given) -> bool | Unknown:
    places = elements_together(condition, given)
    if isinstance(places, str):
        return UNKNOWN
    return every(
        _truth(condition, replace(given, elements=elements, places=at)) for elements, at in places
    )


def _truth(condition: Expression, given: Given) -> bool | Unknown:
    held = evaluate(condition, given)
    return held if isinstance(held, Unknown) else bool(held)


def elements_together(
    condition: Expression, given: Given
) -> Sequence[tuple[Mapping[str, int | float], Mapping[Place, int]]] | str:
    """
    The different combinations of elements that are at the same place of the constants of
    `condition`, and where that is, as far as it asks; or why they are not known.
    """
    places = asked_places(condition)
    asked = sorted({each.of for each in every_part(condition) if isinstance(each, Element | Place)})
    columns: list[tuple[int | float, ...]] = []
    for name in asked:
        found = listed(given.bound.get(name))
        if isinstance(found, str):
            return f"`{name}`: {found}"
        columns.append(found)
    shapes = {_without_ones(given.bound[name]) for name in asked} - {()}
    if len(shapes) > 1:
        return f"the shapes of `{'` and `'.join(asked)}` differ"
    for place in places:
        shape = given.bound[place.of].tensor.static_shape
        if not -len(shape) <= place.axis < len(shape):
            return f"`{place.of}` has {len(shape)} dimensions"
        columns.append(tuple(_along(shape, place.axis)))
    size = max((len(column) for column in columns if len(column) != 1), default=1)
    rows = zip(*(column * size if len(column) == 1 else column for column in columns), strict=True)
    count = len(asked)
    return [
        (
            dict(zip(asked, row[:count], strict=True)),
            dict(zip(places, map(int, row[count:]), strict=True)),
        )
        for row in dict.fromkeys(rows)
    ]


def _along(shape: tuple[int, ...], axis: int) -> Iterator[int]:
    """Where each element is along an axis, in row-major order."""
    before, after = prod(shape[:axis]), prod(shape[axis:][1:])
    return (at for _ in range(before) for at in range(shape[axis]) for _ in range(after))


def _without_ones(node: Node) -> tuple[int, ...]:
    return tuple(dim for dim in node.tensor.static_shape if dim != 1)
