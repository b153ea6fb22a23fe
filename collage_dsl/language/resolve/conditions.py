"""Turn the syntax of a condition into a condition of `rules`, and check the types of its parts."""

from dataclasses import dataclass, field, replace

from collage_dsl.language.messages.advice import fact_meant, function_meant, method_meant
from collage_dsl.language.messages.findings import count, listed
from collage_dsl.language.messages.hints import did_you_mean, write
from collage_dsl.language.messages.idioms import idiom, some_element
from collage_dsl.language.reasoning.operators.attribute_values import stored_length
from collage_dsl.language.resolve.condition_scope import Scope
from collage_dsl.language.resolve.functions import ARGUMENTS, OF_CONSTANTS, fact_of
from collage_dsl.language.resolve.lists_of_names import first_unknown, instead_of_list
from collage_dsl.language.resolve.operations import Operations
from collage_dsl.language.resolve.sorts import (
    Sort,
    Typed,
    sort_of,
)
from collage_dsl.language.syntax import ast
from collage_dsl.rules import condition as rules
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.source import Span

_PLAIN_ITEMS = "a list can contain only numbers, strings, dtypes and lists of them"


@dataclass(slots=True)
class Checker(Operations):
    """
    Check one condition in one scope.

    A wrong part is reported once and becomes None, so that what contains it is not reported too.
    """

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
            case ast.Near(left, right, within, span):
                sides = self.expression(left), self.expression(right)
                if sides[0] is None or sides[1] is None:
                    return None
                return self.near(sides[0], sides[1], within, span)
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
                if self.has_names_in_list(operator, left, right, span):
                    return None
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
                self.findings.error("E0303", item.span, _PLAIN_ITEMS)
                return None
            values.append(item.value.value)
        present = tuple(item for item in items if item is not None)
        return Typed(rules.Constant(tuple(values)), Sort.LIST, span, present)

    def has_names_in_list(
        self, operator: str, left: ast.Expression, right: ast.Expression, span: Span
    ) -> bool:
        """Whether numbers are compared with a list of what depends on the match; reports it."""
        if isinstance(left, ast.List) and operator != "in":
            left, right = right, left
        if operator not in ("==", "!=", "in") or not isinstance(right, ast.List):
            return False
        unknown = first_unknown(right)
        of = unknown and self.expression(left)
        if unknown is None or (of and of.sort not in (Sort.NUMBER, Sort.NUMBERS)):
            return False
        if of:
            hint = instead_of_list(operator, of, right, self.scope)
            self.findings.error("E0303", unknown.span, _PLAIN_ITEMS, hint, place=span)
        return True

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
            message = f"the elements of `{of.text}` are known only when the model runs"
            hint = f"write `dim({of.text}, {index})` for a dimension"
            if (parameter := self.scope.parameter(of.text)) and parameter.constant:
                message = "conditions cannot ask for a single element of a constant"
                hint = f"ask for `value({of.text})`, `min({of.text})` or `all({of.text} == 0)`"
                hint += f"; `dim({of.text}, {index})` is a dimension"
            self.findings.error("E0306", span, message, hint)
            return True
        meant = function_meant(of.text, rules.FUNCTIONS) if self.scope.is_value(value) else ""
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
            is_element = isinstance(typed.value, rules.Element)
            hint = write(of.text, ", which is each element") if is_element else ""
            self.findings.error("E0303", span, message, hint)
            return None
        assert isinstance(typed.value, rules.Attr | rules.AttrOf)
        return typed.value

    def range(self, least: float, most: float, span: Span) -> Typed | None:
        if least > most:
            hint = f"write `{_shown(most)}..{_shown(least)}`"
            self.findings.error("E0302", span, "this range is empty", hint)
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
            texts = [argument.value.span.text for argument in written.arguments]
            said = texts[0] if texts else ""
            message = f"unknown function `{name.text}`"
            if method := method_meant(name.text, said, rules.FUNCTIONS):
                self.findings.error("E0401", name.span, message, method, place=written.span)
                return None
            if some := some_element(name.text, said):
                self.findings.error("E0401", name.span, message, some, place=written.span)
                return None
            instead = idiom(name.text, said)
            if not instead and self.scope.is_other_sort(name):
                return None
            hint: str = instead or fact_meant(name.text, ", ".join(texts))
            hint = hint or did_you_mean(name.text, known) or f"there are {listed(known, 'and')}"
            self.findings.error("E0401", name.span, message, hint)
            return None
        arguments = written.arguments
        if not self.are_so_many(written, wanted):
            return None
        if name.text == "all":
            return self.every(written)
        of = arguments[0].value
        if not isinstance(of, ast.Name):
            message = f"`{name.text}` needs the name of a value of the pattern"
            self.findings.error("E0404", of.span, message, _named(written), place=written.span)
            return None
        axis = self.axis(arguments[1].value) if wanted == 2 else 0
        if not self.scope.fact(name, of) or axis is None:
            return None
        if name.text in OF_CONSTANTS and not self.scope.constant(of):
            return None
        if name.text == "place" and self.elements is None:
            message = "`place` asks about each element, inside `all`"
            hint = f"write `all(… {written.span.text} …)`"
            self.findings.error("E0404", written.span, message, hint)
            return None
        (self.has if name.text == "has" else self.asked).add(of.text)
        return fact_of(name.text, of.text, axis, written.span)

    def every(self, written: ast.Application) -> Typed | None:
        """`all(w >= 0)`: inside, the name of a constant means an element of it."""
        if self.elements is not None:
            message = "`all` cannot be inside `all`"
            self.findings.error("E0303", written.span, message)
            return None
        inner = replace(self, elements=set())
        typed = inner.expression(written.arguments[0].value)
        if typed is None or not inner.is_truth(typed):
            return None
        if not inner.elements:
            message = "`all` needs a condition on the elements of a constant"
            asked = ", ".join(dict.fromkeys(each.of for each in rules.asked_places(typed.value)))
            hint = f"write `all({asked or 'w'} {'== 0 or …' if asked else '>= 0'})`"
            self.findings.error("E0404", typed.span, message, hint)
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
            if len(given) < wanted and (predicate := self.scope.predicates().get(function)):
                hint = f"it is declared as `{function}({', '.join(predicate.parameters)})`"
            texts = [each.value.span.text for each in given]
            if function in ("min", "max") and len(given) > 1:
                which = "least" if function == "min" else "greatest"
                hint = f"`{function}(c)` is the {which} element of a constant; "
                hint += f"compare numbers: `{texts[0]} >= {texts[1]}`"
            elif len(given) > wanted > 0 and not is_dim:
                hint = f"write `{function}({', '.join(texts[:wanted])})`"
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
                message = f"`{name.text}` needs the name of a value of the pattern"
                self.findings.error("E0404", of.span, message, _named(written), place=written.span)
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
        message = "the dimension must be a whole number: `dim(x, 0)`, or `dim(x, -1)` for the last"
        self.findings.error("E0404", written.span, message)
        return None


def _shown(number: float) -> str:
    return f"{number:g}"


def depends(expression: rules.Expression) -> bool:
    """Whether the value of `expression` depends on what is matched."""
    leaves = (part for part in rules.every_part(expression) if not rules.parts(part))
    return not all(isinstance(leaf, rules.Constant | rules.Range) for leaf in leaves)


def _named(written: ast.Application) -> str:
    """What to write in place of a question about something that has no name."""
    function, values = written.function.text, [argument.value for argument in written.arguments]
    match values:
        case [ast.Literal() as axis, ast.Name(name)]:
            return write(f"{function}({name}, {axis.span.text})")
        case [ast.Application() as call, *_]:
            return f"give it a name: write `name = {call.span.text};`, and ask about `name`"
        case _:
            return ""
