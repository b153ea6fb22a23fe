"""
What `scripts/pictures.py` draws for `docs/architecture.md`: the layers, from the imports in the
sources, and the street, from the chosen kernel to machine code and to its cost.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import collage_dsl
from collage_dsl.graph import Form, Graph, Node, OpSet, TensorType, opset
from collage_dsl.report.picture import Group, Panel, picture

PACKAGE = Path(collage_dsl.__file__).parent

STREET: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("frontend.onnx", "from_onnx", ()),
    ("frontend.blocks", "read_bindings", ()),
    ("frontend.to_relax", "dataflow_of", ("frontend.onnx", "frontend.blocks")),
    ("engine.steps", "searched", ("frontend.to_relax",)),
    ("realization.kernel", "kernel_of", ("frontend.to_relax",)),
    ("realization.outline", "outline", ("realization.kernel",)),
    ("measuring.cost", "MeasuredCost", ("engine.steps",)),
    ("measuring.task", "kernel_task", ("measuring.cost", "realization.outline")),
    ("measuring.work", "prepared", ("measuring.task",)),
    ("realization.alone", "alone", ("measuring.work",)),
    ("realization.partition", "realize", ("engine.steps", "realization.outline")),
    ("realization.rewrite", "rewritten", ("realization.partition",)),
    ("realization.lower", "lowering", ("realization.rewrite", "realization.alone")),
    ("measuring.timing", "times_in_turn", ("realization.lower",)),
    ("realization.executable", "ModelExecutable", ("realization.lower",)),
)
"""The modules that a kernel passes, with a public name of each, and what it comes from."""

_TYPE = TensorType("float32", ())


def architecture_pictures() -> dict[str, str]:
    """The two pictures, by their names."""
    return {"layers": _layers(), "street": _street()}


def _street() -> str:
    graph = _graph((name, called, sources) for name, called, sources in STREET)
    groups = [
        Group(_of(graph, package), colour, f"{package}: {said}")
        for colour, (package, said) in enumerate(
            [("realization", "plan to module"), ("measuring", "kernel to cost")]
        )
    ]
    return picture(graph, [Panel(groups, ["from a model to machine code, and to a cost"])])


def _of(graph: Graph, package: str) -> OpSet:
    return opset(i for i, n in enumerate(graph.nodes) if n.name.partition(".")[0] == package)


def _layers() -> str:
    """The layers in order, with an arrow for each import that no other arrow implies."""
    imports = {layer: set(_imported(layer)) for layer in _layer_names()}
    order = sorted(imports, key=lambda layer: (len(_below(layer, imports)), layer))
    rows = []
    for layer in order:
        direct = imports[layer]
        implied = {far for near in direct for far in _below(near, imports)}
        rows.append((layer, f"{len(direct)} imported", tuple(sorted(direct - implied))))
    return picture(_graph(rows), [Panel([], ["an arrow goes to the layer that imports"])])


def _below(layer: str, imports: dict[str, set[str]]) -> set[str]:
    """The layers that a layer imports, directly or not."""
    return imports[layer].union(*(_below(other, imports) for other in imports[layer]))


def _layer_names() -> list[str]:
    paths = (
        path
        for path in PACKAGE.iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
    )
    return sorted({path.stem for path in paths} - {"__init__", "grammars", "specs"})


def _imported(layer: str) -> Iterator[str]:
    """The other layers that the modules of a layer import."""
    folder, file = PACKAGE / layer, PACKAGE / f"{layer}.py"
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [file]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                top, *rest = f"{node.module}.{node.names[0].name}".split(".")
                if top == "collage_dsl" and rest[0] != layer:
                    yield rest[0]


def _graph(rows: Iterable[tuple[str, str, tuple[str, ...]]]) -> Graph:
    nodes: list[Node] = []
    place: dict[str, int] = {}
    for name, said, sources in rows:
        place[name] = len(nodes)
        inputs = tuple(place[source] for source in sources)
        nodes.append(Node(name, Form.CALL, _TYPE, inputs, said))
    used = {source for node in nodes for source in node.inputs}
    return Graph(nodes, [index for index in range(len(nodes)) if index not in used])
