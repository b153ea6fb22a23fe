"""
Build a `Graph` from the text notation of small graphs, for tests and documentation.

    graph {
      x: f32[1, 16, 8, 8];
      w = const f32[16, 16, 3, 3];
      c = nn.conv2d(x, w) [padding = [1, 1, 1, 1]];
      y = nn.relu(c);
      return y;
    }

Attributes that are not written have TVM's defaults. `inference` infers the types of calls as far
as it can; a written type takes precedence.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from collage_dsl.argument_types import with_checked_types
from collage_dsl.graph import (
    Form,
    Graph,
    Node,
    OpaqueType,
    TensorType,
    TupleType,
    Type,
)
from collage_dsl.graph.operators import Operator, kind_of, literal_values, operators
from collage_dsl.graph.types import dtype_names, long_dtype, short_dtype, tensors
from collage_dsl.language.graphs.checked_types import no_tuple
from collage_dsl.language.graphs.values import Scalar, constant_values, fits, with_arrays
from collage_dsl.language.inference.infer import infer
from collage_dsl.language.inference.shapes import Call, MismatchError
from collage_dsl.language.messages.advice import dtype_meant
from collage_dsl.language.messages.findings import Findings, count, there_are
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.reasoning.operators.attributes import check_attributes
from collage_dsl.language.reasoning.operators.calls import check_count, find_operator
from collage_dsl.language.syntax import ast, graph_ast
from collage_dsl.language.syntax.graph_tree import GraphBuilder
from collage_dsl.language.syntax.parser import parse_tree
from collage_dsl.language.syntax.whole_text import is_small
from collage_dsl.memory import uncollected
from collage_dsl.source import Source, Span

SHAPES = frozenset({"shape", "size"})
"""Names of operands that are shapes; other tuples of numbers have the type `scalars`."""


@with_checked_types()
def parse_graph(text: str, name: str = "graph") -> Graph:
    """The graph that `text` describes. Raises RuleError with everything wrong with it."""
    findings = Findings()
    source = Source(name, text)
    if not is_small(source, findings):
        findings.raise_errors()
    graph = None
    with uncollected(), findings.limited():
        tree, broken = parse_tree(source, "graph_text", findings)
        written = GraphBuilder(source, findings).graph(tree, broken)
        graph = build_graph(written, name, findings)
    findings.raise_errors()
    assert graph is not None
    return with_arrays(graph)


def build_graph(written: graph_ast.Graph, name: str, findings: Findings) -> Graph | None:
    """
    The graph, with `Values` in its constants; None after reporting what is wrong in it.
    """
    return _Builder(written, findings).run(name)


def known_types(written: graph_ast.Graph) -> Mapping[str, Type]:
    """The types of the nodes that are right, by name. Mistakes are not reported."""
    findings = Findings()
    builder = _Builder(written, findings)
    with findings.limited():
        builder.run("")
    return {node.name: node.type for node in builder.nodes}


class _Builder:
    def __init__(self, written: graph_ast.Graph, findings: Findings) -> None:
        self.written = written
        self.findings = findings
        self.nodes: list[Node] = []
        self.index: dict[str, int] = {}
        self.broken = {broken.name for broken in written.broken}
        self.defined = {
            statement.name.text
            for statement in written.statements
            if not isinstance(statement, graph_ast.Return)
        }
        nodes = [each for each in written.statements if isinstance(each, graph_ast.Node)]
        values = [node.value for node in nodes]
        self.with_type = {node.name.text for node in nodes if node.type is not None}
        self.with_fields = {v.of.text for v in values if isinstance(v, graph_ast.Projection)}

    def run(self, name: str) -> Graph | None:
        errors = self.findings.errors
        returned: graph_ast.Return | None = None
        for statement in self.written.statements:
            if returned is not None:
                self.after_return(statement)
                break
            match statement:
                case graph_ast.Input(input_name, type_):
                    self.add(input_name, Node(input_name.text, Form.INPUT, self.type(type_)))
                case graph_ast.Node():
                    self.node(statement)
                case graph_ast.Return():
                    returned = statement
        if returned is None:
            if not self.broken:
                at = self.written.span
                end = Span(at.source, at.start, at.start)
                self.findings.error(
                    "E0601", end, "the graph returns nothing", "end with `return y;`"
                )
            return None
        outputs = [self.operand(output) for output in returned.names]
        if self.findings.errors > errors or self.broken:
            return None
        found = [output for output in outputs if output is not None]
        return Graph(self.nodes, found, name=name, returns_tuple=returned.is_tuple)

    def after_return(self, statement: graph_ast.Statement) -> None:
        span = statement.span if isinstance(statement, graph_ast.Return) else statement.name.span
        self.findings.error("E0601", span, "nothing can follow `return`")

    # Names.

    def add(self, name: ast.Name, node: Node) -> None:
        if name.text in self.index:
            self.findings.error("E0202", name.span, f"`{name.text}` is defined twice")
        self.index[name.text] = len(self.nodes)
        self.nodes.append(node)

    def derived(self, node: Node) -> int:
        """Add the node of an inline operand. If its name is taken, a number is appended."""
        name, count = node.name, 0
        while name in self.index or name in self.defined:
            count += 1
            name = f"{node.name}_{count}"
        self.index[name] = len(self.nodes)
        self.nodes.append(replace(node, name=name))
        return self.index[name]

    def operand(self, name: ast.Name) -> int | None:
        if name.text in self.index:
            return self.index[name.text]
        if self.broken & {name.text, ""}:  # a broken node may have any name
            return None
        if name.text in self.defined:
            message = f"`{name.text}` is used before it is defined"
            self.findings.error("E0206", name.span, message)
        else:
            hint = did_you_mean(name.text, self.index) or there_are(self.index)
            self.findings.error("E0206", name.span, f"unknown name `{name.text}`", hint)
        return None

    # Nodes.

    def node(self, statement: graph_ast.Node) -> None:
        name = statement.name
        said = None if statement.type is None else self.type(statement.type)
        match statement.value:
            case graph_ast.GraphCall() as call:
                node = self.call(name.text, call, said)
            case graph_ast.Constant() as constant:
                node = self.constant(name.text, constant)
            case graph_ast.Tuple(fields):
                node = self.tuple_of(name.text, fields)
            case graph_ast.Projection() as projection:
                node = self.projection(name.text, projection)
            case value:
                plain = _plain(value)
                literal_type = said or type_of_literal(plain, "shape")
                if said or self.is_shape(plain, value.span):
                    node = Node(name.text, Form.LITERAL, literal_type, value=plain)
                else:
                    node = None
        if node is None:
            self.broken.add(name.text)
        else:
            self.add(name, node)

    def tuple_of(self, name: str, fields: tuple[ast.Name, ...]) -> Node | None:
        inputs = self.operands(fields, name, None)
        if inputs is None:
            return None
        type_ = TupleType(tuple(self.nodes[i].type for i in inputs))
        return Node(name, Form.TUPLE, type_, inputs)

    def projection(self, name: str, written: graph_ast.Projection) -> Node | None:
        of = self.operand(written.of)
        if of is None:
            return None
        type_ = self.nodes[of].type
        if not isinstance(type_, TupleType):
            self.findings.error("E0603", written.span, *no_tuple(self.nodes[of]))
            return None
        if written.index >= len(type_.fields):
            message = f"`{written.of.text}` has {count(len(type_.fields), 'field')}, counted from 0"
            self.findings.error("E0603", written.span, message)
            return None
        field = type_.fields[written.index]
        return Node(name, Form.PROJECTION, field, (of,), value=written.index)

    def call(self, name: str, written: graph_ast.GraphCall, said: Type | None) -> Node | None:
        operator = find_operator(written.operator, self.findings)
        if operator is None:
            return None
        given = [operand.span.text for operand in written.operands]
        errors = self.findings.errors
        check_count(operator, given, written.span, "the graph", self.findings)
        attrs = check_attributes(operator, written, self.findings)
        inputs = self.operands(written.operands, name, operator)
        if inputs is None or self.findings.errors > errors:
            return None
        for index, takes in zip(inputs, operator.takes, strict=False):
            if takes == "tensor":
                self.take_tensor(index)
        operands = [self.nodes[i] for i in inputs]
        types = tuple(node.type for node in operands)
        type_ = said
        values = literal_values(operands)
        if type_ is None:
            try:
                type_ = infer(Call(operator.name, types, values, attrs))
            except MismatchError as problem:
                self.findings.error("E0603", written.span, str(problem))
                return None
        kind = kind_of(operator.name, types, type_, values, attrs)
        return Node(name, Form.CALL, type_, inputs, operator.name, attrs, kind)

    def take_tensor(self, index: int) -> None:
        """
        A node of ONNX that is taken as a tensor has one result that is used. Without a written
        type, it is not known which one.
        """
        node = self.nodes[index]
        operator = operators().get(node.op)
        if operator is None or operator.most_results is None:
            return
        if node.name in self.with_type | self.with_fields or not isinstance(node.type, TupleType):
            return
        dtypes = {tensor.dtype for tensor in tensors(node.type)}
        dtype = dtypes.pop() if len(dtypes) == 1 else _UNKNOWN
        self.nodes[index] = replace(node, type=TensorType(dtype, None))

    def operands(
        self,
        written: Sequence[graph_ast.GraphOperand],
        user: str,
        operator: Operator | None,
    ) -> tuple[int, ...] | None:
        found: dict[int, int | None] = {}
        literals: dict[int, graph_ast.Value] = {}
        for place, operand in enumerate(written):
            match operand:
                case ast.Name():
                    found[place] = self.operand(operand)
                case graph_ast.Constant():
                    node = self.constant(f"{user}.const{place}", operand)
                    found[place] = None if node is None else self.derived(node)
                case value:
                    literals[place] = value
        tensors = tuple(found.values())
        for place, value in literals.items():
            found[place] = self.literal(value, user, place, operator, tensors)
        indexes = tuple(index for _, index in sorted(found.items()) if index is not None)
        return indexes if len(indexes) == len(written) else None

    def literal(
        self,
        written: graph_ast.Value,
        user: str,
        place: int,
        operator: Operator | None,
        tensors: Sequence[int | None],
    ) -> int | None:
        """
        The node of a literal operand. If the operator takes a tensor there, it is a scalar
        constant with the dtype of the first of the other `tensors`.
        """
        names = (operator and operator.operands) or ()
        operand = names[place] if place < len(names) else f"literal{place}"
        value = _plain(written)
        if operand in SHAPES and not self.is_shape(value, written.span):
            return None
        if operator and operand not in operator.literals and isinstance(value, int | float):
            types = (self.nodes[i].type for i in tensors if i is not None)
            dtypes = (type_.dtype for type_ in types if isinstance(type_, TensorType))
            type_ = TensorType(next(dtypes, "float32"), ())
            if not self.fit([value], type_, written.span):
                return None
            number = constant_values(type_.dtype, (), [value])
            return self.derived(Node(f"{user}.const{place}", Form.CONSTANT, type_, value=number))
        literal_type = type_of_literal(value, operand)
        return self.derived(Node(f"{user}.{operand}", Form.LITERAL, literal_type, value=value))

    def is_shape(self, value: object, span: Span) -> bool:
        """Whether a tuple has only dimensions; reports anything else in it."""
        for each in value if isinstance(value, tuple) else ():
            if isinstance(each, bool) or not isinstance(each, int | str):
                message = "a shape can contain only whole numbers and names of dimensions"
                self.findings.error("E0603", span, message)
                return False
        return True

    def constant(self, name: str, written: graph_ast.Constant) -> Node | None:
        type_ = self.tensor_type(written.type)
        if written.value is None:
            return Node(name, Form.CONSTANT, type_)
        if not type_.is_static:
            message = "a constant with a value needs a known shape"
            self.findings.error("E0603", written.type.span, message)
            return None
        elements = _elements(written.value)
        if elements is None:
            message = "the value of a constant must be a number or a list of numbers"
            self.findings.error("E0603", written.value.span, message)
            return None
        if not self.fit(elements, type_, written.value.span):
            return None
        shape = type_.static_shape
        if isinstance(written.value, ast.Literal) and prod(shape) <= _MOST_FILLED:
            elements *= prod(shape)
        if len(elements) != prod(shape):
            needed = "1 number is" if prod(shape) == 1 else f"{prod(shape)} numbers are"
            message = f"{needed} needed here, not {len(elements)}"
            self.findings.error("E0603", written.value.span, message)
            return None
        return Node(name, Form.CONSTANT, type_, value=constant_values(type_.dtype, shape, elements))

    def fit(self, elements: Sequence[Scalar], type_: TensorType, span: Span) -> bool:
        for element in elements:
            if not fits(element, type_.dtype):
                message = f"{element} is not a value of dtype {short_dtype(type_.dtype)}"
                self.findings.error("E0603", span, message)
                return False
        return True

    # Types.

    def type(self, written: graph_ast.Type) -> Type:
        match written:
            case graph_ast.TensorType():
                return self.tensor_type(written)
            case graph_ast.TupleType(fields):
                return TupleType(tuple(self.type(field) for field in fields))
            case graph_ast.ObjectType(name):
                return OpaqueType(name.text)

    def tensor_type(self, written: graph_ast.TensorType) -> TensorType:
        name = written.dtype
        dtype = long_dtype(name.text)
        if dtype is None and name.text != _UNKNOWN:
            hint = dtype_meant(name.text) or did_you_mean(name.text, dtype_names())
            self.findings.error("E0603", name.span, f"unknown dtype `{name.text}`", hint)
        return TensorType(dtype or _UNKNOWN, written.dims)


_UNKNOWN = "unknown"
"""The dtype of a tensor if none is known."""

_MOST_FILLED = 1 << 20
"""The most elements of a constant that is given by one number."""


def _plain(value: graph_ast.Value) -> object:
    match value:
        case ast.Literal(plain):
            return plain
        case ast.Name(text):
            return text
        case graph_ast.LiteralList(items):
            return tuple(map(_plain, items))
        case graph_ast.Nothing():
            return None


def type_of_literal(value: object, operand: str) -> OpaqueType:
    """The type of a literal, with the name that the frontend uses."""
    match value:
        case bool():
            return OpaqueType("bool")
        case int():
            return OpaqueType("int64")
        case float():
            return OpaqueType("float32")
        case str():
            return OpaqueType("string")
        case tuple():
            return OpaqueType("shape" if operand in SHAPES else "scalars")
        case _:
            return OpaqueType("object")


def _elements(value: graph_ast.Value) -> list[Scalar] | None:
    match value:
        case ast.Literal(bool() | int() | float() as scalar):
            return [scalar]
        case graph_ast.LiteralList(items):
            found: list[Scalar] = []
            for item in items:
                elements = _elements(item)
                if elements is None:
                    return None
                found += elements
            return found
    return None
