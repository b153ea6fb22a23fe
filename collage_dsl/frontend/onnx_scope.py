"""The values that ONNX nodes with graphs inside take from outside, and their names."""

from collections.abc import Callable, Iterator, Mapping

import onnx

from collage_dsl.onnx_nodes import graphs_of


def names_read(node: onnx.NodeProto) -> Iterator[str]:
    """The values that a node takes, and those that graphs in its attributes take from outside."""
    yield from filter(None, node.input)
    for graph in graphs_of(node):
        yield from _captured(graph)


def _captured(graph: onnx.GraphProto) -> Iterator[str]:
    own = {value.name for value in graph.input}
    own |= {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    for node in graph.node:
        yield from (name for name in names_read(node) if name not in own)
        own.update(node.output)
    yield from (value.name for value in graph.output if value.name not in own)


def renamed(
    node: onnx.NodeProto, known: Mapping[str, str], fresh: Callable[[str], str]
) -> onnx.NodeProto:
    """A copy of `node`, without its own name, that takes values by the names in `known`."""
    result = onnx.NodeProto()
    result.CopyFrom(node)
    for field in ("name", "doc_string", "metadata_props"):
        result.ClearField(field)
    del result.input[:]
    result.input.extend(known.get(name, name) for name in node.input)
    for graph in graphs_of(result):
        rename(graph, known, fresh)
    return result


def rename(graph: onnx.GraphProto, known: Mapping[str, str], fresh: Callable[[str], str]) -> None:
    """
    Give the values of a graph inside a node names that are `fresh`; those from outside, the names
    in `known`.
    """
    names = dict(known)

    def define(name: str) -> str:
        if name:
            names[name] = fresh(name)
        return names.get(name, "")

    for value in graph.input:
        value.name = define(value.name)
    for tensor in graph.initializer:
        # It may be the default of an input.
        is_input = tensor.name in names and names[tensor.name] != known.get(tensor.name)
        tensor.name = names[tensor.name] if is_input else define(tensor.name)
    for sparse in graph.sparse_initializer:
        sparse.values.name = define(sparse.values.name)
    for node in graph.node:
        changed = renamed(node, names, fresh)
        del changed.output[:]
        changed.output.extend(define(name) for name in node.output)
        node.CopyFrom(changed)
    for value in graph.output:
        value.name = names.get(value.name, value.name)
    del graph.value_info[:]
    graph.name = "inner"
