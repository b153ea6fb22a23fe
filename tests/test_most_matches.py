"""A pattern never matches more often in a graph than `collage check` says."""

from math import inf
from pathlib import Path

import pytest

from collage_dsl.language import parse_graph
from collage_dsl.language.loading import patterns
from collage_dsl.language.reasoning.patterns.most_matches import most_matches
from collage_dsl.rules.matcher import matches
from collage_dsl.witness.example import NoExampleError, example
from tests.cases import sample

SPECS = sorted((Path(__file__).parents[1] / "specs").rglob("*.collage"))

GRAPH = parse_graph(
    "x: f32[4]; a = nn.relu(x); b = exp(a); c = add(a, b); d = add(b, c); e = nn.relu(d); "
    "f = exp(e); return f;"
)


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("pattern p(x) { y = exp(nn.relu(x)); yield y; }", 2),
        ("pattern p(x, z) { y = add(x, z); yield y; }", 4),
        ("pattern p(x, z) { y = subtract(x, z); yield y; }", 0),
        ("pattern p(x, z) { y = add(exp?(x), z); yield y; }", 8),
        ("pattern p(x, z) { y = add((exp(x) | x), z); yield y; }", 8),
        ("pattern p(x) { y = exp?(x); yield y; }", inf),
        ("pattern p(x) { y = elementwise(x); yield y; }", inf),
        ("pattern p(x) { y = exp(path[0..3] elementwise from x); yield y; }", inf),
    ],
)
def test_there_are_at_most_so_many(text: str, most: float) -> None:
    (pattern,) = patterns(text=f"collage 1;\n{text}\n").values()
    found = [each for root in range(len(GRAPH)) for each in matches(pattern, GRAPH, root)]

    assert most_matches(pattern, GRAPH) == most
    assert len(found) <= most


@pytest.mark.parametrize("path", sample(3, SPECS), ids=lambda path: path.stem)
def test_patterns_of_specs_match_their_examples_at_most_so_often(path: Path) -> None:
    for pattern in patterns(path).values():
        try:
            shown = example(pattern)
        except NoExampleError:
            continue
        root = shown.graph.index(shown.at)

        found = matches(pattern, shown.graph, root)
        assert 1 <= len(tuple(found)) <= most_matches(pattern, shown.graph, shown.at)
