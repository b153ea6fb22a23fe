"""Estimates by the roofline, which need no TVM."""

from math import isnan, nan
from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl.cost import CostStore, Infeasible, Measurement
from collage_dsl.cost.analytic import (
    Rates,
    Work,
    estimate,
    estimates,
    keep,
    kept,
    rates_context,
)
from collage_dsl.graph import CandidateKernel, Graph, Measuring, SubGraph, Toolchain
from collage_dsl.language import parse_graph

RATES = Rates(multiplication=1e-9, near=1e-6, far=1e-3, launch=10.0, cold=100.0)
LIBRARY = Rates(multiplication=2e-9, near=1e-6, far=1e-3, launch=20.0, cold=200.0)


def work(text: str) -> Work:
    graph = parse_graph(f"graph {{ {text} }}")
    return Work.of(graph, graph.calls)


def cost(graph: Graph, toolchain: Toolchain, cache_bytes: int = 1 << 20) -> object:
    rates = {"tvm": RATES, "library": LIBRARY}
    kernel = CandidateKernel(graph, SubGraph(graph.calls), toolchain)
    return estimate(rates.get, cache_bytes)(kernel)


def test_a_product_multiplies_and_moves_its_operands_and_twice_its_result() -> None:
    found = work("x: f32[2, 3]; w = const f32[3, 5]; y = matmul(x, w); return y;")

    assert found == Work(multiplications=30, touched=0, data=24 + 2 * 40, weights=60)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (
            (
                "x: f32[1, 4, 6, 6]; w = const f32[8, 4, 3, 3]; "
                "y = nn.conv2d(x, w) [padding = [1, 1, 1, 1]]; return y;"
            ),
            8 * 36 * 4 * 9,
        ),
        (
            (
                "x: f32[1, 4, 6, 6]; w = const f32[4, 1, 3, 3]; "
                "y = nn.conv2d(x, w) [padding = [1, 1, 1, 1], groups = 4]; return y;"
            ),
            4 * 36 * 9,
        ),
        (
            (
                "x: f32[1, 4, 6, 6]; w = const f32[4, 8, 2, 2]; "
                "y = nn.conv2d_transpose(x, w) [strides = [2, 2]]; return y;"
            ),
            4 * 36 * 8 * 4,
        ),
        (
            (
                "q: f32[1, 5, 2, 16]; k: f32[1, 7, 2, 16]; v: f32[1, 7, 2, 8]; "
                "y = nn.attention(q, k, v); return y;"
            ),
            2 * 5 * 7 * (16 + 8),
        ),
    ],
)
def test_each_weight_is_multiplied_once_for_each_position(text: str, count: int) -> None:
    assert work(text).multiplications == count


def test_other_operators_touch_what_they_take_and_give() -> None:
    one = work("x: f32[8]; y = exp(x); return y;")
    two = work("x: f32[8]; y = exp(x); z = tanh(y); return z;")

    assert (one.touched, two.touched) == (64, 128)
    assert one.data == two.data == 32 + 2 * 32  # Between the two, nothing flows in or out.


def test_a_view_touches_nothing_and_a_pool_all_of_its_windows() -> None:
    view = work("x: f32[2, 4]; y = expand_dims(x) [axis = [0]]; return y;")
    pool = work(
        "x: f32[1, 2, 4, 4]; y = nn.max_pool2d(x) [pool_size = [2, 2], strides = [2, 2]]; return y;"
    )

    assert view.touched == 0
    assert pool.touched == 32 * (1 + 4)


def test_a_look_up_reads_only_what_it_gives() -> None:
    found = work("w = const f32[1000, 8]; i: i64[3]; y = take(w, i) [axis = 0]; return y;")

    assert found.weights == 3 * 8 * 4
    assert found.touched == 2 * 3 * 8 * 4


RARELY = Measuring(runs="rarely")
PRODUCT = parse_graph("graph { x: f32[2, 3]; w = const f32[3, 5]; y = matmul(x, w); return y; }")


@pytest.mark.parametrize(
    ("toolchain", "seconds"),
    [
        (Toolchain("a", measure=RARELY), 100 + (104 + 60) * 1e-3),
        (Toolchain("a", options={"num_cores": 4}, measure=RARELY), 100 + (104 + 60) * 1e-3 / 4),
        (Toolchain("a", measure=Measuring(runs="often")), 10 + (104 + 60) * 1e-6),
        (Toolchain("b", compiler="library", measure=RARELY), 200 + (104 + 60) * 1e-3),
    ],
)
def test_an_estimate_is_the_least_of_a_kernel_and_its_work(
    toolchain: Toolchain, seconds: float
) -> None:
    assert cost(PRODUCT, toolchain) == pytest.approx(seconds)


def test_weights_that_do_not_fit_into_the_caches_come_from_memory() -> None:
    often = Toolchain("a", measure=Measuring(runs="often"))

    assert cost(PRODUCT, often, cache_bytes=59) == pytest.approx(10 + 104e-6 + 60e-3)


def test_arithmetic_counts_where_it_takes_longer_than_what_moves() -> None:
    rates = Rates(multiplication=1.0, near=1e-6, far=1e-6, launch=0, cold=0)
    kernel = CandidateKernel(PRODUCT, SubGraph(PRODUCT.calls), Toolchain("a"))

    assert estimate(lambda backend: rates, 0)(kernel) == 30


@pytest.mark.parametrize(
    ("text", "toolchain"),
    [
        ("x: f32[n]; y = exp(x); return y;", Toolchain("a")),
        ("x: f32[4]; y = exp(x); return y;", Toolchain("a", kind="cuda")),
        ("x: f32[4]; y = exp(x); return y;", Toolchain("a", compiler="another")),
    ],
)
def test_what_cannot_be_estimated_is_not_known(text: str, toolchain: Toolchain) -> None:
    found = cost(parse_graph(f"graph {{ {text} }}"), toolchain)

    assert isinstance(found, float)
    assert isnan(found)


def test_a_backend_without_rates_of_this_machine_gets_the_usual_ones() -> None:
    here, usual = estimates({"tvm": RATES}.get, 0)
    tvm, other = (
        CandidateKernel(
            PRODUCT, SubGraph(PRODUCT.calls), Toolchain("a", compiler=compiler, measure=RARELY)
        )
        for compiler in (None, "other")
    )

    assert (here.name, usual.name) == ("analytic", "analytic (not calibrated)")
    assert here.cost(other) is nan
    assert here.cost(tvm) == pytest.approx(100.164)
    assert usual.cost(other) == estimate(lambda backend: Rates(), 0)(other)


def test_rates_are_kept_for_one_machine_and_backend(tmp_path: Path) -> None:
    with CostStore(tmp_path / "costs.sqlite") as store:
        keep(store, rates_context("Z80", "tvm", "{}"), RATES)
        keep(store, rates_context("Z80", "library"), LIBRARY)

        assert kept(store, rates_context("Z80", "tvm")) == RATES
        assert kept(store, rates_context("Z80", "library")) == LIBRARY
        assert kept(store, rates_context("6502", "tvm")) is None
        keep(store, rates_context("Z80", "tvm"), LIBRARY)
        assert kept(store, rates_context("Z80", "tvm")) == LIBRARY
        key = rates_context("Z80", "tvm").key
        store.put(Measurement("analytic.far", key, "", Infeasible("no memory")))
        assert kept(store, rates_context("Z80", "tvm")) is None


@pytest.mark.engine
def test_a_plan_is_chosen_by_estimates_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = "collage 1; target tvm on llvm { rules combine_by_primitives(op_call_by_kind(), "
    spec = collage.load(text=f"{text} using: tvm_default); }}")["tvm"]
    graph = parse_graph("graph { x: f32[64]; y = exp(x); z = tanh(y); return z; }")
    plan = collage.choose(graph, collage.propose(graph, spec), cost="analytic")

    (kernel,) = plan.kernels
    assert kernel.label == "exp+tanh"
    assert kernel.provenance is not None
    assert kernel.provenance.source == "analytic (not calibrated)"
    assert list(tmp_path.rglob("*.sqlite*")) == []
