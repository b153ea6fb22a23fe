"""Replace symbolic dimensions of a graph by numbers."""

import ast
import operator
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from collage_dsl.graph.graph import Graph, Node
from collage_dsl.graph.types import Dim, Form, OpaqueType, TensorType, TupleType, Type

UNKNOWN = "?"
"""A dimension of which nothing is known, where the rank is."""

Value = TypeVar("Value")

Sizes = Mapping[str, int]
"""The number for each symbolic dimension, by name."""

_SIGNS: dict[type, str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_FUNCTIONS = ("min", "max")
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}


_NO_FORMULA = (SyntaxError, ValueError, MemoryError, RecursionError)
"""What Python's parser raises for the names that people give to dimensions."""


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
        return computed(
            dim,
            number=int,
            named=sizes.__getitem__,
            joined=lambda sign, left, right: _ARITHMETIC[sign](left, right),
        )
    except (*_NO_FORMULA, LookupError, ZeroDivisionError):
        return dim


@lru_cache(maxsize=4096)
def names_in(dim: Dim) -> frozenset[str]:
    """The names in a dimension: `n` of `n * 2`."""
    if isinstance(dim, int):
        return frozenset()
    try:
        parts = ast.walk(ast.parse(dim, mode="eval"))
    except _NO_FORMULA:
        return frozenset()
    return frozenset(part.id for part in parts if isinstance(part, ast.Name)) - set(_FUNCTIONS)


def plain_names(dims: Iterable[Dim]) -> dict[str, str]:
    """
    Names for those of the dimensions of all inputs that have none: for `seq-len`, which is no
    difference, `seq_len`. A formula of dimensions with names, such as `past + n`, stays as it is.
    """
    texts = dict.fromkeys(dim for dim in dims if isinstance(dim, str) and dim != UNKNOWN)
    plain = set(filter(_is_name, texts))
    found: dict[str, str] = {}
    for text in texts:
        if text in plain or (_is_formula(text) and names_in(text) <= plain):
            continue
        name = base = _like_a_name(text)
        number = 1
        while name in plain or name in found.values() or not _is_name(name):
            number += 1
            name = f"{base}_{number}"
        found[text] = name
    return found


def _is_name(text: str) -> bool:
    """Whether a formula can have `text` as a name: no keyword, nor what Python spells otherwise."""
    return names_in(text) == {text}


def _like_a_name(text: str) -> str:
    """`text` with another character for each that a name cannot have."""
    text = unicodedata.normalize("NFKC", text)[:40]
    name = re.sub(r"\W", "_", f"_{text}" if text[:1].isdigit() else text) or "_"
    return name if name.isidentifier() else "_" + re.sub(r"\W", "_", name, flags=re.ASCII)


def _is_formula(text: str) -> bool:
    return isinstance(size_of(text, dict.fromkeys(names_in(text), 1)), int)


def no_dimension(name: str, known: Iterable[str]) -> str:
    """What a message says of a `name` that is none of those of dimensions of inputs."""
    listed = ", ".join(f"`{each}`" for each in known)
    others = f"those with names are {listed}" if listed else "none has a name"
    return f"no input has a dimension `{name}`; {others}"


def follows(dim: Dim, given: Collection[Dim]) -> bool:
    """Whether a dimension is one of those that are given, or is computed from such."""
    names = names_in(dim)
    is_given = dim in given and dim != UNKNOWN
    return isinstance(dim, int) or is_given or (bool(names) and names <= set(given))


def may_be(dims: Sequence[Dim] | None, shape: Sequence[int]) -> bool:
    """Whether a tensor with these dimensions may have a shape: where they are numbers, the same."""
    if dims is None:
        return True
    pairs = zip(dims, shape, strict=False)
    is_same = all(dim == size or isinstance(dim, str) for dim, size in pairs)
    return is_same and len(dims) == len(shape)


def computed(
    dim: str,
    *,
    number: Callable[[int], Value],
    named: Callable[[str], Value],
    joined: Callable[[str, Value, Value], Value],
) -> Value:
    """
    What a dimension comes to: of `n * 2`, the product of what `named` and `number` give. The signs
    are `+`, `-`, `*`, `//`, `%`, `min` and `max`. Raises SyntaxError or LookupError for what is no
    dimension, and what the functions raise.
    """

    def of(tree: ast.expr) -> Value:
        match tree:
            case ast.Constant(value=int() as value) if not isinstance(value, bool):
                return number(value)
            case ast.UnaryOp(ast.USub(), ast.Constant(value=int() as value)):
                return number(-value)
            case ast.Name(id=name):
                return named(name)
            case ast.BinOp(left, sign, right):
                return joined(_SIGNS[type(sign)], of(left), of(right))
            case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in _FUNCTIONS:
                return joined(name, of(left), of(right))
        raise LookupError(ast.unparse(tree))

    return of(_parsed(dim))


@lru_cache(maxsize=4096)
def _parsed(dim: str) -> ast.expr:
    return ast.parse(dim, mode="eval").body


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
