"""Texts, and places in them."""

import gc
import pickle
from pathlib import Path
from weakref import ReferenceType, ref

from collage_dsl.lsp.files import Files
from collage_dsl.lsp.problems import problems
from collage_dsl.source import Source, Span


class Text(str):
    """A text that can be watched as it goes."""

    __slots__ = ("__weakref__",)


def alive(texts: list[ReferenceType[Text]]) -> int:
    gc.collect()
    return sum(text() is not None for text in texts)


def test_lines_and_columns_are_counted_from_one() -> None:
    source = Source("a", "one\ntwo\r\n")

    assert [source.position(offset) for offset in (0, 3, 4, 9)] == [(1, 1), (1, 4), (2, 1), (3, 1)]
    assert [source.line(number) for number in (1, 2, 3)] == ["one", "two", ""]


def test_sources_are_equal_whatever_was_asked_of_them() -> None:
    asked, fresh = Source("a", "one\ntwo"), Source("a", "one\ntwo")
    assert asked.position(5) == (2, 2)

    assert (asked, hash(asked), repr(asked)) == (fresh, hash(fresh), repr(fresh))
    assert pickle.loads(pickle.dumps(asked)).position(5) == (2, 2)


def test_a_text_that_nobody_holds_is_not_kept() -> None:
    source = Source("a", Text("one\ntwo"))
    texts = [ref(source.text)]
    assert str(Span(source, 5, 6)) == "a:2:2"
    assert alive(texts) == 1

    del source
    assert alive(texts) == 0


def test_an_editor_keeps_the_last_two_texts_of_a_file_alone(tmp_path: Path) -> None:
    files, texts = Files(), []
    for number in range(20):
        text = Text(f"collage 1;\npattern p(x) {{\n  y = exq{number}(x);\n  yield y;\n}}\n")
        texts.append(ref(text))
        document = files.open(tmp_path / "a.collage", text)
        assert [each.span.source.line(3) for each in problems(document, files)] == [
            text.split("\n")[2]
        ]

    del text, document
    assert alive(texts) == 2, "what is asked right after a change is answered from the one before"
