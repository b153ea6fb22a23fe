"""What commands show on stderr while they work."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from rich.console import Console

from collage_dsl.cli import models
from collage_dsl.cli.main import app
from collage_dsl.cli.progress import Now, progress_on_stderr
from collage_dsl.measuring.counts import Counts
from collage_dsl.search import Problem, SearchRecord, exhaustive
from tests.graphs import candidate, graph_of
from tests.models import small_convolution

CHAIN = graph_of({"a": ["x"], "b": ["a"]}, ["b"])
SINGLES = [candidate(CHAIN, name) for name in "ab"]


def now(*, terminal: bool = True) -> tuple[Now, io.StringIO]:
    written = io.StringIO()
    return Now(Console(file=written, force_terminal=terminal)), written


def test_the_line_says_what_the_search_has_done() -> None:
    shown, written = now()
    assert str(shown) == "choosing kernels"
    problem = Problem(CHAIN, SINGLES, lambda _: 1.5e-3, reporter=shown)
    shown.started(problem, "exhaustive", "asked for")
    assert str(shown) == "choosing kernels: 0 of 2 candidates priced, 0 states explored"

    exhaustive(problem)

    assert str(shown) == (
        "choosing kernels: 2 of 2 candidates priced, 1 state explored, best plan 3.00 ms"
    )
    assert written.getvalue() == ""


def test_the_line_says_what_was_measured_and_after_the_search_only_that() -> None:
    shown, _ = now()
    counts = "2 kernels found, 1 measured, 1 reused, 0 infeasible"
    shown.started(Problem(CHAIN, SINGLES, lambda _: 1.0), "milp", "asked for")
    shown.watch("measure", Counts(found=2, measured=1, reused=1))

    assert str(shown) == (
        f"measuring kernels: 0 of 2 candidates priced, 0 states explored; {counts}"
    )
    shown.watch("build", Counts(found=2, measured=1, reused=1))
    assert str(shown) == f"building plans: {counts}"


def test_where_no_line_can_change_each_step_is_told_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown, _ = now(terminal=False)
    for _ in range(2):
        shown.started(Problem(CHAIN, SINGLES, lambda _: 1.0), "milp", "asked for")
        shown.explored(1)
        shown.watch("measure", Counts(found=1))
    shown.watch("build", Counts(found=1))

    assert capsys.readouterr().err == "measuring kernels\nbuilding plans\n"


def test_where_no_line_can_change_nothing_is_added_to_the_steps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress_on_stderr() as shown:
        shown.watch("build", Counts())

    assert capsys.readouterr() == ("", "building plans\n")


class Ends(Now):
    """Keeps the record of each search."""

    def __init__(self) -> None:
        super().__init__(Console(file=io.StringIO()))
        self.records: list[SearchRecord] = []

    def ended(self, record: SearchRecord) -> None:
        self.records.append(record)


def test_plan_shows_its_searches_also_where_costs_are_of_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, costs, heard = tmp_path / "m.onnx", tmp_path / "costs.yaml", Ends()
    onnx.save(small_convolution(), model)
    costs.write_text('tvm: {ops: {"*": 1.0e-5}}\nonnxruntime: {ops: {"*": 2.0e-5}}\n')

    @contextmanager
    def progress() -> Iterator[Now]:
        yield heard

    monkeypatch.setattr(models, "progress_on_stderr", progress)
    arguments = ["plan", str(model), "-t", "native", "-t", "onnxruntime", "--costs", str(costs)]
    done = CliRunner().invoke(app, [*arguments, "--output-format", "json"], standalone_mode=False)

    mixed = max(heard.records, key=lambda record: record.candidates)
    alone = [record for record in heard.records if record is not mixed]
    found = json.loads(done.stdout)["search"]
    assert (found["states"], found["candidates"]) in [
        (record.states, record.candidates) for record in heard.records
    ]
    assert len(alone) == 2
    assert all(record.candidates < mixed.candidates for record in alone)
