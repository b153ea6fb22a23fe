"""Keep what tuning has tried on disk: each schedule, and how long the kernel took with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import ClassVar

from pydantic import ValidationError

from collage_dsl.cost.damage import Damaged, is_sqlite
from collage_dsl.cost.database import DamagedStoreError, Database, ExchangeError, Kind, StoreError
from collage_dsl.cost.store import default_store_path
from collage_dsl.cost.trials import Trial, TrialsDocument, columns_of, trial_of
from collage_dsl.graph.tuning import Place
from collage_dsl.reading import cause_of, first_fault, text_of

_SCHEMA = """
CREATE TABLE IF NOT EXISTS trial (
    function TEXT NOT NULL,
    target TEXT NOT NULL,
    tvm TEXT NOT NULL,
    trace TEXT NOT NULL,
    label TEXT NOT NULL,
    machine TEXT NOT NULL,
    seconds REAL CHECK (typeof(seconds) <> 'text' AND seconds >= 0),
    reason TEXT,
    tried_at TEXT NOT NULL,
    PRIMARY KEY (function, target, tvm, trace),
    CHECK ((seconds IS NULL) <> (reason IS NULL))
) WITHOUT ROWID;
"""
_COLUMNS = "function, target, tvm, trace, label, machine, seconds, reason, tried_at"
_AT = "function = ? AND target = ? AND tvm = ?"
_MOST_BYTES = 1 << 30
"""The longest exported file that is read, for some hundred thousand trials."""


class Records(Database):
    """
    A SQLite file of trials. Several processes may use it at once, and each trial is kept as soon as
    it is known.
    """

    kind = Kind("file of tuning records", "records", application=0x436F6C54, version=1)  # `ColT`
    tables: ClassVar[Mapping[str, str]] = {"trial": _COLUMNS}

    def add(self, trials: Iterable[Trial]) -> int:
        """
        Keep trials, all of them or none. If a schedule was tried before, the faster time is kept.
        Returns how many are new or faster.
        """
        return self._safely(lambda: self._add(list(trials)))

    def _add(self, trials: Sequence[Trial]) -> int:
        with self._transaction():
            return sum(self._put(each) for each in trials)

    def _put(self, trial: Trial) -> bool:
        values = columns_of(trial)
        known = self._run(f"SELECT seconds FROM trial WHERE {_AT} AND trace = ?", values[:4])
        seconds = values[6]
        if known and (seconds is None or _order(known[0][0]) <= _order(seconds)):
            return False
        self._run(f"INSERT OR REPLACE INTO trial ({_COLUMNS}) VALUES ({_marks(9)})", values)
        return True

    def best(self, place: Place) -> Trial | None:
        """The fastest schedule for a function; None if none was found."""
        order = "seconds IS NOT NULL ORDER BY seconds, trace LIMIT 1"
        return next(iter(self._trials(f"{_AT} AND {order}", _values(place))), None)

    def trials(self, place: Place) -> list[Trial]:
        """All schedules that were tried for a function: the fastest first, failures last."""
        return self._trials(f"{_AT} ORDER BY seconds IS NULL, seconds, trace", _values(place))

    def every(self) -> list[Trial]:
        """All trials, function by function: the fastest first, failures last."""
        order = "label, function, target, tvm, seconds IS NULL, seconds, trace"
        return self._trials(f"TRUE ORDER BY {order}", ())

    def labels(self, target: str, tvm: str) -> frozenset[str]:
        """The labels of the functions that have a schedule for a target."""
        rows = self._safely(
            lambda: self._run(
                "SELECT DISTINCT label FROM trial"
                " WHERE target = ? AND tvm = ? AND seconds IS NOT NULL",
                (target, tvm),
            )
        )
        return frozenset(str(row[0]) for row in rows)

    def _trials(self, condition: str, values: Sequence[object]) -> list[Trial]:
        statement = f"SELECT {_COLUMNS} FROM trial WHERE {condition}"
        return self._safely(lambda: [self._trial(row) for row in self._run(statement, values)])

    def _trial(self, row: Sequence[object]) -> Trial:
        found = trial_of(row)
        if found is None:
            raise self._wrong(DamagedStoreError, "a row is no trial")
        return found

    def _create(self) -> None:
        self._run(_SCHEMA)

    def _copy(self, old: Damaged, path: Path) -> None:
        trials = map(trial_of, old.rows("trial", _COLUMNS, key=4))
        with Records(path, repairs=False) as records:
            records.add(filter(None, trials))


def records_path(store: str | Path | None = None) -> Path:
    """The tuning records that belong to a cost store: `costs.tuned.sqlite` beside it."""
    path = Path(store) if store else default_store_path()
    return path.with_name(f"{path.stem}.tuned{path.suffix}")


def _marks(count: int) -> str:
    return ", ".join("?" * count)


def _values(place: Place) -> tuple[str, str, str]:
    return place.function, place.target, place.tvm


def _order(seconds: object) -> float:
    return seconds if isinstance(seconds, float) else inf


def read_trials(path: Path) -> Iterator[Trial]:
    """The trials in a file: records, or what `export_trials` has written. Raises `StoreError`."""
    if is_sqlite(path):
        with Records(path, is_given=True) as records:
            yield from records.every()
        return
    try:
        found = TrialsDocument.model_validate_json(text_of(path, _MOST_BYTES))
    except ValidationError as error:
        said = "neither a file of tuning records nor one that `collage records export` wrote"
        raise ExchangeError(f"{path} is {said}: {first_fault(error)}") from error
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot read the tuning records {path}: {cause_of(error)}") from error
    yield from (each.trial() for each in found.trials)
