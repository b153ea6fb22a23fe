"""
What patterns match, by definition and slowly: the oracle for the matcher.

A pattern says several things at once: an optional operator is there or not, one of several
alternatives holds, a chain is as long as it may be. `ways` writes each of these out, with what
called patterns say in place of the calls, and leaves equations between single operators.
`slow_matches` then tries all nodes of a graph for all of them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod
from typing import assert_never

from collage_dsl.graph import Form, Graph, Node
from collage_dsl.graph.operators import is_commutative
from collage_dsl.rules.condition import Given, Where
from collage_dsl.rules.evaluation import evaluate
from collage_dsl.rules.pattern import (
    ANY,
    OPEN,
    Anything,
    Call,
    Either,
    Excluded,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)


@dataclass(frozen=True, slots=True)
class Part:
    """
    One node that has to be found: where `says` is None, any. `of` are its operands, by their
    places among the parts, and `frame` the call of a pattern that it is written in.
    """

    says: Call | Flat | TupleOf | FieldOf | Number | ListOf | None
    of: tuple[int, ...] = ()
    frame: int = 0

    @property
    def is_inside(self) -> bool:
        return isinstance(self.says, Call | Flat | TupleOf | FieldOf)


@dataclass(frozen=True, slots=True)
class Frame:
    """A pattern, and what its parameters stand for where another one calls it."""

    pattern: Pattern
    operands: tuple[Operand, ...] = ()
    caller: int | None = None

    def argument(self, name: str) -> Operand:
        names = [parameter.name for parameter in self.pattern.parameters]
        return self.operands[names.index(name)]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to read a pattern. The operands of a part come before it."""

    frames: tuple[Frame, ...]
    parts: tuple[Part, ...] = ()
    names: tuple[tuple[int, str, int], ...] = ()
    """Frame, name, and the part it stands for."""
    constants: frozenset[int] = frozenset()
    """The parts that are taken by a `const` parameter."""
    excluded: tuple[tuple[int, Excluded], ...] = ()
    """Parts, and where they must not come from."""
    results: tuple[int, ...] = ()
    apart: tuple[int, ...] = ()
    """How many parts there were before each result; what it is by itself comes after them."""

    def of(self, frame: int) -> dict[str, int]:
        return {name: part for at, name, part in self.names if at == frame}

    def with_part(self, part: Part) -> tuple[int, "Way"]:
        return len(self.parts), replace(self, parts=(*self.parts, part))


def ways(pattern: Pattern) -> list[Way]:
    """All ways to read `pattern` in which what has to be there is."""
    found = [Way((Frame(pattern),))]
    for name in (pattern.result, *pattern.others):
        found = [
            replace(after, results=(*way.results, part), apart=(*way.apart, len(way.parts)))
            for way in found
            for part, after in _read(way, 0, Reference(name))
        ]
    return [way for way in found if _is_complete(way)]


def _is_complete(way: Way) -> bool:
    return all(
        parameter.optional or parameter.name in way.of(at)
        for at, frame in enumerate(way.frames)
        for parameter in frame.pattern.parameters
    )


def _read(way: Way, frame: int, operand: Operand) -> Iterator[tuple[int, Way]]:
    """The part that `operand`, written in `frame`, stands for in each way to read it."""
    match operand:
        case Reference(name):
            yield from _read_name(way, frame, name)
        case Anything():
            yield way.with_part(Part(None, (), frame))
        case Number() | ListOf():
            yield way.with_part(Part(operand, (), frame))
        case Call(operands=inner) | TupleOf(inner):
            yield from _read_node(way, frame, operand, inner)
            if isinstance(operand, Call) and operand.optional:
                yield from _read(way, frame, inner[0])
        case Flat():
            yield from _read_node(way, frame, operand, operand.values)
        case FieldOf(of):
            yield from _read_node(way, frame, operand, (of,))
        case PathFrom():
            raise AssertionError("tests/test_paths.py has another oracle for paths")
        case TupleOfEach(field, least, most):
            for count in range(least, most + 1):
                fields = (field,) * count
                yield from _read_node(way, frame, TupleOf(fields), fields)
        case PatternCall(pattern, inner, optional):
            callee = len(way.frames)
            entered = replace(way, frames=(*way.frames, Frame(pattern, inner, frame)))
            yield from _read(entered, callee, Reference(pattern.result))
            if optional:
                yield from _read(way, frame, inner[0])
        case Repeat(call, least, most):
            for times in range(least, most + 1):
                yield from _read(way, frame, _chain(call, times))
        case Either(choices):
            for choice in choices:
                yield from _read(way, frame, choice)
        case _:
            assert_never(operand)


def _chain(call: Call | PatternCall, times: int) -> Operand:
    if times == 0:
        return call.operands[0]
    return replace(call, operands=(_chain(call, times - 1), *call.operands[1:]))


def _read_node(
    way: Way, frame: int, says: Call | Flat | TupleOf | FieldOf, operands: tuple[Operand, ...]
) -> Iterator[tuple[int, Way]]:
    states: list[tuple[tuple[int, ...], Way]] = [((), way)]
    for operand in operands:
        states = [
            ((*parts, part), after)
            for parts, before in states
            for part, after in _read(before, frame, operand)
        ]
    for parts, after in states:
        yield after.with_part(Part(says, parts, frame))


def _read_name(way: Way, frame: int, name: str) -> Iterator[tuple[int, Way]]:
    """A name stands for one part."""
    if name in way.of(frame):
        yield way.of(frame)[name], way
        return
    here = way.frames[frame]
    parameter = here.pattern.parameter(name)
    if parameter is None:
        value = next(b.value for b in here.pattern.bindings if b.name == name)
        found = _read(way, frame, value)
    elif here.caller is None:
        found = iter([way.with_part(Part(None, (), frame))])
    else:
        found = _read(way, here.caller, here.argument(name))
    for part, after in found:
        constants = (
            after.constants | {part} if parameter and parameter.constant else after.constants
        )
        excluded = after.excluded
        if parameter and parameter.excluded:
            excluded = (*excluded, (part, parameter.excluded))
        names = (*after.names, (frame, name, part))
        yield part, replace(after, names=names, constants=constants, excluded=excluded)


@dataclass(frozen=True, slots=True)
class SlowMatch:
    root: int
    inside: frozenset[int]
    constants: frozenset[int]
    bound: Mapping[str, int]


def slow_matches(pattern: Pattern, graph: Graph) -> list[SlowMatch]:
    """All matches, at every node of `graph`; several may be of the same nodes."""
    return [
        SlowMatch(
            nodes[way.results[0]],
            frozenset().union(*inside.values()),
            frozenset(nodes[part] for part in way.constants),
            {name: nodes[part] for name, part in way.of(0).items()},
        )
        for way in ways(pattern)
        for nodes in _assignments(way, graph, len(way.parts) - 1, {})
        for inside in _insides(way, graph, nodes)
        if _is_match(way, graph, nodes, inside)
    ]


def _assignments(
    way: Way, graph: Graph, part: int, nodes: dict[int, int]
) -> Iterator[dict[int, int]]:
    """
    The nodes that the parts up to `part` may be, with those chosen for the parts after it. A
    choice is given up as soon as all operands of a part are chosen and are not those of its node.
    """
    if part < 0:
        yield nodes
        return
    complete = [at for at, other in enumerate(way.parts) if other.of and min(other.of) == part]
    for node in range(len(graph)):
        chosen = {**nodes, part: node}
        if _fits(way, part, graph.nodes[node]) and all(
            _takes(way.parts[at], graph, chosen, chosen[at]) for at in complete
        ):
            yield from _assignments(way, graph, part - 1, chosen)


def _fits(way: Way, part: int, node: Node) -> bool:
    """Whether `node` by itself can be that part."""
    if part in way.constants and node.form is not Form.CONSTANT:
        return False
    match way.parts[part].says:
        case None:
            return True
        case Call(ops) as call:
            return node.form is Form.CALL and (node.op in ops or node.kind in call.kinds)
        case Flat():
            return node.form is Form.CALL
        case TupleOf():
            return node.form is Form.TUPLE
        case FieldOf(_, index):
            return node.form is Form.PROJECTION and node.value == index
        case Number(value, tolerance):
            if node.form is not Form.CONSTANT or node.value is None:
                return False
            values = node.value.ravel().tolist()  # type: ignore[attr-defined]
            return all(abs(each - value) <= tolerance * abs(value) for each in values)
        case ListOf(items):
            return node.form is Form.LITERAL and _is_list(items, list(node.value))  # type: ignore[call-overload]


def _is_list(items: tuple[int | str, ...], given: list[object]) -> bool:
    """Whether `items` say `given`, one item after the other."""
    if not items:
        return not given
    first, *others = items
    if first == OPEN:
        return any(_is_list(tuple(others), given[at:]) for at in range(len(given) + 1))
    return bool(given) and first in (ANY, given[0]) and _is_list(tuple(others), given[1:])


def _takes(part: Part, graph: Graph, nodes: Mapping[int, int], node: int) -> bool:
    if isinstance(part.says, Flat):
        return bool(_trees(part, graph, nodes, node))
    wanted = [nodes[operand] for operand in part.of]
    given = list(graph.nodes[node].inputs)
    either_order = isinstance(part.says, Call) and not part.says.ordered and len(given) == 2
    either_order = either_order and is_commutative(graph.nodes[node].op)
    return _are_same(graph, given, wanted) or (either_order and given[::-1] == wanted)


def _are_same(graph: Graph, given: list[int], wanted: list[int]) -> bool:
    """Whether nodes are the same. Two literals are, if they say the same."""
    pairs = [(graph.nodes[g], graph.nodes[w]) for g, w in zip(given, wanted, strict=False)]
    return len(given) == len(wanted) and all(
        one is other or (one.form is other.form is Form.LITERAL and one.value == other.value)
        for one, other in pairs
    )


Inside = Mapping[int, frozenset[int]]
"""By part, the nodes that it covers."""


def _insides(way: Way, graph: Graph, nodes: Mapping[int, int]) -> Iterator[Inside]:
    """What the parts may cover: a tree of calls can be taken apart in several ways."""
    covered = [
        _trees(part, graph, nodes, nodes[at])
        if isinstance(part.says, Flat)
        else [frozenset({nodes[at]} if part.is_inside else ())]
        for at, part in enumerate(way.parts)
    ]
    for choice in product(*covered):
        yield dict(enumerate(choice))


def _trees(part: Part, graph: Graph, nodes: Mapping[int, int], root: int) -> list[frozenset[int]]:
    """The calls of each tree at `root` that combines the nodes of the operands of `part`."""
    flat = part.says
    assert isinstance(flat, Flat)
    wanted = sorted(nodes[operand] for operand in part.of)
    return list(
        dict.fromkeys(
            calls
            for calls, leaves in _cuts(flat.op, graph, root)
            for taken in combinations(range(len(leaves)), len(wanted))
            if calls and sorted(str(leaves[at]) for at in taken) == sorted(map(str, wanted))
            if _has_numbers(flat, graph, [x for at, x in enumerate(leaves) if at not in taken])
        )
    )


def _cuts(
    op: str, graph: Graph, root: int
) -> Iterator[tuple[frozenset[int], tuple[int | float, ...]]]:
    """
    Each way to take calls of `op` apart: the calls, and the leaves, which are nodes, or numbers
    (float) that no node is.
    """
    yield frozenset(), (root,)
    node = graph.nodes[root]
    leaves: list[int | float] = list(node.inputs)
    constants = [_value(graph, index) for index in node.inputs]
    if None not in constants:
        return
    if op == "add" and node.op == "subtract" and constants[1] is not None:
        leaves[1] = -constants[1]
    elif op == "multiply" and node.op == "divide" and constants[1]:
        leaves[1] = 1 / constants[1]
    elif node.op != op:
        return
    below = [
        _cuts(op, graph, leaf) if isinstance(leaf, int) else [(frozenset[int](), (leaf,))]
        for leaf in leaves
    ]
    for one, other in product(*below):
        yield frozenset({root}) | one[0] | other[0], (*one[1], *other[1])


def _value(graph: Graph, index: int) -> float | None:
    node = graph.nodes[index]
    if node.form is not Form.CONSTANT or node.value is None:
        return None
    return float(node.value)  # type: ignore[arg-type]


def _has_numbers(flat: Flat, graph: Graph, left: list[int | float]) -> bool:
    """Whether what is `left` of a tree are the numbers of `flat`."""
    found = [_value(graph, leaf) if isinstance(leaf, int) else leaf for leaf in left]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return False
    numbers = [number.value for number in flat.numbers]
    is_sum = flat.op == "add"
    together, wanted = (sum(each) if is_sum else prod(each) for each in (values, numbers))
    tolerance = 1e-6 + sum(number.tolerance for number in flat.numbers) * abs(wanted)
    return abs(together - wanted) <= tolerance


def _is_match(way: Way, graph: Graph, nodes: Mapping[int, int], covered: Inside) -> bool:
    inside = frozenset[int]().union(*covered.values())
    if not inside or not all(
        _is_apart(way, nodes, covered, at) for at in range(1, len(way.results))
    ):
        return False
    if any(_comes_from(graph, nodes[part], excluded) for part, excluded in way.excluded):
        return False
    visible = {nodes[part] for part in way.results} | {
        node
        for at, part in enumerate(way.parts)
        for node in ({nodes[at]} | covered[at])
        if way.frames[part.frame].pattern.taps
        or (isinstance(part.says, Call | Flat) and part.says.shared and node == nodes[at])
    }
    kept = inside - visible
    escapes = kept & set(graph.outputs) or any(
        index not in inside and kept & set(node.inputs) for index, node in enumerate(graph.nodes)
    )
    return not escapes and _conditions_hold(way, graph, nodes)


def _comes_from(graph: Graph, index: int, excluded: Excluded) -> bool:
    node = graph.nodes[index]
    match node.form:
        case Form.CONSTANT:
            return excluded.constants
        case Form.CALL:
            return node.op in excluded.ops or node.kind in excluded.kinds
        case Form.PROJECTION:
            of = graph.nodes[node.inputs[0]]
            if of.form is Form.TUPLE and node.value in range(len(of.inputs)):
                return _comes_from(graph, of.inputs[node.value], excluded)
            return _comes_from(graph, node.inputs[0], excluded)
        case _:
            return False


def _is_apart(way: Way, nodes: Mapping[int, int], covered: Inside, result: int) -> bool:
    """A further result that is an operator of its own is none of those before."""
    part, before = way.results[result], way.apart[result]
    others = frozenset[int]().union(*(covered[at] for at in range(before)))
    return part < before or not way.parts[part].is_inside or nodes[part] not in others


def _conditions_hold(way: Way, graph: Graph, nodes: Mapping[int, int]) -> bool:
    asked: list[tuple[Where, Given]] = []
    for at, frame in enumerate(way.frames):
        bound = {name: graph.nodes[nodes[part]] for name, part in way.of(at).items()}
        asked += [(where, Given(bound, {}, _World(graph))) for where in frame.pattern.conditions]
        for place, part in enumerate(way.parts):
            if part.frame == at and isinstance(part.says, Call):
                given = Given(bound, graph.nodes[nodes[place]].attrs, _World(graph))
                asked += [(where, given) for where in part.says.attributes]
    return all(evaluate(where.condition, given) is True for where, given in asked)


class _World:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def uses(self, node: Node) -> int:
        index = self.graph.index(node.name)
        users = sum(index in other.inputs for other in self.graph.nodes)
        return users + (index in self.graph.outputs)

    def holds(self, predicate: object, operands: object) -> bool:
        raise AssertionError("no pattern here asks a predicate")
