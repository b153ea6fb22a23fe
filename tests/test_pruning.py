"""Limits that leave out valid candidates, and what is said of those."""

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import UncoveredError, propose, searched
from collage_dsl.graph import CandidateKernel, Graph, SubGraph, members
from collage_dsl.language import load
from collage_dsl.language.reasoning.patterns.largest import largest
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    FusionSpec,
    JoinAnything,
    Limits,
    OnlyValid,
    OpCallByKind,
    Tagged,
    Trace,
    Union,
)
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.placement import ByName, Placement
from collage_dsl.rules.pruning import pruned
from collage_dsl.rules.rule_functions import LIMIT_NAMES
from tests.cases import cases
from tests.graphs import LIBRARY, NATIVE, graph_of, mixed_graph
from tests.random_patterns import near_misses, patterns

SINGLE = OpCallByKind()
JOINED = CombineByPrimitives(SINGLE, (JoinAnything(),), max_nodes=4)
RULES: tuple[FusionRule, ...] = (
    SINGLE,
    JOINED,
    CombineByPrimitives(SINGLE, (JoinAnything(),), max_splits=1),
    Tagged("lib.op", CombineByPrimitives(SINGLE, (JoinAnything(),), max_depth=2)),
)
CHAIN = graph_of({name: [before] for before, name in zip("xabcde", "abcdef", strict=True)}, ["f"])


def parts(*several: str) -> list[SubGraph]:
    return [SubGraph(CHAIN.set_of(*names)) for names in several]


def left(found: Iterable[SubGraph], limits: Limits, **flags: bool) -> tuple[list[str], Trace]:
    """What is left of parts of the chain, by the names of their calls, and what was refused."""
    trace = Trace(collects=True)
    kept = pruned(CHAIN, found, limits, trace, **flags)
    return ["".join(sorted(CHAIN.names(each.inside))) for each in kept], trace


def reasons(trace: Trace) -> dict[str, str]:
    return {"".join(sorted(CHAIN.names(r.inside))): r.because for r in trace.refusals}


def test_limits_have_the_names_that_they_are_written_with() -> None:
    assert Limits.__match_args__ == LIMIT_NAMES


def test_limits_prune_nothing_unless_they_say_so() -> None:
    whole = parts("abc", "ab", "ab", "a")

    assert not Limits().prunes
    assert left(whole, Limits(max_nodes=1)) == (["abc", "ab", "ab", "a"], Trace(collects=True))


def test_it_is_said_how_small_a_candidate_is() -> None:
    kept, trace = left(parts("a", "bc", "def"), Limits(min_nodes=3))

    assert kept == ["def"]
    assert reasons(trace) == {
        "a": "1 operator, min_nodes is 3",
        "bc": "2 operators, min_nodes is 3",
    }


def test_it_is_said_what_a_candidate_overlaps() -> None:
    kept, trace = left(parts("a", "ab", "cd", "bc", "d", "e"), Limits(largest_first=True))

    assert kept == ["ab", "cd", "e"]
    assert reasons(trace) == {
        "a": "overlaps `a` and `b`, which largest_first prefers",
        "bc": "overlaps `a` and `b`, which largest_first prefers",
        "d": "overlaps `c` and `d`, which largest_first prefers",
    }


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        ("a", "`a`"),
        ("abc", "`a`, `b` and `c`"),
        ("abcd", "`a`, `b`, `c` and 1 more"),
        ("abcdef", "`a`, `b`, `c` and 3 more"),
    ],
)
def test_the_first_calls_of_what_is_kept_are_named(other: str, shown: str) -> None:
    (whole,) = parts(other)
    _, trace = left([whole, whole.labelled("lib.op")], Limits(max_regions=9))

    assert reasons(trace) == {other: f"overlaps {shown}, which max_regions prefers"}


def test_of_as_many_calls_the_earlier_is_kept() -> None:
    """By the first node, then by all nodes."""
    limits = Limits(largest_first=True)

    assert left(parts("bcd", "acf"), limits)[0] == ["acf"]
    assert left(parts("ac", "ab"), limits)[0] == ["ab"]


def test_of_the_same_nodes_the_first_that_is_proposed_is_kept() -> None:
    (plain,) = parts("ab")
    labelled = plain.labelled("lib.op")
    limits = Limits(largest_first=True)

    assert list(pruned(CHAIN, [labelled, plain], limits, Trace())) == [labelled]
    assert list(pruned(CHAIN, [plain, labelled], limits, Trace())) == [plain]
    assert list(pruned(CHAIN, [plain, plain], limits, Trace())) == [plain]


def test_it_is_said_which_region_is_one_too_many() -> None:
    kept, trace = left(parts("a", "bcd", "ef", "f"), Limits(max_regions=1))

    assert kept == ["bcd"]
    assert reasons(trace) == {
        "a": "region 3 by size, max_regions is 1",
        "ef": "region 2 by size, max_regions is 1",
        "f": "overlaps `e` and `f`, region 2 by size",
    }


def test_what_is_too_small_or_too_much_is_no_reason_to_leave_out_another() -> None:
    limits = Limits(min_nodes=2, max_regions=2)

    assert left(parts("a", "b", "cd", "ef"), limits)[0] == ["cd", "ef"]


def test_single_calls_are_kept_where_they_are_promised() -> None:
    limits = Limits(min_nodes=3, largest_first=True, max_regions=1)
    found = parts("a", "ab", "abc", "def", "f")

    assert left(found, limits)[0] == ["abc"]
    assert left(found, limits, keeps_single=True)[0] == ["a", "abc", "f"]


def test_a_plan_that_lacks_what_was_pruned_says_so() -> None:
    text = """collage 1;
    target lib on llvm {
      rules combine_by_primitives(op_call_by_kind(), using: [join_anything], max_nodes: 2);
      limits { min_nodes 2; max_regions 2; }
    }"""
    specs = list(load(text=text).values())

    with pytest.raises(UncoveredError) as caught:
        searched(CHAIN, specs, lambda candidate: 1.0, lookup())

    small, third = "1 operator, min_nodes is 2", "region 3 by size, max_regions is 2"
    overlaps = "overlaps `c` and `d`, which max_regions prefers"
    assert str(caught.value).splitlines()[1:] == [
        "  `e` (op1):",
        f"    target lib: {small}; {overlaps}; {third}",
        "  `f` (op1):",
        f"    target lib: {small}; {third}",
    ]


# On random graphs.

GRAPHS = st.builds(mixed_graph, st.randoms(use_true_random=False), st.integers(1, 9))
VALID = st.builds(
    Limits,
    max_exits=st.sampled_from([1, 2, None]),
    max_nodes=st.sampled_from([None, 3]),
    taps=st.booleans(),
)
REGIONS = st.none() | st.integers(1, 3)
SOME_RULES = st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True)


def size(kernel: CandidateKernel) -> int:
    return (kernel.sub_graph.inside & kernel.graph.calls).bit_count()


def order(kernel: CandidateKernel) -> tuple[int, int, int]:
    first = min(members(kernel.sub_graph.inside))
    return -size(kernel), first, kernel.sub_graph.inside


def overlap(one: CandidateKernel, other: CandidateKernel) -> bool:
    return bool(one.sub_graph.inside & other.sub_graph.inside)


@cases(60)
@given(GRAPHS, SOME_RULES, VALID, REGIONS)
def test_regions_share_nothing_and_what_is_left_out_shares_with_a_larger(
    graph: Graph, rules: list[FusionRule], limits: Limits, most: int | None
) -> None:
    spec = FusionSpec(NATIVE, Union(tuple(rules)), limits)
    every = spec.candidates(graph)
    disjoint = replace(spec, limits=replace(limits, largest_first=True)).candidates(graph)
    kept = replace(spec, limits=replace(limits, largest_first=True, max_regions=most)).candidates(
        graph
    )

    assert set(kept) <= set(disjoint) <= set(every)
    assert all(one is other or not overlap(one, other) for one in disjoint for other in disjoint)
    for each in set(every) - set(disjoint):
        assert any(overlap(each, other) and order(other) <= order(each) for other in disjoint)
    assert list(kept) == [each for each in disjoint if each in sorted(disjoint, key=order)[:most]]


@cases(40)
@given(GRAPHS, SOME_RULES, VALID, REGIONS, st.integers(1, 4))
def test_pruning_keeps_what_only_valid_does_and_refuses_the_rest_for_a_reason(
    graph: Graph, rules: list[FusionRule], limits: Limits, most: int | None, least: int
) -> None:
    """`max_nodes` is 3 or none here, and `least` may be more: then nothing is left."""
    limits = replace(limits, min_nodes=least, largest_first=True, max_regions=most)
    rule = Union(tuple(rules))
    trace = Trace(collects=True)
    found = FusionSpec(NATIVE, rule, limits).candidates(graph, trace)
    inner = FusionSpec(NATIVE, OnlyValid(rule, limits), Limits(None, taps=True))

    assert inner.candidates(graph) == found
    assert all(size(each) >= least for each in found)
    every = FusionSpec(NATIVE, rule, Limits(None, taps=True)).candidates(graph)
    refused = {refusal.inside for refusal in trace.refusals}
    assert {each.sub_graph.inside for each in set(every) - set(found)} <= refused


@cases(40)
@given(GRAPHS, SOME_RULES, VALID, REGIONS)
def test_the_order_of_rules_decides_only_between_the_same_nodes(
    graph: Graph, rules: list[FusionRule], limits: Limits, most: int | None
) -> None:
    limits = replace(limits, largest_first=True, max_regions=most)

    def nodes(ordered: Iterable[FusionRule]) -> list[int]:
        spec = FusionSpec(NATIVE, Union(tuple(ordered)), limits)
        return [each.sub_graph.inside for each in spec.candidates(graph)]

    assert nodes(rules) == nodes(reversed(rules))


@cases(40)
@given(GRAPHS, SOME_RULES, VALID, REGIONS, st.integers(1, 4))
def test_a_fallback_has_the_single_calls_that_it_had(
    graph: Graph, rules: list[FusionRule], limits: Limits, most: int | None, least: int
) -> None:
    spec = FusionSpec(NATIVE, Union(tuple(rules)), limits, fallback=True)
    few = replace(limits, min_nodes=least, largest_first=True, max_regions=most)
    found = replace(spec, limits=few).candidates(graph)
    without = replace(spec, limits=few, fallback=False).candidates(graph)
    single = [each for each in spec.candidates(graph) if size(each) == 1]

    assert set(found) == {*single, *without}
    assert sorted(found, key=lambda each: each.sub_graph.order) == list(found)


@cases(60)
@given(st.data())
def test_no_match_is_larger_than_the_largest(data: st.DataObject) -> None:
    pattern: Pattern = data.draw(patterns())
    graph = data.draw(near_misses(pattern))

    for root in members(graph.computed):
        for match in matches(pattern, graph, root, Attempt()):
            assert (match.inside & graph.calls).bit_count() <= largest(pattern)


def test_repeated_calls_have_operands_of_their_own() -> None:
    text = """collage 1;
    pattern p(x) { y = repeat[1..3] add(exp(x), tanh(_)); yield y; }
    target t on llvm { rules dfpattern(p); }"""
    rule = load(text=text)["t"].rule
    assert isinstance(rule, DFPattern)

    assert largest(rule.pattern) == 7


@pytest.mark.parametrize("seed", range(20))
def test_what_is_forbidden_is_in_no_region_and_takes_no_place_from_another(seed: int) -> None:
    graph = mixed_graph(random.Random(seed), 9)
    name = graph.nodes[max(members(graph.calls))].name
    forbidden = Placement("forbid", ByName(name))
    spec = FusionSpec(LIBRARY, JOINED, Limits(None, taps=True), placements=(forbidden,))
    regions = replace(spec, limits=replace(spec.limits, largest_first=True))
    allowed, found = propose(graph, spec), propose(graph, regions)

    assert not any(name in each.nodes for each in found)
    assert set(found) <= set(allowed)
    assert all(any(overlap(each, other) for other in found) for each in allowed)
