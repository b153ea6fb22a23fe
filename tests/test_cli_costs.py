"""`collage costs`: look at a store, take costs from one to another, delete them, find damage."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import onnx
import pytest

from collage_dsl.cost import Context, CostStore, Infeasible, Measurement, Refusal, Spread
from collage_dsl.measuring.processor import cpu_name
from tests.commands import Done, assert_one_message, said
from tests.models import small_convolution, small_product

ELSEWHERE = Context("there", "Z80", "llvm", "{}", '{"TVM itself": "0.1"}', '{"runs": "rarely"}')
HERE = Context("here", cpu_name(), "onnxruntime", '{"num_cores": 2}', "{}", '{"runs": "often"}')
SPREAD = Spread(2.5e-6, 3.5e-6, 17, "percentile 20 of CPU times", 0.8)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "costs.sqlite"
    old = (datetime.now(UTC) - timedelta(days=10)).strftime("%Y-%m-%d %H:%M:%S")
    with CostStore(path) as costs:
        costs.add(
            [ELSEWHERE, HERE],
            [
                Measurement("a", "there", "nn.relu", 1e-6),
                Measurement("b", "there", "nn.conv2d", Infeasible("crashed (SIGSEGV)")),
                Measurement("a", "here", "nn.relu", 2e-6, "direct", measured_at=old),
                Measurement("c", "nobody", "nn.relu", 3e-6, spread=SPREAD),
            ],
        )
    return path


def shown(store: Path, *options: str) -> dict[str, object]:
    done = said("costs", "show", "--store", store, "--output-format", "json", *options)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert isinstance(found, dict)
    return found


def names(store: Path) -> list[tuple[str, str]]:
    with CostStore(store) as costs:
        found = costs.measurements(["there", "here", "nobody"])
        return sorted((each.kernel, each.context) for each in found)


ALL = [("a", "here"), ("a", "there"), ("b", "there"), ("c", "nobody")]


def test_what_a_store_knows_is_shown_by_what_it_depends_on(store: Path) -> None:
    done = said("costs", "show", "--store", store, "--kernels")

    assert done.code == 0
    assert done.out.startswith(f"{store}: 4 costs\n")
    assert "1 cost of older versions" in done.out
    (here,) = (line for line in done.out.splitlines() if line.startswith("onnxruntime"))
    assert "num_cores 2" in here
    assert "(here)" in here
    assert "crashed (SIGSEGV)" in done.out
    assert "nn.conv2d" in done.out
    (kernel,) = (line for line in done.out.splitlines() if "percentile 20" in line)
    assert "percentile 20 of CPU times, at 80% of the usual speed" in kernel
    assert re.search(r"3\.0+ us +2\.50* us +3\.50* us +17 ", kernel)


def test_the_json_answer_and_its_filters(store: Path) -> None:
    every = shown(store)["contexts"]
    assert isinstance(every, list)
    assert {each["context"]: each["costs"] for each in every} == {
        "there": 2,
        "here": 1,
        "nobody": 1,
    }
    assert {each["context"] for each in every if each["here"]} == {"here"}
    assert shown(store)["kernels"] is None

    some = shown(store, "--target", "ll*", "--kernels")
    assert isinstance(some["kernels"], list)
    assert [each["label"] for each in some["kernels"]] == ["nn.relu", "nn.conv2d"]
    assert shown(store, "--machine", "6502")["contexts"] == []


@pytest.mark.parametrize("command", ["import", "merge"])
def test_costs_are_taken_from_one_store_to_another(
    store: Path, command: str, tmp_path: Path
) -> None:
    file = store
    if command == "import":
        file = tmp_path / "costs.json"
        assert said("costs", "export", file, "--store", store).code == 0
    other = tmp_path / "other.sqlite"

    done = said("costs", command, file, "--store", other)

    assert done.code == 0, done.err
    assert "4 costs taken" in done.out
    assert "those of Z80 are for such machines, and not used here" in done.out
    assert names(other) == ALL
    with CostStore(store) as one, CostStore(other) as two:
        assert [k.context for k in one.known()] == [k.context for k in two.known()]
        assert two.find("a", "here") == one.find("a", "here")
        kept = two.find("c", "nobody")
        assert kept is not None
        assert kept.spread == SPREAD
    again = said("costs", command, file, "--store", other)
    assert "0 costs taken" in again.out


COST = {"kernel": "a", "context": "c", "label": "x", "measured_at": "2026-01-01 00:00:00"}


def document(cost: dict[str, object], context: str = "c", version: int = 1, **fields: str) -> str:
    contexts = [{"key": context, **fields}]
    found = {"version": version, "contexts": contexts, "costs": [cost]}
    return json.dumps(found)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is neither a cost store nor a file that `collage costs export` wrote: it is not"),
        (document({**COST, "seconds": 1}, version=2), "version: this should be 1"),
        (document({"kernel": "a"}), "costs.0.context: this field is missing"),
        (document({**COST, "seconds": 1}, "d"), "the context `c` is not among `contexts`"),
        (document({**COST, "seconds": -1}), "costs.0.seconds: this should be greater"),
        (document(COST), "costs.0: a cost has either `seconds` or a `reason`"),
        (document({**COST, "seconds": 1, "measured_at": "now"}), "costs.0.measured_at: "),
        (document({**COST, "seconds": 1, "measured_at": "2026-02-30 00:00:00"}), "no date"),
        (document({**COST, "seconds": 1}, options="[]"), "contexts.0.options: "),
    ],
)
def test_a_file_that_has_no_costs_is_refused(store: Path, text: str, reason: str) -> None:
    file = store.with_name("wrong.json")
    file.write_text(text)

    done = said("costs", "import", file, "--store", store)

    assert_one_message(done, 1, reason)
    assert names(store) == ALL


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--elsewhere"], [("a", "here")]),
        (["--target", "onnxruntime"], [pair for pair in ALL if pair[1] != "here"]),
        (["--infeasible"], [pair for pair in ALL if pair[0] != "b"]),
        (["--older-than", "5"], [pair for pair in ALL if pair[1] != "here"]),
        (["--older-than", "5", "--elsewhere"], ALL),
        (["--outdated"], []),
        (["--outdated", "--dry-run"], ALL),
    ],
)
def test_what_is_deleted(store: Path, options: list[str], left: list[tuple[str, str]]) -> None:
    done = said("costs", "prune", "--store", store, *options)

    assert done.code == 0, done.err
    assert names(store) == left
    assert f"{len(left)} kept" in done.out or "--dry-run" in options


def test_what_to_delete_has_to_be_said(store: Path) -> None:
    assert_one_message(said("costs", "prune", "--store", store), 2, "say what to delete")
    assert names(store) == ALL


def test_damage_is_found_and_repaired(store: Path) -> None:
    with CostStore(store) as costs:
        costs.add([], [Measurement(f"k{n}", "here", "nn.relu", 1.0) for n in range(2_000)])
    assert said("costs", "verify", "--store", store).out == f"{store}: 2004 costs, no damage\n"
    content = bytearray(store.read_bytes())
    content[5 * 4096 : 6 * 4096] = bytes(4096)
    store.write_bytes(content)

    found = said("costs", "verify", "--store", store)
    assert found.code in (1, 2)
    assert store.read_bytes() == content

    assert said("costs", "verify", "--repair", "--store", store).code == 0
    assert said("costs", "verify", "--store", store).code == 0
    with CostStore(store) as costs:
        assert len(costs) > 1_500


DAMAGED = ["show", "show --kernels", "prune --elsewhere", "export x.json"]


@pytest.mark.parametrize("command", DAMAGED)
def test_each_command_sets_a_damaged_store_aside(
    command: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(store.parent)
    damage(store, 4096, 8192)
    content = store.read_bytes()
    found = said("costs", "verify", "--store", store)
    assert (found.code, found.err) == (1, "")
    assert "malformed" in found.out

    done = said("costs", *command.split(), "--store", store)

    assert done.code == 0
    assert "was damaged (database disk image is malformed)" in done.err
    (aside,) = store.parent.glob("*.damaged-*")
    assert aside.read_bytes() == content


def test_a_repair_keeps_the_damaged_file(store: Path) -> None:
    damage(store, 100, 4096)
    content = store.read_bytes()

    done = said("costs", "verify", "--repair", "--store", store)

    assert done.code == 0
    (aside,) = store.parent.glob("*.damaged-*")
    assert aside.read_bytes() == content


def damage(store: Path, start: int, end: int) -> None:
    content = bytearray(store.read_bytes())
    content[start:end] = b"\xff" * (end - start)
    store.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "reason", "left"),
    [
        ("UPDATE cost SET measured_at = 'once' WHERE kernel = 'c'", "'once' is no date", 3),
        ("UPDATE context SET options = '[1]'", "the description of the context here is no", 4),
        ("UPDATE context SET timed = '{'", "the description of the context here is no", 4),
    ],
)
def test_rows_that_say_nothing_are_damage(store: Path, change: str, reason: str, left: int) -> None:
    with sqlite3.connect(store) as connection:
        connection.execute(change)
    connection.close()

    assert reason in said("costs", "verify", "--store", store).out

    assert said("costs", "show", "--store", store).code == 0
    done = said("costs", "export", store.parent / "x.json", "--store", store)
    assert done.out.startswith(f"wrote {left} costs")
    assert said("costs", "verify", "--repair", "--store", store).code == 0
    assert f"{left} costs, no damage" in said("costs", "verify", "--store", store).out


@pytest.mark.parametrize("days", [557_000, 800_000, 10**30])
def test_nothing_is_older_than_the_first_date(store: Path, days: int) -> None:
    done = said("costs", "prune", "--older-than", days, "--store", store)

    assert done.out == f"{store}: 0 costs deleted, 4 kept\n"
    assert names(store) == ALL


def test_a_reason_of_the_last_year_is_shown(store: Path) -> None:
    late = Infeasible("took longer than 1 s", Refusal.TIME)
    with CostStore(store) as costs:
        costs.add([], [Measurement("d", "here", "exp", late, measured_at="9999-12-31 00:00:00")])

    assert "9999-12-31" in said("costs", "show", "--store", store).out


@pytest.mark.parametrize("command", ["show", "verify", "prune --elsewhere", "export x.json"])
def test_a_store_that_is_not_there_is_not_made(command: str, tmp_path: Path) -> None:
    path = tmp_path / "none.sqlite"

    done = said("costs", *command.split(), "--store", path)

    assert_one_message(done, 2, f"there is no cost store {path}: ", "name another with --store")
    assert not path.exists()
    of_folder = said("costs", *command.split(), "--store", tmp_path)
    assert_one_message(of_folder, 2, f"cannot read {tmp_path}: it is a folder")


@pytest.fixture
def read_only(store: Path) -> Iterator[Path]:
    folder = store.parent
    for path, mode in ((store, 0o444), (folder, 0o555)):
        path.chmod(mode)
    yield store
    folder.chmod(0o755)


def unprivileged(*arguments: object) -> Done:
    """What a user may do who is not root."""
    drop = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.geteuid() == 0 else ()
    command = [*drop, sys.executable, "-m", "collage_dsl.cli.main", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow  # it gives up capabilities, which a container may forbid
def test_a_store_that_cannot_be_written_can_be_read(read_only: Path) -> None:
    at = ("--store", read_only)
    expected = said("costs", "show", "--kernels", *at).out
    before = read_only.read_bytes()

    assert unprivileged("costs", "show", "--kernels", *at) == Done(0, expected, "")
    assert unprivileged("costs", "verify", *at).out.endswith("no damage\n")
    for command in (("prune", "--elsewhere"), ("merge", read_only)):
        refused = unprivileged("costs", *command, *at)
        assert_one_message(
            refused, 2, f"cannot use the cost store {read_only}: it cannot be written"
        )
    assert read_only.read_bytes() == before
    assert list(read_only.parent.iterdir()) == [read_only]


def test_what_was_measured_says_what_it_depends_on(tmp_path: Path) -> None:
    model, store = tmp_path / "small.onnx", tmp_path / "costs.sqlite"
    onnx.save(small_product(), model)
    assert said("plan", model, "-t", "native", "--store", store).code == 0

    contexts = shown(store)["contexts"]
    assert isinstance(contexts, list)
    assert all(each["here"] for each in contexts)
    assert {each["target"] for each in contexts} == {"llvm"}
    assert all(json.loads(each["versions"])["TVM itself"] for each in contexts)
    runs = {json.loads(each["timed"])["runs"] for each in contexts}
    assert runs == {"often", "rarely"}, "kernels of the model; those that tell what memory gives"
    kept = said("costs", "prune", "--outdated", "--store", store)
    assert "0 costs deleted" in kept.out


@pytest.mark.parametrize(
    "option", ["--timeout nan", "--timeout inf", "--memory nan", "--memory 1e18"]
)
def test_a_limit_is_a_number(option: str, tmp_path: Path) -> None:
    model = tmp_path / "small.onnx"
    onnx.save(small_convolution(), model)

    done = said("plan", model, "-t", "native", *option.split())

    assert done.code == 2
    assert f"Invalid value for '{option.split()[0]}'" in done.err


@pytest.mark.parametrize("command", ["costs export", "freeze MODEL -t native --costs analytic -o"])
@pytest.mark.parametrize(
    ("file", "why"),
    [("none/x.json", "there is no folder "), ("/dev/full", "no space left on device")],
)
def test_a_file_that_cannot_be_written_is_named(
    command: str, file: str, why: str, store: Path
) -> None:
    model, path = store.parent / "small.onnx", store.parent / file
    onnx.save(small_convolution(), model)
    words = [model if word == "MODEL" else word for word in command.split()]

    done = said(*words, path, "--store", store)

    assert done.code == 2
    assert f"error: cannot write {path}: {why}" in done.err
