"""Make an ONNX model of a graph, with its larger constants outside the model."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from collage_dsl.backends.onnx_writer.biases import Biased, biases_in, unread_with
from collage_dsl.backends.onnx_writer.call import Call, Unsupported, Value, element_type
from collage_dsl.backends.onnx_writer.integers import (
    INTEGER_OPERATORS,
    Factor,
    factors_in,
    unread,
    zero_as,
)
from collage_dsl.backends.onnx_writer.kept import (
    KeptNode,
    OperatorSetError,
    fields_of,
    in_opset,
    kept_nodes,
    object_type,
    operator_sets,
)
from collage_dsl.backends.onnx_writer.table import OPERATORS
from collage_dsl.graph import Dim, Form, Graph, Node, OpSet, TensorType, TupleType, Type
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.onnx_node import constants_inside, passed
from collage_dsl.graph.sizes import UNKNOWN, computed

IR_VERSION = 10
_INSIDE = 128
"""Constants of at most this many bytes are stored in the model."""

_ARITHMETIC = {"+": "Add", "-": "Sub", "*": "Mul", "%": "Mod", "min": "Min", "max": "Max"}


def to_onnx(graph: Graph) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """
    The model, and its larger constants by the names of their initializers.

    Those initializers are external and have no data: whoever runs the model supplies it. Inputs
    and outputs are in the order of the graph. Raises Unsupported.
    """
    writer, model = _written(graph)
    missing = [name for name, array in writer.constants.items() if array is None]
    if missing:
        raise ValueError(f"constant `{missing[0]}` has no value")
    return model, {name: array for name, array in writer.constants.items() if array is not None}


def outline(graph: Graph) -> tuple[onnx.ModelProto, frozenset[str]]:
    """
    The model of `to_onnx`, for a graph whose larger constants may lack values, and the names of the
    nodes that are in the graph as ONNX nodes.
    """
    writer, model = _written(graph)
    # Inference does not know all operators, and for some of those that it knows it ends the process
    # where an operand has no type.
    model.graph.value_info.extend(writer.results)
    return model, frozenset(writer.as_they_are)


def _written(graph: Graph) -> tuple["_Writer", onnx.ModelProto]:
    kept = kept_nodes(graph)
    writer = _Writer(graph, kept)
    try:
        return writer, writer.model()
    except OperatorSetError:
        writer = _Writer(graph, in_opset(kept))
        return writer, writer.model()


@dataclass(slots=True)
class _Writer:
    """Writes each node of a graph in order. `values` are the ONNX values of the nodes so far."""

    graph: Graph
    kept: Mapping[int, KeptNode]
    constants: dict[str, Array | None] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    initializers: list[TensorProto] = field(default_factory=list)
    names: Iterator[int] = field(default_factory=count)
    taken: frozenset[str] = frozenset()
    as_they_are: list[str] = field(default_factory=list)
    results: list[onnx.ValueInfoProto] = field(default_factory=list)
    """Of the nodes that are written as they are, with their types."""
    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    """For each dimension that is no number, an input that has it, and at which axis."""
    factors: Mapping[int, tuple[Factor, Factor]] = field(default_factory=dict)
    """Of the products and convolutions that are written as those of bytes."""
    biases: Mapping[int, Biased] = field(default_factory=dict)
    """Of the sums that are written as a convolution with its bias."""
    unread: OpSet = 0
    """The nodes that these would take; nothing else does."""
    inside: OpSet = 0
    """The constants that nodes have in their models, which they are written with."""

    def model(self) -> onnx.ModelProto:
        self.taken = frozenset(node.name for node in self.graph.nodes)
        self.places = _places(self.graph)
        self.factors = factors_in(self.graph)
        self.biases = biases_in(self.graph)
        self.unread = unread(self.graph, self.factors) | unread_with(self.graph, self.biases)
        self.inside = constants_inside(self.graph, self.kept)
        inputs = []
        for index, node in enumerate(self.graph.nodes):
            self.values.append(self._value(index, node))
            if node.form is Form.INPUT:
                inputs.append(self._declared(index, node.name, node.type))
        outputs = list(self._outputs())
        body = helper.make_graph(
            self.nodes, self.graph.name, inputs, outputs, initializer=self.initializers
        )
        opsets = operator_sets(self.kept, [n for n in self.nodes if n.name not in self.as_they_are])
        ids = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
        ir_version = max([IR_VERSION, *(each.model.ir_version for each in self.kept.values())])
        return helper.make_model(body, opset_imports=ids, ir_version=ir_version)

    # The nodes of the graph.

    def _value(self, index: int, node: Node) -> Value:
        match node.form:
            case Form.INPUT:
                return node.name
            case Form.CONSTANT if self.inside >> index & 1:
                return ""
            case Form.CONSTANT:
                return self._constant(node)
            case Form.LITERAL:
                return ""
            case Form.TUPLE:
                return tuple(self._field(i) for i in node.inputs)
            case Form.PROJECTION:
                return self.values[node.inputs[0]][_index(node)]
            case Form.CALL if index in self.kept:
                return self._as_it_is(node, self.kept[index])
            case Form.CALL if self.unread >> index & 1:
                return ""
            case Form.CALL if index in self.factors:
                return self._of_bytes(node, self.factors[index])
            case Form.CALL if index in self.biases:
                return self._with_bias(self.biases[index])
            case Form.CALL:
                return self._call(node)

    def _as_it_is(self, node: Node, kept: KeptNode) -> Value:
        operands = [self._field(i) for i in passed(node)]
        proto, results = kept.written(operands, lambda: self._fresh(node.name), self.initializers)
        proto.name = self._fresh(node.name)
        self.as_they_are.append(proto.name)
        self.nodes.append(proto)
        for name, given in zip(results, kept.model.graph.output, strict=True):
            value = onnx.ValueInfoProto(name=name, type=given.type)
            if value.type.HasField("tensor_type"):
                value.type.tensor_type.ClearField("shape")
            self.results.append(value)
        return results if isinstance(node.type, TupleType) else results[0]

    def _field(self, index: int) -> str:
        value = self.values[index]
        if not isinstance(value, str):
            node = self.graph.nodes[index]
            raise Unsupported(node.name, node.op or "tuple", "a tuple is inside another tuple")
        return value

    def _call(self, node: Node) -> Value:
        write = OPERATORS.get(node.op)
        if write is None:
            raise Unsupported(node.name, node.op, "no ONNX operator is known for it")
        return write(self._call_of(node, node.inputs))

    def _with_bias(self, biased: Biased) -> Value:
        node = self.graph.nodes[biased.convolution]
        return OPERATORS[node.op](self._call_of(node, (*node.inputs, biased.bias)))

    def _of_bytes(self, node: Node, factors: tuple[Factor, Factor]) -> Value:
        """A product of bytes, with their zero points as the third and fourth operand."""
        call = self._call_of(node, [each.value for each in factors])
        zeros = tuple(map(self._zero, factors))
        return INTEGER_OPERATORS[node.op](replace(call, operands=(*call.operands, *zeros)))

    def _zero(self, factor: Factor) -> Value:
        if factor.zero is None:
            return ""
        zero, dtype = self.graph.nodes[factor.zero], self.graph.nodes[factor.value].tensor.dtype
        constant = zero_as(dtype, zero)
        return self.values[factor.zero] if constant is None else self.array(zero.name, constant)

    def _call_of(self, node: Node, inputs: Sequence[int]) -> Call:
        """A call that takes these nodes."""
        operands = [self.graph.nodes[i] for i in inputs]
        return Call(
            node=node,
            operands=tuple(self.values[i] for i in inputs),
            types=tuple(o.type if isinstance(o.type, TensorType) else None for o in operands),
            literals=tuple(self._literal(o) for o in operands),
            to=self,
        )

    def _literal(self, node: Node) -> Any:
        if node.form is not Form.TUPLE:
            return node.value if node.form in (Form.LITERAL, Form.CONSTANT) else None
        fields = tuple(self._literal(self.graph.nodes[i]) for i in node.inputs)
        return None if any(f is None for f in fields) else fields

    def _constant(self, node: Node) -> str:
        array = node.value
        if isinstance(array, np.ndarray) and array.nbytes <= _INSIDE:
            self.initializers.append(numpy_helper.from_array(array, node.name))
            return node.name
        self.constants[node.name] = array if isinstance(array, np.ndarray) else None
        self.initializers.append(_external(node))
        return node.name

    def _outputs(self) -> Iterator[onnx.ValueInfoProto]:
        """Declare the outputs, with tuples flattened. ONNX needs a separate value for each."""
        seen = {node.name for node in self.graph.nodes if node.form is not Form.CALL}
        for index in self.graph.outputs:
            node = self.graph.nodes[index]
            for value, type_ in zip(_flat(self.values[index]), fields_of(node.type), strict=True):
                name = value
                if value in seen:
                    (name,) = self.node(node.name, "Identity", [value], 1, {})
                seen.add(name)
                yield self._declared(index, name, type_)

    def _declared(self, index: int, name: str, type_: Type) -> onnx.ValueInfoProto:
        """The declaration of a value of the node `index` by the name `name`."""
        node = self.graph.nodes[index]
        if not isinstance(type_, TensorType):
            if found := object_type(self.graph, self.kept, index):
                return onnx.ValueInfoProto(name=name, type=found)
            raise Unsupported(node.name, node.op or "input", f"{type_} is not a tensor")
        shape = type_.shape
        known = None if shape is None else [None if dim == UNKNOWN else dim for dim in shape]
        return helper.make_tensor_value_info(name, element_type(node, type_.dtype), known)

    # The methods of `Emitter`.

    def node(
        self, near: str, op: str, inputs: Sequence[str], outputs: int, attrs: Mapping[str, Any]
    ) -> tuple[str, ...]:
        names = tuple(self._fresh(near) for _ in range(outputs))
        given = list(inputs)
        while given and not given[-1]:
            given.pop()
        self.nodes.append(helper.make_node(op, given, list(names), names[0], **attrs))
        return names

    def array(self, near: str, array: Array) -> str:
        name = self._fresh(near)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def size(self, near: str, dim: Dim) -> str:
        if isinstance(dim, int):
            return self.array(near, np.array([dim], np.int64))
        if dim in self.places:
            value, axis = self.places[dim]
            return self.node(near, "Shape", [value], 1, {"start": axis, "end": axis + 1})[0]
        return self._computed(near, dim)

    def _computed(self, near: str, dim: str) -> str:
        """A vector of one number that follows from dimensions with names."""

        def named(name: str) -> str:
            if name not in self.places:
                raise LookupError(name)
            return self.size(near, name)

        def joined(sign: str, left: str, right: str) -> str:
            if sign != "//":
                return self.node(near, _ARITHMETIC[sign], [left, right], 1, {})[0]
            # ONNX divides towards zero, Relax down.
            (rest,) = self.node(near, "Mod", [left, right], 1, {})
            (whole,) = self.node(near, "Sub", [left, rest], 1, {})
            return self.node(near, "Div", [whole, right], 1, {})[0]

        try:
            return computed(dim, number=partial(self.size, near), named=named, joined=joined)
        except SyntaxError:
            raise LookupError(dim) from None

    def _fresh(self, near: str) -> str:
        name = f"{near}.{next(self.names)}"
        return name if name not in self.taken else self._fresh(near)


def _places(graph: Graph) -> dict[str, tuple[str, int]]:
    places: dict[str, tuple[str, int]] = {}
    for node in graph.nodes:
        if node.form is Form.INPUT and isinstance(node.type, TensorType):
            for axis, dim in enumerate(node.type.shape or ()):
                if isinstance(dim, str) and dim != UNKNOWN:
                    places.setdefault(dim, (node.name, axis))
    return places


def _flat(value: Value) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else value


def _index(node: Node) -> int:
    assert isinstance(node.value, int), f"projection {node.name} has no index"
    return node.value


def _external(node: Node) -> TensorProto:
    tensor = TensorProto(name=node.name, dims=node.tensor.static_shape)
    tensor.data_type = element_type(node, node.tensor.dtype)
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="supplied")
    return tensor
