"""Write a graph as Relax if no frontend has read it, such as a graph in the text notation."""

from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr import _update_type

from collage_dsl.frontend.arrays import constant
from collage_dsl.frontend.attributes import relax_attributes
from collage_dsl.frontend.dataflow import Dataflow
from collage_dsl.frontend.dims import Symbols, expr_of
from collage_dsl.frontend.onnx_in_relax import onnx_call
from collage_dsl.frontend.types import DTYPE, SCALARS, SHAPE, STRING, relax_type
from collage_dsl.graph import Form, Graph, Node, OpSet, Type, members
from collage_dsl.graph.onnx_node import OnnxNode, constants_inside, passed
from collage_dsl.graph.operators import CALL_DPS_PACKED, CALL_TIR, PACKED_CALLS

_WINDOWED = ("conv", "avg_pool", "max_pool", "adaptive_avg_pool")
_SLOWLY_INFERRED = frozenset(f"nn.{op}{rank}d" for op in _WINDOWED for rank in (1, 2, 3))
"""TVM infers the type of a call of these slowly, because it looks at layouts."""


def dataflow_of(graph: Graph) -> Dataflow:
    """
    The bindings that `graph` is a view of. If it was not read from bindings, they are written
    here, once; in these, a constant without a value is a variable.
    """
    if graph.source is None:
        graph.source = _Writer(graph).write()
    assert isinstance(graph.source, Dataflow)
    return graph.source


def to_relax(graph: Graph) -> tvm.IRModule:
    """
    A module with one function that computes `graph` and has its name. TVM infers every type.
    Raises ValueError for a constant without a value.
    """
    for index in members(graph.constants):
        check_value(graph.nodes[index])
    return _Writer(graph, trusts_types=False).write().module


def check_value(constant: Node) -> None:
    """Raise ValueError if a constant has no value."""
    if constant.value is None:
        raise ValueError(f"the {constant.form.value} `{constant.name}` has no value")


class _Writer:
    """
    Writes one function. If `trusts_types`, convolutions and poolings of static shapes get the
    types of their nodes, which are not checked before the module is built.
    """

    def __init__(self, graph: Graph, *, trusts_types: bool = True) -> None:
        self.graph = graph
        self.trusts_types = trusts_types
        self.builder = relax.BlockBuilder()
        self.symbols: Symbols = {}
        self.values: dict[int, Any] = {}
        self.origins: list[Any] = [None] * len(graph)
        self.bindings: list[Any] = []
        self.bound: list[int] = []

    def write(self) -> Dataflow:
        graph, builder = self.graph, self.builder
        for index in members(graph.parameters):
            node = graph.nodes[index]
            self.leaf(index, relax.Var(node.name, relax_type(node.type, self.symbols)))
        inside = constants_inside(graph, members(graph.calls))
        for index in members((graph.constants | graph.literals) & ~inside):
            self.leaf(index, self.constant(graph.nodes[index]))
        with builder.function(graph.name, [self.values[i] for i in members(graph.parameters)]):
            for block in _blocks(graph):
                self.block(block)
            results = [self.values[index] for index in graph.outputs]
            builder.emit_func_output(relax.Tuple(results) if graph.returns_tuple else results[0])
        bindings, bound = tuple(self.bindings), tuple(self.bound)
        return Dataflow(graph, bindings, bound, tuple(self.origins), builder.get(), graph.name)

    def leaf(self, index: int, value: Any) -> None:
        self.values[index] = self.origins[index] = value

    def constant(self, node: Node) -> Any:
        if node.form is Form.CONSTANT and node.value is None:
            return relax.Var(node.name, relax_type(node.type, self.symbols))
        return literal(node, self.symbols)

    def block(self, nodes: OpSet) -> None:
        outputs = self.graph.exit(nodes)
        with self.builder.dataflow():
            for index in members(nodes):
                self.emit(index, is_output=bool(outputs >> index & 1))

    def emit(self, index: int, *, is_output: bool) -> None:
        """
        Bind a node to a variable with its name. A tuple that only one call takes is written in
        that call instead.
        """
        node = self.graph.nodes[index]
        value = self.expression(node)
        if node.is_call:
            self.origins[index] = value
        if self.is_written_in_its_user(index) and not is_output:
            self.values[index] = value
            return
        var = _bind(self.builder, node.name, value, is_output=is_output)
        self.values[index] = var
        self.bindings.append(relax.VarBinding(var, value))
        self.bound.append(index)

    def expression(self, node: Node) -> Any:
        operands = [self.values[operand] for operand in passed(node)]
        match node.form:
            case Form.CALL if node.op == CALL_TIR:
                raise ValueError(f"`{node.name}` calls a function that is not in this module")
            case Form.CALL if isinstance(node.value, OnnxNode):
                type_ = relax_type(node.type, self.symbols)
                return self.builder.normalize(onnx_call(node.value, operands, type_))
            case Form.CALL if node.op in PACKED_CALLS:
                return self.builder.normalize(self.packed(node, operands))
            case Form.CALL:
                operator = tvm.ir.Op.get("relax." + node.op)
                call = relax.Call(operator, operands, relax_attributes(node.op, node.attrs))
                if self.trusts_types and node.op in _SLOWLY_INFERRED and _is_static(node, operands):
                    _update_type(call, relax_type(node.type, {}))
                return self.builder.normalize(call)
            case Form.TUPLE:
                return self.builder.normalize(relax.Tuple(operands))
            case Form.PROJECTION:
                return self.builder.normalize(relax.TupleGetItem(operands[0], node.value))
        raise ValueError(f"`{node.name}` is not computed")

    def packed(self, node: Node, operands: list[Any]) -> Any:
        """The call of a packed function."""
        function, type_ = str(node.attrs["function"]), relax_type(node.type, self.symbols)
        if node.op == CALL_DPS_PACKED:
            return relax.call_dps_packed(function, relax.Tuple(operands), type_)
        return relax.call_pure_packed(function, *operands, ty_args=[type_])

    def is_written_in_its_user(self, index: int) -> bool:
        graph = self.graph
        users = list(members(graph.users_of[index]))
        is_taken_once = len(users) == 1 and graph.nodes[users[0]].is_call
        return graph.nodes[index].form is Form.TUPLE and is_taken_once


def _blocks(graph: Graph) -> list[OpSet]:
    """The computed nodes by dataflow block."""
    blocks: dict[int, OpSet] = {}
    for index in members(graph.computed):
        block = graph.nodes[index].block
        blocks[block] = blocks.get(block, 0) | 1 << index
    return [blocks[block] for block in sorted(blocks)]


def _is_static(node: Node, operands: list[Any]) -> bool:
    """Whether all dimensions of a call and its operands are numbers, also in TVM's types."""
    shapes = [getattr(operand.ty, "shape", None) for operand in operands]
    return node.tensor.is_static and all(
        isinstance(shape, relax.ShapeExpr)
        and all(isinstance(dim, tvm.tirx.IntImm) for dim in shape.values)
        for shape in shapes
    )


def _bind(builder: relax.BlockBuilder, name: str, value: Any, *, is_output: bool) -> Any:
    """Bind `value` to a variable with exactly this name; `builder.emit` would change the name."""
    var = (relax.Var if is_output else relax.DataflowVar)(name, value.ty)
    builder.emit_normalized(relax.VarBinding(var, value))
    return var


def literal(node: Node, symbols: Symbols) -> Any:
    """The expression of a constant or literal."""
    check_value(node)
    value: Any = node.value
    if node.form is Form.CONSTANT:
        return constant(value)
    return _literal(node.type, value, symbols)


def _literal(type_: Type, value: Any, symbols: Symbols) -> Any:
    if type_ == SHAPE:
        return relax.ShapeExpr([expr_of(dim, symbols) for dim in value])
    if type_ == SCALARS:
        return relax.Tuple([_scalar(item, symbols) for item in value])
    if type_ == STRING:
        return tvm.ir.StringImm(value)
    if type_ == DTYPE:
        return tvm.ir.GenericConst(tvm.DataType(value), tvm.relax.ObjectType())
    if isinstance(value, str):
        return expr_of(value, symbols)
    return _number(value, str(type_))


def _scalar(value: bool | float | str, symbols: Symbols) -> Any:
    return expr_of(value, symbols) if isinstance(value, str) else _number(value)


def _number(value: bool | float, dtype: str = "") -> Any:
    if isinstance(value, float):
        return tvm.tirx.FloatImm(dtype or "float64", value)
    return tvm.tirx.IntImm(dtype or ("bool" if isinstance(value, bool) else "int64"), value)
