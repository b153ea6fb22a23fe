"""Who imports whom: the table of layers, drawn from the sources themselves."""

import ast
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import collage_dsl

PACKAGE = Path(collage_dsl.__file__).parent

MAY_IMPORT: dict[str, set[str]] = {
    "source": set(),
    "printable": set(),
    "diagnostics": {"source", "printable"},
    "resources": set(),
    "memory": set(),
    "offline": set(),
    "saved": set(),
    "scratch": {"reading"},
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
    "in_float32": {"offline", "onnx_nodes"},
    "exact_products": {"offline", "onnx_nodes"},
    "frontend": {
        *{"argument_types", "in_float32", "crashes", "exact_products", "graph", "offline"},
        *{"onnx_nodes", "reading"},
    },
    "backends": {
        *{"in_float32", "caches", "crashes", "declared", "exact_products", "graph", "offline"},
        *{"onnx_nodes", "scratch"},
    },
    "targets": {
        *{"graph", "rules", "language", "backends", "frontend", "resources", "diagnostics"},
    },
    "realization": {
        *{"argument_types", "backends", "in_float32", "crashes", "exact_products", "frontend"},
        *{"declared", "graph", "memory", "offline", "reading", "saved", "scratch"},
    },
    # What is measured is what `realization` makes.
    "measuring": {"graph", "cost", "backends", "frontend", "realization"},
    "report": {"graph", "rules", "search", "cost", "source", "printable"},
    "engine": {
        *{"graph", "rules", "language", "search", "cost", "frontend", "backends", "realization"},
        *{"measuring", "report", "targets", "diagnostics", "memory", "reading", "resources"},
        *{"argument_types", "declared", "saved", "scratch"},
    },
    "lsp": {
        *{"language", "rules", "graph", "diagnostics", "source", "printable", "reading"},
        *{"resources"},
    },
    # `collage run` loads and times what `realization` built, with no engine in between.
    "cli": {
        *{"engine", "report", "language", "diagnostics", "source", "resources", "rules", "graph"},
        *{"cost", "search", "frontend", "realization", "measuring", "targets", "lsp", "scratch"},
        *{"caches", "printable", "reading", "saved", "witness"},
    },
    "__main__": {"cli"},
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
        *{"in_float32", "crashes", "frontend", "backends", "language", "realization"},
        *{"exact_products", "onnx_nodes"},
    },
    "onnxruntime": {"offline"},
    "scipy": {"search"},
    "pygls": {"lsp"},
    "lsprotocol": {"lsp"},
}


def layer_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


MODULES = [path for path in sorted(PACKAGE.rglob("*.py")) if layer_of(path) != "__init__"]
"""Each module below a layer."""


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The absolute names of everything that a module imports, wherever it does."""
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(found)


def may_import(layer: str, name: str) -> bool:
    top, *rest = name.split(".")
    if top == "collage_dsl":
        return rest[0] == layer or rest[0] in MAY_IMPORT[layer]
    return layer in MAY_USE.get(top, {layer})


def test_a_layer_imports_only_what_it_may() -> None:
    wrong = [
        f"{path} imports {name}"
        for path in MODULES
        for name in imports(path)
        if not may_import(layer_of(path), name)
    ]

    assert wrong == []


def stage(parts: Sequence[str]) -> str:
    return parts[0] if parts and parts[0] in STAGES else ""


def test_a_part_of_the_reasoning_imports_only_those_before_it() -> None:
    within = "collage_dsl.language.reasoning."
    wrong = [
        f"{path} imports {name}"
        for path in sorted((PACKAGE / "language" / "reasoning").glob("*/*.py"))
        for name in imports(path)
        if f"{name}.".startswith(within)
        if PARTS.index(name.split(".")[3]) > PARTS.index(path.parent.name)
    ]

    assert wrong == []


def test_all_of_the_reasoning_is_in_a_part() -> None:
    folder = PACKAGE / "language" / "reasoning"

    assert [path.name for path in folder.glob("*.py")] == ["__init__.py"]
    assert {path.parent.name for path in folder.glob("*/*.py")} == {*PARTS}


def stage_of(path: Path) -> str:
    own = stage(path.relative_to(PACKAGE / "language").parts[:-1])
    assert own or path.parent == PACKAGE / "language", f"{path.parent} is in no stage"
    return own


def test_a_stage_of_the_language_imports_only_those_before_it() -> None:
    within = "collage_dsl.language."
    wrong = [
        f"{path} imports {name}"
        for path in sorted((PACKAGE / "language").rglob("*.py"))
        for name in imports(path)
        if f"{name}.".startswith(within)
        if STAGES.index(stage(name.split(".")[2:])) > STAGES.index(stage_of(path))
    ]

    assert wrong == []


def test_every_layer_is_in_the_table() -> None:
    assert set(map(layer_of, MODULES)) == set(MAY_IMPORT)


def test_no_layer_can_reach_itself() -> None:
    def below(layer: str, seen: tuple[str, ...] = ()) -> None:
        assert layer not in seen, f"{layer} can reach itself"
        for other in MAY_IMPORT[layer]:
            below(other, (*seen, layer))

    for layer in MAY_IMPORT:
        below(layer)


def test_a_module_keeps_its_private_names_to_itself() -> None:
    wrong = [
        f"{path} imports {name}"
        for path in MODULES
        for name in imports(path)
        if name.startswith("collage_dsl.") and name.rpartition(".")[2].startswith("_")
    ]

    assert wrong == []
