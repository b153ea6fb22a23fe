"""Random conditions, as text, that hold for a match of a pattern in a graph."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

from collage_dsl.graph import Form, Graph, Node, TensorType
from collage_dsl.graph.types import short_dtype
from collage_dsl.rules.contents import ends

_DIVISORS = (2, 3, 4, 8)


@dataclass(frozen=True, slots=True)
class Number:
    """An expression that has one number in the match."""

    text: str
    value: int


class TrueConditions:
    """Writes conditions about the values that a match has `bound` in `graph`."""

    def __init__(self, graph: Graph, bound: Mapping[str, int], random: Random) -> None:
        self.random = random
        nodes = {name: graph.nodes[index] for name, index in bound.items()}
        self.numbers = [number for name, node in nodes.items() for number in _numbers(name, node)]
        self.dtypes = [
            (name, short_dtype(node.type.dtype))
            for name, node in nodes.items()
            if isinstance(node.type, TensorType) and node.type.dtype != "unknown"
        ]

    def condition(self, depth: int = 1) -> str:
        if depth and self.random.random() < 0.2:
            sides = [self.condition(0), self.random.choice((self.condition, self.other))(0)]
            self.random.shuffle(sides)
            return f"({' or '.join(sides)})"
        if self.dtypes and self.random.random() < 0.15:
            return self.about_dtypes()
        return self.about_numbers()

    def other(self, depth: int = 0) -> str:
        """A condition that need not hold."""
        one = self.random.choice(self.numbers)
        operator = self.random.choice(("==", "!=", "<", ">"))
        return f"{one.text} {operator} {abs(one.value) + self.random.randrange(3)}"

    def about_dtypes(self) -> str:
        (one, dtype), (other, second) = (self.random.choice(self.dtypes) for _ in range(2))
        return self.random.choice(
            (
                f"dtype({one}) == {dtype}",
                f"dtype({one}) in [{', '.join(sorted({dtype, 'i4', 'f32'}))}]",
                f"dtype({one}) {'==' if dtype == second else '!='} dtype({other})",
            )
        )

    def about_numbers(self) -> str:
        """A true comparison; with numbers below 0, it may be one that the language cannot write."""
        one, other, third = (self.random.choice(self.numbers) for _ in range(3))
        more, divisor = self.random.randrange(3), self.random.choice(_DIVISORS)
        order = "==" if one.value == other.value else "<" if one.value < other.value else ">"
        product = one.value * other.value
        return self.random.choice(
            (
                f"{one.text} == {one.value}",
                f"{one.text} {order} {other.text}",
                f"{one.text} <= {one.value + more}",
                f"{one.text} >= {one.value - more}",
                f"{one.text} != {one.value + 1 + more}",
                f"not ({one.text} > {one.value + more})",
                f"{one.text} in [{one.value}, {one.value + 1 + more}]",
                f"{one.text} % {divisor} == {one.value % divisor}",
                f"{one.text} / {divisor} == {one.value // divisor}",
                f"{one.text} - {other.text} == {one.value - other.value}",
                f"{one.text} + {other.text} == {one.value + other.value}",
                f"{one.text} * {other.text} == {product}",
                f"{one.text} * {other.text} - {third.text} == {product - third.value}",
                f"{one.text} <= {other.text} * {abs(one.value) + more}",
            )
        )


def _numbers(name: str, node: Node) -> Iterator[Number]:
    type_ = node.type
    if isinstance(type_, TensorType) and type_.shape is not None and type_.bytes is not None:
        shape = type_.static_shape
        yield Number(f"rank({name})", len(shape))
        for axis, dim in enumerate(shape):
            yield Number(f"dim({name}, {axis})", dim)
            yield Number(f"dim({name}, {axis - len(shape)})", dim)
        yield Number(f"bytes({name})", type_.bytes)
        if type_.size is not None:
            yield Number(f"size({name})", type_.size)
    if node.form is Form.CONSTANT and not (found := ends(node)).unknown:
        for said, end in (("min", found.least), ("max", found.most)):
            if isinstance(end, int) and not isinstance(end, bool):
                yield Number(f"{said}({name})", end)
    if node.form is Form.CALL:
        for attribute, value in node.attrs.items():
            match value:
                case bool():
                    pass
                case int():
                    yield Number(f"{name}.{attribute}", value)
                case (int(), *_) as items:
                    for at, item in enumerate(items):
                        if isinstance(item, int):
                            yield Number(f"{name}.{attribute}[{at}]", item)
