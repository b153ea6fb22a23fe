"""What is known about a text holds for the lines that have not changed since."""

from pathlib import Path

import pytest

from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.moved import Moved, moved
from collage_dsl.source import Span

OLD = "one\ntwo\nthree\nfour\n"


def change(new: str) -> Moved:
    return moved(Document(Path("/a"), OLD), Document(Path("/a"), new))


@pytest.mark.parametrize(
    "new",
    ["one\ntwo\nx\nthree\nfour\n", "one\ntwoo\nthree\nfour\n", "one\nthree\nfour\n", OLD + "x", ""],
)
def test_a_place_is_found_again_or_its_line_has_changed(new: str) -> None:
    found = change(new)
    for offset in range(len(new)):
        old = found.before(offset)
        if old is not None:
            assert OLD[old] == new[offset]
            assert found.after(Span(found.old.source, old, old)).start == offset


def test_lines_around_a_change_are_known() -> None:
    new = "one\ntwo, too\nthree\nfour\n"
    found = change(new)

    assert found.before(new.index("one")) == 0
    assert found.before(new.index("two")) is None
    assert found.before(new.index("three")) == OLD.index("three")
