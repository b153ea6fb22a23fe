"""Costs that one source does not know, and another does."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.cost import (
    NOWHERE,
    Cost,
    CostError,
    CostFunction,
    CostSources,
    CostTable,
    Infeasible,
    Offered,
    Provenance,
    Source,
    SourceError,
    Sources,
    TableError,
    UnknownSource,
    only,
)
from collage_dsl.engine.compile import backends_of
from collage_dsl.engine.costs import Pricing
from collage_dsl.graph import CandidateKernel
from collage_dsl.language import parse_graph
from collage_dsl.rules import FusionSpec
from tests.declared import declare
from tests.models import small_convolution

GRAPH = parse_graph("graph { x: f32[4]; y = exp(x); z = tanh(y); return z; }")
SPEC = collage.load(
    text="""
    collage 1;
    target tvm on llvm {
      rules combine_by_primitives(op_call_by_kind(), using: [join_anything], max_nodes: 2);
      after max_coalesce();
    }
    """
)["tvm"]

NATIVE = collage.load(text="collage 1; target tvm on llvm { rules op_call_by_kind(); }")["tvm"]


def by_label(costs: Mapping[str, Cost]) -> CostFunction:
    """Knows the costs of these kernels and of no other."""
    return lambda kernel: costs.get(kernel.label, nan)


def table(folder: Path, text: str) -> Path:
    path = folder / "costs.yaml"
    path.write_text(text)
    return path


def chosen(cost: CostSources, spec: FusionSpec = SPEC) -> list[tuple[str, float]]:
    found = collage.propose(GRAPH, spec)
    plan = collage.choose(GRAPH, found, cost=cost, merge=[spec])
    return [(kernel.label, kernel.cost) for kernel in plan.kernels]


def test_the_first_source_that_knows_a_cost_gives_it() -> None:
    first = by_label({"exp": 1.0})
    second = by_label({"exp": 9.0, "tanh": 2.0, "exp+tanh": 4.0})

    assert chosen([first, second]) == [("exp", 1.0), ("tanh", 2.0)]
    assert chosen([second, first]) == [("exp+tanh", 4.0)]


def test_a_source_is_asked_only_for_what_those_before_it_do_not_know() -> None:
    asked: list[str] = []

    def second(kernel: CandidateKernel) -> Cost:
        asked.append(kernel.label)
        return 2.0

    chosen([by_label({"exp": 1.0, "exp+tanh": Infeasible("too large")}), second])

    assert asked == ["tanh"]


def test_a_kernel_that_no_source_knows_is_named() -> None:
    with pytest.raises(CostError, match=r"no source knows the cost of exp\+tanh on tvm"):
        chosen([by_label({"exp": 1.0}), by_label({"tanh": 1.0})])


def test_a_merged_kernel_that_no_source_knows_is_named() -> None:
    spec = collage.load(
        text="collage 1; target tvm on llvm { rules op_call_by_kind(); after max_coalesce(); }"
    )["tvm"]
    known = {"exp": 1.0, "tanh": 1.0}

    with pytest.raises(CostError, match=r"no source knows the cost of exp\+tanh on tvm"):
        chosen(by_label(known), spec)
    assert chosen([by_label(known), lambda kernel: 1.5], spec) == [("exp+tanh", 1.5)]


def test_numpy_has_unknown_costs_too() -> None:
    answers = [np.float32(nan), np.float64(nan)]

    for unknown in answers:
        assert chosen([lambda kernel, unknown=unknown: unknown, lambda kernel: 1.0]) == [
            ("exp+tanh", 1.0)
        ]


@pytest.mark.parametrize("wrong", [inf, -1.0])
def test_what_is_no_cost_is_not_asked_of_the_next_source(wrong: float) -> None:
    with pytest.raises(CostError, match=f"the cost of exp on tvm is {wrong}"):
        chosen([lambda kernel: wrong if kernel.label == "exp" else 1.0, lambda kernel: 1.0])


def test_a_table_alone_says_that_a_kernel_without_a_price_is_infeasible(tmp_path: Path) -> None:
    path = table(tmp_path, "tvm: {ops: {exp: 1.0}}")
    found = collage.propose(GRAPH, SPEC)

    for cost in (path, str(path), CostTable.load(path)):
        with pytest.raises(collage.NoPlanError, match="no target has a kernel for `z`"):
            collage.choose(GRAPH, found, cost=cost)


def test_a_table_among_sources_does_not_know_a_kernel_without_a_price(tmp_path: Path) -> None:
    path = table(tmp_path, "tvm: {ops: {exp: 1.0}}")
    last = by_label({"exp": 9.0, "tanh": 2.0, "exp+tanh": 4.0})
    several: Sequence[CostSources] = [[path, last], [str(path), last], [CostTable.load(path), last]]

    for cost in several:
        assert chosen(cost) == [("exp", 1.0), ("tanh", 2.0)]
    with pytest.raises(CostError, match="no source knows the cost of tanh on tvm"):
        chosen([path, by_label({"exp+tanh": 9.0})])


def test_a_source_that_is_no_file_is_an_error_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"none\.yaml: there is no such file$"):
        chosen([lambda kernel: 1.0, tmp_path / "none.yaml"])


# What a kernel of a plan says of where its cost came from.


def came_from(cost: CostSources, spec: FusionSpec = NATIVE) -> list[Provenance | None]:
    plan = collage.choose(GRAPH, collage.propose(GRAPH, spec), cost=cost)
    return [kernel.provenance for kernel in plan.kernels]


def test_each_kernel_says_which_source_gave_its_cost(tmp_path: Path) -> None:
    path = table(tmp_path, "tvm: {ops: {exp: 1.0}}")

    def last(kernel: CandidateKernel) -> float:
        return {"tanh": 2.0}.get(kernel.label, 9.0)

    dated = Source("a file", lambda kernel: 2.0, lambda kernel: "2026-11-24 10:00:00")

    assert came_from([path, last]) == [Provenance(f"table {path}"), Provenance("last")]
    assert came_from([path, dated])[1] == Provenance("a file", "2026-11-24 10:00:00")
    assert came_from(by_label({"exp": 1.0, "tanh": 1.0, "exp+tanh": 3.0})) == [
        Provenance("function"),
        Provenance("function"),
    ]


def test_a_merged_kernel_says_it_too() -> None:
    spec = collage.load(
        text="collage 1; target tvm on llvm { rules op_call_by_kind(); after max_coalesce(); }"
    )["tvm"]
    sources: CostSources = [by_label({"exp": 1.0, "tanh": 1.0}), Source("regions", lambda k: 1.5)]
    plan = collage.choose(GRAPH, collage.propose(GRAPH, spec), cost=sources, merge=[spec])

    assert [kernel.provenance for kernel in plan.kernels] == [Provenance("regions")]


NOTHING = Offered(lambda: NOWHERE, lambda path: NOWHERE, lambda: ())


def test_several_kernels_are_asked_of_each_source_for_what_is_left() -> None:
    heard: list[list[str]] = []
    asked: list[str] = []

    def second(kernel: CandidateKernel) -> Cost:
        asked.append(kernel.label)
        return 2.0

    timed = Source("timed", second, ahead=lambda kernels: heard.append([k.label for k in kernels]))
    sources = Sources.of([by_label({"exp": 1.0}), timed], NOTHING)
    found = collage.propose(GRAPH, SPEC)
    sources.ahead(found)

    assert heard == [["exp+tanh", "tanh"]]
    assert [sources(kernel) for kernel in found] == [1.0, 2.0, 2.0]
    assert asked == ["exp+tanh", "tanh"]
    sources.ahead(found)
    assert len(heard) == 1


def test_times_are_asked_for_again_when_kernels_were_compared() -> None:
    times = iter([1.0, 2.0])
    sources = Sources(
        [
            Source("function", by_label({"exp": 5.0})),
            Source("timed", lambda kernel: next(times), is_timed=True),
        ]
    )
    tanh, exp = (
        next(each for each in collage.propose(GRAPH, SPEC) if each.label == label)
        for label in ("tanh", "exp")
    )

    assert [sources(tanh), sources(tanh), sources(exp)] == [1.0, 1.0, 5.0]
    sources.refresh()
    assert [sources(tanh), sources(exp)] == [2.0, 5.0]
    assert sources.provenance(tanh) == Provenance("timed")


def test_what_comes_after_nowhere_is_not_asked() -> None:
    found = collage.propose(GRAPH, SPEC)
    sources = Sources([NOWHERE, Source("late", lambda kernel: 1.0, ahead=lambda kernels: None)])

    unknown = sources(found[0])
    assert isinstance(unknown, Infeasible)
    assert unknown.reason.startswith("no source of costs knows its cost; with `measured` as")
    assert not sources.looks_ahead


def test_sources_alone_make_infeasible_what_they_do_not_know(tmp_path: Path) -> None:
    path = table(tmp_path, "tvm: {ops: {exp: 1.0}}")

    assert only([path]) == path
    assert only(["recorded"]) == ["recorded", NOWHERE]
    with pytest.raises(collage.NoPlanError, match="no target has a kernel for `z`"):
        chosen(only([path, by_label({"exp": 9.0})]))


# Sources by name.


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "analitic",
            (
                "no file and no source of costs is named `analitic` (did you mean `analytic`?); "
                "known are `analytic`, `measured`, `recorded`"
            ),
        ),
        ("x", "is named `x`; known are"),
    ],
)
def test_a_misspelt_source_is_pointed_at(name: str, said: str) -> None:
    with pytest.raises(UnknownSource) as error:
        chosen(name)

    assert said in str(error.value)


def test_a_table_may_have_the_name_of_a_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("analytic").write_text("tvm: {ops: {'*': 1.0}}")
    Path("prices").write_text("tvm: {ops: {'*': 1.0}}")

    assert came_from("./analytic")[0] == Provenance("table analytic")
    assert came_from(Path("analytic"))[0] == Provenance("table analytic")
    assert came_from("prices")[0] == Provenance("table prices")


def test_a_store_that_is_not_there_is_an_error_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read the cost store .*: there is no such file"):
        chosen([tmp_path / "none.sqlite"])

    assert list(tmp_path.iterdir()) == []


MINE = """
from math import nan
from collage_dsl.cost import Infeasible
number = 3

def mine(kernel):
    known = {"exp": 1.0, "tanh": nan, "exp+tanh": Infeasible("too large")}
    return known[kernel.label]
"""


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"mine": "mine", "number": "number", "gone": "gone"}
    declare(monkeypatch, tmp_path / "site", MINE, points)


@pytest.mark.usefixtures("declared")
def test_a_package_declares_a_source_by_name() -> None:
    assert chosen(["mine", lambda kernel: 2.0]) == [("exp", 1.0), ("tanh", 2.0)]
    assert came_from(["mine", lambda kernel: 2.0]) == [Provenance("mine"), Provenance("function")]
    with pytest.raises(CostError, match="no source knows the cost of tanh on tvm"):
        chosen("mine")
    with pytest.raises(UnknownSource, match="did you mean `mine`"):
        chosen("mind")


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("number", r"the source of costs `number` \(pricing:number\) is no function: 3"),
        ("gone", r"cannot load the source of costs `gone` \(pricing:gone\): .* 'gone'"),
    ],
)
def test_a_declared_source_that_cannot_be_used_says_why(name: str, said: str) -> None:
    with pytest.raises(SourceError, match=said):
        chosen(name)


# What was measured before.


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that has the cost of `exp`, of 3 s, and of no other kernel of `GRAPH`."""
    path = tmp_path_factory.mktemp("store") / "costs.sqlite"
    exp, _ = collage.propose(GRAPH, NATIVE)
    with ExitStack() as stack:
        cost = Pricing(stack, backends_of([NATIVE]), path).measuring()
        assert 0 <= cost(exp) < 1
        contexts = {each.context.key: each.context for each in cost.store.known()}
        (kernel,) = (m for m in cost.store.measurements(contexts.keys()) if m.label == "exp")
        cost.store.remove([kernel.context])
        old = replace(kernel, cost=3.0, measured_at="2026-11-20 10:00:00")
        cost.store.add([contexts[kernel.context]], [old])
    return path


def test_a_store_knows_what_was_measured_and_nothing_else(measured: Path) -> None:
    plan = collage.choose(GRAPH, collage.propose(GRAPH, NATIVE), cost=[measured, lambda k: 1.0])

    assert [(kernel.label, kernel.cost) for kernel in plan.kernels] == [("exp", 3.0), ("tanh", 1.0)]
    assert [kernel.provenance for kernel in plan.kernels] == [
        Provenance(f"recorded {measured}", "2026-11-20 10:00:00"),
        Provenance("function"),
    ]


def test_the_words_stand_for_the_store_of_this_user(
    measured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    found = collage.propose(GRAPH, NATIVE)
    with pytest.raises(CostError, match="no source knows the cost of exp"):
        collage.choose(GRAPH, found, cost="recorded")

    plan = collage.choose(GRAPH, found, cost=[measured, "measured"])
    again = collage.choose(GRAPH, found, cost=["recorded", lambda kernel: 5.0])

    tanh = plan.kernels[1]
    assert 0 <= tanh.cost < 1
    assert tanh.provenance is not None
    assert tanh.provenance.source == "measured"
    (kept,) = tmp_path.rglob("costs.sqlite")
    date = tanh.provenance.measured_at
    assert [kernel.cost for kernel in again.kernels] == [5.0, tanh.cost]
    assert again.kernels[1].provenance == Provenance(f"recorded {kept}", date)


# In `compile` and the pass, what no source knows is measured.


def test_compile_measures_what_no_source_knows(tmp_path: Path) -> None:
    store = tmp_path / "costs.sqlite"
    cost = by_label({"nn.conv2d": 1e-6})
    spec = collage.load(text="collage 1; target tvm on llvm { rules op_call_by_kind(); }")["tvm"]
    compiled = collage.compile(
        small_convolution(), [spec], cost=cost, store=store, race_seconds=0.01
    )

    costs = {kernel.label: kernel.cost for kernel in compiled.plan.kernels}
    assert costs["nn.conv2d"] == 1e-6
    assert all(0 < each < 1 for each in costs.values())
    assert compiled.report.measurements.measured == len(compiled.plan.kernels) - 1


def test_compile_opens_no_store_where_all_costs_are_known(tmp_path: Path) -> None:
    store = tmp_path / "costs.sqlite"
    spec = collage.load(text="collage 1; target tvm on llvm { rules op_call_by_kind(); }")["tvm"]
    costs = table(tmp_path, 'tvm: {ops: {"*": 1.0e-6}}')
    compiled = collage.compile(
        small_convolution(), [spec], cost=[costs], store=store, race_seconds=0.01
    )

    assert compiled.report.measurements.found == 0
    assert not store.exists()
