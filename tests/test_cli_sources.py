"""Sources of costs on the command line: their order, and what answers say of them."""

import json
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import collage_dsl as collage_api
from collage_dsl.cli.main import app
from collage_dsl.engine.lock import Lock
from tests.caches import with_compiled_code
from tests.commands import assert_one_message, said
from tests.declared import declare
from tests.models import small_convolution, small_product

MINE = """
from math import nan
def mine(kernel):
    return 7.0e-9 if kernel.label == "nn.conv2d+add+nn.relu" else nan
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has the rates of this machine, and the costs of the kernels that showed them."""
    path = tmp_path_factory.mktemp("store") / "costs.sqlite"
    done = said("costs", "calibrate", "--store", path, "--output-format", "json")
    assert done.code == 0, done.err
    for each in json.loads(done.out)["backends"]:
        assert each["reason"] is None
        assert 1e8 < each["multiplications"] < 1e13
        assert 1e8 < each["far"] < 1e12
        assert each["near"] > 1e8
        assert all(0 <= each[name] < 1 for name in ("launch", "cold"))
    return path


@pytest.fixture
def compiled_code(tmp_path: Path) -> None:
    with_compiled_code(tmp_path / "cache")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run: with a model, a cost table, and a package with a source `mine`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    declare(monkeypatch, tmp_path / "site", MINE, {"mine": "mine"})
    onnx.save(small_convolution(), tmp_path / "small.onnx")
    (tmp_path / "costs.yaml").write_text("tvm: {ops: {nn.softmax: 1.0e-9}}")
    return tmp_path


def plan(*options: str) -> str:
    """What `collage plan` answers for the model, by TVM alone."""
    arguments = ["plan", "small.onnx", "-t", "native", *options]
    done = CliRunner().invoke(app, arguments, standalone_mode=False)
    if done.exception:
        raise done.exception
    return done.stdout


def kernels(*options: str) -> dict[str, tuple[float, str]]:
    """The cost of each kernel of that plan, and its source."""
    answer = json.loads(plan(*options, "--output-format", "json"))
    return {each["label"]: (each["cost"], each["source"]) for each in answer["kernels"]}


def sources(*options: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(source for _, source in kernels(*options).values()))


ANALYTIC = "analytic (not calibrated)"


@pytest.mark.usefixtures("folder")
def test_sources_are_asked_in_the_order_in_which_they_are_named() -> None:
    first = kernels("--costs", "costs.yaml", "--costs", "mine", "--costs", "analytic")
    last = kernels("--costs", "analytic", "--costs", "costs.yaml")

    assert first["nn.softmax"] == (1e-9, "table costs.yaml")
    assert first["nn.conv2d+add+nn.relu"] == (7e-9, "mine")
    assert first["matmul+add"][1] == ANALYTIC
    assert {source for _, source in last.values()} == {ANALYTIC}
    assert last["matmul+add"] == first["matmul+add"]


@pytest.mark.usefixtures("folder")
def test_the_text_has_a_column_of_sources_only_where_there_are_several() -> None:
    several = plan("--costs", "costs.yaml", "--costs", "analytic").splitlines()
    one = plan("--costs", "analytic").splitlines()

    assert several[0].split() == ["target", "kernel", "result", "cost", "source"]
    assert any(line.endswith("table costs.yaml") for line in several)
    assert not any(line.startswith("costs:") for line in several)
    assert "source" not in one[0]
    assert f"costs: {ANALYTIC}" in one


@pytest.mark.usefixtures("folder")
def test_a_table_alone_says_what_it_has_no_price_for() -> None:
    with pytest.raises(collage_api.UncoveredError, match="the cost table has no price for add"):
        plan("--costs", "costs.yaml")
    with pytest.raises(collage_api.UncoveredError, match="no source of costs knows its cost"):
        plan("--costs", "costs.yaml", "--costs", "mine")


def test_what_is_measured_says_when_and_is_recorded_then(folder: Path) -> None:
    onnx.save(small_product(), "small.onnx")
    assert not (folder / "cache").exists()
    alone = json.loads(plan("--costs", "measured", "--output-format", "json"))
    usual = json.loads(plan("--output-format", "json"))
    arguments = ["plan", "small.onnx", "-t", "native", "--costs", "recorded"]
    recorded = CliRunner().invoke(app, [*arguments, "--output-format", "json"])
    again = json.loads(recorded.stdout)

    assert recorded.stderr == ""  # It does not say that it measures.
    (store,) = (folder / "cache").rglob("costs.sqlite")
    assert alone["measurements"]["measured"] > 0
    assert usual["measurements"]["measured"] == again["measurements"]["measured"] == 0
    assert [each["source"] for each in again["kernels"]] == [f"recorded {store}"] * len(
        again["kernels"]
    )
    for one, other, third in zip(alone["kernels"], usual["kernels"], again["kernels"], strict=True):
        assert one["source"] == "measured"
        assert len(one["measured_at"]) == len("2026-11-24 10:00:00")
        # A kernel of which one variant was measured later has the date of that one.
        assert one["measured_at"][:10] == other["measured_at"][:10] == third["measured_at"][:10]
        assert {**one, "measured_at": ""} == {**other, "measured_at": ""}
        assert (one["cost"], one["variant"]) == (third["cost"], third["variant"])


def test_a_calibrated_machine_is_estimated_by_its_own_rates(folder: Path, store: Path) -> None:
    options = ("--costs", "analytic", "--store", str(store))
    named = ("--costs", str(store), "--costs", "analytic", "--store", str(store))

    assert sources(*options) == ("analytic",)
    assert sources(*named) == ("analytic",)
    assert kernels(*options) != kernels("--costs", "analytic")


def test_a_calibration_is_shown(store: Path) -> None:
    done = said("costs", "show", "--store", store, "--kernels")

    assert done.code == 0
    assert "analytic 1" in done.out
    assert " ps " in done.out


@pytest.mark.usefixtures("compiled_code")
def test_a_compiled_model_and_its_lock_keep_where_costs_came_from(folder: Path) -> None:
    given = ("-t", "native", "--costs", "mine", "--costs", "analytic")
    arguments = ["freeze", "small.onnx", *given, "-o", "a.lock", "--output-format", "json"]
    done = CliRunner().invoke(app, arguments, standalone_mode=False)
    assert done.exception is None
    report = json.loads(done.stdout)
    found = {each["label"]: each["source"] for each in report["plan"]["kernels"]}

    assert found["nn.conv2d+add+nn.relu"] == "mine"
    assert {*found.values()} == {"mine", ANALYTIC}
    assert report["measurements"]["measured"] == 0
    kernels = Lock.load(folder / "a.lock").plans[0].kernels
    assert [kernel.source for kernel in kernels] == list(found.values())
    replay = ["replay", "a.lock", "small.onnx", "-t", "native", "--output-format", "json"]
    shown = json.loads(CliRunner().invoke(app, replay, standalone_mode=False).stdout)
    again = shown["plans"][0]["plan"]["kernels"]
    assert {each["label"]: each["source"] for each in again} == found
    frozen = ["compile", "small.onnx", "-t", "native", "--frozen", "a.lock", "-o", "built"]
    assert CliRunner().invoke(app, frozen, standalone_mode=False).exception is None
    kept = json.loads((folder / "built" / "plan.json").read_text("utf-8"))["kernels"]
    assert {each["label"]: each["source"] for each in kept} == found
    refused = said(*frozen, "--costs", "analytic")
    assert_one_message(refused, 2, "--frozen and --costs cannot be used together")


def test_coverage_takes_sources_that_measure_nothing(folder: Path) -> None:
    given = ("coverage", "small.onnx", "-t", "native", "--costs", "costs.yaml")
    done = CliRunner().invoke(app, [*given, "--costs", "analytic"], standalone_mode=False)
    refused = said(*given, "--costs", "measured")

    assert done.exception is None
    assert done.stdout.splitlines()[-1].endswith("with costs from costs.yaml, analytic")
    assert_one_message(refused, 2, "coverage measures nothing: give `recorded`")


def test_what_is_no_source_ends_with_one_message(folder: Path) -> None:
    misspelt = said("plan", "small.onnx", "-t", "native", "--costs", "analytical")
    absent = said("plan", "small.onnx", "-t", "native", "--costs", "none.sqlite")

    assert_one_message(misspelt, 2, "did you mean `analytic`?")
    assert_one_message(absent, 2, "cannot read the cost store none.sqlite: there is no such file")


@pytest.mark.parametrize(
    "command",
    [
        ("plan", "--costs", "recorded"),
        ("compile", "--costs", "recorded", "-o", "out"),
        ("tune", "--costs", "recorded", "--costs", "analytic"),
        ("coverage", "--costs", "recorded"),
    ],
)
def test_recorded_costs_of_a_store_that_does_not_exist_are_refused(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *options = command

    done = said(name, "alexnet", "-t", "native", *options, "--store", "none.sqlite")

    assert_one_message(done, 2, "there is no cost store none.sqlite: ", "name another with --store")
    assert not Path("none.sqlite").exists()


def test_a_usual_store_that_does_not_exist_is_said_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    done = said("plan", "alexnet", "-t", "native", "--costs", "recorded")

    assert_one_message(done, 2, f"there is no cost store {tmp_path}/collage_dsl/costs.sqlite")
