"""Turn the syntax of a condition into a condition of `rules`, and check the types of its parts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, cast

from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import dtype_names, long_dtype
from collage_dsl.language.messages.advice import call_meant, truth_meant
from collage_dsl.language.messages.findings import Findings, count, did_you_mean, listed
from collage_dsl.language.reasoning.calls import unknown_attribute
from collage_dsl.language.resolve.sorts import (
    OF_ATTRIBUTE,
    Sort,
    Typed,
    as_dtype,
    called,
    comparable,
    dtype_of,
    elements,
    meant,
    sort_of,
)
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.predicate import Predicate
from collage_dsl.source import Span

_ARITHMETIC = ("+", "-", "*", "/", "%")
_FUNCTIONS = {
    **dict.fromkeys(("dtype", "rank", "shape", "dim", "size", "bytes", "uses", "has"), 1),
    "dim": 2,
}
FUNCTIONS = tuple(_FUNCTIONS)


class Scope(Protocol):
    """What the names in a condition stand for."""

    def name(self, name: ast.Name) -> Typed | None:
        """The value of a bare name; None after reporting that the name is unknown."""

    def fact(self, function: ast.Name, of: ast.Name) -> bool:
        """Whether `function(of)` is allowed here; reports why it is not."""

    def predicates(self) -> Mapping[str, Predicate | None]:
        """The predicates allowed here by name; None for one whose declaration is wrong."""

    def use(self, predicate: ast.Name) -> None:
        """Record that a condition uses `predicate`."""


@dataclass(slots=True)
class Checker:
    """
    Check one condition in one scope.

    A wrong part is reported once and becomes None, so that what contains it is not reported too.
    """

    findings: Findings
    scope: Scope
    asked: set[str] = field(default_factory=set)
    """Names whose facts the condition uses."""
    has: set[str] = field(default_factory=set)
    """Names in `has(name)`."""

    def condition(self, written: ast.Expression, reason: str = "") -> rules.Where | None:
        typed = self.expression(written)
        if typed is None or not self.is_truth(typed):
            return None
        if not depends(typed.value) and evaluate(typed.value, rules.Given()) is not True:
            self.findings.error("E0302", typed.span, "this condition can never hold")
            return None
        return rules.Where(typed.value, reason, typed.span)

    def expression(self, written: ast.Expression) -> Typed | None:
        match written:
            case ast.Name():
                typed = self.scope.name(written)
                if typed is not None and isinstance(typed.value, rules.DimAt):
                    self.asked.add(typed.value.of)  # the name of a dimension
                return typed
            case ast.Literal(value, span):
                return Typed(rules.Constant(value), sort_of(value), span)
            case ast.List(items, span):
                return self.list(items, span)
            case ast.Elements(of, span):
                return self.elements(of, span)
            case ast.Range(least, most, span):
                return self.range(least, most, span)
            case ast.Application():
                return self.application(written)
            case ast.Arrow(_, _, span):
                self.findings.error("E0303", span, "`->` has no meaning in a condition")
                return None
            case ast.Operation("not", _, right, span):
                operand = self.expression(right)
                if operand is None or not self.is_truth(operand):
                    return None
                return Typed(rules.Not(operand.value), Sort.TRUTH, span)
            case ast.Operation(operator, left, right, span):
                assert left is not None
                sides = self.expression(left), self.expression(right)
                if sides[0] is None or sides[1] is None:
                    return None
                return self.operation(operator, sides[0], sides[1], span)

    def list(self, written: tuple[ast.Expression, ...], span: Span) -> Typed | None:
        items = [self.expression(item) for item in written]
        values = []
        for item in items:
            if item is None:
                return None
            if not isinstance(item.value, rules.Constant):
                message = "a list holds numbers, strings, dtypes and lists of them"
                self.findings.error("E0303", item.span, message)
                return None
            values.append(item.value.value)
        present = tuple(item for item in items if item is not None)
        return Typed(rules.Constant(tuple(values)), Sort.LIST, span, present)

    def elements(self, of: ast.Name, span: Span) -> Typed | None:
        typed = self.scope.name(of)
        if typed is None:
            return None
        if not isinstance(typed.value, rules.Attr) or typed.sort not in (Sort.NUMBERS, Sort.ANY):
            message = f"`{of.text}` is {typed.sort.value}, which has no elements"
            self.findings.error("E0303", span, message)
            return None
        return Typed(rules.Each(typed.value), Sort.NUMBER, span, attribute=f"{of.text}[*]")

    def range(self, least: float, most: float, span: Span) -> Typed | None:
        if least > most:
            self.findings.error("E0302", span, "nothing is in this range")
            return None
        return Typed(rules.Range(least, most), Sort.RANGE, span)

    # Functions.

    def application(self, written: ast.Application) -> Typed | None:
        name = written.function
        if name.text in self.scope.predicates():
            return self.holds(written)
        wanted = _FUNCTIONS.get(name.text)
        if wanted is None:
            known = (*_FUNCTIONS, *self.scope.predicates())
            said = written.arguments[0].value.span.text if written.arguments else ""
            hint = call_meant(name.text, said, FUNCTIONS) or did_you_mean(name.text, known)
            hint = hint or f"there are {listed(known, 'and')}"
            self.findings.error("E0401", name.span, f"unknown function `{name.text}`", hint)
            return None
        arguments = written.arguments
        if not self.are_so_many(written, wanted):
            return None
        of = arguments[0].value
        if not isinstance(of, ast.Name):
            message = f"`{name.text}` asks about a value of the pattern, by its name"
            self.findings.error("E0404", of.span, message)
            return None
        axis = self.axis(arguments[1].value) if wanted == 2 else 0
        if not self.scope.fact(name, of) or axis is None:
            return None
        (self.has if name.text == "has" else self.asked).add(of.text)
        return _fact(name.text, of.text, axis, written.span)

    def are_so_many(self, written: ast.Application, wanted: int) -> bool:
        """Whether there are `wanted` arguments, all without a name; reports what is wrong."""
        function, given = written.function.text, written.arguments
        named = next((argument.name for argument in given if argument.name), None)
        if named is not None:
            message = f"`{function}` has no argument named `{named.text}`"
            self.findings.error("E0402", named.span, message)
        elif len(given) != wanted:
            message = f"`{function}` takes {count(wanted, 'argument')}, not {len(given)}"
            is_dim = function in ("dim", "shape") and given
            hint = f"write `dim({given[0].value.span.text}, 0)`" if is_dim else ""
            self.findings.error("E0403", written.span, message, hint)
        return named is None and len(given) == wanted

    def holds(self, written: ast.Application) -> Typed | None:
        """A call of a predicate. Its arguments are values of the pattern, also optional ones."""
        name = written.function
        self.scope.use(name)
        predicate = self.scope.predicates()[name.text]
        if predicate is None or not self.are_so_many(written, len(predicate.parameters)):
            return None
        asked = []
        for argument in written.arguments:
            of = argument.value
            if not isinstance(of, ast.Name):
                message = f"`{name.text}` asks about a value of the pattern, by its name"
                self.findings.error("E0404", of.span, message)
            elif self.scope.fact(name, of):
                asked.append(of.text)
        if len(asked) < len(written.arguments):
            return None
        return Typed(rules.Holds(predicate, tuple(asked)), Sort.TRUTH, written.span)

    def axis(self, written: ast.Expression) -> int | None:
        match written:
            case ast.Literal(bool()):
                pass
            case ast.Literal(int() as axis):
                return axis
        message = "the dimension is a whole number: `dim(x, 0)`, or `dim(x, -1)` for the last"
        self.findings.error("E0404", written.span, message)
        return None

    # Operators.

    def operation(self, operator: str, left: Typed, right: Typed, span: Span) -> Typed | None:
        if operator in ("and", "or"):
            if not (self.is_truth(left) & self.is_truth(right)):
                return None
            make = rules.And if operator == "and" else rules.Or
            return Typed(make(left.value, right.value), Sort.TRUTH, span)
        if operator in _ARITHMETIC:
            return self.arithmetic(operator, left, right, span)
        if operator == "in":
            return self.within(left, right, span)
        return self.comparison(operator, left, right, span)

    def arithmetic(self, operator: str, left: Typed, right: Typed, span: Span) -> Typed | None:
        if not (self.is_number(left, operator) & self.is_number(right, operator)):
            return None
        if operator in ("/", "%") and right.value == rules.Constant(0):
            self.findings.error("E0302", right.span, "this divides by zero, which is never known")
            return None
        if isinstance(left.value, rules.Each) or isinstance(right.value, rules.Each):
            message = "elements are compared, nothing else can be done with them"
            self.findings.error("E0303", span, message)
            return None
        value = rules.Calculate(cast(rules.Arithmetic, operator), left.value, right.value)
        return Typed(value, Sort.NUMBER, span)

    def comparison(self, operator: str, left: Typed, right: Typed, span: Span) -> Typed | None:
        if isinstance(right.value, rules.Each):
            message = f"write `{right.span.text}` on the left"
            self.findings.error("E0303", right.span, "elements are compared one by one", message)
            return None
        if operator not in ("==", "!="):
            if not (self.is_number(left, operator) & self.is_number(right, operator)):
                return None
        else:
            left, right = as_dtype(left, right), as_dtype(right, left)
            if not self.fit(left, right, span):
                return None
        value = rules.Compare(cast(rules.Comparison, operator), left.value, right.value)
        return Typed(value, Sort.TRUTH, span)

    def within(self, left: Typed, right: Typed, span: Span) -> Typed | None:
        if right.sort is Sort.RANGE:
            if not self.is_number(left, "in"):
                return None
            return Typed(rules.Within(left.value, right.value), Sort.TRUTH, span)
        if right.sort in (Sort.NUMBERS, Sort.ANY) and left.sort in (Sort.NUMBER, Sort.ANY):
            return Typed(rules.Within(left.value, right.value), Sort.TRUTH, span)
        if right.sort is not Sort.LIST:
            message = f"`in` needs a list on its right, this is {right.sort.value}"
            self.findings.error("E0303", right.span, message, f"write `[{right.span.text}]`")
            return None
        if not right.items:
            self.findings.error("E0302", span, "nothing is in an empty list")
            return None
        items = [as_dtype(item, left) for item in right.items]
        fits = [self.fit(left, item, item.span) for item in items]
        if not all(fits):
            return None
        values = tuple(cast(rules.Constant, item.value).value for item in items)
        return Typed(rules.Within(left.value, rules.Constant(values)), Sort.TRUTH, span)

    # Sorts.

    def is_truth(self, typed: Typed) -> bool:
        if typed.sort in (Sort.TRUTH, Sort.ANY):
            return True
        message = f"a condition is needed here, this is {typed.sort.value}"
        self.findings.error("E0303", typed.span, message)
        return False

    def is_number(self, typed: Typed, operator: str) -> bool:
        if typed.sort in (Sort.NUMBER, Sort.ANY):
            return True
        message = f"`{operator}` needs numbers, this is {typed.sort.value}"
        hint = elements(typed.attribute) if typed.sort is Sort.NUMBERS else ""
        self.findings.error("E0303", typed.span, message, hint)
        return False

    def fit(self, left: Typed, right: Typed, span: Span) -> bool:
        """Whether the sorts of the two can be equal; reports that they cannot."""
        if not comparable(left, right):
            code = "E0205" if left.attribute or right.attribute else "E0303"
            named = left if left.attribute or not right.attribute else right
            other = right if named is left else left
            what = f"`{named.attribute}`" if named.attribute else "the left side"
            message = f"{what} is {named.sort.value}, which {called(other)} never equals"
            self.findings.error(code, span, message, meant(named, other))
            return False
        return True


def depends(expression: rules.Expression) -> bool:
    """Whether the value of `expression` depends on what is matched."""
    match expression:
        case rules.Constant() | rules.Range():
            return False
        case rules.Not(condition):
            return depends(condition)
        case rules.Calculate(_, left, right) | rules.Compare(_, left, right):
            return depends(left) or depends(right)
        case rules.And(left, right) | rules.Or(left, right) | rules.Within(left, right):
            return depends(left) or depends(right)
        case _:
            return True


class AttributeScope:
    """The names inside the brackets of a call: the attributes that all its operators have."""

    def __init__(self, operators: tuple[Operator, ...], findings: Findings, values: Scope) -> None:
        self.operators = operators
        self.findings = findings
        self.values = values

    def name(self, name: ast.Name) -> Typed | None:
        types = [operator.attrs.get(name.text) for operator in self.operators]
        lacking = [op for op, type_ in zip(self.operators, types, strict=True) if type_ is None]
        if lacking and name.text == "none":
            return Typed(rules.Constant(None), Sort.NONE, name.span)
        if lacking:
            dtype = dtype_of(name)
            if dtype is None:
                hint = truth_meant(name.text)
                unknown_attribute(lacking[0], name, self.findings, hint)
            return dtype
        sort = OF_ATTRIBUTE.get(types[0] or "", Sort.ANY)
        return Typed(rules.Attr(name.text), sort, name.span, attribute=name.text)

    def fact(self, function: ast.Name, of: ast.Name) -> bool:
        return self.values.fact(function, of)

    def predicates(self) -> Mapping[str, Predicate | None]:
        return self.values.predicates()

    def use(self, predicate: ast.Name) -> None:
        self.values.use(predicate)


def _fact(function: str, of: str, axis: int, span: Span) -> Typed:
    facts: Mapping[str, tuple[rules.Expression, Sort]] = {
        "dtype": (rules.Dtype(of), Sort.DTYPE),
        "rank": (rules.Rank(of), Sort.NUMBER),
        "shape": (rules.Shape(of), Sort.NUMBERS),
        "dim": (rules.DimAt(of, axis), Sort.NUMBER),
        "size": (rules.Size(of), Sort.NUMBER),
        "bytes": (rules.Bytes(of), Sort.NUMBER),
        "uses": (rules.Uses(of), Sort.NUMBER),
        "has": (rules.Has(of), Sort.TRUTH),
    }
    value, sort = facts[function]
    return Typed(value, sort, span)


def reserved(name: str) -> str:
    """Why `name` cannot name a value or a rule; empty if it can."""
    if "." in name:
        return "a name has no dots"
    if name in _KEYWORDS:
        return f"`{name}` is a word of the language and cannot be a name"
    if name in dtype_names() or long_dtype(name):
        return f"`{name}` is a dtype and cannot be a name"
    return ""


def is_function(name: str) -> bool:
    """Whether `name` is a function of conditions; a predicate cannot have such a name."""
    return name in _FUNCTIONS


_KEYWORDS = frozenset(
    {"_", "and", "else", "false", "in", "not", "or", "pattern", "rule", "target", "true"}
    | {"where", "yield"}
)
