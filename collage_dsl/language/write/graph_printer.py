"""Write a `Graph` in the text notation."""

import re
from collections.abc import Iterator, Mapping
from math import inf

from collage_dsl.graph import (
    Attribute,
    Form,
    Graph,
    Node,
    OpaqueType,
    OpSet,
    TensorType,
    TupleType,
    Type,
    members,
)
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.graph.types import long_dtype, short_dtype
from collage_dsl.language.graphs.graph_text import SHAPES
from collage_dsl.language.inference.infer import infer
from collage_dsl.language.inference.shapes import Call, MismatchError
from collage_dsl.language.write.quoting import quoted
from collage_dsl.printable import printable, well_formed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_KEYWORDS = frozenset({"const", "false", "graph", "none", "return", "true"})
_MOST_ELEMENTS, _MOST_FILLED = 16, 512
"""Larger constants are written without their values."""


def format_graph(
    graph: Graph,
    only: OpSet | None = None,
    notes: Mapping[str, str] | None = None,
    *,
    filled: bool = False,
) -> str:
    """
    The text of `graph`, which `parse_graph` reads as an equal graph.

    The values of a constant are written if it has few. In a name, a character that the notation
    cannot hold is written as an escape. `only` are the nodes that are written, if not all. `notes`
    become comments beside the nodes of these names. With `filled`, a constant whose elements are
    all the same is written with that number, however many they are.
    """
    if not isinstance(graph, Graph):
        raise TypeError(f"`graph` of `format_graph` must be a Graph, not {type(graph).__name__}")
    lines = _Printer(graph, only, notes or {}, filled).lines()
    return "\n".join(["graph {", *(f"  {line}" for line in lines), "}"]) + "\n"


_NOTES_AT = 60
"""The column at which comments begin, if the line is shorter."""


class _Printer:
    def __init__(
        self, graph: Graph, only: OpSet | None, notes: Mapping[str, str], filled: bool
    ) -> None:
        self.filled = filled
        self.graph = graph
        self.only = only
        self.notes = notes
        self.inline = {i for i, node in enumerate(graph.nodes) if self.is_inline(i, node)}

    def lines(self) -> Iterator[str]:
        for index, node in enumerate(self.graph.nodes):
            if index not in self.inline and (self.only is None or self.only >> index & 1):
                note = self.notes.get(node.name)
                line = self.line(node)
                yield f"{line:{_NOTES_AT}}  # {printable(note)}" if note else line
        if self.only is not None:
            return
        outputs = ", ".join(_name(self.graph.nodes[i].name) for i in self.graph.outputs)
        comma = "," if self.graph.returns_tuple and len(self.graph.outputs) == 1 else ""
        yield f"return {outputs}{comma};"

    def line(self, node: Node) -> str:
        name = _name(node.name)
        match node.form:
            case Form.INPUT:
                return f"{name}: {_type(node.type)};"
            case Form.CONSTANT:
                return f"{name} = {_constant(node, self.filled)};"
            case Form.LITERAL:
                return f"{name}: {_type(node.type)} = {_literal(node.value)};"
            case Form.TUPLE:
                fields = [self.operand(i) for i in node.inputs]
                return f"{name} = ({', '.join(fields)}{',' if len(fields) == 1 else ''});"
            case Form.PROJECTION:
                return f"{name} = {self.operand(node.inputs[0])}.{node.value};"
            case Form.CALL:
                return self.call(name, node)

    def call(self, name: str, node: Node) -> str:
        operands = ", ".join(map(self.operand, node.inputs))
        known = operators().get(node.op)
        attributes = ", ".join(_attributes(node, known))
        brackets = f" [{attributes}]" if attributes else ""
        said = "" if self.inferred(node) == node.type else f": {_type(node.type)}"
        return f"{name}{said} = {node.op}({operands}){brackets};"

    def inferred(self, node: Node) -> Type | None:
        operands = [self.graph.nodes[i] for i in node.inputs]
        values = tuple(o.value if o.form is Form.LITERAL else None for o in operands)
        try:
            return infer(Call(node.op, tuple(o.type for o in operands), values, node.attrs))
        except MismatchError:
            return None

    def operand(self, index: int) -> str:
        node = self.graph.nodes[index]
        if index not in self.inline:
            return _name(node.name)
        return _constant(node, self.filled) if node.form is Form.CONSTANT else _literal(node.value)

    def is_inline(self, index: int, node: Node) -> bool:
        """Whether the node can be written inside its user without changing its name and type."""
        users = [self.graph.nodes[i] for i in members(self.graph.users_of[index])]
        if node.form is not Form.LITERAL or len(users) != 1 or self.graph.results >> index & 1:
            return False
        user = users[0]
        known = operators().get(user.op)
        if user.inputs.count(index) != 1 or known is None or known.operands is None:
            return False
        operand = known.operands[user.inputs.index(index)]
        implied = _implied_type(node.value, operand)
        in_place = operand in known.literals or isinstance(node.value, str | tuple)
        return in_place and node.type == implied and node.name == f"{user.name}.{operand}"


def _implied_type(value: object, operand: str) -> Type:
    words = {bool: "bool", int: "int64", float: "float32", str: "string"}
    if isinstance(value, tuple):
        return OpaqueType("shape" if operand in SHAPES else "scalars")
    return OpaqueType(words.get(type(value), "object"))


def _attributes(node: Node, known: Operator | None) -> Iterator[str]:
    """The attributes that differ from the value they have if not written."""
    defaults = known.defaults if known else {}
    layout = node.attrs.get("data_layout", node.attrs.get("layout"))
    for name, value in node.attrs.items():
        usual = layout if name == "out_layout" and layout else defaults.get(name, _NEVER)
        if value != usual or type(value) is not type(usual):
            is_dtype = known is not None and known.attrs.get(name) == "dtype"
            yield f"{name} = {_attribute(value, is_dtype)}"


_NEVER = object()


def _attribute(value: Attribute, is_dtype: bool) -> str:
    if is_dtype and isinstance(value, str) and long_dtype(value):
        return short_dtype(value)
    return _literal(value)


def _literal(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(well_formed(value))
        case tuple():
            return f"[{', '.join(map(_item, value))}]"
        case _:
            return repr(value)


def _item(value: object) -> str:
    """One item of a list. A string in it is a symbolic dimension, written as a name if possible."""
    if isinstance(value, str) and _is_name(value):
        return value
    return _literal(value)


def _constant(node: Node, filled: bool) -> str:
    return f"const {_type(node.type)}{_value(node, filled)}"


def _value(node: Node, filled: bool) -> str:
    if node.value is None or not isinstance(node.type, TensorType):
        return ""
    size = node.tensor.size
    if size is None or (size > _MOST_ELEMENTS and not filled):
        return ""
    written = node.value.ravel().tolist()  # type: ignore[attr-defined]
    if filled and size > 1 and len(set(written)) == 1:
        written = written[:1]
    if len(written) > (_MOST_FILLED if filled else _MOST_ELEMENTS):
        return ""
    if not all(map(_can_be_written, written)):
        return ""
    if len(written) == 1:
        return f" {_literal(written[0])}"
    return f" [{', '.join(map(_literal, written))}]"


def _can_be_written(element: object) -> bool:
    if isinstance(element, float):
        return abs(element) < 1e300 or element == -inf
    return isinstance(element, int)


def _type(type_: Type) -> str:
    match type_:
        case TensorType(dtype, None):
            return f"{short_dtype(dtype)}[*]"
        case TensorType(dtype, shape):
            assert shape is not None
            return f"{short_dtype(dtype)}[{', '.join(map(_dim, shape))}]"
        case TupleType(fields):
            return f"({', '.join(map(_type, fields))})"
        case OpaqueType(what):
            return what


def _dim(dim: int | str) -> str:
    return str(dim) if isinstance(dim, int) or dim == "?" or _is_name(dim) else _name(dim)


def _name(name: str) -> str:
    """`name`, in backquotes if need be. What these cannot hold is written as an escape."""
    if _is_name(name):
        return name
    shown = printable(name).replace("`", r"\x60")
    return f"`{shown}`"


def _is_name(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text not in _KEYWORDS
