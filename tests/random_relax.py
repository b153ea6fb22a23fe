"""Random graphs of real operators, and random patterns that have something to do with them."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from collage_dsl.graph import Form, Graph, Node, members
from collage_dsl.graph.operators import is_commutative
from collage_dsl.language import parse_graph
from collage_dsl.rules.condition import Attr, Compare, Constant, Dtype, Where, Within
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    FieldOf,
    Operand,
    Parameter,
    Pattern,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
)

UNARY = ("nn.relu", "exp", "sigmoid")
BINARY = ("add", "multiply", "maximum", "subtract", "divide")
SQUARE, COLUMN, HALF, PAIR = "[4, 4]", "[4, 1]", "[2, 4]", "pair"


def relax_graph(generator: random.Random, calls: int) -> Graph:
    """
    A graph of about `calls` calls: elementwise and broadcasting ones, transpositions, sums,
    products of matrices, softmax, splits and concatenations. No two calls are the same.
    """
    return parse_graph(_Writer(generator).text(calls))


@dataclass(slots=True)
class _Writer:
    generator: random.Random
    shapes: dict[str, str] = field(default_factory=lambda: {"x": SQUARE, "w": SQUARE, "c": COLUMN})
    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def text(self, calls: int) -> str:
        written: set[str] = set()
        while len(self.lines) < calls:
            expression, shape = self.generator.choice(self.makers())()
            if expression not in written:
                written.add(expression)
                self.add(expression, shape)
        results = [name for name in self.shapes if name.startswith("n") and name not in self.used]
        results = [name for name in results if self.shapes[name] != PAIR] or ["x"]
        header = "x: f32[4, 4]; w = const f32[4, 4]; c: f32[4, 1];"
        return f"{header} {' '.join(self.lines)} return {', '.join(results)};"

    def add(self, expression: str, shape: str) -> str:
        name = f"n{len(self.lines)}"
        self.lines.append(f"{name} = {expression};")
        self.shapes[name] = shape
        return name

    def pick(self, *shapes: str) -> str:
        """A value of one of these shapes; later ones are likelier, which makes long chains."""
        names = [name for name, shape in self.shapes.items() if shape in shapes]
        name = self.generator.choice(names[-4:] if self.generator.random() < 0.6 else names)
        self.used.add(name)
        return name

    def makers(self) -> list[Callable[[], tuple[str, str]]]:
        made = [self.unary, self.unary, self.binary, self.binary, self.binary]
        made += [self.transposed, self.summed, self.product, self.softmax, self.halves]
        has = set(self.shapes.values())
        return (
            made + ([self.half] * 2 if PAIR in has else []) + ([self.whole] if HALF in has else [])
        )

    def unary(self) -> tuple[str, str]:
        name = self.pick(SQUARE, COLUMN, HALF)
        return f"{self.generator.choice(UNARY)}({name})", self.shapes[name]

    def binary(self) -> tuple[str, str]:
        one = self.pick(SQUARE, HALF)
        other = self.pick(*([SQUARE, COLUMN] if self.shapes[one] == SQUARE else [HALF]))
        pair = [one, other] if self.generator.random() < 0.5 else [other, one]
        return f"{self.generator.choice(BINARY)}({', '.join(pair)})", self.shapes[one]

    def transposed(self) -> tuple[str, str]:
        return f"permute_dims({self.pick(SQUARE)})", SQUARE

    def summed(self) -> tuple[str, str]:
        return f"sum({self.pick(SQUARE)}) [axis = [1], keepdims = true]", COLUMN

    def product(self) -> tuple[str, str]:
        right = "w" if self.generator.random() < 0.5 else self.pick(SQUARE)
        return f"matmul({self.pick(SQUARE)}, {right})", SQUARE

    def softmax(self) -> tuple[str, str]:
        axis = self.generator.choice((0, 1, -1))
        return f"nn.softmax({self.pick(SQUARE)}) [axis = {axis}]", SQUARE

    def halves(self) -> tuple[str, str]:
        return f"split({self.pick(SQUARE)}) [indices_or_sections = 2, axis = 0]", PAIR

    def half(self) -> tuple[str, str]:
        return f"{self.pick(PAIR)}.{self.generator.randint(0, 1)}", HALF

    def whole(self) -> tuple[str, str]:
        fields = self.add(f"({self.pick(HALF)}, {self.pick(HALF)})", "fields")
        self.used.add(fields)
        return f"concat({fields}) [axis = 0]", SQUARE


def random_pattern(generator: random.Random, graph: Graph) -> Pattern:
    """
    A pattern made from what is above some node of `graph`: parts of it are left open, made
    optional, named, moved to patterns of their own or changed, so that many match somewhere.
    """
    root = generator.choice(list(members(graph.computed)))
    return _PatternMaker(generator, graph).pattern(root, depth=generator.randint(1, 4))


@dataclass(slots=True)
class _PatternMaker:
    generator: random.Random
    graph: Graph
    parameters: list[Parameter] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    names: dict[int, list[str]] = field(default_factory=dict)

    def chance(self, probability: float) -> bool:
        return self.generator.random() < probability

    def pattern(self, root: int, depth: int) -> Pattern:
        self.bindings.append(Binding("y", self.value(root, depth)))
        return Pattern(
            "p", tuple(self.parameters), tuple(self.bindings), "y", tuple(self.conditions())
        )

    def conditions(self) -> Iterator[Where]:
        if self.parameters and self.chance(0.2):
            name = self.generator.choice(self.parameters).name
            yield Where(Compare("==", Dtype(name), Constant(self.generator.choice(("f32", "f16")))))
        if self.chance(0.1):
            yield Where(Within(Dtype("y"), Constant(("f16", "f32"))))

    def operand(self, index: int, depth: int) -> Operand:
        known = self.names.get(index)
        if known and self.chance(0.7):
            return Reference(self.generator.choice(known))
        node = self.graph.nodes[index]
        if depth == 0 or node.form in (Form.INPUT, Form.CONSTANT, Form.LITERAL):
            return self.leaf(index)
        value = self.value(index, depth)
        if self.chance(0.3):
            name = f"v{len(self.bindings)}"
            self.bindings.append(Binding(name, value))
            self.names.setdefault(index, []).append(name)
            return Reference(name)
        return value

    def leaf(self, index: int) -> Operand:
        if self.chance(0.3):
            return Anything()
        names = [name for known in self.names.values() for name in known]
        if names and self.chance(0.1):
            return Reference(self.generator.choice(names))
        constant = self.graph.nodes[index].form is Form.CONSTANT and self.chance(0.7)
        parameter = Parameter(
            f"x{len(self.parameters)}", constant or self.chance(0.05), self.chance(0.5)
        )
        self.parameters.append(parameter)
        self.names.setdefault(index, []).append(parameter.name)
        return Reference(parameter.name)

    def value(self, index: int, depth: int) -> Operand:
        node = self.graph.nodes[index]
        match node.form:
            case Form.TUPLE:
                return TupleOf(tuple(self.operand(i, depth) for i in node.inputs))
            case Form.PROJECTION:
                assert isinstance(node.value, int)
                return FieldOf(self.operand(node.inputs[0], depth), node.value)
            case Form.CALL if depth > 0:
                return self.changed(self.call(node, depth))
        return Call(("nn.relu",), (self.leaf(index),))

    def call(self, node: Node, depth: int) -> Call:
        operands = [self.operand(i, depth - 1) for i in node.inputs]
        if len(operands) == 2 and is_commutative(node.op) and self.chance(0.5):
            operands.reverse()
        ops = [node.op]
        if self.chance(0.2):
            ops.insert(0, self.generator.choice(UNARY if len(operands) == 1 else BINARY))
        return Call(
            tuple(dict.fromkeys(ops)),
            tuple(operands),
            tuple(self.attributes(node)),
            optional=self.chance(0.2),
            ordered=self.chance(0.1),
        )

    def attributes(self, node: Node) -> Iterator[Where]:
        if "axis" in node.attrs and isinstance(node.attrs["axis"], int) and self.chance(0.5):
            axis = node.attrs["axis"] if self.chance(0.7) else 0
            yield Where(self.generator.choice((_is(axis), _is_among(axis))))

    def changed(self, call: Call) -> Operand:
        match self.generator.randint(0, 9):
            case 0:
                return Call(("sigmoid",), (call,), optional=True)
            case 1:
                return Either((call, Call(BINARY[:2], (Anything(), self.leaf(0)))))
            case 2 if len(call.operands) == 1:
                return Repeat(call, self.generator.randint(0, 1), self.generator.randint(1, 3))
            case 3:
                return self.moved(call)
        return call

    def moved(self, call: Call) -> PatternCall:
        """The call in a pattern of its own, which takes the operands."""
        names = [f"a{i}" for i in range(len(call.operands))]
        inner = Pattern(
            "inner",
            tuple(Parameter(name, optional=True) for name in names),
            (Binding("z", Call(call.ops, tuple(map(Reference, names)), call.attributes)),),
            "z",
        )
        return PatternCall(inner, call.operands, optional=call.optional)


def _is(axis: int) -> Compare:
    return Compare("==", Attr("axis"), Constant(axis))


def _is_among(axis: int) -> Within:
    return Within(Attr("axis"), Constant((axis, 7)))
