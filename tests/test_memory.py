"""The cyclic garbage collector has its usual settings again after a plan is made."""

import gc
from collections.abc import Iterator

import pytest

import collage_dsl as collage
from collage_dsl.memory import seldom_collected, uncollected
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.graphs import NATIVE, graph_of

Settings = tuple[bool, tuple[int, int, int]]


def settings() -> Settings:
    return gc.isenabled(), gc.get_threshold()


@pytest.fixture(params=[(700, 10, 10), (700, 10, 10_000), (0, 10, 10)])
def usual(request: pytest.FixtureRequest) -> Iterator[Settings]:
    before = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield settings()
    gc.set_threshold(*before)


def test_settings_are_those_of_before_after_each_block(usual: Settings) -> None:
    with seldom_collected():
        inside = settings()
        with uncollected():
            assert not gc.isenabled()
        assert settings() == inside
        with pytest.raises(KeyError), seldom_collected():
            raise KeyError
        assert settings() == inside

    assert settings() == usual
    assert inside[1][2] == usual[1][2]
    assert (inside[1][0] > usual[1][0]) == (usual[1][0] > 0)  # who turned it off has it off


def test_settings_are_those_of_before_after_a_plan(usual: Settings) -> None:
    graph = graph_of({"a": ["x"], "b": ["a"]}, ["b"])
    found = collage.propose(graph, FusionSpec(NATIVE, OpCallByKind()))
    seen = []

    def cost(kernel: collage.CandidateKernel) -> float:
        seen.append(settings())
        return 1.0

    collage.choose(graph, found, cost=cost)
    with pytest.raises(ZeroDivisionError):
        collage.choose(graph, found, cost=lambda kernel: 1 / 0)

    assert settings() == usual
    assert seen
    assert all(is_enabled for is_enabled, _ in seen)  # as kernels are timed
