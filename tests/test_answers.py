"""Answers that a test gets are never refused by the checker, one by one or together."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest

from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.testing import _Asked as Asked
from collage_dsl.language import check, parse_graph
from collage_dsl.language.loading import load_contents
from collage_dsl.language.resolve.file import Contents
from collage_dsl.language.resolve.questions import (
    Candidates,
    Kernels,
    Matches,
    Proposes,
    Question,
    TargetOf,
    WhyNot,
)
from collage_dsl.source import Source
from tests.cases import sample, slow

HEAD = """collage 1;
pattern p(x) { y = nn.relu?(exp(x)); yield y; }
pattern q(x) { y = nn.relu(exp(x)); yield y; }
pattern r(x, c: const) { y = add(x, c); where dtype(x) == f32 else "only f32"; yield y; }
pattern s(x, c: const) {
  m = r(x, c);
  y = (nn.relu(m) | tanh(m));
  where rank(y) in [2, 3] and dtype(y) in [f16, f32] else "no lists";
  yield y;
}
rule any = combine_by_primitives(op_call_by_kind(), using: tvm_default);
target a on llvm { rules any; }
target b on llvm { compiler "b"; rules union(dfpattern(p), dfpattern(q)); after max_coalesce(); }
target c on llvm { compiler "c"; rules op_call_by_kind(); }
target d on llvm { compiler "d"; rules union(dfpattern(s), op_call_by_kind(reduce)); }
"""
COSTS = (
    {"a": '"*": 3us;', "b": '"*": 1us;'},
    {"a": '"nn.relu": 1us; "*": 3us;', "c": '"exp": 1us; "*": 5us;'},
    {"a": '"*": 2us;'},
    {"a": '"*": 2us;', "d": '"*": 1us;'},
)
GRAPHS = {
    "x: f32[4]; m = exp(x); y = nn.relu(m); z = tanh(y); return z;": ("m", "y", "z"),
    "x: f32[4]; m = exp(x); y = nn.relu(m); return y, m;": ("m", "y"),
    "x: f32[4]; y = exp(x); return y;": ("y",),
    "x: f32[4]; m = split(x) [indices_or_sections = 2]; y = m.0; z = exp(y); return z;": (
        *("m", "y", "z"),
    ),
    "x: f32[4]; c = const f32[4]; m = add(x, c); y = nn.relu(m); z = sum(y); return z;": (
        *("m", "y", "z"),
    ),
    "x: f16[4, 4]; c = const f16[4]; m = add(c, x); y = tanh(m); return y, m;": ("m", "y"),
}


def text(graph: str, costs: dict[str, str], *expected: str) -> str:
    tables = " ".join(f"{target} {{ {prices} }}" for target, prices in costs.items())
    expects = " ".join(f"expect {each};" for each in expected)
    return f'{HEAD} test "t" {{ graph {{ {graph} }} costs {{ {tables} }} {expects} }}'


def refused(graph: str, costs: dict[str, str], *expected: str) -> list[str]:
    found = check(Source("t", text(graph, costs, *expected)))
    return [str(each) for each in found if each.is_error]


def questions(contents: Contents, nodes: tuple[str, ...]) -> Iterator[tuple[str, Question]]:
    yield from ((f"kernels({name})", Kernels(name or None)) for name in ("", *contents.specs))
    for name, spec in contents.specs.items():
        yield f"candidates({name})", Candidates(spec)
        for size in range(1, len(nodes) + 1):
            for group in combinations(nodes, size):
                yield f"proposes({name}, [{', '.join(group)}])", Proposes(spec, frozenset(group))
    for name, pattern in contents.patterns.items():
        yield f"matches({name})", Matches(pattern)
        for size in (1, 2):
            yield f"matches({name}, nodes: {size})", Matches(pattern, None, size)
        for node in nodes:
            yield f"matches({name}, at: {node})", Matches(pattern, node)
            yield f"why_not({name}, at: {node})", WhyNot(pattern, node)
            for size in (1, 2):
                asked = f"matches({name}, at: {node}, nodes: {size})"
                yield asked, Matches(pattern, node, size)
    yield from ((f"target_of({node})", TargetOf(node)) for node in nodes)


def right(graph: str, costs: dict[str, str]) -> list[str]:
    """What holds, whatever the checker says of it."""
    contents = load_contents(Source("t", text(graph, costs, "candidates(any) > 1")))
    (test,) = contents.tests
    asked = Asked(test, contents.specs, parse_graph(f"graph {{ {graph} }}"), lookup())
    found = []
    for said, question in questions(contents, GRAPHS[graph]):
        value = asked.answer(question).value
        if isinstance(question, Proposes):
            found.append(said if value else f"not {said}")
        elif isinstance(question, TargetOf):
            found += [f"{said} != {name}" for name in costs if name != value]
            found += [f"{said} == {value}"] * bool(value)
        elif isinstance(question, WhyNot):
            found += [f'{said} == "{value}"'] * bool(value)
        else:
            assert isinstance(value, int)
            found += [f"{said} == {value}", f"{said} != {value + 1}", f"{said} < {value + 1}"]
            found += [f"{said} >= {value}"] if value else []
    return found


@pytest.mark.parametrize("every", [4, slow(1)])
@pytest.mark.parametrize(
    ("graph", "costs"),
    sample(2, [(g, c) for g in GRAPHS for c in COSTS if ("const" in g) == ("d" in c)]),
)
def test_right_answers_are_not_refused(graph: str, costs: dict[str, str], every: int) -> None:
    """One by one, of which one in so many is asked, and together."""
    found = right(graph, costs)

    assert len(found) > 40
    assert [each for each in found[::every] if refused(graph, costs, each)] == []
    for start, end in pairwise([*range(0, len(found), 60), len(found)]):
        assert refused(graph, costs, *found[start:end]) == []
    assert refused(graph, costs, *found[::3]) == []
    assert refused(graph, costs, *found[::-2]) == []
