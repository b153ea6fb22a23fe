"""Turn parse trees into the syntax of graphs."""

from math import inf
from typing import Any

from lark import Token, Tree

from collage_dsl.language.syntax import ast, graph_ast
from collage_dsl.language.syntax.tokens import Child, NestingError, Reader, children
from collage_dsl.source import Span


class GraphBuilder(Reader):
    """Builds the syntax of a graph."""

    def graph(
        self, tree: Tree[Any], broken: tuple[ast.Broken, ...], span: Span | None = None
    ) -> graph_ast.Graph:
        """The graph of `tree`, which covers `span`, or the whole text without one."""
        try:
            statements = tuple(self.graph_statement(child) for child in tree.children)
        except NestingError as problem:
            self.too_deep(problem.span)
            statements = ()
        span = span or Span(self.source, 0, len(self.source.text))
        return graph_ast.Graph(statements, span, broken)

    def graph_statement(self, tree: Child) -> graph_ast.Statement:
        match tree.data, tree.children:
            case "input", [name, type_]:
                return graph_ast.Input(self.node_name(name), self.type(type_, 0))
            case "node", [name, type_, value]:
                said = type_ and self.type(type_, 0)
                return graph_ast.Node(self.node_name(name), said, self.node_value(value))
            case _, [*names, comma]:
                is_tuple = comma is not None or len(names) > 1
                return graph_ast.Return(
                    tuple(self.node_name(name) for name in names), is_tuple, self.span(tree)
                )
            case other:
                raise AssertionError(other)

    def node_name(self, tree: Child) -> ast.Name:
        """A name between backticks is the name without them."""
        token = tree.children[0]
        return ast.Name(str(token).strip("`"), self.span_of(token))

    def node_value(self, tree: Child) -> graph_ast.NodeValue:
        match tree.data, tree.children:
            case "graph_call", [operator, operands, attributes]:
                return graph_ast.GraphCall(
                    self.name(operator),
                    tuple(self.graph_operand(child) for child in children(operands)),
                    tuple(self.attribute(child) for child in children(attributes)),
                    self.span(tree),
                )
            case "constant", [type_, value]:
                return self.constant(tree, type_, value)
            case "tuple", names:
                present = (name for name in names if name is not None)
                return graph_ast.Tuple(tuple(map(self.node_name, present)), self.span(tree))
            case "projection", [name, index]:
                of, at = self.node_name(name), self.integer(index)
                return graph_ast.Projection(of, at, self.span(tree))
            case _:
                return self.value(tree, 0)

    def graph_operand(self, tree: Child) -> graph_ast.GraphOperand:
        match tree.data, tree.children:
            case "node_name", _:
                return self.node_name(tree)
            case "constant", [type_, value]:
                return self.constant(tree, type_, value)
            case _:
                return self.value(tree, 0)

    def constant(self, tree: Child, type_: Child, value: Child) -> graph_ast.Constant:
        said = value and self.value(value, 0)
        return graph_ast.Constant(self.tensor_type(type_), said, self.span(tree))

    def attribute(self, tree: Child) -> tuple[ast.Name, graph_ast.Value]:
        name, value = tree.children
        return self.name(name), self.value(value, 0)

    def value(self, tree: Child, depth: int) -> graph_ast.Value:
        self.check_depth(tree, depth)
        span = self.span(tree)
        match tree.data, tree.children:
            case "negative", [_]:
                return ast.Literal(-inf, span)
            case "negative", [minus, number]:
                return ast.Literal(self.number(number, minus), span)
            case "string", [text]:
                return ast.Literal(self.string(text), span)
            case "boolean", [word]:
                return ast.Literal(word.type == "TRUE", span)
            case "none", _:
                return graph_ast.Nothing(span)
            case "name", [name]:
                return self.name(name)
            case _, items:
                values = (self.value(item, depth + 1) for item in items if item is not None)
                return graph_ast.LiteralList(tuple(values), span)

    def type(self, tree: Child, depth: int) -> graph_ast.Type:
        self.check_depth(tree, depth)
        match tree.data, tree.children:
            case "tensor_type", _:
                return self.tensor_type(tree)
            case "tuple_type", fields:
                present = (child for child in fields if child is not None)
                parts = tuple(self.type(child, depth + 1) for child in present)
                return graph_ast.TupleType(parts, self.span(tree))
            case _, [name]:
                return graph_ast.ObjectType(self.name(name), self.span(tree))
            case other:
                raise AssertionError(other)

    def tensor_type(self, tree: Child) -> graph_ast.TensorType:
        dtype, dims = tree.children
        if dims is not None and isinstance(dims.children[0], Token):
            return graph_ast.TensorType(self.name(dtype), None, self.span(tree))
        found = tuple(self.dim(child.children[0]) for child in children(dims))
        return graph_ast.TensorType(self.name(dtype), found, self.span(tree))

    def dim(self, token: Token) -> int | str:
        return self.integer(token) if token.type == "NUMBER" else str(token).strip("`")
