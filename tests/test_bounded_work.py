"""Patterns and rules on graphs where a search for everything would not end."""

import signal
import subprocess
import sys
import warnings

import pytest

from collage_dsl.engine.steps import propose
from collage_dsl.engine.stopped import StoppedWarning
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.language import load, parse_graph
from collage_dsl.rules.near import near
from collage_dsl.rules.trace import MORE_CANDIDATES, MOST_CANDIDATES
from tests.cases import slow


def proposed(
    rule: str, graph: Graph, pattern: str = "", limits: str = "max_exits any; taps allowed;"
) -> tuple[tuple[CandidateKernel, ...], list[str]]:
    """What a target with `rule` proposes, and the first lines of what it warns of."""
    text = f"collage 1; {pattern} target t on llvm {{ rules {rule}; limits {{ {limits} }} }}"
    spec = load(text=text)["t"]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = propose(graph, spec)
    assert all(each.category is StoppedWarning for each in told)
    return found, [str(each.message).splitlines()[0] for each in told]


def insides(found: tuple[CandidateKernel, ...]) -> set[frozenset[str]]:
    return {each.nodes for each in found}


def additions(count: int) -> Graph:
    """`a0 = add(x, c0); a1 = add(a0, c1); …`."""
    lines = ["x: f32[4];", *(f"c{at}: f32[4];" for at in range(count)), "a0 = add(x, c0);"]
    lines += [f"a{at} = add(a{at - 1}, c{at});" for at in range(1, count)]
    return parse_graph(" ".join([*lines, f"return a{count - 1};"]))


def chain(count: int) -> Graph:
    lines = ["x: f32[4];", "a0 = exp(x);"]
    lines += [f"a{at} = exp(a{at - 1});" for at in range(1, count)]
    return parse_graph(" ".join([*lines, f"return a{count - 1};"]))


def tree(depth: int) -> Graph:
    """`add` of two trees, and so on; the leaves are `exp(x)`."""
    lines = ["x: f32[4];"]

    def value(depth: int) -> str:
        made = f"add({value(depth - 1)}, {value(depth - 1)})" if depth else "exp(x)"
        lines.append(f"v{len(lines)} = {made};")
        return f"v{len(lines) - 1}"

    last = value(depth)
    return parse_graph(" ".join([*lines, f"return {last};"]))


def branches(count: int) -> Graph:
    lines = ["x: f32[4];", "r = exp(x);", *(f"b{at} = tanh(r);" for at in range(count))]
    fields = ", ".join(f"b{at}" for at in range(count))
    return parse_graph(" ".join([*lines, f"t = ({fields}); y = concat(t) [axis = 0]; return y;"]))


def additions_in(depth: int, leaves: list[str], call: str = "add") -> str:
    """A tree of calls as a pattern."""
    if depth == 0:
        return leaves.pop()
    sides = [additions_in(depth - 1, leaves, call) for _ in range(2)]
    return f"{call}({', '.join(sides)})"


@pytest.mark.parametrize(("optional", "calls"), [(10, 20), (12, 40), (20, 100)])
def test_optional_operands_in_a_row_match_every_stretch_of_a_chain(
    optional: int, calls: int
) -> None:
    values = "".join(f"t{at + 1} = add?(t{at}, _); " for at in range(optional))
    pattern = f"pattern p(x) {{ t0 = nn.relu?(x); {values} yield t{optional}; }}"
    found, told = proposed("dfpattern(p)", additions(calls), pattern)

    stretches = {
        frozenset(f"a{at}" for at in range(first, last + 1))
        for last in range(calls)
        for first in range(max(0, last - optional + 1), last + 1)
    }
    assert not told
    assert insides(found) == stretches


@pytest.mark.parametrize("depth", [5, 6])
@pytest.mark.parametrize(("leaf", "matches"), [("exp(x)", 1), ("tanh(x)", 0)])
def test_nested_commutative_calls_are_matched_in_any_order(
    depth: int, leaf: str, matches: int
) -> None:
    leaves = ["exp(x)"] * (2**depth - 1) + [leaf]
    for order in (leaves, leaves[::-1]):
        pattern = f"pattern p(x) {{ y = {additions_in(depth, list(order))}; yield y; }}"
        found, told = proposed("dfpattern(p)", tree(depth), pattern)
        assert (len(found), told) == (matches, [])


def test_repeated_calls_of_repeating_patterns_match_every_stretch() -> None:
    pattern = """
      pattern q(x) { y = repeat[1..8] exp(x); yield y; }
      pattern p(x) { y = repeat[1..8] q(x); yield y; }"""
    found, told = proposed("dfpattern(p)", chain(30), pattern)

    assert not told
    assert insides(found) == {
        frozenset(f"a{at}" for at in range(first, last + 1))
        for last in range(30)
        for first in range(last + 1)
    }


def test_a_pattern_with_too_many_matches_stops_and_says_where() -> None:
    leaves = ["x"] + ["_"] * 31
    pattern = f"pattern p(x) {{ y = {additions_in(5, leaves, 'add?')}; yield y; }}"
    graph = tree(7)
    first, (told,) = proposed("dfpattern(p)", graph, pattern)
    again, _ = proposed("dfpattern(p)", graph, pattern)

    assert "warning[W0334]: pattern `p` stopped after " in told
    assert first
    assert insides(first) == insides(again)


def test_where_a_pattern_almost_matches_is_found_too() -> None:
    leaves = ["tanh(x)"] + ["_"] * 31
    text = f"pattern p(x) {{ y = {additions_in(5, leaves)}; yield y; }}"
    spec = load(text=f"collage 1; {text} target t on llvm {{ rules dfpattern(p); }}")["t"]

    assert not near(spec.rule.pattern, tree(5)).matched  # type: ignore[union-attr]


COMBINED = "combine_by_primitives(op_call_by_kind(), using: [join_anything]"
HORIZONTAL = "horizontal(op_call_by_kind(), max: 8)"


@pytest.mark.parametrize(
    ("rule", "graph", "stops"),
    [
        (f"{COMBINED})", branches(32), "combine_by_primitives"),
        (f"{COMBINED}, max_depth: 50)", chain(1000), "combine_by_primitives"),
        (f"{COMBINED}, max_nodes: 12)", branches(60), "combine_by_primitives"),
        slow(f"{COMBINED}, max_splits: 2)", chain(400), "combine_by_primitives"),
        (HORIZONTAL, branches(120), "horizontal"),
        (
            f"vertical({COMBINED}, max_depth: 5), epilogue: injective, max_depth: 90)",
            chain(400),
            "vertical",
        ),
    ],
)
def test_a_rule_stops_and_keeps_what_it_found(rule: str, graph: Graph, stops: str) -> None:
    found, told = proposed(rule, graph)

    assert [f"`{stops}` stopped with " in each for each in told] == [True]
    assert all(graph.is_convex(each.sub_graph.inside) for each in found)
    alone = {each.nodes for each in found if len(each.nodes) == 1}
    assert alone == {frozenset([node.name]) for node in graph.nodes if node.is_call}


def test_a_target_says_how_many_candidates_a_rule_may_add() -> None:
    graph = chain(40)
    all_of_them, nothing = proposed(f"{COMBINED})", graph)
    found, told = proposed(f"{COMBINED})", graph, limits="max_candidates 100;")
    inner, _ = proposed(f"only_valid({COMBINED}), max_candidates: 7)", graph)

    assert (len(all_of_them), nothing) == (40 * 41 // 2, [])
    assert len(found) == 140
    assert "`combine_by_primitives` stopped with 140 candidates, most of them around `a" in told[0]
    assert len(inner) == 47


def test_without_a_number_it_grows_with_the_model() -> None:
    graph = branches(40)
    found, _ = proposed(f"{COMBINED})", graph)

    assert len(found) <= MOST_CANDIDATES + MORE_CANDIDATES * len(graph) + graph.calls.bit_count()
    assert len(found) > MOST_CANDIDATES


EVERYTHING = """
collage 1;
rule any = combine_by_primitives(op_call_by_kind(), using: [join_anything]);
target t on llvm { rules any; limits { max_candidates BOUND; max_exits any; taps allowed; } }
"""

SLOW = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a background job ignores
from collage_dsl.engine.steps import choose, propose
from collage_dsl.language import load, parse_graph
spec, graph, step = load(text=sys.argv[1])["t"], parse_graph(sys.argv[2]), sys.argv[3]
print("ready", flush=True)
if step == "propose":
    propose(graph, spec)
found = propose(graph, spec)
choose(graph, found, cost=lambda each: 1 + len(each.nodes) % 7, strategy="exhaustive")
"""


@pytest.mark.parametrize(
    ("step", "calls", "bound"), [("propose", 2000, 100_000_000), ("choose", 60, 300)]
)
def test_an_interrupt_ends_each_step(step: str, calls: int, bound: int) -> None:
    spec = EVERYTHING.replace("BOUND", str(bound))
    graph = "x: f32[4]; a0 = exp(x); " + " ".join(f"a{at + 1} = exp(a{at});" for at in range(calls))
    graph += f" return a{calls};"
    command = [sys.executable, "-c", SLOW, spec, graph, step]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()

    assert said.splitlines()[-1] == "KeyboardInterrupt"
