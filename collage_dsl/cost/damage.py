"""Set a damaged store of costs aside, and take what can be read of it into a new one."""

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from collage_dsl.cost.measurement import ROW, Context, context_of
from collage_dsl.scratch import scratch_folder

_MAGIC = b"SQLite format 3\0"
_APPLICATION_AT = 68
"""Where the application id is in the file, in four bytes."""

Rows = Iterable[Sequence[object]]
Make = Callable[[Path, Rows, Iterable[Context]], None]
"""Writes a store of these rows and contexts."""


def is_store(path: Path, application: int) -> bool:
    """Whether the file begins as a store of ours does, whatever follows."""
    try:
        with path.open("rb") as file:
            header = file.read(_APPLICATION_AT + 4)
    except OSError:
        return False
    return header.startswith(_MAGIC) and header[_APPLICATION_AT:] == application.to_bytes(4)


def file_number(path: Path) -> int:
    """What tells the file at `path` from another that takes its place."""
    return path.stat().st_ino


def set_aside(path: Path, number: int, make: Make) -> Path | None:
    """
    Rename the store at `path`, and put one there that `make` writes of what can be read. The new
    name; None where another process has done so since the store had this `number`.
    """
    with _alone_in(path.parent), scratch_folder(path.parent) as scratch:
        if file_number(path) != number:
            return None
        new = scratch / path.name
        make(new, *_readable(path))
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


def _readable(path: Path) -> tuple[list[Sequence[object]], list[Context]]:
    """The rows that can be read, and the contexts."""
    found: dict[tuple[object, object], Sequence[object]] = {}
    contexts: dict[str, Context] = {}
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.text_factory = _text
        wanted = _columns(connection)
        # From both ends, up to what is damaged.
        for order in ("ASC", "DESC"):
            for row in _rows(connection, f"SELECT {wanted} FROM cost ORDER BY kernel {order}"):
                found[row[0], row[1]] = row
        for row in _rows(connection, "SELECT * FROM context"):
            if found_context := context_of(row):
                contexts[found_context.key] = found_context
    return list(found.values()), list(contexts.values())


def _columns(connection: sqlite3.Connection) -> str:
    """The columns of a measurement, with nothing in place of those that an older version lacks."""
    known = {row[1] for row in _rows(connection, "PRAGMA table_info(cost)")}
    return ", ".join(name if name in known else f"NULL AS {name}" for name in ROW.split(", "))


def _rows(connection: sqlite3.Connection, statement: str) -> Iterator[Sequence[object]]:
    """The rows before the first that cannot be read, without those with a text that is none."""
    try:
        for row in connection.execute(statement):
            if None not in row[:2] and not any(_is_broken(field) for field in row):
                yield row
    except (sqlite3.DatabaseError, UnicodeDecodeError):  # the latter in a message of SQLite
        return


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _is_broken(field: object) -> bool:
    """Whether a text had bytes that are no UTF-8, for which `_text` has surrogates."""
    return isinstance(field, str) and any("\udc80" <= each <= "\udcff" for each in field)
