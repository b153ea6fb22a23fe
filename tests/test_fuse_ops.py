"""
Every group that TVM's FuseOps makes is a candidate of
`combine_by_primitives(op_call_by_kind(), using: tvm_default)`.

All candidates of a graph are too many to list where it has many injective calls. So the rule is
asked for those within the group alone: joining two sub-graphs depends on nothing but those two
and the graph, and unions only grow, so that every candidate comes from parts inside itself.
The two questions are compared where both can be asked.
"""

import random

import pytest

from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import Graph, Kind, OpSet, SubGraph, members
from collage_dsl.language import parse_graph
from collage_dsl.rules import (
    TVM_DEFAULT,
    CombineByPrimitives,
    InjectiveBranches,
    Limits,
    OpCallByKind,
    Primitive,
    Trace,
)
from collage_dsl.rules.combine import combine
from tests.cases import sample
from tests.fuse_ops_oracle import FusedGraph, branching_graph
from tests.models import small_convolution
from tests.pattern_table_models import MODELS
from tests.random_relax import relax_graph

SMALL = ("squeezenet", "shufflenet")
LARGE = tuple(name for name in light_models() if name not in SMALL)

WITHOUT_BRANCHES = tuple(p for p in TVM_DEFAULT if p != InjectiveBranches())


def is_candidate(graph: Graph, group: OpSet, using: tuple[Primitive, ...] = TVM_DEFAULT) -> bool:
    """Whether the rule proposes the group, asked within it."""
    calls = OpCallByKind().propose(graph, Trace())
    seeds = [call for call in calls if not call.inside & ~group]
    found = combine(graph, seeds, using, max_depth=None, max_nodes=None)
    return any(candidate.inside == group for candidate in found)


def check_groups(graph: Graph, using: tuple[Primitive, ...] = TVM_DEFAULT) -> int:
    """That every group is a candidate, and a valid one; how many there are."""
    fused = FusedGraph(graph)
    for group in fused.groups:
        assert is_candidate(graph, group, using), f"not proposed: {shown(fused, group)}"
        assert not Limits().refusal(graph, SubGraph(group)), shown(fused, group)
    return len(fused.groups)


def shown(fused: FusedGraph, group: OpSet) -> str:
    nodes = fused.graph.nodes
    calls = [(nodes[i], fused.kinds[i]) for i in members(group & fused.graph.calls)]
    return ", ".join(f"{n.name} = {n.op} ({n.kind}, to TVM {kind})" for n, kind in calls)


# Models.


@pytest.mark.parametrize(("table", "name"), [(t, name) for t in MODELS for name in MODELS[t]])
def test_groups_of_the_models_of_pattern_tables_are_candidates(table: str, name: str) -> None:
    check_groups(parse_graph(MODELS[table][name]))


def test_groups_of_the_small_convolution_are_candidates() -> None:
    assert check_groups(from_onnx(small_convolution())) == 2


@pytest.mark.parametrize("name", SMALL)
def test_groups_of_a_small_light_model_are_candidates(name: str) -> None:
    assert check_groups(from_onnx(light_model(name))) > 20


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGE)
def test_groups_of_a_large_light_model_are_candidates(name: str) -> None:
    assert check_groups(from_onnx(light_model(name))) >= 5


# Random graphs.


@pytest.mark.parametrize("first", sample(2, range(0, 200, 50)))
def test_groups_of_random_graphs_are_candidates(first: int) -> None:
    graphs = []
    for seed in range(first, first + 50):
        generator = random.Random(seed)
        graphs.append(relax_graph(generator, generator.randint(3, 20)))

    assert sum(map(check_groups, graphs)) > 50


def branching(first: int, count: int, calls: int) -> list[Graph]:
    generators = map(random.Random, range(first, first + count))
    return [branching_graph(generator, generator.randint(4, calls)) for generator in generators]


@pytest.mark.parametrize("first", sample(2, range(0, 80, 20)))
def test_groups_of_random_graphs_with_side_branches_are_candidates(first: int) -> None:
    graphs = branching(first, 20, 12)

    assert sum(map(check_groups, graphs)) >= 20


# What FuseOps does with side branches.

BRANCHES = {
    "beside an anchor": """
        e = exp(x); t = permute_dims(e); a = add(e, t); m = matmul(x, w); r = add(a, m);
    """,
    "below an anchor": """
        e = exp(x); m = matmul(x, w); b = add(m, e); t = permute_dims(b); r = add(t, e);
    """,
    "before a reduction": """
        e = exp(x); t = permute_dims(e); a = multiply(e, t); r = sum(a) [axis = [1]];
    """,
    "halves joined again": """
        e = exp(x); s = split(e) [indices_or_sections = 2, axis = 0]; p = s.0; q = s.1;
        i = (q, p); c = concat(i) [axis = 0]; a = maximum(e, c); r = sum(a) [axis = [1]];
    """,
}


@pytest.mark.parametrize("name", BRANCHES)
def test_a_side_branch_with_an_injective_call_is_fused_as_a_whole(name: str) -> None:
    graph = parse_graph(f"x: f32[4, 4]; w: f32[4, 4]; {BRANCHES[name]} return r;")

    assert FusedGraph(graph).groups == (graph.computed,)
    assert not is_candidate(graph, graph.computed, WITHOUT_BRANCHES)
    assert is_candidate(graph, graph.computed)


@pytest.mark.parametrize(
    "lines",
    [
        "e = exp(x); t = permute_dims(e); m = matmul(x, w); r = add(t, m);",
        "m = matmul(x, w); t = permute_dims(m); r = add(t, m);",
        "e = exp(x); t = permute_dims(e); a = nn.relu(t); r = sum(a) [axis = [1]];",
        "t = permute_dims(x); a = add(t, x); r = sum(a) [axis = [1]];",
    ],
)
def test_an_injective_call_that_is_on_no_side_branch_is_not_fused_so(lines: str) -> None:
    graph = parse_graph(f"x: f32[4, 4]; w: f32[4, 4]; {lines} return r;")

    assert graph.calls not in FusedGraph(graph).groups
    assert not is_candidate(graph, graph.computed)


# What stays out.

EXCEPTIONS = {
    "a matrix times a vector is a reduction to TVM, an anchor to us, as every `matmul`": """
        v: f32[4]; e = nn.relu(x); r = matmul(e, v);
    """,
    "an einsum is to TVM what its subscripts say, an anchor to us": """
        a = matmul(x, w); i = (a, w); r = einsum(i) [subscripts = "ij,ij->ij"];
    """,
    "to stack broadcasts to TVM, and is injective to us, as the tuple is that it takes": """
        e = exp(x); i = (e, x); s = stack(i) [axis = 0]; r = sum(s) [axis = [1]];
    """,
    "a slice from the start is not seen where the start is counted from the end": """
        m = matmul(x, w); r = strided_slice(m, [1], [-4], [2]);
    """,
    "a permutation that moves nothing is injective to us": """
        m = matmul(x, w); r = permute_dims(m) [axes = [0, 1]];
    """,
    "a repetition that repeats nothing is injective to us": """
        m = matmul(x, w); r = repeat(m) [repeats = 1, axis = 0];
    """,
    "a padding with nothing is injective to us": """
        m = matmul(x, w); r = nn.pad(m) [pad_width = [0, 0, 0, 0]];
    """,
}
"""
The groups that are no candidates, by the reason: TVM looks at the loops of a call, and finds some
to be simpler than their operator. No pattern of a model has to be fused for them: the calls that
move nothing are what a simplification removes.
"""


@pytest.mark.parametrize("reason", EXCEPTIONS)
def test_a_call_that_is_simpler_to_tvm_may_stay_outside(reason: str) -> None:
    graph = parse_graph(f"x: f32[4, 4]; w: f32[4, 4]; {EXCEPTIONS[reason]} return r;")
    fused = FusedGraph(graph)

    (group,) = fused.groups
    assert any(fused.kinds[i] < graph.nodes[i].kind for i in members(group & graph.calls))
    assert not is_candidate(graph, group)


@pytest.mark.parametrize(
    "lines",
    [
        "m = matmul(x, w); r = strided_slice(m, [0, 1], [0, 0], [2, 3]);",
        "m = matmul(x, w); r = strided_slice(m, [1], [0], [2], [1]);",
        "s = strided_slice(x, [1], [0], [2], [1]); r = sum(s) [axis = [1]];",
        "y: f32[4, 1, 4]; s = squeeze(y) [axis = [1]]; r = sum(s) [axis = [1]];",
        "i: i64[4]; h = one_hot(i, 1.0, 0.0) [depth = 4]; r = sum(h) [axis = [0]];",
    ],
)
def test_calls_that_are_as_simple_to_us_as_to_tvm_are_fused(lines: str) -> None:
    graph = parse_graph(f"x: f32[4, 4]; w: f32[4, 4]; {lines} return r;")

    assert FusedGraph(graph).groups == (graph.computed,)
    assert is_candidate(graph, graph.computed)


def test_a_slice_that_skips_is_injective_to_both() -> None:
    for begin, strides in ((1, 1), (0, 2)):
        graph = parse_graph(
            f"x: f32[4, 4]; r = strided_slice(x, [1], [{begin}], [4], [{strides}]); return r;"
        )
        assert FusedGraph(graph).kinds[graph.index("r")] is Kind.INJECTIVE
        assert graph.nodes[graph.index("r")].kind is Kind.INJECTIVE


# The check itself.


def test_asking_within_the_group_is_asking_for_all_candidates() -> None:
    answers = []
    for graph in branching(500, 50, 9):
        for using in (TVM_DEFAULT, WITHOUT_BRANCHES):
            rule = CombineByPrimitives(OpCallByKind(), using)
            everything = {found.inside for found in rule.propose(graph, Trace())}
            groups = FusedGraph(graph).groups
            answers += [is_candidate(graph, group, using) for group in groups]
            assert answers[len(answers) - len(groups) :] == [g in everything for g in groups]

    assert answers.count(True) > 80
    assert answers.count(False) > 5


def test_the_check_sees_a_group_that_is_missing() -> None:
    graph = parse_graph(f"x: f32[4, 4]; w: f32[4, 4]; {BRANCHES['before a reduction']} return r;")
    assert check_groups(graph) == 1

    with pytest.raises(AssertionError, match="not proposed: e = exp"):
        check_groups(graph, WITHOUT_BRANCHES)
