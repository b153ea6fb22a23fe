"""Graphs as Relax: whole modules, and the calls of a sub-graph into a builder."""

from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr import _update_type

from collage_dsl.frontend.arrays import constant
from collage_dsl.frontend.attributes import relax_attributes
from collage_dsl.frontend.dims import Symbols, expr_of
from collage_dsl.frontend.types import DTYPE, SCALARS, SHAPE, STRING, relax_type
from collage_dsl.graph import Form, Graph, Node, OpSet, Type, members
from collage_dsl.graph.operators import CALL_TIR

_WINDOWED = ("conv", "avg_pool", "max_pool", "adaptive_avg_pool")
_SLOWLY_INFERRED = frozenset(f"nn.{op}{rank}d" for op in _WINDOWED for rank in (1, 2, 3))
"""TVM infers the type of a call of these slowly, by way of layouts."""


def to_relax(graph: Graph) -> tvm.IRModule:
    """A module with one function, named as the graph, that computes it."""
    symbols: Symbols = {}
    parameters = [(i, graph.nodes[i]) for i in members(graph.parameters)]
    values = {i: relax.Var(node.name, relax_type(node.type, symbols)) for i, node in parameters}
    builder = relax.BlockBuilder()
    with builder.function(graph.name, list(values.values())):
        for nodes in _blocks(graph):
            with builder.dataflow():
                outputs = graph.exit(nodes)
                values |= emit(builder, graph, values, nodes, outputs=outputs, symbols=symbols)
        values |= _inline(graph, values, symbols)
        results = [values[i] for i in graph.outputs]
        builder.emit_func_output(relax.Tuple(results) if graph.returns_tuple else results[0])
    return builder.get()


def emit(
    builder: relax.BlockBuilder,
    graph: Graph,
    values: Mapping[int, Any],
    nodes: OpSet | None = None,
    *,
    outputs: OpSet = 0,
    symbols: Symbols | None = None,
    is_typed: bool = False,
    callees: Mapping[int, Any] | None = None,
) -> dict[int, Any]:
    """
    Emit the calls, tuples and projections in `nodes` (by default all) into the open block.

    `values` has an expression for every input of `nodes`, except that constants and literals
    without one are written where they are used. The result has one for each of `nodes`, each
    bound to a variable of the node's name, an output of the dataflow block where `outputs`
    has the node. A tuple that one call takes, and nothing else, is written in that call.
    `symbols` has the variable of each symbolic dimension, `callees` the global variable of the
    PrimFunc that a node calls. With `is_typed` convolutions and pools of static shapes have the
    types of their nodes, which are not checked; all else has those that TVM infers.
    """
    inside = graph.computed if nodes is None else nodes
    known = {**values, **_inline(graph, values, {} if symbols is None else symbols, inside)}
    for i in members(inside):
        node = graph.nodes[i]
        operands = [known[operand] for operand in node.inputs]
        value = _expression(node, operands, symbols or {}, (callees or {}).get(i))
        if is_typed and node.op in _SLOWLY_INFERRED and _has_numbers(node, operands):
            _update_type(value, relax_type(node.type, {}))
        if not _is_written_in_its_user(graph, i, inside, outputs):
            value = _bind(builder, node.name, value, is_output=bool(outputs >> i & 1))
        known[i] = value
    return {i: known[i] for i in members(inside)}


def _blocks(graph: Graph) -> list[OpSet]:
    """The computed nodes by dataflow block."""
    blocks: dict[int, OpSet] = {}
    for i in members(graph.computed):
        block = graph.nodes[i].block
        blocks[block] = blocks.get(block, 0) | 1 << i
    return [blocks[block] for block in sorted(blocks)]


def _inline(
    graph: Graph, values: Mapping[int, Any], symbols: Symbols, inside: OpSet | None = None
) -> dict[int, Any]:
    """Expressions for the constants and literals that flow into `inside`, or that return."""
    flows_in = graph.results if inside is None else graph.input(inside)
    return {
        i: literal(graph.nodes[i], symbols)
        for i in members(flows_in & (graph.constants | graph.literals))
        if i not in values
    }


def literal(node: Node, symbols: Symbols) -> Any:
    """The expression of a constant or literal."""
    value: Any = node.value
    if value is None:
        raise ValueError(f"the {node.form.value} `{node.name}` has no value")
    if node.form is Form.CONSTANT:
        return constant(value)
    return _literal(node.type, value, symbols)


def _literal(type_: Type, value: Any, symbols: Symbols) -> Any:
    if type_ == SHAPE:
        return relax.ShapeExpr([expr_of(dim, symbols) for dim in value])
    if type_ == SCALARS:
        return relax.Tuple([_number(item) for item in value])
    if type_ == STRING:
        return tvm.ir.StringImm(value)
    if type_ == DTYPE:
        return tvm.ir.GenericConst(tvm.DataType(value), tvm.relax.ObjectType())
    if isinstance(value, str):
        return expr_of(value, symbols)
    return _number(value, str(type_))


def _number(value: bool | float, dtype: str = "") -> Any:
    if isinstance(value, float):
        return tvm.tirx.FloatImm(dtype or "float64", value)
    return tvm.tirx.IntImm(dtype or ("bool" if isinstance(value, bool) else "int64"), value)


def _expression(node: Node, operands: list[Any], symbols: Symbols, callee: Any | None) -> Any:
    match node.form:
        case Form.CALL if node.op == CALL_TIR:
            if callee is None:
                raise ValueError(f"`{node.name}` calls a function that is not in this module")
            types = [relax_type(node.type, symbols)]
            call_tir = tvm.ir.Op.get("relax." + CALL_TIR)
            return relax.Call(call_tir, [callee, relax.Tuple(operands)], None, types)
        case Form.CALL:
            operator = tvm.ir.Op.get("relax." + node.op)
            return relax.Call(operator, operands, relax_attributes(node.op, node.attrs))
        case Form.TUPLE:
            return relax.Tuple(operands)
        case Form.PROJECTION:
            return relax.TupleGetItem(operands[0], node.value)
    raise ValueError(f"`{node.name}` is not computed")


def _has_numbers(node: Node, operands: list[Any]) -> bool:
    """Whether all dimensions of a call and its operands are numbers, for TVM too."""
    shapes = [getattr(operand.ty, "shape", None) for operand in operands]
    return node.tensor.is_static and all(
        isinstance(shape, relax.ShapeExpr)
        and all(isinstance(dim, tvm.tirx.IntImm) for dim in shape.values)
        for shape in shapes
    )


def _is_written_in_its_user(graph: Graph, i: int, inside: OpSet, outputs: OpSet) -> bool:
    if graph.nodes[i].form is not Form.TUPLE or outputs >> i & 1:
        return False
    users = list(members(graph.users_of[i]))
    return len(users) == 1 and graph.nodes[users[0]].is_call and bool(inside >> users[0] & 1)


def _bind(builder: relax.BlockBuilder, name: str, value: Any, *, is_output: bool) -> Any:
    """Bind `value` to a variable of exactly this name, which `builder.emit` would change."""
    normal = builder.normalize(value)
    local = builder.current_block_is_dataflow() and not is_output
    var = (relax.DataflowVar if local else relax.Var)(name, normal.ty)
    builder.emit_normalized(relax.VarBinding(var, normal))
    return var
