"""The store of measured costs, and cost tables."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from collage_dsl.cost import (
    Context,
    CostStore,
    CostTable,
    Infeasible,
    Measurement,
    Refusal,
    Spread,
    StoreError,
    StoreWarning,
    TableError,
)
from collage_dsl.cost.damage import Damaged, file_number, set_aside
from collage_dsl.cost.database import ExchangeError
from collage_dsl.cost.exchange import read
from collage_dsl.cost.measurement import CONTEXT, ROW, refusal_of
from tests.graphs import LIBRARY, candidate, graph_of

KEY = ("kernel", "context")


def test_a_cost_is_found_again_in_another_session(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        store.put(Measurement(*KEY, "nn.relu", 1.5e-6))
        store.put(Measurement("other", "context", "nn.conv2d", Infeasible("crashed (SIGSEGV)")))

    with CostStore(tmp_path / "costs.sqlite") as store:
        assert store.get(*KEY) == 1.5e-6
        assert store.get("other", "context") == Infeasible("crashed (SIGSEGV)")
        assert store.get("kernel", "another machine") is None


def test_a_newer_measurement_takes_the_place_of_an_older(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        store.put(Measurement(*KEY, "nn.relu", Infeasible("took longer than 1 s")))
        store.put(Measurement(*KEY, "nn.relu", 2.0))

        assert store.get(*KEY) == 2.0
        assert len(store) == 1


def test_two_processes_may_use_one_store(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as one, CostStore(path) as other:
        one.put(Measurement(*KEY, "nn.relu", 1.0))

        assert other.get(*KEY) == 1.0


@pytest.mark.parametrize(
    "content",
    [b"this is not a database, but long enough to look like one" * 30, b"SQLite format 3"],
)
def test_a_damaged_store_is_refused_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "costs.sqlite"
    path.write_bytes(content)

    with pytest.raises(StoreError, match=r"cannot use the cost store .*costs\.sqlite"):
        CostStore(path)
    assert path.read_bytes() == content


def test_a_store_that_is_closed_is_not_damaged(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        store.put(Measurement(*KEY, "nn.relu", 1.0))

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        store.find(*KEY)
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_that_is_no_text_is_a_damage(tmp_path: Path) -> None:
    path, text = tmp_path / "costs.sqlite", b"nn.conv2d"
    with CostStore(path) as store:
        store.put(Measurement(*KEY, "nn.conv2d", 1.0))
    content = path.read_bytes()
    assert text in content
    path.write_bytes(content.replace(text, text[:-1] + b"\xff"))

    with CostStore(path, repairs=False) as store, pytest.raises(StoreError, match="cannot use"):
        store.find(*KEY)
    with CostStore(path) as store:
        with pytest.warns(StoreWarning, match="was damaged"):
            assert store.find(*KEY) is None
        store.put(Measurement(*KEY, "nn.conv2d", 1.0))
        assert store.get(*KEY) == 1.0


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(StoreError, match="newer version"):
        CostStore(path)


def test_a_newer_store_that_costs_are_taken_from_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    CostStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")

    with pytest.raises(ExchangeError, match=r"was written by a newer version of collage_dsl$"):
        read(path)


def test_a_store_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    said = r"cannot open the cost store .*costs\.sqlite: [^[\]]*; name another with .*`store`$"
    with pytest.raises(StoreError, match=said):
        CostStore(tmp_path / "file" / "costs.sqlite")


def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    for statement in (
        "CREATE TABLE letters (text TEXT)",
        "DROP TABLE letters",
        "CREATE TABLE cost (item TEXT, euros REAL)",
        f"PRAGMA application_id = {0x12345678}",
    ):
        with sqlite3.connect(path) as connection:
            connection.execute(statement)
        connection.close()
        content = path.read_bytes()
        if statement.startswith("DROP"):
            continue  # Of an empty database nobody can tell.

        with pytest.raises(StoreError, match="another program's; move the file away"):
            CostStore(path)
        with pytest.raises(ExchangeError, match=r"is no cost store: it is another program's$"):
            read(path)
        assert path.read_bytes() == content


def test_a_damaged_store_that_costs_are_taken_from_is_named_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        store.put(Measurement(*KEY, "nn.relu", 1.0))
    path.write_bytes(path.read_bytes()[:2000])
    before = path.read_bytes()

    with pytest.raises(
        ExchangeError, match=r"is damaged: .*; use it once with the argument `store`"
    ):
        read(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("DROP TABLE cost", "it has no table `cost`"),
        ("DROP TABLE context", "it has no table `context`"),
        ("ALTER TABLE cost DROP COLUMN speed", "its table `cost` has no column `speed`"),
    ],
)
def test_a_store_without_its_tables_is_damaged(tmp_path: Path, change: str, fault: str) -> None:
    path = tmp_path / "costs.sqlite"
    CostStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change)
    before = path.read_bytes()

    with pytest.raises(ExchangeError, match=f"is damaged: {fault}; use it once"):
        read(path)
    assert path.read_bytes() == before
    with pytest.warns(StoreWarning, match=rf"was damaged \({fault}\)"), CostStore(path) as store:
        assert store.known() == []


def test_a_store_that_costs_are_taken_from_stays_as_it_is(tmp_path: Path) -> None:
    """Not even the tables of an older version are changed."""
    path = old_store(tmp_path)
    before = path.read_bytes()

    _, measurements = read(path)

    assert [each.cost for each in measurements] == [1.0]
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_store_from_before_it_said_whose_it_is_is_taken(tmp_path: Path) -> None:
    path = old_store(tmp_path)

    with CostStore(path) as store:
        assert store.get(*KEY) == 1.0


def test_a_store_from_before_there_were_variants_gets_columns_for_them(tmp_path: Path) -> None:
    path = old_store(tmp_path)
    with CostStore(path) as store:
        store.put(Measurement("other", "context", "nn.conv2d", 2.0, "winograd4", 3e-6))

    with CostStore(path) as store:
        assert store.find(*KEY) == Measurement(*KEY, "nn.relu", 1.0)
        found = store.find("other", "context")
        assert found == Measurement("other", "context", "nn.conv2d", 2.0, "winograd4", 3e-6)


SPREAD = Spread(0.9, 1.2, 17, "percentile 20 of CPU times", 0.8)


def test_how_exactly_a_cost_is_known_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        store.put(Measurement(*KEY, "nn.relu", 1.0, spread=SPREAD))

    with CostStore(path) as store:
        found = store.find(*KEY)
        assert found is not None
        assert found.spread == SPREAD
        assert store.add([], [Measurement("other", "context", "nn.relu", 1.0, spread=SPREAD)]) == 1
        assert store.faults() == []


def test_stores_from_before_spreads_were_kept_get_columns_for_them(tmp_path: Path) -> None:
    path = old_store(tmp_path)
    with sqlite3.connect(path) as connection:  # as version 3 wrote it
        connection.execute("ALTER TABLE cost ADD COLUMN variant TEXT NOT NULL DEFAULT ''")
        connection.execute("ALTER TABLE cost ADD COLUMN error REAL")
        connection.execute(f"PRAGMA application_id = {0x436F6C6C}")
        connection.execute("PRAGMA user_version = 3")
    connection.close()

    with CostStore(path) as store:
        assert store.find(*KEY) == Measurement(*KEY, "nn.relu", 1.0)
        store.put(Measurement("other", "context", "nn.relu", 1.0, spread=SPREAD))
    with CostStore(path) as store:
        found = store.find("other", "context")
        assert found is not None
        assert found.spread == SPREAD


def test_a_damaged_store_of_an_old_version_is_read_too(tmp_path: Path) -> None:
    path = old_store(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA application_id = {0x436F6C6C}")
    connection.close()
    with closing(sqlite3.connect(path)) as connection:
        old = Damaged(connection)
        (row,) = old.rows("cost", ROW, key=2)
        assert row[:4] == (*KEY, "nn.relu", 1.0)
        assert row.count(None) == 9  # the reason, and the columns of later versions
        assert old.rows("context", CONTEXT, key=1) == []


@pytest.mark.parametrize(
    "wrong", ["low = 2, high = 1", "low = 'a'", "count = NULL", "high = 9e999"]
)
def test_a_spread_that_is_none_is_left_out(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        store.put(Measurement(*KEY, "nn.relu", 1.0, spread=SPREAD))
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE cost SET {wrong}")
    connection.close()

    with CostStore(path) as store:
        assert store.find(*KEY) == Measurement(*KEY, "nn.relu", 1.0)


def old_store(folder: Path) -> Path:
    """A store as the first version wrote it: without an application id, and without variants."""
    path = folder / "costs.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE cost (kernel TEXT NOT NULL, context TEXT NOT NULL, label TEXT NOT NULL,"
            " seconds REAL, reason TEXT, measured_at TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,"
            " PRIMARY KEY (kernel, context)) WITHOUT ROWID"
        )
        row = (*KEY, "nn.relu", 1.0)
        connection.execute(
            "INSERT INTO cost (kernel, context, label, seconds) VALUES (?, ?, ?, ?)", row
        )
        connection.execute("PRAGMA user_version = 1")
    connection.close()
    return path


REASONS = {
    "took longer than 60 s": Refusal.TIME,
    "crashed (SIGSEGV)": Refusal.CRASH,
    "ended with exit code 3": Refusal.CRASH,
    "its results differ from those of `direct` by 1e+00": Refusal.WRONG,
    "TVM has no operator for `x`": Refusal.UNSUPPORTED,
}


def without_kinds(folder: Path) -> Path:
    """A store as version 3 wrote it: the kinds of reasons are in their words only."""
    path = folder / "costs.sqlite"
    with CostStore(path) as store:
        for reason in REASONS:
            store.put(Measurement(reason, "c", "nn.relu", Infeasible(reason)))
        store.put(Measurement("a", "c", "nn.relu", 1.0))
    with closing(sqlite3.connect(path)) as connection:
        for column in ("kind", "low", "high", "count", "method", "speed"):
            connection.execute(f"ALTER TABLE cost DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 3")
        connection.commit()
    return path


def kinds(store: CostStore) -> dict[str, Refusal]:
    found = store.measurements(["c"])
    return {each.kernel: each.cost.kind for each in found if isinstance(each.cost, Infeasible)}


def test_the_reasons_of_an_older_version_get_their_kinds(tmp_path: Path) -> None:
    path = without_kinds(tmp_path)
    for _ in range(2):
        with CostStore(path) as store:
            assert kinds(store) == REASONS
            assert store.get("a", "c") == 1.0
            (known,) = store.known()
            assert known.kinds == Counter(REASONS.values())
            assert known.retried


def test_a_schema_that_is_no_text_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path):
        pass
    content = path.read_bytes()
    assert b"tablecostcost" in content
    assert b"CREATE TABLE cost" in content
    broken = content.replace(b"tablecostcost", b"table\xc1ostcost")
    path.write_bytes(broken.replace(b"CREATE TABLE cost", b"CREATE TABLE (((("))

    with pytest.warns(StoreWarning, match="was damaged"), CostStore(path) as store:
        assert len(store) == 0


def test_the_rows_of_a_damaged_store_of_an_older_version_can_be_read(tmp_path: Path) -> None:
    found: list[Sequence[object]] = []

    def make(old: Damaged, new: Path) -> None:
        new.touch()
        found.extend(old.rows("cost", ROW, key=2))

    path = without_kinds(tmp_path)
    set_aside(path, file_number(path), make)

    assert {str(row[0]) for row in found} == {*REASONS, "a"}


def test_a_reason_of_a_kind_that_a_newer_version_knows_stays() -> None:
    assert refusal_of("struck by lightning") is Refusal.UNSUPPORTED


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_time_that_is_none_is_not_kept(tmp_path: Path, seconds: float) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        with pytest.raises(StoreError, match="cannot use the cost store"):
            store.put(Measurement(*KEY, "nn.relu", seconds))
        assert store.get(*KEY) is None


@pytest.mark.parametrize("seconds", ["fast", -1.0, float("inf")])
def test_a_time_that_is_none_is_not_believed(tmp_path: Path, seconds: object) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as store:
        store.put(Measurement(*KEY, "nn.relu", 1.0))
        store.put(Measurement("other", "context", "nn.relu", 2.0))
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("UPDATE cost SET seconds = ? WHERE kernel = 'kernel'", (seconds,))
    connection.close()

    with CostStore(path) as store:
        with pytest.warns(StoreWarning, match="is no time"):
            assert store.get(*KEY) is None
        assert store.get("other", "context") == 2.0


def measurements(count: int) -> list[Measurement]:
    return [Measurement(f"kernel{i:05}", f"c{i % 2}", "nn.relu", i * 1e-6) for i in range(count)]


@pytest.mark.parametrize("page", [1, 5, 40, -1])
def test_what_can_be_read_of_a_damaged_store_is_kept(tmp_path: Path, page: int) -> None:
    path, every = tmp_path / "costs.sqlite", measurements(5_000)
    with CostStore(path) as store:
        store.add([Context("c0", "machine", "llvm"), Context("c1")], every)
    content = bytearray(path.read_bytes())
    size = 4096
    at = page * size if page > 0 else len(content) - size
    content[at : at + size] = b"\xff" * size
    path.write_bytes(content)

    with pytest.warns(StoreWarning, match=r"it is .*damaged-"):
        found_in(path, every)

    (aside,) = (each for each in tmp_path.iterdir() if ".damaged-" in each.name)
    assert aside.read_bytes() == content
    assert {each.name for each in tmp_path.iterdir()} == {path.name, aside.name}
    found = found_in(path, every)
    assert page == 1 or len(found) > 4_000
    with CostStore(path) as store:
        assert store.faults() == []
        store.put(Measurement(*KEY, "nn.relu", 1.0))
        assert len(store) == len(found) + 1


def found_in(path: Path, every: list[Measurement]) -> list[Measurement]:
    with CostStore(path) as store:
        return [each for each in every if store.find(each.kernel, each.context) == each]


def test_one_of_two_users_sets_a_damaged_store_aside(tmp_path: Path) -> None:
    path = tmp_path / "costs.sqlite"
    with CostStore(path) as one, CostStore(path) as other:
        one.put(Measurement(*KEY, "nn.relu", 1.0))
        with pytest.warns(StoreWarning):
            one.repair("by hand")
        one.put(Measurement("new", "context", "nn.relu", 2.0))
        other.repair("by hand")

        assert other.get(*KEY) == 1.0
        assert other.get("new", "context") == 2.0


def test_a_link_to_a_damaged_store_remains_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    path, real = tmp_path / "costs.sqlite", tmp_path / "kept" / "real.sqlite"
    path.symlink_to(real)
    with CostStore(path) as store:
        store.put(Measurement(*KEY, "nn.relu", 1.0))
        with pytest.warns(StoreWarning, match=r"it is .*kept/real\.sqlite\.damaged-"):
            store.repair("by hand")
        assert store.get(*KEY) == 1.0

    assert path.readlink() == real
    assert [each.name for each in tmp_path.iterdir() if each.is_file()] == ["costs.sqlite"]


def test_what_a_store_knows_by_context(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        store.add([Context("c0", "machine", "llvm"), Context("c2")], measurements(5))
        store.put(Measurement("none", "c1", "nn.relu", Infeasible("crashed")))

        known = {each.context.key: each for each in store.known()}

        assert {key: (each.costs, each.infeasible) for key, each in known.items()} == {
            "c0": (3, 0),
            "c1": (3, 1),
        }
        assert known["c0"].context == Context("c0", "machine", "llvm")
        assert known["c1"].context == Context("c1")
        assert list(store.measurements(["c0"])) == measurements(5)[::2]


def test_what_is_older_elsewhere_does_not_replace_what_is_known(tmp_path: Path) -> None:
    old, new = "2026-01-01 00:00:00", "2026-02-01 00:00:00"
    with CostStore(tmp_path / "costs.sqlite") as store:
        store.put(Measurement("a", "c", "nn.relu", 1.0, measured_at=new))
        store.put(Measurement("b", "c", "nn.relu", 1.0, measured_at=old))
        others = [
            Measurement("a", "c", "nn.relu", 2.0, measured_at=old),
            Measurement("b", "c", "nn.relu", 2.0, measured_at=new),
            Measurement("d", "c", "nn.relu", 2.0, measured_at=old),
        ]

        assert store.add([], others) == 2
        assert [store.get(name, "c") for name in "abd"] == [1.0, 2.0, 2.0]


def test_measurements_from_elsewhere_are_added_together_or_not_at_all(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        with pytest.raises(StoreError):
            store.add([], [*measurements(3), Measurement(*KEY, "nn.relu", -1.0)])
        assert len(store) == 0


def test_a_full_disk_is_named_where_measurements_are_added_together(tmp_path: Path) -> None:
    """SQLite has ended the transaction by itself then."""
    many = [Measurement(f"{number}", "context", "x" * 5000, 1.0) for number in range(100)]
    with CostStore(tmp_path / "costs.sqlite") as store:
        store._run("PRAGMA max_page_count = 20")
        with pytest.raises(StoreError, match="is full; is the disk of"):
            store.add([], many)

        store.put(Measurement(*KEY, "nn.relu", 1.0))
        assert len(store) == 1


def test_nothing_is_removed_where_not_all_can_be(tmp_path: Path) -> None:
    refuse = "CREATE TRIGGER kept BEFORE DELETE ON cost WHEN old.context = 'second'"
    with CostStore(tmp_path / "costs.sqlite") as store:
        for context in ("first", "second"):
            store.put(Measurement("kernel", context, "nn.relu", 1.0))
        store._run(f"{refuse} BEGIN SELECT raise(ABORT, 'kept'); END")
        with pytest.raises(StoreError, match="kept"):
            store.remove(["first", "second"])

        assert len(store) == 2
        assert store.remove(["first"]) == 1


def test_what_is_removed(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        for name, at in (("a", "2026-01-01 00:00:00"), ("b", "2026-02-01 00:00:00")):
            for context in "cd":
                store.put(Measurement(name, context, "nn.relu", 1.0, measured_at=at))
        store.put(Measurement("e", "c", "nn.relu", Infeasible("crashed")))

        assert store.remove(["c"], before="2026-01-15 00:00:00") == 1
        assert store.remove(["c"], only_infeasible=True) == 1
        assert len(store) == 3
        assert store.remove(["d"]) == 2
        assert store.get("b", "c") == 1.0


GRAPH = graph_of({"a": ["x"], "b": ["a", "x"]}, ["b"])


def table(tmp_path: Path, text: str) -> CostTable:
    path = tmp_path / "costs.yaml"
    path.write_text(text)
    return CostTable.load(path)


def test_the_kth_operator_of_a_kernel_costs_less_by_the_discount(tmp_path: Path) -> None:
    costs = table(tmp_path, "library: {launch: 1.0, discount: 0.5, ops: {op1: 4.0, '*': 8.0}}")

    assert costs(candidate(GRAPH, "a", target=LIBRARY)) == 5.0
    assert costs(candidate(GRAPH, "a", "b", target=LIBRARY)) == 1.0 + 4.0 + 0.5 * 8.0


def test_what_the_table_does_not_price_is_infeasible_and_says_so(tmp_path: Path) -> None:
    costs = table(tmp_path, "library: {ops: {op1: 4.0}}")

    assert costs(candidate(GRAPH, "b", target=LIBRARY)) == Infeasible(
        "the cost table has no price for op2"
    )
    assert costs(candidate(GRAPH, "a")) == Infeasible("the cost table has no target `native`")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("library: {ops: {}}", "library.ops: this must not be empty"),
        ("library: {ops: {a: yes}}", "library.ops.a: this should be a number, not true or false"),
        ("library: {discount: 2, ops: {a: 1}}", "library.discount: this should be less than or"),
        ("library: {ops: {a: cheap}}", "library.ops.a: this should be a valid number"),
        ("library: {lunch: 1, ops: {a: 1}}", "library.lunch: there is no field of this name"),
        ("library: {ops: {a: -1}}", "library.ops.a: this should be greater than or equal to 0"),
        ("library: {ops: {a: .inf}}", "library.ops.a: this should be a finite number"),
        ("library: {ops: {a: .nan}}", "library.ops.a: this should be"),
        ("library: {launch: .inf, ops: {a: 1}}", "library.launch: this should be a finite number"),
        ("library: {launch: -1, ops: {a: 1}}", "library.launch: this should be greater than"),
        ("[1, 2]", "an object with fields is needed here"),
        ("a: [", "cannot read the cost table"),
    ],
)
def test_a_wrong_table_says_where_it_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TableError) as caught:
        table(tmp_path, text)
    assert said in str(caught.value)
