"""Keep measured costs on disk, so that no kernel is measured twice on one machine."""

import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Self

from collage_dsl.cost.cost import Cost, Infeasible

_APPLICATION = 0x436F6C6C
"""The application id in the header of the SQLite file, as characters: `Coll`."""
_VERSION = 2
_COLUMNS = "kernel, context, label, seconds, reason, measured_at"
"""The columns of version 1, which wrote no application id at first."""
_SCHEMA = """
CREATE TABLE cost (
    kernel TEXT NOT NULL,
    context TEXT NOT NULL,
    label TEXT NOT NULL,
    seconds REAL CHECK (typeof(seconds) <> 'text' AND seconds >= 0),
    reason TEXT,
    measured_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
    variant TEXT NOT NULL DEFAULT '',
    error REAL,
    PRIMARY KEY (kernel, context),
    CHECK ((seconds IS NULL) <> (reason IS NULL))
) WITHOUT ROWID;
"""
_VERSION_2 = (
    "ALTER TABLE cost ADD COLUMN variant TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE cost ADD COLUMN error REAL",
)


_OTHER = "move the file away, or name another with --store"
_NO_SPACE = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


class StoreError(Exception):
    """The store cannot be used."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """
    One cost, of one kernel in one context.

    `kernel` identifies what is computed (see `fingerprint`), `context` everything else that the
    cost depends on: target, library versions, machine and method of measuring. `variant` names
    the algorithm, which has the `error` (see `Variant`).
    """

    kernel: str
    context: str
    label: str
    cost: Cost
    variant: str = ""
    error: float | None = None


class CostStore:
    """
    A SQLite file of measurements. Several processes may use it at once.

    Raises `StoreError` if the file is damaged, belongs to another program, has a newer version or
    cannot be written. The file is then left unchanged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"cannot open the cost store {path}: {error}") from error
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def get(self, kernel: str, context: str) -> Cost | None:
        """The cost of `kernel` in `context`; None if it has not been measured."""
        found = self.find(kernel, context)
        return None if found is None else found.cost

    def find(self, kernel: str, context: str) -> Measurement | None:
        """The measurement of `kernel` in `context`, if there is one."""
        rows = self._run(
            "SELECT seconds, reason, label, variant, error FROM cost"
            " WHERE kernel = ? AND context = ?",
            (kernel, context),
        )
        if not rows:
            return None
        seconds, reason, label, variant, error = rows[0]
        if reason is not None:
            return Measurement(kernel, context, str(label), Infeasible(str(reason)), str(variant))
        if not isinstance(seconds, float) or not 0 <= seconds < inf:
            raise StoreError(f"{self._cannot_use()}: it has {seconds!r} for a time; {_OTHER}")
        known = error if isinstance(error, float) else None
        return Measurement(kernel, context, str(label), seconds, str(variant), known)

    def put(self, measurement: Measurement) -> None:
        """Keep `measurement`, and replace an older one of the same kernel and context."""
        infeasible = isinstance(measurement.cost, Infeasible)
        self._run(
            "INSERT OR REPLACE INTO cost"
            " (kernel, context, label, seconds, reason, variant, error)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                measurement.kernel,
                measurement.context,
                measurement.label,
                None if infeasible else measurement.cost,
                measurement.cost.reason if isinstance(measurement.cost, Infeasible) else None,
                measurement.variant,
                measurement.error,
            ),
        )

    def __len__(self) -> int:
        return int(str(self._run("SELECT count(*) FROM cost")[0][0]))

    def _prepare(self) -> None:
        self._run("BEGIN")  # one transaction, so that all reads below see the same state
        owner = self._run("PRAGMA application_id")[0][0]
        version = int(str(self._run("PRAGMA user_version")[0][0]))
        is_empty = not self._run("SELECT 1 FROM sqlite_master")
        columns = ", ".join(str(row[1]) for row in self._run("PRAGMA table_info(cost)"))
        self._run("COMMIT")
        if owner != _APPLICATION and not (owner == 0 and (is_empty or columns == _COLUMNS)):
            raise StoreError(f"{self._cannot_use()}: it is another program's; {_OTHER}")
        if version > _VERSION:
            raise StoreError(
                f"the cost store {self.path} was written by a newer version of collage_dsl; "
                "use another with --store"
            )
        self._run("PRAGMA journal_mode = WAL")
        if version < _VERSION:
            self._create()

    def _create(self) -> None:
        """
        Make the table, or add the columns that an older version has not, unless another process
        has done so in the meantime.
        """
        self._run("BEGIN IMMEDIATE")
        columns = [row[1] for row in self._run("PRAGMA table_info(cost)")]
        if not columns:
            self._run(_SCHEMA)
        elif "variant" not in columns:
            for statement in _VERSION_2:
                self._run(statement)
        self._run(f"PRAGMA application_id = {_APPLICATION}")
        self._run(f"PRAGMA user_version = {_VERSION}")
        self._run("COMMIT")

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
        try:
            with closing(self._connection.execute(statement, values)) as cursor:
                return cursor.fetchall()
        except sqlite3.DatabaseError as error:
            advice = _OTHER
            # Python itself, which cannot decode a text, gives no code.
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NO_SPACE:
                folder = self.path.absolute().parent
                advice = f"is the disk of {folder} full? Name another file with --store"
            raise StoreError(f"{self._cannot_use()}: {error}; {advice}") from error
        except UnicodeDecodeError as error:
            raise StoreError(f"{self._cannot_use()}: {error}; {_OTHER}") from error

    def _cannot_use(self) -> str:
        return f"cannot use the cost store {self.path}"


def default_store_path() -> Path:
    """`$XDG_CACHE_HOME/collage_dsl/costs.sqlite`, or below `~/.cache` if that is not set."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "collage_dsl" / "costs.sqlite"
