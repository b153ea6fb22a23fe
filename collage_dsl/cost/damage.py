"""Set a damaged database aside, and take what can be read of it into a new one."""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from collage_dsl.reading import real_path
from collage_dsl.scratch import scratch_folder

_MAGIC = b"SQLite format 3\0"
_APPLICATION_AT = 68
"""Where the application id is in the file, in four bytes."""

Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged database, of which something may be read."""

    connection: sqlite3.Connection

    def rows(self, table: str, columns: str, key: int) -> list[Row]:
        """
        The rows of a table that can be read. The first `key` columns, by which the table is
        ordered, tell rows apart. Nothing is in place of the columns that an older version lacks.
        """
        known = {row[1] for row in self._read(f"PRAGMA table_info({table})")}
        names = columns.split(", ")
        wanted = ", ".join(name if name in known else f"NULL AS {name}" for name in names)
        found: dict[Row, Row] = {}
        # From both ends, up to what is damaged.
        for order in ("ASC", "DESC"):
            statement = f"SELECT {wanted} FROM {table} ORDER BY {names[0]} {order}"
            found |= {row[:key]: row for row in self._read(statement) if None not in row[:key]}
        return list(found.values())

    def _read(self, statement: str) -> Iterator[Row]:
        """The rows before the first that cannot be read, without those with a text that is none."""
        try:
            for row in self.connection.execute(statement):
                if not any(_is_broken(field) for field in row):
                    yield row
        except (sqlite3.DatabaseError, UnicodeDecodeError):  # the latter in a message of SQLite
            return


Make = Callable[[Damaged, Path], None]
"""Writes a file of what can be read of a damaged one."""


def is_sqlite(path: Path) -> bool:
    """Whether the file begins as a database of SQLite does, whatever follows."""
    return _header(path).startswith(_MAGIC)


def is_store(path: Path, application: int) -> bool:
    """Whether the file begins as a database of this application does, whatever follows."""
    header = _header(path)
    return header.startswith(_MAGIC) and header[_APPLICATION_AT:] == application.to_bytes(4)


def _header(path: Path) -> bytes:
    """The first bytes of the file; none where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_APPLICATION_AT + 4)
    except OSError:
        return b""


def file_number(path: Path) -> int:
    """What tells the file at `path` from another that takes its place."""
    return path.stat().st_ino


def set_aside(path: Path, number: int, make: Make) -> Path | None:
    """
    Rename the file at `path`, and put one there that `make` writes of what can be read. The new
    name; None where another process has done so since the file had this `number`. A link remains a
    link.
    """
    path = real_path(path)
    with _alone_in(path.parent), scratch_folder(path.parent) as scratch:
        if file_number(path) != number:
            return None
        new = scratch / path.name
        with _opened(path) as old:
            make(old, new)
        aside = _unused(path)
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            log.rename(aside.with_name(f"{aside.name}-wal"))
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        path.rename(aside)
        new.rename(path)
        return aside


def _unused(path: Path) -> Path:
    """The new name, which no other file has."""
    now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    first = f"{path.name}.damaged-{now}"
    names = chain([first], (f"{first}-{number}" for number in count(2)))
    return next(found for name in names if not (found := path.with_name(name)).exists())


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """One process at a time."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


@contextmanager
def _opened(path: Path) -> Iterator[Damaged]:
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = _text
        yield Damaged(connection)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _is_broken(field: object) -> bool:
    """Whether a text had bytes that are no UTF-8, for which `_text` has surrogates."""
    return isinstance(field, str) and any("\udc80" <= each <= "\udcff" for each in field)
