"""
Read the pages that explain the codes. Each has an example with the code and one without.

`collage explain CODE` shows a page. `scripts/codes.py` makes the table in the documentation.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.language.messages.codes import CODES

_FOLDER = Path(__file__).parent
_EXAMPLE = re.compile(r"^## (Wrong|Right)\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """A text in a notation, `collage` or `graph`."""

    notation: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code, its title, and the text of its page below the title, in Markdown."""

    code: str
    title: str
    text: str

    @property
    def page(self) -> str:
        return f"# {self.code}: {self.title}\n\n{self.text}"

    @property
    def wrong(self) -> Example:
        return self._example("Wrong")

    @property
    def right(self) -> Example:
        return self._example("Right")

    def _example(self, heading: str) -> Example:
        found = {name: Example(notation, text) for name, notation, text in _read(self.text)}
        return found[heading]


def explanation(code: str) -> Explanation:
    """The explanation of `code`, one of CODES; only the title if it has no page."""
    path = _FOLDER / f"{code}.md"
    text = path.read_text("utf-8") if path.is_file() else ""
    return Explanation(code, CODES[code], text)


def _read(text: str) -> list[tuple[str, str, str]]:
    return _EXAMPLE.findall(text)
