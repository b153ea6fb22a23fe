"""The engine times the kernels of a target as its `measure` block says. No clock is read here."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import onnx.parser
import pytest

import collage_dsl as collage
from collage_dsl import builder as build
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import Context, CostStore, Infeasible, Measurement, Refusal, Spread
from collage_dsl.graph import CandidateKernel, Graph, Measuring, SubGraph, Toolchain
from collage_dsl.language.forms import from_json, from_yaml, to_form, to_json, to_yaml
from collage_dsl.language.resolve.measuring import duration, percentage
from collage_dsl.measuring import checked, pace, timing, work
from collage_dsl.measuring import key as key_module
from collage_dsl.measuring.bounds import lower_bound, memory
from collage_dsl.measuring.built import BuiltKernel, built
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.kept import Kept
from collage_dsl.measuring.key import context_of
from collage_dsl.measuring.machine import this_machine
from collage_dsl.measuring.overheads import Overheads
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import KernelTask, Overhead, OverheadTask, Timing, kernel_task
from collage_dsl.measuring.timing import Timed, times_in_turn
from collage_dsl.measuring.work import measure, memory_of
from collage_dsl.measuring.worker import Workers
from tests.workers import answer_jobs, done

PATIENT = Measuring(repeats=5, percentile=50, budget=86_400)
"""A budget that no test uses up."""


def spec_with(settings: str) -> collage.FusionSpec:
    text = f"collage 1; target t on llvm {{ rules op_call_by_kind(); measure {{ {settings} }} }}"
    return collage.load(text=text)["t"]


def relu() -> Graph:
    return collage.parse_graph("x: f32[4]; y = nn.relu(x); return y;")


def kernel(toolchain: Toolchain) -> CandidateKernel:
    graph = relu()
    return CandidateKernel(graph, SubGraph(graph.set_of("y")), toolchain)


# What a text says.


def test_what_is_not_said_is_as_usual() -> None:
    said = spec_with("repeats 5; timeout 30s;").target.measure

    assert said == Measuring(repeats=5, timeout=30)
    assert spec_with("").target.measure == Toolchain("t").measure == Measuring(50, 20, 0.3, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1, "1s"),
        (0.001, "1ms"),
        (0.3, "300ms"),
        (0.0015, "1.5ms"),
        (1e-5, "10us"),
        (2.5e-9, "2.5ns"),
        (30, "30s"),
        (1e-12, "0.000000000001s"),
        (86_400.0, "86400s"),
        (0.1 + 0.2, "0.30000000000000004s"),
    ],
)
def test_a_time_is_written_in_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [(0.02, "2%"), (0.025, "2.5%"), (0.5, "50%"), (1e-9, "0.0000001%"), (1, "100%"), (0, "0%")],
)
def test_a_part_is_written_as_a_percentage(part: float, text: str) -> None:
    assert percentage(part) == text
    with pytest.raises(ValueError, match="cannot be written"):
        percentage(-0.5)


@pytest.mark.parametrize("seconds", [-1.0, float("inf"), float("nan")])
def test_what_is_no_time_is_not_written(seconds: float) -> None:
    with pytest.raises(ValueError, match="cannot be written"):
        duration(seconds)


def test_settings_travel_in_targets_and_in_json_and_yaml() -> None:
    spec = spec_with("repeats 5; percentile 50; budget 2s; timeout 30s; noise_margin 3%;")
    specs = {spec.name: spec}

    assert collage.extract(collage.attach({"kind": "llvm"}, spec)) == spec
    assert from_json(to_json(specs)) == from_yaml(to_yaml(specs)) == specs
    assert to_form(specs)["targets"][0]["target"]["measure"] == {
        "repeats": 5,
        "percentile": 50,
        "budget": 2.0,
        "timeout": 30.0,
        "noise_margin": 0.03,
    }
    assert "measure" not in to_form({"t": spec_with("")})["targets"][0]["target"]


def test_settings_can_be_built_and_are_checked() -> None:
    rule = build.op_call_by_kind()

    built = build.target("t", "llvm", rules=rule, measure=Measuring(budget=2, timeout=30))

    assert built == spec_with("budget 2s; timeout 30s;")
    with pytest.raises(collage.RuleError) as caught:
        build.target("t", "llvm", rules=rule, measure=Measuring(percentile=101))
    assert {d.code for d in caught.value.diagnostics} == {"E0520"}
    with pytest.raises(ValueError, match="cannot be written"):
        build.target("t", "llvm", rules=rule, measure=Measuring(budget=-1))


# What is timed.


@dataclass
class Clock:
    """A clock that only calls move on, each by the next of `lengths`."""

    lengths: Iterator[float]
    now: float = 0.0
    calls: int = 0

    def call(self) -> None:
        self.now += next(self.lengths)
        self.calls += 1

    def nanoseconds(self) -> int:
        return round(self.now * 1e9)


class Steady(pace.Pace):
    """The pace of a machine that always has its usual speed."""

    def __init__(self, usual: float | None = None, patience: pace.Patience = pace.BRIEF) -> None:
        self.is_usual = True
        self._patience, self._here = patience, 0.0
        self.usual = self._believed = 1.0

    def read(self) -> float:
        return 1.0


def clock(monkeypatch: pytest.MonkeyPatch, *lengths: float) -> Clock:
    """The clock that `timing` reads from now on; calls take `lengths`, in turn."""

    def again() -> Iterator[float]:
        while True:
            yield from lengths

    made = Clock(again())
    read = made.nanoseconds
    monkeypatch.setattr(
        timing,
        "time",
        SimpleNamespace(monotonic=lambda: made.now, thread_time_ns=read, perf_counter_ns=read),
    )
    monkeypatch.setattr(timing, "_switches", lambda num_cores: 0)
    monkeypatch.setattr(timing, "Pace", Steady)
    return made


@pytest.mark.parametrize(
    ("how", "calls"),
    [
        (Measuring(), 3),
        (Measuring(budget=1.1), 5),
        (Measuring(repeats=4, budget=100), 4),
        (Measuring(repeats=2, budget=0.1), 2),
        (Measuring(repeats=1), 1),
    ],
)
def test_runs_end_with_the_repeats_or_the_budget(
    how: Measuring, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = clock(monkeypatch, 0.25)

    (times,), _ = times_in_turn([Timed(lambda: None, made.call, 1, how)])

    assert times == pytest.approx([0.25] * calls)
    assert made.calls == calls


@pytest.mark.parametrize(
    ("how", "lengths", "calls"),
    [
        (Measuring(), [1.0], 17),
        (Measuring(), [2.0, 1.0], 17),
        (Measuring(), [2.0, 1.019, 2.0, 1.0], 17),
        (Measuring(), [2.0, 1.021, 2.0, 1.0], 50),
        (Measuring(noise_margin=0.022), [2.0, 1.021, 2.0, 1.0], 17),
        (Measuring(), [1.0, 1.1, 1.2, 1.3, 1.4], 50),
        (Measuring(percentile=0), [1.0], 50),
        (Measuring(percentile=50), [1.0], 6),
        (Measuring(percentile=50), [1.0, 1.01, 1.02], 6),
        (Measuring(percentile=50), [1.0, 1.03], 50),
        (Measuring(repeats=5), [1.0], 5),
    ],
)
def test_runs_end_when_the_percentile_is_known_within_the_margin(
    how: Measuring, lengths: list[float], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = clock(monkeypatch, *lengths)
    how = replace(how, budget=100)

    times_in_turn([Timed(lambda: None, made.call, 1, how)])

    assert made.calls == calls


@pytest.mark.parametrize(("percentile", "seconds"), [(0, 1), (50, 3), (75, 4), (100, 5)])
def test_a_kernel_costs_what_its_target_says(
    percentile: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first two calls are not timed; after the next five the shortest would be another.
    made = clock(monkeypatch, 9, 9, 5, 1, 4, 2, 3, 0.5)
    monkeypatch.setattr(work, "built", lambda *_: BuiltKernel(made.call, [], lambda: None))
    monkeypatch.setattr(checked, "by_onnx", lambda _: None)
    monkeypatch.setattr(work, "tiny_runner", lambda *_, **__: lambda: None)
    toolchain = Toolchain("t", measure=replace(PATIENT, percentile=percentile))
    task = kernel_task(kernel(toolchain), Tvm(), {})

    spread = Spread(1, 5, 5, f"percentile {percentile} of CPU times")
    assert done(measure(task)) == Timing(pytest.approx(seconds), spread=spread)
    assert made.calls == 7


def test_the_results_of_a_kernel_that_is_timed_are_always_in_the_same_memory() -> None:
    made = built(kernel_task(kernel(Toolchain("t")), Tvm(), {}), np.random.default_rng(0))
    places = set()
    for _ in range(5):
        result = made.run()
        places.add(memory_of(result)[0].ctypes.data)
        del result
        made.forget()
    assert len(places) == 1


def test_overheads_are_timed_like_kernels_with_twice_the_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = clock(monkeypatch, 1.0)
    asked: list[Measuring] = []

    def recorded(every: list[Timed], usual: float, patience: pace.Patience) -> object:
        asked.extend(each.measure for each in every)
        every = [replace(each, before=lambda: None) for each in every]
        return times_in_turn(every, usual, patience)

    monkeypatch.setattr(work, "reference", lambda: 1.0)
    monkeypatch.setattr(work, "times_in_turn", recorded)
    monkeypatch.setattr(work, "tiny_runner", lambda *_, **__: made.call)

    done(measure(OverheadTask(Toolchain("t", measure=PATIENT), Tvm())))

    assert asked == [replace(PATIENT, repeats=10, budget=5 * PATIENT.budget)] * 2
    assert made.calls == 2 * 6  # one each before a percentile of 50 is known


# What is asked of the worker, and what is stored.


@dataclass
class Asked:
    """In place of a worker: what it was asked, with the time-outs. Kernels take 2 s."""

    tasks: list[KernelTask | OverheadTask] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)

    def answer(self, task: KernelTask | OverheadTask, timeout: float) -> Timing | Overhead | Failed:
        self.tasks.append(task)
        self.timeouts.append(timeout)
        if isinstance(task, OverheadTask):
            return Overhead(launch=0.25, entry=0.5)
        if timeout < 2:
            return Failed(f"took longer than {timeout:g} s", Refusal.TIME)
        return Timing(2.0)

    @property
    def kernels(self) -> int:
        return sum(isinstance(task, KernelTask) for task in self.tasks)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(Workers, "run", lambda _, jobs: answer_jobs(jobs, made.answer))
    return made


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CostStore]:
    with CostStore(tmp_path / "costs.sqlite") as made:
        yield made


def test_kernels_and_overheads_of_a_target_are_measured_as_its_text_says(
    asked: Asked, store: CostStore
) -> None:
    spec = spec_with("repeats 5; percentile 50; budget 2s; timeout 30s;")
    graph = relu()

    with MeasuredCost(lambda _: Tvm(), store, timeout=60) as cost:
        assert [cost(found) for found in spec.candidates(graph)] == [1.5]

    assert asked.kernels == 1
    assert {task.toolchain.measure for task in asked.tasks} == {Measuring(5, 50, 2.0, 30.0)}
    limits = {type(task): limit for task, limit in zip(asked.tasks, asked.timeouts, strict=True)}
    assert limits == {OverheadTask: 60, KernelTask: 30.0}


def test_where_a_target_says_no_timeout_that_of_the_command_counts(
    asked: Asked, store: CostStore
) -> None:
    with MeasuredCost(lambda _: Tvm(), store, timeout=7) as cost:
        cost(kernel(Toolchain("t", measure=Measuring(repeats=5))))

    limits = {type(task): limit for task, limit in zip(asked.tasks, asked.timeouts, strict=True)}
    assert limits == {OverheadTask: 60, KernelTask: 7}, "TVM itself may take longer"


def test_targets_that_are_timed_in_other_ways_share_no_costs(
    asked: Asked, store: CostStore
) -> None:
    ways = [
        Measuring(),
        Measuring(repeats=5),
        Measuring(percentile=50),
        Measuring(budget=2),
    ]
    for _ in range(2):
        with MeasuredCost(lambda _: Tvm(), store) as cost:
            for how in ways:
                cost(kernel(Toolchain("t", measure=how)))

    assert asked.kernels == len(ways), "each is measured once, and then found again"
    assert len({context_of(Toolchain("t", measure=how), Tvm()) for how in ways}) == len(ways)


def test_a_target_that_says_the_default_number_of_cores_has_the_costs_of_one_that_does_not(
    asked: Asked, store: CostStore
) -> None:
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        for options in ({}, {"num_cores": 1}, {"num_cores": 2}):
            cost(kernel(Toolchain("t", options=options)))

    assert asked.kernels == 2


def test_a_cost_that_was_measured_in_time_counts_with_another_timeout(
    asked: Asked, store: CostStore
) -> None:
    for timeout in (30.0, 5.0, None):
        with MeasuredCost(lambda _: Tvm(), store) as cost:
            assert cost(kernel(Toolchain("t", measure=Measuring(timeout=timeout)))) == 1.5

    assert asked.kernels == 1


def test_a_kernel_too_slow_for_one_target_is_tried_for_one_with_more_time(
    asked: Asked, store: CostStore
) -> None:
    hasty = kernel(Toolchain("hasty", measure=Measuring(timeout=1)))
    patient = kernel(Toolchain("patient", measure=Measuring(timeout=3)))

    with MeasuredCost(lambda _: Tvm(), store) as cost:
        assert cost(hasty) == Infeasible("took longer than 1 s")
        assert cost(patient) == 1.5
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        # In the store there is a cost now, which is that of the kernel for both.
        assert cost(hasty) == cost(patient) == 1.5

    assert asked.kernels == 2


def test_kernels_that_will_be_asked_for_are_measured_together(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, store: CostStore
) -> None:
    runs: list[int] = []
    answered = Workers.run

    def recorded(workers: Any, jobs: list[Any]) -> None:
        runs.append(len(jobs))
        answered(workers, jobs)

    monkeypatch.setattr(Workers, "run", recorded)
    ways = [Measuring(), Measuring(repeats=5), Measuring(percentile=50)]
    kernels = [kernel(Toolchain("t", measure=how)) for how in ways]
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        cost(kernels[0])
        runs.clear()
        cost.ahead([*kernels, *kernels])
        assert [each for each in runs if each != 1] == [2], "but for overheads, one by one"
        runs.clear()
        assert [cost(each) for each in kernels] == [1.5] * 3
        assert not runs

    assert asked.kernels == 3
    assert (cost.counts.found, cost.counts.measured) == (3, 3)


def test_settings_as_usual_find_what_was_stored_before_there_were_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hashed: list[object] = []
    monkeypatch.setattr(key_module, "_hash", lambda content: hashed.append(content) or "")

    context_of(Toolchain("t"), Tvm())
    context_of(Toolchain("t", measure=Measuring(timeout=9)), Tvm())
    context_of(Toolchain("t", measure=PATIENT), Tvm())

    plain, hurried, patient = map(list, hashed)  # type: ignore[call-overload]
    assert plain == hurried == patient[: len(plain)]
    assert patient[len(plain) :] == [5, 50, 86_400, None]


# What kernels cost at the least. The worker's stand-in takes 1.5 s for each, 0.25 s to launch.


def least(cost: MeasuredCost, runs: Literal["often", "rarely"] = "rarely") -> float:
    """What the relu of four numbers costs at the least: it reads 16 bytes, and writes them."""
    return lower_bound(cost)(kernel(Toolchain("t", measure=Measuring(runs=runs))))


def test_a_kernel_takes_its_launch_and_what_it_moves(asked: Asked, store: CostStore) -> None:
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        assert least(cost) == pytest.approx(0.25 * 0.67 + 3 * 16 / 6.5e10)
        assert least(cost, "often") == pytest.approx(0.25 * 0.67), "caches may hold it"
        assert least(cost) < cost(kernel(Toolchain("t")))

    assert asked.kernels == 3, "an addition, a reduction, and the kernel"


def test_what_this_machine_moves_is_measured_once(
    monkeypatch: pytest.MonkeyPatch, asked: Asked, store: CostStore
) -> None:
    monkeypatch.setattr(Overheads, "entry", lambda *_: 2.0 - 1e-6)  # 1 us for each.
    monkeypatch.setattr(Overheads, "launch", lambda *_: 1e-9)

    assert memory(store) == pytest.approx(1.25 * 4 * 4 * (1 << 20) / 1e-6), "of the addition"
    assert asked.kernels == 2
    assert memory(store) == memory(store)
    assert asked.kernels == 2


def test_nothing_is_measured_before_a_bound_is_asked_for(asked: Asked, store: CostStore) -> None:
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        assert lower_bound(cost)(kernel(Toolchain("gpu", kind="cuda"))) == 0
    assert not asked.tasks


@pytest.mark.parametrize("passing", [False, True])
def test_what_cannot_be_measured_says_less(
    monkeypatch: pytest.MonkeyPatch, store: CostStore, passing: bool
) -> None:
    failed = Failed("no compiler", passing=passing)
    monkeypatch.setattr(Workers, "run", lambda _, jobs: answer_jobs(jobs, lambda *_: failed))

    assert memory(store) == 6.5e10
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        assert least(cost) == pytest.approx(3 * 16 / 6.5e10)


def test_a_constant_index_of_64_bits_is_measured_as_it_is() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[3, 4] x) => (float[4] y) '
    text += "<int64 at = {1}> { y = Gather <axis = 0> (x, at) }"
    graph = collage.from_onnx(onnx.parser.parse_model(text))
    taken = CandidateKernel(graph, SubGraph(graph.set_of("y")), Toolchain("llvm"))

    measured = done(measure(kernel_task(taken, Tvm(), {})))
    assert isinstance(measured, Timing)
    assert measured.seconds > 0


@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_constants_of_64_bits_are_measured_as_they_are(dtype: str) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[n] x) => (y) '
    text += "{ at = NonZero (x)  y = Gather (table, at) }"
    model = onnx.parser.parse_model(text)
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.arange(40, dtype=dtype), "table")
    )
    graph = collage.from_onnx(model)
    taken = CandidateKernel(
        graph, SubGraph(graph.set_of("y")), Toolchain("lib", compiler="onnxruntime")
    )

    at = np.array([[1, 3]])
    measured = done(measure(kernel_task(taken, OnnxRuntime(), {}, given={graph.index("at"): at})))
    assert isinstance(measured, Timing)


def test_what_is_kept_has_the_date_that_the_store_has(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        kept = Kept(store, this_machine(), {"context": Context("context")})

        found = kept.keep(Measurement("kernel", "context", "nn.relu", 1.0))

        stored = store.find("kernel", "context")
        assert stored is not None
        assert found.measured_at == stored.measured_at != ""
