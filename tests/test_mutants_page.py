"""The page of surviving mutants speaks of the checker as it is."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

sys.path.insert(0, str(ROOT / "scripts"))

import mutants  # noqa: E402

PAGE = mutants.PAGE.read_text("utf-8")
EXPLAINED = mutants.explained(PAGE)


def functions(module: str) -> Iterator[tuple[str, list[str]]]:
    """The functions of a module, with their lines."""
    text = (ROOT / "collage_dsl" / "language" / f"{module}.py").read_text("utf-8")
    lines = [line.strip() for line in text.split("\n")]
    tree = ast.parse(text)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for prefix, body in [("", tree.body), *((f"{c.name}.", c.body) for c in classes)]:
        for node in body:
            if isinstance(node, ast.FunctionDef):
                yield f"{module}.{prefix}{node.name}", lines[node.lineno - 1 : node.end_lineno]


@pytest.mark.parametrize("mutant", EXPLAINED, ids=lambda mutant: mutant.function)
def test_what_a_mutant_changes_is_in_its_function(mutant: mutants.Mutant) -> None:
    lines = dict(functions(mutant.function.split(".")[0]))[mutant.function]

    assert mutant.removed != mutant.added
    assert set(mutant.removed) <= set(lines)


def test_each_mutant_is_explained_once() -> None:
    assert len(EXPLAINED) == len(set(EXPLAINED))


def test_the_page_has_the_numbers_of_what_is_mutated() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mutmut"]
    modules = [Path(path).stem for path in settings["only_mutate"]]
    table = mutants.table(PAGE)

    assert sorted(table) == sorted(modules)
    assert mutants.with_numbers(PAGE, ()) == PAGE  # in order, with the sums
    for module, (number, refused, killed, surviving) in table.items():
        assert number == refused + killed + surviving
        assert surviving >= sum(m.function.split(".")[0] == module for m in EXPLAINED)


def test_a_mutant_is_known_by_what_it_changes() -> None:
    page = "# P\n\n```diff\ncoverage.covered\n-a = b\n+a = None\n\nfacts.Facts.of\n-x\n```\n"

    assert mutants.explained(page) == [
        mutants.Mutant("coverage.covered", ("a = b",), ("a = None",)),
        mutants.Mutant("facts.Facts.of", ("x",), ()),
    ]
