"""`collage show`: the graph that patterns see, beside the ONNX nodes that it came from."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.answer import answer, write_picture
from collage_dsl.cli.graphs import load_graph
from collage_dsl.engine.nodes import nodes_at
from collage_dsl.graph import Form, Graph, OpSet, members
from collage_dsl.language.write.graph_printer import format_graph
from collage_dsl.report.documents import GraphDocument, GraphNodeDocument, OriginDocument
from collage_dsl.report.picture import Panel, picture


def show_graph(
    model: Path,
    at: str | None,
    around: int,
    output_format: str,
    shapes: Sequence[str],
    drawn: Path | None,
) -> None:
    """Show the whole graph of `model`, or what is up to `around` steps from the node `at`."""
    graph = load_graph(model, shapes)
    everything = (1 << len(graph)) - 1
    shown = everything if at is None else _around(graph, nodes_at(graph, at), around)
    if drawn is not None:
        write_picture(drawn, picture(graph, [Panel(())]))
    nodes = [_document(graph, index) for index in members(shown)]
    document = GraphDocument(model=str(model), nodes=nodes)
    notes = {node.name: ", ".join(map(str, node.onnx)) for node in nodes if node.onnx}
    only = None if shown == everything else shown
    answer(document, format_graph(graph, only, notes), output_format)


def _around(graph: Graph, nodes: OpSet, steps: int) -> OpSet:
    """The nodes up to so many steps away, with the constants and literals that they take."""
    for _ in range(steps):
        for index in members(nodes):
            nodes |= graph.inputs_of[index] | graph.users_of[index]
    for index in members(nodes):
        nodes |= graph.inputs_of[index] & (graph.constants | graph.literals)
    return nodes


def _document(graph: Graph, index: int) -> GraphNodeDocument:
    node = graph.nodes[index]
    return GraphNodeDocument(
        name=node.name,
        form=node.form.value,
        operator=node.op,
        kind=str(node.kind) if node.form is Form.CALL else "",
        type=str(node.type),
        inputs=[graph.nodes[i].name for i in node.inputs],
        attributes=dict(node.attrs),
        onnx=OriginDocument.all(graph.origins(1 << index)),
    )
