"""An SQLite file that several processes may use at once, and that is repaired where damaged."""

import os
import sqlite3
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self, TypeVar

from collage_dsl.cost.damage import Damaged, file_number, is_store, set_aside
from collage_dsl.reading import cause_of, other_than_file

_Result = TypeVar("_Result")

_NO_SPACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class StoreError(Exception):
    """The store cannot be used."""


class DamagedStoreError(StoreError):
    """The file of the store is not as it was written; `fault` says why in a few words."""

    fault = ""


class ExchangeError(StoreError):
    """A file to take costs or schedules from can be read, but has none."""


class StoreWarning(UserWarning):
    """A damaged store was set aside."""


@dataclass(frozen=True, slots=True)
class Kind:
    """
    What a file is: its name in messages, the argument of calls that names another one, the
    application id in the header, and the newest version.
    """

    name: str
    argument: str
    application: int
    version: int

    @property
    def given(self) -> str:
        return f"the argument `{self.argument}`"

    def begins(self, path: Path) -> bool:
        """Whether the file begins as one of this kind does, whatever follows."""
        return is_store(path, self.application)


class Database(ABC):
    """
    A damaged file is set aside, and what can be read of it is taken into a new one, with a
    `StoreWarning`; unless `repairs` is false, or nothing says that the file is of this kind. Then,
    and where the file belongs to another program, has a newer version or cannot be written, this
    raises `StoreError`, and the file is left unchanged. With `is_given`, the file is one that costs
    or schedules are only taken from: it is never changed, and a wrong one raises `ExchangeError`.
    """

    kind: ClassVar[Kind]
    tables: ClassVar[Mapping[str, str]]
    """The columns of each table, with commas between them."""

    def __init__(self, path: str | Path, *, repairs: bool = True, is_given: bool = False) -> None:
        self.path = Path(path)
        self.repairs = repairs and not is_given
        self.is_given = is_given
        self._open()
        try:
            self._safely(self._prepare)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def repair(self, fault: str) -> None:
        """Set the file aside, and go on with a new one of what can be read of it."""
        self.close()
        try:
            aside = set_aside(self.path, self._file, self._copy)
        except OSError as error:
            said = f"cannot set the {self.kind.name} aside: {cause_of(error)}; {self._other}"
            raise StoreError(said) from error
        if aside:
            text = f"the {self.kind.name} {self.path} was damaged ({fault}): it is {aside} now"
            warnings.warn(f"{text}, and what could be read of it was kept", StoreWarning, 2)
        self._open()

    @abstractmethod
    def _create(self) -> None:
        """Make the tables, or change those of an older version."""

    @abstractmethod
    def _copy(self, old: Damaged, path: Path) -> None:
        """Write a file with what can be read of a damaged one."""

    def _is_unmarked(self) -> bool:
        """Whether a file without an application id can be used: it has nothing yet."""
        return not self._run("SELECT 1 FROM sqlite_master")

    @property
    def _is_read_only(self) -> bool:
        """Whether this process may read the file, but not write it or make files beside it."""
        paths = self.path, self.path.parent
        return self.path.is_file() and not all(os.access(each, os.W_OK) for each in paths)

    def _open(self) -> None:
        try:
            if other := other_than_file(self.path):
                raise OSError(None, other)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                _address(self.path, self._is_read_only), timeout=30, isolation_level=None, uri=True
            )
            self._file = file_number(self.path)
        except (OSError, sqlite3.Error) as error:
            said = f"cannot open the {self.kind.name} {self.path}: {cause_of(error)}"
            advice = "" if self.is_given else f"; name another with {self.kind.given}"
            raise StoreError(f"{said}{advice}") from error

    def _use_copy(self) -> None:
        """Work on a copy in memory from now on, of a file that stays as it is."""
        copy = sqlite3.connect(":memory:", isolation_level=None)
        with closing(self._connection) as given:
            self._connection = copy
            try:
                given.backup(copy)
            except sqlite3.DatabaseError as error:
                self.close()
                raise self._refused_by_sqlite(error) from error

    def _prepare(self) -> None:
        self._run("BEGIN")  # one transaction, so that all reads below see the same state
        owner = self._run("PRAGMA application_id")[0][0]
        version = int(str(self._run("PRAGMA user_version")[0][0]))
        is_other = owner != self.kind.application and not (owner == 0 and self._is_unmarked())
        self._run("COMMIT")
        if is_other:
            raise self._wrong(StoreError, "it is another program's")
        if version > self.kind.version:
            said = f"the {self.kind.name} {self.path} was written by a newer version of collage_dsl"
            if self.is_given:
                raise ExchangeError(said)
            raise StoreError(f"{said}; use another with {self.kind.given}")
        if not self._is_read_only and not self.is_given:
            self._run("PRAGMA journal_mode = WAL")
        if version < self.kind.version:
            if self.is_given:
                self._use_copy()
            with self._transaction():
                self._create()
                self._run(f"PRAGMA application_id = {self.kind.application}")
                self._run(f"PRAGMA user_version = {self.kind.version}")
        if fault := self._incomplete():
            raise self._wrong(DamagedStoreError, fault)

    def _incomplete(self) -> str:
        """Which table or column is missing; empty if none is."""
        for table, columns in self.tables.items():
            found = {row[1] for row in self._run(f"PRAGMA table_info({table})")}
            if not found:
                return f"it has no table `{table}`"
            if absent := [each for each in columns.split(", ") if each not in found]:
                return f"its table `{table}` has no column `{absent[0]}`"
        return ""

    def _safely(self, work: Callable[[], _Result]) -> _Result:
        """The result of `work`, which is done again after a repair where the file is damaged."""
        try:
            return work()
        except DamagedStoreError as error:
            if not self.repairs or not self.kind.begins(self.path):
                raise
            self.repair(error.fault)
            self._prepare()
            return work()

    @contextmanager
    def _transaction(self, *, is_trial: bool = False) -> Iterator[None]:
        """
        What is written in the block is kept at its end; nothing of it if the block raises, or if
        this `is_trial`.
        """
        self._run("BEGIN IMMEDIATE")
        try:
            yield
            self._run("ROLLBACK" if is_trial else "COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # SQLite ends it by itself where a disk is full.
                self._run("ROLLBACK")
            raise

    def _run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        try:
            with closing(self._connection.execute(statement, tuple(values))) as cursor:
                return cursor.fetchall()
        except sqlite3.ProgrammingError:  # such as the use of a closed store: no damage
            raise
        except sqlite3.DatabaseError as error:
            raise self._refused_by_sqlite(error) from error
        except UnicodeDecodeError as error:
            raise self._wrong(DamagedStoreError, str(error)) from error

    def _refused_by_sqlite(self, error: sqlite3.DatabaseError) -> StoreError:
        # Python itself, which cannot decode a text, gives no code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _NO_SPACE:
            folder = self.path.absolute().parent
            advice = f"is the disk of {folder} full? Name another file with {self.kind.given}"
            return StoreError(f"{self._cannot_use()}: {error}; {advice}")
        if code == sqlite3.SQLITE_READONLY:
            said = f"it cannot be written here; name another with {self.kind.given}"
            return StoreError(f"{self._cannot_use()}: {said}")
        if code in (0, *_DAMAGE):
            return self._wrong(DamagedStoreError, str(error))
        advice = "" if self.is_given else f"; {self._other}"
        return StoreError(f"{self._cannot_use()}: {error}{advice}")

    def _wrong(self, kind: type[StoreError], fault: str) -> StoreError:
        """An error that says what is wrong with the content of the file."""
        if not self.is_given:
            error = kind(f"{self._cannot_use()}: {fault}; {self._other}")
            if isinstance(error, DamagedStoreError):
                error.fault = fault
            return error
        if not self.kind.begins(self.path):
            return ExchangeError(f"{self.path} is no {self.kind.name}: {fault}")
        keeps = f"use it once with {self.kind.given}, which keeps what can be read of it"
        return ExchangeError(f"the {self.kind.name} {self.path} is damaged: {fault}; {keeps}")

    def _cannot_use(self) -> str:
        return f"cannot use the {self.kind.name} {self.path}"

    @property
    def _other(self) -> str:
        return f"move the file away, or name another with {self.kind.given}"


def _address(path: Path, is_read_only: bool) -> str:
    """
    How SQLite opens the file at `path`. If that is read-only, so is the file that SQLite makes for
    several processes: it is told to do without, unless there is one.
    """
    address = path.absolute().as_uri()
    if not is_read_only:
        return address
    return f"{address}?mode=ro" + "&immutable=1" * (not Path(f"{path}-wal").exists())
