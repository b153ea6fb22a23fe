"""What rules propose, judged from the rules alone."""

import re
from dataclasses import replace

import pytest

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import relax_operators
from collage_dsl.language import check, load
from collage_dsl.language.reasoning.patterns import coverage
from collage_dsl.language.reasoning.patterns.coverage import Calls, covered, left_out
from collage_dsl.language.reasoning.patterns.smallest import Smallest, smallest
from collage_dsl.language.reasoning.patterns.subsumption import form, subsumes
from collage_dsl.rules import DFPattern, Pattern
from collage_dsl.source import Source

EVERYTHING = frozenset(Kind)


def pattern(text: str) -> Pattern:
    """The first pattern of `text`, which is without an edition."""
    name = text.removeprefix("pattern ").split("(")[0]
    before = 'collage 1; extern predicate fits(a, b) from "acme.predicates:fits";'
    found = load(text=f"{before} {text} target t on llvm {{ rules dfpattern({name}); }}")
    rule = found["t"].rule
    assert isinstance(rule, DFPattern)
    return rule.pattern


# Rules that say the same.


@pytest.mark.parametrize(("number", "warnings"), [(100, 99), (101, 0)])
def test_a_union_of_too_many_rules_is_not_looked_at(number: int, warnings: int) -> None:
    rules = ", ".join(["op_call_by_kind(reduce)"] * number)

    found = check(Source("t", f"collage 1; rule r = union({rules});"))

    assert [diagnostic.code for diagnostic in found] == ["W0420"] * warnings


# Fallbacks.


def test_all_kinds_leave_nothing_out() -> None:
    assert left_out(Calls(EVERYTHING)) == ()
    assert left_out(Calls(everything=True)) == ()
    assert left_out(Calls(ops=frozenset(relax_operators()))) == ()
    assert left_out(Calls()) == tuple(sorted(relax_operators()))


def test_a_kind_covers_its_operators() -> None:
    left = left_out(Calls(frozenset({Kind.REDUCE})))

    assert "sum" not in left
    assert "matmul" in left


def test_an_operator_that_broadcasts_may_be_elementwise() -> None:
    without = left_out(Calls(EVERYTHING - {Kind.ELEMENTWISE}))

    assert "add" in without
    assert "nn.relu" in without
    assert "matmul" not in without
    assert "add" in left_out(Calls(EVERYTHING - {Kind.BROADCAST}))


def test_what_covers_everything_does_so_in_a_union() -> None:
    some = Calls(frozenset({Kind.REDUCE}), frozenset({"sort"}))

    assert (some | Calls(everything=True)).everything
    assert (Calls(everything=True) | some).everything
    assert some | Calls(ops=frozenset({"topk"})) == Calls(
        frozenset({Kind.REDUCE}), frozenset({"sort", "topk"})
    )


def test_a_rule_that_asks_others_may_propose_anything() -> None:
    assert covered(object(), refuses_regions=False).everything  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "ops"),
    [
        ("pattern p(x) { y = nn.relu(x); yield y; }", {"nn.relu"}),
        ("pattern p(x) { y = (nn.relu | tanh)?(exp(x)); yield y; }", {"exp"}),
        ("pattern p(x) { k = exp(x); y = tanh?(k); yield y; }", {"exp"}),
        ("pattern p(x) { y = reshape(x, _); yield y; }", {"reshape"}),
        ("pattern p(x) { y = nn.relu(exp(x)); yield y; }", set()),
        ("pattern p(x: const) { y = nn.relu(x); yield y; }", set()),
        ("pattern p(x) { y = add(x, x); yield y; }", set()),
        ("pattern p(x) { y = add(x, 1); yield y; }", set()),
        ("pattern p(x) { y = argmax(x) [axis == 1]; yield y; }", set()),
        ("pattern p(x) { y = nn.relu(x); where rank(x) == 1; yield y; }", set()),
        ("pattern p(x) { y = strided_slice(x, _, _, _); yield y; }", set()),
    ],
)
def test_a_pattern_of_one_free_call_covers_its_operators(text: str, ops: set[str]) -> None:
    assert covered(DFPattern(pattern(text)), refuses_regions=True) == Calls(ops=frozenset(ops))


@pytest.mark.parametrize(("number", "more"), [(1, ""), (4, ""), (5, ", …")])
def test_a_few_names_are_shown(number: int, more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {f"op{at}": replace(relax_operators()["sort"], name=f"op{at}") for at in range(number)}
    monkeypatch.setattr(coverage, "relax_operators", lambda: known)
    text = "collage 1; target t on llvm { rules op_call_by_kind(); fallback; }"

    (found,) = check(Source("t", text))

    names = ", ".join(f"`{op}`" for op in list(known)[:4])
    counted = "1 operator" if number == 1 else f"{number} operators"
    assert found.notes[1].message == f"left out: {counted}, {names}{more}"


# The smallest match.


@pytest.mark.parametrize(
    ("text", "nodes", "depth"),
    [
        ("pattern p(x) { y = nn.relu(x); yield y; }", 1, 1),
        ("pattern p(x) { y = add(exp(x), tanh(x)); yield y; }", 3, 2),
        ("pattern p(x) { y = add(exp(x), exp(x)); yield y; }", 2, 2),
        ("pattern p(x) { y = add(exp(x), exp(tanh(x))); yield y; }", 3, 3),
        ("pattern p(x) { y = add(add(x, 1), add(x, 2)); yield y; }", 2, 2),
        ("pattern p(x) { y = add(power(x, 2), power(x, 3)); yield y; }", 3, 2),
        ("pattern p(x) { a = exp(x); y = add(a, multiply(a, a)); yield y; }", 3, 3),
        ("pattern p(x) { y = repeat[2..4] tanh(exp(x)); yield y; }", 3, 3),
        ("pattern p(x) { s = split(x); y = add(s.0, exp(s.1)); yield y; }", 3, 3),
        ("pattern p(x) { y = concat((exp(x), tanh(x))); yield y; }", 3, 2),
        ("pattern p(x) { a = exp(x); b = tanh(x); yield a, b; }", 2, 1),
        ("pattern p(x) { y = nn.relu?(exp(x)); yield y; }", 1, 1),
        ("pattern p(x) { y = add(exp(exp(x)), tanh(x)); yield y; }", 4, 3),
        ("pattern p(x) { y = repeat[2..4] add(x, tanh(_)); yield y; }", 3, 3),
        ("pattern p(x) { y = repeat[2..2] add(x, (exp(_) | tanh(_))); yield y; }", 3, 3),
        ("pattern p(x) { y = (exp(tanh(x)) | nn.relu(tanh(exp(x)))); yield y; }", 2, 2),
        ("pattern p(x) { y = add((exp(x) | tanh(x)), nn.relu(x)); yield y; }", 3, 2),
        ("pattern p(x) { a = (exp(x) | x); y = add(a, tanh(a)); yield y; }", 2, 2),
        ("pattern p(x) { y = tanh(path[0..4] exp from nn.relu(x)); yield y; }", 2, 2),
        ("pattern p(x) { y = tanh(path[3..4] exp from nn.relu(x)); yield y; }", 5, 5),
        ("pattern p(x, a, b) { y = add(x, a, b) flat; yield y; }", 2, 2),
        ("pattern p(x, a) { y = add(x, a, 0) flat; yield y; }", 1, 1),
        ("pattern p(x, a) { y = add(x, a, 1) flat; yield y; }", 2, 2),
        ("pattern p(x, a, b, c) { y = maximum(x, a, b, c) flat; yield y; }", 2, 2),
        ("pattern p(x) { y = multiply(x, x, x) flat; yield y; }", 1, 1),
        ("pattern p(x) { y = multiply(x, exp(x), 2) flat; yield y; }", 3, 2),
        ("pattern p(x) { y = multiply(x, exp?(x), 2) flat; yield y; }", 1, 1),
        ("pattern p(x) { y = add(exp(tanh(nn.relu(x))), x, x) flat; yield y; }", 5, 4),
        (
            "pattern p(x) { a = exp(x); y = add(tanh(nn.relu?(a)), tanh(nn.relu(a))); yield y; }",
            4,
            4,
        ),
    ],
)
def test_the_smallest_match(text: str, nodes: int, depth: int) -> None:
    assert smallest(pattern(text)) == Smallest(nodes, depth)


@pytest.mark.parametrize(
    ("left", "right", "nodes"),
    [
        ("exp(x)", "exp(z)", 1),
        ("exp(x)", "tanh(x)", 2),
        ("(exp | tanh)(x)", "tanh(x)", 1),
        ("(exp | tanh)(x)", "(sqrt | erf)(x)", 2),
        ("multiply(x, 2)", "multiply(x, 2)", 1),
        ("multiply(x, 2)", "multiply(x, 3)", 1),
        ("power(x, 2)", "power(x, 2)", 1),
        ("power(x, 2)", "power(x, 3)", 2),
        ("divide(x, 0.7071)", "divide(x, 0.70710678)", 1),
        ("divide(x, ~0.7071)", "divide(x, 2)", 1),
        ("divide(x, 0.5)", "divide(x, 0.25)", 2),
        ("multiply(x, 2)", "multiply(x, z)", 1),
        ("multiply(x, z)", "multiply(x, 2)", 1),
        ("power(x, 2)", "power(x, exp(z))", 3),
        ("multiply(x, 2)", "multiply(2, x)", 1),
        ("power(3, 2)", "power(2, 3)", 2),
        ("multiply(exp(x), tanh(z))", "multiply(exp(z), tanh(x))", 3),
        ("multiply(exp(x), tanh(z))", "multiply(tanh(x), exp(z))", 3),
        ("power(exp(x), tanh(z))", "power(tanh(x), exp(z))", 4),
        ("multiply(exp(x), tanh(z))", "multiply(exp(x), sqrt(z))", 5),
        ("multiply(exp(x), tanh(z))", "multiply(sqrt(x), exp(z))", 5),
        ("multiply(sqrt(x), exp(z))", "multiply(exp(x), tanh(z))", 5),
        ("concat((exp(x), z))", "concat((exp(z), x))", 2),
        ("concat((exp(x), z))", "concat((tanh(x), z))", 4),
        ("concat((x, z))", "concat((x, z, x))", 2),
        ("concat((x, z))", "concat(split(x))", 3),
        ("exp(((x, z)).0)", "exp(tanh(z))", 3),
        ("exp(tanh(z))", "exp(((x, z)).0)", 3),
        ("exp(exp(exp(exp(tanh(x)))))", "exp(exp(exp(exp(sqrt(x)))))", 10),
        ("exp(exp(exp(exp(tanh(x)))))", "exp(exp(exp(exp(tanh(z)))))", 5),
    ],
)
def test_what_one_node_can_match_counts_once(left: str, right: str, nodes: int) -> None:
    text = f"pattern p(x, z) {{ y = concat((log({left}), sigmoid({right}), x, z)); yield y; }}"

    assert smallest(pattern(text)).nodes == nodes + 3


@pytest.mark.parametrize(("first", "nodes"), [("x", 60), ("exp(x)", 31)])
def test_sixty_calls_are_told_apart(first: str, nodes: int) -> None:
    powers = "".join(f"v{at} = add(v{at - 1}, power(x, {at})); " for at in range(1, 30))
    text = f"pattern p(x) {{ v0 = power(x, 0); {powers} y = multiply(v29, {first}); yield y; }}"

    assert smallest(pattern(text)) == Smallest(nodes, 31)


def test_a_called_pattern_is_part_of_the_match() -> None:
    text = (
        "collage 1; pattern act(a) { b = tanh(exp(a)); yield b; } "
        "pattern p(x) { y = act(nn.relu(act?(x))); yield y; } "
        "target t on llvm { rules dfpattern(p); }"
    )
    rule = load(text=text)["t"].rule
    assert isinstance(rule, DFPattern)

    assert smallest(rule.pattern) == Smallest(3, 3)


def test_of_many_alternatives_the_least_depth_counts() -> None:
    several = "".join(f"v{at + 1} = (exp(v{at}) | tanh(tanh(v{at}))); " for at in range(30))

    found = smallest(pattern(f"pattern p(x) {{ v0 = nn.relu(x); {several} yield v30; }}"))

    assert found == Smallest(31, 31)


def test_a_long_pattern_is_as_large_as_it_is_deep() -> None:
    chain = "".join(f"v{at + 1} = add(v{at}, exp(x)); " for at in range(70))

    found = smallest(pattern(f"pattern p(x) {{ v0 = tanh(x); {chain} yield v70; }}"))

    assert found == Smallest(71, 71)


# Patterns within others.

CONV = "pattern p(x, w) { k = nn.conv2d(x, w); yield k; }"
BLOCK = """pattern p(x, w, b?) {
  k = nn.conv2d(x, w) [groups == 1];
  s = add?(k, b);
  y = nn.relu?(s);
  where not has(b) or rank(b) == 1 and dtype(b) == f32;
  where dtype(x) == f32;
  yield y;
}"""

PART = "pattern q(x, w) { k = nn.conv2d(x, w) [groups == 1]; where dtype(x) == f32; yield k; }"
BIASED = """pattern q(x, w, b) {
  k = nn.conv2d(x, w) [groups == 1, strides == [1, 1]];
  y = add(k, b);
  where rank(b) == 1 and dtype(b) == f32 and dtype(x) == f32;
  yield y;
}"""


def test_names_make_no_difference() -> None:
    one = "pattern p(x, w) { k = exp(x); y = add(k, w); where rank(k) > 1; yield y; }"
    other = "pattern q(w, a) { z = exp(w); u = z; b = add(u, a); where rank(u) > 1; yield b; }"

    assert form(pattern(one)) == form(pattern(other))


@pytest.mark.parametrize(
    "condition",
    [
        "not has(b) or uses(k) == 2",
        "rank(x) == rank(k)",
        "rank(x) + rank(k) == 4",
        "dtype(k) in [f32, f16]",
        "fits(k, x)",
    ],
)
def test_names_in_conditions_make_no_difference(condition: str) -> None:
    equations = "k = exp(x); y = add?(k, b);"
    one = f"pattern p(x, b?) {{ {equations} where {condition}; yield y; }}"
    renamed = re.sub(r"\b[xbky]\b", lambda name: f"{name[0]}_other", one)

    assert form(pattern(one)) == form(pattern(renamed))


@pytest.mark.parametrize(
    ("larger", "smaller", "covers"),
    [
        ("k = sum(x) [keepdims]; y = max(k);", "k = sum(x) [keepdims]; y = max(k);", True),
        ("k = sum(x) [keepdims]; y = max(k);", "k = sum(x); y = max(k) [keepdims];", False),
        ("k = exp(x); y = tanh(k);", "k = exp(x); y = tanh(k); anchor k;", False),
        ("k = exp(x); y = tanh(k); anchor k;", "z = exp(x); y = tanh(z); anchor z;", True),
        ("k = exp(x); y = tanh(k); anchor k;", "k = exp(x); y = tanh(k); anchor y;", False),
    ],
)
def test_each_call_is_compared_with_its_like(larger: str, smaller: str, covers: bool) -> None:
    one, other = (pattern(f"pattern p(x) {{ {body} yield y; }}") for body in (larger, smaller))

    assert subsumes(one, other) is covers


@pytest.mark.parametrize(("optional", "covers"), [(4, True), (5, False)])
def test_of_many_optional_calls_not_all_choices_are_looked_at(optional: int, covers: bool) -> None:
    calls = "".join(f"v{at} = tanh?(v{at - 1}); " for at in range(1, optional + 1))
    larger = f"pattern p(x) {{ v0 = exp(x); {calls} yield v{optional}; }}"

    assert subsumes(pattern(larger), pattern("pattern q(x) { y = exp(x); yield y; }")) is covers


@pytest.mark.parametrize(
    ("smaller", "covers"),
    [
        (BLOCK, True),
        (CONV, False),
        (PART, True),
        (PART.replace("groups == 1", "groups == 2"), False),
        (PART.replace("dtype(x)", "dtype(k)"), False),
        (BIASED, True),
        (BIASED.replace("rank(b) == 1 and ", ""), False),
        (BIASED.replace("[groups == 1, strides == [1, 1]]", ""), False),
        (BLOCK.replace("nn.relu?", "nn.relu"), True),
        (BLOCK.replace("nn.relu?", "nn.gelu?"), False),
    ],
)
def test_a_block_covers_its_parts(smaller: str, covers: bool) -> None:
    assert subsumes(pattern(BLOCK), pattern(smaller)) is covers


def test_a_condition_that_is_never_there_is_not_demanded() -> None:
    larger = (
        "pattern p(x, b?) { k = exp(x); y = add?(k, b); where has(b) or rank(x) == 2; yield y; }"
    )
    bare = "pattern q(x) { y = exp(x); where rank(x) == 2; yield y; }"
    both = "pattern q(x, b) { k = exp(x); y = add(k, b); yield y; }"

    assert subsumes(pattern(larger), pattern(bare))
    assert subsumes(pattern(larger), pattern(both))
    assert not subsumes(pattern(larger), pattern("pattern q(x) { y = exp(x); yield y; }"))


@pytest.mark.parametrize(
    ("condition", "bare", "covers"),
    [
        ("rank(x) == 2 or has(b)", "rank(x) == 2", True),
        ("has(b) or rank(x) == 2", "rank(x) == 2", True),
        ("rank(x) == 2 or has(b)", "rank(x) == 4", False),
        ("rank(x) == 2 or has(b) and rank(x) == 4", "rank(x) == 2 or rank(x) == 4", False),
        ("rank(x) == 2 or rank(x) == 4 and has(b)", "rank(x) == 2 or rank(x) == 4", False),
        ("rank(x) == 2 or not has(b) and rank(x) == 4", "rank(x) == 2 or rank(x) == 4", True),
        ("rank(x) == 2 or rank(x) == 4 and not has(b)", "rank(x) == 2 or rank(x) == 4", True),
    ],
)
def test_a_condition_is_judged_without_what_is_missing(
    condition: str, bare: str, covers: bool
) -> None:
    larger = f"pattern p(x, b?) {{ k = exp(x); y = add?(k, b); where {condition}; yield y; }}"
    smaller = f"pattern q(x) {{ y = exp(x); where {bare}; yield y; }}"

    assert subsumes(pattern(larger), pattern(smaller)) is covers
