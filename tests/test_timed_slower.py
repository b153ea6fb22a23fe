"""Kernels that were timed while the machine was slower are timed again when it is not."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import CostStore, Spread
from collage_dsl.graph import CandidateKernel, Measuring, SubGraph, Toolchain
from collage_dsl.measuring import cost as cost_module
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import InTurnTask, KernelTask, Overhead, OverheadTask, Timing
from collage_dsl.measuring.timing import method
from collage_dsl.measuring.worker import Workers
from tests.workers import answer_jobs

GRAPH = collage.parse_graph("x: f32[4]; y = nn.relu(x); return y;")


@dataclass
class Machine:
    """What kernels of each target take at the usual speed, and now."""

    usual: dict[str, float]
    slowdown: dict[str, float] = field(default_factory=dict)
    speed: float = 1.0
    timed: list[str] = field(default_factory=list)
    fails: bool = False

    def __call__(
        self, task: KernelTask | OverheadTask | InTurnTask, timeout: float
    ) -> Timing | Overhead | Failed:
        if isinstance(task, OverheadTask):
            return Overhead(launch=0.01, entry=0.0, reference=1.0)
        assert isinstance(task, KernelTask)
        name = task.toolchain.name
        self.timed.append(name)
        if self.fails:
            return Failed("crashed (SIGSEGV)")
        seconds = self.usual[name] * (1 if self.speed == 1 else self.slowdown[name])
        return Timing(seconds, spread=Spread(seconds, seconds, 20, method(1, 20), self.speed))

    @property
    def is_usual(self) -> bool:
        return self.speed == 1

    def wait(self) -> float:
        return 0.0


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine({"a": 1.0, "b": 1.5, "c": 9.0}, {"a": 1.9, "b": 1.0, "c": 1.1}, speed=0.7)
    monkeypatch.setattr(Workers, "run", lambda _, jobs: answer_jobs(jobs, made))
    monkeypatch.setattr(cost_module, "Pace", lambda reference: made)
    return made


@pytest.fixture
def cost(tmp_path: Path) -> Iterator[MeasuredCost]:
    with CostStore(tmp_path / "c.sqlite") as store, MeasuredCost(lambda _: Tvm(), store) as made:
        yield made


A, B, C = (
    CandidateKernel(
        GRAPH, SubGraph(GRAPH.set_of("y")), Toolchain(name, measure=Measuring(repeats=repeats))
    )
    for name, repeats in (("a", 5), ("b", 6), ("c", 7))
)
WAYS = [(B,), (A,), (C,)]


def test_those_that_may_be_the_cheapest_at_the_usual_speed_are(
    cost: MeasuredCost, machine: Machine
) -> None:
    assert [cost(each) for each in (A, B, C)] == [1.9, 1.5, 9.9]
    machine.speed = 1.0

    assert cost.settle([WAYS])

    assert [cost(each) for each in (A, B, C)] == [1.0, 1.5, 9.9]
    assert machine.timed == ["a", "b", "c", "b", "a"], "the third one is too dear in any case"
    assert not cost.settle([WAYS])
    assert len(machine.timed) == 5


def test_nothing_is_timed_again_while_the_machine_is_slower(
    cost: MeasuredCost, machine: Machine
) -> None:
    found = [cost(each) for each in (A, B, C)]

    assert not cost.settle([WAYS])

    assert [cost(each) for each in (A, B, C)] == found
    assert machine.timed == ["a", "b", "c"]


def test_the_cost_stays_of_a_kernel_that_cannot_run_again(
    cost: MeasuredCost, machine: Machine
) -> None:
    found = [cost(each) for each in (A, B, C)]
    machine.speed, machine.fails = 1.0, True

    assert not cost.settle([WAYS])

    assert [cost(each) for each in (A, B, C)] == found


def test_a_later_run_takes_the_costs_in_the_store(cost: MeasuredCost, machine: Machine) -> None:
    found = [cost(each) for each in (A, B, C)]
    machine.speed = 1.0

    with MeasuredCost(lambda _: Tvm(), cost.store) as later:
        assert [later(each) for each in (A, B, C)] == found
        assert not later.settle([WAYS])

    assert machine.timed == ["a", "b", "c"]
