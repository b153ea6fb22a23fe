"""No mistake that never matches is accepted in silence, and nothing that is right is refused."""

import re
from itertools import chain
from pathlib import Path

import pytest

from collage_dsl.graph import Toolchain
from collage_dsl.language import check, to_text
from collage_dsl.language.resolve.pattern_tables import table, table_names
from collage_dsl.rules import DFPattern, FusionSpec, Pattern, Union
from collage_dsl.source import Source
from tests.cases import sample, slow
from tests.corpus import PAGES, Mistake, findings, mistakes, shown

ROOT = Path(__file__).parents[1]

_BLOCK = re.compile(r"^```collage\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CORPUS = tuple(chain.from_iterable(map(mistakes, PAGES)))
LEAST_NAMED = 0.9

SPECS = sorted((ROOT / "specs").rglob("*.collage"))
WRONG = {"mistakes.md"}
"""Pages of wrong texts."""
IN_DOCS = [
    pytest.param(text, id=f"{page.name}-{at}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    if page.name not in WRONG
    for at, text in enumerate(_BLOCK.findall(page.read_text("utf-8")))
    if text.startswith("collage 1;")
]
TABLES = {name: tuple(table(name).patterns.values()) for name in table_names()}


def texts_of(page: Path) -> list[Mistake]:
    return [each for each in CORPUS if each.page == page.stem]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.parametrize("first", sample(3, range(3)))
def test_the_findings_are_those_recorded(page: Path, first: int) -> None:
    """Of every third text of a page, from its `first` one."""
    known = [(each.text, each.found) for each in texts_of(page)[first::3]]

    assert [(text, shown(findings(text))) for text, _ in known] == known


def test_there_are_more_than_a_hundred_mistakes() -> None:
    assert sum(mistake.kind == "never" for mistake in CORPUS) >= 114


def test_none_that_never_matches_is_accepted() -> None:
    accepted = [m.text for m in CORPUS if m.kind == "never" and m.found == "accepted"]

    assert accepted == []


@pytest.mark.parametrize("every", [3, slow(1)])
def test_most_messages_name_the_fix(every: int) -> None:
    some = [mistake for page in PAGES for mistake in texts_of(page)[::every]]
    wrong = [mistake for mistake in some if mistake.kind == "never"]
    named = [m for m in wrong if m.names_the_fix(findings(m.text))]

    assert len(named) >= LEAST_NAMED * len(wrong)


# What is right.


def errors(text: str, name: str = "right.collage") -> list[str]:
    found = check(Source(name, text), [ROOT / "specs"])
    return [str(each) for each in found if each.is_error]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.name)
def test_no_shipped_spec_is_refused(path: Path) -> None:
    assert errors(path.read_text("utf-8"), path.name) == []


@pytest.mark.parametrize("text", IN_DOCS)
def test_no_text_of_the_documentation_is_refused(text: str) -> None:
    assert errors(text) == []


@pytest.mark.parametrize("patterns", TABLES.values(), ids=TABLES)
def test_no_pattern_of_tvm_is_refused(patterns: tuple[Pattern, ...]) -> None:
    rule = Union(tuple(map(DFPattern, patterns)))

    assert errors(to_text(FusionSpec(Toolchain("tvm"), rule))) == []


def test_there_are_more_than_eighty_right_texts() -> None:
    assert len(SPECS) + len(IN_DOCS) + sum(map(len, TABLES.values())) >= 80
    assert sum(map(len, TABLES.values())) >= 40
