"""The file of schedules that tuning has tried."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from collage_dsl.cost import Infeasible, StoreError, StoreWarning
from collage_dsl.cost.records import Records, read_trials, records_path
from collage_dsl.cost.trials import Trial, export_trials
from collage_dsl.graph.tuning import Place, Record

PLACE = Place("0123456789abcdef", '{"kind": "llvm", "mcpu": "znver3"}', "0.27.0")


def trial(trace: str, cost: float | Infeasible, place: Place = PLACE) -> Trial:
    return Trial(Record(place, trace), "nn.conv2d+astype", "a processor", cost)


TRIALS = [trial("[1]", 3e-6), trial("[2]", 2e-6), trial("[3]", Infeasible("crashed"))]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "costs.tuned.sqlite"


def test_the_fastest_schedule_of_a_function_is_found_in_another_session(path: Path) -> None:
    with Records(path) as records:
        assert records.add(TRIALS) == 3

    with Records(path) as records:
        assert records.best(PLACE) == TRIALS[1]
        assert records.trials(PLACE) == [TRIALS[1], TRIALS[0], TRIALS[2]]
        assert records.labels(PLACE.target, PLACE.tvm) == {"nn.conv2d+astype"}


@pytest.mark.parametrize(
    "other",
    [
        replace(PLACE, function="fedcba9876543210"),
        replace(PLACE, target='{"kind": "llvm", "mcpu": "znver4"}'),
        replace(PLACE, tvm="0.28.0"),
    ],
)
def test_a_schedule_for_another_place_is_not_found(path: Path, other: Place) -> None:
    with Records(path) as records:
        records.add(TRIALS)

        assert records.best(other) is None
        assert records.trials(other) == []


def test_a_function_of_which_all_schedules_failed_has_none(path: Path) -> None:
    with Records(path) as records:
        records.add(TRIALS[2:])

        assert records.best(PLACE) is None
        assert records.labels(PLACE.target, PLACE.tvm) == frozenset()


def test_of_two_times_of_a_schedule_the_faster_stays(path: Path) -> None:
    with Records(path) as records:
        records.add(TRIALS)
        slower, faster = trial("[1]", 9e-6), trial("[1]", 1e-6)

        assert records.add([slower, trial("[1]", Infeasible("timed out"))]) == 0
        assert records.add([faster]) == 1
        assert records.best(PLACE) == faster


def test_two_processes_may_use_one_file(path: Path) -> None:
    with Records(path) as one, Records(path) as other:
        one.add(TRIALS[:1])
        other.add(TRIALS[1:2])

        assert one.trials(PLACE) == other.trials(PLACE) == [TRIALS[1], TRIALS[0]]


def test_a_damaged_file_is_named_and_set_aside(path: Path) -> None:
    with Records(path) as records:
        records.add([trial(f"[{i}]", 1e-6) for i in range(2000)])
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    path.write_bytes(content)

    with Records(path) as records:
        with pytest.warns(StoreWarning, match=r"was damaged .* it is .*\.damaged-") as warned:
            best = records.best(PLACE)
        assert best is None
        records.add(TRIALS)
        assert records.best(PLACE) == TRIALS[1]

    [aside] = path.parent.glob(f"{path.name}.damaged-*")
    assert str(aside) in str(warned[0].message)
    assert aside.read_bytes() == bytes(content)


def test_a_text_that_is_no_text_is_damage(path: Path) -> None:
    with Records(path) as records:
        records.add(TRIALS)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE trial SET label = CAST(x'ff' AS TEXT)")
    connection.close()

    with Records(path) as records, pytest.warns(StoreWarning, match="was damaged"):
        assert records.every() == []


def test_what_can_be_read_of_damaged_records_is_kept(path: Path) -> None:
    every = [trial(f"[{i:05}]", 1e-6, replace(PLACE, function=f"{i:016x}")) for i in range(3000)]
    with Records(path) as records:
        records.add([*every, *TRIALS])
    content = bytearray(path.read_bytes())
    content[40 * 4096 : 41 * 4096] = b"\xff" * 4096
    path.write_bytes(content)

    with Records(path) as records, pytest.warns(StoreWarning, match="what could be read of it"):
        kept = records.every()

    assert 2000 < len(kept) < len(every)
    assert set(kept) <= {*every, *TRIALS}
    with Records(path) as records:
        assert records.add(every) == len(every) + len(TRIALS) - len(kept)


@pytest.mark.parametrize(
    "change", ["seconds = -1.0", "seconds = 9e999", "seconds = NULL", "tried_at = 'soon'"]
)
def test_a_row_that_is_no_trial_is_damage(path: Path, change: str) -> None:
    with Records(path) as records:
        records.add(TRIALS)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(f"UPDATE trial SET {change} WHERE trace = '[2]'")
    connection.close()

    with Records(path, repairs=False) as records, pytest.raises(StoreError, match="no trial"):
        records.trials(PLACE)
    with Records(path) as records, pytest.warns(StoreWarning, match="was damaged"):
        assert records.trials(PLACE) == [TRIALS[0], TRIALS[2]]


def test_damaged_records_of_others_are_left_as_they_are(path: Path) -> None:
    with Records(path) as records:
        records.add(TRIALS)
    content = path.read_bytes().replace(b"a processor", b"a processo\xff")
    path.write_bytes(content)

    with pytest.raises(StoreError, match=r"the file of tuning records .* is damaged"):
        list(read_trials(path))
    assert path.read_bytes() == content


@pytest.mark.parametrize("content", [b"no database at all" * 99, b"SQLite format 3\0" + b"x" * 99])
def test_a_file_that_is_something_else_is_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)

    with pytest.raises(StoreError, match=path.name):
        Records(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_left_as_it_is(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    before = path.read_bytes()

    with pytest.raises(StoreError, match="another program's"):
        Records(path)
    assert path.read_bytes() == before


def test_records_of_a_newer_version_are_refused(path: Path) -> None:
    with Records(path):
        pass
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")

    with pytest.raises(StoreError, match="a newer version"):
        Records(path)


def test_a_group_of_schedules_is_kept_whole_or_not_at_all(path: Path) -> None:
    with Records(path) as records:
        with pytest.raises(StoreError):
            records.add([TRIALS[0], trial("[9]", -1.0)])

        assert records.trials(PLACE) == []


def test_records_are_exported_and_merged(path: Path, tmp_path: Path) -> None:
    with Records(path) as records:
        records.add(TRIALS)
        export_trials(records.every(), tmp_path / "shipped.json")

    for source in (path, tmp_path / "shipped.json"):
        with Records(tmp_path / f"from-{source.name}") as other:
            assert other.add(read_trials(source)) == 3
            assert other.add(read_trials(source)) == 0
            assert other.every() == [TRIALS[1], TRIALS[0], TRIALS[2]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"seconds": -1.0}, "seconds"),
        ({"seconds": None}, "either `seconds` or a `reason`"),
        ({"function": "../../etc"}, "function"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, change: dict[str, object], said: str) -> None:
    file = tmp_path / "shipped.json"
    export_trials([replace(TRIALS[0], tried_at="2026-11-24 06:00:00")], file)
    document = json.loads(file.read_text())
    document["trials"][0] |= change
    file.write_text(json.dumps(document))

    with pytest.raises(StoreError, match=said):
        list(read_trials(file))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"nothing\.json"):
        list(read_trials(tmp_path / "nothing.json"))


def test_records_are_beside_the_costs(tmp_path: Path) -> None:
    assert records_path(tmp_path / "costs.sqlite") == tmp_path / "costs.tuned.sqlite"
    assert records_path().name == "costs.tuned.sqlite"


def test_a_record_is_one_text() -> None:
    record = TRIALS[0].record

    assert Record.of_text(record.text()) == record
    for wrong in ("", "[]", '["a", "b", "c"]', '["a", "b", "c", 4]', '{"a": 1}'):
        with pytest.raises(ValueError, match=r"no record|Expecting value"):
            Record.of_text(wrong)
