"""Turn the syntax of a condition into a condition of `rules`, and check the types of its parts."""

from dataclasses import dataclass, field, replace
from typing import cast

from collage_dsl.language.messages.advice import fact_meant, function_meant, method_meant
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.messages.hints import did_you_mean, write
from collage_dsl.language.reasoning.attribute_values import stored_length
from collage_dsl.language.resolve.condition_scope import Scope
from collage_dsl.language.resolve.functions import ARGUMENTS, FUNCTIONS, OF_CONSTANTS, fact_of
from collage_dsl.language.resolve.sorts import (
    Sort,
    Typed,
    as_dtype,
    called,
    comparable,
    elements,
    meant,
    sort_of,
)
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.source import Span

_ARITHMETIC = ("+", "-", "*", "/", "%")


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
    elements: set[str] | None = None
    """Inside `all`, the constants whose elements are asked about; else None."""

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
                return self.name(written)
            case ast.Literal(value, span):
                return Typed(rules.Constant(value), sort_of(value), span)
            case ast.List(items, span):
                return self.list(items, span)
            case ast.Elements(of, span):
                return self.each(of, span)
            case ast.Index(of, index, span):
                return self.item(of, index, span)
            case ast.Near():
                return self.near(written)
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

    def name(self, written: ast.Name) -> Typed | None:
        if self.elements is not None and self.scope.is_value(written.text):
            return self.element(written, self.elements)
        typed = self.scope.name(written)
        match typed:
            case Typed(rules.DimAt(of) | rules.AttrOf(of)):  # the name of a dimension
                self.asked.add(of)
        return typed

    def element(self, of: ast.Name, elements: set[str]) -> Typed | None:
        if not self.scope.constant(of):
            return None
        self.asked.add(of.text)
        elements.add(of.text)
        return Typed(rules.Element(of.text), Sort.NUMBER, of.span)

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

    def each(self, of: ast.Name, span: Span) -> Typed | None:
        attribute = self.attribute_with_elements(of, span)
        if attribute is None:
            return None
        return Typed(rules.Each(attribute), Sort.NUMBER, span, attribute=f"{of.text}[*]")

    def item(self, of: ast.Name, index: int, span: Span) -> Typed | None:
        if self.is_value_with_index(of, index, span):
            return None
        attribute = self.attribute_with_elements(of, span)
        if attribute is None:
            return None
        lengths = [stored_length(operator, attribute.name) for operator in self.scope.owners(of)]
        if all(n is not None and not -n <= index < n for n in lengths):
            message = f"`{of.text}` always has {count(lengths[0] or 0, 'number')}"
            hint = "they are counted from 0, or from the last one with -1"
            self.findings.error("E0205", span, message, hint)
            return None
        return Typed(rules.Item(attribute, index), Sort.NUMBER, span, attribute=span.text)

    def is_value_with_index(self, of: ast.Name, index: int, span: Span) -> bool:
        """Whether `of` is a value, or a fact of one as other languages write it; reports it."""
        value, _, fact = of.text.rpartition(".")
        if self.scope.is_value(of.text):
            message = f"`{of.text}` is a value of the model, whose elements are not known here"
            hint = f"write `dim({of.text}, {index})` for a dimension"
            self.findings.error("E0306", span, message, hint)
            return True
        meant = function_meant(of.text, FUNCTIONS) if self.scope.is_value(value) else ""
        if meant:
            is_shape = fact in ("shape", "dim")
            hint = (
                f"write `dim({value}, {index})`" if is_shape else f"{meant}, which has no elements"
            )
            self.findings.error("E0206", of.span, f"unknown name `{of.text}`", hint)
        return bool(meant)

    def attribute_with_elements(self, of: ast.Name, span: Span) -> rules.Attr | rules.AttrOf | None:
        typed = self.name(of)
        if typed is None:
            return None
        is_attribute = isinstance(typed.value, rules.Attr | rules.AttrOf)
        if not is_attribute or typed.sort not in (Sort.NUMBERS, Sort.ANY):
            message = f"`{of.text}` is {typed.sort.value}, which has no elements"
            self.findings.error("E0303", span, message)
            return None
        assert isinstance(typed.value, rules.Attr | rules.AttrOf)
        return typed.value

    def range(self, least: float, most: float, span: Span) -> Typed | None:
        if least > most:
            hint = f"write `{_shown(most)}..{_shown(least)}`"
            self.findings.error("E0302", span, "nothing is in this range", hint)
            return None
        return Typed(rules.Range(least, most), Sort.RANGE, span)

    # Functions.

    def application(self, written: ast.Application) -> Typed | None:
        name = written.function
        if name.text in self.scope.predicates():
            return self.holds(written)
        wanted = ARGUMENTS.get(name.text)
        if wanted is None:
            known = (*ARGUMENTS, *self.scope.predicates())
            said = written.arguments[0].value.span.text if written.arguments else ""
            message = f"unknown function `{name.text}`"
            if method := method_meant(name.text, said, FUNCTIONS):
                self.findings.error("E0401", name.span, message, method, place=written.span)
                return None
            hint: str = fact_meant(name.text) or did_you_mean(name.text, known)
            hint = hint or f"there are {listed(known, 'and')}"
            self.findings.error("E0401", name.span, message, hint)
            return None
        arguments = written.arguments
        if not self.are_so_many(written, wanted):
            return None
        if name.text == "all":
            return self.every(written)
        of = arguments[0].value
        if not isinstance(of, ast.Name):
            message = f"`{name.text}` asks about a value of the pattern, by its name"
            self.findings.error("E0404", of.span, message)
            return None
        axis = self.axis(arguments[1].value) if wanted == 2 else 0
        if not self.scope.fact(name, of) or axis is None:
            return None
        if name.text in OF_CONSTANTS and not self.scope.constant(of):
            return None
        (self.has if name.text == "has" else self.asked).add(of.text)
        return fact_of(name.text, of.text, axis, written.span)

    def every(self, written: ast.Application) -> Typed | None:
        """`all(w >= 0)`: inside, the name of a constant means an element of it."""
        if self.elements is not None:
            message = "`all` does not stand inside `all`"
            self.findings.error("E0303", written.span, message)
            return None
        inner = replace(self, elements=set())
        typed = inner.expression(written.arguments[0].value)
        if typed is None or not inner.is_truth(typed):
            return None
        if not inner.elements:
            message = "`all` asks about every element of a constant, by its name"
            self.findings.error("E0404", typed.span, message, "write `all(w >= 0)`")
            return None
        return Typed(rules.All(typed.value), Sort.TRUTH, written.span)

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
            if len(given) > wanted > 0 and not is_dim:
                kept = ", ".join(each.value.span.text for each in given[:wanted])
                hint = f"write `{function}({kept})`"
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
            if not (self.is_number(left, operator) and self.is_number(right, operator)):
                return None
        else:
            left, right = as_dtype(left, right), as_dtype(right, left)
            if not self.fit(left, right, span):
                return None
        value = rules.Compare(cast(rules.Comparison, operator), left.value, right.value)
        return Typed(value, Sort.TRUTH, span)

    def near(self, written: ast.Near) -> Typed | None:
        left, right = self.expression(written.left), self.expression(written.right)
        if left is None or right is None:
            return None
        if not (self.is_number(left, "~=") & self.is_number(right, "~=")):
            return None
        each = next((t for t in (left, right) if isinstance(t.value, rules.Each)), None)
        if each is not None:
            message = "elements are compared one by one, and not with `~=`"
            self.findings.error("E0303", each.span, message)
            return None
        zero = next((t for t in (left, right) if t.value == rules.Constant(0)), None)
        if zero is not None:
            message = "a tolerance is relative, so that nothing but 0 is near 0"
            self.findings.warning("W0317", zero.span, message, "write `== 0`")
        tolerance = self.tolerance(written.within)
        return Typed(rules.Near(left.value, right.value, tolerance), Sort.TRUTH, written.span)

    def tolerance(self, within: ast.Literal | None) -> float:
        if within is None:
            return rules.TOLERANCE
        if not 0 < within.value < 1:  # type: ignore[operator]
            message = f"a tolerance is between 0 and 1, not {within.span.text}"
            hint = "it is relative: `a ~= b within 0.01` allows one percent"
            self.findings.error("E0311", within.span, message, hint)
        return float(within.value)

    def within(self, left: Typed, right: Typed, span: Span) -> Typed | None:
        if right.sort is Sort.RANGE:
            if not self.is_number(left, "in"):
                return None
            return Typed(rules.Within(left.value, right.value), Sort.TRUTH, span)
        if right.sort in (Sort.NUMBERS, Sort.ANY) and left.sort in (Sort.NUMBER, Sort.ANY):
            return Typed(rules.Within(left.value, right.value), Sort.TRUTH, span)
        if right.sort is not Sort.LIST:
            message = f"`in` needs a list on its right, this is {right.sort.value}"
            self.findings.error("E0303", right.span, message, write(f"[{right.span.text}]"))
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
        if typed.sort is Sort.DTYPE:
            hint = f"write `{typed.span.text} in [f16, f32]` for some dtypes"
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
            self.findings.error(code, span, message, meant(named, other), place=other.span)
            return False
        return True


def _shown(number: float) -> str:
    return f"{number:g}"


def depends(expression: rules.Expression) -> bool:
    """Whether the value of `expression` depends on what is matched."""
    match expression:
        case rules.Constant() | rules.Range():
            return False
        case _:
            inside = rules.parts(expression)
            return not inside or any(map(depends, inside))
