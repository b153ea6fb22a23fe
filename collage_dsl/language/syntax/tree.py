"""Turn parse trees into the syntax of a file."""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from lark import Token, Tree

from collage_dsl.language.syntax import ast
from collage_dsl.language.syntax.tokens import MAX_ITEMS, Child, NestingError, Reader, children
from collage_dsl.rules.placement import Action
from collage_dsl.source import Span

if TYPE_CHECKING:
    from collage_dsl.language.syntax import graph_ast


class Builder(Reader):
    """Builds the syntax of a file."""

    def file(self, tree: Tree[Any]) -> ast.File:
        items: list[ast.Item] = []
        broken: list[ast.Broken] = []
        for child in tree.children:
            try:
                if item := self.item(child):
                    items.append(item)
            except NestingError as problem:
                self.too_deep(problem.span)
                defined = child.children[0]
                name = str(defined) if isinstance(defined, Token) else ""  # a placement has none
                broken.append(ast.Broken(name, self.span(child)))
        return ast.File(tuple(items), tuple(broken))

    def item(self, tree: Child) -> ast.Item | None:
        match tree.data, tree.children:
            case "pattern", [name, parameters, *statements]:
                return ast.Pattern(
                    self.name(name),
                    tuple(self.parameter(child) for child in children(parameters)),
                    tuple(self.statement(child) for child in statements),
                    self.span(tree),
                )
            case "import_as", [table, path, prefix]:
                named = self.string(path), self.name(prefix), ()
                return ast.Import(*named, self.span_of(path), table is not None)
            case "import_only", [table, path, *names]:
                brought = self.string(path), None, tuple(map(self.imported, names))
                return ast.Import(*brought, self.span_of(path), table is not None)
            case "let", [name, value]:
                return ast.Let(self.name(name), self.expression(value, 0))
            case "predicate", [name, parameters, source]:
                asked = tuple(map(self.name, children(parameters)))
                said = self.string(source)
                return ast.Predicate(self.name(name), asked, said, self.span_of(source))
            case "rule", [name, parameters, value]:
                given = tuple(map(self.name, children(parameters)))
                return ast.Rule(self.name(name), self.expression(value, 0), given)
            case "target", [name, kind, options, *settings]:
                return ast.Target(
                    self.name(name),
                    self.name(kind),
                    self.arguments(options, 0),
                    tuple(self.setting(child) for child in settings),
                    self.span(tree),
                )
            case "pin" | "forbid" as word, [selector, target, reason]:
                action: Action = "pin" if word == "pin" else "forbid"
                selects = self.expression(selector, 0)
                assert isinstance(selects, ast.Application)
                said = "" if reason is None else self.string(reason)
                return ast.Placement(action, selects, self.name(target), said)
            case "test", [name, *statements]:
                found = tuple(self.test_statement(child) for child in statements)
                said = self.string(name)
                return ast.Test(said, found, self.span_of(name), self.span(tree))
        return None

    def imported(self, tree: Child) -> ast.Imported:
        name, visible = tree.children
        return ast.Imported(self.name(name), self.name(visible or name))

    # Patterns.

    def parameter(self, tree: Child) -> ast.Parameter:
        name, optional, *sort = tree.children
        tag: ast.Name | ast.Excluded | None = None
        dims = None
        for part in sort:
            if isinstance(part, Token):
                tag = self.name(part)
            elif part is not None and part.data == "excluded":
                names = tuple(self.name(each) for each in part.children[1:])
                tag = ast.Excluded(names, self.span(part))
            elif part is not None:
                dims = self.dims(part)
        return ast.Parameter(self.name(name), optional is not None, tag, dims)

    def dims(self, tree: Child) -> ast.Dims:
        tokens = [dim.children[0] for dim in children(tree) if dim is not None]
        return ast.Dims(
            tuple(
                self.name(token)
                if token.type != "NUMBER"
                else ast.Literal(self.integer(token), self.span_of(token))
                for token in tokens
            ),
            self.span(tree),
        )

    def statement(self, tree: Child) -> ast.PatternStatement:
        match tree.data, tree.children:
            case "binding", [name, value]:
                return ast.Binding(self.name(name), self.operand(value, 0))
            case "where", [condition, reason]:
                said = "" if reason is None else self.string(reason)
                return ast.Where(self.expression(condition, 0), said)
            case "taps", [value]:
                return ast.Taps(self.name(value))
            case "anchor", [name]:
                return ast.Anchor(self.name(name))
            case _, names:
                return ast.Yield(tuple(map(self.name, names)), self.span(tree))

    def operand(self, tree: Child, depth: int) -> ast.Operand:
        self.check_depth(tree, depth)
        match tree.data, tree.children:
            case "name", [name]:
                return self.name(name)
            case "number", [_]:
                return ast.Number(-inf, False, self.span(tree))
            case "number", [minus, number]:
                return ast.Number(self.number(number, minus), False, self.span(tree))
            case "number", [_, minus, number, within]:
                said = within and ast.Literal(self.number(within), self.span_of(within))
                return ast.Number(self.number(number, minus), True, self.span(tree), said)
            case "list_of", items:
                return self.list_of([item for item in items if item is not None], self.span(tree))
            case "either", [choice]:  # parentheses around one
                return self.operand(choice, depth + 1)
            case "either", choices:
                found = tuple(self.operand(child, depth + 1) for child in choices)
                return ast.Either(found, self.span(tree))
            case "tuple_of", [first, others]:
                fields = (self.operand(child, depth + 1) for child in [first, *children(others)])
                return ast.TupleOf(tuple(fields), self.span(tree))
            case "field_of", [of, index]:
                inner = self.operand(of, depth + 1)
                return ast.FieldOf(inner, self.integer(index), self.span(tree))
            case "repeat", [least, most, call]:
                bounds = self.integer(least), self.integer(most)
                inner = self.operand(call, depth + 1)
                assert isinstance(inner, ast.OperatorCall)
                return ast.Repeat(*bounds, inner, self.span(tree))
            case "each", [least, most, field]:
                bounds = self.integer(least), self.integer(most)
                return ast.TupleOfEach(*bounds, self.operand(field, depth + 1), self.span(tree))
            case "path", [least, most, called, origin]:
                bounds = self.integer(least), self.integer(most)
                choices = called.children if called.data == "either" else [called]
                operators = tuple(self.operand(child, depth + 1) for child in choices)
                from_there = self.operand(origin, depth + 1)
                return ast.PathFrom(*bounds, operators, from_there, self.span(tree))
            case "operator_call", [called, optional, operands, attributes, *modifiers]:
                choices = called.children if called.data == "either" else [called]
                return ast.OperatorCall(
                    tuple(self.operand(child, depth + 1) for child in choices),
                    optional is not None,
                    tuple(self.operand(child, depth + 1) for child in children(operands)),
                    tuple(self.expression(child, depth + 1) for child in children(attributes)),
                    self.span(tree),
                    tuple(map(self.name, modifiers)),
                )
            case other:
                raise AssertionError(other)

    def list_of(self, items: Sequence[Child], span: Span) -> ast.ListOf:
        if len(items) > MAX_ITEMS:
            self.too_long(span)
        return ast.ListOf(tuple(map(self.list_item, items[:MAX_ITEMS])), span)

    def list_item(self, tree: Child) -> ast.Name | ast.Literal:
        *minus, token = tree.children
        if token.type != "NUMBER":
            return self.name(token)
        number = self.integer(token)
        return ast.Literal(-number if any(minus) else number, self.span(tree))

    # Targets.

    def setting(self, tree: Child) -> ast.Field | ast.Block:
        if tree.data == "field":
            return self.field(tree)
        name, *fields = tree.children
        return ast.Block(self.name(name), tuple(self.field(child) for child in fields))

    def field(self, tree: Child) -> ast.Field:
        name, value = tree.children
        if isinstance(value, Token) and value.type == "PERCENT":
            percent = ast.Percent(self.part(value), self.span_of(value))
            return ast.Field(self.name(name), percent)
        if isinstance(value, Token):
            duration = ast.Duration(self.seconds(value), self.span_of(value))
            return ast.Field(self.name(name), duration)
        return ast.Field(self.name(name), value and self.expression(value, 0))

    # Tests.

    def test_statement(self, tree: Child) -> "graph_ast.Graph | ast.Model | ast.Costs | ast.Expect":
        match tree.data, tree.children:
            case "model", [path]:
                return ast.Model(self.string(path), self.span(tree))
            case "costs", tables:
                return ast.Costs(tuple(map(self.target_costs, tables)), self.span(tree))
            case "expect", [expectation]:
                return ast.Expect(self.expression(expectation, 0))
            case _:
                from collage_dsl.language.syntax.graph_tree import GraphBuilder  # few files need it

                return GraphBuilder(self.source, self.findings).graph(tree, (), self.span(tree))

    def target_costs(self, tree: Child) -> ast.TargetCosts:
        name, *prices = tree.children
        found = (price.children for price in prices)
        return ast.TargetCosts(
            self.name(name),
            tuple(
                ast.Price(self.string(ops), self.seconds(price), self.span_of(ops))
                for ops, price in found
            ),
        )

    # Expressions.

    def expression(self, tree: Child, depth: int) -> ast.Expression:
        self.check_depth(tree, depth)
        span = self.span(tree)
        match tree.data, tree.children:
            case "name", [name]:
                return self.name(name)
            case "elements", [name, _]:
                return ast.Elements(self.name(name), span)
            case "item", [name, minus, index]:
                place = self.integer(index)
                return ast.Index(self.name(name), place if minus is None else -place, span)
            case "near", [left, right, within]:
                return self.near(left, right, within, span, depth)
            case "range", [minus, least, other_minus, most]:
                bounds = self.number(least, minus), self.number(most, other_minus)
                return ast.Range(*bounds, span)
            case "negative", [_]:
                return ast.Literal(-inf, span)
            case "negative", [minus, number]:
                return ast.Literal(self.number(number, minus), span)
            case "string", [text]:
                return ast.Literal(self.string(text), span)
            case "boolean", [word]:
                return ast.Literal(word.type == "TRUE", span)
            case "list", items:
                if len(items) > MAX_ITEMS:
                    self.too_long(span)
                present = [item for item in items[:MAX_ITEMS] if item is not None]
                return ast.List(tuple(self.expression(i, depth + 1) for i in present), span)
            case "application", [function, arguments]:
                return ast.Application(
                    self.name(function), self.arguments(arguments, depth + 1), span
                )
            case "arrow", [left, right]:
                return ast.Arrow(self.name(left), self.name(right), span)
            case "disjunction" | "conjunction" as word, operands:
                operator = "or" if word == "disjunction" else "and"
                return self.chain(tree, [operands[0], *_between(operator, operands[1:])], depth)
            case "negation", [*nots, operand]:
                depth += len(nots)
                self.check_depth(tree, depth)
                result = self.expression(operand, depth)
                for word in reversed(nots):
                    at = Span(self.source, self.span_of(word).start, span.end)
                    result = ast.Operation("not", None, result, at)
                return result
            case "comparison" | "sum" | "product", operands:
                return self.chain(tree, operands, depth)
            case other:
                raise AssertionError(other)

    def near(
        self, left: Child, right: Child, within: Token | None, span: Span, depth: int
    ) -> ast.Near:
        sides = self.expression(left, depth + 1), self.expression(right, depth + 1)
        tolerance = within and ast.Literal(self.number(within), self.span_of(within))
        return ast.Near(*sides, tolerance or None, span)

    def chain(self, tree: Tree[Any], parts: Sequence[Child], depth: int) -> ast.Expression:
        """A chain of operators groups from the left: `a - b - c` is `(a - b) - c`."""
        depth += len(parts) // 2
        self.check_depth(tree, depth)
        span = self.span(tree)
        result = self.expression(parts[0], depth)
        for operator, operand in zip(parts[1::2], parts[2::2], strict=True):
            right = self.expression(operand, depth)
            is_last = operand is parts[-1]
            so_far = span if is_last else Span(self.source, span.start, right.span.end)
            result = ast.Operation(str(operator), result, right, so_far)
        return result

    def arguments(self, tree: Child, depth: int) -> tuple[ast.Argument, ...]:
        found = []
        for argument in children(tree):
            name, value = argument.children
            found.append(ast.Argument(name and self.name(name), self.expression(value, depth)))
        return tuple(found)


def _between(operator: str, operands: Sequence[Child]) -> list[Child]:
    return [part for operand in operands for part in (operator, operand)]
