"""From the trees of the parser library to syntax."""

from collections.abc import Sequence
from typing import Any

from lark import Token, Tree

from collage_dsl.language import syntax
from collage_dsl.language.findings import Findings
from collage_dsl.source import Source, Span

MAX_DEPTH = 200
"""How deep syntax may be; what walks it calls itself."""

_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\"}

Child = Any
"""A `Tree`, a `Token`, or None for what is not there."""


class _NestingError(Exception):
    """A part of an item is nested more deeply than may be."""

    def __init__(self, span: Span) -> None:
        super().__init__("nested too deeply")
        self.span = span


class Builder:
    """Builds the syntax of one source."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings

    def file(self, tree: Tree[Token]) -> syntax.File:
        said = tree.children and _data(tree.children[0]) == "edition"
        if not said and not self.source.text.lstrip().startswith("collage"):
            self.no_edition()
        items: list[syntax.Item] = []
        broken: list[syntax.Broken] = []
        for child in tree.children:
            try:
                if item := self.item(child):
                    items.append(item)
            except _NestingError as problem:
                self.too_deep(problem.span)
                name = self.name(child.children[0])  # type: ignore[union-attr]
                broken.append(syntax.Broken(name.text, self.span(child)))
        return syntax.File(tuple(items), tuple(broken))

    def no_edition(self) -> None:
        at = Span(self.source, 0, 0)
        message = "the file does not say which edition of the language it is in"
        self.findings.error("E0103", at, message, "begin with `collage 1;`")

    def too_deep(self, span: Span) -> None:
        message = f"this is nested more than {MAX_DEPTH} deep"
        self.findings.error("E0105", span, message, "give parts of it a name")

    def item(self, tree: Child) -> syntax.Item | None:
        match tree.data, tree.children:
            case "pattern", [name, parameters, *statements]:
                return syntax.Pattern(
                    self.name(name),
                    tuple(self.parameter(child) for child in _children(parameters)),
                    tuple(self.statement(child) for child in statements),
                    self.span(tree),
                )
            case "rule", [name, value]:
                return syntax.Rule(self.name(name), self.expression(value, 0))
            case "target", [name, kind, options, *settings]:
                return syntax.Target(
                    self.name(name),
                    self.name(kind),
                    self.arguments(options, 0),
                    tuple(self.setting(child) for child in settings),
                    self.span(tree),
                )
        return None

    # Patterns.

    def parameter(self, tree: Child) -> syntax.Parameter:
        name, optional, tag = tree.children
        return syntax.Parameter(self.name(name), optional is not None, tag and self.name(tag))

    def statement(self, tree: Child) -> syntax.Binding | syntax.Where | syntax.Yield:
        match tree.data, tree.children:
            case "binding", [name, value]:
                return syntax.Binding(self.name(name), self.operand(value, 0))
            case "where", [condition, reason]:
                said = "" if reason is None else self.string(reason)
                return syntax.Where(self.expression(condition, 0), said)
            case _:
                return syntax.Yield(self.name(tree.children[0]), self.span(tree))

    def operand(self, tree: Child, depth: int) -> syntax.Operand:
        self.check_depth(tree, depth)
        match tree.data, tree.children:
            case "name", [name]:
                return self.name(name)
            case "number", [approximate, minus, number]:
                value = self.number(number, minus)
                return syntax.Number(value, approximate is not None, self.span(tree))
            case _, [operators, optional, operands, attributes]:
                return syntax.OperatorCall(
                    tuple(self.name(name) for name in operators.children),
                    optional is not None,
                    tuple(self.operand(child, depth + 1) for child in _children(operands)),
                    tuple(self.expression(child, depth + 1) for child in _children(attributes)),
                    self.span(tree),
                )
            case other:
                raise AssertionError(other)

    # Targets.

    def setting(self, tree: Child) -> syntax.Field | syntax.Block:
        if tree.data == "field":
            return self.field(tree)
        name, *fields = tree.children
        return syntax.Block(self.name(name), tuple(self.field(child) for child in fields))

    def field(self, tree: Child) -> syntax.Field:
        name, value = tree.children
        return syntax.Field(self.name(name), value and self.expression(value, 0))

    # Expressions.

    def expression(self, tree: Child, depth: int) -> syntax.Expression:
        self.check_depth(tree, depth + len(tree.children) - 1)
        span = self.span(tree)
        match tree.data, tree.children:
            case "name", [name]:
                return self.name(name)
            case "negative", [minus, number]:
                return syntax.Literal(self.number(number, minus), span)
            case "string", [text]:
                return syntax.Literal(self.string(text), span)
            case "boolean", [word]:
                return syntax.Literal(word.type == "TRUE", span)
            case "list", items:
                present = (item for item in items if item is not None)
                return syntax.List(tuple(self.expression(i, depth + 1) for i in present), span)
            case "application", [function, arguments]:
                return syntax.Application(
                    self.name(function), self.arguments(arguments, depth + 1), span
                )
            case "arrow", [left, right]:
                return syntax.Arrow(self.name(left), self.name(right), span)
            case "disjunction" | "conjunction" as word, operands:
                operator = "or" if word == "disjunction" else "and"
                return self.chain(span, [operands[0], *_between(operator, operands[1:])], depth)
            case "negation", [*nots, operand]:
                result = self.expression(operand, depth + len(nots))
                for word in reversed(nots):
                    at = Span(self.source, self.span_of(word).start, span.end)
                    result = syntax.Operation("not", None, result, at)
                return result
            case "comparison" | "sum" | "product", operands:
                return self.chain(span, operands, depth)
            case other:
                raise AssertionError(other)

    def chain(self, span: Span, parts: Sequence[Child], depth: int) -> syntax.Expression:
        """`a - b - c` is `(a - b) - c`."""
        depth += len(parts) // 2
        result = self.expression(parts[0], depth)
        for operator, operand in zip(parts[1::2], parts[2::2], strict=True):
            right = self.expression(operand, depth)
            is_last = operand is parts[-1]
            so_far = span if is_last else Span(self.source, span.start, right.span.end)
            result = syntax.Operation(str(operator), result, right, so_far)
        return result

    def arguments(self, tree: Child, depth: int) -> tuple[syntax.Argument, ...]:
        found = []
        for argument in _children(tree):
            name, value = argument.children
            found.append(syntax.Argument(name and self.name(name), self.expression(value, depth)))
        return tuple(found)

    # Graphs.

    def graph(self, tree: Tree[Token]) -> syntax.Graph:
        try:
            statements = tuple(self.graph_statement(child) for child in tree.children)
        except _NestingError as problem:
            self.too_deep(problem.span)
            statements = ()
        return syntax.Graph(statements, Span(self.source, 0, len(self.source.text)), ())

    def graph_statement(self, tree: Child) -> syntax.Input | syntax.Node | syntax.Return:
        match tree.data, tree.children:
            case "input", [name, type_]:
                return syntax.Input(self.node_name(name), self.type(type_, 0))
            case "node", [name, type_, value]:
                said = type_ and self.type(type_, 0)
                return syntax.Node(self.node_name(name), said, self.node_value(value))
            case _, [*names, comma]:
                is_tuple = comma is not None or len(names) > 1
                return syntax.Return(
                    tuple(self.node_name(name) for name in names), is_tuple, self.span(tree)
                )
            case other:
                raise AssertionError(other)

    def node_name(self, tree: Child) -> syntax.Name:
        """A name between backticks is the name without them."""
        token = tree.children[0]
        return syntax.Name(str(token).strip("`"), self.span_of(token))

    def node_value(self, tree: Child) -> syntax.NodeValue:
        match tree.data, tree.children:
            case "graph_call", [operator, operands, attributes]:
                return syntax.GraphCall(
                    self.name(operator),
                    tuple(self.graph_operand(child) for child in _children(operands)),
                    tuple(self.attribute(child) for child in _children(attributes)),
                    self.span(tree),
                )
            case "constant", [type_, value]:
                return self.constant(tree, type_, value)
            case "tuple", names:
                present = (name for name in names if name is not None)
                return syntax.Tuple(tuple(map(self.node_name, present)), self.span(tree))
            case "projection", [name, index]:
                return syntax.Projection(self.node_name(name), self.integer(index), self.span(tree))
            case _:
                return self.value(tree, 0)

    def graph_operand(self, tree: Child) -> syntax.GraphOperand:
        match tree.data, tree.children:
            case "node_name", _:
                return self.node_name(tree)
            case "constant", [type_, value]:
                return self.constant(tree, type_, value)
            case _:
                return self.value(tree, 0)

    def constant(self, tree: Child, type_: Child, value: Child) -> syntax.Constant:
        said = value and self.value(value, 0)
        return syntax.Constant(self.tensor_type(type_), said, self.span(tree))

    def attribute(self, tree: Child) -> tuple[syntax.Name, syntax.Value]:
        name, value = tree.children
        return self.name(name), self.value(value, 0)

    def value(self, tree: Child, depth: int) -> syntax.Value:
        self.check_depth(tree, depth)
        span = self.span(tree)
        match tree.data, tree.children:
            case "negative", [minus, number]:
                return syntax.Literal(self.number(number, minus), span)
            case "string", [text]:
                return syntax.Literal(self.string(text), span)
            case "boolean", [word]:
                return syntax.Literal(word.type == "TRUE", span)
            case "none", _:
                return syntax.Nothing(span)
            case "name", [name]:
                return self.name(name)
            case _, items:
                values = (self.value(item, depth + 1) for item in items if item is not None)
                return syntax.LiteralList(tuple(values), span)

    def type(self, tree: Child, depth: int) -> syntax.Type:
        self.check_depth(tree, depth)
        match tree.data, tree.children:
            case "tensor_type", _:
                return self.tensor_type(tree)
            case "tuple_type", fields:
                present = (child for child in fields if child is not None)
                parts = tuple(self.type(child, depth + 1) for child in present)
                return syntax.TupleType(parts, self.span(tree))
            case _, [name]:
                return syntax.ObjectType(self.name(name), self.span(tree))
            case other:
                raise AssertionError(other)

    def tensor_type(self, tree: Child) -> syntax.TensorType:
        dtype, dims = tree.children
        if dims is not None and isinstance(dims.children[0], Token):
            return syntax.TensorType(self.name(dtype), None, self.span(tree))
        found = tuple(self.dim(child.children[0]) for child in _children(dims))
        return syntax.TensorType(self.name(dtype), found, self.span(tree))

    def dim(self, token: Token) -> int | str:
        return self.integer(token) if token.type == "NUMBER" else str(token).strip("`")

    # Tokens.

    def name(self, token: Child) -> syntax.Name:
        return syntax.Name(str(token), self.span_of(token))

    def string(self, token: Token) -> str:
        """The text between the quotes, escapes replaced."""
        text, result, at = str(token)[1:-1], [], 0
        while (slash := text.find("\\", at)) >= 0:
            result.append(text[at:slash])
            at = slash + 2
            escaped = text[slash + 1]
            if escaped not in _ESCAPES:
                start = self.span_of(token).start + 1 + slash
                span = Span(self.source, start, start + 2)
                known = r"the escapes are `\"`, `\\`, `\n`, `\r` and `\t`"
                self.findings.error("E0104", span, f"unknown escape `\\{escaped}`", known)
            result.append(_ESCAPES.get(escaped, ""))
        return "".join(result) + text[at:]

    def number(self, token: Token, minus: Token | None = None) -> int | float:
        text = str(token)
        is_integer = text.isdigit()
        if is_integer and len(text) <= 18:
            value: int | float = int(text)
        else:
            value = 10**18 if is_integer else float(text)
            if is_integer or value == float("inf"):
                self.findings.error("E0107", self.span_of(token), "this number is too large")
        return value if minus is None else -value

    def integer(self, token: Token) -> int:
        value = self.number(token)
        if isinstance(value, int):
            return value
        if not str(token).isdigit():
            self.findings.error("E0101", self.span_of(token), "expected a whole number")
        return 0

    # Spans.

    def span(self, tree: Child) -> Span:
        return Span(self.source, tree.meta.start_pos, tree.meta.end_pos)

    def span_of(self, token: Token) -> Span:
        assert token.start_pos is not None
        return Span(self.source, token.start_pos, token.start_pos + len(token))

    def check_depth(self, tree: Child, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _NestingError(self.span(tree))


def _data(child: Child) -> str:
    return str(getattr(child, "data", ""))


def _children(tree: Child) -> list[Child]:
    return [] if tree is None else list(tree.children)


def _between(operator: str, operands: Sequence[Child]) -> list[Child]:
    return [part for operand in operands for part in (operator, operand)]
