"""Kernels that are taken out of a dataflow block, as functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from collage_dsl.frontend.dataflow import Dataflow, is_value
from collage_dsl.graph import Composite, Form, OpSet, extract, last, members, opset, places
from collage_dsl.realization.order import in_order


@dataclass(frozen=True, slots=True)
class Outlined:
    """
    A function that computes some nodes of a dataflow block, the nodes that its parameters stand
    for, and the nodes whose values it gives, each with its place in what the function returns.

    The last parameter has the values of the `symbols`, dimensions that the other parameters do
    not define, where there are any.
    """

    function: Any
    arguments: tuple[int, ...]
    results: Mapping[int, int]
    symbols: tuple[Any, ...] = ()


def outline(
    flow: Dataflow,
    inside: OpSet,
    constants: OpSet = 0,
    composites: Sequence[Composite] = (),
    attrs: Mapping[str, Any] | None = None,
) -> Outlined:
    """
    A private function of the nodes `inside`, made of the very calls of the block, with the
    `constants` bound. Composites are inner functions; one that is part of another is a function
    inside that.
    """
    found = extract(flow.graph, inside, constants)
    params = {
        index: relax.Var(flow.graph.nodes[index].name, _type(flow, index))
        for index in found.arguments
    }
    inside |= opset(found.results)
    symbols = _undefined(flow, inside, [param.ty for param in params.values()])
    results = places(flow.graph, found.results)
    shape = [relax.Var("dimensions", relax.ShapeType(symbols))] if symbols else []
    builder = relax.BlockBuilder()
    with builder.function("kernel", [*params.values(), *shape], private=True):
        gvar = _emit_body(builder, flow, inside, params, composites, results)
    function = relax.utils.copy_with_new_vars(builder.get()[gvar]).with_attrs(dict(attrs or {}))
    return Outlined(function, found.arguments, results, symbols)


def _emit_body(
    builder: relax.BlockBuilder,
    flow: Dataflow,
    inside: OpSet,
    params: Mapping[int, Any],
    composites: Sequence[Composite],
    results: Mapping[int, int],
) -> Any:
    """A block of bindings; a dataflow block where no inner functions are among them."""
    values = dict(params)
    if composites:
        _emit(builder, flow, inside, values, composites)
    else:
        with builder.dataflow():
            _emit(builder, flow, inside, values, (), opset(results))
    fields = list({place: values[index] for index, place in results.items()}.values())
    return builder.emit_func_output(fields[0] if len(fields) == 1 else relax.Tuple(fields))


def _emit(
    builder: relax.BlockBuilder,
    flow: Dataflow,
    inside: OpSet,
    values: dict[int, Any],
    composites: Sequence[Composite],
    outputs: OpSet = 0,
) -> None:
    """
    Bind every node `inside` to a variable of its name, and give it to `values`; of composites,
    what they give. In a dataflow block, only `outputs` can be used after it.
    """
    calls = {last(composite.inside): _inner(flow, composite) for composite in composites}
    owner = {
        index: unit
        for composite, (unit, call) in zip(composites, calls.items(), strict=True)
        for index in members(composite.inside | opset(call.results))
    }
    owner = {index: owner.get(index, index) for index in members(inside)}
    needs: dict[int, set[int]] = {unit: set() for unit in owner.values()}
    for index, unit in owner.items():
        needs[unit] |= {owner[i] for i in members(_flows_in(flow, index)) if i in owner} - {unit}
    for unit in in_order(needs, lambda unit: unit):
        if unit in calls:
            values |= _emit_call(builder, flow, values, calls[unit])
            continue
        normal = builder.normalize(rebuilt(flow, unit, values))
        is_local = builder.current_block_is_dataflow() and not outputs >> unit & 1
        make = relax.DataflowVar if is_local else relax.Var
        values[unit] = make(flow.graph.nodes[unit].name, normal.ty)
        builder.emit_normalized(relax.VarBinding(values[unit], normal))


def _flows_in(flow: Dataflow, index: int) -> OpSet:
    """What a node takes, and the fields of tuples that are made where they are used."""
    found, pending = 0, flow.graph.inputs_of[index]
    while pending:
        found |= pending
        tuples = (i for i in members(pending) if flow.graph.nodes[i].form is Form.TUPLE)
        pending = flow.graph.input(opset(tuples)) & ~found
    return found


def _inner(flow: Dataflow, composite: Composite) -> Outlined:
    attrs = {"Composite": composite.label}
    return outline(flow, composite.inside, composite.constants, composite.parts, attrs)


def _emit_call(
    builder: relax.BlockBuilder, flow: Dataflow, values: Mapping[int, Any], inner: Outlined
) -> dict[int, Any]:
    """Bind an inner function, call it, and give what it gives."""
    callee = builder.emit(inner.function)
    arguments = [value_of(flow, index, values) for index in inner.arguments]
    dimensions = [relax.ShapeExpr(inner.symbols)] if inner.symbols else []
    call = builder.emit(relax.Call(callee, [*arguments, *dimensions]))
    count = max(inner.results.values()) + 1
    fields = [call]
    if count > 1:
        fields = [builder.emit(relax.TupleGetItem(call, place)) for place in range(count)]
    return {index: fields[place] for index, place in inner.results.items()}


def value_of(flow: Dataflow, index: int, values: Mapping[int, Any]) -> Any:
    """The expression of a node; what `values` lacks is written where it is used."""
    known = values.get(index)
    return rebuilt(flow, index, values) if known is None else known


def rebuilt(flow: Dataflow, index: int, values: Mapping[int, Any]) -> Any:
    """What computes a node, on the `values` that it takes."""
    node, origin = flow.graph.nodes[index], flow.origins[index]
    match node.form:
        case Form.CALL:
            return _call(origin, [value_of(flow, operand, values) for operand in node.inputs])
        case Form.TUPLE:
            return relax.Tuple([value_of(flow, operand, values) for operand in node.inputs])
        case Form.PROJECTION:
            return relax.TupleGetItem(value_of(flow, node.inputs[0], values), node.value)
    return origin


def _call(call: Any, operands: list[Any]) -> Any:
    if call.op == tvm.ir.Op.get("relax.call_tir"):
        operands = [call.args[0], relax.Tuple(operands)]
    return relax.Call(call.op, operands, call.attrs, call.ty_args)


def _type(flow: Dataflow, index: int) -> Any:
    """The Relax type of a node."""
    node = flow.graph.nodes[index]
    match node.form:
        case Form.TUPLE:
            return relax.TupleType([_type(flow, operand) for operand in node.inputs])
        case Form.PROJECTION:
            return _type(flow, node.inputs[0]).fields[node.value]
    return flow.origins[index].ty


def _undefined(flow: Dataflow, inside: OpSet, params: Sequence[Any]) -> tuple[Any, ...]:
    """The dimensions that the nodes `inside` name, and no type of a parameter defines."""
    calls = [flow.origins[index] for index in members(inside & flow.graph.calls)]
    named = [var for type_ in params for var in relax.analysis.tir_vars_in_type(type_)]
    for call in calls:
        named += relax.analysis.tir_vars_in_type(call.ty)
        named += [var for var in relax.analysis.free_vars(call) if not is_value(var)]
    defined = {
        hash(var) for type_ in params for var in relax.analysis.definable_tir_vars_in_type(type_)
    }
    missing = {hash(var): var for var in named if hash(var) not in defined}
    return tuple(missing.values())
