"""`only_variants`: which variants may compute what rules propose together."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.graph import CandidateKernel, Graph, Kind, SubGraph, Toolchain, members
from collage_dsl.graph.variants import Variants, common
from collage_dsl.rules import (
    TVM_DEFAULT,
    CombineByPrimitives,
    Constants,
    FusionRule,
    FusionSpec,
    Horizontal,
    JoinAnything,
    Limits,
    MaxCoalesce,
    OnlyVariants,
    OpCallByKind,
    Tagged,
    Trace,
    Union,
    Vertical,
)
from collage_dsl.search import Plan, PlannedKernel
from collage_dsl.search.coalesce import coalesce
from tests.cases import cases
from tests.graphs import graph_of, mixed_graph

KINDS = [kind for kind in Kind if kind is not Kind.OPAQUE]
CHAIN = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"], a=Kind.ANCHOR)
ANY = Limits(max_exits=None, taps=True)

some = st.none() | st.frozensets(st.sampled_from("pq"), min_size=1)
by_kind = st.fixed_dictionaries(dict.fromkeys(KINDS, some))
graphs = st.builds(mixed_graph, st.randoms(use_true_random=False), st.integers(3, 9))

JOINING = [
    lambda rule: CombineByPrimitives(rule, (JoinAnything(),)),
    lambda rule: CombineByPrimitives(rule, (*TVM_DEFAULT, Constants())),
    lambda rule: Horizontal(rule),
]
"""Rules that propose every union that they may, so that variants only take some of them out."""

GREEDY = [
    MaxCoalesce,
    lambda rule: CombineByPrimitives(rule, (JoinAnything(),), max_splits=1),
]


def calls(allowed: dict[Kind, Variants]) -> FusionRule:
    """Each call by itself, by the variants that are allowed for its kind."""
    rules = [(OpCallByKind((kind,)), variants) for kind, variants in allowed.items()]
    return Union(tuple(r if v is None else OnlyVariants(r, tuple(sorted(v))) for r, v in rules))


def allowed_for(graph: Graph, each: SubGraph, allowed: dict[Kind, Variants]) -> Variants:
    """The variants that all calls of a sub-graph allow."""
    kinds = (graph.nodes[index].kind for index in members(each.inside & graph.calls))
    return reduce(common, (allowed[kind] for kind in kinds), None)


@pytest.mark.parametrize("joining", JOINING)
@cases(40)
@given(graph=graphs, allowed=by_kind)
def test_unions_are_those_with_a_variant_in_common(joining, graph, allowed) -> None:  # type: ignore[no-untyped-def]
    every = joining(calls(dict.fromkeys(KINDS))).propose(graph, Trace())
    wanted = [each.only_by(allowed_for(graph, each, allowed)) for each in every]
    found = list(joining(calls(allowed)).propose(graph, Trace()))

    assert len(set(found)) == len(found)
    assert set(found) == {each for each in wanted if each.has_variant}


@pytest.mark.parametrize("greedy", GREEDY)
@cases(40)
@given(graph=graphs, allowed=by_kind)
def test_greedy_regions_have_a_variant_in_common(greedy, graph, allowed) -> None:  # type: ignore[no-untyped-def]
    for each in greedy(calls(allowed)).propose(graph, Trace()):
        assert each.has_variant
        assert each.variants == allowed_for(graph, each, allowed)


APART = Union(
    (
        OnlyVariants(OpCallByKind((Kind.ANCHOR,)), ("winograd4",)),
        OnlyVariants(OpCallByKind((Kind.ELEMENTWISE,)), ("direct",)),
    )
)
"""In `CHAIN`, `a` has no variant in common with `b` and `c`."""


@pytest.mark.parametrize(
    ("rule", "regions"),
    [
        (MaxCoalesce(APART), {"a", "bc"}),
        (CombineByPrimitives(APART, (JoinAnything(),)), {"a", "b", "c", "bc"}),
        (CombineByPrimitives(APART, (JoinAnything(),), max_splits=0), {"a", "b", "c", "bc"}),
    ],
)
def test_nothing_is_joined_where_no_variant_is_left(rule: FusionRule, regions: set[str]) -> None:
    found = rule.propose(CHAIN, Trace())

    assert {"".join(sorted(CHAIN.names(each.inside))) for each in found} == regions


def test_the_same_nodes_are_joined_for_each_list_of_variants() -> None:
    twice = Union((APART, OnlyVariants(OpCallByKind((Kind.ANCHOR,)), ("gemm", "direct"))))
    found = CombineByPrimitives(twice, (JoinAnything(),)).propose(CHAIN, Trace())
    with_a = {each for each in found if each.inside >> CHAIN.index("a") & 1}

    assert {(each.inside.bit_count(), *sorted(each.variants or "?")) for each in with_a} == {
        (1, "winograd4"),
        (1, "direct", "gemm"),
        (2, "direct"),
        (3, "direct"),
    }


def test_what_is_added_to_an_anchor_is_computed_by_its_variants() -> None:
    anchors = OnlyVariants(OpCallByKind((Kind.ANCHOR,)), ("winograd4",))
    grown = list(Vertical(anchors, epilogue=Kind.ELEMENTWISE).propose(CHAIN, Trace()))

    assert len(grown) == 3
    assert {each.variants for each in grown} == {frozenset({"winograd4"})}


def test_labels_keep_variants_and_lists_inside_each_other_are_narrowed() -> None:
    inner = Tagged("lib.op", OnlyVariants(OpCallByKind((Kind.ANCHOR,)), ("a", "b")))
    (found,) = OnlyVariants(inner, ("b", "c")).propose(CHAIN, Trace())

    assert found.composites
    assert found.variants == {"b"}


def test_lists_inside_each_other_with_nothing_in_common_are_a_reason() -> None:
    trace = Trace(collects=True)
    inner = OnlyVariants(OpCallByKind((Kind.ANCHOR,)), ("a",))

    assert list(OnlyVariants(inner, ("b", "c")).propose(CHAIN, trace)) == []
    assert "of the variants b, c none is allowed by the rules inside" in reasons(trace)


def reasons(trace: Trace) -> list[str]:
    return [refusal.because for refusal in trace.at(CHAIN.index("a"))]


# Candidates.


def candidates(rule: FusionRule, *variants: str, trace: Trace | None = None) -> list[str]:
    """The variants of the candidates in `CHAIN` of a target that allows `variants`."""
    spec = FusionSpec(Toolchain("t", variants=variants), rule)
    return [" ".join(each.toolchain.variants) for each in spec.candidates(CHAIN, trace)]


ANCHOR = OpCallByKind((Kind.ANCHOR,))


def test_a_candidate_is_for_what_both_the_rule_and_the_target_allow() -> None:
    rule = OnlyVariants(ANCHOR, ("winograd4", "direct", "gemm"))

    assert candidates(rule) == ["direct gemm winograd4"]
    assert candidates(rule, "gemm", "gemv", "direct") == ["gemm direct"]
    assert candidates(ANCHOR, "gemm") == ["gemm"]
    assert candidates(ANCHOR) == [""]


def test_a_target_that_allows_none_of_the_variants_of_a_rule_is_the_reason() -> None:
    trace = Trace(collects=True)

    assert candidates(OnlyVariants(ANCHOR, ("gemm",)), "direct", "gemv", trace=trace) == []
    assert "the target allows only direct, gemv" in reasons(trace)


def test_one_candidate_is_for_the_variants_of_all_rules_that_propose_it() -> None:
    gemm, direct = OnlyVariants(ANCHOR, ("gemm",)), OnlyVariants(ANCHOR, ("direct",))

    assert candidates(Union((gemm, direct))) == ["direct gemm"]
    assert candidates(Union((gemm, ANCHOR))) == candidates(Union((ANCHOR, gemm))) == [""]
    assert candidates(Union((gemm, ANCHOR)), "direct") == ["direct"]


def test_candidates_that_pruning_compares_have_all_their_variants() -> None:
    rule = Union((OnlyVariants(ANCHOR, ("gemm",)), OnlyVariants(ANCHOR, ("direct",))))
    spec = FusionSpec(Toolchain("t"), rule, Limits(largest_first=True))

    (found,) = spec.candidates(CHAIN)

    assert found.toolchain.variants == ("direct", "gemm")


# Merging after the search.


def merged(**variants: tuple[str, ...]) -> list[tuple[frozenset[str], tuple[str, ...]]]:
    """The kernels of `CHAIN`, one for each node, after merging, and their variants."""
    kernels = tuple(
        PlannedKernel(
            CandidateKernel(CHAIN, SubGraph(CHAIN.set_of(name)), Toolchain("t", variants=allowed)),
            1.0,
        )
        for name, allowed in variants.items()
    )
    plan = coalesce(Plan(CHAIN, kernels), lambda _: 1.0, lambda _: True)
    return [(each.candidate.nodes, each.candidate.toolchain.variants) for each in plan.kernels]


def test_kernels_are_merged_for_the_variants_that_all_allow() -> None:
    assert merged(a=("p", "q"), b=(), c=("r", "q")) == [(frozenset("abc"), ("q",))]
    assert merged(a=(), b=(), c=()) == [(frozenset("abc"), ())]


def test_kernels_without_a_variant_in_common_are_not_merged() -> None:
    assert merged(a=("p", "q"), b=("q", "r"), c=("p", "r")) == [
        (frozenset("ab"), ("q",)),
        (frozenset("c"), ("p", "r")),
    ]
