"""Keywords with a mistake in their letters, which are read as names at first."""

import re
from dataclasses import dataclass

from collage_dsl.language.messages.hints import Hint, did_you_mean
from collage_dsl.language.syntax.mistakes import Advice, Place

_WORD = r"(?P<word>[A-Za-z_]+)"


@dataclass(frozen=True, slots=True)
class _Keywords:
    """In a block `inside`, one of `words` may stand at the end of `before` and before `after`."""

    inside: str
    before: re.Pattern[str]
    after: re.Pattern[str]
    words: tuple[str, ...]


_ANY_VALUE = re.compile(r"[A-Za-z_(]")
_ONE_WORD = re.compile(rf"^{_WORD}\s+\Z")

_PLACES = (
    _Keywords("pattern", _ONE_WORD, _ANY_VALUE, ("where", "taps", "anchor", "yield")),
    _Keywords("graph", _ONE_WORD, _ANY_VALUE, ("return",)),
    _Keywords(
        "pattern",
        re.compile(rf"[=(,|\]]\s*{_WORD}\s*\Z"),
        re.compile(r"\[\s*\d+\s*\.\."),
        ("repeat", "each", "path"),
    ),
    _Keywords(
        "pattern",
        re.compile(rf"\b(?:where|and|or|not)\s+{_WORD}\s+\Z"),
        re.compile(r"[A-Za-z_]\w*\s*\("),
        ("not",),
    ),
    _Keywords("", re.compile(rf"^pattern\b.*:\s*{_WORD}\s+\Z", re.DOTALL), _ANY_VALUE, ("not",)),
)


def misspelt(place: Place) -> Advice | None:
    """The keyword that the word before `place` was meant to be; None if it is like none."""
    for each in _PLACES:
        if each.inside != (place.inside[-1] if place.inside else ""):
            continue
        found = each.before.search(place.before)
        if (
            found is None
            or found["word"].lower() in each.words
            or not each.after.match(place.after)
        ):
            continue
        if hint := did_you_mean(found["word"], each.words):
            back = len(place.before) - found.start("word")
            space = place.before[found.end("word") :]
            return Advice(Hint(hint, f"{hint.new}{space}"), back)
    return None
