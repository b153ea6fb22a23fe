"""Kernels that cost the same within noise: they are timed in turn, and noise chooses no plan."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise
from math import fsum
from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import Cost, CostFunction, CostStore, Infeasible, Spread
from collage_dsl.engine.planning import Planner
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.sizes import Part
from collage_dsl.engine.steps import MIXED, searched
from collage_dsl.engine.ties import Ways, rivals, without_ties
from collage_dsl.graph import CandidateKernel, Graph, Measuring, SubGraph, Toolchain
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.overheads import MeasuringError
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import (
    FUNCTION,
    InTurn,
    InTurnTask,
    KernelTask,
    Overhead,
    OverheadTask,
    Timing,
)
from collage_dsl.measuring.timing import method
from collage_dsl.measuring.worker import Workers
from collage_dsl.search import NO_REPORTER, Plan
from tests.cases import slow
from tests.workers import answer_jobs

Task = KernelTask | OverheadTask | InTurnTask
Seconds = Callable[[str], float]

A = Toolchain("a", measure=Measuring(repeats=5))
B = Toolchain("b", measure=Measuring(repeats=6))
C = Toolchain("c", measure=Measuring(repeats=7))


def timing(seconds: float, width: float = 0.0, *, in_turn: bool = False) -> Timing:
    low, high = seconds - width, seconds + width
    return Timing(seconds, spread=Spread(low, high, 20, method(1, 20, in_turn=in_turn)))


@dataclass
class Answers:
    """
    In place of workers: what the kernels of each target take, alone and in turn. Alone, this is
    known within `width`, and in turn within `width_in_turn`.
    """

    alone: Seconds
    in_turn: Seconds
    fails: bool = False
    passing: bool = False
    width: float = 0.0
    width_in_turn: float = 0.0
    speed: float = 1.0
    turns: list[tuple[str, ...]] = field(default_factory=list)

    def __call__(self, task: Task, timeout: float) -> Timing | Overhead | InTurn | Failed:
        if isinstance(task, OverheadTask):
            return Overhead(launch=0.01, entry=0.0, reference=1.0)
        if isinstance(task, KernelTask):
            assert task.reference == 1.0
            found = timing(self.alone(task.toolchain.name), self.width)
            assert found.spread is not None
            return replace(found, spread=replace(found.spread, speed=self.speed))
        names = tuple(each.toolchain.name for each in task.kernels)
        self.turns.append(names)
        if self.fails:
            return Failed("crashed (SIGSEGV)", passing=self.passing)
        return InTurn(
            tuple(timing(self.in_turn(n), self.width_in_turn, in_turn=True) for n in names)
        )


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Answers:
    made = Answers(lambda name: 1.0, lambda name: 1.0)
    monkeypatch.setattr(Workers, "run", lambda _, jobs: answer_jobs(jobs, made))
    return made


@pytest.fixture
def cost(tmp_path: Path) -> Iterator[MeasuredCost]:
    with (
        CostStore(tmp_path / "costs.sqlite") as store,
        MeasuredCost(lambda _: Tvm(), store) as made,
    ):
        yield made


GRAPH = collage.parse_graph("x: f32[4]; y = nn.relu(x); return y;")


def kernels(*toolchains: Toolchain) -> list[CandidateKernel]:
    inside = SubGraph(GRAPH.set_of("y"))
    return [CandidateKernel(GRAPH, inside, toolchain) for toolchain in toolchains]


def ways(group: Sequence[CandidateKernel]) -> Ways:
    return [(each,) for each in group]


def settle(cost: MeasuredCost, *groups: Ways) -> bool:
    """Settle groups, of which all may be timed."""
    return cost.settle(groups, groups)


def settled(cost: MeasuredCost, *groups: Ways) -> bool:
    """Settle groups until no cost changes, as `without_ties` does; whether any has."""
    changed = False
    while settle(cost, *groups):
        changed = True
    return changed


def costs_after(
    cost: MeasuredCost, answers: Answers, alone: Mapping[str, float], turn: Mapping[str, float]
) -> list[Cost]:
    answers.alone, answers.in_turn = alone.__getitem__, turn.__getitem__
    group = kernels(A, B, C)
    before = [cost(each) for each in group]
    assert before == [alone[name] for name in "abc"]
    changed = settled(cost, ways(group))
    after = [cost(each) for each in group]
    assert changed == (after != before) or answers.turns
    assert not settle(cost, ways(group)), "they are settled now"
    return after


def test_kernels_within_the_margin_cost_what_the_dearest_of_them_does(
    cost: MeasuredCost, answers: Answers
) -> None:
    after = costs_after(cost, answers, {"a": 1.0, "b": 1.01, "c": 2.0}, {"a": 1.002, "b": 1.015})

    assert after == [1.015, 1.015, 2.0]
    assert answers.turns == [("a", "b")]


def test_kernels_that_differ_in_turn_cost_what_each_does(
    cost: MeasuredCost, answers: Answers
) -> None:
    after = costs_after(
        cost, answers, {"a": 1.0, "b": 1.01, "c": 1.02}, {"a": 1.1, "b": 1.0, "c": 1.021}
    )

    assert after == [1.1, 1.0, 1.021]
    assert answers.turns == [("a", "b", "c")]


@pytest.mark.parametrize(
    ("in_turn", "after"),
    [
        ({"a": 1.0, "b": 1.05, "c": 1.2}, [1.05, 1.05, 1.2]),
        ({"a": 1.0, "b": 1.06, "c": 1.2}, [1.0, 1.06, 1.2]),
        ({"a": 1.0, "b": 1.15, "c": 1.2}, [1.0, 1.15, 1.2]),
    ],
)
def test_kernels_that_noise_hides_cost_what_the_dearest_of_them_does(
    cost: MeasuredCost, answers: Answers, in_turn: dict[str, float], after: list[float]
) -> None:
    answers.width, answers.width_in_turn = 1.0, 0.1
    found = costs_after(cost, answers, {"a": 1.0, "b": 1.0, "c": 1.0}, in_turn)

    assert found == after


def test_kernels_that_differ_clearly_are_not_timed_again(
    cost: MeasuredCost, answers: Answers
) -> None:
    after = costs_after(cost, answers, {"a": 1.0, "b": 1.2, "c": 1.4}, {})

    assert after == [1.0, 1.2, 1.4]
    assert answers.turns == []


def test_kernels_that_were_timed_apart_are_timed_again_if_they_cost_nearly_the_same(
    cost: MeasuredCost, answers: Answers
) -> None:
    after = costs_after(cost, answers, {"a": 1.0, "b": 1.1, "c": 1.3}, {"a": 1.1, "b": 0.9})

    assert after == [1.1, 0.9, 1.3]
    assert answers.turns == [("a", "b")]


MANY = [Toolchain(name, measure=Measuring(repeats=5 + n)) for n, name in enumerate("abcdefghij")]


def test_of_many_kernels_the_planned_one_and_the_seven_cheapest_are_timed_again(
    cost: MeasuredCost, answers: Answers
) -> None:
    rest = (1.03, 1.04, 1.0, 1.02, 1.08, 1.05, 1.07, 1.01, 1.06)
    alone = dict(zip("abcdefghij", (1.10, *rest), strict=True))
    answers.alone, answers.in_turn = alone.__getitem__, lambda name: 1.08
    group = kernels(*MANY)
    for each in group:
        cost(each)

    assert settle(cost, ways(group))

    assert [sorted(turn) for turn in answers.turns] == [["a", "b", "c", "d", "e", "g", "i", "j"]]


def test_a_new_kernel_is_compared_with_few_of_those_that_were_timed_in_turn(
    cost: MeasuredCost, answers: Answers
) -> None:
    answers.alone, answers.in_turn = lambda name: 0.99 if name == "e" else 1.0, lambda name: 1.0
    group = kernels(*MANY)
    for each in group[:4]:
        cost(each)
    settled(cost, ways(group[:4]))
    cost(group[4])

    settled(cost, ways(group[:5]))

    assert [sorted(turn) for turn in answers.turns] == [["a", "b", "c", "d"], ["a", "e"]]


JOINED = collage.parse_graph(
    "x: f32[1,4]; a = nn.relu(x); b = exp(x); t = (a, b); y = concat(t) [axis = 1]; return y;"
)


def joining(toolchain: Toolchain, *names: str) -> CandidateKernel:
    return CandidateKernel(JOINED, SubGraph(JOINED.set_of(*names)), toolchain)


@pytest.mark.parametrize(("seconds", "is_timed_again"), [(2.2, True), (2.4, False)])
def test_several_kernels_that_cost_nearly_as_much_as_one_are_timed_in_turn_with_it(
    cost: MeasuredCost, answers: Answers, seconds: float, is_timed_again: bool
) -> None:
    answers.alone = {"a": 1.0, "b": seconds}.__getitem__
    answers.in_turn = {"a": 1.0, "b": 1.5}.__getitem__
    apart = joining(A, "a"), joining(A, "b"), joining(A, "t", "y")
    whole = joining(B, "a", "b", "t", "y")
    for each in (*apart, whole):
        cost(each)

    settled(cost, [apart, (whole,)])

    assert cost(whole) == (1.5 if is_timed_again else seconds)


@pytest.mark.parametrize(("first", "again", "costs"), [(3, 1.9, 1.9), (3, 3.2, 3), (3.3, 1.9, 3.3)])
def test_one_kernel_that_seems_to_cost_somewhat_more_than_several_is_timed_once_more(
    cost: MeasuredCost, answers: Answers, first: float, again: float, costs: float
) -> None:
    answers.alone = {"a": 1.0, "b": first}.__getitem__
    apart = joining(A, "a"), joining(A, "b"), joining(A, "t", "y")
    whole = joining(B, "a", "b", "t", "y")
    for each in (*apart, whole):
        cost(each)
    answers.alone = {"a": 1.0, "b": again}.__getitem__
    answers.in_turn = answers.alone

    settled(cost, [apart, (whole,)])
    assert cost(whole) == costs

    answers.alone = {}.__getitem__  # Nothing is timed once more.
    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        assert [later(each) for each in (*apart, whole)] == [*map(cost, apart), costs]
        settled(later, [apart, (whole,)])


@pytest.mark.parametrize(
    ("first", "again", "costs"), [(2.1, 1.9, 1.9), (2.1, 2.2, 2.1), (1.9, 0, 1.9), (2.4, 0, 2.4)]
)
def test_one_kernel_that_seems_to_cost_more_than_several_in_turn_is_timed_in_turn_once_more(
    cost: MeasuredCost, answers: Answers, first: float, again: float, costs: float
) -> None:
    times = [{"a": 1.0, "b": first}, {"a": 1.1, "b": again}]
    answers.alone = {"a": 1.0, "b": 2.15}.__getitem__
    answers.in_turn = lambda name: times[min(len(answers.turns), 2) - 1][name]
    apart = joining(A, "a"), joining(A, "b"), joining(A, "t", "y")
    whole = joining(B, "a", "b", "t", "y")
    for each in (*apart, whole):
        cost(each)

    settled(cost, [apart, (whole,)])

    assert cost(whole) == costs
    assert cost(apart[0]) == 1.0, "the lower of two"
    assert len(answers.turns) == (2 if again else 1)
    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        assert [later(each) for each in (*apart, whole)] == [*map(cost, apart), costs]
        settled(later, [apart, (whole,)])
    assert len(answers.turns) == (2 if again else 1)


def test_where_kernels_cannot_run_in_turn_their_costs_stay(
    cost: MeasuredCost, answers: Answers
) -> None:
    answers.fails = True

    after = costs_after(cost, answers, {"a": 1.0, "b": 1.015, "c": 3.0}, {})

    assert after == [1.015, 1.015, 3.0], "which are equal within the margin all the same"


def test_kernels_that_were_timed_in_turn_are_not_again(
    cost: MeasuredCost, answers: Answers
) -> None:
    costs_after(cost, answers, {"a": 1.0, "b": 1.01, "c": 2.0}, {"a": 1.002, "b": 1.015})

    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        group = kernels(A, B, C)
        assert [later(each) for each in group] == [1.002, 1.015, 2.0]
        assert settle(later, ways(group))
        assert [later(each) for each in group] == [1.015, 1.015, 2.0]
    assert len(answers.turns) == 1


def test_what_was_recorded_is_compared_and_not_timed(cost: MeasuredCost, answers: Answers) -> None:
    answers.alone = {"a": 1.0, "b": 1.01, "c": 2.0}.__getitem__
    group = kernels(A, B, C)
    assert [cost(each) for each in group] == [1.0, 1.01, 2.0]

    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        assert [later.recorded(each) for each in group] == [1.0, 1.01, 2.0]
        assert later.settle([ways(group)], timed=())
        assert [later.recorded(each) for each in group] == [1.01, 1.01, 2.0]
    assert not answers.turns


def test_where_the_machine_is_the_cause_the_run_ends(cost: MeasuredCost, answers: Answers) -> None:
    answers.fails = answers.passing = True

    with pytest.raises(MeasuringError, match="crashed"):
        costs_after(cost, answers, {"a": 1.0, "b": 1.015, "c": 3.0}, {})


def test_what_runs_no_code_is_not_timed_in_turn(cost: MeasuredCost, answers: Answers) -> None:
    answers.alone = answers.in_turn = {"a": 1.0, "b": 2.01}.__getitem__
    apart = joining(A, "a"), joining(A, "b"), joining(A, "t", "y")
    whole = joining(B, "a", "b", "t", "y")
    *others, in_place = map(cost, apart)
    assert others == [1.0, 1.0]
    assert isinstance(in_place, float)
    assert in_place < 0.01, "less than a launch"
    assert cost(whole) == 2.01

    settle(cost, [apart, (whole,)])

    assert sorted(answers.turns) == [("a", "a", "b")]
    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        assert later(apart[-1]) == in_place


def test_a_kernel_never_costs_less_than_it_takes(cost: MeasuredCost, answers: Answers) -> None:
    a, b, c = kernels(A, B, C)
    costs = {"a": 1.0, "b": 1.01, "c": 1.0}
    answers.alone = answers.in_turn = costs.__getitem__
    for each in (a, b, c):
        cost(each)
    settle(cost, ways([a, b]))
    assert [cost(each) for each in (a, b, c)] == [1.01, 1.01, 1.0]

    costs["a"] = 1.3
    settle(cost, ways([a, c]))

    assert answers.turns == [("a", "b"), ("a", "c")]
    assert [cost(each) for each in (a, b, c)] == [1.3, 1.01, 1.0]


def test_groups_with_a_common_kernel_are_timed_in_turn_together(
    cost: MeasuredCost, answers: Answers
) -> None:
    a, b, c = kernels(A, B, C)
    for each in (a, b, c):
        cost(each)

    settle(cost, ways([a, b]), ways([a, c]))

    assert answers.turns == [("a", "b", "c")]


def test_of_a_kernel_that_is_timed_in_turn_twice_one_time_is_kept(
    cost: MeasuredCost, answers: Answers
) -> None:
    times = iter([1.0, 1.001, 1.002, 1.003])
    answers.alone, answers.in_turn = lambda name: 1.0, lambda name: next(times)
    a, b, c = kernels(A, B, C)
    for each in (a, b, c):
        cost(each)

    settle(cost, ways([a, b]))
    settle(cost, ways([a, c]))

    assert answers.turns == [("a", "b"), ("a", "c")]
    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        for each in (a, b, c):
            assert later(each) == cost._known.chosen(cost.kernels.wanted(each)).cost  # type: ignore[arg-type]


def test_the_highest_speed_of_the_machine_is_kept(cost: MeasuredCost, answers: Answers) -> None:
    assert cost.timer.overheads.reference() is None
    a, b, c = kernels(A, B, C)
    cost(a)
    assert cost.timer.overheads.reference() == 1.0
    for speed, kernel_, usual in ((0.5, b, 1.0), (1.25, c, 0.8)):
        answers.speed = speed
        cost(kernel_)
        assert cost.timer.overheads.reference() == usual


def test_planned_kernels_are_timed_again_that_were_timed_while_the_machine_was_slower(
    cost: MeasuredCost, answers: Answers
) -> None:
    answers.alone = {"a": 1.3, "b": 2.6}.__getitem__
    answers.speed = 0.5
    a, b, _ = kernels(A, B, C)
    assert [cost(a), cost(b)] == [1.3, 2.6]
    answers.alone = {"a": 1.4, "b": 1.9}.__getitem__

    for speed, seconds in ((0.5, 1.3), (0.9, 1.3)):
        answers.speed = speed
        assert not settled(cost, ways([a, b]))
        assert [cost(a), cost(b)] == [seconds, 2.6], "it was waited for, once, in vain"

    answers.speed = 0.5
    c, _ = kernels(replace(A, measure=Measuring(repeats=7)), B)
    assert cost(c) == 1.4
    answers.speed = 1.0
    answers.alone = {"a": 1.5}.__getitem__
    assert settled(cost, ways([c]))
    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        assert later(c) == cost(c) == 1.5, "as the machine usually is"
        assert not settled(later, ways([c]))


# Plans.


CHAIN = collage.parse_graph(
    "x: f32[4]; a = nn.relu(x); b = exp(a); c = tanh(b); d = sin(c); return d;"
)
TARGETS = """
collage 1;
target a on llvm { rules op_call_by_kind(); measure { repeats 5; } }
target b on llvm { rules op_call_by_kind(); priority PRIORITY; measure { repeats 6; } }
"""


def plan_of(cost: MeasuredCost, graph: Graph, priority: int, *, settles: bool) -> Plan:
    specs = list(collage.load(text=TARGETS.replace("PRIORITY", str(priority))).values())

    def settle(groups: Sequence[Ways], timed: Sequence[Ways]) -> bool:
        return settles and cost.settle(groups, timed)

    plans, _ = without_ties(
        lambda price: searched(graph, specs, price, lookup()).plans,
        lambda p: p[MIXED],
        cost,
        settle,
    )
    plan = plans[MIXED]
    assert isinstance(plan, Plan)
    assert plan.cost == fsum(cost(each) for each in plan.candidates)  # type: ignore[misc]
    assert all(plan.cost <= each.cost for each in plans.values() if isinstance(each, Plan))
    return plan


@pytest.mark.parametrize(("priority", "chosen"), [(0, "a"), (1, "b"), slow(-1, "a")])
def test_noise_within_the_margin_chooses_no_plan(
    answers: Answers, tmp_path: Path, priority: int, chosen: str
) -> None:
    answers.width = 0.05
    found: dict[bool, set[tuple[str, ...]]] = {True: set(), False: set()}
    for seed in range(8):
        for settles, plans in found.items():
            noise = random.Random(seed)
            answers.alone = lambda _, noise=noise: noise.uniform(1.0, 1.05)
            answers.in_turn = lambda _, noise=noise: noise.uniform(1.0, 1.019)
            with (
                CostStore(tmp_path / f"{seed} {settles}.sqlite") as store,
                MeasuredCost(lambda _: Tvm(), store) as cost,
            ):
                plan = plan_of(cost, CHAIN, priority, settles=settles)
                plans.add(tuple(kernel.target for kernel in plan.kernels))

    assert found[True] == {(chosen,) * 4}
    assert len(found[False]) > 4, "as the costs alone choose"


def planner(store: Path, priority: int) -> Planner:
    specs = list(collage.load(text=TARGETS.replace("PRIORITY", str(priority))).values())
    return Planner(
        specs,
        backend_of=lambda _: Tvm(),
        backends=(),
        cost=None,
        copies=None,
        store=store,
        timeout=60,
        memory=None,
        allow_extern=False,
        strategy="auto",
        watch=lambda step, counts: None,
        reporter=NO_REPORTER,
    )


@pytest.mark.parametrize(("priority", "chosen"), [(0, "a"), (1, "b")])
def test_what_is_compiled_is_searched_for_again_without_ties(
    answers: Answers, tmp_path: Path, priority: int, chosen: str
) -> None:
    answers.alone = answers.in_turn = lambda name: 1.01 if name == "b" else 1.0
    part = Part({}, CHAIN, None, None)

    with planner(tmp_path / "costs.sqlite", priority).untuned(part) as found:
        plan = found.plans[MIXED]
        assert {round(cost, 6) for cost in found.prices.values()} == {1.01}  # type: ignore[call-overload]

    assert isinstance(plan, Plan)
    assert {kernel.target for kernel in plan.kernels} == {chosen}
    assert plan.cost == pytest.approx(4.04)


def test_the_rivals_of_a_kernel_are_the_feasible_ones_for_its_nodes() -> None:
    y = kernels(A, B, C)
    plan = collage.choose(GRAPH, y[:1], cost=lambda _: 1.0)

    costs: dict[CandidateKernel, Cost] = {y[0]: 1.0, y[1]: 5.0, y[2]: Infeasible("no")}

    assert rivals(plan, costs) == [[(y[0],), (y[1],)]]
    assert rivals(plan, {y[0]: 1.0}) == [[(y[0],)]], "of which the variants may cost the same"


def kernel(names: str, toolchain: Toolchain = A) -> CandidateKernel:
    return CandidateKernel(CHAIN, SubGraph(CHAIN.set_of(*names)), toolchain)


ALONE = [kernel(name) for name in "abcd"]
AB, BC = kernel("ab", B), kernel("bc", B)


def test_the_rivals_of_several_kernels_have_all_their_calls() -> None:
    a, b, c, d = ALONE
    cost = {**dict.fromkeys(ALONE, 1.0), AB: 2.5}

    plan = collage.choose(CHAIN, [*ALONE, AB], cost=cost.__getitem__)
    alone = [[(each,)] for each in ALONE]
    assert rivals(plan, cost) == [*alone, [(a, b), (AB,)]]
    cost |= {AB: 1.5, BC: 1.0}
    with_ab = collage.choose(CHAIN, [*ALONE, AB], cost=cost.__getitem__)
    assert rivals(with_ab, cost) == [[(AB,), (a, b)], [(c,)], [(d,)], [(AB, c), (BC, a)]]


def test_rivals_are_completed_by_the_cheapest_kernels() -> None:
    a, b, c, d = ALONE
    dear, cd = kernel("a", B), kernel("cd", C)
    cost = {dear: 3.0, AB: 1.0, BC: 2.0, cd: 1.0, **dict.fromkeys(ALONE, 2.0)}

    plan = collage.choose(CHAIN, [AB, cd], cost=cost.__getitem__)

    assert rivals(plan, cost) == [
        [(AB,), (dear, b), (a, b)],
        [(AB, cd), (BC, a, d)],
        [(cd,), (c, d)],
    ]


def test_no_rivals_are_looked_for_that_need_many_other_kernels() -> None:
    names = [f"n{i}" for i in range(40)]
    text = "; ".join(f"{n} = exp({m})" for m, n in pairwise(["x", *names]))
    graph = collage.parse_graph(f"x: f32[1,4]; {text}; return {names[-1]};")
    whole, *alone = (
        CandidateKernel(graph, SubGraph(graph.set_of(*some)), A) for some in (names, *zip(names))
    )
    cost: dict[CandidateKernel, Cost] = {whole: 1.0, **dict.fromkeys(alone, 1.0)}

    plan = collage.choose(graph, [whole], cost=lambda _: 1.0)

    assert rivals(plan, cost) == [[(whole,)]]


@pytest.mark.parametrize(
    ("whole_cost", "chosen"), [(1.9, 3), (1.99, 3), (2.03, 3), (2.06, 4), (2.2, 4)]
)
def test_one_kernel_is_preferred_to_several_that_cost_the_same(
    cost: MeasuredCost, answers: Answers, whole_cost: float, chosen: int
) -> None:
    answers.alone = answers.in_turn = {"a": 1.0, "b": whole_cost}.__getitem__
    plan, _ = without_ties(
        lambda price: collage.choose(CHAIN, [*ALONE, AB], cost=price),
        lambda found: found,
        cost,
        cost.settle,
    )

    assert len(plan.kernels) == chosen
    assert plan.cost == fsum(cost(each) for each in plan.candidates)  # type: ignore[misc]
    for kernel in plan.candidates:
        assert cost(kernel) >= answers.alone(kernel.target)  # type: ignore[operator]
    assert plan.cost <= 4 * 1.02


POOL = [
    kernel("abcd"[start:end], toolchain)
    for toolchain in (A, B, C)
    for start, end in combinations(range(5), 2)
]
"""Every kernel for neighbours in the chain, by each target."""


def noisy(seed: int) -> Callable[[Task, float], Timing | Overhead | InTurn]:
    """What kernels take: the more calls they have the more, and each time something else."""
    noise, usual = random.Random(seed), dict[str, float]()

    def seconds(task: KernelTask) -> float:
        calls = str(task.module[FUNCTION]).count(" = R.")
        known = usual.setdefault(f"{task.toolchain.name} {calls}", noise.uniform(0.8, 1.2) * calls)
        return known * noise.uniform(0.95, 1.2)

    def answer(task: Task, timeout: float) -> Timing | Overhead | InTurn:
        if isinstance(task, OverheadTask):
            return Overhead(launch=0.01, entry=0.0, reference=1.0)
        if isinstance(task, KernelTask):
            return timing(seconds(task))
        return InTurn(tuple(timing(seconds(each), in_turn=True) for each in task.kernels))

    return answer


def planned_with(store: CostStore) -> tuple[Plan, int]:
    """The plan without ties, and how many kernels were measured for it."""
    with MeasuredCost(lambda _: Tvm(), store) as cost:

        def search(price: CostFunction) -> Plan:
            return collage.choose(
                CHAIN, POOL, cost=price, lower_bound=lambda each: 0.7 * each.calls.bit_count()
            )

        plan, _ = without_ties(search, lambda found: found, cost, cost.settle)
        return plan, cost.counts.measured


def test_a_later_run_measures_nothing_and_finds_the_same_plan(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for seed in (7, 18, 25, 30):  # The last three had another plan once.
        answer = noisy(seed)
        monkeypatch.setattr(
            Workers, "run", lambda _, jobs, answer=answer: answer_jobs(jobs, answer)
        )
        with CostStore(tmp_path / f"{seed}.sqlite") as store:
            (first, measured), (later, again) = planned_with(store), planned_with(store)

        assert (later.candidates, again) == (first.candidates, 0)
        assert measured > 0


def test_a_search_is_repeated_while_costs_change() -> None:
    plan = collage.choose(GRAPH, kernels(A), cost=lambda _: 1.0)
    changes = iter([True, True, False])
    searches = []

    def search(price: CostFunction) -> Plan:
        searches.append([price(each) for each in kernels(A)])
        return plan

    without_ties(search, lambda found: found, lambda _: 1.0, lambda groups, timed: next(changes))
    assert len(searches) == 3

    searches.clear()
    timed_in: list[int] = []

    def settle(groups: Sequence[Ways], timed: Sequence[Ways]) -> bool:
        timed_in.append(len(timed))
        return True

    without_ties(search, lambda found: found, lambda _: 1.0, settle)
    assert timed_in == [1] * 8 + [0] * 8
    assert len(searches) == 17, "which ends in any case"

    searches.clear()
    none = "no target has a kernel"
    without_ties(search, lambda found: none, lambda _: 1.0, lambda groups, timed: True)
    assert len(searches) == 1


def test_kernels_of_other_plans_may_be_timed_again_but_are_not_compared() -> None:
    a, b = kernels(A, B)
    plan, other = (collage.choose(GRAPH, [each], cost=lambda _: 1.0) for each in (a, b))
    seen: list[tuple[list[Ways], list[Ways]]] = []

    def settle(groups: Sequence[Ways], timed: Sequence[Ways]) -> bool:
        seen.append((list(groups), list(timed)))
        return False

    def search(price: CostFunction) -> Plan:
        price(a)
        return plan

    without_ties(search, lambda found: found, lambda _: 1.0, settle, lambda found: [found, other])

    (groups, timed), *_ = seen
    assert groups == [[(a,)]]
    assert timed == [[(a,)], [(a,)], [(b,)]]


def test_kernels_that_take_little_of_a_plan_are_not_timed_again() -> None:
    targets = collage.load(text=TARGETS.replace("PRIORITY", "0")).values()
    costs: dict[CandidateKernel, Cost] = {
        each: 0.04 if "nn.relu" in each.label else 1.0
        for spec in targets
        for each in collage.propose(CHAIN, spec)
    }
    plan = collage.choose(CHAIN, list(costs), cost=costs.__getitem__)
    seen: list[tuple[int, list[str]]] = []

    def settle(groups: Sequence[Ways], timed: Sequence[Ways]) -> bool:
        seen.append((len(groups), [first.label for (first, *_), *_ in timed]))
        return False

    def search(price: CostFunction) -> Plan:
        assert all(map(price, costs))
        return plan

    _, asked = without_ties(search, lambda found: found, costs.__getitem__, settle)

    assert asked == costs
    assert seen == [(4, ["exp", "tanh", "sin"])]


def test_no_kernels_are_compared_where_one_way_of_several_is_the_cheapest(
    cost: MeasuredCost, answers: Answers
) -> None:
    answers.alone = {"a": 1.0, "b": 1.5, "c": 9.0}.__getitem__
    a, b, c = kernels(A, B, C)
    for each in (a, b, c):
        cost(each)

    assert not settle(cost, [(a, b), (c,)])
    assert answers.turns == []


def test_targets_may_have_margins_of_their_own(cost: MeasuredCost, answers: Answers) -> None:
    wide = replace(A, measure=replace(A.measure, noise_margin=0.2))
    answers.alone = answers.in_turn = {"a": 1.0, "b": 1.15}.__getitem__

    group = kernels(wide, B)
    assert [cost(each) for each in group] == [1.0, 1.15]
    settle(cost, ways(group))
    assert [cost(each) for each in group] == [1.15, 1.15]
