"""
Make each output of functions, and of graphs inside nodes, the result of a node of its own. Of an
output that is an input, a constant or another output too, onnxruntime may give memory that nothing
was written to, and the inliner of ONNX loses the name.
"""

from collections.abc import Iterable
from itertools import count
from typing import TypeAlias

import onnx

from collage_dsl.onnx_nodes import graphs_of, nodes_within

_Scope: TypeAlias = onnx.GraphProto | onnx.FunctionProto


def with_own_outputs(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, which is copied only if an output is changed."""
    bodies = [model.graph.node, *(each.node for each in model.functions)]
    graphs = [graph for body in bodies for node in nodes_within(body) for graph in graphs_of(node)]
    if not any(map(_shares_outputs, [*graphs, *model.functions])):
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    give_own_outputs(result.graph.node)
    for function in result.functions:
        give_own_outputs(function.node)
        function.output[:] = _own_outputs(function, _names_in(nodes_within(function.node)))
    return result


def give_own_outputs(nodes: Iterable[onnx.NodeProto]) -> None:
    """Change the graphs inside `nodes`."""
    every = list(nodes_within(nodes))
    taken = _names_in(every)
    for node in every:
        for graph in graphs_of(node):
            for value, name in zip(graph.output, _own_outputs(graph, taken), strict=True):
                value.name = name


def _names_in(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    return {name for node in nodes for name in (*node.input, *node.output)}


def _own_outputs(scope: _Scope, taken: set[str]) -> list[str]:
    """
    The names of the outputs, after an `Identity` is added for each tensor that has no node alone.
    Before set 14, there is none for sequences. New names are added to those `taken`.
    """
    free = {name for node in scope.node for name in node.output}
    result: list[str] = []
    for value in scope.output:
        own = name = _name(value)
        if name not in free and _may_be_tensor(value):
            own = next(each for at in count() if (each := f"{name}/{at}") not in taken)
            taken.add(own)
            scope.node.add(op_type="Identity", input=[name], output=[own])
        free.discard(own)
        result.append(own)
    return result


def _shares_outputs(scope: _Scope) -> bool:
    names = [*map(_name, scope.output)]
    computed = {name for node in scope.node for name in node.output}
    return len(set(names)) < len(names) or not computed.issuperset(names)


def _name(output: onnx.ValueInfoProto | str) -> str:
    return output if isinstance(output, str) else output.name


def _may_be_tensor(output: onnx.ValueInfoProto | str) -> bool:
    return isinstance(output, str) or output.type.WhichOneof("value") in (None, "tensor_type")
