"""What a search reports, against what its plan records and what was asked of the costs."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

import collage_dsl as collage
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import searched
from collage_dsl.graph import CandidateKernel
from collage_dsl.rules import FusionSpec, OpCallByKind
from collage_dsl.search import (
    NoPlanError,
    NoReporter,
    Plan,
    Problem,
    SearchRecord,
    auto,
    beam,
    dijkstra,
    exhaustive,
    milp,
)
from tests.cases import cases
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of
from tests.search_problems import again, random_problem
from tests.test_search_strategies import side_by_side

SEEDS = st.integers(0, 2**32)
CHAIN = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])


@dataclass(slots=True)
class Heard(NoReporter):
    """Everything that a search says."""

    starts: list[tuple[str, str, int]] = field(default_factory=list)
    states: int = 0
    costs: list[tuple[CandidateKernel, Cost]] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    records: list[SearchRecord] = field(default_factory=list)

    def started(self, problem: Problem, strategy: str, because: str) -> None:
        self.starts.append((strategy, because, len(problem.candidates)))

    def explored(self, states: int) -> None:
        self.states += states

    def priced(self, candidate: CandidateKernel, cost: Cost) -> None:
        self.costs.append((candidate, cost))

    def improved(self, cost: float) -> None:
        self.best.append(cost)

    def ended(self, record: SearchRecord) -> None:
        self.records.append(record)


@pytest.mark.parametrize("strategy", [dijkstra, milp, beam, exhaustive], ids=lambda s: s.__name__)
@cases(40)
@given(seed=SEEDS, bounded=st.booleans())
def test_a_reporter_hears_what_the_record_of_the_plan_says(
    strategy: Callable[[Problem], Plan], seed: int, bounded: bool
) -> None:
    heard = Heard()
    problem = again(random_problem(seed, bounded=bounded), reporter=heard)
    try:
        plan = strategy(problem)
    except NoPlanError:
        assert (len(heard.starts), heard.records) == (1, [])
        return
    record = plan.record
    assert record is not None

    assert heard.starts == [(strategy.__name__, "asked for", len(problem.candidates))]
    assert heard.records == [record]
    assert heard.states == record.states
    assert dict(heard.costs) == problem.priced
    assert len(heard.costs) == record.priced
    assert sum(isinstance(cost, Infeasible) for _, cost in heard.costs) == record.infeasible
    assert heard.best == sorted(set(heard.best), reverse=True)
    assert heard.best[-1] == pytest.approx(record.cost)
    assert plan == strategy(again(problem))


def test_a_strategy_that_gives_up_says_so_before_the_next_starts() -> None:
    heard = Heard()
    problem, _ = side_by_side(3)

    plan = auto(again(problem, reporter=heard), budget=2)

    assert [(strategy, because) for strategy, because, _ in heard.starts] == [
        ("dijkstra", "at most 3 kernels with several results can be open at once"),
        ("milp", "dijkstra gave up: 2 states were not enough"),
    ]
    assert heard.records == [plan.record]
    assert plan.record is not None
    assert heard.states == 1 + 2 + plan.record.states, "one of the first block, two of the next"


def test_better_plans_are_reported_as_they_are_found() -> None:
    found = [candidate(CHAIN, *names) for names in ("a", "b", "c", "ab", "bc", "abc")]
    heard = Heard()

    exhaustive(Problem(CHAIN, found, lambda k: 4.0 - len(k.nodes) / 2, reporter=heard))

    assert heard.best == [2.5]
    heard = Heard()
    exhaustive(Problem(CHAIN, found, lambda k: float(len(k.nodes) ** 2), reporter=heard))
    assert heard.best == [9.0, 5.0, 3.0]


def test_choose_reports_its_search() -> None:
    heard = Heard()
    spec = FusionSpec(NATIVE, OpCallByKind())

    plan = collage.choose(
        CHAIN, collage.propose(CHAIN, spec), cost=lambda _: 1.0, strategy="milp", reporter=heard
    )

    assert heard.records == [plan.record]


def test_each_plan_that_commands_compare_is_reported() -> None:
    heard = Heard()
    specs = [FusionSpec(target, OpCallByKind()) for target in (NATIVE, LIBRARY)]
    cost = {"native": 2.0, "library": 1.0}

    plans = searched(
        CHAIN, specs, lambda each: cost[each.target], lookup(), "dijkstra", reporter=heard
    ).plans

    assert [candidates for _, _, candidates in heard.starts] == [6, 3, 3]
    assert heard.records == [plan.record for plan in plans.values() if isinstance(plan, Plan)]
