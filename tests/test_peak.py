"""The lower bound from what no core can do."""

from math import inf

import pytest

from collage_dsl.cost import Peak
from collage_dsl.cost.traffic import bytes_of
from collage_dsl.engine.steps import choose
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, TensorType, Toolchain
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


def test_constants_of_constants_are_free_too() -> None:
    graph = parse_graph("""
      x: f32[4, 4]; w = const f32[4, 4];
      v = nn.relu(w); c = matmul(v, w); d = matmul(x, c);
      return d;
    """)
    kernel = CandidateKernel(graph, SubGraph(graph.set_of("v", "c", "d")), Toolchain("native"))
    made = CandidateKernel(graph, SubGraph(graph.set_of("c")), Toolchain("native"))

    assert ONE(kernel) == 4 * 4 * 4 / 2
    assert ONE(made) == 4 * 4 * 4 / 2, "here `v` comes from another kernel"


def moved(text: str, *names: str) -> float:
    """The bytes that a kernel reads and writes at the least."""
    graph = parse_graph(text)
    inside = graph.set_of(*names) if names else graph.computed
    kernel = CandidateKernel(graph, SubGraph(inside), Toolchain("native"))
    return Peak(multiplications=inf, bytes=inf, memory=1.0, cores=1)(kernel)


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("x: f32[8, 3]; y = nn.relu(x); return y;", 24 + 48),
        ("x: f32[8, 3]; z: f32[3]; y = add(x, z); return y;", 24 + 3 + 48),
        ("x: f32[8, 3]; y = add(x, x); return y;", 24 + 48),
        ("x: f32[8, 3]; z = const f32[3]; y = add(x, z); return y;", 24 + 48),
        ("x: f32[8, 3]; y = sum(x) [axis = 1]; return y;", 24 + 16),
        ("x: f32[8, 3]; w = const f32[3, 5]; y = matmul(x, w); return y;", 24 + 15 + 80),
        ("x: f32[8, 3]; z: f32[3, 5]; y = matmul(x, z); return y;", 24 + 15 + 80),
        ("x: f32[8, 3]; z: f32[2, 3]; t = (x, z); y = concat(t); return y;", 0),
        # Of these an element may not be read, or what comes out is what came in.
        ("x: f32[8, 3]; y = zeros_like(x); return y;", 0),
        ("x: f32[8, 3]; y = reshape(x, [3, 8]); return y;", 0),
        ("x: f32[8, 3]; y = nn.dropout(x); y0 = y.0; return y0;", 0),
        ("x: f32[8, 3]; y = strided_slice(x, [0], [0], [2]); return y;", 0),
        ("x: f32[8, 3]; y = astype(x) [dtype = f32]; return y;", 0),
        ("x: f32[8, 1]; y = squeeze(x); return y;", 0),
        ("x: f32[n, 3]; y = nn.relu(x); return y;", 0),
        ("x: f32[1, 3, n, 8]; y: f32[1, 3, 4, 4] = nn.max_pool2d(x); return y;", 2 * 3 * 16),
        ("x: f32[1, 3, 0, 8]; y: f32[1, 3, 0, 8] = nn.max_pool2d(x); return y;", 0),
        ("w = const f32[3, 5]; y = nn.relu(w); return y;", 0),
    ],
)
def test_what_is_read_and_written_counts_against_memory(text: str, elements: int) -> None:
    assert moved(text) == 4 * elements


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("float64", 64), ("float8_e4m3fn", 8), ("bfloat16", 16), ("int4", 4), ("bool", 8)],
)
def test_numbers_take_as_many_bytes_as_their_type_says(dtype: str, bits: int) -> None:
    assert bytes_of(TensorType(dtype, (6, 4))) == 24 * bits // 8


@pytest.mark.parametrize(
    ("attributes", "read", "written"),
    [
        ("", 10 * 10, 8 * 8),
        ("padding = 1", 10 * 10, 10 * 10),
        ("padding = 1, strides = 2", 9 * 9, 5 * 5),
        ("strides = 3", 9 * 9, 3 * 3),
        ("strides = 4", 0, 2 * 2),
        ("dilation = 2", 0, 6 * 6),
        ('data_layout = "NHWC", kernel_layout = "HWIO"', 10 * 10, 8 * 8),
        ('data_layout = "NHWC", kernel_layout = "HWIO", out_layout = "NCHW"', 0, 8 * 8),
    ],
)
def test_windows_read_what_they_cover(attributes: str, read: int, written: int) -> None:
    """What may be padding, or is beyond the last window, is not counted."""
    data, weight = (
        ("[1, 10, 10, 4]", "[3, 3, 4, 2]")
        if "NHWC" in attributes
        else ("[1, 4, 10, 10]", "[2, 4, 3, 3]")
    )
    text = f"x: f32{data}; w = const f32{weight}; y = nn.conv2d(x, w) [{attributes}]; return y;"
    assert moved(text.replace(" []", "")) == 4 * (4 * read + 2 * 4 * 9 + 2 * 2 * written)


def test_pools_read_what_their_windows_cover() -> None:
    text = "x: f32[1, 4, 10, 10]; y = nn.max_pool2d(x) [pool_size = 3, strides = {}]; return y;"

    assert moved(text.format(3)) == 4 * 4 * (9 * 9 + 2 * 3 * 3)
    assert moved(text.format(4)) == 4 * 4 * 2 * 2 * 2


def test_what_stays_in_the_kernel_is_not_moved() -> None:
    text = "x: f32[8]; y = nn.relu(x); z = exp(y); s = sum(z); return s, x;"

    assert moved(text, "y", "z") == 4 * (8 + 2 * 8)
    assert moved(text, "y", "z", "s") == 4 * 2, (
        "of what is summed, nobody knows what has to be read"
    )


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
    assert plan.record.never_priced == 1
