"""Use the answers about a text of which a part has changed since."""

from dataclasses import dataclass

from collage_dsl.lsp.documents import Document
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Moved:
    """The `old` text, which was parsed, and the `new` one: what is equal at both ends."""

    old: Document
    new: Document
    start: int
    """How many characters at the start are equal, in whole lines."""
    end: int
    """How many characters at the end are equal, in whole lines."""

    def before(self, offset: int) -> int | None:
        """Where the place `offset` of the new text was; None if its line has changed."""
        if offset < self.start:
            return offset
        from_end = len(self.new.text) - offset
        return len(self.old.text) - from_end if from_end < self.end else None

    def after(self, span: Span) -> Span:
        """Where `span` of the old text is now."""
        return Span(self.new.source, self._after(span.start), self._after(span.end))

    def _after(self, offset: int) -> int:
        from_end = len(self.old.text) - offset
        if offset <= self.start or from_end > self.end:
            return min(offset, len(self.new.text))
        return len(self.new.text) - from_end


def moved(old: Document, new: Document) -> Moved:
    start = _equal(old.text, new.text)
    start = new.text.rfind("\n", 0, start) + 1
    end = _equal(old.text[start:][::-1], new.text[start:][::-1])
    line_end = new.text.find("\n", len(new.text) - end)
    end = 0 if line_end < 0 else len(new.text) - line_end
    return Moved(old, new, start, end)


def _equal(left: str, right: str) -> int:
    """How many characters at the start of both are equal."""
    least, most = 0, min(len(left), len(right))
    while least < most:
        middle = (least + most + 1) // 2
        if left[least:middle] == right[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
