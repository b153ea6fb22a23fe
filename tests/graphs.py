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
    TupleType,
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


def mixed_graph(generator: random.Random, computed: int) -> Graph:
    """
    At most so many calls, tuples and projections: calls of random kinds on values, constants and
    tuples, some of which give tuples; in one or two dataflow blocks, with one or more results.
    """
    nodes = [Node("x", Form.INPUT, F32), Node("w", Form.CONSTANT, F32)]
    pair = TupleType((F32, F32))
    tensors, tuples = [0, 1], []
    second = generator.choice([computed, computed, generator.randint(0, computed)])
    kinds = [kind for kind in Kind if kind is not Kind.OPAQUE]
    for number in range(computed):
        block = int(number >= second)
        form = generator.choice([Form.CALL, Form.CALL, Form.CALL, Form.TUPLE, Form.PROJECTION])
        recent = tensors[-4:]
        kind, type_ = Kind.INJECTIVE, F32
        if form is Form.TUPLE:
            inputs, type_ = (generator.choice(recent), generator.choice(recent)), pair
        elif form is Form.PROJECTION and tuples:
            inputs = (generator.choice(tuples),)
        else:
            form, kind = Form.CALL, generator.choice(kinds)
            operands = [*recent, *tuples[-1:]]
            inputs = tuple(generator.sample(operands, k=generator.randint(1, 2)))
            type_ = generator.choice([F32, F32, F32, pair])
        (tuples if type_ is pair else tensors).append(len(nodes))
        op = f"op{len(inputs)}" if form is Form.CALL else ""
        value = 0 if form is Form.PROJECTION else None
        nodes.append(
            Node(f"n{number}", form, type_, inputs, op, kind=kind, value=value, block=block)
        )
    used = {operand for node in nodes for operand in node.inputs}
    results = [i for i in range(2, len(nodes)) if i not in used or generator.random() < 0.1]
    return Graph(nodes, results)
