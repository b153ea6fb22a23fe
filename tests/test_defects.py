"""Ten defects of the engine that TVM once had: each test says what it did, and what is right."""

from math import isnan

import numpy as np
import pytest

import collage_dsl as collage
from collage_dsl.cost import CostFunction
from collage_dsl.cost.table import CostTable, TargetCosts
from collage_dsl.graph import CandidateKernel, Composite, Graph, SubGraph, Toolchain
from collage_dsl.language import load, parse_graph
from collage_dsl.resources import shipped_spec
from collage_dsl.rules import FusionSpec, OpCallByKind
from collage_dsl.search import CostError, Plan, Problem, dijkstra, exhaustive
from tests.graphs import LIBRARY, NATIVE, candidate, graph_of

NATIVE_SPEC = """
target tvm on llvm { rules combine_by_primitives(op_call_by_kind(), using: tvm_default); }
"""
SINGLE_SPEC = "target tvm on llvm { rules op_call_by_kind(); }"


def specs(text: str) -> list[FusionSpec]:
    return list(load(text=f"collage 1;\n{text}").values())


def formula(**prices: float) -> CostTable:
    """
    The cost that upstream's tests use: an operator costs the price of its target, each further
    one in the same kernel 0.9 times as much as the one before.
    """
    return CostTable({target: TargetCosts(ops={"*": price}) for target, price in prices.items()})


def planned(graph: Graph, text: str, **prices: float) -> Plan:
    given = specs(text)
    found = collage.propose(graph, *given)
    return collage.choose(graph, found, cost=formula(**prices), merge=given)


def kernels(plan: Plan) -> list[tuple[str, list[str]]]:
    return [(kernel.target, sorted(kernel.nodes)) for kernel in plan.kernels]


def test_d1_two_producers_and_their_consumer_are_one_kernel() -> None:
    """
    Upstream never joined an old upstream candidate to a new downstream one, so that two
    producers of one consumer were never all fused: two kernels, for 2.9.

    All three are one candidate, which costs 1 + 0.9 + 0.81.
    """
    graph = parse_graph(
        "x: f32[4]; y: f32[4]; a = nn.relu(x); b = nn.relu(y); c = add(a, b); return c;"
    )

    plan = planned(graph, NATIVE_SPEC, tvm=1.0)

    assert kernels(plan) == [("tvm", ["a", "b", "c"])]
    assert plan.cost == pytest.approx(2.71)


CONV_ADD = """
x: f32[1, 4, 8, 8]; w: f32[4, 4, 3, 3]; b: f32[4, 1, 1];
k = nn.conv2d(x, w); y = add(k, b);
return y;
"""
CONV_ADD_SPEC = """
pattern conv(x, w) { y = nn.conv2d(x, w); yield y; }
pattern bias_add(x, b) { y = add(x, b); yield y; }
pattern conv_add(x, w, b) { k = nn.conv2d(x, w); y = add(k, b); yield y; }
rule library = union(
  composite("lib.conv", dfpattern(conv)),
  composite("lib.add", dfpattern(bias_add)),
  composite("lib.conv_add", dfpattern(conv_add)),
);
target lib on llvm {
  compiler "lib";
  rules    combine_by_primitives(library, using: [join_anything]);
}
"""


def test_d2_candidates_of_the_same_nodes_and_another_structure_are_all_kept() -> None:
    """
    Upstream pruned a candidate where another had all its nodes. Twins, of the same nodes with
    other composites, pruned each other, and TVM ran the convolution for 3.8.

    Both are proposed, and the library runs it for 1 + 0.9.
    """
    graph = parse_graph(CONV_ADD)

    plan = planned(graph, SINGLE_SPEC + CONV_ADD_SPEC, tvm=2.0, lib=1.0)
    found = collage.propose(graph, *specs(CONV_ADD_SPEC))

    twins = [each.label for each in found if each.nodes == {"k", "y"}]
    assert sorted(twins) == ["lib.conv+lib.add", "lib.conv_add"]
    assert kernels(plan) == [("lib", ["k", "y"])]
    assert plan.cost == pytest.approx(1.9)


def test_d2_a_pattern_that_a_table_has_twice_is_not_lost() -> None:
    """
    Upstream lost both of two patterns that match the same operator, and with no other target
    said that there is no candidate.

    Under two labels they are two candidates, and where the label is the same one remains.
    """
    graph = parse_graph("x: f32[4]; y = nn.relu(x); return y;")
    pattern = "pattern relu(x) { y = nn.relu(x); yield y; }"

    def labels(first: str, second: str) -> list[str]:
        tagged = (f'composite("{label}", dfpattern(relu))' for label in (first, second))
        rules = f"union({', '.join(tagged)})"
        (spec,) = specs(f'{pattern} target lib on llvm {{ compiler "lib"; rules {rules}; }}')
        return [each.label for each in collage.propose(graph, spec)]

    assert labels("lib.relu", "lib.fast_relu") == ["lib.fast_relu", "lib.relu"]
    assert labels("lib.relu", "lib.relu") == ["lib.relu"]


ONE_ABOVE_TWO = parse_graph("""
x: f32[4]; a = nn.relu(x); b = nn.relu(a); c = add(a, a);
return b, c;
""")


@pytest.mark.parametrize(
    ("limits", "kept", "cost"),
    [
        ("max_exits any; taps allowed;", ["abc"], 2.71),
        ("max_exits any; taps allowed; max_nodes 2;", ["ab", "c"], 2.9),
        ("max_exits 1;", ["a", "b", "c"], 3.0),
    ],
)
def test_d3_kernels_that_are_merged_do_not_overlap(
    limits: str, kept: list[str], cost: float
) -> None:
    """
    Upstream, having merged two kernels, went on merging the first as it had been: it reported
    {a, b} and {a, c}, counted `a` twice, and left `b` to TVM in the module.

    A kernel is in one merged kernel only, whose cost is that of its nodes.
    """
    settings = f"rules op_call_by_kind(); limits {{ {limits} }} after max_coalesce();"
    plan = planned(ONE_ABOVE_TWO, f"target lib on llvm {{ {settings} }}", lib=1.0)

    assert ["".join(sorted(kernel.nodes)) for kernel in plan.kernels] == kept
    assert plan.cost == pytest.approx(cost)


def test_d3_the_regions_of_the_rule_do_not_overlap_either() -> None:
    """The same where `max_coalesce` is among the rules of a target."""
    (spec,) = specs(
        "target lib on llvm { rules max_coalesce(op_call_by_kind());"
        " limits { max_exits any; taps allowed; } }"
    )

    found = collage.propose(ONE_ABOVE_TWO, spec)

    assert [each.nodes for each in found] == [{"a", "b", "c"}]


def test_d4_a_value_may_be_twice_in_a_tuple() -> None:
    """
    Upstream made the union of the producer with itself, for each field that it is, and ended
    in an internal error.

    The producer is joined once.
    """
    graph = parse_graph(
        "x: f32[4]; a = nn.relu(x); t = (a, a); y = concat(t) [axis = 0]; return y;"
    )

    plan = planned(graph, NATIVE_SPEC, tvm=1.0)

    assert len(plan.kernels) == 1
    assert {"a", "y"} < plan.kernels[0].nodes
    assert plan.cost == pytest.approx(1.9)


def test_d5_a_dead_end_of_the_search_is_left_for_another_way() -> None:
    """
    Upstream ended where, from one state that its search had reached, no candidate led on.

    Such a state is left: {a, b} is cheapest by far, and leaves `c` to no one.
    """
    graph = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])
    found = [candidate(graph, *names) for names in ("ab", "a", "bc")]

    def cost(kernel: CandidateKernel) -> float:
        return 0.1 if kernel.nodes == {"a", "b"} else 1.0

    for search in (dijkstra, exhaustive):
        plan = search(Problem(graph, found, cost))
        assert kernels(plan) == [("native", ["a"]), ("native", ["b", "c"])]


def test_d6_composites_of_one_kernel_share_no_node() -> None:
    """
    Upstream meant to refuse a candidate whose nested functions overlap, or reach beyond it,
    with a check that never fired.

    There is no such sub-graph, and no two that overlap are joined.
    """
    graph = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])
    ab, bc = (Composite(f"lib.{names}", graph.set_of(*names)) for names in ("ab", "bc"))

    with pytest.raises(ValueError, match=r"composites `lib.ab` and `lib.bc` share a node"):
        SubGraph(graph.set_of(*"abc"), composites=(ab, bc))
    with pytest.raises(ValueError, match=r"composite `lib.bc` has a node outside"):
        SubGraph(graph.set_of(*"ab"), composites=(bc,))

    pattern = "pattern pair(x) { y = exp(exp(x)); yield y; }"
    rules = 'combine_by_primitives(composite("lib.pair", dfpattern(pair)), using: [join_anything])'
    given = specs(f'{pattern} target lib on llvm {{ compiler "lib"; rules {rules}; }}')
    chain = parse_graph("x: f32[4]; a = exp(x); b = exp(a); c = exp(b); d = exp(c); return d;")
    found = {each.nodes: each.label for each in collage.propose(chain, *given)}
    assert found == {
        frozenset("ab"): "lib.pair",
        frozenset("bc"): "lib.pair",
        frozenset("cd"): "lib.pair",
        frozenset("abcd"): "lib.pair+lib.pair",
    }


def test_d7_candidates_of_two_targets_differ_and_are_priced_apart() -> None:
    """
    Upstream compared candidates without regard to whose they are, and kept costs by what is
    computed, without the target: the second target was given the cost of the first.

    Each target has its own candidate, and its own cost, whichever comes first.
    """
    graph = graph_of({"a": ["x"]}, ["a"])
    ours, theirs = candidate(graph, "a"), candidate(graph, "a", target=LIBRARY)

    assert ours != theirs
    assert len({ours, theirs}) == 2
    for order in ([ours, theirs], [theirs, ours]):
        plan = dijkstra(Problem(graph, order, formula(native=2.0, library=1.0)))
        assert kernels(plan) == [("library", ["a"])]
        assert plan.cost == 1.0


def test_d7_measured_costs_are_kept_by_target() -> None:
    """The key of a measured cost says what else it depends on: compiler, options, machine."""
    from collage_dsl.backends.registry import find_backend
    from collage_dsl.measuring.key import context_of

    toolchains = [
        Toolchain("tvm"),
        Toolchain("tvm", options={"mcpu": "skylake"}),
        Toolchain("tvm", compiler="onnxruntime"),
    ]
    contexts = [context_of(each, find_backend(each.compiler or "tvm")) for each in toolchains]

    assert len(set(contexts)) == 3


def test_d8_a_pattern_needs_no_predicate() -> None:
    """
    Upstream took a table entry of label and pattern alone, and failed when it asked the
    predicate that was not there.

    A pattern without conditions matches wherever its nodes do: one that a file declares, and one
    of TVM's tables that was registered without a check.
    """
    graph = parse_graph("x: f32[4]; y = nn.relu(x); return y;")
    tables = ["pattern one(x) { y = nn.relu(x); yield y; }", 'import pattern_table "nnapi" as t;']

    for imported, pattern in zip(tables, ["one", "t.relu"], strict=True):
        text = f'{imported} target lib on llvm {{ compiler "lib"; rules dfpattern({pattern}); }}'
        assert [each.nodes for each in collage.propose(graph, *specs(text))] == [{"y"}]


SORTED = parse_graph("x: f32[8]; a = exp(x); s = sort(a); y = exp(s); return y;")
EXP_LIBRARY = 'target lib on llvm { compiler "lib"; rules op_call_by_kind(elementwise); }'


def test_d9_an_opaque_operator_is_run_by_the_target_that_has_every_operator() -> None:
    """
    Upstream aborted the compilation of a model with an opaque operator that no pattern names.

    It is a kernel of its own in the native spec, and TVM builds it.
    """
    from collage_dsl.backends.registry import find_backend
    from collage_dsl.realization.executable import ModelExecutable
    from collage_dsl.realization.lower import build
    from collage_dsl.realization.partition import realize
    from collage_dsl.realization.signature import Signature

    path = shipped_spec("native")
    assert path is not None
    native, *_ = load(path).values()
    found = collage.propose(SORTED, native, *specs(EXP_LIBRARY))
    plan = collage.choose(SORTED, found, cost=formula(tvm=1.0, lib=0.9))
    assert kernels(plan) == [("lib", ["a"]), ("tvm", ["s"]), ("lib", ["y"])]

    def backend_of(toolchain: Toolchain) -> object:
        return find_backend(toolchain.compiler or "tvm")

    graph = Graph(SORTED.nodes, SORTED.outputs, name="main")
    alone = collage.choose(graph, collage.propose(graph, native), cost=formula(tvm=1.0))
    executable = build(realize(graph, alone.candidates, backend_of))
    x = np.array([3, 1, -2, 0, 1, 0.5, -1, 2], np.float32)
    (y,) = ModelExecutable(executable, Signature.of(graph)).run({"x": x}).values()
    np.testing.assert_allclose(y, np.exp(np.sort(np.exp(x))), rtol=1e-5)


def test_d9_without_such_a_target_the_error_names_the_operator_and_why() -> None:
    """The one answer left where nobody has a kernel; it says so of each target."""
    from collage_dsl.engine.predicates import lookup
    from collage_dsl.engine.steps import searched

    with pytest.raises(collage.UncoveredError) as caught:
        searched(SORTED, specs(SINGLE_SPEC + EXP_LIBRARY), formula(tvm=1.0, lib=1.0), lookup())

    assert str(caught.value).splitlines() == [
        "no target has a kernel for `s`",
        "  `s` (sort):",
        "    target tvm: sort is opaque, which the rule does not name",
        "    target lib: sort is opaque, which the rule does not name",
    ]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -1.0])
def test_d10_what_is_no_cost_is_an_error_that_names_the_kernel(wrong: float) -> None:
    """
    Upstream put costs that are not a number into its queue, whose order they break.

    A cost is a finite number of seconds, 0 or more, or a reason why there is none; anything else
    is an error, in the search and where kernels are merged after it. `choose` takes NaN for a
    cost that its source does not know, and never compares it either.
    """
    graph = graph_of({"a": ["x"], "b": ["a"]}, ["b"])
    found = [candidate(graph, name) for name in "ab"]

    def wrong_when(calls: int) -> CostFunction:
        return lambda kernel: wrong if len(kernel.nodes) == calls else 1.0

    says = rf"the cost of op1 on native is {wrong}"
    for search in (dijkstra, exhaustive):
        with pytest.raises(CostError, match=says):
            search(Problem(graph, found, wrong_when(calls=1)))

    merging = [FusionSpec(NATIVE, OpCallByKind(), coalesce=True)]
    unknown = "no source knows the cost of op1 on native"
    merged = (unknown if isnan(wrong) else says).replace("op1", r"op1\+op1")
    with pytest.raises(CostError, match=merged):
        collage.choose(graph, found, cost=wrong_when(calls=2), merge=merging)
