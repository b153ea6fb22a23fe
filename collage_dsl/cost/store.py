"""Keep measured costs on disk, so that no kernel is measured twice on one machine."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import ClassVar

from collage_dsl.caches import cache_folder
from collage_dsl.cost.cost import Cost, Refusal
from collage_dsl.cost.damage import Damaged
from collage_dsl.cost.database import DamagedStoreError, Database, Kind
from collage_dsl.cost.expiry import expiry_of
from collage_dsl.cost.measurement import (
    CONTEXT,
    ROW,
    Context,
    Known,
    Measurement,
    columns_of,
    context_of,
    fault_of,
    measurement_of,
    refusal_of,
)

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
    low REAL,
    high REAL,
    count INTEGER,
    method TEXT,
    speed REAL,
    kind TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (kernel, context),
    CHECK ((seconds IS NULL) <> (reason IS NULL))
) WITHOUT ROWID;
"""
_VERSION_2 = (
    "ALTER TABLE cost ADD COLUMN variant TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE cost ADD COLUMN error REAL",
)
_VERSION_3 = """
CREATE TABLE IF NOT EXISTS context (
    context TEXT PRIMARY KEY,
    machine TEXT NOT NULL,
    target TEXT NOT NULL,
    options TEXT NOT NULL,
    versions TEXT NOT NULL,
    timed TEXT NOT NULL
) WITHOUT ROWID;
"""
_VERSION_4 = (
    *(
        f"ALTER TABLE cost ADD COLUMN {column}"
        for column in ("low REAL", "high REAL", "count INTEGER", "method TEXT", "speed REAL")
    ),
    "ALTER TABLE cost ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
    f"UPDATE cost SET kind = '{Refusal.TIME}' WHERE reason LIKE 'took longer than %'",
    f"UPDATE cost SET kind = '{Refusal.CRASH}' WHERE reason LIKE 'crashed (%'",
    f"UPDATE cost SET kind = '{Refusal.CRASH}' WHERE reason LIKE 'ended with exit code %'",
    f"UPDATE cost SET kind = '{Refusal.WRONG}' WHERE reason LIKE 'its results differ %'",
    f"UPDATE cost SET kind = '{Refusal.UNSUPPORTED}' WHERE reason IS NOT NULL AND kind = ''",
)
"""How exactly each cost is known, and the kind of each reason, which was said in words only."""
_PUT = (
    f"INSERT OR REPLACE INTO cost ({ROW}) VALUES ({'?, ' * ROW.count(',')}"
    "coalesce(?, CURRENT_TIMESTAMP))"
)
_DESCRIBE = "INSERT OR IGNORE INTO context VALUES (?, ?, ?, ?, ?, ?)"


class CostStore(Database):
    """A SQLite file of measurements. Several processes may use it at once."""

    kind = Kind("cost store", "store", application=0x436F6C6C, version=4)  # in characters, `Coll`
    tables: ClassVar[Mapping[str, str]] = {"cost": ROW, "context": CONTEXT}

    def get(self, kernel: str, context: str) -> Cost | None:
        """The cost of `kernel` in `context`; None if it has not been measured."""
        found = self.find(kernel, context)
        return None if found is None else found.cost

    def find(self, kernel: str, context: str) -> Measurement | None:
        """The measurement of `kernel` in `context`, if there is one."""
        return self._safely(lambda: self._find(kernel, context))

    def _find(self, kernel: str, context: str) -> Measurement | None:
        rows = self._run(
            f"SELECT {ROW} FROM cost WHERE kernel = ? AND context = ?", (kernel, context)
        )
        return self._measurement(rows[0]) if rows else None

    def put(self, measurement: Measurement) -> None:
        """Keep `measurement`, and replace an older one of the same kernel and context."""
        self._safely(lambda: self._run(_PUT, columns_of(measurement)))

    def describe(self, context: Context) -> None:
        """Keep what `context` means."""
        self._safely(lambda: self._run(_DESCRIBE, astuple(context)))

    def known(self) -> list[Known]:
        """What the store has, by context: the last measured first."""
        return self._safely(self._known)

    def _known(self) -> list[Known]:
        rows = self._run(
            "SELECT cost.context, machine, target, options, versions, timed,"
            " count(*), count(reason), min(measured_at), max(measured_at)"
            " FROM cost LEFT JOIN context USING (context)"
            " GROUP BY cost.context ORDER BY max(measured_at) DESC, cost.context"
        )
        kinds, retried = self._refused()
        return [
            Known(
                context_of(row[:6]) or Context(str(row[0])),
                int(str(row[6])),
                int(str(row[7])),
                str(row[8]),
                str(row[9]),
                kinds.get(str(row[0]), {}),
                retried.get(str(row[0]), ""),
            )
            for row in rows
        ]

    def _refused(self) -> tuple[dict[str, dict[Refusal, int]], dict[str, str]]:
        """Of each context, how many reasons of each kind there are, and when one is tried again."""
        kinds: dict[str, dict[Refusal, int]] = {}
        retried: dict[str, str] = {}
        rows = self._run(
            "SELECT context, kind, count(*), min(measured_at) FROM cost"
            " WHERE reason IS NOT NULL GROUP BY context, kind ORDER BY context, kind"
        )
        for row in rows:
            context, name, count, first = map(str, row)
            kind = refusal_of(name)
            counts = kinds.setdefault(context, {})
            counts[kind] = counts.get(kind, 0) + int(count)
            if kind.may_pass and (when := expiry_of(first)):
                retried[context] = min(when, retried.get(context, when))
        return kinds, retried

    def measurements(self, contexts: Collection[str]) -> list[Measurement]:
        """Every measurement in some contexts, by context, then by kernel."""
        return self._safely(lambda: self._measurements(json.dumps(sorted(contexts))))

    def _measurements(self, contexts: str) -> list[Measurement]:
        rows = self._run(
            f"SELECT {ROW} FROM cost WHERE context IN (SELECT value FROM json_each(?))"
            " ORDER BY context, kernel",
            (contexts,),
        )
        return [self._measurement(row) for row in rows]

    def _measurement(self, row: Sequence[object]) -> Measurement:
        found = measurement_of(row)
        if found is None:
            raise self._wrong(DamagedStoreError, fault_of(row))
        return found

    def add(self, contexts: Iterable[Context], measurements: Iterable[Measurement]) -> int:
        """
        Keep measurements from elsewhere, all of them or none; one that the store has from the same
        time or a later one stays. The number of those that are new or newer.
        """
        taken = tuple(contexts), tuple(measurements)
        return self._safely(lambda: self._add(*taken))

    def _add(self, contexts: Sequence[Context], measurements: Sequence[Measurement]) -> int:
        added = 0
        with self._transaction():
            for context in contexts:
                self._run(_DESCRIBE, astuple(context))
            for each in measurements:
                known = self._find(each.kernel, each.context)
                if known is None or known.measured_at < each.measured_at:
                    self._run(_PUT, columns_of(each))
                    added += 1
        return added

    def remove(
        self,
        contexts: Collection[str],
        *,
        before: str = "",
        only_infeasible: bool = False,
        is_trial: bool = False,
    ) -> int:
        """
        Forget what was measured in some contexts, or of that only what was measured `before` a time
        or has no cost. The number of measurements that are gone, or would be if this is no trial.
        """
        return self._safely(
            lambda: self._remove(
                contexts, before, only_infeasible=only_infeasible, is_trial=is_trial
            )
        )

    def _remove(
        self, contexts: Collection[str], before: str, *, only_infeasible: bool, is_trial: bool
    ) -> int:
        condition = " AND measured_at < ?" if before else ""
        condition += " AND reason IS NOT NULL" if only_infeasible else ""
        removed = 0
        with self._transaction(is_trial=is_trial):
            for context in contexts:
                values = (context, before) if before else (context,)
                self._run(f"DELETE FROM cost WHERE context = ?{condition}", values)
                removed += int(str(self._run("SELECT changes()")[0][0]))
            self._run("DELETE FROM context WHERE context NOT IN (SELECT context FROM cost)")
        return removed

    def faults(self) -> list[str]:
        """
        What is wrong with the file: what SQLite finds, and rows that are no measurements or no
        contexts.
        """
        found = [str(row[0]) for row in self._run("PRAGMA integrity_check")]
        if found != ["ok"]:
            return found
        rows = self._run(f"SELECT {ROW} FROM cost")
        faults = [f"{why}, of {row[2]} ({row[0]})" for row in rows if (why := fault_of(row))]
        contexts = self._run("SELECT * FROM context")
        wrong = (str(row[0]) for row in contexts if context_of(row) is None)
        return [*faults, *(f"the description of the context {each} is no JSON" for each in wrong)]

    def __len__(self) -> int:
        return int(str(self._safely(lambda: self._run("SELECT count(*) FROM cost"))[0][0]))

    def _is_unmarked(self) -> bool:
        columns = ", ".join(str(row[1]) for row in self._run("PRAGMA table_info(cost)"))
        return super()._is_unmarked() or columns == _COLUMNS

    def _create(self) -> None:
        """
        Make the table, or add the columns that an older version has not, unless another process
        has done so in the meantime.
        """
        columns = [row[1] for row in self._run("PRAGMA table_info(cost)")]
        if not columns:
            self._run(_SCHEMA)
        for added, statements in (("variant", _VERSION_2), ("kind", _VERSION_4)):
            for statement in statements if columns and added not in columns else ():
                self._run(statement)
        self._run(_VERSION_3)

    def _copy(self, old: Damaged, path: Path) -> None:
        measurements = map(measurement_of, old.rows("cost", ROW, key=2))
        contexts = map(context_of, old.rows("context", CONTEXT, key=1))
        with CostStore(path, repairs=False) as store:
            store.add(filter(None, contexts), filter(None, measurements))


def default_store_path() -> Path:
    """The store of this user: `costs.sqlite` in the cache. Raises OSError as `cache_folder`."""
    return cache_folder() / "costs.sqlite"
