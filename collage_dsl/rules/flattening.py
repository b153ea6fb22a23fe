"""
Take a tree of calls of one operator apart, into the values that it combines and its numbers.

    multiply(multiply(x, 0.5), add(e, 1))        x, add(e, 1) and 0.5
    divide(multiply(add(e, 1), x), 2)            add(e, 1), x and 0.5

A tree consists of calls of `add`, `multiply`, `maximum` or `minimum`. Calls that mean the same are
part of it: `subtract` of a constant in a sum; in a product, `divide` by a constant, `negative`,
`square`, and `power` with a small whole number, which repeats a value.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from collage_dsl.graph import Form, Graph, Node, TensorType
from collage_dsl.graph.floats import FORMATS, precision
from collage_dsl.rules.contents import ends
from collage_dsl.rules.pattern import Flat

MOST_CALLS = 32
"""The most calls of one tree."""


@dataclass(frozen=True, slots=True)
class Combining:
    """
    An associative and commutative operator: what it makes of no number, and of two. `others` are
    the operators of calls that mean the same, and `noun` is the word for a tree.
    """

    noun: str
    nothing: float
    of: Callable[[float, float], float]
    others: tuple[str, ...] = ()


COMBINING: Mapping[str, Combining] = {
    "add": Combining("sum", 0.0, lambda one, other: one + other, ("subtract",)),
    "multiply": Combining(
        "product",
        1.0,
        lambda one, other: one * other,
        ("divide", "negative", "power", "square"),
    ),
    "maximum": Combining("maximum", -math.inf, max),
    "minimum": Combining("minimum", math.inf, min),
}


@dataclass(frozen=True, slots=True)
class Term:
    """One operand of a tree: a node, or a number that is that of a constant or made from it."""

    node: int | None
    number: float | None = None


@dataclass(frozen=True, slots=True)
class Flattened:
    """One way to take a tree apart: the calls that it consists of, the values, the numbers."""

    calls: tuple[int, ...]
    values: tuple[int, ...]
    numbers: tuple[float, ...]


def operators_of(op: str) -> tuple[str, ...]:
    """The operators that the calls of a tree of `op` may have."""
    return (op, *COMBINING[op].others)


def is_tree(op: str, graph: Graph, root: int, most: int) -> bool:
    """Whether the call at `root` is part of a tree of `op` with up to `most` values."""
    return _terms(op, graph, graph.nodes[root], most) is not None


def flattened(op: str, graph: Graph, root: int, count: int) -> Iterator[Flattened]:
    """
    All ways to take the tree at `root` apart into `count` values, with up to `MOST_CALLS` calls.

    A value may be a call that could be taken apart too, or a constant that could be a number.
    """
    first = _terms(op, graph, graph.nodes[root], count)
    if first is None:
        return
    for calls, terms in _grown(op, graph, (root,), (), first, count):
        own = tuple(term.node for term in terms if term.number is None and term.node is not None)
        constants = [at for at, term in enumerate(terms) if term.number is not None]
        named = [at for at in constants if terms[at].node is not None]
        for taken in combinations(named, count - len(own)):
            values = tuple(
                term.node
                for at, term in enumerate(terms)
                if term.node is not None and (term.number is None or at in taken)
            )
            left = tuple(terms[at].number for at in constants if at not in taken)
            yield Flattened(calls, values, tuple(each for each in left if each is not None))


def _grown(
    op: str,
    graph: Graph,
    calls: tuple[int, ...],
    kept: tuple[Term, ...],
    waiting: tuple[Term, ...],
    count: int,
) -> Iterator[tuple[tuple[int, ...], tuple[Term, ...]]]:
    """
    Keep each term that is waiting, or take it apart. Each that is no number becomes one value or
    more, so that there are never more than `count` of them.
    """
    while waiting and waiting[0].number is not None:
        kept, waiting = (*kept, waiting[0]), waiting[1:]
    if not waiting:
        yield calls, kept
        return
    first, rest = waiting[0], waiting[1:]
    yield from _grown(op, graph, calls, (*kept, first), rest, count)
    assert first.node is not None, "only numbers have no node"
    others = sum(term.number is None for term in (*kept, *rest))
    inner = _terms(op, graph, graph.nodes[first.node], count - others)
    if inner is not None and len(calls) < MOST_CALLS:
        yield from _grown(op, graph, (*calls, first.node), kept, (*inner, *rest), count)


def _terms(op: str, graph: Graph, node: Node, most: int) -> tuple[Term, ...] | None:
    """
    What the call `node` combines; None if it is not part of a tree of `op`, has more than `most`
    values, or none.
    """
    found: tuple[Term, ...] | None = None
    if node.op == op and len(node.inputs) == 2:
        found = tuple(_term(graph, index) for index in node.inputs)
    elif node.is_call and node.op in COMBINING[op].others:
        found = _other_terms(graph, node, most)
    if found is None or not 1 <= sum(term.number is None for term in found) <= most:
        return None
    return found


def _other_terms(graph: Graph, node: Node, most: int) -> tuple[Term, ...] | None:
    first = _term(graph, node.inputs[0])
    number = _number(graph.nodes[node.inputs[1]]) if len(node.inputs) == 2 else None
    match node.op, number:
        case "square", _:
            return (first, first)
        case "negative", _:
            return (first, Term(None, -1.0))
        case "power", float(times) if 2 <= times <= most and times.is_integer():
            return (first,) * int(times)
        case "subtract", float(less):
            return (first, Term(None, -less))
        case "divide", float(by) if by != 0 and _is_of_floats(node):
            return (first, Term(None, 1 / by))
        case _:
            return None


def _term(graph: Graph, index: int) -> Term:
    return Term(index, _number(graph.nodes[index]))


def _number(node: Node) -> float | None:
    """The number that all elements of a constant are."""
    if node.form is not Form.CONSTANT:
        return None
    found = ends(node)
    return float(found.least) if not found.unknown and found.least == found.most else None


def _is_of_floats(node: Node) -> bool:
    dtype = node.type.dtype if isinstance(node.type, TensorType) else ""
    return dtype in FORMATS or dtype == "float64"


@dataclass(frozen=True, slots=True)
class Together:
    """What the numbers of a pattern are together, and how far a model may be from that."""

    number: float
    tolerance: float


def together(flat: Flat) -> Together:
    """The number that the numbers of `flat` make. Relative tolerances of factors add up."""
    number = combined(flat.op, (each.value for each in flat.numbers))
    return Together(number, sum(each.tolerance for each in flat.numbers))


def combined(op: str, numbers: Iterable[float]) -> float:
    result = COMBINING[op].nothing
    for number in numbers:
        result = COMBINING[op].of(result, number)
    return result


def agree(op: str, wanted: Together, numbers: tuple[float, ...], dtype: str) -> bool:
    """
    Whether the `numbers` of a model make the number that is wanted, as far as numbers of `dtype`
    can say: each of them is rounded.
    """
    found = combined(op, numbers)
    if found == wanted.number:
        return True
    size = sum(map(abs, numbers)) if op == "add" else len(numbers) * abs(wanted.number)
    is_rounded = dtype in FORMATS or dtype == "float64"
    rounding = size * precision(dtype) if is_rounded else 0.0
    return abs(found - wanted.number) <= max(wanted.tolerance * abs(wanted.number), rounding)
