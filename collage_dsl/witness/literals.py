"""Choose the operands that are written in the program: shapes, bounds, axes and numbers."""

from collections.abc import Iterator
from math import inf, prod

from collage_dsl.graph import Form, Node, TensorType
from collage_dsl.graph.operators import operators
from collage_dsl.language.graphs.graph_text import type_of_literal
from collage_dsl.rules.condition import DimAt, Rank, Value
from collage_dsl.rules.pattern import OPEN, ListOf
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
"""By the name of the operand."""


def literals(state: State, at: int, user: int, place: int) -> Iterator[tuple[State, Node]]:
    """The literals that part `at` can be, which the call `user` takes."""
    reading = state.known.reading
    operand, wanted = operand_name(reading.parts[user].op, place), reading.parts[at].says
    options: list[object] = list(_USUAL.get(operand, (1,)))
    if operand in ("shape", "size"):
        options = [*_shapes(state, user, place), *options]
    if isinstance(wanted, ListOf):
        options += _written(state, state.known.name(at), wanted)
        options = [o for o in options if isinstance(o, tuple) and _is(wanted, o)]
    for option in dict.fromkeys(options):
        after = _listed(state, state.known.name(at), option)
        if after is not None:
            yield after, literal_node(state, at, user, place, option)


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


def _shapes(state: State, user: int, place: int) -> Iterator[tuple[int, ...]]:
    """The shapes that the result may have, as far as facts tell; with as many elements."""
    name = state.known.name(user)
    of = state.known.reading.parts[user].of
    first = state.nodes[of[0]].type if place > 0 else None
    size = first.size if isinstance(first, TensorType) else None
    least, most = state.facts.of(Rank(name)).bounds()
    if isinstance(first, TensorType) and first.is_static:
        same = first.static_shape
        if least <= len(same) <= most and _fits(state, name, same):
            yield same
    for rank in range(max(0, int(least)), int(min(most, 6)) + 1 if most < inf else 7):
        if rank in state.facts.of(Rank(name)):
            yield from _of_rank(state, name, rank, size)


def _of_rank(state: State, name: str, rank: int, size: int | None) -> Iterator[tuple[int, ...]]:
    """Shapes of a rank: the dimensions that are known, and for one of the others what is left."""
    known = [state.facts.of(DimAt(name, axis)) for axis in range(rank)]
    fixed = [values.only() for values in known]
    open_ = [axis for axis in range(rank) if fixed[axis] is None]
    for low in (1, 2, 4):
        shape = [f if isinstance(f, int) else _least(known[at], low) for at, f in enumerate(fixed)]
        if size is None:
            yield tuple(shape)
            continue
        if not open_ and prod(shape) == size:
            yield tuple(shape)
        for axis in open_:
            others = prod(dim for at, dim in enumerate(shape) if at != axis)
            if others and size % others == 0:
                yield (*shape[:axis], size // others, *shape[axis + 1 :])


def _least(values: object, low: int) -> int:
    found = [v for v in some_of(values, (low, 1, 2, 4, 8)) if isinstance(v, int) and v > 0]  # type: ignore[arg-type]
    return found[0] if found else 1


def _fits(state: State, name: str, shape: tuple[int, ...]) -> bool:
    return all(dim in state.facts.of(DimAt(name, axis)) for axis, dim in enumerate(shape))
