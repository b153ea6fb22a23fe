"""Show the values of a model that a condition depends on: `dim(w, 0)` is 17."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from collage_dsl.graph import Node, TensorType
from collage_dsl.rules.condition import (
    UNKNOWN,
    Attr,
    Bytes,
    DimAt,
    Dtype,
    Each,
    Expression,
    Given,
    Has,
    Holds,
    Rank,
    Shape,
    Size,
    Uses,
    parts,
)
from collage_dsl.rules.evaluation import evaluate

Leaf = Attr | Dtype | Rank | DimAt | Shape | Size | Bytes | Has | Uses


@dataclass(frozen=True, slots=True)
class Fact:
    """The question, as in the language, and its value; `unknown` says why the value is unknown."""

    of: str
    value: str
    unknown: str = ""

    def __str__(self) -> str:
        return f"{self.of} is {self.value}" + (f" ({self.unknown})" if self.unknown else "")


def facts(expression: Expression, given: Given) -> tuple[Fact, ...]:
    """The facts in `expression`, each once, in the order written. Does not ask predicates."""
    return tuple(dict.fromkeys(_fact(leaf, given) for leaf in _leaves(expression)))


def has_predicate(expression: Expression) -> bool:
    """Whether the value of `expression` depends on host code."""
    return isinstance(expression, Holds) or any(map(has_predicate, parts(expression)))


def _leaves(expression: Expression) -> Iterator[Leaf]:
    match expression:
        case Attr() | Dtype() | Rank() | DimAt() | Shape() | Size() | Bytes() | Has() | Uses():
            yield expression
        case Each(attribute):
            yield attribute
        case _:
            for part in parts(expression):
                yield from _leaves(part)


def _fact(leaf: Leaf, given: Given) -> Fact:
    if isinstance(leaf, Attr) and given.attrs.get(leaf.name) is None:
        return Fact(leaf.name, "none")
    value = evaluate(leaf, given)
    if isinstance(leaf, Attr):
        return Fact(leaf.name, "unknown" if value is UNKNOWN else _text(value))
    if value is UNKNOWN:
        return Fact(_asked(leaf), "unknown", _why_unknown(leaf, given.bound.get(leaf.of)))
    is_dtype = isinstance(leaf, Dtype)
    return Fact(_asked(leaf), str(value) if is_dtype else _text(value, names=True))


def _asked(leaf: Dtype | Rank | DimAt | Shape | Size | Bytes | Has | Uses) -> str:
    match leaf:
        case DimAt(of, axis):
            return f"dim({of}, {axis})"
        case Dtype(of):
            return f"dtype({of})"
        case Rank(of):
            return f"rank({of})"
        case Shape(of):
            return f"shape({of})"
        case Size(of):
            return f"size({of})"
        case Bytes(of):
            return f"bytes({of})"
        case Has(of):
            return f"has({of})"
        case Uses(of):
            return f"uses({of})"
        case _:
            assert_never(leaf)


def _why_unknown(leaf: Leaf, node: Node | None) -> str:
    if node is None:
        return "it is not there"
    if not isinstance(node.type, TensorType):
        return f"`{node.name}` is no tensor"
    shape = node.type.shape
    if shape is None:
        return f"the rank of `{node.name}` is not known"
    if isinstance(leaf, DimAt):
        if not -len(shape) <= leaf.axis < len(shape):
            return f"`{node.name}` has {len(shape)} dimension{'s' * (len(shape) != 1)}"
        return f"`{shape[leaf.axis]}` is symbolic"
    symbolic = next((dim for dim in shape if isinstance(dim, str)), None)
    return f"`{symbolic}` is symbolic" if symbolic else "its dtype has no known width"


def _text(value: object, *, names: bool = False) -> str:
    """`value` as in the language. With `names`, strings are names of symbolic dimensions."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value if names else f'"{value}"'
        case tuple():
            return f"[{', '.join(_text(item, names=names) for item in value)}]"
        case _:
            return str(value)
