"""Bounds of the candidates of a rule hold for what it proposes, and so does what follows."""

from itertools import product

import pytest

import collage_dsl as collage
from collage_dsl.graph import Graph, SubGraph
from collage_dsl.language import check, parse_graph
from collage_dsl.language.reasoning.patterns.extent import extent
from collage_dsl.rules import FusionRule
from collage_dsl.rules.trace import Trace
from collage_dsl.source import Source
from tests.cases import sample

PATTERNS = """
pattern one(x) { y = exp(x); yield y; }
pattern two(x) { y = nn.relu(exp(x)); yield y; }
pattern wide(x, w) { y = add(nn.relu(matmul(x, w)), exp(x)); yield y; }
pattern open(x) { e = exp(x); y = nn.relu(e); yield y, e; }
pattern tapped(x) { y = nn.relu(exp(x)); yield y; taps allowed; }
pattern field(x) { s = split(x) [indices_or_sections == 2]; y = s.0; yield y; }
pattern pair(a, b) { y = (exp(a), nn.relu(b)); yield y; }
pattern some(x) { y = nn.relu?(exp(x)); yield y; }
pattern chain(x) { y = repeat[1..3] tanh(x); yield y; }
pattern either(x) { y = nn.relu((exp(x) | add(exp(_), nn.relu(x)) | exp(nn.relu(x)))); yield y; }
pattern leading(x) { e = exp(x); y = path[2..5] (nn.relu | add | exp | tanh) from e; yield y; }
pattern total(x, a, b) { y = nn.relu(add(x, a, b) flat); yield y; }
"""
NAMES = (
    "one",
    "two",
    "wide",
    "open",
    "tapped",
    "field",
    "pair",
    "some",
    "chain",
    "either",
    "leading",
    "total",
)
SEEDS = (
    "op_call_by_kind()",
    "op_call_by_kind(anchor)",
    "union(op_call_by_kind(anchor), dfpattern(two))",
    *(f"dfpattern({name})" for name in NAMES),
)
AROUND = (
    "{}",
    "combine_by_primitives({}, using: tvm_default)",
    "combine_by_primitives({}, using: [join_anything], max_nodes: 4)",
    "combine_by_primitives({}, using: [join_anything], max_depth: 2, max_splits: 1)",
    "vertical({})",
    "vertical({}, prologue: none, max_depth: 2)",
    "horizontal({}, max: 2)",
    "max_coalesce({})",
    "only_valid({}, max_nodes: 3, max_exits: any)",
    "only_valid({}, min_nodes: 2, max_exits: any)",
)
GRAPHS = (
    """
    x: f32[4, 4]; w: f32[4, 4]; e = exp(x); m = matmul(e, w); r = nn.relu(m); a = exp(r);
    b = nn.relu(a); c = tanh(b); d = tanh(c); return d;
    """,
    """
    x: f32[4, 4]; w: f32[4, 4]; m = matmul(x, w); r = nn.relu(m); e = exp(x); a = add(r, e);
    f = nn.relu(e); s = split(a) [indices_or_sections = 2]; p = s.0; g = exp(p); h = nn.relu(g);
    return h, f;
    """,
    """
    x: f32[4, 4]; e = exp(x); f = exp(x); r = nn.relu(f); t = (e, r); c = concat(t) [axis = 0];
    g = exp(c); h = nn.relu(g); z = tanh(h); return z, g;
    """,
    """
    x: f32[4, 4]; e = exp(x); r = nn.relu(x); a = add(e, r); b = add(a, a); c = nn.relu(b);
    d = exp(c); f = nn.relu(d); g = tanh(d); y = add(f, g); return y;
    """,
)


def rule_of(text: str) -> FusionRule:
    whole = f'collage 1; {PATTERNS} target t on llvm {{ compiler "lib"; rules {text}; }}'
    return collage.load(text=whole)["t"].rule


def graphs() -> list[Graph]:
    return [parse_graph(f"graph {{ {text} }}") for text in GRAPHS]


def calls(graph: Graph, candidate: SubGraph) -> int:
    return (candidate.inside & graph.calls).bit_count()


@pytest.mark.parametrize(("seed", "around"), sample(2, product(SEEDS, AROUND)))
def test_candidates_are_within_the_bounds(seed: str, around: str) -> None:
    rule = rule_of(around.format(seed))
    bounds = extent(rule)

    for graph in graphs():
        for each in rule.propose(graph, Trace()):
            assert bounds is not None
            assert bounds.least <= calls(graph, each) <= bounds.most
            assert bounds.depth <= graph.depth(each.inside)


GROWING = (
    "combine_by_primitives({}, using: tvm_default, {}: {})",
    "combine_by_primitives({}, using: [join_anything], {}: {}, max_splits: 1)",
    "vertical({}, prologue: none, epilogue: injective, {}: {})",
    "vertical({}, prologue: injective, epilogue: none, {}: {})",
    "vertical({}, {}: {})",
)


@pytest.mark.parametrize(("seed", "around"), sample(3, product(SEEDS, GROWING)))
def test_a_rule_that_is_said_to_add_nothing_adds_no_call(seed: str, around: str) -> None:
    names = ["max_depth"] if around.startswith("vertical") else ["max_nodes", "max_depth"]
    alone = rule_of(seed)
    for name, bound in product(names, range(1, 5)):
        text = around.format(seed, name, bound)
        whole = f'collage 1; {PATTERNS} target t on llvm {{ compiler "lib"; rules {text}; }}'
        told = [each.message for each in check(Source("t", whole)) if each.code == "W0425"]
        if not any(map(_adds_nothing, told)) and not (told and "none" in around):
            continue
        growing = rule_of(text)
        for graph in graphs():
            before = {each.inside & graph.calls for each in alone.propose(graph, Trace())}
            after = {each.inside & graph.calls for each in growing.propose(graph, Trace())}
            assert after == before


def _adds_nothing(message: str) -> bool:
    return "refuses everything" in message or "a prologue or an epilogue" in message
