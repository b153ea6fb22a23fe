"""Small graphs for tests, and random ones."""

import random
from collections.abc import Sequence

from collage_dsl.graph import (
    CandidateKernel,
    Form,
    Graph,
    Kind,
    Node,
    SubGraph,
    TensorType,
    Toolchain,
)

F32 = TensorType("float32", (4,))
NATIVE = Toolchain("native")
LIBRARY = Toolchain("library", compiler="library")


def graph_of(edges: dict[str, Sequence[str]], outputs: Sequence[str], **kinds: Kind) -> Graph:
    """
    Calls with their operands, in order; a name that is not a key is a parameter.

        graph_of({"a": ["x"], "b": ["a"]}, ["b"], b=Kind.ANCHOR)
    """
    nodes: list[Node] = []
    index: dict[str, int] = {}

    def add(node: Node) -> None:
        index[node.name] = len(nodes)
        nodes.append(node)

    for name, operands in edges.items():
        for operand in operands:
            if operand not in edges and operand not in index:
                add(Node(operand, Form.INPUT, F32))
        inputs = tuple(index[operand] for operand in operands)
        op = f"op{len(inputs)}"
        add(Node(name, Form.CALL, F32, inputs, op, kind=kinds.get(name, Kind.ELEMENTWISE)))
    return Graph(nodes, [index[name] for name in outputs])


def random_graph(generator: random.Random, calls: int) -> Graph:
    """A graph of `calls` calls of random kinds, each with one or two operands."""
    names = ["x"]
    edges: dict[str, list[str]] = {}
    kinds = {}
    for number in range(calls):
        name = f"n{number}"
        edges[name] = generator.sample(names, k=min(len(names), generator.randint(1, 2)))
        kinds[name] = generator.choice([k for k in Kind if k is not Kind.OPAQUE])
        names.append(name)
    used = {operand for operands in edges.values() for operand in operands}
    return graph_of(edges, [name for name in edges if name not in used], **kinds)


def candidate(graph: Graph, *names: str, target: Toolchain = NATIVE) -> CandidateKernel:
    return CandidateKernel(graph, SubGraph(graph.set_of(*names)), target)
