"""Notes of a diagnostic as they are shown."""

from textwrap import dedent

from collage_dsl.diagnostics import Diagnostic, Note
from collage_dsl.source import Source, Span


def shown(text: str, *notes: tuple[str, str]) -> str:
    """A diagnostic on the first character of `text`, with notes on the places of these words."""
    source = Source("t", text)
    places = [(said, text.index(word), len(word)) for said, word in notes]
    found = [Note(said, Span(source, start, start + length)) for said, start, length in places]
    return str(Diagnostic("E0320", "wrong", Span(source, 0, 1), notes=tuple(found)))


def test_notes_that_say_the_same_of_one_line_are_one() -> None:
    found = shown("a b c\nd", ("here", "b"), ("there", "a"), ("here", "c"), ("here", "d"))

    assert found == dedent("""\
        t:1:1: error[E0320]: wrong
        1 | a b c
            ^
        t:1:3: note: here
        1 | a b c
              ^ ^
        t:1:1: note: there
        1 | a b c
            ^
        t:2:1: note: here
        2 | d
            ^""")


def test_equal_notes_are_shown_once() -> None:
    assert shown("a b", ("here", "b"), ("here", "b")).count("note: here") == 1


def test_notes_far_apart_on_one_line_are_shown_alone() -> None:
    assert shown(f"a{' ' * 200}b", ("here", "a"), ("here", "b")).count("note: here") == 2


def test_carets_are_below_wide_characters_and_tabs() -> None:
    found = shown("x\ty(長い)z", ("here", "y"), ("here", "長い"), ("here", "z"))

    assert found.splitlines()[-2:] == ["1 | x    y(長い)z", "         ^ ^^^^ ^"]
