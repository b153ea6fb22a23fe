"""Every link from a document of the repository to one of its files leads somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / ".github").rglob("*.md"),
    *(ROOT / "collage_dsl").rglob("*.md"),
]
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    links = _LINK.findall(document.read_text("utf-8"))

    assert [link for link in links if not (document.parent / link).exists()] == []


_ANCHOR = re.compile(r"\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)")


def headings(document: Path) -> set[str]:
    """The anchors of the headings of a document, as GitHub names them."""
    prose = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_to_a_heading_leads_to_one(document: Path) -> None:
    for file, heading in _ANCHOR.findall(document.read_text("utf-8")):
        target = document.parent / file if file else document
        assert target.suffix != ".md" or heading in headings(target)


def test_links_are_found() -> None:
    text = "[a](b.md) [c](https://d.org/e) ![f](g.svg) [h](i.md#j) [k](#l)"

    assert _LINK.findall(text) == ["b.md", "g.svg", "i.md"]
