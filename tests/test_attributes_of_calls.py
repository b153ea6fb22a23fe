"""Conditions compare elements of attributes, and attributes of two calls."""

import pytest

from collage_dsl.language import load, parse_graph, to_text
from collage_dsl.rules import DFPattern
from collage_dsl.rules.explain import explain
from collage_dsl.rules.matcher import matches

GRAPH = """
x: f32[1, 3, 16, 16];
w = const f32[3, 3, 3, 3];
k = nn.conv2d(x, w) [strides = [2, 1], padding = [1, 0, 1, 2], groups = 1];
y = nn.max_pool2d(k) [strides = [2, 1], pool_size = [2, 2]];
return y;
"""


def of(brackets: str, where: str = "rank(y) == 4") -> DFPattern:
    text = f"""collage 1;
    pattern p(x, w) {{
      k = nn.conv2d(x, w);
      y = nn.max_pool2d(k) [{brackets}];
      where {where};
      yield y;
    }}
    target t on llvm {{ rules dfpattern(p); }}"""
    specs = load(text=text)
    assert load(text=to_text(specs)) == specs
    rule = specs["t"].rule
    assert isinstance(rule, DFPattern)
    return rule


@pytest.mark.parametrize(
    ("brackets", "where", "holds"),
    [
        ("strides == k.strides", "rank(y) == 4", True),
        ("strides[0] == k.strides[1]", "rank(y) == 4", False),
        ("strides[0] == 2 and strides[-1] == 1", "rank(y) == 4", True),
        ("pool_size[*] == k.strides[0]", "rank(y) == 4", True),
        ("layout == k.data_layout", "k.groups + 1 == dim(x, 0) * 2", True),
        ("ceil_mode == false", "k.padding[0] == k.padding[2]", True),
        ("ceil_mode == false", "k.padding[1] == k.padding[3]", False),
        ("ceil_mode == false", "k.padding in [[1, 0, 1, 2]] and k.padding[*] in 0..2", True),
        ("k.out_dtype == none", "rank(y) == 4", True),
        ("k.out_dtype != none", "rank(y) == 4", False),
        ("k.out_dtype in [none, f32]", "y.strides[0] == 2", True),
    ],
)
def test_attributes_are_compared(brackets: str, where: str, holds: bool) -> None:
    graph = parse_graph(GRAPH)

    assert bool(matches(of(brackets, where).pattern, graph, graph.index("y"))) is holds


def test_the_attributes_are_said() -> None:
    graph = parse_graph(GRAPH)

    explained = explain(of("strides[0] == k.strides[1]").pattern, graph, graph.index("y"))

    found = [str(fact) for fact in getattr(explained.reason, "facts", ())]
    assert found == ["strides is [2, 1]", "k.strides is [2, 1]"]
