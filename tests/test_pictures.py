"""Pictures of graphs: those of the documentation, and what holds of all."""

import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.graph import CandidateKernel, Form, Graph, Node, SubGraph, first, members
from collage_dsl.report.layout import GAP, HEIGHT, ROW, layout
from collage_dsl.report.picture import (
    Group,
    Panel,
    candidates_picture,
    picture,
    plan_panel,
    plan_picture,
)
from collage_dsl.rules.rule_functions import PRIMITIVES, RULES
from collage_dsl.search import Problem, dijkstra
from tests.cases import cases
from tests.graphs import F32, LIBRARY, NATIVE, candidate, graph_of, mixed_graph

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import pictures  # noqa: E402
from architecture_pictures import STREET  # noqa: E402

GRAPHS = st.builds(mixed_graph, st.randoms(use_true_random=False), st.integers(0, 14))
SVG = "{http://www.w3.org/2000/svg}"


@cache
def drawn() -> Mapping[str, str]:
    return pictures.pictures()


def test_the_pictures_of_the_documentation_are_what_the_project_draws() -> None:
    assert list(pictures.stale(drawn())) == []


def test_the_street_in_the_picture_is_the_one_in_the_code() -> None:
    for module, name, sources in STREET:
        assert hasattr(import_module(f"collage_dsl.{module}"), name)
        assert all(source in {each for each, _, _ in STREET} for source in sources)
    assert len(STREET) < 17, "a reader who follows one kernel passes fewer modules than once"


def test_a_picture_that_is_not_up_to_date_is_named() -> None:
    current = drawn()
    changed = {**current, "union.svg": "<svg/>", "new.svg": "<svg/>"}
    del changed["kind.svg"]

    assert list(pictures.stale(changed)) == ["kind.svg", "new.svg", "union.svg"]


def test_every_rule_and_primitive_shows_its_picture_in_its_section() -> None:
    sections = pictures.sections()
    names = {name.split("-and-")[0] for name in sections} | {"host"}

    assert set(RULES) <= names
    assert {*PRIMITIVES, "kind"} <= names
    planned = pictures.planned_sections()
    assert {"after", "priority", "pin-and-forbid"} <= set(planned)
    for name, text in (sections | planned).items():
        assert text.count("](pictures/") == 1
        assert f"](pictures/{name}.svg)" in text


def boxes(svg: str, form: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(svg)
    return [each for each in root.iter(f"{SVG}rect") if each.get("class") == form]


def texts(svg: str, sort: str) -> list[str]:
    root = ElementTree.fromstring(svg)
    return [each.text or "" for each in root.iter(f"{SVG}text") if each.get("class") == sort]


CHAIN = graph_of({"a": ["x"], "b": ["a"], "c": ["b"]}, ["c"])


def test_candidates_that_overlap_are_in_different_copies_of_the_graph() -> None:
    found = [candidate(CHAIN, *names) for names in ("a", "ab", "b", "c", "bc")]

    svg = candidates_picture(CHAIN, found)

    assert len(boxes(svg, "box input")) == 3
    assert texts(svg, "said") == ["a: op1", "b: op1", "c: op1", "a b: op1+op1", "b c: op1+op1"]


def test_the_kernels_of_a_plan_have_the_colours_of_their_targets() -> None:
    found = [candidate(CHAIN, "a"), candidate(CHAIN, "b", target=LIBRARY), candidate(CHAIN, "c")]

    svg = plan_picture(dijkstra(Problem(CHAIN, found, lambda _: 1.0)))

    assert len(boxes(svg, "box input")) == 1
    assert texts(svg, "said") == ["native: 2 kernels", "library: 1 kernel"]
    assert len(boxes(svg, "within s0 f0")) == 2
    assert len(boxes(svg, "within s1 f1")) == 1


def test_a_heading_is_above_what_is_drawn_and_makes_room_for_itself() -> None:
    alone, headed = picture(CHAIN, [Panel([])]), picture(CHAIN, [Panel([], ["one", "a" * 40])])

    assert texts(headed, "said") == ["one", "a" * 40]
    assert "<title>one; aaaa" in headed
    (paper, wider) = (boxes(svg, "paper")[0] for svg in (alone, headed))
    assert int(wider.get("width", "0")) > 40 * 6 > int(paper.get("width", "0"))
    assert int(wider.get("height", "0")) > int(paper.get("height", "0")) + 2 * 11


def test_what_is_faint_has_its_colour_and_its_text_in_full() -> None:
    svg = picture(CHAIN, [Panel([Group(CHAIN.set_of("a"), 2, "a: 1 s or more", is_faint=True)])])

    root = ElementTree.fromstring(svg)
    faint = [each for each in root.iter(f"{SVG}g") if each.get("opacity")]
    assert [rect.get("class") for each in faint for rect in each] == [
        "around s2 f2",
        "within s2 f2",
        "s2 f2",
    ]
    assert texts(svg, "said") == ["a: 1 s or more"]


def test_plans_side_by_side_have_the_same_colours() -> None:
    found = [candidate(CHAIN, name, target=LIBRARY) for name in "abc"]

    panel = plan_panel(dijkstra(Problem(CHAIN, found, lambda _: 1.0)), targets=["native"])

    assert {group.colour for group in panel.groups} == {1}


def test_a_graph_without_candidates_is_drawn_alone() -> None:
    svg = candidates_picture(CHAIN, [])

    assert texts(svg, "name") == ["x", "a", "b", "c"]
    assert texts(svg, "said") == []
    assert "<title>no kernels</title>" in svg


def test_names_are_escaped_and_the_middle_of_long_ones_is_left_out() -> None:
    long = "/model/layers.0/attention/self/query/MatMul_output_0"
    nodes = [
        Node("<x> & y", Form.INPUT, F32),
        Node(long, Form.CALL, F32, (0,), "nn.relu"),
    ]
    graph = Graph(nodes, [1])

    svg = candidates_picture(graph, [CandidateKernel(graph, SubGraph(2), NATIVE)])

    assert texts(svg, "name") == ["<x> & y", "/model/layer…ul_output_0"]
    assert texts(svg, "what") == ["f32[4]", "nn.relu"]


def test_constants_that_are_bound_are_within_the_outline() -> None:
    nodes = [
        Node("x", Form.INPUT, F32),
        Node("w", Form.CONSTANT, F32),
        Node("y", Form.CALL, F32, (0, 1), "add"),
    ]
    graph = Graph(nodes, [2])

    svg = candidates_picture(graph, [CandidateKernel(graph, SubGraph(4, 2), NATIVE)])

    assert len(boxes(svg, "within s0 f0")) == 2
    assert texts(svg, "said") == ["w y: add"]


@cases(20)
@given(graph=GRAPHS, wide=st.integers(10, 90))
def test_boxes_do_not_overlap_and_edges_lead_downwards(graph: Graph, wide: int) -> None:
    shown = graph.computed | graph.parameters
    widths = {index: 2 * (wide + 7 * index % 30) for index in members(shown)}

    found = layout(graph, shown, widths)

    rows: dict[int, list[tuple[int, int]]] = {}
    for index, (x, y) in found.places.items():
        rows.setdefault(y, []).append((x, widths[index]))
        assert x - widths[index] // 2 >= 0
        assert x + widths[index] // 2 <= found.width + 1
        assert HEIGHT // 2 <= y <= found.height - HEIGHT // 2
    for row in rows.values():
        for (x, width), (next_x, next_width) in pairwise(sorted(row)):
            assert next_x - x >= (width + next_width) // 2 + GAP - 1
    for (start, end), points in found.edges.items():
        ys = [y for _, y in points]
        assert ys == sorted(set(ys))
        assert found.places[end][1] - found.places[start][1] >= ROW
    assert found == layout(graph, shown, widths)


@cases(20)
@given(graph=GRAPHS)
def test_every_candidate_is_in_the_picture_once(graph: Graph) -> None:
    found = [CandidateKernel(graph, SubGraph(1 << i), NATIVE) for i in members(graph.computed)]

    svg = candidates_picture(graph, [*found, *found])

    said = [f"{graph.nodes[first(c.sub_graph.inside)].name}: {c.label}" for c in found]
    assert texts(svg, "said") == [*said, *said]
