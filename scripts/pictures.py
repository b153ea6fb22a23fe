"""
Draw the pictures of rules, primitives, target settings, search strategies and the architecture in
`docs/pictures`.

A picture for `docs/language.md` shows the graph of the first test in the example of a section. It
shows the candidates of the target of that example or, if the test has costs, the plan. For
`docs/search.md`, see `search_pictures.py`; for `docs/architecture.md`, `architecture_pictures.py`.
With `--check` nothing is written; the pictures that would change are named.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from architecture_pictures import architecture_pictures
from search_pictures import search_pictures

from collage_dsl.cost.table import CostTable, TargetCosts
from collage_dsl.engine.steps import choose, propose
from collage_dsl.graph import Graph
from collage_dsl.language.loading import load_contents
from collage_dsl.language.resolve.file import Contents
from collage_dsl.language.resolve.spec_tests import SpecTest
from collage_dsl.report.picture import candidates_picture, plan_picture
from collage_dsl.source import Source

DOCS = Path(__file__).parent.parent / "docs"
PICTURES = DOCS / "pictures"

TARGETS = {"vertical": "both"}
"""The target of an example to draw, if it is not the first."""

_WITHOUT = ("rule", "parametric-rules")
"""Sections on rules that are not about one rule in particular."""


def sections() -> dict[str, str]:
    """The section of `docs/language.md` on each rule and primitive, by the name of its picture."""
    return {n: text for n, text in _sections("Rules").items() if n not in _WITHOUT}


def planned_sections() -> dict[str, str]:
    """The sections on targets whose examples have costs, by the name of the picture."""
    return {n: text for n, text in _sections("Targets").items() if "\n  costs {" in text}


def _sections(part: str) -> dict[str, str]:
    page = (DOCS / "language.md").read_text("utf-8")
    (found,) = re.findall(rf"^# {part}\n(.*?)^---$", page, flags=re.M | re.S)
    named = (section.split("\n", 1) for section in re.split(r"^## ", found, flags=re.M)[1:])
    return {
        heading.removeprefix("Primitive ").replace(" ", "-").lower(): text
        for heading, text in named
    }


def pictures() -> dict[str, str]:
    """All pictures by file name."""
    found = {name: _proposed(name, *_example(text)) for name, text in sections().items()}
    found |= {name: _planned(*_example(text)) for name, text in planned_sections().items()}
    found |= search_pictures()
    found |= architecture_pictures()
    return {f"{name}.svg": picture for name, picture in found.items()}


def _example(section: str) -> tuple[Contents, SpecTest, Graph]:
    """The first example of a section, its first test, and the graph of that test."""
    text = section.split("```collage\n")[1].split("```")[0]
    contents = load_contents(Source("example.collage", text))
    test = contents.tests[0]
    assert test.graph is not None, f"the first test has no graph: {text}"
    return contents, test, test.graph


def _proposed(name: str, contents: Contents, test: SpecTest, graph: Graph) -> str:
    spec = contents.specs[TARGETS.get(name, next(iter(contents.specs)))]
    return candidates_picture(graph, propose(graph, spec))


def _planned(contents: Contents, test: SpecTest, graph: Graph) -> str:
    specs = tuple(contents.specs.values())
    cost = CostTable({name: TargetCosts(ops=dict(ops)) for name, ops in test.costs.items()})
    return plan_picture(choose(graph, propose(graph, *specs), cost=cost, merge=specs))


def stale(expected: dict[str, str]) -> Iterator[str]:
    """The names of files that are missing, different from `expected`, or not in it."""
    there = {path.name: path.read_text("utf-8") for path in PICTURES.glob("*.svg")}
    yield from sorted(n for n in there.keys() | expected if there.get(n) != expected.get(n))


if __name__ == "__main__":
    current = pictures()
    changed = list(stale(current))
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/pictures/{name} is not what the page says now" for name in changed))
        sys.exit(bool(changed))
    PICTURES.mkdir(exist_ok=True)
    for name in changed:
        if name in current:
            (PICTURES / name).write_text(current[name], "utf-8")
        else:
            (PICTURES / name).unlink()
