"""Read one dataflow block as a graph. Bindings that cannot be nodes stay where they are."""

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from collage_dsl.frontend.dataflow import Dataflow, is_value, values_in
from collage_dsl.frontend.dims import UNKNOWN
from collage_dsl.frontend.errors import UnsupportedRelax
from collage_dsl.frontend.relax_reader import Functions, Reader
from collage_dsl.frontend.types import type_of
from collage_dsl.graph import Form, Graph, Node, OpaqueType, TensorType, TupleType, Type

_MOVES = frozenset({"hint_on_device", "to_vdevice"})
"""Operators that say on which device a value is. They may not be in a kernel."""


def read_bindings(
    bindings: Sequence[Any], used_later: Sequence[Any], functions: Functions
) -> Dataflow:
    """The graph of `bindings`. Its outputs are the variables `used_later`."""
    return _BindingsReader(functions).read_bindings(bindings, used_later)


class _BindingsReader(Reader):
    def __init__(self, functions: Functions) -> None:
        super().__init__(functions, {}, None, {})

    def read_bindings(self, bindings: Sequence[Any], used_later: Sequence[Any]) -> Dataflow:
        for binding in bindings:
            self.names[hash(binding.var)] = self.unique(str(binding.var.name))
        for binding in bindings:
            self.index[hash(binding.var)] = self.step(binding)
        outputs = dict.fromkeys(self.whole(self.index[hash(var)], "output") for var in used_later)
        graph = Graph(self.nodes, outputs, name="dataflow", returns_tuple=True)
        return self.note(graph, bindings)

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
        """Remove all nodes added since there were `before` nodes, and what was noted with them."""
        self.taken -= {node.name for node in self.nodes[before:]}
        del self.nodes[before:]
        while self.index and next(reversed(self.index.values())) >= before:
            self.index.popitem()
        while self.inside and next(reversed(self.inside.values())) >= before:
            self.inside.popitem()
        while self.origins and next(reversed(self.origins)) >= before:
            self.origins.popitem()

    def opaque(self, binding: Any) -> int:
        """A parameter for a binding that is no node; its inputs are the variables that it uses."""
        name = self.names[hash(binding.var)]
        used = [self.operand(var, name, 0) for var in values_in(binding)]
        inputs = tuple(dict.fromkeys(self.whole(index, name) for index in used))
        return self.add(Node(name, Form.INPUT, _type(binding.var.ty), inputs), binding.var)

    def operator(self, name: str, call: Any) -> str:
        op = super().operator(name, call)
        if op in _MOVES:
            raise UnsupportedRelax(f"`{name}` moves a value")
        return op

    def result_type(self, name: str, call: Any) -> Type:
        result = super().result_type(name, call)
        _check_tensors(name, result)
        return result

    def add_checked(self, node: Node, call: Any) -> int:
        for index in node.inputs:
            operand = self.nodes[index]
            if operand.form is not Form.LITERAL:
                _check_tensors(node.name, operand.type)
            elif isinstance(operand.value, str) and tvm.ir.is_prim_expr(self.origins[index]):
                raise UnsupportedRelax(f"`{node.name}` takes `{operand.value}` as a number")
        return super().add_checked(node, call)

    def operand(self, value: Any, user: str, place: int, name: str = "") -> int:
        if hash(value) not in self.index and is_value(value):
            node = Node(self.unique(str(value.name)), Form.INPUT, _type(value.ty))
            self.index[hash(value)] = self.add(node, value)
        return super().operand(value, user, place, name)


def _is_in_place(binding: Any) -> bool:
    """Whether a binding is no node: a cast, which checks at run time, or no call and no tuple."""
    nodes = tvm.ir.Call | tvm.ir.Tuple | tvm.ir.TupleGetItem
    value = binding.value
    is_node = isinstance(value, nodes) or is_value(value)
    return isinstance(binding, relax.MatchCast) or not is_node


def _type(type_: Any) -> Type:
    """The type of a value; opaque if a graph cannot have that type."""
    try:
        return type_of(type_)
    except UnsupportedRelax:
        return OpaqueType()


def _check_tensors(name: str, type_: Type) -> None:
    """Raise unless `type_` may enter or leave a kernel: tensors with known or named dimensions."""
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
