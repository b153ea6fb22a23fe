"""
The corpus of mistakes in `tests/mistakes/`: how it is read, and how its findings are written.

`PYTHONPATH=. python tests/corpus.py` writes the findings of now into it.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language import check
from collage_dsl.source import Source

FOLDER = Path(__file__).with_name("mistakes")
PAGES = sorted(FOLDER.glob("*.md"))

EDITION = "collage 1;\n"

_BLOCK = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MISTAKE = re.compile(
    r"(?P<text>.*?)\n(?P<kind>never|pointless|doubtful): (?P<why>[^\n]*)\nfix: (?P<fix>[^\n]*)"
    r"(?P<found>(?:\n[EW]\d+ [^\n]*|\naccepted)*)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Mistake:
    """
    One text of the corpus. `kind` is `never` for what can never match or never do what it says,
    `pointless` for what says less than it seems to, and `doubtful` for what may be meant.
    """

    page: str
    text: str
    kind: str
    why: str
    fix: str
    found: str

    def names_the_fix(self, findings: tuple[Diagnostic, ...]) -> bool:
        """Whether a finding says each word of the fix that is in backquotes."""
        said = " ".join(said_by(each) for each in findings)
        return all(word in said for word in re.findall(r"`([^`]*)`", self.fix))


def mistakes(page: Path) -> Iterator[Mistake]:
    for block in _BLOCK.findall(page.read_text("utf-8")):
        for text in block.strip("\n").split("\n\n"):
            parts = _MISTAKE.fullmatch(text)
            assert parts, text
            yield Mistake(
                page.stem,
                *(parts[name] for name in ("text", "kind", "why", "fix")),
                parts["found"].strip("\n"),
            )


@cache
def findings(text: str) -> tuple[Diagnostic, ...]:
    return tuple(check(Source("mistake.collage", f"{EDITION}{text}\n")))


def said_by(finding: Diagnostic) -> str:
    notes = "; ".join(note.message for note in finding.notes)
    return "; ".join(filter(None, (finding.message, notes, finding.help)))


def shown(found: tuple[Diagnostic, ...]) -> str:
    """One line for each finding: its code, what it points at, and what it says."""
    return "\n".join(map(_line, found)) or "accepted"


def _line(finding: Diagnostic) -> str:
    place = finding.span.source.text[finding.span.start : finding.span.end]
    return f"{finding.code} «{' '.join(place.split())}»: {said_by(finding)}"


def recorded(page: Path) -> str:
    """The text of `page` with the findings that its mistakes have now."""
    text = page.read_text("utf-8")
    for each in mistakes(page):
        head = f"{each.text}\n{each.kind}: {each.why}\nfix: {each.fix}\n"
        old = head + f"{each.found}\n" if each.found else head
        text = text.replace(old, f"{head}{shown(findings(each.text))}\n")
    return text


def main() -> None:
    for page in PAGES:
        page.write_text(recorded(page), "utf-8")


if __name__ == "__main__":
    main()
