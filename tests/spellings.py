"""
Functions as random ONNX models: each sum and product in some order and grouping, constants as
factors or divisors, and powers written as products or as `Pow`.
"""

import random
from dataclasses import dataclass, field, replace

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 23


@dataclass(frozen=True, slots=True)
class Product:
    """A factor that is repeated is a power."""

    factors: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Sum:
    terms: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Apply:
    """An ONNX operator, such as `Erf`."""

    op: str
    operands: tuple["Expression", ...]
    attributes: tuple[tuple[str, object], ...] = ()


Expression = str | float | Product | Sum | Apply
"""A string is an input or a weight."""


def product(*factors: Expression) -> Product:
    return Product(factors)


def plus(*terms: Expression) -> Sum:
    return Sum(terms)


def apply(op: str, *operands: Expression, **attributes: object) -> Apply:
    return Apply(op, operands, tuple(sorted(attributes.items())))


@dataclass(slots=True)
class Speller:
    rng: random.Random
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    known: dict[Expression, str] = field(default_factory=dict)

    def spell(self, said: Expression) -> str:
        """The name of the value; an expression that occurs twice is one value."""
        if isinstance(said, str):
            return said
        if isinstance(said, float):
            return self.constant(said)
        if said not in self.known:
            match said:
                case Product(factors):
                    self.known[said] = self.product(list(factors))
                case Sum(terms):
                    self.known[said] = self.tree("Add", "Sub", list(terms))
                case Apply(op, operands, attributes):
                    inner = [self.spell(operand) for operand in operands]
                    self.known[said] = self.node(op, *inner, **dict(attributes))
        return self.known[said]

    def product(self, factors: list[Expression]) -> str:
        base = max(factors, key=factors.count)
        repeated = factors.count(base)
        if repeated > 1 and self.rng.random() < 0.5:
            factors = [each for each in factors if each != base]
            factors.append(apply("Pow", base, float(repeated)))
        numbers = [each for each in factors if isinstance(each, float)]
        # Importers multiply a sum with a constant out, so the number beside one is in one piece.
        if len(numbers) == 1 and not any(isinstance(each, Sum) for each in factors):
            factors = [each for each in factors if not isinstance(each, float)]
            part = self.rng.choice([1.0, 1.0, 2.0, 0.5])
            factors += [numbers[0] / part, *([part] if part != 1 else [])]
        return self.tree("Mul", "Div", factors) if len(factors) > 1 else self.spell(factors[0])

    def tree(self, op: str, inverse: str, operands: list[Expression]) -> str:
        waiting = list(operands)
        while len(waiting) > 1:
            self.rng.shuffle(waiting)
            one, two, *rest = waiting
            if isinstance(one, float) and isinstance(two, float):
                continue  # importers fold these
            if isinstance(one, float):
                one, two = two, one
            if isinstance(two, float) and self.rng.random() < 0.5:
                other = 1 / two if inverse == "Div" else -two
                name = self.node(inverse, self.spell(one), self.constant(other))
            else:
                order = [self.spell(one), self.spell(two)]
                self.rng.shuffle(order)
                name = self.node(op, *order)
            waiting = [*rest, name]
        return self.spell(waiting[0])

    def constant(self, value: float) -> str:
        name = f"c{len(self.weights)}"
        shape = self.rng.choice([(), (1,)])
        self.weights[name] = np.full(shape, value, np.float32)
        return name

    def node(self, op: str, *operands: str, **attributes: object) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(operands), [name], name, **attributes))
        return name


def spelled(
    said: Expression,
    seed: int,
    inputs: dict[str, tuple[int, ...]],
    weights: dict[str, np.ndarray] | None = None,
) -> onnx.ModelProto:
    """The model with the result `y`."""
    speller = Speller(random.Random(seed), weights=dict(weights or {}))
    result = speller.spell(said)
    nodes = [*speller.nodes, helper.make_node("Identity", [result], ["y"], "y")]
    graph = helper.make_graph(
        nodes,
        "spelled",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in speller.weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True)


def changed(said: Expression, old: Expression, new: Expression | None) -> Expression:
    """`said` with `new` in place of `old`, or without it."""
    if said == old and new is not None:
        return new
    match said:
        case Product(inner) | Sum(inner):
            left = [changed(each, old, new) for each in inner if each != old or new is not None]
            kept = tuple(left)
            return kept[0] if len(kept) == 1 else type(said)(kept)
        case Apply(operands=inner):
            return replace(said, operands=tuple(changed(each, old, new) for each in inner))
        case _:
            return said
