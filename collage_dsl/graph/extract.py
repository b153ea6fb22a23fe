"""Extract a sub-graph as a separate graph, and compute a fingerprint of that kernel."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from collage_dsl.graph.graph import Graph, Node
from collage_dsl.graph.onnx_node import constants_inside
from collage_dsl.graph.opset import OpSet, members, opset
from collage_dsl.graph.sizes import names_in
from collage_dsl.graph.types import Dim, Form, OpaqueType, TensorType, tensors

_SMALL = 16
"""Constants of at most this many elements may be parameters of the computation: axes, bounds."""


@dataclass(frozen=True, slots=True)
class Extract:
    """
    A sub-graph as a separate graph.

    `arguments` are the nodes of the original graph that its parameters stand for, in order.
    `results` are the nodes whose values it returns, in order. All of them are tensors, or values
    that only ONNX has: instead of a call with a tuple result, its used projections; instead of a
    tuple used outside, its fields.
    """

    graph: Graph
    arguments: tuple[int, ...]
    results: tuple[int, ...]


def extract(graph: Graph, inside: OpSet, constants: OpSet = 0, *, name: str = "main") -> Extract:
    """
    The nodes `inside` with the `constants` bound. Every other input becomes a parameter.

    Literals are copied into the graph, and so are tuples from outside: a kernel takes only tensors.
    Constants that an ONNX node has in its model come along with it.
    A parameter of `graph` that nothing inside takes becomes one too where it is the only one with a
    dimension that occurs inside.
    """
    results = tensor_results(graph, inside)
    inside |= opset(results)
    constants |= constants_inside(graph, members(inside))
    wanted = _with_operands(graph, inside, constants)
    wanted |= _with_dimensions(graph, wanted, inside)
    position: dict[int, int] = {}
    nodes: list[Node] = []
    arguments = []
    for index in members(wanted):
        node = graph.nodes[index]
        position[index] = len(nodes)
        if inside >> index & 1 or _comes_along(node, constants >> index & 1):
            inputs = tuple(position[operand] for operand in node.inputs)
            nodes.append(replace(node, inputs=inputs, block=0))
        else:
            nodes.append(Node(node.name, Form.INPUT, node.type))
            arguments.append(index)
    outputs = [position[index] for index in results]
    return Extract(Graph(nodes, outputs, name=name), tuple(arguments), results)


def tensor_results(graph: Graph, inside: OpSet) -> tuple[int, ...]:
    """
    The tensors that a kernel of the nodes `inside` returns: its exits, and instead of a tuple its
    fields inside (the tuple is made again outside). Empty if nothing that it computes is used.
    """
    results: set[int] = set()
    pending = list(members(graph.exit(inside)))
    while pending:
        index = pending.pop()
        node = graph.nodes[index]
        if isinstance(node.type, TensorType) or _is_of_onnx(node):
            results.add(index)
        elif node.form is Form.TUPLE:
            pending.extend(i for i in node.inputs if inside >> i & 1)
        else:
            used = members(graph.users_of[index] & ~inside)
            results |= {i for i in used if graph.nodes[i].form is Form.PROJECTION}
    return tuple(sorted(results))


def _is_of_onnx(node: Node) -> bool:
    return isinstance(node.type, OpaqueType) and node.type.is_of_onnx


def places(graph: Graph, results: Sequence[int]) -> dict[int, int]:
    """
    The position of each of `results` in what a kernel returns. Projections of the same field of
    the same value share one position, since a kernel cannot return a tensor twice.
    """
    known: dict[int | tuple[int, object], int] = {}
    found = {}
    for index in results:
        node = graph.nodes[index]
        is_field = node.form is Form.PROJECTION
        key = (node.inputs[0], node.value) if is_field else index
        found[index] = known.setdefault(key, len(known))
    return found


def _with_operands(graph: Graph, inside: OpSet, constants: OpSet) -> OpSet:
    wanted, pending = 0, inside
    while pending:
        wanted |= pending
        flows_in = 0
        for index in members(pending):
            if inside >> index & 1 or _comes_along(graph.nodes[index], constants >> index & 1):
                flows_in |= graph.inputs_of[index]
        pending = flows_in & ~wanted
    return wanted


def _with_dimensions(graph: Graph, wanted: OpSet, inside: OpSet) -> OpSet:
    """Parameters of `graph` that have those dimensions which no input of the nodes `inside` has."""
    parameters = {index: _dims(graph.nodes[index]) for index in members(graph.parameters)}
    if not any(isinstance(dim, str) for dims in parameters.values() for dim in dims):
        return 0
    nodes = [(index, graph.nodes[index]) for index in members(wanted)]
    given = {
        dim
        for index, node in nodes
        if not inside >> index & 1 and node.form is not Form.LITERAL
        for dim in _dims(node)
    }
    used = {name for _, node in nodes for dim in _dims(node) for name in names_in(dim)}
    found, missing = 0, used - given
    for index, dims in parameters.items():
        if here := missing.intersection(dims):
            found |= 1 << index
            missing -= here
    return found


def _dims(node: Node) -> list[Dim]:
    """The dimensions in the type of a node, and in a literal."""
    dims = [dim for type_ in tensors(node.type) for dim in type_.shape or ()]
    if node.form is Form.LITERAL:
        values = node.value if isinstance(node.value, tuple) else (node.value,)
        dims += [value for value in values if isinstance(value, str)]
    return dims


def _comes_along(node: Node, bound: int) -> bool:
    if node.form is Form.CONSTANT:
        return bool(bound)
    return node.form in (Form.LITERAL, Form.TUPLE)


def fingerprint(kernel: Graph) -> str:
    """
    A hash of what `kernel` computes: structure, operators, attributes, shapes and dtypes.

    It does not depend on the names of nodes, the values of weights, or scales. Of zero points, it
    depends on whether all are 0, or all 128. It does depend on other constants that `steers`
    selects, on the printed text of a PrimFunc, and on the models of ONNX nodes, with the constants
    in these.
    """
    inside = constants_inside(kernel, members(kernel.calls))
    values = [
        None if inside >> index & 1 else _steering(kernel, index)
        for index in range(len(kernel.nodes))
    ]
    rows = list(map(_row, kernel.nodes, values))
    text = json.dumps([rows, kernel.outputs], separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _row(node: Node, steering: object) -> list[object]:
    return [
        node.form.value,
        node.op,
        node.inputs,
        sorted(node.attrs.items()),
        str(node.type),
        steering,
    ]


def _steering(kernel: Graph, index: int) -> object:
    """The value of a node, as far as it decides what is computed."""
    node = kernel.nodes[index]
    if node.form is not Form.CONSTANT:
        return node.value
    if not steers(kernel, index):
        return None
    value: Any = node.value
    users = [kernel.nodes[user] for user in members(kernel.users_of[index])]
    if users and all(user.op in _QUANTIZING for user in users):
        is_zero_point = any(index in user.inputs[2:] for user in users)
        return special_zero(value) if is_zero_point else None
    return None if _holds_bytes(node) else _elements(node)


_QUANTIZING = frozenset({"quantize", "dequantize"})
"""Operators whose code does not depend on the values of scales and weights."""


def special_zero(zero_points: Any) -> int | None:
    """
    The value of all zero points, if it is 0 or 128. Kernels need no sums of operands if that of
    signed weights is 0, or that of unsigned ones 128.
    """
    found = set(zero_points.ravel().tolist())
    return found.pop() if found in ({0}, {128}) else None


def _holds_bytes(constant: Node) -> bool:
    """Whether a constant has many integers of eight bits or fewer, as only weights have."""
    return constant.tensor.dtype.removeprefix("u") in _BYTES and not _is_small(constant)


_BYTES = ("int8", "int4", "int2")


def _elements(constant: Node) -> object:
    """The elements of a constant, or a hash of them where they are many."""
    value: Any = constant.value
    if _is_small(constant) or not hasattr(value, "tobytes"):
        return value.ravel().tolist()
    return hashlib.sha256(value.tobytes()).hexdigest()


def _is_small(constant: Node) -> bool:
    size = constant.tensor.size
    return size is not None and size <= _SMALL


def steers(graph: Graph, index: int) -> bool:
    """
    Whether the value of a constant, not only its type, may decide what a kernel computes. Of scales
    it decides what a library makes of it: onnxruntime multiplies bytes only if the scale of a bias
    is the product of those of the image and the weights.
    """
    constant = graph.nodes[index]
    if constant.value is None or not isinstance(constant.type, TensorType):
        return False
    return "float" not in constant.type.dtype or _is_small(constant) or _scales(graph, index)


def _scales(graph: Graph, index: int) -> bool:
    users = (graph.nodes[user] for user in members(graph.users_of[index]))
    return any(user.op in _QUANTIZING and index in user.inputs[1:] for user in users)


def without_weights(kernel: Graph) -> Graph:
    """`kernel` without the values of its weights, so that it is small enough to send."""
    nodes = [
        replace(node, value=None)
        if node.form is Form.CONSTANT and not steers(kernel, index)
        else node
        for index, node in enumerate(kernel.nodes)
    ]
    return Graph(nodes, kernel.outputs, name=kernel.name, returns_tuple=kernel.returns_tuple)
