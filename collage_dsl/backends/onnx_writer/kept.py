"""Write nodes of a graph that are ONNX nodes as they are, with other names for their values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto, TypeProto

from collage_dsl.backends.onnx_writer.call import Unsupported
from collage_dsl.graph import Form, Graph, TupleType, Type, members
from collage_dsl.graph.onnx_node import OnnxNode

OPSET = 20
"""The operator set of the nodes that are written for operators of Relax."""


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node with the model that it is alone in."""

    name: str
    op: str
    model: onnx.ModelProto

    @property
    def node(self) -> onnx.NodeProto:
        return self.model.graph.node[0]

    @property
    def versions(self) -> dict[str, int]:
        return {each.domain: each.version for each in self.model.opset_import}

    def written(
        self,
        operands: Sequence[str],
        fresh: Callable[[], str],
        initializers: list[TensorProto],
    ) -> tuple[onnx.NodeProto, tuple[str, ...]]:
        """
        The node that takes the values `operands`, and the names of its results. Its other names
        are `fresh`. Constants that are inside its model are added to `initializers`.
        """
        graph = self.model.graph
        names = dict(zip((value.name for value in graph.input), operands, strict=True))
        names[""] = ""

        def name(old: str) -> str:
            if old not in names:
                names[old] = fresh()
            return names[old]

        for tensor in graph.initializer:
            copy = TensorProto()
            copy.CopyFrom(tensor)
            copy.name = name(tensor.name)
            initializers.append(copy)
        result = onnx.NodeProto()
        result.CopyFrom(self.node)
        for node in nodes_within(result):
            node.input[:] = map(name, node.input)
            node.output[:] = map(name, node.output)
        for inner in _graphs_within(result):
            for value in (*inner.input, *inner.output, *inner.initializer):
                value.name = name(value.name)
        return result, tuple(name(value.name) for value in graph.output)


def kept_nodes(graph: Graph) -> dict[int, KeptNode]:
    """The nodes of `graph` that are ONNX nodes."""
    return {
        index: KeptNode(node.name, node.op, onnx.ModelProto.FromString(node.value.model))
        for index, node in enumerate(graph.nodes)
        if isinstance(node.value, OnnxNode)
    }


def operator_sets(kept: Mapping[int, KeptNode], others: Sequence[onnx.NodeProto]) -> dict[str, int]:
    """
    The version of each domain in which all nodes mean the same: those `kept`, and the `others`,
    which are of `OPSET`, or of version 1 of another domain. Raises `Unsupported` if there is none.
    """
    result = {node.domain: 1 for node in others if node.domain}
    standard = [node for node in others if not node.domain]
    for each in kept.values():
        for domain, version in each.versions.items():
            if domain and result.setdefault(domain, version) != version:
                raise Unsupported(each.name, each.op, f"two versions of `{domain}` are needed")
    # onnxruntime has some operators only by what they are defined as, and only in sets up to those
    # that define anew what is in there. So the versions of the nodes that are kept come first.
    wanted = [*sorted({each.versions.get("", OPSET) for each in kept.values()}), OPSET]
    for version in wanted:
        if _mean_the_same(version, kept, standard):
            return {"": version, **result}
    first = next(iter(kept.values()))
    raise Unsupported(first.name, first.op, f"operator set {wanted[-2]} is needed, and {OPSET}")


def _mean_the_same(
    version: int, kept: Mapping[int, KeptNode], others: Sequence[onnx.NodeProto]
) -> bool:
    # Later definitions of the operators that are written differ by the types that they take.
    if version < OPSET and not all(_is_known_in(version, node) for node in others):
        return False
    return all(
        _since(node, version) == _since(node, each.versions.get("", OPSET))
        for each in kept.values()
        for node in nodes_within(each.node)
        if not node.domain
    )


_WIDENED = frozenset(
    (
        *("Cast", "ConstantOfShape", "DequantizeLinear", "Equal", "Identity", "IsInf", "IsNaN"),
        *("QuantizeLinear", "Reshape", "ScatterElements", "ScatterND", "Shape"),
    )
)
"""
Operators whose definitions up to `OPSET` have more types, attributes and values of attributes than
those before, and else mean the same.
"""


def _is_known_in(version: int, node: onnx.NodeProto) -> bool:
    """Whether a node that is written in `OPSET` means the same in an earlier operator set."""
    if _since(node, version) == _since(node, OPSET):
        return True
    if node.op_type not in _WIDENED or not _since(node, version):
        return False
    before = onnx.defs.get_schema(node.op_type, version)
    return all(each.name in before.attributes for each in node.attribute)


def _since(node: onnx.NodeProto, version: int) -> int:
    """The version in which the definition of a standard operator was given; 0 if there is none."""
    try:
        return int(onnx.defs.get_schema(node.op_type, version).since_version)
    except onnx.defs.SchemaError:
        return 0


def fields_of(type_: Type) -> tuple[Type, ...]:
    """The types in a tuple, or the type itself."""
    return type_.fields if isinstance(type_, TupleType) else (type_,)


def object_type(graph: Graph, kept: Mapping[int, KeptNode], index: int) -> TypeProto | None:
    """The ONNX type of a node that is no tensor, from a kept node that gives or takes it."""
    node = graph.nodes[index]
    if index in kept:
        return _type(kept[index].model.graph.output[0])
    if node.form is Form.PROJECTION and node.inputs[0] in kept:
        assert isinstance(node.value, int)
        return _type(kept[node.inputs[0]].model.graph.output[node.value])
    for user in members(graph.users_of[index]):
        if user in kept:
            place = graph.nodes[user].inputs.index(index)
            return _type(kept[user].model.graph.input[place])
    return None


def _type(value: onnx.ValueInfoProto) -> TypeProto:
    return value.type


def nodes_within(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The node, and those of the graphs in it."""
    yield node
    for graph in _graphs_of(node):
        for inner in graph.node:
            yield from nodes_within(inner)


def _graphs_within(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for graph in _graphs_of(node):
        yield graph
        for inner in graph.node:
            yield from _graphs_within(inner)


def _graphs_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
