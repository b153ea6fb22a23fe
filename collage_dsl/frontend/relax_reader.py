"""Make the nodes of a graph from the bindings of a Relax function, in the form that it has."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

import tvm
from tvm import relax, tirx

from collage_dsl.frontend.arrays import array_of
from collage_dsl.frontend.attributes import attributes_of, plain
from collage_dsl.frontend.dataflow import Dataflow
from collage_dsl.frontend.devices import device_of
from collage_dsl.frontend.dims import dim_of
from collage_dsl.frontend.errors import UnsupportedRelax, UnsupportedValue
from collage_dsl.frontend.onnx_in_relax import is_onnx, onnx_node
from collage_dsl.frontend.onnx_kept import Inside
from collage_dsl.frontend.types import DTYPE, SCALARS, SHAPE, STRING, type_of
from collage_dsl.graph import Form, Graph, Kind, Node, OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import (
    CALL_DPS_PACKED,
    CALL_PURE_PACKED,
    CALL_TIR,
    kind_of,
    literal_values,
    operators,
)

Names = Mapping[Any, str]
"""Names for variables and constants of Relax."""

Functions = Callable[[Any], Any | None]
"""Returns the PrimFunc that a global variable names; None if it names none."""


class Reader:
    """
    Makes the nodes of one function. An expression is identified by its handle, which is its hash.

    `origins` has the expression that each node was made from, by the index of the node.
    """

    def __init__(
        self,
        functions: Functions,
        names: Names,
        output_names: Sequence[str] | None,
        types: Mapping[Any, Type],
    ) -> None:
        self.functions = functions
        self.types = {hash(var): type_ for var, type_ in types.items()}
        self.output_names = output_names
        self.given = {hash(expr): name for expr, name in names.items()}
        self.names: dict[int, str] = {}
        self.taken: set[str] = set()
        self.nodes: list[Node] = []
        self.index: dict[int, int] = {}
        self.inside: dict[tuple[str, int], int] = {}
        """The constants that ONNX nodes have inside, by their names and arrays."""
        self.origins: dict[int, Any] = {}
        self.symbols: set[int] = set()
        self.composites: dict[int, Any] = {}
        self.block = 0

    def read(self, module: tvm.IRModule, name: str) -> Graph:
        """The graph of the function `name` of `module`."""
        function = module[name]
        # All variables are named first, so that no derived name is that of a variable.
        self.name_variables(function)
        for param in function.params:
            self.symbols |= set(map(hash, relax.analysis.definable_tir_vars_in_type(param.ty)))
            with _named_in_errors(self.names[hash(param)]):
                type_ = self.types.get(hash(param)) or type_of(param.ty)
            node = Node(self.names[hash(param)], Form.INPUT, type_)
            self.index[hash(param)] = self.add(node, param)
        bindings: list[Any] = []
        for block in function.body.blocks:
            bindings += self.read_block(block)
            self.block += bool(block.bindings)
        graph = self.finish(name, function.body.body)
        self.note(graph, bindings, module, name)
        return graph

    def read_block(self, block: Any) -> list[Any]:
        """The bindings of `block` except those of composites, each with a node."""
        bindings = []
        for binding in block.bindings:
            if _is_composite(binding.value):
                self.composites[hash(binding.var)] = binding.value
            else:
                with _named_in_errors(self.names[hash(binding.var)]):
                    self.index[hash(binding.var)] = self.bound(binding)
                bindings.append(binding)
        return bindings

    def note(
        self, graph: Graph, bindings: Sequence[Any], module: Any = None, name: str = ""
    ) -> Dataflow:
        """
        Keep with `graph` what it was read from. The tuple that a function returns is no node of
        its graph, so its binding is left out.
        """
        bound = [(binding, self.index[hash(binding.var)]) for binding in bindings]
        kept = [(binding, index) for binding, index in bound if index < len(graph)]
        origins = tuple(self.origins.get(index) for index in range(len(graph)))
        flow = Dataflow(
            graph,
            tuple(binding for binding, _ in kept),
            tuple(index for _, index in kept),
            origins,
            module,
            name,
        )
        graph.source = flow
        return flow

    def finish(self, function: str, body: Any) -> Graph:
        if isinstance(body, tvm.ir.Tuple):
            outputs = [self.whole(i, "output") for i in self.operands(body.fields, "output")]
            return self.graph(function, outputs, returns_tuple=True)
        output = self.whole(self.operand(body, "output", 0), "output")
        node = self.nodes[output]
        if node.form is not Form.TUPLE:
            return self.graph(function, [output], returns_tuple=False)
        if output == len(self.nodes) - 1:
            self.nodes.pop()  # the tuple that is returned, which has no other user
        return self.graph(function, node.inputs, returns_tuple=True)

    def graph(self, function: str, outputs: Sequence[int], *, returns_tuple: bool) -> Graph:
        return Graph(
            self.nodes,
            outputs,
            name=function,
            returns_tuple=returns_tuple,
            output_names=self.output_names,
        )

    def name_variables(self, found: Any) -> None:
        bindings = (binding.var for block in found.body.blocks for binding in block.bindings)
        for var in (*found.params, *bindings):
            self.names[hash(var)] = self.unique(self.given.get(hash(var)) or str(var.name))

    def unique(self, name: str) -> str:
        """A name that is not taken, and not empty, which would be no value in a model of ONNX."""
        name = name or "value"
        result, count = name, 0
        while result in self.taken:
            count += 1
            result = f"{name}_{count}"
        self.taken.add(result)
        return result

    def add(self, node: Node, origin: Any = None) -> int:
        self.nodes.append(node)
        if origin is not None:
            self.origins[len(self.nodes) - 1] = origin
        return len(self.nodes) - 1

    # Bindings.

    def bound(self, binding: Any) -> int:
        """The node of a binding's variable; it may be an earlier node."""
        name, value = self.names[hash(binding.var)], binding.value
        if isinstance(binding, relax.MatchCast):
            self.check_cast(name, binding)
        match value:
            case tvm.ir.Call() if hash(value.op) in self.composites:
                return self.inline(self.composites[hash(value.op)], value)
            case tvm.ir.Call():
                return self.add_call(name, value)
            case tvm.ir.Tuple():
                return self.add_tuple(name, value)
            case tvm.ir.TupleGetItem():
                return self.add_projection(name, value)
            case relax.If():
                raise UnsupportedRelax(f"`{name}` is an if, which cannot be represented")
            case relax.Function():
                raise UnsupportedRelax(f"`{name}` is an inner function")
        return self.operand(value, name, 0)

    def check_cast(self, name: str, cast: Any) -> None:
        """A cast may only repeat what is known. A graph has no place for a dimension it defines."""
        for symbol in relax.analysis.definable_tir_vars_in_type(cast.ty):
            if hash(symbol) not in self.symbols:
                raise UnsupportedRelax(f"`{name}` finds the dimension `{symbol.name}` as it runs")

    def inline(self, composite: Any, call: Any) -> int:
        """The result of a call of an inner `Composite` function; its nodes are added here."""
        self.name_variables(composite)
        arguments = self.operands(call.args, "composite")
        for param, argument in zip(composite.params, arguments, strict=True):
            self.index[hash(param)] = argument
        for block in composite.body.blocks:
            self.read_block(block)
        return self.operand(composite.body.body, "composite", 0)

    def add_call(self, name: str, call: Any) -> int:
        if call.op == _CALL_TIR:
            return self.add_call_tir(name, call)
        if is_onnx(call):
            return self.add_onnx(name, call)
        if call.op in (_CALL_DPS_PACKED, _CALL_PURE_PACKED):
            return self.add_call_packed(name, call)
        op = self.operator(name, call)
        inputs = self.operands(call.args, name, operand_names(op))
        inputs = tuple(self.spread(i, name) for i in inputs)
        type_ = self.result_type(name, call)
        operands = [self.nodes[i] for i in inputs]
        kind = kind_of(op, tuple(n.type for n in operands), type_, literal_values(operands))
        attrs = attributes_of(call.attrs)
        return self.add_checked(Node(name, Form.CALL, type_, inputs, op, attrs, kind), call)

    def add_call_tir(self, name: str, call: Any) -> int:
        """The call of a PrimFunc on tensors and numbers."""
        callee, arguments = call.args[:2]
        function = self.functions(callee)
        if function is None or not isinstance(arguments, tvm.ir.Tuple) or len(call.args) > 2:
            called = getattr(callee, "name_hint", callee)
            raise UnsupportedRelax(f"`{name}` calls `{called}`, which is not a PrimFunc of tensors")
        kind = _noted_kind(function)
        node = Node(
            name,
            Form.CALL,
            self.result_type(name, call),
            self.operands(arguments.fields, name),
            CALL_TIR,
            {"function": str(callee.name_hint), "op_pattern": kind.name.lower()},
            kind,
            function,
        )
        return self.add_checked(node, call)

    def add_call_packed(self, name: str, call: Any) -> int:
        """The call of a packed function."""
        callee, *arguments = call.args
        if not isinstance(callee, relax.ExternFunc):
            raise UnsupportedRelax(f"`{name}` calls `{callee}`, which is not a packed function")
        is_dps = call.op == _CALL_DPS_PACKED
        inputs = self.operands(arguments[0].fields if is_dps else arguments, name)
        inputs = tuple(self.spread(i, name) for i in inputs)
        op = CALL_DPS_PACKED if is_dps else CALL_PURE_PACKED
        attrs = {"function": str(callee.global_symbol)}
        node = Node(name, Form.CALL, self.result_type(name, call), inputs, op, attrs, Kind.OPAQUE)
        return self.add_checked(node, call)

    def add_onnx(self, name: str, call: Any) -> int:
        """The call of an ONNX node. Values that are no tensors get the types that it says."""
        value, kept, inside = onnx_node(name, call)
        given = self.operands(call.args[2:], name)
        for index, text in zip(given, kept.operands, strict=True):
            if text and self.nodes[index].form is Form.INPUT:
                self.nodes[index] = replace(self.nodes[index], type=OpaqueType(text))
        known = {p: self.constant_inside(each, name) for each in inside for p in each.places}
        rest = iter(given)
        count = len(given) + len(known)
        inputs = tuple(known[p] if p in known else next(rest) for p in range(count))
        type_ = self.result_type(name, call)
        if isinstance(type_, TupleType):
            type_ = TupleType(tuple(map(_named, type_.fields, kept.results)))
        else:
            type_ = _named(type_, *kept.results)
        node = Node(name, Form.CALL, type_, inputs, kept.op, kept.attrs, Kind.OPAQUE, value)
        return self.add_checked(node, call)

    def add_checked(self, node: Node, call: Any) -> int:
        return self.add(replace(node, device=device_of(call.ty), block=self.block), call)

    def operator(self, name: str, call: Any) -> str:
        return operator_of(name, call)

    def result_type(self, name: str, call: Any) -> Type:
        return type_of(call.ty)

    def spread(self, index: int, user: str) -> int:
        """
        A value that a call takes. A tuple that another call gives becomes a tuple of its
        projections, so that only tensors pass from kernel to kernel.
        """
        node = self.nodes[index]
        if not isinstance(node.type, TupleType) or node.form is Form.TUPLE:
            return index
        fields = [
            self.add(
                Node(
                    self.unique(f"{node.name}.{place}"),
                    Form.PROJECTION,
                    type_,
                    (index,),
                    value=place,
                    block=self.block,
                )
            )
            for place, type_ in enumerate(node.type.fields)
        ]
        name = self.unique(f"{user}.args")
        return self.add(Node(name, Form.TUPLE, node.type, tuple(fields), block=self.block))

    def whole(self, index: int, user: str) -> int:
        """The node; for a call that gives a tuple, a tuple of its fields."""
        return self.spread(index, user) if self.nodes[index].is_call else index

    def add_tuple(self, name: str, value: Any) -> int:
        """A tuple. A field that is a tuple from another call becomes a tuple of its projections."""
        inputs = tuple(self.whole(i, name) for i in self.operands(value.fields, name))
        type_ = TupleType(tuple(self.nodes[i].type for i in inputs))
        return self.add(Node(name, Form.TUPLE, type_, inputs, block=self.block))

    def add_projection(self, name: str, value: Any) -> int:
        source = self.operand(value.tuple_value, name, 0)
        whole = self.nodes[source].type
        node = Node(
            name,
            Form.PROJECTION,
            whole.fields[value.index] if isinstance(whole, TupleType) else type_of(value.ty),
            (source,),
            value=int(value.index),
            block=self.block,
        )
        return self.add(node)

    # Operands.

    def operands(self, values: Any, user: str, names: Sequence[str] = ()) -> tuple[int, ...]:
        return tuple(
            self.operand(value, user, place, names[place] if place < len(names) else "")
            for place, value in enumerate(values)
        )

    def operand(self, value: Any, user: str, place: int, name: str = "") -> int:
        """The node of a leaf. `user` uses it as its operand `name`, at number `place`."""
        known = self.index.get(hash(value))
        if known is not None:
            return known
        if isinstance(value, tvm.ir.Tuple) and not _is_scalars(value):
            return self.add_tuple(self.unique(f"{user}.args"), value)
        if isinstance(value, tvm.ir.GenericConst) and isinstance(value.ty, relax.TensorType):
            return self.add_constant(value, f"{user}.const{place}")
        type_, plain_value = _literal(value, user)
        full_name = self.unique(f"{user}.{name or f'literal{place}'}")
        return self.add(Node(full_name, Form.LITERAL, type_, value=plain_value), value)

    def add_constant(self, value: Any, default: str) -> int:
        name = self.unique(self.given.get(hash(value)) or default)
        node = Node(name, Form.CONSTANT, type_of(value.ty), value=array_of(value.value))
        self.index[hash(value)] = self.add(node, value)
        return self.index[hash(value)]

    def constant_inside(self, inside: Inside, user: str) -> int:
        """A constant that an ONNX node has in its model. It is no expression of Relax."""
        key, array = (inside.name, id(inside.array)), inside.array
        if key not in self.inside:
            name = self.unique(inside.name or f"{user}.const{inside.places[0]}")
            type_ = TensorType(array.dtype.name, array.shape)
            self.inside[key] = self.add(Node(name, Form.CONSTANT, type_, value=array))
        return self.inside[key]


_CALL_TIR = tvm.ir.Op.get("relax." + CALL_TIR)
_CALL_PURE_PACKED = tvm.ir.Op.get("relax." + CALL_PURE_PACKED)
_CALL_DPS_PACKED = tvm.ir.Op.get("relax." + CALL_DPS_PACKED)


def _named(type_: Type, text: str) -> Type:
    return OpaqueType(text) if text else type_


def _noted_kind(function: Any) -> Kind:
    """The kind of a PrimFunc as TVM has noted it; opaque if it has no kind that we know."""
    noted = int((function.attrs or {}).get("op_pattern", Kind.OPAQUE))
    return next((kind for kind in Kind if kind == noted), Kind.OPAQUE)


@contextmanager
def _named_in_errors(name: str) -> Iterator[None]:
    """Say in an error about a value that it is at the variable `name`."""
    try:
        yield
    except UnsupportedValue as error:
        raise UnsupportedRelax(f"{error}, at `{name}`") from None


def _is_composite(value: Any) -> bool:
    attrs = value.attrs if isinstance(value, relax.Function) else None
    return attrs is not None and "Composite" in attrs


def _is_scalars(value: Any) -> bool:
    return bool(value.fields) and all(tvm.ir.is_prim_expr(field) for field in value.fields)


def _literal(value: Any, user: str) -> tuple[Type, object]:
    match value:
        case relax.ShapeExpr():
            return SHAPE, tuple(dim_of(dim) for dim in value.values)
        case tvm.ir.Tuple():
            return SCALARS, tuple(map(_scalar, value.fields))
        case tirx.IntImm() | tirx.FloatImm():
            return type_of(value.ty), plain(value)
        case tvm.ir.StringImm():
            return STRING, str(value.value)
        case tvm.ir.GenericConst(value=tvm.DataType() as dtype):
            return DTYPE, str(dtype)
    if tvm.ir.is_prim_expr(value):
        return type_of(value.ty), dim_of(value)
    raise UnsupportedRelax(f"`{user}` uses `{value}`, which cannot be represented")


def _scalar(value: Any) -> object:
    """A number; the text of one that depends on the sizes of inputs."""
    return plain(value) if isinstance(value, tirx.IntImm | tirx.FloatImm) else dim_of(value)


def operator_of(name: str, call: Any) -> str:
    """The operator of a call, without its prefix."""
    callee = call.op
    if isinstance(callee, tvm.ir.GlobalVar):
        raise UnsupportedRelax(f"`{name}` calls the function `{callee.name_hint}`")
    if not isinstance(callee, tvm.ir.Op):
        raise UnsupportedRelax(f"`{name}` calls `{callee}`, which is not an operator")
    op = str(callee.name).removeprefix("relax.")
    if op == str(callee.name):
        raise UnsupportedRelax(f"`{name}` calls `{op}`, which is not an operator of Relax")
    if op.startswith("call_"):
        raise UnsupportedRelax(f"`{name}` is a `{op}`, not the call of an operator")
    if not _is_pure(op):
        raise UnsupportedRelax(f"`{name}` calls `{op}`, which has side effects")
    return op


@cache
def _is_pure(op: str) -> bool:
    if op.startswith(("builtin.alloc_", "memory.", "vm.")):
        return False  # each call gives other memory, whatever TVM says
    pure = tvm.ir.Op.get("relax." + op).get_attr("FPurity")
    return pure is None or bool(pure)


@cache
def operand_names(op: str) -> tuple[str, ...]:
    """The names of the operands of `op`, as far as they have names."""
    found = operators().get(op)
    return (found and found.operands) or ()
