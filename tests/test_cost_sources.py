"""Costs that one source does not know, and another does."""

from collections.abc import Mapping, Sequence
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.cost import (
    Cost,
    CostError,
    CostFunction,
    CostSources,
    CostTable,
    Infeasible,
    TableError,
)
from collage_dsl.graph import CandidateKernel
from collage_dsl.language import parse_graph
from collage_dsl.rules import FusionSpec
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
    with pytest.raises(TableError, match="cannot read the cost table"):
        chosen([lambda kernel: 1.0, tmp_path / "none.yaml"])


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
