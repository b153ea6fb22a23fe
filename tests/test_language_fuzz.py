"""Any text at all gives diagnostics or a result, and never another exception."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from collage_dsl.diagnostics import RuleError
from collage_dsl.language import check, format_graph, load, parse_graph, to_text
from collage_dsl.source import Source
from tests.cases import cases

SPEC = """\
collage 1;
pattern conv(x: [n, c, 4, _], w: const & [_, c, 3, 3], b?: const, r?) {
  k = nn.conv2d(x, w) [groups in 1..2, strides[*] <= 2];  # comment
  s = add?(k, b);
  t = add?(s, multiply(r, ~0.5));
  y = (nn.relu | nn.gelu)?(t);
  where dtype(x) in [f32, bf16] and not has(b) or dim(w, -1) % 16 == 0 else "why \\"not\\"";
  yield y;
}
let act = one_of(nn.relu, tanh);
pattern pairs(x) {
  taps allowed;
  s = split(concat((x, tanh(x)))) shared;
  y = repeat[1..3] act(add(s.0, s.1) ordered);
  yield y, s;
}
pattern either(x, b?) {
  k = (nn.relu(x) | multiply(x, ~0.7071 within 1e-3));
  y = ((split(k) | (k, k)).0.1 | add(k, b) | k);
  where uses(k) == 1 or has(b);
  anchor k;
  yield y;
}
pattern block(x, w, b?: const) { y = act?(conv(x, w, b, _)); yield y; }
rule tagged(p, label) = max_coalesce(composite(label, dfpattern(p)));
rule library = union(tagged(conv, "lib.most"),
  dfpattern(block), dfpattern(either),
  composite("lib.conv", dfpattern(conv)), op_call_by_kind(opaque));
target lib on llvm(mcpu: "znver4", num_cores: 2) {
  compiler "lib";
  variants [fast, im2col];
  rules combine_by_primitives(
    union(library, op_call_by_kind()), using: [kind(anchor -> broadcast)], max_nodes: 4);
  limits { max_depth 8; taps allowed; }
  measure { repeats 5; percentile 50; budget 1.5s; timeout 30s; noise_margin 2.5%; }
  after max_coalesce();
  fallback;
}
test "fuse" {
  graph { x: f32[1, 4]; `a/b` = nn.relu(x); y = exp(`a/b`); return y; }
  costs { lib { "nn.*": 1.5ms; "*": 10us; } }
  expect not matches(conv, at: y, nodes: 2) and kernels(lib) <= 2;
  expect proposes(lib, ["a/b", y]);
}
"""
GRAPH = """\
graph {
  x: f32[n, 16, `8 * k`, ?]; w = const f32[16, 16, 3, 3]; b = const f32[2] [0.5, -1];
  c = nn.conv2d(x, w) [padding = [1, 1], data_layout = "NCHW"];
  `lv/1` = reshape(c, [1, -1]); t = (c, `lv/1`,); p = t.0; y: (f32[*], object) = topk(p);
  z = clip(c, 0.0, 6); s = split(c) [indices_or_sections = [2, 3], axis = 1];
  return z, s;
}
"""
TOKENS = st.sampled_from(sorted(set(re.findall(r"\w+|\"[^\"]*\"|\S", SPEC + GRAPH))))


def mutants(text: str) -> st.SearchStrategy[str]:
    """`text` with some slices left out, or replaced by other tokens."""
    places = st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, 9), TOKENS), max_size=4)

    def changed(changes: list[tuple[int, int, str]]) -> str:
        result = text
        for start, length, token in changes:
            result = f"{result[:start]} {token} {result[start + length :]}"
        return result

    return places.map(changed)


def cuts(text: str) -> st.SearchStrategy[str]:
    return st.integers(0, len(text)).map(lambda end: text[:end])


soup = st.lists(TOKENS, max_size=40).map(" ".join)


@cases(50)
@given(st.text() | mutants(SPEC) | cuts(SPEC) | soup.map("collage 1; {}".format) | soup)
@example("collage 1")
@example("collage 99999999999999999999;")
@example("collage 1; collage")
@example('"')
@example("collage 1; target t on llvm { limits {")
@example("collage 1; }}}")
@example('collage 1; rule "" = host();')
@example("collage 1; rule r = union(op_call_by_kind();\x00")
@example("collage ᠑;")
def test_any_text_gives_specs_or_diagnostics(text: str) -> None:
    source = Source("fuzz", text)
    found = check(source)
    for diagnostic in found:
        assert 0 <= diagnostic.span.start <= diagnostic.span.end <= len(text)
        assert str(diagnostic)
    assert [d.span.start for d in found] == sorted(d.span.start for d in found)
    errors = tuple(d for d in found if d.is_error)
    if errors:
        with pytest.raises(RuleError) as caught:
            load(text=text, name="fuzz")
        assert caught.value.diagnostics == errors
    else:
        specs = load(text=text)
        assert load(text=to_text(specs)) == specs


@cases(50)
@given(st.text() | mutants(GRAPH) | cuts(GRAPH) | soup)
@example("graph")
@example("graph {")
@example("return a;")
@example("x: f32[4]; y = nn.max_pool2d(x) [pool_size = 0]; return y;")
@example("x: f32[1,2,3,4]; y = nn.max_pool2d(x) [pool_size = [], strides = [0]]; return y;")
@example("x: f32[4]; y = split(x) [indices_or_sections = 0]; return y;")
@example("x: f32[4]; y = reshape(x, [0, -1]); return y;")
@example("x: f32[4]; y = reshape(x, 4); return y;")
@example("x: i64[4]; y = multiply(x, 0.5); z = multiply(x, 99999999999999999); return y;")
@example("c = const i8[] 300; return c;")
@example("c = const u8[2] [1, 2]; t = (c,); y = concat(t) [axis = 7]; return y;")
def test_any_text_gives_a_graph_or_diagnostics(text: str) -> None:
    try:
        graph = parse_graph(text)
    except RuleError:
        return
    assert parse_graph(format_graph(graph)).nodes == graph.nodes
