"""How much memory a model uses, and how much of it is displaced while a kernel is timed."""

import pytest

from collage_dsl.graph import CandidateKernel, SubGraph, Toolchain, extract
from collage_dsl.language import parse_graph
from collage_dsl.measuring import footprint as measuring_footprint
from collage_dsl.measuring.footprint import Distances, displaced, footprint

MIB = 1 << 20


def test_a_model_uses_its_constants_and_what_its_largest_call_takes_and_gives() -> None:
    graph = parse_graph(
        "x: f32[256]; w = const f32[100]; a = exp(x); b = sum(a)[axis = [0]]; y = add(b, w);"
        " return y;"
    )

    assert footprint(graph, {}) == 4 * (100 + 256 + 256)


def test_a_constant_that_nothing_uses_does_not_count() -> None:
    graph = parse_graph("x: f32[8]; w = const f32[1000]; y = exp(x); return y;")

    assert footprint(graph, {}) == 4 * 16


@pytest.mark.parametrize(
    ("uses", "displaces"),
    [
        (10, 1 * MIB),
        (1 * MIB, 1 * MIB),
        (5 * MIB, 8 * MIB),
        (16 * MIB, 16 * MIB),
        (17 * MIB, 28 * MIB),
        (44 * MIB, 28 * MIB),
        (500 * MIB, 28 * MIB),
    ],
)
def test_a_model_displaces_about_what_it_uses_and_not_all_of_the_cache(
    uses: int, displaces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring_footprint, "last_level_cache_bytes", lambda: 32 * MIB)

    assert displaced(uses) == displaces


def test_the_cache_of_another_machine_may_be_given() -> None:
    assert displaced(3 * MIB, 8 * MIB) == 4 * MIB
    assert displaced(5 * MIB, 8 * MIB) == 7 * MIB
    assert displaced(20 * MIB, 4 * MIB) == 7 * MIB // 2


@pytest.mark.parametrize(
    ("names", "far"),
    [
        (["a"], ("operands", "results")),
        (["a", "b"], ("operands", "results")),
        (["b"], ()),
        (["c"], ("results",)),
        (["c", "d"], ("results",)),
        (["d"], ()),
        (["e"], ("operands",)),
        (["f"], ()),
    ],
)
def test_inputs_of_a_model_are_far_and_results_that_need_new_memory(
    names: list[str], far: tuple[str, ...]
) -> None:
    graph = parse_graph(
        """
        x: f32[4, 4]; w = const f32[4, 64];
        a = nn.relu(x); b = exp(a); c = matmul(b, w); d = nn.relu(c); e = exp(x); f = add(e, b);
        return d, f;
        """
    )
    kernel = SubGraph(graph.set_of(*names))

    found = Distances(graph, {}).far(
        CandidateKernel(graph, kernel, Toolchain("t")), extract(graph, kernel.inside)
    )
    assert found == far
