"""Show the values of a model that a condition depends on: `dim(w, 0)` is 17."""

from collections.abc import Iterator
from dataclasses import dataclass

from collage_dsl.graph import Node, TensorType
from collage_dsl.graph.sizes import UNKNOWN as UNKNOWN_DIM
from collage_dsl.rules.condition import (
    UNKNOWN,
    All,
    Attr,
    AttrOf,
    Bytes,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Element,
    Expression,
    Given,
    Has,
    Holds,
    Max,
    Min,
    Place,
    Question,
    Rank,
    Shape,
    Size,
    Uses,
    ValueOf,
    every_part,
    parts,
)
from collage_dsl.rules.contents import ends
from collage_dsl.rules.evaluation import elements_together, evaluate
from collage_dsl.rules.lists import dims_of_list
from collage_dsl.rules.written import question_text

Leaf = Attr | AttrOf | All | Question


@dataclass(frozen=True, slots=True)
class Fact:
    """
    The question, as in the language, and its value. If the value is unknown, `unknown` says why,
    and `node` is the name of the node that the question is about.
    """

    of: str
    value: str
    unknown: str = ""
    node: str = ""

    def __str__(self) -> str:
        return f"{self.of} is {self.value}" + (f" ({self.unknown})" if self.unknown else "")


def facts(expression: Expression, given: Given) -> tuple[Fact, ...]:
    """The facts in `expression`, each once, in the order written. Does not ask predicates."""
    return tuple(dict.fromkeys(f for leaf in _leaves(expression) for f in _facts(leaf, given)))


def has_predicate(expression: Expression) -> bool:
    """Whether the value of `expression` depends on host code."""
    return any(isinstance(part, Holds) for part in every_part(expression))


def _leaves(expression: Expression) -> Iterator[Leaf]:
    match expression:
        case Attr() | AttrOf() | ValueOf() | Min() | Max():
            yield expression
        case Dtype() | Rank() | DimAt() | Shape() | Size() | Bytes() | Has() | Uses():
            yield expression
        case Element(of):
            yield Min(of)
            yield Max(of)
        case Place():
            pass
        case All():
            yield from _leaves(expression.condition)
            yield expression
        case _:
            for part in parts(expression):
                yield from _leaves(part)


def _facts(leaf: Leaf, given: Given) -> Iterator[Fact]:
    match leaf:
        case Attr(name):
            yield _attribute(name, leaf, given)
        case AttrOf(of, name):
            if of in given.bound:
                yield _attribute(f"{of}.{name}", leaf, given)
            else:
                yield Fact(f"{of}.{name}", "unknown", "it is not there")
        case All(condition):
            if evaluate(leaf, given) is UNKNOWN:
                why = elements_together(condition, given)
                if isinstance(why, str):
                    yield Fact("all(…)", "unknown", why)
        case _:
            yield _fact(leaf, given)


def _attribute(asked: str, leaf: Attr | AttrOf, given: Given) -> Fact:
    if evaluate(Compare("==", leaf, Constant(None)), given) is True:
        return Fact(asked, "none")
    value = evaluate(leaf, given)
    return Fact(asked, "unknown" if value is UNKNOWN else _text(value))


def _fact(leaf: Question, given: Given) -> Fact:
    value = evaluate(leaf, given)
    if value is UNKNOWN:
        node = given.bound.get(leaf.of)
        return Fact(
            question_text(leaf), "unknown", _why_unknown(leaf, node), node.name if node else ""
        )
    is_dtype = isinstance(leaf, Dtype)
    return Fact(question_text(leaf), str(value) if is_dtype else _text(value, names=True))


def _why_unknown(leaf: Question, node: Node | None) -> str:
    if isinstance(leaf, ValueOf | Min | Max):
        found = ends(node)
        return found.unknown or f"its elements are from {found.least} to {found.most}"
    if node is None:
        return "it is not there"
    items = dims_of_list(node)
    if not isinstance(node.type, TensorType) and items is None:
        return f"`{node.name}` is no tensor"
    shape = node.type.shape if isinstance(node.type, TensorType) else items
    if shape is None:
        return f"the rank of `{node.name}` is not known"
    if isinstance(leaf, Dtype):
        return f"the dtype of `{node.name}` is not known"
    if isinstance(leaf, DimAt):
        if not -len(shape) <= leaf.axis < len(shape):
            return f"`{node.name}` has {len(shape)} dimension{'s' * (len(shape) != 1)}"
        return _unknown_dim(str(shape[leaf.axis]))
    if items is not None:
        return f"`{node.name}` is a list"
    symbolic = next((dim for dim in shape if isinstance(dim, str)), None)
    return _unknown_dim(symbolic) if symbolic else "its dtype has no known width"


def _unknown_dim(dim: str) -> str:
    return "a dimension is not known" if dim == UNKNOWN_DIM else f"`{dim}` is symbolic"


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
