"""
Which tests need the engine: TVM, and the libraries that are installed with it.

A test file does where it imports one of them, itself or through modules of the tests or of the
package. In the other files, the tests that do are marked:

    @pytest.mark.engine
    def test_the_table_is_what_tvm_says() -> None: ...

`pytest --language` leaves out both, for an environment with the language alone.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

ROOTS = (Path(__file__).parent.parent, Path(__file__).parent.parent / "scripts")
"""The folders in which tests find modules of this repository."""

ENGINE = frozenset({"numpy", "onnx", "onnxruntime", "scipy", "tvm", "tvm_ffi"})


def engine_where(holds: bool) -> list[pytest.MarkDecorator]:
    """The marks of a case that needs the engine where `holds`."""
    return [pytest.mark.engine] if holds else []


def needs_engine(file: Path) -> bool:
    """Whether importing `file` imports a library of the engine."""
    reached, pending = {file}, [file]
    while pending:
        imported = imports(pending.pop())
        if any(name.partition(".")[0] in ENGINE for name in imported):
            return True
        further = {each for name in imported for each in _files(name)} - reached
        reached |= further
        pending += further
    return False


@cache
def imports(file: Path) -> tuple[str, ...]:
    """The names that a module imports when it is imported itself, not those in its functions."""
    names: list[str] = []
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return tuple(names)


@cache
def _files(name: str) -> tuple[Path, ...]:
    """The files of this repository that run when `name` is imported: a module, or what is in it."""
    parts = name.split(".")
    places = [root.joinpath(*parts[:end]) for root in ROOTS for end in range(1, len(parts) + 1)]
    files = (file for p in places for file in (p.with_suffix(".py"), p / "__init__.py"))
    return tuple(file for file in files if file.is_file())
