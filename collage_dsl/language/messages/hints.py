"""Hints that also say which text to write, so that an editor can write it."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import islice
from typing import Self

from collage_dsl.diagnostics import Fix, Replacement
from collage_dsl.source import Span


class Hint(str):
    """
    What to do about a finding, in words.

    `new` is the text to write in place of what the finding points at, if the words say exactly
    that; None if they leave something to the user.
    """

    new: str | None

    def __new__(cls, words: str, new: str | None = None) -> Self:
        hint = super().__new__(cls, words)
        hint.new = new
        return hint


def write(new: str, remark: str = "") -> Hint:
    """The hint to write `new` in place of what the finding points at."""
    return Hint(f"write `{new}`{remark}", new)


def fix_of(hint: str, place: Span) -> Fix | None:
    """The change that `hint` says exactly, at `place`; None if it leaves something to the user."""
    new = hint.new if isinstance(hint, Hint) else None
    if new is None or new == place.text:
        return None
    return Fix(_title(new, place), (Replacement(place, new),))


def _title(new: str, place: Span) -> str:
    """Like "write `nn.relu`"."""
    verb, text = "write", new
    if not new:
        verb, text = "remove", place.text
    elif place.start == place.end:
        verb = "insert"
    line = " ".join(text.split())
    return f"{verb} `{line if len(line) <= _LONGEST_TITLE else line[:_LONGEST_TITLE] + '…'}`"


_LONGEST_TITLE = 80


def did_you_mean(written: str, known: Iterable[str]) -> Hint:
    """
    A hint with the known word most similar to `written`; empty if none is similar. Most similar
    is the only word whose last part is `written`: `blocks.dense` for `dense`.
    """
    return meant_word(closest(written, known))


def closest(written: str, known: Iterable[str]) -> str:
    """The known word most similar to `written`; empty if none is similar."""
    return _closest(written[:_LONGEST_NAME], tuple(islice(known, _MOST_NAMES)))


def not_imported(name: str, known: Iterable[str]) -> Hint:
    """A hint that no import has the prefix of `name`; empty if one has, or if there is none."""
    prefix = name.rpartition(".")[0]
    if not prefix or any(each.startswith(f"{prefix}.") for each in known):
        return Hint("")
    return Hint(f"nothing is imported as `{prefix}`")


def meant_word(word: str) -> Hint:
    """The hint that `word` was meant; empty if `word` is."""
    if not word:
        return Hint("")
    # A name that needs quotes is not written as it is shown.
    return Hint(f"did you mean `{word}`?", word if word.replace(".", "_").isidentifier() else None)


_LONGEST_NAME = 80
_MOST_NAMES = 1000
_SHORTEST_NAME = 2


@lru_cache(maxsize=256)
def _closest(written: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # imported here because most files need no hint

    last = [name for name in known if name.rpartition(".")[2] == written]
    if len(last) == 1:
        return last[0]
    by_lower = {name.lower(): name for name in known}
    close = get_close_matches(written.lower(), by_lower, n=1, cutoff=0.7)
    if close:
        return by_lower[close[0]]
    alike = [name for lower, name in by_lower.items() if _one_mistake(written.lower(), lower)]
    return alike[0] if len(alike) == 1 else ""


def _one_mistake(written: str, known: str) -> bool:
    """
    Whether two neighbours are exchanged, or one letter after the first is another letter. In a
    short word, that is much of it for a measure of similarity.
    """
    if len(written) != len(known) or len(written) < _SHORTEST_NAME:
        return False
    wrong = [at for at, pair in enumerate(zip(written, known, strict=True)) if len(set(pair)) > 1]
    match wrong:
        case [at]:
            return at > 0 and len(written) > _SHORTEST_NAME and written[at].isalpha()
        case [one, two]:
            return two == one + 1 and written[one : two + 1] == known[two] + known[one]
        case _:
            return False
