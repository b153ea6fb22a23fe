"""Write a sub-graph as a Relax function, with the calls that the graph was read from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import relax
from tvm.relax.expr import _update_type

from collage_dsl.frontend.dataflow import Dataflow, is_value
from collage_dsl.frontend.onnx_in_relax import is_onnx
from collage_dsl.frontend.to_relax import check_value
from collage_dsl.graph import Composite, Form, OpSet, extract, members, opset, places
from collage_dsl.graph.onnx_node import passed
from collage_dsl.realization.order import in_order


@dataclass(frozen=True, slots=True)
class Outlined:
    """
    A function that computes some nodes of a dataflow graph.

    `arguments` are the nodes of its first parameters. Then there is a parameter for each of
    `weights`, constants that `bound` puts into the function. If there are `symbols`, dimensions
    that no other parameter defines, the last parameter has their values. `results` are the nodes
    whose values it returns, each with its place in the result.
    """

    function: Any
    arguments: tuple[int, ...]
    weights: tuple[int, ...]
    results: Mapping[int, int]
    symbols: tuple[Any, ...] = ()

    def bound(self, values: Sequence[Any]) -> Any:
        """The function with the constants `values` in place of its parameters for `weights`."""
        params = self.function.params[len(self.arguments) :]
        if not values:
            return self.function
        return self.function.bind_params(dict(zip(params, values, strict=False)))


def outline(
    flow: Dataflow, inside: OpSet, constants: OpSet = 0, composites: Sequence[Composite] = ()
) -> Outlined:
    """
    A private function of the nodes `inside`; its weights are `constants`. Composites become inner
    functions; a composite inside another becomes a function inside that one's.
    """
    weights = {index: _parameter(flow, index) for index in members(constants)}
    made = _Outliner(flow, weights).outlined(inside, constants, composites, tuple(weights))
    return replace(made, function=_with_own_dimensions(made.function))


def _with_own_dimensions(function: Any) -> Any:
    """
    `function` with symbolic dimensions that no other function has. This makes TVM infer its types
    again, so a function without symbolic dimensions is not changed.
    """
    is_symbolic = any(relax.analysis.tir_vars_in_type(param.ty) for param in function.params)
    return relax.utils.copy_with_new_vars(function) if is_symbolic else function


def weights_of(flow: Dataflow, outlined: Outlined) -> list[Any]:
    """The constants for the weights of `outlined`. Raises ValueError if one has no value."""
    for index in outlined.weights:
        check_value(flow.graph.nodes[index])
    return [flow.origins[index] for index in outlined.weights]


class _Outliner:
    """
    Writes a function, and the functions of composites in it. Inner functions get the weights that
    they bind from the outermost function, where `weights` are parameters.
    """

    def __init__(self, flow: Dataflow, weights: Mapping[int, Any]) -> None:
        self.flow = flow
        self.weights = weights

    def outlined(
        self,
        inside: OpSet,
        constants: OpSet,
        composites: Sequence[Composite],
        weights: tuple[int, ...] = (),
    ) -> Outlined:
        flow = self.flow
        found = extract(flow.graph, inside, constants)
        params = {index: _parameter(flow, index) for index in found.arguments}
        inside |= opset(found.results)
        symbols = _undefined(flow, inside, [param.ty for param in params.values()])
        results = places(flow.graph, found.results)
        shape = [relax.Var("dimensions", relax.ShapeType(symbols))] if symbols else []
        builder = relax.BlockBuilder()
        parameters = [*params.values(), *(self.weights[index] for index in weights), *shape]
        with builder.function("kernel", parameters, private=True):
            values = {**self.weights, **params}
            gvar = self.emit_body(builder, inside, values, composites, results)
        return Outlined(builder.get()[gvar], found.arguments, weights, results, symbols)

    def emit_body(
        self,
        builder: relax.BlockBuilder,
        inside: OpSet,
        values: dict[int, Any],
        composites: Sequence[Composite],
        results: Mapping[int, int],
    ) -> Any:
        """A block of bindings; it is a dataflow block if it has no inner functions."""
        if composites:
            self.emit(builder, inside, values, composites)
        else:
            with builder.dataflow():
                self.emit(builder, inside, values, (), opset(results))
        fields = list({place: values[index] for index, place in results.items()}.values())
        return builder.emit_func_output(fields[0] if len(fields) == 1 else relax.Tuple(fields))

    def emit(
        self,
        builder: relax.BlockBuilder,
        inside: OpSet,
        values: dict[int, Any],
        composites: Sequence[Composite],
        outputs: OpSet = 0,
    ) -> None:
        """
        Bind every node `inside` to a variable with its name, and add it to `values`. For a
        composite, add its results. In a dataflow block, only `outputs` can be used after it.
        """
        flow = self.flow
        calls = {composite.last: self.inner(composite) for composite in composites}
        owner = {
            index: unit
            for composite, (unit, call) in zip(composites, calls.items(), strict=True)
            for index in members(composite.inside | opset(call.results))
        }
        owner = {index: owner.get(index, index) for index in members(inside)}
        needs: dict[int, set[int]] = {unit: set() for unit in owner.values()}
        for index, unit in owner.items():
            needs[unit] |= {owner[i] for i in _flows_in(flow, index) if i in owner} - {unit}
        for unit in in_order(needs, lambda unit: unit):
            if unit in calls:
                values |= self.emit_call(builder, values, calls[unit])
                continue
            normal = builder.normalize(_typed(flow, unit, rebuilt(flow, unit, values)))
            is_local = builder.current_block_is_dataflow() and not outputs >> unit & 1
            make = relax.DataflowVar if is_local else relax.Var
            values[unit] = make(flow.graph.nodes[unit].name, normal.ty)
            builder.emit_normalized(relax.VarBinding(values[unit], normal))

    def inner(self, composite: Composite) -> Outlined:
        made = self.outlined(composite.inside, composite.constants, composite.parts)
        return replace(made, function=made.function.with_attr("Composite", composite.label))

    def emit_call(
        self, builder: relax.BlockBuilder, values: Mapping[int, Any], inner: Outlined
    ) -> dict[int, Any]:
        """Bind an inner function, call it, and return its results by node."""
        callee = builder.emit(inner.function)
        arguments = [value_of(self.flow, index, values) for index in inner.arguments]
        dimensions = [relax.ShapeExpr(inner.symbols)] if inner.symbols else []
        call = builder.emit(relax.Call(callee, [*arguments, *dimensions]))
        count = max(inner.results.values()) + 1
        fields = [call]
        if count > 1:
            fields = [builder.emit(relax.TupleGetItem(call, place)) for place in range(count)]
        return {index: fields[place] for index, place in inner.results.items()}


def _flows_in(flow: Dataflow, index: int) -> set[int]:
    """The inputs of a node. For a tuple that is written inside its user, also its fields."""
    nodes = flow.graph.nodes
    found: set[int] = set()
    pending = list(nodes[index].inputs)
    while pending:
        operand = pending.pop()
        if operand not in found:
            found.add(operand)
            pending += nodes[operand].inputs if nodes[operand].form is Form.TUPLE else ()
    return found


def _parameter(flow: Dataflow, index: int) -> Any:
    return relax.Var(flow.graph.nodes[index].name, _type(flow, index))


def value_of(flow: Dataflow, index: int, values: Mapping[int, Any]) -> Any:
    """The expression of a node. If `values` does not have it, it is written here."""
    known = values.get(index)
    return rebuilt(flow, index, values) if known is None else known


def rebuilt(flow: Dataflow, index: int, values: Mapping[int, Any]) -> Any:
    """The expression that computes a node from `values`."""
    node, origin = flow.graph.nodes[index], flow.origins[index]
    match node.form:
        case Form.CALL:
            return _call(origin, [value_of(flow, operand, values) for operand in passed(node)])
        case Form.TUPLE:
            return relax.Tuple([value_of(flow, operand, values) for operand in node.inputs])
        case Form.PROJECTION:
            return relax.TupleGetItem(value_of(flow, node.inputs[0], values), node.value)
        case Form.CONSTANT:
            check_value(node)
    return origin


def _typed(flow: Dataflow, index: int, value: Any) -> Any:
    """A call with its type from the block, so that the type is not inferred again."""
    if flow.graph.nodes[index].is_call:
        _update_type(value, flow.origins[index].ty)
    return value


def _call(call: Any, operands: list[Any]) -> Any:
    if call.op in (tvm.ir.Op.get("relax.call_tir"), tvm.ir.Op.get("relax.call_dps_packed")):
        operands = [call.args[0], relax.Tuple(operands)]
    elif is_onnx(call):
        operands = [*call.args[:2], *operands]
    elif call.op == tvm.ir.Op.get("relax.call_pure_packed"):
        operands = [call.args[0], *operands]
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
    """The dimensions that occur in the nodes `inside`, and that no parameter's type defines."""
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
