"""Small random patterns with all that the language has, and graphs that they may match."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from collage_dsl.graph import Form, Graph, Kind, Node, OpaqueType, TensorType
from collage_dsl.graph.operators import is_commutative, operators
from collage_dsl.rules.condition import Attr, Compare, Constant, Has, Not, Or, Rank, Uses, Where
from collage_dsl.rules.pattern import (
    ANY,
    OPEN,
    Anything,
    Binding,
    Call,
    Either,
    Excluded,
    FieldOf,
    Flat,
    ListOf,
    Number,
    Operand,
    Parameter,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from tests.slow_matcher import Part, Way, ways

UNARY = (("nn.relu",), ("exp",), ("nn.relu", "exp"), ("concat",), ("concat",))
BINARY = (("add",), ("multiply",), ("subtract",), ("add", "subtract"))
KINDS = (*[()] * 6, (Kind.ELEMENTWISE,), (Kind.INJECTIVE, Kind.BROADCAST))
MAX_WAYS = 60
SHAPES = (ListOf((4,)), ListOf((ANY,)), ListOf((OPEN,)), ListOf((4, OPEN)), ListOf((OPEN, 2)))
NAMED_SHAPE = "shape"
"""The name of a list, in patterns that have one."""


@dataclass(slots=True)
class _Drawing:
    """A pattern that is being drawn: the names that a value may use, and what is left to draw."""

    draw: Any
    names: list[str]
    callees: list[Pattern]
    bare: bool
    """Whether nothing is asked of a match but its operators."""
    left: int = field(default=5)
    shapes: tuple[Operand, ...] = ()
    """What may stand for a shape."""

    def one_of(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def operand(self, depth: int) -> Operand:
        kinds = ["name"] * 3
        if depth > 0 and self.left > 0:
            kinds += (
                ["call"] * 6
                + ["reshape"]
                + ["tuple", "each", "field", "repeat", "either", "either"]
            )
            kinds += ["pattern"] * 2 if self.callees else []
            kinds += [] if self.bare else ["flat"] * 2
        elif depth <= 1:
            kinds += ["anything", "number"]
        match self.one_of(*kinds):
            case "name":
                return Reference(self.one_of(*self.names))
            case "anything":
                return Anything()
            case "number":
                return Number(self.one_of(0.5, 2.0), self.one_of(0.0, 0.1))
            case "call":
                return self.call(depth)
            case "flat":
                return self.flat(depth)
            case "pattern":
                return self.pattern_call(depth)
            case "reshape":
                self.left -= 1
                of, shape = self.operand(depth - 1), self.one_of(*self.shapes)
                return Call(("reshape",), (of, shape), optional=self.one_of(False, False, True))
            case "tuple":
                self.left -= 1
                return TupleOf(self.operands(depth, self.one_of(1, 2)))
            case "each":
                self.left -= 1
                of = self.operand(depth - 1)
                of = Anything() if isinstance(of, Number | TupleOfEach) else of
                least = self.one_of(1, 1, 2)
                return TupleOfEach(of, least, self.one_of(2, 2, 3))
            case "field":
                self.left -= 1
                of = self.operand(depth - 1)
                return FieldOf(Anything() if isinstance(of, Number) else of, self.one_of(0, 1))
            case "repeat":
                of_pattern = self.one_of(*[False] * 2, *[True] * len(self.callees))
                call = self.pattern_call(depth) if of_pattern else self.call(depth)
                if not call.operands:
                    return call
                least = self.one_of(0, 1)
                return Repeat(replace(call, optional=False), least, self.one_of(1, 2))
            case _:
                return self.either(depth)

    def operands(self, depth: int, count: int) -> tuple[Operand, ...]:
        return tuple(self.operand(depth - 1) for _ in range(count))

    def call(self, depth: int) -> Call:
        self.left -= 1
        ops = self.one_of(*UNARY, *BINARY)
        operands = self.operands(depth, 2 if ops in BINARY else 1)
        modifiers = {
            "optional": self.one_of(False, False, True),
            "ordered": self.one_of(False, False, False, True),
            "shared": self.one_of(False, False, False, True),
        }
        kinds = () if "concat" in ops else self.one_of(*KINDS)
        return Call(ops, operands, self.attributes(ops), **modifiers, kinds=kinds)

    def flat(self, depth: int) -> Flat:
        """A call of several values and numbers, of which one is a value."""
        self.left -= 1
        inner = self.operands(depth, self.one_of(1, 2, 3, 3))
        numbers = (Number(self.one_of(0.5, 2.0), self.one_of(0.0, 0.1)),) * self.one_of(0, 1)
        operands = (*numbers, *inner)
        if all(isinstance(operand, Number) for operand in operands):
            operands = (*operands, Reference(self.one_of(*self.names)))
        if len(operands) < 2:
            operands = (*operands, Anything())
        return Flat(self.one_of("add", "multiply"), operands, self.one_of(False, False, True))

    def attributes(self, ops: tuple[str, ...]) -> tuple[Where, ...]:
        if self.bare or ops != ("concat",):
            return ()
        known = [name for name in self.names if name in PARAMETERS]
        if self.one_of(True, False, False):
            return (Where(Compare("==", Attr("axis"), Constant(1))),)
        return (Where(Compare("==", Attr("axis"), Rank(self.one_of(*known)))),)

    def pattern_call(self, depth: int) -> PatternCall:
        self.left -= 1
        pattern = self.one_of(*self.callees)
        operands = self.operands(depth, len(pattern.parameters))
        return PatternCall(pattern, operands, bool(operands) and self.one_of(False, True))

    def either(self, depth: int) -> Operand:
        choices = dict.fromkeys(self.operands(depth, self.one_of(2, 2, 3)))
        return Either(tuple(choices)) if len(choices) > 1 else next(iter(choices))


PARAMETERS = ("a", "b", "c")
EXCLUDED = (
    *[None] * 6,
    Excluded(("nn.relu",)),
    Excluded(("exp", "add"), constants=True),
    Excluded(("concat",), kinds=(Kind.ELEMENTWISE,)),
    Excluded((), constants=True),
)


@st.composite
def patterns(draw: Any, *, name: str = "p", inner: bool = False, bare: bool = False) -> Pattern:
    """A pattern that the language accepts without a word."""
    callees = (
        [] if inner or draw(st.booleans()) else [draw(patterns(name="q", inner=True, bare=bare))]
    )
    named = draw(st.sampled_from([None, None, *SHAPES]))
    shapes = (*SHAPES, Anything()) if named is None else (Reference(NAMED_SHAPE),)
    drawing = _Drawing(draw, list(PARAMETERS), callees, bare, 2 if inner else 5, shapes)
    bindings: list[Binding] = []
    for at in range(1 if inner else draw(st.integers(1, 3))):
        value = drawing.operand(2)
        if at > 0 and draw(st.sampled_from([True, False, False, False])):
            value = bindings[0].value  # for two results that say the same
        if at == 0 and not isinstance(value, Call):
            value = drawing.call(2)
        bindings.append(Binding(f"v{at}", value))
        drawing.names.append(f"v{at}")
    others = () if inner or len(bindings) == 1 else draw(st.sampled_from([(), (), ("v0",)]))
    if named is not None:
        bindings.insert(0, Binding(NAMED_SHAPE, named))
    constant = draw(st.sampled_from(["", "c"]))
    pattern = Pattern(
        name,
        tuple(
            Parameter(each, True, True)
            if each == constant
            else Parameter(each, False, True, None if bare else draw(st.sampled_from(EXCLUDED)))
            for each in PARAMETERS
        ),
        tuple(bindings),
        bindings[-1].name,
        others=others,
        taps=draw(st.sampled_from([False, False, False, True])),
    )
    return _sound(draw, pattern, bare)


def _sound(draw: Any, pattern: Pattern, bare: bool) -> Pattern:
    """`pattern` less what leads nowhere, with the parameters optional that are."""
    read = ways(pattern)
    assume(0 < len(read) <= MAX_WAYS)
    bound = [set(way.of(0)) for way in read]
    known, always = set.union(*bound), set.intersection(*bound)
    assume(any(_has_operator(way) for way in read))
    assume(_asked(read) <= known)
    if pattern.others:
        assume(_is_joined(pattern, read))
    parameters = tuple(
        replace(p, optional=p.name not in always) for p in pattern.parameters if p.name in known
    )
    bindings = tuple(b for b in pattern.bindings if b.name in known)
    conditions = () if bare else draw(_conditions(sorted(known - {NAMED_SHAPE}), always))
    operators = [
        b.name
        for b in bindings
        if isinstance(b.value, Call) and not b.value.optional and b.name in always
    ]
    anchor = draw(st.sampled_from(["", *operators]))
    return replace(
        pattern, parameters=parameters, bindings=bindings, conditions=conditions, anchor=anchor
    )


def _has_operator(way: Way) -> bool:
    return way.parts[way.results[0]].is_inside


def _asked(read: list[Way]) -> set[str]:
    """The names that attributes are compared with."""
    return {
        where.condition.right.of
        for way in read
        for part in way.parts
        if isinstance(part.says, Call) and part.frame == 0
        for where in part.says.attributes
        if isinstance(where.condition, Compare) and isinstance(where.condition.right, Rank)
    }


def _is_joined(pattern: Pattern, read: list[Way]) -> bool:
    """Whether some name is bound by each of the results, whichever way each is read."""
    single = [
        ways(replace(pattern, result=r, others=())) for r in (pattern.result, *pattern.others)
    ]
    first, *rest = [set.intersection(*(set(way.of(0)) for way in each)) for each in single]
    return all(first & other for other in rest)


@st.composite
def _conditions(draw: Any, names: list[str], always: set[str]) -> tuple[Where, ...]:
    name = draw(st.sampled_from(names))
    asked = draw(
        st.sampled_from(
            [
                Compare("==", Uses(name), Constant(1)),
                Compare("<=", Rank(name), Constant(1)),
                Compare("!=", Rank(name), Uses(name)),
            ]
        )
    )
    if name in always:
        return draw(st.sampled_from([(), (Where(asked),)]))
    guarded = Or(Not(Has(name)), asked)
    return draw(st.sampled_from([(), (Where(Has(name)),), (Where(guarded),)]))


# Graphs.

TYPES = (TensorType("float32", (4,)), TensorType("float32", (2, 2)))
OPS = (*(ops[0] for ops in UNARY), "add", "multiply", "subtract", "divide", "reshape")


def _node(name: str, form: Form, inputs: tuple[int, ...] = (), **more: Any) -> Node:
    kind = operators()[more["op"]].kind if "op" in more else Kind.INJECTIVE
    return Node(name, form, more.pop("type", TYPES[0]), inputs, kind=kind, **more)


def _literal(name: str, value: tuple[int | str, ...]) -> Node:
    return _node(name, Form.LITERAL, value=value, type=OpaqueType("shape"))


@st.composite
def nodes(draw: Any, at: int) -> Node:
    """A node that may come after `at` others."""
    name, type_ = f"n{at}", draw(st.sampled_from(TYPES))
    before = st.integers(0, at - 1)
    match draw(
        st.sampled_from(["call"] * 6 + ["tuple", "projection", "constant", "list", "input"])
    ):
        case "call":
            op = draw(st.sampled_from(OPS))
            inputs = [draw(before) for _ in range(1 if (op,) in UNARY else 2)]
            attrs = {"axis": draw(st.integers(0, 2))} if op == "concat" else {}
            return _node(name, Form.CALL, tuple(inputs), op=op, attrs=attrs, type=type_)
        case "tuple":
            inputs = draw(st.lists(before, min_size=1, max_size=2))
            return _node(name, Form.TUPLE, tuple(inputs), type=type_)
        case "projection":
            index = draw(st.integers(0, 1))
            return _node(name, Form.PROJECTION, (draw(before),), value=index, type=type_)
        case "constant":
            value = np.array(draw(st.sampled_from([0.5, 0.52, 2.0, 1.0])))
            return _node(name, Form.CONSTANT, value=value, type=type_)
        case "list":
            value = draw(st.sampled_from([(4,), (2,), (4, 2), (2, 4), ("n",), ()]))
            return _literal(name, value)
        case _:
            return _node(name, Form.INPUT, type=type_)


@st.composite
def graphs(draw: Any, size: int = 8) -> Graph:
    """A graph of up to `size` nodes, of which some are returned."""
    found = [_node("n0", Form.INPUT)]
    for at in range(1, draw(st.integers(2, size))):
        found.append(draw(nodes(at)))
    return Graph(found, draw(_outputs(len(found))))


@st.composite
def _outputs(draw: Any, count: int) -> list[int]:
    further = draw(st.lists(st.integers(0, count - 1), max_size=2))
    return sorted({count - 1, *further})


@st.composite
def near_misses(draw: Any, pattern: Pattern) -> Graph:
    """A graph that `pattern` matches, or one that is a node or two away from such a graph."""
    graph = spelled(draw(st.sampled_from(ways(pattern))))
    found = list(graph.nodes)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(found) - 1))
        node = found[at]
        if node.inputs:
            inputs = tuple(
                draw(st.sampled_from([i, i, draw(st.integers(0, at - 1))])) for i in node.inputs
            )
            found[at] = replace(node, inputs=inputs)
        elif node.form is not Form.LITERAL:
            form = draw(st.sampled_from([node.form, Form.CONSTANT]))
            found[at] = replace(node, form=form, type=draw(st.sampled_from(TYPES)))
    for at in range(len(found), len(found) + draw(st.integers(0, 2))):
        found.append(draw(nodes(at)))
    outputs = draw(st.sampled_from([list(graph.outputs), draw(_outputs(len(found)))]))
    return Graph(found, outputs)


def spelled(way: Way) -> Graph:
    """
    The graph that says what `way` says and nothing more. Without trees of calls, each part is the
    node with the same place.
    """
    found: list[Node] = []
    places: list[int] = []
    for at, part in enumerate(way.parts):
        of = tuple(places[operand] for operand in part.of)
        if isinstance(part.says, Flat):
            _spell_tree(part.says, of, found)
        else:
            found.append(_spelled(f"n{len(found)}", part, of, at in way.constants))
        places.append(len(found) - 1)
    return Graph(found, dict.fromkeys(places[result] for result in way.results))


def _spell_tree(flat: Flat, values: tuple[int, ...], found: list[Node]) -> None:
    leaves = list(values)
    for number in flat.numbers:
        found.append(_node(f"n{len(found)}", Form.CONSTANT, value=np.array(number.value)))
        leaves.insert(1, len(found) - 1)
    tree = leaves[0]
    for leaf in leaves[1:]:
        found.append(_node(f"n{len(found)}", Form.CALL, (tree, leaf), op=flat.op))
        tree = len(found) - 1


def _spelled(name: str, part: Part, of: tuple[int, ...], constant: bool) -> Node:
    match part.says:
        case Call(ops):
            attrs = {"axis": 1} if "concat" in ops else {}
            return _node(name, Form.CALL, of, op=ops[0], attrs=attrs)
        case TupleOf():
            return _node(name, Form.TUPLE, of)
        case FieldOf(_, index):
            return _node(name, Form.PROJECTION, of, value=index)
        case Number(value):
            return _node(name, Form.CONSTANT, value=np.array(value))
        case ListOf(items):
            plain = ((4 if item == ANY else item) for item in items if item != OPEN)
            return _literal(name, tuple(plain))
        case _:
            return _node(name, Form.CONSTANT if constant else Form.INPUT)


def has_types(graph: Graph) -> bool:
    """Whether each value can be a tensor or a tuple, as the nodes that use it need."""
    sorts: dict[int, Form] = {}
    needs = [need for at in reversed(range(len(graph))) for need in _needs(graph, at)]
    for index, sort in needs:
        if sorts.setdefault(index, sort) is not sort:
            return False
    return all(_has_fields(graph, node) for node in graph.nodes)


def _needs(graph: Graph, at: int) -> Iterator[tuple[int, Form]]:
    """What the node at `at` is, if that is known, and what its operands must be."""
    node = graph.nodes[at]
    if node.form is Form.CALL and node.op == "concat":
        (of,) = node.inputs
        yield of, Form.TUPLE
        if graph.nodes[of].form is Form.TUPLE:
            yield from ((field, Form.CALL) for field in graph.nodes[of].inputs)
    elif node.form is Form.CALL:
        yield from ((of, Form.CALL) for of in node.inputs[: 1 if node.op == "reshape" else None])
        yield from ((of, Form.LITERAL) for of in node.inputs[1:] if node.op == "reshape")
    elif node.form is Form.PROJECTION:
        yield node.inputs[0], Form.TUPLE
    if node.form in (Form.CALL, Form.TUPLE, Form.LITERAL):
        yield at, node.form
    if node.form is Form.CONSTANT:
        yield at, Form.CALL


def _has_fields(graph: Graph, node: Node) -> bool:
    """Whether a projection is of a tensor in a tuple that has it."""
    of = graph.nodes[node.inputs[0]] if node.form is Form.PROJECTION else node
    if of.form is not Form.TUPLE or of is node:
        return True
    assert isinstance(node.value, int)
    fields = [graph.nodes[index].form for index in of.inputs]
    return node.value < len(fields) and fields[node.value] is not Form.TUPLE


def swapped(graph: Graph, places: set[int]) -> Graph:
    """`graph` with the operands of commutative operators at `places` exchanged."""
    found = [
        replace(node, inputs=node.inputs[::-1])
        if at in places and is_commutative(node.op)
        else node
        for at, node in enumerate(graph.nodes)
    ]
    return Graph(found, graph.outputs)


def without(graph: Graph, place: int) -> tuple[Graph, set[int]]:
    """
    `graph` with the first operand of the node at `place` instead of it, and what is left: what
    led to that node alone are inputs now that nothing uses, so that each node keeps its place.
    """

    def instead(index: int) -> int:
        return graph.nodes[place].inputs[0] if index == place else index

    outputs = list(dict.fromkeys(map(instead, graph.outputs)))
    left: set[int] = set()
    waiting = outputs[:]
    while waiting:
        at = waiting.pop()
        if at not in left:
            left.add(at)
            waiting += map(instead, graph.nodes[at].inputs)
    found = [
        replace(node, inputs=tuple(map(instead, node.inputs)))
        if at in left
        else _node(node.name, Form.INPUT)
        for at, node in enumerate(graph.nodes)
    ]
    return Graph(found, outputs), left
