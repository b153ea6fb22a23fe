"""`collage show`: the graph that patterns see, beside the ONNX nodes that it came from."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.graphs import SUFFIX, load_graph, onnx_model
from collage_dsl.cli.models import answer, write_picture
from collage_dsl.cli.shapes import parse_shapes
from collage_dsl.graph import Form, Graph, OpSet, members
from collage_dsl.language.findings import did_you_mean
from collage_dsl.language.graph_printer import format_graph
from collage_dsl.report.documents import GraphDocument, GraphNodeDocument, OriginDocument
from collage_dsl.report.picture import Panel, picture

_Origins = Mapping[str, Sequence[OriginDocument]]


def show_graph(
    model: Path,
    at: str | None,
    around: int,
    output_format: str,
    shapes: Sequence[str],
    drawn: Path | None,
) -> None:
    """Show the whole graph of `model`, or what is up to `around` steps from the node `at`."""
    graph, origins = _read(model, shapes)
    everything = (1 << len(graph)) - 1
    shown = everything if at is None else _around(graph, _found(graph, origins, at), around)
    if drawn is not None:
        write_picture(drawn, picture(graph, [Panel(())]))
    nodes = [_document(graph, index, origins) for index in members(shown)]
    document = GraphDocument(model=str(model), nodes=nodes)
    notes = {node.name: ", ".join(map(_text, node.onnx)) for node in nodes if node.onnx}
    only = None if shown == everything else shown
    answer(document, format_graph(graph, only, notes), output_format)


def _read(model: Path, shapes: Sequence[str]) -> tuple[Graph, _Origins]:
    if model.suffix == SUFFIX:
        return load_graph(model, shapes), {}
    from collage_dsl.frontend.onnx import from_onnx
    from collage_dsl.frontend.onnx_model import load
    from collage_dsl.frontend.onnx_origins import origins

    loaded = load(onnx_model(model))
    graph = from_onnx(loaded, shapes=parse_shapes(shapes))
    found = origins(loaded, graph).items()
    return graph, {
        name: [OriginDocument(op=each.op, name=each.name) for each in nodes]
        for name, nodes in found
    }


def _found(graph: Graph, origins: _Origins, at: str) -> OpSet:
    """The node named `at`, or those that came from the ONNX node of that name."""
    named = graph.set_of(at) if any(node.name == at for node in graph.nodes) else 0
    for name, nodes in origins.items():
        if any(each.name == at for each in nodes):
            named |= graph.set_of(name)
    if not named:
        hint = did_you_mean(at, [node.name for node in graph.nodes])
        raise CommandError(f"the model has no node `{at}`" + (f"; {hint}" if hint else ""))
    return named


def _around(graph: Graph, nodes: OpSet, steps: int) -> OpSet:
    """The nodes up to so many steps away, with the constants and literals that they take."""
    for _ in range(steps):
        for index in members(nodes):
            nodes |= graph.inputs_of[index] | graph.users_of[index]
    for index in members(nodes):
        nodes |= graph.inputs_of[index] & (graph.constants | graph.literals)
    return nodes


def _document(graph: Graph, index: int, origins: _Origins) -> GraphNodeDocument:
    node = graph.nodes[index]
    return GraphNodeDocument(
        name=node.name,
        form=node.form.value,
        operator=node.op,
        kind=str(node.kind) if node.form is Form.CALL else "",
        type=str(node.type),
        inputs=[graph.nodes[i].name for i in node.inputs],
        attributes=dict(node.attrs),
        onnx=list(origins.get(node.name, ())),
    )


def _text(origin: OriginDocument) -> str:
    return f"{origin.op} {origin.name}".rstrip()
