"""Bindings of a dataflow block as a graph, with nothing refused: what is no node stays in place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax

from collage_dsl.frontend.attributes import attributes_of
from collage_dsl.frontend.devices import device_of
from collage_dsl.frontend.dims import UNKNOWN
from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.frontend.from_relax import Reader, operand_names, operator_of
from collage_dsl.frontend.types import type_of
from collage_dsl.graph import (
    Form,
    Graph,
    Kind,
    Node,
    OpaqueType,
    TensorType,
    TupleType,
    Type,
)
from collage_dsl.graph.operators import CALL_TIR, kind_of, literal_values

Functions = Callable[[Any], Any | None]
"""The PrimFunc that a global variable names; None where it names none."""

_MOVES = frozenset({"hint_on_device", "to_vdevice"})
"""Operators that say where a value is, which no kernel may take from them."""


@dataclass(frozen=True, slots=True)
class Dataflow:
    """
    Bindings that one after the other compute values, as a graph.

    What comes from outside is a parameter of the graph, and so is what is computed here by
    something that is no node, such as the call of a function: such a parameter has inputs. The
    outputs are what is used after the bindings. `origins` has for each node the expression that
    it was made from: a variable, constant, literal or call; None for a tuple or projection.
    `bound` has for each binding the node that its variable stands for.
    """

    graph: Graph
    bindings: tuple[Any, ...]
    bound: tuple[int, ...]
    origins: tuple[Any, ...] = field(repr=False)


def read_bindings(
    bindings: Sequence[Any], used_later: Sequence[Any], functions: Functions
) -> Dataflow:
    """The graph of `bindings`, of whose variables those `used_later` are its outputs."""
    return _BindingsReader(functions).read_bindings(bindings, used_later)


class _BindingsReader(Reader):
    def __init__(self, functions: Functions) -> None:
        super().__init__({}, None)
        self.functions = functions
        self.origins: dict[int, Any] = {}

    def read_bindings(self, bindings: Sequence[Any], used_later: Sequence[Any]) -> Dataflow:
        for binding in bindings:
            self.names[hash(binding.var)] = self.unique(str(binding.var.name))
        bound = []
        for binding in bindings:
            index = self.step(binding)
            self.index[hash(binding.var)] = index
            bound.append(index)
        outputs = dict.fromkeys(self.whole(self.index[hash(var)], "output") for var in used_later)
        graph = Graph(self.nodes, outputs, name="dataflow", returns_tuple=True)
        origins = tuple(self.origins.get(index) for index in range(len(graph)))
        return Dataflow(graph, tuple(bindings), tuple(bound), origins)

    def step(self, binding: Any) -> int:
        """The node that a binding's variable stands for."""
        if _is_in_place(binding):
            return self.opaque(binding)
        before = len(self.nodes)
        try:
            return self.bound(binding)
        except UnsupportedRelax:
            self.forget(before)
            return self.opaque(binding)

    def forget(self, before: int) -> None:
        """Undo what was added since there were so many nodes: all that was noted last."""
        self.taken -= {node.name for node in self.nodes[before:]}
        del self.nodes[before:]
        while self.index and next(reversed(self.index.values())) >= before:
            self.index.popitem()
        while self.origins and next(reversed(self.origins)) >= before:
            self.origins.popitem()

    def opaque(self, binding: Any) -> int:
        """A parameter that is computed here, from every variable that the binding uses."""
        name = self.names[hash(binding.var)]
        used = [self.operand(var, name, 0) for var in values_in(binding)]
        inputs = tuple(dict.fromkeys(self.whole(index, name) for index in used))
        index = self.add(Node(name, Form.INPUT, _type(binding.var.ty), inputs))
        self.origins[index] = binding.var
        return index

    def add_call(self, name: str, call: Any) -> int:
        if call.op == tvm.ir.Op.get("relax.call_tir"):
            return self.add_call_tir(name, call)
        op = operator_of(name, call)
        if op in _MOVES:
            raise UnsupportedRelax(f"`{name}` moves a value")
        inputs = self.operands(call.args, name, operand_names(op))
        inputs = tuple(self.spread(index, name) for index in inputs)
        operands = [self.nodes[index] for index in inputs]
        type_ = _tensors_of(name, call.ty)
        kind = kind_of(op, tuple(n.type for n in operands), type_, literal_values(operands))
        node = Node(name, Form.CALL, type_, inputs, op, attributes_of(call.attrs), kind)
        return self.add_checked(node, call)

    def add_call_tir(self, name: str, call: Any) -> int:
        callee, arguments = call.args
        function = self.functions(callee)
        if function is None or not isinstance(arguments, tvm.ir.Tuple):
            raise UnsupportedRelax(f"`{name}` calls `{callee}`, which is not a PrimFunc")
        node = Node(
            name,
            Form.CALL,
            _tensors_of(name, call.ty),
            self.operands(arguments.fields, name),
            CALL_TIR,
            {"function": str(callee.name_hint)},
            _noted_kind(function),
            function,
        )
        return self.add_checked(node, call)

    def add_checked(self, node: Node, call: Any) -> int:
        for index in node.inputs:
            operand = self.nodes[index]
            if operand.form is not Form.LITERAL:
                _check_tensors(node.name, operand.type)
            elif isinstance(operand.value, str) and tvm.ir.is_prim_expr(self.origins[index]):
                raise UnsupportedRelax(f"`{node.name}` takes `{operand.value}` as a number")
        index = self.add(replace(node, device=device_of(call.ty)))
        self.origins[index] = call
        return index

    def operand(self, value: Any, user: str, place: int, name: str = "") -> int:
        if hash(value) in self.index:
            return self.index[hash(value)]
        if is_value(value):
            node = Node(self.unique(str(value.name)), Form.INPUT, _type(value.ty))
            self.index[hash(value)] = index = self.add(node)
        else:
            index = super().operand(value, user, place, name)
        if self.nodes[index].form is not Form.TUPLE:
            self.origins[index] = value
        return index


def is_value(expr: Any) -> bool:
    """Whether `expr` is a variable of Relax; that of a dimension is of the same class."""
    return isinstance(expr, tvm.ir.Var) and not tvm.ir.is_prim_expr(expr)


def values_in(binding: Any) -> list[Any]:
    """
    The variables that a binding takes from outside, without those of dimensions; a function that
    calls itself does not take itself.
    """
    found = [var for var in relax.analysis.free_vars(binding.value) if is_value(var)]
    return [var for var in found if not var.same_as(binding.var)]


def _is_in_place(binding: Any) -> bool:
    """Whether a binding is no node: a cast checks as it runs, other values need no kernel."""
    nodes = tvm.ir.Call | tvm.ir.Tuple | tvm.ir.TupleGetItem
    value = binding.value
    is_node = isinstance(value, nodes) or is_value(value)
    return isinstance(binding, relax.MatchCast) or not is_node


def _noted_kind(function: Any) -> Kind:
    """The kind of a PrimFunc as TVM has noted it; opaque where it has none of ours."""
    noted = int((function.attrs or {}).get("op_pattern", Kind.OPAQUE))
    return next((kind for kind in Kind if kind == noted), Kind.OPAQUE)


def _type(type_: Any) -> Type:
    """The type of a value, of which nothing need be known."""
    try:
        return type_of(type_)
    except UnsupportedRelax:
        return OpaqueType()


def _tensors_of(name: str, type_: Any) -> Type:
    result = type_of(type_)
    _check_tensors(name, result)
    return result


def _check_tensors(name: str, type_: Type) -> None:
    """What goes into a kernel and comes out of it are tensors whose dimensions have names."""
    match type_:
        case TensorType(shape=None):
            raise UnsupportedRelax(f"`{name}` has a tensor of unknown rank")
        case TensorType() as tensor if UNKNOWN in (tensor.shape or ()):
            raise UnsupportedRelax(f"`{name}` has a tensor of unknown shape")
        case TupleType(fields) if any(isinstance(each, TupleType) for each in fields):
            raise UnsupportedRelax(f"`{name}` has a tuple inside a tuple")
        case TupleType(fields):
            for each in fields:
                _check_tensors(name, each)
        case OpaqueType():
            raise UnsupportedRelax(f"`{name}` has a {type_}, which is no tensor")
