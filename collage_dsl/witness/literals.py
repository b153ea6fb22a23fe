"""Choose the operands that are written in the program: shapes, bounds, axes and numbers."""

from collections.abc import Iterator

from collage_dsl.graph import Form, Node
from collage_dsl.graph.operators import operators
from collage_dsl.language.graphs.graph_text import type_of_literal
from collage_dsl.rules.condition import DimAt, Rank, Value
from collage_dsl.rules.pattern import OPEN, ListOf
from collage_dsl.witness.shapes import shapes
from collage_dsl.witness.state import State
from collage_dsl.witness.values import some_of

_USUAL: dict[str, tuple[object, ...]] = {
    "axes": ((0,), ()),
    "begin": ((0,), (1,), ()),
    "end": ((1,), (2,), (4,), ()),
    "strides": ((1,), (2,), ()),
    "shape": ((4, 8), (4,), (1, 4, 8, 8), ()),
    "size": ((8, 8), (8, 8, 8)),
    "k": (0, 1),
    "n": (4,),
    "end number": (4, 1, 2, 8),
    "m": (4,),
    "start": (0,),
    "step": (1,),
    "min": (0.0,),
    "max": (6.0,),
    "on_value": (1.0,),
    "off_value": (0.0,),
    "window_size": (4,),
    "periodic": (1,),
    "alpha": (0.5,),
    "beta": (0.5,),
}
"""By the name of the operand, with `number` for those that are a list in other operators."""

_ITEMS = {
    "axes": (0, 1, -1, 2),
    "begin": (0, 1, -1),
    "end": (1 << 20, 2, 1, -1),
    "strides": (1, 2, -1),
    "size": (8, 4, 16),
}
"""Of operands that are lists, the usual items."""

_MOST_LISTS = 3
"""The most lists of one length that are tried."""


def literals(state: State, at: int, user: int, place: int) -> Iterator[tuple[State, Node]]:
    """The literals that part `at` can be, which the call `user` takes."""
    reading = state.known.reading
    operand, wanted = operand_name(reading.parts[user].op, place), reading.parts[at].says
    if operand == "shape":
        for given, shape in shapes(state, state.known.name(user)):
            is_wanted = not isinstance(wanted, ListOf) or _is(wanted, shape)
            after = _listed(given, state.known.name(at), shape) if is_wanted else None
            if after is not None:
                yield after, literal_node(state, at, user, place, shape)
    takes = operators()[reading.parts[user].op].takes[place : place + 1]
    usual = _USUAL.get(f"{operand} number") if takes == ("number",) else None
    options: list[object] = list(usual or _USUAL.get(operand, (1,)))
    if wanted is None and operand in _ITEMS:
        options += _usual_lists(state, state.known.name(at), _ITEMS[operand])
    if isinstance(wanted, ListOf):
        options += _written(state, state.known.name(at), wanted)
        options = [o for o in options if isinstance(o, tuple) and _is(wanted, o)]
    for option in dict.fromkeys(options):
        after = _listed(state, state.known.name(at), option)
        if after is not None:
            yield after, literal_node(state, at, user, place, option)


def _usual_lists(state: State, name: str, usual: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Lists of usual items; if there is chance, of any of them and of numbers of the pattern."""
    lengths = [length for length in (1, 2, 0) if length in state.facts.of(Rank(name))]
    for length in state.ordered([*lengths]):
        for _ in range(_MOST_LISTS):
            known = [state.facts.of(DimAt(name, axis)) for axis in range(int(str(length)))]
            named = [n for n in state.numbers if type(n) is int]
            rows = [state.ordered(some_of(values, (*usual, *named))) for values in known]
            if all(rows):
                yield tuple(row[0] for row in rows if isinstance(row[0], int))


def _is(wanted: ListOf, value: tuple[int, ...]) -> bool:
    numbers = wanted.items_at(len(value))
    return numbers is not None and all(value[at] == number for at, number in numbers)


def _written(state: State, name: str, wanted: ListOf) -> Iterator[tuple[int, ...]]:
    """Lists as the pattern writes them, with numbers where it leaves them open."""
    fixed = len(wanted.items) - (OPEN in wanted.items)
    for length in range(fixed, fixed + (4 if OPEN in wanted.items else 1)):
        numbers = dict(wanted.items_at(length) or ())
        for usual in (1, 4, 0, -1):
            known = (state.facts.of(DimAt(name, axis)) for axis in range(length))
            items = [_above_first(some_of(values, (usual, 1, 2, 4)), usual) for values in known]
            if all(items):
                row = (numbers.get(axis, each[0]) for axis, each in enumerate(items))
                yield tuple(item for item in row if isinstance(item, int))


def _above_first(found: list[Value], usual: int) -> list[Value]:
    """Numbers above 0 first, unless `usual` is not above 0 itself."""
    return found if usual <= 0 else sorted(found, key=lambda each: each in (0, -1))


def _listed(state: State, name: str, value: object) -> State | None:
    """The state in which a list has these items, if it is one."""
    after: State | None = state
    if isinstance(value, tuple) and name in state.known.lists:
        after = state.assuming(Rank(name), len(value))
        for axis, item in enumerate(value):
            after = after.assuming(DimAt(name, axis), item) if after is not None else None
    return after


def literal_node(state: State, at: int, user: int, place: int, value: object) -> Node:
    op = state.known.reading.parts[user].op
    return Node(
        f"v{at}", Form.LITERAL, type_of_literal(value, operand_name(op, place)), value=value
    )


def operand_name(op: str, place: int) -> str:
    """The name of an operand in the table of operators."""
    names = operators()[op].operands or ()
    return names[place] if place < len(names) else f"literal{place}"
