"""Lines, columns, paths and fingerprints of diagnostics, as CI services need them."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Place:
    """Lines and columns from 1, columns in characters; the end is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, span: Span) -> "Place":
        position = span.source.position
        return cls(*position(span.start), *position(span.end))


def relative(name: str) -> str:
    """The path of a file relative to the current folder, with `/`; unchanged if it is elsewhere."""
    path = Path(name)
    try:
        return path.absolute().relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def uri(name: str) -> str:
    """A URI reference, which is relative if the file is below the current folder."""
    path = relative(name)
    return Path(path).as_uri() if Path(path).is_absolute() else quote(os.fsencode(path))


def fingerprints(found: Iterable[Diagnostic]) -> Iterator[str]:
    """
    A key for each finding that differs from all others and does not change when lines are added
    above it: its code, file and line of text, and its number among findings with the same three.
    """
    seen: Counter[str] = Counter()
    for diagnostic in found:
        span = diagnostic.span
        line = span.source.line(span.source.position(span.start)[0]).strip()
        digest = fingerprint(diagnostic.code, relative(span.source.name), line)
        seen[digest] += 1
        yield f"{digest}:{seen[digest]}"


def fingerprint(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:32]
