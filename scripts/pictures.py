"""
Draw what each rule and primitive proposes, what settings of targets lead to, how strategies
search, and how the package is built: `docs/pictures`.

What is drawn of `docs/language.md` is the graph of the first test in the example of the section,
with the candidates of the target of that example or, where the test has costs, with the plan. See
`search_pictures.py` for `docs/search.md` and `architecture_pictures.py` for
`docs/architecture.md`. With `--check` nothing is written, and what has changed is named.
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
from collage_dsl.language.loading import Contents, load_contents
from collage_dsl.language.spec_tests import SpecTest
from collage_dsl.report.picture import candidates_picture, plan_picture
from collage_dsl.source import Source

DOCS = Path(__file__).parent.parent / "docs"
PICTURES = DOCS / "pictures"

TARGETS = {"vertical": "both"}
"""Which target of an example is drawn where it is not the first."""

_WITHOUT = ("rule", "parametric-rules")
"""Sections among those on rules that are about none in particular."""


def sections() -> dict[str, str]:
    """What `docs/language.md` says of each rule and primitive, by the names of the pictures."""
    return {n: text for n, text in _sections("Rules").items() if n not in _WITHOUT}


def planned_sections() -> dict[str, str]:
    """The sections on targets whose examples have costs, likewise."""
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
    """All pictures by the names of their files."""
    found = {name: _proposed(name, *_example(text)) for name, text in sections().items()}
    found |= {name: _planned(*_example(text)) for name, text in planned_sections().items()}
    found |= search_pictures()
    found |= architecture_pictures()
    return {f"{name}.svg": picture for name, picture in found.items()}


def _example(section: str) -> tuple[Contents, SpecTest, Graph]:
    """The first example of a section, and the first test in it with its graph."""
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
    """Names of the files that are not there, not as expected, or too many."""
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
