"""Replace symbolic dimensions of a graph by numbers."""

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import replace

from collage_dsl.graph.graph import Graph, Node
from collage_dsl.graph.types import Dim, Form, OpaqueType, TensorType, TupleType, Type

Sizes = Mapping[str, int]
"""The number for each symbolic dimension, by name."""

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS: dict[str, Callable[[int, int], int]] = {"min": min, "max": max}


def with_sizes(graph: Graph, sizes: Sizes) -> Graph:
    """`graph` with a number for each dimension that `sizes` determines; others are unchanged."""
    return Graph(
        [_node(node, sizes) for node in graph.nodes],
        graph.outputs,
        name=graph.name,
        returns_tuple=graph.returns_tuple,
        output_names=graph.output_names,
    )


def size_of(dim: Dim, sizes: Sizes) -> Dim:
    """`dim` as a number if `sizes` has every name in it, else unchanged."""
    if isinstance(dim, int):
        return dim
    try:
        return _evaluated(ast.parse(dim, mode="eval").body, sizes)
    except (SyntaxError, LookupError, ZeroDivisionError):
        return dim


def names_in(dim: Dim) -> frozenset[str]:
    """The names in a dimension: `n` of `n * 2`."""
    if isinstance(dim, int):
        return frozenset()
    try:
        parts = ast.walk(ast.parse(dim, mode="eval"))
    except SyntaxError:
        return frozenset()
    return frozenset(part.id for part in parts if isinstance(part, ast.Name)) - set(_FUNCTIONS)


def _evaluated(tree: ast.expr, sizes: Sizes) -> int:
    """The value of an expression of names and numbers. Raises LookupError for anything else."""
    match tree:
        case ast.Constant(value=int() as number):
            return number
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)](_evaluated(left, sizes), _evaluated(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=[left, right]):
            return _FUNCTIONS[name](_evaluated(left, sizes), _evaluated(right, sizes))
    raise LookupError(ast.unparse(tree))


def _node(node: Node, sizes: Sizes) -> Node:
    value: object = node.value
    if node.form is Form.LITERAL and node.type == OpaqueType("shape") and isinstance(value, tuple):
        value = tuple(size_of(dim, sizes) for dim in value)
    return replace(node, type=_type(node.type, sizes), value=value)


def _type(type_: Type, sizes: Sizes) -> Type:
    match type_:
        case TensorType(dtype, shape) if shape is not None:
            return TensorType(dtype, tuple(size_of(dim, sizes) for dim in shape))
        case TupleType(fields):
            return TupleType(tuple(_type(field, sizes) for field in fields))
    return type_
