"""Refinement of a compilation: what is built, run, kept in a file and reported."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import collage_dsl as collage
from collage_dsl.cli.main import app
from collage_dsl.cost import Cost, Infeasible
from collage_dsl.engine import refine
from collage_dsl.engine.compile import backends_of
from collage_dsl.engine.durations import seconds_of
from collage_dsl.engine.planning import Space
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.race import Contender, Series, document
from collage_dsl.engine.refine import Refiner, Refining
from collage_dsl.engine.refined_plans import RefineWarning
from collage_dsl.engine.sizes import Part
from collage_dsl.engine.steps import MIXED, searched
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Toolchain
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.errors import BuildError
from collage_dsl.report.documents import CompileDocument, ContenderDocument
from collage_dsl.report.text import compile_text
from collage_dsl.rules import FusionSpec, OpCallByKind
from collage_dsl.search import Plan
from tests.models import small_convolution
from tests.reference import run_onnx
from tests.test_compile import random_input

NATIVE = FusionSpec(Toolchain("tvm"), OpCallByKind())
LIBRARY = FusionSpec(
    Toolchain("onnxruntime", compiler="onnxruntime"), OpCallByKind(), coalesce=True
)
SPECS = [NATIVE, LIBRARY]


def cost(kernel: CandidateKernel) -> Cost:
    return 1e-6 * len(kernel.nodes) if kernel.target == "tvm" else 1.05e-6 * len(kernel.nodes)


class Clock:
    """Each look at it takes a second."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 1
        return self.now


@dataclass(frozen=True)
class Built:
    plan: Plan


class Machine:
    """Builds and runs plans at once: each takes what `time` says."""

    def __init__(self, time: Callable[[Plan], float]) -> None:
        self.time = time
        self.built: list[Plan] = []
        self.fails: Callable[[Plan], bool] = lambda plan: False

    def build(self, plans: Sequence[tuple[Part, Plan]], *_: object) -> tuple[Built, list[object]]:
        ((_, plan),) = plans
        self.built.append(plan)
        if self.fails(plan):
            raise BuildError("it does not fit")
        return Built(plan), [()]

    def run(self, part: Part, built: Sequence[Built], *_: object) -> list[Series]:
        return [Series((self.time(each.plan),) * 20) for each in built]


def libraries(plan: Plan) -> int:
    return sum(kernel.target == "onnxruntime" for kernel in plan.kernels)


def many_libraries(plan: Plan) -> float:
    """The additive cost says that TVM is better everywhere; the machine says the opposite."""
    return 10.0 - libraries(plan)


def none_is_faster(plan: Plan) -> float:
    return 1.0 if set(plan.candidates) == {*plan.candidates} and not libraries(plan) else 2.0


@pytest.fixture
def refiner(tmp_path: Path) -> Refiner:
    graph = from_onnx(small_convolution())
    found = searched(graph, SPECS, cost, lookup(), count=3)
    plans, regions = found.plans, found.regions
    found = {name: plan for name, plan in plans.items() if isinstance(plan, Plan)}
    return Refiner(
        Part({}, graph, None, None),
        Space(found, regions, lambda plan: plan),
        SPECS,
        backends_of(SPECS),
        (),
        Refining("evolutionary", 30, tmp_path / "refinements", 0.1),
    )


def raced(refiner: Refiner, machine: "Machine") -> list[ContenderDocument]:
    """What a race says of the plans."""
    found = []
    for name, plan in refiner.space.plans.items():
        times = Series((machine.time(plan),) * 20)
        found.append(document(Contender(name, plan, None), times, [times], 0.05))
    return found


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(many_libraries)
    monkeypatch.setattr(refine, "built", machine.build)
    monkeypatch.setattr(refine, "alternated", machine.run)
    monkeypatch.setattr(refine, "time", Clock())
    return machine


def winner(refiner: Refiner) -> Contender:
    return Contender(MIXED, refiner.space.plans[MIXED], None)


def test_a_plan_that_is_faster_for_certain_is_kept(refiner: Refiner, machine: Machine) -> None:
    contender, (row,), report = refiner.refined(winner(refiner))

    assert contender.name == row.name == "refined"
    assert contender.plan is not None
    assert libraries(contender.plan) > libraries(refiner.space.plans[MIXED])
    assert report.kept
    assert report.before is not None
    assert report.after is not None
    assert report.before.seconds == 10
    assert report.after.seconds == many_libraries(contender.plan)
    assert row.measured == report.after
    assert not row.alone


def test_plans_that_were_raced_are_not_run_again(refiner: Refiner, machine: Machine) -> None:
    seeds = {plan.candidates for plan in refiner.space.plans.values()}
    rows = raced(refiner, machine)

    first = refiner.refined(winner(refiner), rows)[2]

    runs = json.loads(Path(first.state).read_text())["runs"]
    assert len(runs) == len(seeds) + first.run
    slowest = many_libraries(refiner.space.plans[MIXED])
    fastest = min(map(many_libraries, refiner.space.plans.values()))
    assert min(run["time"] for run in runs[: len(seeds)]) == pytest.approx(fastest / slowest)
    second = refiner.refined(winner(refiner), rows)[2]
    assert second.known == len(runs)


def test_the_winner_stays_where_no_plan_is_faster(refiner: Refiner, machine: Machine) -> None:
    machine.time = none_is_faster
    first = winner(refiner)

    contender, rows, report = refiner.refined(first)

    assert contender is first
    assert rows == []
    assert not report.kept
    assert report.run > 5
    assert report.before is None


def test_a_gain_below_one_per_cent_is_none(refiner: Refiner, machine: Machine) -> None:
    machine.time = lambda plan: 1 - 0.005 * (libraries(plan) > 0)

    contender, _, report = refiner.refined(winner(refiner))

    assert contender.name == MIXED
    assert not report.kept
    assert report.after is not None
    assert report.after.seconds < 1


def test_a_plan_that_cannot_be_built_is_counted_and_not_tried_again(
    refiner: Refiner, machine: Machine
) -> None:
    machine.fails = lambda plan: libraries(plan) > 0 and len(machine.built) % 2 == 0

    _, _, report = refiner.refined(winner(refiner))
    again = refiner.refined(winner(refiner))[2]

    assert report.failed > 0
    assert again.known == report.run + 1
    state = json.loads(Path(report.state).read_text())
    assert "it does not fit" in {run.get("reason") for run in state["runs"]}


def test_a_second_refinement_goes_on_where_the_first_stopped(
    refiner: Refiner, machine: Machine
) -> None:
    first = refiner.refined(winner(refiner))[2]
    built = {plan.candidates for plan in machine.built}
    refiner._built.clear()
    machine.built.clear()

    second = refiner.refined(winner(refiner))[2]

    assert second.known == first.run + 1
    new = [plan.candidates for plan in machine.built if plan.candidates not in built]
    assert second.run == len(set(new))
    runs = json.loads(Path(second.state).read_text())["runs"]
    assert len(runs) == second.known + second.run


def test_a_refinement_on_other_inputs_begins_anew(refiner: Refiner, machine: Machine) -> None:
    def state(inputs: dict[str, np.ndarray] | None) -> str:
        asked = replace(refiner, part=replace(refiner.part, inputs=inputs))
        return str(asked.refined(winner(asked))[2].state)

    ones, zeros = {"x": np.ones((2, 3), np.float32)}, {"x": np.zeros((2, 3), np.float32)}

    assert len({state(each) for each in (None, ones, zeros)}) == 3
    assert state(ones) == state({"x": ones["x"].copy()})


def test_a_state_that_is_damaged_is_named_and_set_aside(refiner: Refiner, machine: Machine) -> None:
    path = Path(refiner.refined(winner(refiner))[2].state)
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])

    with pytest.warns(RefineWarning, match=r"cannot be used: .*; it is now .*\.damaged-"):
        report = refiner.refined(winner(refiner))[2]

    assert report.known == 0
    (aside,) = path.parent.glob("*.damaged-*")
    assert aside.read_text() == whole[: len(whole) // 2]
    assert json.loads(path.read_text())["runs"]


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["runs"][0]["kernels"].pop(),
        lambda state: state["runs"][0]["kernels"].append(10_000),
        lambda state: state["runs"][0]["kernels"].append(-1),
        lambda state: state["runs"][0].update(time=-1.0),
        lambda state: state["kernels"][0].update(nodes=["nobody"]),
        lambda state: state["kernels"][0].update(target="nobody"),
        lambda state: state.update(made_for="another model"),
        lambda state: state.update(version=2),
    ],
    ids=["gap", "number", "negative", "time", "node", "target", "model", "version"],
)
def test_a_state_that_says_what_cannot_be_is_set_aside(
    refiner: Refiner, machine: Machine, change: Callable[[dict[str, object]], object]
) -> None:
    path = Path(refiner.refined(winner(refiner))[2].state)
    state = json.loads(path.read_text())
    change(state)
    path.write_text(json.dumps(state))

    with pytest.warns(RefineWarning):
        report = refiner.refined(winner(refiner))[2]

    assert report.known == 0
    assert list(path.parent.glob("*.damaged-*"))


def test_what_was_run_is_kept_even_if_the_refinement_is_stopped(
    refiner: Refiner, machine: Machine
) -> None:
    def stopped(plan: Plan) -> bool:
        if len(machine.built) > 6:
            raise KeyboardInterrupt
        return False

    machine.fails = stopped

    with pytest.raises(KeyboardInterrupt):
        refiner.refined(winner(refiner))

    machine.fails = lambda plan: False
    assert refiner.refined(winner(refiner))[2].known >= 5


def test_plans_of_kernels_that_are_infeasible_now_are_forgotten(
    refiner: Refiner, machine: Machine
) -> None:
    before = refiner.refined(winner(refiner))[2]

    def without_library(kernel: CandidateKernel) -> Cost:
        return Infeasible("gone") if kernel.target == "onnxruntime" else cost(kernel)

    graph = refiner.part.graph
    found = searched(graph, SPECS, without_library, lookup())
    plans, regions = found.plans, found.regions
    found = {name: plan for name, plan in plans.items() if isinstance(plan, Plan)}
    space = Space(found, regions, lambda plan: plan)
    again = Refiner(refiner.part, space, SPECS, refiner.backend_of, (), refiner.refining)

    assert again.refined(winner(again))[2].known < before.run + 1


@pytest.mark.parametrize(
    ("said", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5 h", 5400), (7, 7)]
)
def test_a_budget_is_a_time(said: float | str, seconds: float) -> None:
    assert seconds_of(said) == seconds


@pytest.mark.parametrize("said", ["", "m", "ten", "-1s", "1d", "1m30s", "٣m", "nan", "inf"])
def test_what_is_no_time_is_refused(said: str) -> None:
    with pytest.raises(ValueError, match="is no time: write 90s, 10m or 1h"):
        seconds_of(said)


def test_the_command_refuses_a_budget_that_is_no_time() -> None:
    arguments = ["bench", "m.onnx", "-t", "native", "--refine", "evolutionary", "--budget", "long"]

    found = CliRunner().invoke(app, arguments)

    assert "`long` is no time" in str(found.exception) + found.output


def test_what_is_frozen_is_not_refined(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="what is frozen cannot be refined"):
        collage.compile(small_convolution(), SPECS, refine="evolutionary", frozen=tmp_path / "lock")


def test_a_refined_model_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    compiled = collage.compile(
        small_convolution(),
        SPECS,
        cost=cost,
        race_seconds=0.02,
        refine="evolutionary",
        budget=2,
        refine_state=tmp_path,
    )
    expected = run_onnx(small_convolution(), random_input())

    assert relative_error(compiled.run(random_input())["y"], expected["y"]) < 1e-5
    report = compiled.report
    assert report.refinement is not None
    assert report.refinement.kept == (report.chosen == "refined")
    assert report.refinement.run >= 1
    assert Path(report.refinement.state).parent == tmp_path
    text = compile_text(report)
    assert f"refined for 2 s: {report.refinement.run} plan" in text
    assert "error" in text
    assert CompileDocument.model_validate_json(report.model_dump_json()) == report
