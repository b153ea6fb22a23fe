"""Choose the elements of constants that conditions ask about."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from math import isfinite, isnan

from collage_dsl.graph import Form, Node
from collage_dsl.language.graphs.values import constant_values, fits
from collage_dsl.language.reasoning.values.facts import values_of
from collage_dsl.language.syntax.tokens import TOO_LARGE
from collage_dsl.rules.condition import (
    Compare,
    Element,
    Expression,
    Max,
    Min,
    Near,
    ValueOf,
    every_part,
)
from collage_dsl.witness.places import by_place
from collage_dsl.witness.state import State
from collage_dsl.witness.values import some_of

_MOST_ELEMENTS = 1 << 12
_MOST_PAIRS = 30
_USUAL = (1, 0, 0.5, 2, -1, 3, 4)


def contents(state: State) -> Iterator[State]:
    """The states in which the constants whose elements matter have elements."""
    asked = [
        at
        for at, node in enumerate(state.nodes)
        if node.form is Form.CONSTANT and node.value is None and _is_asked(state, at)
    ]
    yield from _filled(state, tuple(asked))


def _filled(state: State, asked: tuple[int, ...]) -> Iterator[State]:
    if not asked:
        if all(state.holds(c) for c in state.known.conditions if c.is_about_elements):
            yield state
        return
    at, rest = asked[0], asked[1:]
    node, name = state.nodes[at], state.known.name(asked[0])
    for elements, least, most in _elements(state, at, name):
        after = state.assuming(Min(name), least)
        after = after.assuming(Max(name), most) if after is not None else None
        if after is not None and least == most:
            after = after.assuming(ValueOf(name), least)
        if after is not None:
            type_ = node.tensor
            value = constant_values(type_.dtype, type_.static_shape, elements)
            nodes = (*after.nodes[:at], replace(node, value=value), *after.nodes[at + 1 :])
            yield from _filled(replace(after, nodes=nodes), rest)


def _elements(state: State, at: int, name: str) -> Iterator[tuple[list[float], float, float]]:
    """The elements of the constant `at` that are tried, with the least and the greatest of them."""
    node = state.nodes[at]
    size = node.tensor.size
    if size is None or size > _MOST_ELEMENTS:
        return
    options = [*_options(state, name, Min, node), *_options(state, name, Max, node)]
    if found := by_place(state, at, list(dict.fromkeys(options))):
        yield found, min(found), max(found)
    for least, most in _ends(state, name, node):
        if size > 1 or least == most:
            yield [least] * max(0, size - 1) + [most] * (size > 0), least, most


def _ends(state: State, name: str, node: Node) -> Iterator[tuple[float, float]]:
    """The least and the greatest element: first the same, then different ones."""
    least, most = (_options(state, name, end, node) for end in (Min, Max))
    yield from ((each, each) for each in least if each in most)
    pairs = ((low, high) for low in least for high in most if low < high)
    yield from islice(pairs, _MOST_PAIRS)


def _options(state: State, name: str, end: type[Min] | type[Max], node: Node) -> list[float]:
    dtype = node.tensor.dtype
    values = state.facts.of(end(name)).meet(state.facts.of(ValueOf(name)))
    if state.facts.of(end(name)).is_empty or values.is_empty:
        values = state.facts.of(end(name))
    named = [v for v in state.numbers if isinstance(v, int | float) and v not in _USUAL]
    solved = [*_solved(state, name)]
    near = [v + d for v in named for d in (1, -1)]
    found = some_of(values, [*solved, *_USUAL, *named, *near])
    whole = "float" not in dtype
    numbers = [v for v in found if isinstance(v, int | float) and isfinite(v)]
    fitting = [int(v) if whole and v == int(v) else v for v in numbers]
    return list(dict.fromkeys(v for v in fitting if fits(v, dtype) and _is_written(v)))


def _is_written(number: float) -> bool:
    """Whether the text of a graph can have `number`: not all of a u64 are."""
    return isinstance(number, float) or abs(number) < TOO_LARGE


def _solved(state: State, name: str) -> Iterator[float]:
    """What the other side of an equation is, if that is known."""
    for condition in state.known.conditions:
        for one, other in _equations(state.known.translated(condition)):
            for this, that in ((one, other), (other, one)):
                if isinstance(this, ValueOf | Min | Max) and this.of == name:
                    only = values_of(state.facts, that).only()
                    if isinstance(only, int | float) and not isnan(only):
                        yield only


def _equations(expression: Expression) -> Iterator[tuple[Expression, Expression]]:
    for part in every_part(expression):
        match part:
            case Compare("==", left, right) | Near(left, right):
                yield left, right


def _is_asked(state: State, at: int) -> bool:
    for condition in state.known.conditions:
        names = state.known.reading.uses[condition.use].names
        asked = {name for name, part in names.items() if part == at}
        if any(
            isinstance(part, ValueOf | Min | Max | Element) and part.of in asked
            for part in every_part(condition.written)
        ):
            return True
    return False
