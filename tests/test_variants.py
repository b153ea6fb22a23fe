"""Several algorithms for one kernel: each is measured, and the one that was chosen is built."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import collage_dsl as collage
from collage_dsl import parse_graph
from collage_dsl.backends import variants
from collage_dsl.backends.tvm import Tvm
from collage_dsl.cost import CostStore, Infeasible
from collage_dsl.engine.lock import Lock
from collage_dsl.engine.replay import replay
from collage_dsl.frontend.light import light_model
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Toolchain
from collage_dsl.measuring.cost import MeasuredCost
from collage_dsl.realization.difference import relative_error
from collage_dsl.realization.entry import PREPARE
from collage_dsl.realization.errors import BuildError
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build, lowering
from collage_dsl.realization.partition import realize
from collage_dsl.realization.signature import Signature
from collage_dsl.realization.variants import unsuitable, with_variant
from collage_dsl.report.text import plan_text
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.models import small_convolution
from tests.reference import run_onnx
from tests.variant_backend import Varied

pytestmark = pytest.mark.engine

TARGET = Toolchain("varied", compiler="varied")


def spec(*variants: str) -> FusionSpec:
    return FusionSpec(replace(TARGET, variants=variants), OpCallByKind())


def kernels(*variants: str) -> list[CandidateKernel]:
    """A kernel for each operator of the small model; the convolution has a constant weight."""
    return list(spec(*variants).candidates(from_onnx(small_convolution())))


def convolution(*variants: str) -> CandidateKernel:
    return next(kernel for kernel in kernels(*variants) if kernel.label == "nn.conv2d")


def x() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(1, 3, 12, 12)).astype(np.float32)


def expected() -> np.ndarray:
    (result,) = run_onnx(small_convolution(), {"x": x()}).values()
    return np.asarray(result)


@pytest.fixture
def store(tmp_path: Path) -> CostStore:
    return CostStore(tmp_path / "costs.sqlite")


def test_each_variant_is_measured_and_the_cheapest_is_the_price(store: CostStore) -> None:
    with MeasuredCost(lambda _: Varied(), store) as cost:
        price = cost(convolution())
        found = {each.name: each for each in cost.variants(convolution())}

    assert list(found) == ["direct", "halved", "wrong", "broken"]
    prices = found["direct"].cost, found["halved"].cost
    assert price in prices
    assert price <= 1.02 * min(prices), "or the first, within the noise margin"
    assert found["direct"].error is None
    assert (found["halved"].error or 0) < 1e-6
    for name, reason in {"wrong": "its results differ", "broken": "it never works"}.items():
        refused = found[name].cost
        assert isinstance(refused, Infeasible)
        assert reason in refused.reason


@pytest.mark.parametrize("leading", ["n", "b, s", "1, s", "b, 1"])
def test_products_of_any_number_of_rows_may_have_packed_weights(leading: str) -> None:
    graph = parse_graph(f"x: f32[{leading}, 64]; w: f32[64, 32]; y = matmul(x, w); return y;")
    weights = {graph.index("w")}
    assert variants.unsuitable("gemm", graph, weights) is None
    assert "dimensions" in str(variants.unsuitable("gemv", graph, weights))


def test_a_kernel_that_no_variant_can_compute_has_no_variants(store: CostStore) -> None:
    with MeasuredCost(lambda _: Tvm(), store) as cost:
        kernel = convolution("in_place")
        assert isinstance(cost(kernel), Infeasible)
        assert cost.variants(kernel) == ()


def test_variants_never_share_a_stored_price(store: CostStore) -> None:
    with MeasuredCost(lambda _: Varied(), store) as cost:
        halved = cost(convolution("halved"))
        before = len(store)
        direct = cost(convolution("direct"))
        assert len(store) == before + 1
        both = cost(convolution("direct", "halved"))
        assert len(store) == before + 1

    assert both in (halved, direct)
    assert both <= 1.02 * min(halved, direct)


def test_a_target_that_allows_no_fitting_variant_is_told_why(store: CostStore) -> None:
    pool = next(each for each in kernels("halved") if each.label == "mean")
    with MeasuredCost(lambda _: Varied(), store) as cost:
        assert cost(pool) == Infeasible("halved is for one convolution")

    with pytest.raises(BuildError, match="halved is for one convolution"):
        realize(from_onnx(small_convolution()), kernels("halved"), lambda _: Varied())


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> collage.Compiled:
    return collage.compile(
        small_convolution(),
        [spec()],
        store=tmp_path_factory.mktemp("compiled") / "costs.sqlite",
        backends=[Varied()],
        race_seconds=0.05,
    )


def test_weights_are_prepared_when_a_model_is_loaded() -> None:
    graph = from_onnx(small_convolution())
    chosen = [each if each.label != "nn.conv2d" else convolution("halved") for each in kernels()]
    chosen = [replace(each, graph=graph) for each in chosen]
    executable = build(realize(graph, chosen, lambda _: Varied()), backends=[Varied()])
    machine = relax.VirtualMachine(executable, tvm.cpu())

    assert PREPARE in executable.as_text()
    by_main = machine["main"](tvm.runtime.tensor(x())).numpy()
    assert relative_error(by_main, expected()) < 1e-5


def test_a_saved_model_has_its_own_weights_and_prepares_them_again(tmp_path: Path) -> None:
    made = collage.compile(
        small_convolution(512),
        [spec("halved", "direct")],
        store=tmp_path / "costs.sqlite",
        backends=[Varied()],
        race_seconds=0.05,
    )
    plain = collage.compile(
        small_convolution(512),
        [spec("direct")],
        store=tmp_path / "costs.sqlite",
        backends=[Varied()],
        race_seconds=0.05,
    )
    made.save(tmp_path / "made")
    plain.save(tmp_path / "plain")

    loaded = collage.load_executable(tmp_path / "made")
    (result,) = loaded.run({"x": x()}).values()
    (wanted,) = run_onnx(small_convolution(512), {"x": x()}).values()
    assert relative_error(result, wanted) < 1e-5
    sizes = [(tmp_path / name / "model.so").stat().st_size for name in ("made", "plain")]
    weight = 512 * 27 * 4
    assert sizes[0] - sizes[1] < weight / 2


def test_many_threads_share_the_prepared_weights(tmp_path: Path) -> None:
    graph = from_onnx(small_convolution())
    found = spec("halved", "direct").candidates(graph)
    module = realize(graph, list(found), lambda _: Varied())
    executable = ModelExecutable(build(module, backends=[Varied()]), Signature.of(graph))
    right = expected()

    def run(_: int) -> float:
        (result,) = executable.run({"x": x()}).values()
        return relative_error(result, right)

    with ThreadPoolExecutor(4) as pool:
        assert max(pool.map(run, range(200))) < 1e-5


def test_the_pass_puts_prepared_weights_into_the_module(store: CostStore) -> None:
    graph = from_onnx(small_convolution())
    chosen = list(spec("halved", "direct").candidates(graph))
    module = realize(graph, chosen, lambda _: Varied())
    executable = tvm.compile(module, "llvm", relax_pipeline=lowering([Varied()]))
    machine = relax.VirtualMachine(executable, tvm.cpu())

    assert PREPARE not in executable.as_text()
    assert relative_error(machine["main"](tvm.runtime.tensor(x())).numpy(), expected()) < 1e-5


def test_a_report_names_the_variant_and_its_error(compiled: collage.Compiled) -> None:
    kernel = next(each for each in compiled.report.plan.kernels if each.label == "nn.conv2d")

    found = {each.name: each for each in kernel.variants}
    assert kernel.variant in ("direct", "halved")
    assert (found["halved"].error or 0) < 1e-6
    assert found["wrong"].cost is None
    assert "its results differ" in str(found["wrong"].reason)
    assert kernel.variant in plan_text(compiled.report.plan)


def test_a_search_with_the_costs_of_a_lock_chooses_the_same_variants(
    compiled: collage.Compiled,
) -> None:
    lock = compiled.lock()

    def replayed(lock: Lock) -> list[tuple[str, float | None]]:
        (found,) = replay(small_convolution(), [spec()], lock, backends=[Varied()])
        assert isinstance(found.plan, collage.Plan)
        return [(each.variant, each.error) for each in found.plan.kernels]

    assert replayed(lock) == [(each.variant, each.error) for each in compiled.plan.kernels]
    assert {variant for variant, _ in replayed(lock)} <= {"direct", "halved"}
    content = json.loads(lock.text())
    for each in content["plans"][0]["costs"]:
        each.pop("variants", None)
    before = Lock.model_validate(content)  # as it was written before locks had them
    assert {variant for variant, _ in replayed(before)} == {""}


def test_what_is_not_worth_measuring_is_measured_where_it_is_asked_for() -> None:
    graph = from_onnx(light_model("squeezenet"))
    found = FusionSpec(Toolchain("tvm"), OpCallByKind()).candidates(graph)
    large = next(each for each in found if each.label == "nn.conv2d" and fits("winograd2", each))

    assert "another is faster" in str(dict(unsuitable(large, Tvm()))["winograd2"])
    assert dict(unsuitable(with_variant(large, "winograd2"), Tvm())) == {"winograd2": None}


def fits(variant: str, candidate: CandidateKernel) -> bool:
    return dict(unsuitable(with_variant(candidate, variant), Tvm()))[variant] is None
