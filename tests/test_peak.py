"""The lower bound from what no core can do."""

import pytest

from collage_dsl.cost import Peak
from collage_dsl.engine.steps import choose
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, Toolchain
from collage_dsl.language import parse_graph

ONE = Peak(multiplications=1.0, bytes=1e9, cores=1)
"""Seconds are multiplications, where there are enough of them."""

GRAPH = parse_graph("""
  x: f32[1, 16, 10, 10];
  w = const f32[32, 16, 3, 3];
  c = nn.conv2d(x, w);
  r = nn.relu(c);
  s = nn.softmax(c);
  k = nn.conv2d(w, w);
  return r, s, k;
""")
"""The first result has 32 x 8 x 8 elements, each a sum over 16 channels."""


def bound(peak: Peak, *names: str, target: Toolchain | None = None) -> float:
    toolchain = target or Toolchain("native")
    return peak(CandidateKernel(GRAPH, SubGraph(GRAPH.set_of(*names)), toolchain))


@pytest.mark.parametrize("names", ["c", "cr", "crs"])
def test_half_the_multiplications_without_the_window_are_counted(names: str) -> None:
    assert bound(ONE, *names) == 32 * 8 * 8 * 16 / 2


def test_bytes_that_leave_the_kernel_count_where_they_take_longer() -> None:
    slow = Peak(multiplications=1e12, bytes=1.0, cores=1)

    assert bound(slow, "c") == 32 * 8 * 8 * 4
    assert bound(slow, "c", "r", "s") == pytest.approx(32 * 8 * 8 * 16 / 2 / 1e12)


def test_what_is_made_of_constants_alone_or_not_needed_whole_is_free() -> None:
    assert bound(ONE, "k") == 0
    assert bound(ONE, "c", "s") == bound(ONE, "c")  # The relu outside needs it whole.
    inner = parse_graph(
        "x: f32[1, 4]; w = const f32[4, 4]; c = matmul(x, w); s = sum(c); return s;"
    )
    whole = SubGraph(inner.set_of("c", "s"))
    assert ONE(CandidateKernel(inner, whole, Toolchain("native"))) == 0


def test_cores_and_targets_count() -> None:
    two = Toolchain("native", options={"num_cores": 2})

    assert bound(ONE, "c", target=two) == bound(ONE, "c") / 2
    assert bound(ONE, "c", target=Toolchain("gpu", kind="cuda")) == 0


def test_a_matrix_product_is_summed_over_the_last_axis() -> None:
    graph = parse_graph("a: f32[2, 3, 5]; b: f32[5, 7]; y = matmul(a, b); return y;")
    kernel = CandidateKernel(graph, SubGraph(graph.set_of("y")), Toolchain("native"))

    assert ONE(kernel) == 2 * 3 * 7 * 5 / 2


def test_unknown_shapes_cost_nothing() -> None:
    graph = parse_graph("a: f32[n, 3]; b: f32[3, 7]; y = matmul(a, b); return y;")
    kernel = CandidateKernel(graph, SubGraph(graph.set_of("y")), Toolchain("native"))

    assert ONE(kernel) == 0


def test_the_default_is_far_above_what_one_core_does() -> None:
    assert 0 < bound(Peak(cores=1), "c") < 1e-7


def test_a_kernel_that_cannot_be_fast_enough_is_never_measured() -> None:
    graph: Graph = parse_graph("x: f32[8, 8]; w: f32[8, 8]; y = matmul(x, w); return y;")
    kernels = [
        CandidateKernel(graph, SubGraph(graph.calls), Toolchain(name, options={"num_cores": cores}))
        for name, cores in (("one", 1), ("four", 4))
    ]
    asked = []

    def cost(kernel: CandidateKernel) -> float:
        asked.append(kernel.target)
        return 100.0

    plan = choose(graph, kernels, cost=cost, lower_bound=ONE)

    assert asked == ["four"]
    assert plan.kernels[0].target == "four"
    assert plan.record is not None
    assert plan.record.never_asked == 1
