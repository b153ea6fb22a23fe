"""What `path[…] class from x` matches, compared with all paths written out."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.graph import Graph, Kind, members
from collage_dsl.language import load, parse_graph
from collage_dsl.rules import DFPattern, Pattern
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.pattern import Binding, Call, Parameter, PathFrom, Reference
from tests.cases import cases

X = Reference("x")


@st.composite
def graphs(draw: Any) -> Graph:
    """A graph of elementwise, broadcasting and reducing operators over one shape."""
    lines, names = ["n0: f32[4,4];"], ["n0"]
    for at in range(1, draw(st.integers(2, 8))):
        one, other = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        calls = [f"exp({one})", f"add({one}, {other})", f"nn.softmax({one})"]
        lines.append(f"n{at} = {draw(st.sampled_from([*calls, *calls[:2]]))};")
        names.append(f"n{at}")
    return parse_graph(f"{' '.join(lines)} return {names[-1]};")


def paths(graph: Graph, start: int, end: int) -> Iterator[tuple[int, ...]]:
    """The nodes after `start` on each path to `end`."""
    if start == end:
        yield ()
    for user in members(graph.users_of[start]):
        yield from ((user, *rest) for rest in paths(graph, user, end))


def regions(graph: Graph, start: int, end: int) -> frozenset[int] | None:
    """The nodes after `start` on all paths to `end`, if they are elementwise calls."""
    inside = {node for path in paths(graph, start, end) for node in path}
    if not inside or any(graph.nodes[node].kind is not Kind.ELEMENTWISE for node in inside):
        return None
    return frozenset(inside)


def is_closed(graph: Graph, inside: frozenset[int], end: int) -> bool:
    users = (set(members(graph.users_of[node])) for node in inside - {end})
    return all(each <= inside for each in users) and not inside - {end} & set(graph.outputs)


@cases(200)
@given(graphs(), st.integers(1, 2), st.integers(2, 6), st.booleans())
def test_a_path_is_all_paths(graph: Graph, least: int, most: int, taps: bool) -> None:
    path = PathFrom((), X, least, most, (Kind.ELEMENTWISE,))
    pattern = Pattern("p", (Parameter("x"),), (Binding("y", path),), "y", taps=taps)
    for end in range(len(graph)):
        wanted = set()
        for start in range(len(graph)):
            inside = regions(graph, start, end)
            if inside and least <= len(inside) <= most and (taps or is_closed(graph, inside, end)):
                wanted.add(inside)
        found = matches(pattern, graph, end, Attempt())
        assert {frozenset(members(match.inside)) for match in found} == wanted


@cases(100)
@given(graphs())
def test_a_path_from_an_operator_ends_the_kernel_that_the_operator_begins(graph: Graph) -> None:
    """As Relay's dominator patterns: an anchor, and all that leads from it to the result."""
    origin = Call(("nn.softmax",), (X,))
    path = PathFrom(("exp", "add"), origin, 0, 8)
    pattern = Pattern("p", (Parameter("x"),), (Binding("y", path),), "y")
    for end in range(len(graph)):
        wanted = set()
        for start in range(len(graph)):
            inside = regions(graph, start, end) if start != end else frozenset[int]()
            if graph.nodes[start].op == "nn.softmax" and inside is not None:
                whole = inside | {start}
                if is_closed(graph, whole, end):
                    wanted.add(whole)
        found = matches(pattern, graph, end, Attempt())
        assert {frozenset(members(match.inside)) for match in found} == wanted


def test_a_long_chain_is_matched_at_each_node_without_a_stop() -> None:
    text = "pattern p(x) { y = path[1..100] elementwise from tanh(x); yield y; }"
    rule = load(text=f"collage 1; {text} target t on llvm {{ rules dfpattern(p); }}")["t"].rule
    assert isinstance(rule, DFPattern)
    chain = " ".join(f"n{at} = exp(n{at - 1});" for at in range(1, 400))
    graph = parse_graph(f"x: f32[4]; n0 = tanh(x); {chain} return n399;")

    for at in (100, 101):
        attempt = Attempt()
        found = matches(rule.pattern, graph, graph.index(f"n{at}"), attempt)
        assert len(found) == (at == 100)
        assert not attempt.stopped
