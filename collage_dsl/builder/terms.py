"""Parts of conditions. What compares and calculates with them gives such parts again."""

from dataclasses import dataclass
from typing import Any

from collage_dsl.argument_types import with_checked_types
from collage_dsl.rules import condition as conditions
from collage_dsl.rules.condition import Arithmetic, Comparison, Expression
from collage_dsl.rules.condition import Value as Plain

checked_types = with_checked_types("rule", "rules", "attributes")
"""Rules and values of attributes are checked where they are used."""


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """Part of a condition."""

    expression: Expression

    def _compared(self, operator: Comparison, other: Any) -> "Term":
        return Term(conditions.Compare(operator, self.expression, _expression(other)))

    def _calculated(self, operator: Arithmetic, other: Any) -> "Term":
        return Term(conditions.Calculate(operator, self.expression, _expression(other)))

    def __eq__(self, other: object) -> "Term":  # type: ignore[override]
        return self._compared("==", other)

    def __ne__(self, other: object) -> "Term":  # type: ignore[override]
        return self._compared("!=", other)

    __hash__ = None  # type: ignore[assignment]

    def __lt__(self, other: Any) -> "Term":
        return self._compared("<", other)

    def __le__(self, other: Any) -> "Term":
        return self._compared("<=", other)

    def __gt__(self, other: Any) -> "Term":
        return self._compared(">", other)

    def __ge__(self, other: Any) -> "Term":
        return self._compared(">=", other)

    def __add__(self, other: Any) -> "Term":
        return self._calculated("+", other)

    def __sub__(self, other: Any) -> "Term":
        return self._calculated("-", other)

    def __mul__(self, other: Any) -> "Term":
        return self._calculated("*", other)

    def __floordiv__(self, other: Any) -> "Term":
        return self._calculated("/", other)

    def __mod__(self, other: Any) -> "Term":
        return self._calculated("%", other)

    @checked_types
    def __and__(self, other: "Term") -> "Term":
        return Term(conditions.And(self.expression, other.expression))

    @checked_types
    def __or__(self, other: "Term") -> "Term":
        return Term(conditions.Or(self.expression, other.expression))

    def __invert__(self) -> "Term":
        return Term(conditions.Not(self.expression))

    def __bool__(self) -> bool:
        raise TypeError("a term is true or false when it is matched: join terms with &, | and ~")

    def __truediv__(self, other: Any) -> "Term":
        return self._calculated("/", other)

    @checked_types
    def __getitem__(self, index: int) -> "Term":
        """One element of an attribute: `attribute("padding")[0]`."""
        return Term(conditions.Item(_attribute(self), index))

    __iter__ = None

    @property
    def each(self) -> "Term":
        """Every element of an attribute."""
        return Term(conditions.Each(_attribute(self)))

    @checked_types
    def near(self, other: Any, *, within: float = conditions.TOLERANCE) -> "Term":
        """`a ~= b`, `a ~= b within 1e-3`"""
        return Term(conditions.Near(self.expression, _expression(other), within))

    def one_of(self, *choices: Plain) -> "Term":
        """`value in [a, b]`"""
        return Term(conditions.Within(self.expression, _expression(choices)))

    @checked_types
    def between(self, least: float, most: float) -> "Term":
        """`value in least..most`, both ends included."""
        return Term(conditions.Within(self.expression, conditions.Range(least, most)))


@checked_types
def attribute(name: str) -> Term:
    """An attribute of a call, for use in the `where` of that call."""
    return Term(conditions.Attr(name))


@checked_types
def all_elements(term: Term) -> Term:
    """`all(w >= 0)`: `all_elements(w.element >= 0)`."""
    return Term(conditions.All(term.expression))


@checked_types
def each(name: str) -> Term:
    """`name[*]`: every element of an attribute."""
    return Term(conditions.Each(conditions.Attr(name)))


def _attribute(term: Term) -> conditions.Attr | conditions.AttrOf:
    if not isinstance(term.expression, conditions.Attr | conditions.AttrOf):
        raise ValueError("only an attribute has elements")
    return term.expression


def _expression(value: Any) -> Expression:
    if isinstance(value, Term):
        return value.expression
    return conditions.Constant(_plain(value))


def _plain(value: Any) -> Plain:
    """`value` as a part of a condition; lists become tuples. Raises TypeError if it cannot be."""
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    what = f"not with a value of type {type(value).__name__}"
    raise TypeError(f"a term is compared with a term, number, string, list or None, {what}")
