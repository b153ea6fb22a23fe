"""An operator that no rule proposes is explained by the pattern that nearly takes it."""

import pytest

import collage_dsl as collage
from collage_dsl.engine.covering import coverage
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.steps import searched

SPEC = """collage 1;
pattern activated(x, w: const) { y = nn.relu(add(matmul(x, w), _)); yield y; }
pattern square_dense(x, w: const) {
  m = matmul(x, w);
  y = tanh(m);
  where dim(w, 0) == dim(w, 1);
  yield y;
}
pattern dense(x, w: const) { y = tanh(add(matmul(x, w), _)); yield y; }
target npu on llvm { rules union(dfpattern(activated), dfpattern(square_dense), dfpattern(dense)); }
"""
GRAPH = """
x: f32[2, 4]; w = const f32[4, 3];
m = matmul(x, w); t = tanh(m); s = sigmoid(t); return s;
"""


def left(spec: str, graph: str) -> dict[str, str]:
    parsed = collage.parse_graph(graph)
    [found] = coverage(parsed, list(collage.load(text=spec).values()))
    return {parsed.nodes[index].name: why for index, why in found.left.items()}


def test_the_pattern_of_which_most_holds_says_why_it_does_not_match() -> None:
    found = left(SPEC, GRAPH)

    assert found["t"] == "pattern square_dense: `dim(w, 0) == dim(w, 1)` does not hold (at `t`)"


def test_an_operator_inside_a_pattern_is_explained_by_where_its_value_goes() -> None:
    found = left(SPEC, GRAPH)

    assert found["m"] == (
        "pattern square_dense at `t`: `dim(w, 0) == dim(w, 1)` does not hold (at `t`)"
    )


def test_no_pattern_explains_an_operator_that_none_has() -> None:
    assert left(SPEC, GRAPH)["s"] == "no rule proposes it"


def test_the_error_for_an_uncovered_operator_says_so_too() -> None:
    specs = list(collage.load(text=SPEC).values())

    with pytest.raises(collage.UncoveredError, match="square_dense at `t`: `dim"):
        searched(collage.parse_graph(GRAPH), specs, lambda _: 1.0, lookup())
