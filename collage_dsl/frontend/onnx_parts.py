"""Write one ONNX node as several of the standard, which the importer then converts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from collage_dsl.frontend.onnx_constants import attributes
from collage_dsl.frontend.onnx_site import static_dims
from collage_dsl.frontend.onnx_values import Values
from collage_dsl.graph.arrays import Array


@dataclass(frozen=True, slots=True)
class Parts:
    """A node, what is known of its operands, and the nodes that are written for it so far."""

    node: onnx.NodeProto
    values: Values
    fresh: Callable[[str], str]
    made: list[onnx.NodeProto] = field(default_factory=list)

    @property
    def attrs(self) -> Mapping[str, Any]:
        return attributes(self.node)

    def operand(self, place: int) -> str:
        """The name of an operand; empty if the node lacks it."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def is_used(self, *places: int) -> bool:
        """Whether something takes one of these outputs."""
        names = (self.node.output[place] for place in places if place < len(self.node.output))
        return any(name and self.values.uses[name] for name in names)

    def sizes(self, place: int) -> list[int | None]:
        """The dimensions of an operand, with None for one that is no number."""
        array = self.values.constant(self.operand(place))
        if array is not None:
            return list(array.shape)
        return static_dims(self.values.tensor(self.values.expr(self.operand(place))).ty)

    def emit(self, op: str, *operands: str, **attrs: Any) -> str:
        """The result of a new node."""
        name = self.name(op)
        self.made.append(helper.make_node(op, list(operands), [name], **attrs))
        return name

    def emit_several(self, op: str, count: int, *operands: str, **attrs: Any) -> list[str]:
        names = [self.name(f"{op}.{place}") for place in range(count)]
        self.made.append(helper.make_node(op, list(operands), names, **attrs))
        return names

    def constant(self, value: Any, dtype: str) -> str:
        array: Array = np.asarray(value, dtype)
        return self.emit("Constant", value=numpy_helper.from_array(array))

    def numbers(self, *values: int) -> str:
        """A vector of integers, as shapes and axes are."""
        return self.constant(values, "int64")

    def result(self, *names: str) -> list[onnx.NodeProto]:
        """The nodes, in which these results have the names of the outputs; an empty one is none."""
        given = {x: y for x, y in zip(names, self.node.output, strict=False) if x and y}
        for each in self.made:
            each.input[:] = [given.get(name, name) for name in each.input]
            each.output[:] = [given.get(name, name) for name in each.output]
        return self.made

    def name(self, op: str) -> str:
        output = next(filter(None, self.node.output))
        return self.fresh(f"{output}.{len(self.made)}.{op.lower()}")
