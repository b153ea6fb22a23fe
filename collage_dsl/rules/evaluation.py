"""Evaluate conditions on the values that a match has bound."""

from collections.abc import Iterable
from typing import assert_never

from collage_dsl.graph import Attribute, Dim, Node, TensorType
from collage_dsl.graph.types import short_dtype
from collage_dsl.rules.condition import (
    UNKNOWN,
    And,
    Arithmetic,
    Attr,
    Bindings,
    Bytes,
    Calculate,
    Compare,
    Comparison,
    Constant,
    DimAt,
    Dtype,
    Each,
    Expression,
    Given,
    Has,
    Holds,
    Not,
    Or,
    Range,
    Rank,
    Shape,
    Size,
    Unknown,
    Uses,
    Value,
    Within,
)


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
        case Attr(name):
            return _plain(given.attrs.get(name))
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
            return _calculate(operator, evaluate(left, given), evaluate(right, given))
        case Compare("==" | "!=" as operator, Attr(name), Constant(None)):
            return _is_none(name, given) == (operator == "==")
        case Compare("==" | "!=" as operator, Constant(None), Attr(name)):
            return _is_none(name, given) == (operator == "==")
        case Compare(operator, Each(attribute), right):
            answers = (
                _compare(operator, item, evaluate(right, given))
                for item in _items(evaluate(attribute, given))
            )
            return _every(answers)
        case Compare("==" | "!=" as operator, DimAt() as left, DimAt() as right):
            return _same_dim(operator, _dim(left, given.bound), _dim(right, given.bound))
        case Compare(operator, left, right):
            return _compare(operator, evaluate(left, given), evaluate(right, given))
        case Within(Each(attribute), choices):
            items = _items(evaluate(attribute, given))
            return _every(_in(item, choices, given) for item in items)
        case Within(Attr(name), Constant(tuple() as items)) if _is_none(name, given):
            return True if None in items else UNKNOWN
        case Within(value, Range() as choices):
            return _in(evaluate(value, given), choices, given)
        case Within(value, choices):
            return _within(evaluate(value, given), evaluate(choices, given))
        case Not(condition):
            held = evaluate(condition, given)
            return held if isinstance(held, Unknown) else not held
        case And(left, right):
            return _decided(left, right, given, by=False)
        case Or(left, right):
            return _decided(left, right, given, by=True)
        case _:
            assert_never(expression)


def _is_none(attribute: str, given: Given) -> bool:
    return given.attrs.get(attribute) is None


def _items(value: Value | Unknown) -> tuple[Value | Unknown, ...]:
    """The elements of a list; a single number is the number for all axes."""
    return value if isinstance(value, tuple) else (value,)


def _every(answers: Iterable[bool | Unknown]) -> bool | Unknown:
    found = list(answers)
    if False in found:
        return False
    return UNKNOWN if any(isinstance(each, Unknown) for each in found) else True


def _in(value: Value | Unknown, choices: Expression, given: Given) -> bool | Unknown:
    if isinstance(choices, Range):
        above = _compare(">=", value, choices.least)
        return _every((above, _compare("<=", value, choices.most)))
    return _within(value, evaluate(choices, given))


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
    return _compare(operator, (left,), (right,))


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
    if node is None or not isinstance(node.type, TensorType):
        return UNKNOWN
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


def _number(dim: Dim) -> int | Unknown:
    return dim if isinstance(dim, int) else UNKNOWN


def _calculate(
    operator: Arithmetic, left: Value | Unknown, right: Value | Unknown
) -> Value | Unknown:
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return UNKNOWN
    try:
        match operator:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return left // right
            case "%":
                return left % right
            case _:
                assert_never(operator)
    except (ZeroDivisionError, OverflowError):  # a huge whole number with a fraction
        return UNKNOWN


def _compare(operator: Comparison, left: Value | Unknown, right: Value | Unknown) -> bool | Unknown:
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return UNKNOWN
    if operator in ("==", "!="):
        same = _equal(left, right)
        return same if isinstance(same, Unknown) else same == (operator == "==")
    if not (isinstance(left, int | float) and isinstance(right, int | float)):
        return UNKNOWN
    match operator:
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case _:
            return left >= right


def _equal(left: Value, right: Value) -> bool | Unknown:
    """Equality. For shapes it is unknown if symbolic dimensions could be equal."""
    if not (isinstance(left, tuple) and isinstance(right, tuple)) or len(left) != len(right):
        return left == right
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a != b or a == _SOME_DIM]
    symbolic = any(isinstance(side, str) for pair in pairs for side in pair)
    certain = any(isinstance(a, int) and isinstance(b, int) for a, b in pairs)
    if certain or not pairs:
        return not pairs
    return UNKNOWN if symbolic else False


_SOME_DIM = "?"
"""A dimension without a name: two of them may differ."""


def _within(value: Value | Unknown, choices: Value | Unknown) -> bool | Unknown:
    if isinstance(value, Unknown) or not isinstance(choices, tuple):
        return UNKNOWN
    same = [_equal(value, choice) for choice in choices]
    if True in same:
        return True
    return UNKNOWN if any(isinstance(each, Unknown) for each in same) else False


def _decided(left: Expression, right: Expression, given: Given, *, by: bool) -> bool | Unknown:
    """The value of `or` (`by` is true) or `and` (`by` is false): a side equal to `by` decides."""
    sides = (evaluate(left, given), evaluate(right, given))
    if any(not isinstance(side, Unknown) and bool(side) is by for side in sides):
        return by
    return UNKNOWN if any(isinstance(side, Unknown) for side in sides) else not by
