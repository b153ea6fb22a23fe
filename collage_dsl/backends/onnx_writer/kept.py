"""Write nodes of a graph that are ONNX nodes as they are, with other names for their values."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
import onnx.version_converter
from onnx import TensorProto, TypeProto

from collage_dsl.backends.onnx_writer.call import Unsupported
from collage_dsl.graph import Form, Graph, TupleType, Type, members
from collage_dsl.graph.onnx_node import OnnxNode, passed
from collage_dsl.onnx_nodes import graphs_of, nodes_within

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
            copy.ClearField("doc_string")
            copy.name = name(tensor.name)
            initializers.append(copy)
        result = onnx.NodeProto()
        result.CopyFrom(self.node)
        for node in nodes_within([result]):
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


class OperatorSetError(Unsupported):
    """Nodes are of operator sets that no model can have together."""


def in_opset(kept: Mapping[int, KeptNode]) -> dict[int, KeptNode]:
    """
    The `kept` nodes in `OPSET`, where ONNX's own converter makes one node of each; the others as
    they are.
    """
    return {index: _converted(each) for index, each in kept.items()}


def _converted(kept: KeptNode) -> KeptNode:
    if kept.versions.get("", OPSET) >= OPSET:
        return kept
    try:
        model = onnx.version_converter.convert_version(kept.model, OPSET)
    except RuntimeError:  # It has no rule for an operator.
        return kept
    before, after = kept.model.graph, model.graph
    if len(after.node) != 1 or len(after.initializer) != len(before.initializer):
        return kept
    for graph in _graphs_within(after.node[0]):
        graph.ClearField("value_info")  # Its names are those of before.
    return KeptNode(kept.name, kept.op, model)


def operator_sets(kept: Mapping[int, KeptNode], others: Sequence[onnx.NodeProto]) -> dict[str, int]:
    """
    The version of each domain in which all nodes mean the same: those `kept`, and the `others`,
    which are of `OPSET`, or of version 1 of another domain. Raises `OperatorSetError` if there is
    none.
    """
    result = {node.domain: 1 for node in others if node.domain}
    standard = [node for node in others if not node.domain]
    for each in kept.values():
        for domain, version in each.versions.items():
            if domain and result.setdefault(domain, version) != version:
                said = f"two versions of `{domain}` are needed"
                raise OperatorSetError(each.name, each.op, said)
    # onnxruntime has some operators only by what they are defined as, and only in sets up to those
    # that define anew what is in there. So the versions of the nodes that are kept come first.
    own = sorted({each.versions.get("", OPSET) for each in kept.values()})
    for version in (*own, *range(own[0] + 1 if own else OPSET, OPSET + 1)):
        if _mean_the_same(version, kept, standard):
            return {"": version, **result}
    first = next(iter(kept.values()))
    said = f"operator set {own[-1]} is needed, and {OPSET}"
    raise OperatorSetError(first.name, first.op, said)


def _mean_the_same(
    version: int, kept: Mapping[int, KeptNode], others: Sequence[onnx.NodeProto]
) -> bool:
    # Later definitions of the operators that are written differ by the types that they take.
    if version < OPSET and not all(_means_the_same(node, OPSET, version) for node in others):
        return False
    return all(
        _means_the_same(node, each.versions.get("", OPSET), version)
        for each in kept.values()
        for node in nodes_within([each.node])
        if not node.domain
    )


_WIDENED = frozenset(
    (
        *("Cast", "Constant", "ConstantOfShape", "DequantizeLinear", "Equal", "Identity", "If"),
        *("IsInf", "IsNaN", "Loop", "Pad", "QuantizeLinear", "Reshape", "ScatterElements"),
        *("ScatterND", "Shape", "Size"),
    )
)
"""
Operators whose later definitions have more types, operands, attributes and values of attributes
than those before, and else mean the same.
"""


def _means_the_same(node: onnx.NodeProto, version: int, other: int) -> bool:
    """Whether a node that is written in the operator set `version` means the same in `other`."""
    if _since(node, version) == _since(node, other):
        return True
    oldest = min(version, other)
    if node.op_type not in _WIDENED or not _since(node, oldest):
        return False
    before = onnx.defs.get_schema(node.op_type, oldest)
    return (
        len(node.input) <= before.max_input
        and all(each.name in before.attributes for each in node.attribute)
        and not any(each.s == b"wrap" for each in node.attribute)
    )


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
            place = passed(graph.nodes[user]).index(index)
            return _type(kept[user].model.graph.input[place])
    return None


def _type(value: onnx.ValueInfoProto) -> TypeProto:
    return value.type


def _graphs_within(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for graph in graphs_of(node):
        yield graph
        for inner in graph.node:
            yield from _graphs_within(inner)
