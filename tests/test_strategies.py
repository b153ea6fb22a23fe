"""Strategies of others: a function, or what an installed package declares."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import collage_dsl as collage
from collage_dsl.cli.main import app
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.graph import CandidateKernel
from collage_dsl.search import (
    NoReporter,
    Plan,
    Problem,
    SearchRecord,
    StrategyError,
    UnknownStrategyError,
    auto,
    search,
    strategy_names,
)
from tests.graphs import candidate, graph_of

CHAIN = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])
SINGLES = [candidate(CHAIN, name) for name in "abc"]
PAIR = candidate(CHAIN, "a", "b")

MODULE = '''
"""Cover each operator call with the kernel of the fewest calls."""


def smallest(problem):
    chosen, covered = [], 0
    for each in sorted(problem.candidates, key=lambda candidate: len(candidate.nodes)):
        if not each.sub_graph.inside & covered:
            chosen.append(each)
            covered |= each.sub_graph.inside
    return problem.plan(chosen)
'''


def cost(kernel: CandidateKernel) -> Cost:
    return float(len(kernel.nodes)) if kernel.label != "op1+op1" else 1.0


def problem(price: Callable[[CandidateKernel], Cost] = cost) -> Problem:
    return Problem(CHAIN, [*SINGLES, PAIR], price)


def singles(given: Problem) -> Plan:
    return given.plan(SINGLES)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that declares the strategy `smallest`."""
    about = tmp_path / "tiny-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[collage_dsl.strategies]\nsmallest = tiny:smallest\n")
    (tmp_path / "tiny.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_function_is_a_strategy() -> None:
    plan = search(problem(), singles)

    assert plan.candidates == tuple(SINGLES)
    assert plan.record is not None
    assert (plan.record.strategy, plan.record.proven) == ("singles", False)
    assert plan.record.bound == 1.0, "only `c` has no kernel whose cost is not known"


@pytest.mark.usefixtures("installed")
def test_a_package_declares_strategies() -> None:
    assert strategy_names()[-1] == "smallest"

    plan = search(problem(), "smallest")

    assert plan.candidates == tuple(SINGLES)


@pytest.mark.usefixtures("installed")
def test_choose_takes_the_name_of_a_strategy_of_a_package() -> None:
    assert collage.choose(CHAIN, [*SINGLES, PAIR], cost=cost).cost == 2.0
    assert collage.choose(CHAIN, [*SINGLES, PAIR], cost=cost, strategy="smallest").cost == 3.0
    assert collage.choose(CHAIN, [*SINGLES, PAIR], cost=cost, strategy=singles).cost == 3.0


@pytest.mark.usefixtures("installed")
def test_an_unknown_strategy_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UnknownStrategyError) as caught:
        search(problem(), "smalest")

    assert str(caught.value) == (
        "no search strategy is named `smalest` (did you mean `smallest`?); known are `auto`, "
        "`dijkstra`, `milp`, `beam`, `exhaustive`, `smallest`"
    )


def test_an_unknown_strategy_is_refused_before_any_cost_is_asked_for() -> None:
    asked: list[CandidateKernel] = []

    def told(kernel: CandidateKernel) -> Cost:
        asked.append(kernel)
        return 1.0

    with pytest.raises(UnknownStrategyError):
        collage.choose(CHAIN, [*SINGLES, PAIR], cost=told, strategy="dijkstr")
    assert not asked


def test_ours_comes_before_one_of_a_package_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "other-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[collage_dsl.strategies]\nauto = other:absent\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert search(problem(), "auto").cost == 2.0
    assert strategy_names().count("auto") == 1


def test_a_package_is_found_that_is_installed_while_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    os.utime(tmp_path, (0, 0))
    assert "late" not in strategy_names()

    about = tmp_path / "late-1.0.dist-info"
    about.mkdir()
    (about / "entry_points.txt").write_text("[collage_dsl.strategies]\nlate = late:search\n")

    assert "late" in strategy_names()


FOREIGN = candidate(CHAIN, "b", "c")


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (SINGLES[:2], "no kernel has `c`"),
        ([PAIR, *SINGLES[1:]], "two kernels have `b`"),
        ([SINGLES[0], FOREIGN], r"the kernel op1\+op1 of native is no candidate"),
    ],
    ids=["a gap", "twice", "not proposed"],
)
def test_an_answer_that_is_no_plan_is_refused(chosen: list[CandidateKernel], said: str) -> None:
    def wrong(given: Problem) -> Plan:
        made = auto(Problem(CHAIN, SINGLES, cost))
        kernels = {each: replace(made.kernels[0], candidate=each) for each in chosen}
        return Plan(CHAIN, tuple(kernels.values()))

    with pytest.raises(StrategyError, match=f"`wrong` has answered with no plan: {said}"):
        search(problem(), wrong)


def test_an_answer_with_an_infeasible_kernel_is_refused() -> None:
    def price(kernel: CandidateKernel) -> Cost:
        return Infeasible("too large") if kernel is PAIR else 1.0

    def pairs(given: Problem) -> Plan:
        return auto(Problem(CHAIN, [PAIR, SINGLES[2]], cost))

    with pytest.raises(StrategyError, match="is infeasible: too large"):
        search(problem(price), pairs)


def test_an_answer_of_another_type_is_refused() -> None:
    with pytest.raises(StrategyError, match="it is of type list"):
        search(problem(), lambda given: list(given.candidates))  # type: ignore[arg-type, return-value]


def test_its_search_is_reported() -> None:
    class Ends(NoReporter):
        def __init__(self) -> None:
            self.records: list[SearchRecord] = []

        def ended(self, record: SearchRecord) -> None:
            self.records.append(record)

    heard = Ends()
    search(Problem(CHAIN, SINGLES, cost, reporter=heard), singles)

    assert [record.strategy for record in heard.records] == ["singles"]


def test_the_command_names_the_strategies_that_are_known() -> None:
    found = CliRunner().invoke(app, ["plan", "m.onnx", "-t", "native", "--strategy", "dijkstar"])

    assert found.exit_code == 2
    assert "no search strategy is named `dijkstar` (did you mean `dijkstra`?)" in found.output
