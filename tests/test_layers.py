"""Who imports whom: the table of layers, drawn from the sources themselves."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import collage_dsl

PACKAGE = Path(collage_dsl.__file__).parent

MAY_IMPORT: dict[str, set[str]] = {
    "source": set(),
    "printable": set(),
    "diagnostics": {"source", "printable"},
    "resources": set(),
    "memory": set(),
    "offline": set(),
    "scratch": set(),
    "caches": set(),
    "reading": set(),
    "yaml_texts": set(),
    "registration": set(),
    "argument_types": set(),
    "declared": set(),
    "graph": set(),
    "rules": {"graph", "source"},
    "language": {
        *{"rules", "graph", "diagnostics", "source", "printable", "resources", "memory", "scratch"},
        *{"argument_types", "caches", "declared", "reading", "yaml_texts"},
    },
    "witness": {"language", "rules", "graph"},
    "builder": {"argument_types", "engine", "language", "rules", "graph"},
    "cost": {"caches", "declared", "graph", "reading", "scratch", "yaml_texts"},
    "search": {"declared", "graph", "cost", "memory"},
    "onnx_nodes": set(),
    "crashes": {"onnx_nodes"},
    "exact_products": {"offline", "onnx_nodes"},
    "frontend": {
        *{"argument_types", "crashes", "exact_products", "graph", "offline", "onnx_nodes"},
        *{"reading"},
    },
    "backends": {
        *{"caches", "crashes", "declared", "exact_products", "graph", "offline", "onnx_nodes"},
        *{"scratch"},
    },
    "targets": {
        *{"graph", "rules", "language", "backends", "frontend", "resources", "diagnostics"},
    },
    "realization": {
        *{
            "argument_types",
            "graph",
            "backends",
            "crashes",
            "exact_products",
            "frontend",
            "offline",
        },
        *{"reading", "scratch"},
    },
    # What is measured is what `realization` makes.
    "measuring": {"graph", "cost", "backends", "frontend", "realization"},
    "report": {"graph", "rules", "search", "cost", "source", "printable"},
    "engine": {
        *{"graph", "rules", "language", "search", "cost", "frontend", "backends", "realization"},
        *{"measuring", "report", "targets", "diagnostics", "memory", "reading", "resources"},
        *{"argument_types", "scratch"},
    },
    "lsp": {"language", "rules", "graph", "diagnostics", "source", "printable", "resources"},
    # `collage run` loads and times what `realization` built, with no engine in between.
    "cli": {
        *{"engine", "report", "language", "diagnostics", "source", "resources", "rules", "graph"},
        *{"cost", "search", "frontend", "realization", "measuring", "targets", "lsp", "scratch"},
        *{"caches", "printable", "reading", "witness"},
    },
}
# The stages of the language. A module imports only those of its own stage and of stages before it;
# what is directly in the package comes last.
STAGES = ("messages", "syntax", "inference", "reasoning", "graphs", "resolve", "write", "")
# The parts of `reasoning`, in the same way.
PARTS = ("values", "patterns", "operators", "claims", "conclusions", "findings")
MAY_USE = {
    "lark": {"language"},
    "pathspec": {"cli"},
    "tvm": {"frontend", "backends", "targets", "realization", "measuring"},
    "tvm_ffi": {"frontend", "backends", "targets", "realization", "measuring"},
    "onnx": {
        *{"crashes", "frontend", "backends", "language", "realization", "exact_products"},
        *{"onnx_nodes"},
    },
    "onnxruntime": {"offline"},
    "scipy": {"search"},
    "pygls": {"lsp"},
    "lsprotocol": {"lsp"},
}


def modules() -> Iterator[tuple[str, Path]]:
    """Each module below a layer, with the layer's name."""
    for path in sorted(PACKAGE.rglob("*.py")):
        layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if layer != "__init__":
            yield layer, path


def imports(path: Path) -> Iterator[str]:
    """The absolute names of everything that a module imports, wherever it does."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    ("layer", "path"), list(modules()), ids=lambda v: v if isinstance(v, str) else v.stem
)
def test_a_layer_imports_only_what_it_may(layer: str, path: Path) -> None:
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "collage_dsl" and rest[0] != layer:
            assert rest[0] in MAY_IMPORT[layer], f"{path} imports {name}"
        assert layer in MAY_USE.get(top, {layer}), f"{path} imports {top}"


def stage(parts: Sequence[str]) -> str:
    return parts[0] if parts and parts[0] in STAGES else ""


@pytest.mark.parametrize(
    "path",
    sorted((PACKAGE / "language" / "reasoning").glob("*/*.py")),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_a_part_of_the_reasoning_imports_only_those_before_it(path: Path) -> None:
    for name in imports(path):
        top, *rest = name.split(".")
        if [top, *rest[:2]] == ["collage_dsl", "language", "reasoning"]:
            part = rest[2]
            assert PARTS.index(part) <= PARTS.index(path.parent.name), f"{path} imports {name}"


def test_all_of_the_reasoning_is_in_a_part() -> None:
    folder = PACKAGE / "language" / "reasoning"

    assert [path.name for path in folder.glob("*.py")] == ["__init__.py"]
    assert {path.parent.name for path in folder.glob("*/*.py")} == {*PARTS}


@pytest.mark.parametrize(
    "path", sorted((PACKAGE / "language").rglob("*.py")), ids=lambda path: path.stem
)
def test_a_stage_of_the_language_imports_only_those_before_it(path: Path) -> None:
    own = stage(path.relative_to(PACKAGE / "language").parts[:-1])
    assert own or path.parent == PACKAGE / "language", f"{path.parent} is in no stage"
    for name in imports(path):
        top, *rest = name.split(".")
        if [top, *rest[:1]] == ["collage_dsl", "language"]:
            assert STAGES.index(stage(rest[1:])) <= STAGES.index(own), f"{path} imports {name}"


def test_every_layer_is_in_the_table() -> None:
    assert {layer for layer, _ in modules()} == set(MAY_IMPORT)


def test_no_layer_can_reach_itself() -> None:
    def below(layer: str, seen: tuple[str, ...] = ()) -> None:
        assert layer not in seen, f"{layer} can reach itself"
        for other in MAY_IMPORT[layer]:
            below(other, (*seen, layer))

    for layer in MAY_IMPORT:
        below(layer)


@pytest.mark.parametrize(
    ("layer", "path"), list(modules()), ids=lambda v: v if isinstance(v, str) else v.stem
)
def test_a_module_keeps_its_private_names_to_itself(layer: str, path: Path) -> None:
    for name in imports(path):
        if name.startswith("collage_dsl."):
            assert not name.rpartition(".")[2].startswith("_"), f"{path} imports {name}"
