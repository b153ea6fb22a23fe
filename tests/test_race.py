"""Which of several plans is kept, by their times; and which plans are raced."""

import random
from dataclasses import replace

import pytest

from collage_dsl.cost import Cost
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.race import Contender, Series, document, kept
from collage_dsl.engine.steps import (
    MIXED,
    MOST_PLANS,
    REFINED,
    is_of_all_targets,
    mixed_name,
    mixed_rank,
    searched,
)
from collage_dsl.graph import CandidateKernel
from collage_dsl.measuring.timing import low
from collage_dsl.report.documents import (
    CompileDocument,
    ContenderDocument,
    LatencyDocument,
    MeasurementsDocument,
    PlanDocument,
    RaceDocument,
    RefinementDocument,
)
from collage_dsl.report.text import compile_text
from collage_dsl.rules import FusionSpec, OpCallByKind
from collage_dsl.search import Plan, PlannedKernel
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of

NAMES = [f"n{i}" for i in range(4)]
CHAIN = graph_of({n: [NAMES[i - 1] if i else "x"] for i, n in enumerate(NAMES)}, [NAMES[-1]])
MARGIN = 0.02
SPECS = [FusionSpec(NATIVE, OpCallByKind()), FusionSpec(LIBRARY, OpCallByKind())]


def series(middle: float, count: int = 100, width: float = 0.1) -> Series:
    """Times around `middle` that differ by at most a part of it."""
    generator = random.Random(count)
    return Series(tuple(middle * generator.uniform(1 - width, 1 + width) for _ in range(count)))


def contender(name: str, estimated: float) -> Contender:
    plan = Plan(CHAIN, (PlannedKernel(candidate(CHAIN, *NAMES), estimated),))
    return Contender(name, plan, None)


def of_two_targets(estimated: float, priority: int = 0) -> Contender:
    """A contender that gives half of the chain to a library of some `priority`."""
    halves = (
        candidate(CHAIN, *NAMES[:2]),
        candidate(CHAIN, *NAMES[2:], target=replace(LIBRARY, priority=priority)),
    )
    plan = Plan(CHAIN, tuple(PlannedKernel(half, estimated / 2) for half in halves))
    return Contender("mixed", plan, None)


@pytest.mark.parametrize("count", [1, 2, 5, 20, 200])
def test_the_interval_is_of_times_and_has_the_percentile_of_these(count: int) -> None:
    times = series(1.0, count)

    assert set(times.interval) <= set(times.times)
    assert times.interval[0] <= low(times.times) <= max(times.interval[1], low(times.times))


def test_more_runs_make_the_interval_smaller() -> None:
    widths = [last - first for first, last in (series(1.0, n).interval for n in (20, 100, 400))]

    assert widths == sorted(widths, reverse=True)


def test_the_fastest_contender_is_kept_where_it_is_so_for_certain() -> None:
    raced = [(contender("mixed", 1.0), series(2.0)), (contender("tvm", 5.0), series(1.0))]

    assert kept(raced, MARGIN).name == "tvm"


def test_of_contenders_that_may_be_as_fast_that_with_the_least_estimate_is_kept() -> None:
    raced = [
        (contender("tvm", 3.0), series(1.0)),
        (contender("mixed", 1.0), series(1.01)),
        (contender("onnxruntime", 0.5), series(3.0)),
    ]

    assert kept(raced, MARGIN).name == "mixed"
    assert kept(raced[::-1], MARGIN).name == "mixed"


def test_contenders_within_the_noise_margin_are_as_fast() -> None:
    raced = [(contender("tvm", 3.0), Series((1.0,) * 50))]
    raced.append((contender("mixed", 1.0), Series((1.015,) * 50)))

    assert kept(raced, MARGIN).name == "mixed"
    assert kept(raced, 0.01).name == "tvm"


def test_a_few_slow_runs_do_not_make_a_slow_plan_as_fast() -> None:
    fast = Series((1.0,) * 9 + (3.0,))
    raced = [(contender("mixed", 1.0), Series((2.0,) * 10)), (contender("tvm", 5.0), fast)]

    assert kept(raced, MARGIN).name == "tvm"


def test_of_equal_ones_the_first_is_kept() -> None:
    times = series(1.0)
    raced = [(contender("mixed", 1.0), times), (contender("tvm", 1.0), times)]

    assert kept(raced, MARGIN).name == "mixed"


def test_of_contenders_as_fast_and_estimated_so_that_of_the_fewest_targets_is_kept() -> None:
    times = series(1.0)
    raced = [(of_two_targets(1.0), times), (contender("tvm", 1.01), times)]

    assert kept(raced, MARGIN).name == kept(raced[::-1], MARGIN).name == "tvm"
    assert kept(raced, 0.005).name == "mixed"
    assert kept([(of_two_targets(1.0, priority=1), times), raced[1]], MARGIN).name == "mixed"


def test_noise_does_not_change_what_is_kept() -> None:
    one, other = contender("mixed", 1.0), contender("tvm", 2.0)
    generator = random.Random(3)

    def times() -> Series:
        return Series(tuple(generator.gauss(1.0, 0.05) for _ in range(50)))

    found = [kept([(one, times()), (other, times())], MARGIN).name for _ in range(300)]

    assert found.count("mixed") > 0.95 * len(found)


def test_the_error_of_the_estimate_is_reported() -> None:
    times = Series((2.0,) * 10)

    found = document(contender("mixed 2", 1.5), times, [times, Series((1.0,) * 10)], MARGIN)

    assert found == ContenderDocument(
        name="mixed 2",
        alone=False,
        targets={"native": {"operators": 4, "kernels": 1}},  # type: ignore[dict-item]
        estimated=1.5,
        measured=LatencyDocument(seconds=2.0, spread=0.0, runs=10),
        error=-0.25,
        interval=(2.0, 2.0),
        tied=False,
    )


def test_a_plan_that_was_not_built_has_no_error() -> None:
    missing = replace(contender("tvm", 1.0), plan=None, reason="no kernel for `n1`")
    found = document(missing, None, [], MARGIN)

    assert (found.error, found.interval, found.tied) == (None, None, False)
    assert found.alone
    assert found.reason == "no kernel for `n1`"


def cost(kernel: CandidateKernel) -> Cost:
    (name,) = kernel.nodes
    return 1.0 if kernel.target == NATIVE.name else 1.1 + 0.01 * NAMES.index(name)


def test_the_next_best_plans_come_after_the_best_one() -> None:
    plans = searched(CHAIN, SPECS, cost, lookup(), count=3).plans

    assert list(plans) == ["mixed", "mixed 2", "mixed 3", "native", "library"]
    found = [plans[name] for name in ("mixed", "mixed 2", "mixed 3")]
    targets = [[k.target for k in plan.kernels] for plan in found if isinstance(plan, Plan)]
    assert targets == [
        ["native"] * 4,
        ["library", "native", "native", "native"],
        ["native", "library", "native", "native"],
    ]


def test_the_plan_of_a_single_target_is_not_among_the_next_best() -> None:
    graph = graph_of({"a": ["x"]}, ["a"])

    plans = searched(
        graph, SPECS, lambda k: 1.0 if k.target == "native" else 1.1, lookup(), count=3
    ).plans

    assert list(plans) == ["mixed", "native", "library"]


def test_one_plan_over_all_targets_is_found_unless_more_are_wanted() -> None:
    assert list(searched(CHAIN, SPECS, cost, lookup()).plans) == ["mixed", "native", "library"]


def test_plans_over_all_targets_have_names_of_their_own() -> None:
    names = [mixed_name(rank) for rank in range(1, MOST_PLANS + 1)]

    assert [mixed_rank(name) for name in names] == list(range(1, MOST_PLANS + 1))
    assert all(map(is_of_all_targets, [*names, MIXED, REFINED]))
    for other in ("native", "mixed 1", "mixed 99", "mixed x", "mixed2", "unmixed"):
        assert not is_of_all_targets(other)


def report(chosen: str, *raced: tuple[str, float, float]) -> RaceDocument:
    """A race of contenders with these names, estimates and times."""
    every = [Series((time,) * 20) for _, _, time in raced]
    rows = [
        document(contender(name, estimated), times, every, MARGIN)
        for (name, estimated, _), times in zip(raced, every, strict=True)
    ]
    plan = PlanDocument(model="m", operators=4, cost=1.0, kernels=[])
    counts = MeasurementsDocument(found=0, measured=0, reused=0, infeasible=0, reasons={})
    return RaceDocument(
        chosen=chosen,
        plan=plan,
        contenders=rows,
        verification=None,
        measurements=counts,
        launch={},
    )


def said(race: RaceDocument) -> str:
    return compile_text(CompileDocument(model="m", **dict(race)))


def test_the_text_shows_the_error_and_which_plans_are_as_fast() -> None:
    text = said(report("mixed", ("mixed", 0.9, 1.0), ("mixed 2", 1.3, 1.0), ("native", 3.0, 2.0)))

    assert [" ".join(line.split()) for line in text.splitlines()[2:6]] == [
        "plan operators in kernels estimated measured error spread",
        "mixed native 4 in 1 900.00 ms 1.00 s -10% 0.0 us <- kept",
        "mixed 2 native 4 in 1 1.30 s 1.00 s +30% 0.0 us as fast",
        "native alone native 4 in 1 3.00 s 2.00 s +50% 0.0 us",
    ]
    assert "kept the mixed plan: 1.00 s, 50% less than native alone\n" in text


def test_the_text_does_not_call_a_plan_faster_that_may_not_be() -> None:
    text = said(report("mixed", ("mixed", 0.9, 1.0), ("native", 3.0, 1.0)))

    assert "kept the mixed plan: 1.00 s; native alone is as fast, as far as the race" in text


def test_the_text_says_what_a_refinement_has_tried_and_gained() -> None:
    one, other = (LatencyDocument(seconds=s, spread=0.1, runs=9) for s in (1.0, 0.8))
    refinement = RefinementDocument(
        method="evolutionary",
        budget=60,
        run=7,
        known=2,
        failed=1,
        kept=True,
        before=one,
        after=other,
        state="s.json",
    )
    race = report("refined", ("native", 1.0, 1.0), ("refined", 0.9, 0.8))
    texts = [
        said(race.model_copy(update={"refinement": refinement.model_copy(update=changed)}))
        for changed in (
            {},
            {"kept": False},
            {"before": None, "failed": 0, "known": 0, "run": 1},
            {"before": None, "failed": 0, "known": 0, "run": 0, "complete": True},
        )
    ]

    counted = "refined for 60 s: 7 plans run, 2 known before, 1 could not be built"
    assert f"{counted}; 1.00 s before, 800.00 ms after, in alternation\n" in texts[0]
    assert "kept the refined plan: 800.00 ms\n" in texts[0]
    assert "in alternation: not faster for certain, so not kept\n" in texts[1]
    assert "refined for 60 s: 1 plan run; none was faster\n" in texts[2]
    ended = "refined until no other plan was found, in less than 60 s"
    assert f"{ended}: 0 plans run; none was faster\n" in texts[3]
