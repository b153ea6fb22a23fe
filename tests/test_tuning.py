"""Schedules that tuning finds for fused kernels: searched, kept, found again and used."""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tvm import relax

import collage_dsl as collage
from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import find_backend
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.schedule.tuned import place_of, tuned
from collage_dsl.backends.tvm import Tvm
from collage_dsl.backends.tvm_target import kernel_target
from collage_dsl.cli.durations import Duration
from collage_dsl.cost import Cost, CostStore, Infeasible, cheapest
from collage_dsl.cost.records import Records
from collage_dsl.cost.trials import Trial
from collage_dsl.engine.tune import Tuner, TuningOptions, kernel_at
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Record, SubGraph, Toolchain, Tuning
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.tuning import RECORD, TUNED
from collage_dsl.measuring.built import built
from collage_dsl.measuring.checked import (
    WrongResult,
    draws_of,
    errors_of,
    largest_error,
    right_of,
)
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.measuring.estimates import Regression
from collage_dsl.measuring.recorded import BestRecords
from collage_dsl.measuring.schedules import Schedules
from collage_dsl.measuring.task import kernel_task
from collage_dsl.measuring.tuning import CannotTune, tune
from collage_dsl.measuring.wire import text_of, value_of
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.fused import fused_function
from collage_dsl.realization.partition import realize
from collage_dsl.realization.variants import with_variant
from collage_dsl.rules import CombineByPrimitives, FusionSpec, Limits, OpCallByKind
from collage_dsl.rules.primitive import TVM_DEFAULT
from collage_dsl.search import Plan, PlannedKernel
from tests.cases import slow
from tests.commands import assert_one_message, said
from tests.models import small_convolution
from tests.sandbox import Sandbox
from tests.tuned_models import keep, narrowed_convolution, record_of, whole

pytestmark = pytest.mark.engine

TARGET = Toolchain("tvm")
TYPES = {"int8": TensorProto.INT8, "float16": TensorProto.FLOAT16}


def only(*variants: str, trials: int = 0) -> FusionSpec:
    """TVM alone, for kernels as large as they can be."""
    toolchain = replace(TARGET, variants=variants, tune=Tuning(trials))
    rule = CombineByPrimitives(OpCallByKind(), TVM_DEFAULT)
    return FusionSpec(toolchain, rule, Limits(min_nodes=2))


@pytest.fixture
def candidate() -> CandidateKernel:
    return whole(narrowed_convolution(), TARGET)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "costs.sqlite"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "costs.tuned.sqlite"


def x() -> np.ndarray:
    return np.random.default_rng(1).normal(0, 8, (1, 4, 10, 10)).astype(np.float32)


def exact(to: str) -> np.ndarray:
    """What the narrowed convolution gives, in float64."""
    weight = np.random.default_rng(5).uniform(-0.5, 0.5, (8, 4, 3, 3)).astype(np.float32)
    padded = np.pad(x().astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    result = np.einsum("nchwij,ocij->nohw", windows, weight.astype(np.float64)).clip(-128, 127)
    return result.astype(np.int64).astype(to) if to == "int8" else result.astype(to)


def assert_right(actual: np.ndarray, to: str = "int8") -> None:
    expected = exact(to)
    assert actual.dtype == expected.dtype
    if to == "int8":
        assert np.abs(expected).max() > 30
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=2e-3, atol=2e-2)


# One more variant.


@pytest.mark.parametrize("to", [slow("int8"), "float16"])
def test_a_tuned_kernel_computes_the_same(to: str, store: Path, path: Path) -> None:
    model = narrowed_convolution(TYPES[to])
    kernel = whole(model, TARGET)
    with Records(path) as records:
        keep(records, kernel, record_of(kernel))

    made = collage.compile(model, [only(TUNED)], store=store, race_seconds=0.01, plans=1)

    assert [each.variant for each in made.plan.kernels] == [TUNED]
    assert_right(made.run({"x": x()})["y"], to)


def test_a_record_is_one_more_variant_with_a_price_of_its_own(
    candidate: CandidateKernel, store: Path, path: Path
) -> None:
    first, second = record_of(candidate), record_of(candidate, factor=5)
    with CostStore(store) as costs, Records(path) as records:
        with MeasuredCost(lambda _: Tvm(), costs, records=records) as cost:
            ours = cost(candidate)
            names = [each.name for each in cost.variants(candidate)]
            before = len(costs)

        keep(records, candidate, first)
        with MeasuredCost(lambda _: Tvm(), costs, records=records) as cost:
            price = cost(candidate)
            found = {each.name: each for each in cost.variants(candidate)}
        assert list(found) == [*names, TUNED]
        assert isinstance(found[TUNED].cost, float)
        assert isinstance(ours, float)
        assert price == cheapest(tuple(found.values()), TARGET.measure.noise_margin).cost
        assert found[TUNED].error == 0
        assert len(costs) == before + 1

        keep(records, candidate, second, seconds=1e-9)
        with MeasuredCost(lambda _: Tvm(), costs, records=records) as cost:
            price = cost(candidate)
            assert cost.counts.measured == 1
            assert cost.recorded(candidate) == price
        assert len(costs) == before + 2


def test_a_record_that_was_not_measured_as_a_variant_hides_no_recorded_cost(
    candidate: CandidateKernel, store: Path, path: Path
) -> None:
    with CostStore(store) as costs, Records(path) as records:
        with MeasuredCost(lambda _: Tvm(), costs, records=records) as cost:
            ours, variants = cost(candidate), cost.variants(candidate)

        keep(records, candidate, record_of(candidate))
        with MeasuredCost(lambda _: Tvm(), costs, records=records) as cost:
            assert cost.recorded(candidate) == ours
            assert cost.variants(candidate) == variants
            assert cost.counts.measured == 0


def test_a_record_is_sent_to_other_machines(candidate: CandidateKernel) -> None:
    toolchain = replace(TARGET, tune=Tuning(3), record=record_of(candidate))

    assert value_of(text_of(toolchain)) == toolchain


def test_a_record_is_for_the_processor_on_which_the_kernel_is_timed(
    candidate: CandidateKernel, path: Path
) -> None:
    def aimed(candidate: CandidateKernel) -> CandidateKernel:
        return replace(candidate, toolchain=replace(TARGET, options={"mcpu": "skylake"}))

    elsewhere = record_of(aimed(candidate))
    with Records(path) as records:
        keep(records, candidate, elsewhere)

        assert BestRecords(records, lambda _: Tvm())(candidate) == candidate
        found = BestRecords(records, lambda _: Tvm(), aimed)(candidate)

    assert found.toolchain == replace(TARGET, record=elsewhere)


def test_without_a_reference_a_schedule_may_round_to_the_next_whole_number(
    candidate: CandidateKernel,
) -> None:
    recorded = replace(candidate, toolchain=replace(TARGET, record=record_of(candidate)))
    task = kernel_task(with_variant(recorded, TUNED), Tvm(), {})
    task = replace(task, check=None)
    kernel = built(task, np.random.default_rng(0))
    right, operands = right_of(task, kernel), dict(draws_of(task, kernel))["large"]
    assert right is not None
    assert right.name == "direct"
    [expected] = right.run(operands)
    unsure = np.any([other[0] != expected for other in right.others(operands)], axis=0)

    assert 0 < unsure.sum() < unsure.size / 10
    alike, other = (
        errors_of(lambda _, added=added: [expected + added], right, operands)
        for added in (unsure, ~unsure)
    )
    assert alike
    assert other
    assert largest_error(right, {"large": alike}) == 0
    with pytest.raises(WrongResult):
        largest_error(right, {"large": other})


def test_without_a_record_nothing_is_tuned(candidate: CandidateKernel, store: Path) -> None:
    reason = "tuned is for kernels that were tuned, and there is no record of this one"
    forced = replace(candidate, toolchain=replace(TARGET, variants=(TUNED,)))
    with CostStore(store) as costs, MeasuredCost(lambda _: Tvm(), costs) as cost:
        assert cost(forced) == Infeasible(reason)

    with pytest.raises(BuildError, match=reason):
        realize(forced.graph, [forced], lambda _: Tvm())


def test_a_target_that_allows_other_variants_is_not_tuned(
    candidate: CandidateKernel, store: Path, path: Path
) -> None:
    direct = replace(candidate, toolchain=replace(TARGET, variants=("direct",)))
    with CostStore(store) as costs, Records(path) as records:
        keep(records, candidate, record_of(candidate))
        with MeasuredCost(lambda _: Tvm(), costs, records=records) as cost:
            cost(direct)
            assert [each.name for each in cost.variants(direct)] == ["direct"]
            with pytest.raises(CannotTune, match="does not allow the variant tuned"):
                tune(direct, 4, cost, records)


def scheduled(candidate: CandidateKernel, text: str) -> object:
    function = fused_function(candidate, Tvm()).with_attr(RECORD, text)
    return tuned(function, kernel_target(candidate.toolchain))


def changed(record: Record, steps: Callable[[list[list[object]]], object]) -> str:
    trace = json.loads(record.trace)
    steps(trace[0])
    return Record(record.place, json.dumps(trace)).text()


def test_a_record_for_another_place_is_refused(candidate: CandidateKernel) -> None:
    record = record_of(candidate)
    other = whole(narrowed_convolution(channels=16), TARGET)
    cores = replace(candidate, toolchain=replace(TARGET, options={"num_cores": 2}))
    scheduled(candidate, record.text())

    with pytest.raises(VariantError, match="is for another function"):
        scheduled(other, record.text())
    with pytest.raises(VariantError, match="is for another target"):
        scheduled(cores, record.text())
    old = Record(replace(record.place, tvm="0.26.0"), record.trace)
    with pytest.raises(VariantError, match=r"is for another version of TVM, 0\.26\.0"):
        scheduled(candidate, old.text())


def test_a_damaged_record_is_refused(candidate: CandidateKernel) -> None:
    record = record_of(candidate)
    with pytest.raises(VariantError, match="is damaged"):
        scheduled(candidate, "[]")
    for trace in ("", "{}", "[]", "[[], [], []]", "[[[]], []]", "[[1], []]"):
        with pytest.raises(VariantError, match="cannot be done"):
            scheduled(candidate, Record(record.place, trace).text())
    with pytest.raises(VariantError, match="cannot be done"):
        scheduled(candidate, changed(record, lambda steps: steps.pop(0)))


@pytest.mark.parametrize("step", ["UnsafeSetDType", "TransformLayout", "SetScope", "Parallel"])
def test_a_record_may_not_have_a_step_that_changes_what_is_computed(
    candidate: CandidateKernel, step: str
) -> None:
    record = record_of(candidate)
    with pytest.raises(VariantError, match="cannot be done"):
        scheduled(candidate, changed(record, lambda steps: steps.append([step, [], [], []])))


def test_a_record_that_fails_costs_nothing_but_its_own_price(
    candidate: CandidateKernel, store: Path, path: Path
) -> None:
    place = record_of(candidate).place
    with CostStore(store) as costs, Records(path) as records:
        keep(records, candidate, Record(place, "[[[]], []]"))
        with MeasuredCost(lambda _: Tvm(), costs, records=records) as cost:
            assert isinstance(cost(candidate), float)
            refused = cost.variants(candidate)[-1]

    assert refused.name == TUNED
    assert isinstance(refused.cost, Infeasible)
    assert "cannot be done" in refused.cost.reason


def test_the_place_of_a_function_depends_on_its_form_alone(candidate: CandidateKernel) -> None:
    target = kernel_target(TARGET)
    place = place_of(fused_function(candidate, Tvm()), target)
    model = narrowed_convolution()
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = [f"other_{name}" for name in names]
    for value in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        value.name = f"other_{value.name}"
    renamed = fused_function(whole(model, TARGET), Tvm())
    wider = fused_function(whole(narrowed_convolution(channels=16), TARGET), Tvm())

    assert place_of(renamed, target) == place
    assert place_of(wider, target).function != place.function


# In every way in.


@pytest.fixture
def recorded(candidate: CandidateKernel, path: Path) -> Path:
    with Records(path) as records:
        keep(records, candidate, record_of(candidate))
    return path


def test_a_saved_model_has_its_tuned_kernels(recorded: Path, store: Path, tmp_path: Path) -> None:
    made = collage.compile(narrowed_convolution(), [only(TUNED)], store=store, race_seconds=0.01)
    made.save(tmp_path / "saved")
    recorded.unlink()
    store.unlink()

    assert_right(collage.load_executable(tmp_path / "saved").run({"x": x()})["y"])


def test_a_lock_has_the_records_of_its_kernels(recorded: Path, store: Path, tmp_path: Path) -> None:
    model = narrowed_convolution()
    options: dict[str, Any] = {"store": store, "race_seconds": 0.01, "plans": 1}
    made = collage.compile(model, [only(TUNED)], **options)
    made.freeze(tmp_path / "lock")
    made.save(tmp_path / "first")
    recorded.unlink()

    again = collage.compile(model, [only(TUNED)], frozen=tmp_path / "lock", **options)
    again.save(tmp_path / "again")

    assert [each.variant for each in again.plan.kernels] == [TUNED]
    assert_right(again.run({"x": x()})["y"])
    one, other = ((tmp_path / f / "model.so").read_bytes() for f in ("first", "again"))
    assert one == other


@pytest.fixture
def relax_module(path: Path) -> tvm.IRModule:
    """A model as TVM itself imports it, and in the records the schedule of its kernel."""
    from tvm.relax.frontend.onnx import from_onnx as tvm_from_onnx

    model = narrowed_convolution(TensorProto.FLOAT16, is_limited=False)
    kernel = whole(model, TARGET)
    with Records(path) as records:
        keep(records, kernel, record_of(kernel))
    return tvm_from_onnx(model, keep_params_in_input=False)


def test_the_pass_uses_records(relax_module: tvm.IRModule, store: Path, path: Path) -> None:
    blocks = relax.transform.ConvertToDataflow(min_size=1)(relax_module)
    parted = collage.CollagePartition([only(TUNED)], store=store, records=path)(blocks)
    [kernel] = [f for f in parted.functions.values() if (f.attrs or {}).get("Primitive")]
    assert Record.of_text(str(kernel.attrs[RECORD]))
    path.unlink()

    built = tvm.compile(parted, kernel_target(TARGET), relax_pipeline=collage.lowering())
    machine = relax.VirtualMachine(built, tvm.cpu())
    assert_right(machine["main"](tvm.runtime.tensor(x())).numpy(), "float16")


def test_the_pipeline_uses_records(relax_module: tvm.IRModule, store: Path, path: Path) -> None:
    pipeline = collage.pipeline([only(TUNED)], store=store, records=path)
    built = tvm.compile(relax_module, kernel_target(TARGET), relax_pipeline=pipeline)

    machine = relax.VirtualMachine(built, tvm.cpu())
    assert_right(machine["main"](tvm.runtime.tensor(x())).numpy(), "float16")


# The search for schedules.


def test_tuning_keeps_every_schedule_and_goes_on_where_it_stopped(
    candidate: CandidateKernel, store: Path, path: Path
) -> None:
    with (
        CostStore(store) as costs,
        Records(path) as records,
        MeasuredCost(lambda _: Tvm(), costs) as cost,
    ):
        heard: list[Trial] = []
        first = tune(candidate, 2, cost, records, watch=heard.append)
        assert first.new == len(first.trials) == len(heard) == 2
        assert set(records.trials(first.place)) == set(heard)
        again = tune(candidate, 3, cost, records)
        assert (again.new, len(again.trials)) == (1, 3)
        assert {each.record for each in first.trials} < {each.record for each in again.trials}
        assert tune(candidate, 3, cost, records).new == 0
        assert tune(candidate, 9, cost, records, deadline=0).new == 0

    assert again.best is not None
    assert again.best == again.trials[0]
    assert again.label == "nn.conv2d+clip+astype"
    assert json.loads(again.best.record.trace)
    record = again.best.record
    made = with_variant(replace(candidate, toolchain=replace(TARGET, record=record)), TUNED)
    module = realize(made.graph, [made], lambda _: Tvm())
    built = tvm.compile(module, kernel_target(TARGET), relax_pipeline=collage.lowering())
    result = relax.VirtualMachine(built, tvm.cpu())["main"](tvm.runtime.tensor(x()))
    assert_right(result.numpy())


@pytest.mark.slow
def test_schedules_that_were_tried_are_not_proposed_again(candidate: CandidateKernel) -> None:
    function, target = fused_function(candidate, Tvm()), kernel_target(TARGET)
    known: dict[str, Cost] = {}
    for _ in range(2):
        schedules = Schedules(function, target, known)
        found = schedules.next(8)
        assert len(set(found)) == len(found) == 8
        assert not known.keys() & set(found)
        costs: dict[str, Cost] = {trace: 1e-6 * (i + 1) for i, trace in enumerate(found)}
        costs[found[0]] = Infeasible("crashed")
        schedules.learn(costs)
        known |= costs


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
def test_every_schedule_that_is_proposed_may_be_in_a_record(
    candidate: CandidateKernel, cores: int
) -> None:
    toolchain = replace(TARGET, options={"num_cores": cores})
    several = replace(candidate, toolchain=toolchain)
    function, target = fused_function(several, Tvm()), kernel_target(toolchain)
    place = place_of(function, target)

    proposed = Schedules(function, target, {}).next(16)

    for trace in proposed:
        scheduled(several, Record(place, trace).text())
    assert any('"Parallel"' in trace for trace in proposed) == (cores > 1)


def test_estimates_learn_which_schedules_are_fast() -> None:
    generator = np.random.default_rng(2)
    features = generator.normal(size=(80, 6))
    times = np.exp(features[:, 0] - 0.5 * features[:, 1])
    known = Regression()
    for each, seconds in zip(features[:60], times[:60], strict=True):
        known.add(each, seconds)

    order = np.argsort(known.estimates(list(features[60:])))

    assert len(known) == 60
    assert times[60:][order[:10]].max() < np.median(times[60:]) * 2
    assert times[60:][order[:5]].mean() < times[60:][order[-5:]].mean() / 3


def test_estimates_depend_on_differences_of_features_alone() -> None:
    generator = np.random.default_rng(3)
    features = generator.normal(size=(40, 6))
    times = np.exp(features[:, 0])

    def estimates(features: Array) -> Array:
        known = Regression()
        for each, seconds in zip(features[:30], times[:30], strict=True):
            known.add(each, seconds)
        return known.estimates(list(features[30:]))

    np.testing.assert_allclose(estimates(features + 1e9), estimates(features), rtol=1e-4)


# Which kernels of a model are tuned.


def test_kernels_that_can_make_the_plan_cheaper_by_most_are_tuned_first(store: Path) -> None:
    model = small_convolution()
    graph = from_onnx(model)
    single = [
        CandidateKernel(graph, SubGraph(1 << i), TARGET)
        for i in range(len(graph.nodes))
        if graph.calls >> i & 1
    ]
    prices = {each: 1e-6 * (at + 1) for at, each in enumerate(single)}
    pair = CandidateKernel(graph, single[0].sub_graph | single[1].sub_graph, TARGET)
    costs: dict[CandidateKernel, Cost] = {**prices, pair: 5e-6}
    library = replace(TARGET, name="lib", compiler="onnxruntime")
    costs[replace(single[-1], toolchain=library)] = 99e-6
    plan = Plan(graph, tuple(PlannedKernel(each, prices[each]) for each in single))
    least = 0.5e-6

    with (
        CostStore(store) as kept,
        MeasuredCost(collage_backend, kept) as cost,
        Records(store.with_suffix(".tuned")) as records,
    ):
        tuner = Tuner(cost, records, TuningOptions(usual=8))
        found = tuner.promises(plan, costs, lambda _: least)
        assert not Tuner(cost, records, TuningOptions()).promises(plan, costs, lambda _: least)

    gains = {each.candidate.label: each.gain for each in found}
    assert gains.pop(pair.label) == pytest.approx(5e-6 - least - 2e-6)
    assert next(iter(gains)) == single[-1].label
    assert gains[single[-1].label] == pytest.approx(len(single) * 1e-6 - least)
    assert [each.gain for each in found] == sorted((e.gain for e in found), reverse=True)


def collage_backend(toolchain: Toolchain) -> Backend:
    return find_backend(toolchain.compiler or "tvm")


def test_the_kernel_at_a_node_is_that_of_the_plan_or_the_largest(
    candidate: CandidateKernel,
) -> None:
    graph, library = candidate.graph, replace(TARGET, name="lib", compiler="onnxruntime")
    nodes = graph.set_of("y")
    single = replace(candidate, sub_graph=SubGraph(nodes))
    theirs = replace(candidate, toolchain=library)
    priced = [single, candidate, theirs]

    def at(chosen: CandidateKernel) -> CandidateKernel:
        plan = Plan(graph, (PlannedKernel(chosen, 1e-6),))
        return kernel_at(plan, priced, nodes, collage_backend)

    assert at(with_variant(single, "direct")) == single
    assert at(candidate) == candidate
    assert at(theirs) == candidate
    with pytest.raises(CannotTune, match="only kernels that TVM makes for llvm are tuned"):
        kernel_at(Plan(graph, ()), [theirs], nodes, collage_backend)


def test_a_target_that_says_tune_is_tuned_when_a_model_is_compiled(store: Path, path: Path) -> None:
    model, spec = narrowed_convolution(), only("direct", TUNED, trials=2)
    tried: list[str] = []
    options: dict[str, Any] = {"store": store, "race_seconds": 0.01, "plans": 1}

    made = collage.compile(
        model, [spec], tried=lambda label, count, trial: tried.append(label), **options
    )

    assert len(tried) == 2
    [kernel] = made.plan.kernels
    assert {each.name for each in kernel.variants} == {"direct", TUNED}
    assert_right(made.run({"x": x()})["y"])
    with Records(path) as records:
        assert len(records.every()) == 2
    collage.compile(model, [spec], tried=lambda *_: pytest.fail("tuned already"), **options)
    spec = replace(spec, target=replace(spec.target, tune=Tuning(9)))
    none: dict[str, Any] = {
        "tuning_budget": 0.0,
        "tried": lambda *_: pytest.fail("no time"),
    }
    collage.compile(model, [spec], **none, **options)


# The commands.


SPEC = """collage 1;
target tvm on llvm {
  variants [direct, tuned];
  rules combine_by_primitives(op_call_by_kind(), using: tvm_default);
  limits { min_nodes 2; }
}
"""


@pytest.fixture(scope="module")
def tuned_by_command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a spec, costs, and the records of a kernel that was tuned."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "model.onnx").write_bytes(narrowed_convolution().SerializeToString())
    (folder / "t.collage").write_text(SPEC)
    done = said(
        *("tune", folder / "model.onnx", "-t", folder / "t.collage", "--at", "y"),
        *("--trials", 2, "--store", folder / "costs.sqlite", "--output-format", "json"),
    )
    assert done.code == 0, done.err
    (folder / "answer.json").write_text(done.out)
    return folder


def test_the_kernel_at_a_node_is_tuned_and_every_schedule_is_shown(tuned_by_command: Path) -> None:
    from collage_dsl.report.tuning import TuneDocument

    answer = TuneDocument.model_validate_json((tuned_by_command / "answer.json").read_text())

    [kernel] = answer.kernels
    assert answer.records == str(tuned_by_command / "costs.tuned.sqlite")
    assert (kernel.label, kernel.nodes) == ("nn.conv2d+clip+astype", ["convolved", "limited", "y"])
    assert (kernel.trials, kernel.new, len(kernel.log)) == (2, 2, 2)
    assert [each.name for each in kernel.variants] == ["direct", TUNED]
    assert all(json.loads(each.trace) for each in kernel.log)


def test_a_record_is_found_in_a_fresh_process(tuned_by_command: Path) -> None:
    folder = tuned_by_command
    done = said(
        *("plan", folder / "model.onnx", "-t", folder / "t.collage"),
        *("--store", folder / "costs.sqlite", "--output-format", "json"),
    )

    assert done.code == 0, done.err
    [kernel] = json.loads(done.out)["kernels"]
    assert [each["name"] for each in kernel["variants"]] == ["direct", TUNED]
    assert kernel["variants"][1]["cost"] > 0


def trials_in(path: Path) -> list[Trial]:
    if not path.exists():
        return []
    with Records(path) as records:
        return records.every()


@pytest.mark.slow
def test_trials_are_kept_if_tuning_is_interrupted(tmp_path: Path) -> None:
    sandbox = Sandbox(tmp_path)
    (tmp_path / "model.onnx").write_bytes(narrowed_convolution().SerializeToString())
    (tmp_path / "t.collage").write_text(SPEC)
    command = ("tune", "model.onnx", "-t", "t.collage", "--at", "y", "--store", "costs.sqlite")
    path = tmp_path / "costs.tuned.sqlite"
    with sandbox.start(*command, "--trials", "1000") as process:
        while not trials_in(path):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate()

    assert (process.returncode, out, err.splitlines()[-1]) == (130, "", "interrupted")
    sandbox.wait_for_processes()
    before = trials_in(path)
    sandbox.run(*command, "--trials", str(len(before) + 1))
    after = trials_in(path)
    assert len(after) == len(before) + 1
    assert {each.record for each in before} < {each.record for each in after}


def test_what_to_tune_can_be_found_by_costs_that_are_known(tuned_by_command: Path) -> None:
    folder = tuned_by_command
    with CostStore(folder / "costs.sqlite") as costs:
        before = len(costs)
    done = said(
        *("tune", folder / "model.onnx", "-t", folder / "t.collage", "--at", "y", "--trials", 2),
        *("--costs", "recorded", "--store", folder / "costs.sqlite", "--output-format", "json"),
    )

    assert done.code == 0, done.err
    [kernel] = json.loads(done.out)["kernels"]
    assert (kernel["label"], kernel["new"]) == ("nn.conv2d+clip+astype", 0)
    with CostStore(folder / "costs.sqlite") as costs:
        assert len(costs) == before


def test_records_are_shown_shipped_and_merged(tuned_by_command: Path, tmp_path: Path) -> None:
    from collage_dsl.report.tuning import RecordsDocument

    records, shipped = tuned_by_command / "costs.tuned.sqlite", tmp_path / "shipped.json"
    told = said("records", "export", shipped, "--records", records)
    assert (told.code, told.out) == (0, f"wrote 2 schedules to {shipped}\n")
    own = tmp_path / "own.sqlite"
    told = said("records", "merge", shipped, records, "--records", own)
    assert told.out.splitlines() == [
        f"{shipped}: 2 schedules taken into {own}",
        f"{records}: 0 schedules taken into {own}; 2 known already",
    ]
    best = said("records", "export", shipped, "--best", "--records", own)
    assert best.out == f"wrote 1 schedule to {shipped}\n"

    shown = said("records", "show", "--log", "--records", own, "--output-format", "json")
    [function] = RecordsDocument.model_validate_json(shown.out).functions
    assert (function.label, function.trials, len(function.log)) == ("nn.conv2d+clip+astype", 2, 2)
    text = said("records", "show", "--log", "--records", own).out
    assert "nn.conv2d+clip+astype" in text
    assert function.function in text


@pytest.mark.parametrize("at", ["z", ""])
def test_a_node_that_does_not_exist_is_said(tuned_by_command: Path, at: str) -> None:
    folder = tuned_by_command
    done = said("tune", folder / "model.onnx", "-t", folder / "t.collage", "--at", at)

    assert_one_message(done, 2, f"the model has no node `{at}`")


def test_a_budget_is_a_time() -> None:
    read = Duration().convert
    assert [read(text, None, None) for text in ("90s", "10m", "1.5h", "0")] == [90, 600, 5400, 0]
    for wrong in ("soon", "-1s", "9d", ""):
        with pytest.raises(click.BadParameter, match="is no time: write 90s, 10m or"):
            read(wrong, None, None)


def test_missing_records_are_said(tmp_path: Path) -> None:
    done = said("records", "show", "--records", tmp_path / "none.sqlite")

    assert_one_message(done, 2, "there is no file of tuning records", "`collage tune` writes one")
    done = said("records", "show", "--records", tmp_path)
    assert_one_message(done, 2, f"cannot read {tmp_path}: it is a folder")
