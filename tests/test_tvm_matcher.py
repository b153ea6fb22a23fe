"""Our matcher finds what TVM's does, and differs where it says so."""

import random
from functools import cache

import pytest
from tvm import relax
from tvm.relax import dpl

from collage_dsl.frontend.light import light_model, light_models
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.language import load, parse_graph
from collage_dsl.resources import folder, shipped_specs
from collage_dsl.rules import DFPattern, Pattern
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.pattern import Binding, Call, Either, Parameter, Reference
from tests.random_relax import random_pattern, relax_graph
from tests.tvm_oracle import (
    RelaxGraph,
    check_agreement,
    is_sayable,
    ours,
    readings,
    sayable,
)

FURTHER = """
collage 1;
import "std/activations.collage" only (relu6, swish, gelu_erf, hard_swish);
pattern bias_twice(x, a: const, b: const) { y = add(add(x, a), b); yield y; }
pattern any_chain(x) { y = repeat[1..4] (add | multiply)(x, _); yield y; }
pattern chain(x) { y = repeat[0..3] (nn.relu | nn.max_pool2d | nn.avg_pool2d)(x); yield y; }
pattern residual(x, w: const, b?: const) {
  k = nn.conv2d(x, w) [groups == 1];
  y = nn.relu(add(add?(k, b), x));
  yield y;
}
pattern normalized(x, p) { y = divide(x, power(add(multiply(_, p), _), _)); yield y; }
pattern both(x) { y = concat((nn.relu(x), nn.relu(_))); yield y; }
pattern pooled(x) { y = (nn.max_pool2d | nn.avg_pool2d)(nn.relu?(x)); yield y; }
pattern dense(x, w: const, b?: const) {
  y = nn.softmax?(nn.relu?(add?(matmul(x, w), b)));
  where dtype(x) in [f32, f16];
  yield y;
}
pattern shuffled(x) { y = reshape(permute_dims(reshape(x, _)), _); yield y; }
"""


def patterns(text: str) -> list[Pattern]:
    """The patterns that `text` defines or imports, each found by a target of its own."""
    names = [line.split("(")[0].split()[1] for line in text.splitlines() if line[:7] == "pattern"]
    names += ["relu6", "swish", "gelu_erf", "hard_swish"] if "import" in text else []
    rules = ", ".join(f"dfpattern({name})" for name in names)
    rule = load(text=f"{text}\ntarget t on llvm {{ rules union({rules}); }}")["t"].rule
    assert hasattr(rule, "rules")
    return [leaf.pattern for leaf in rule.rules]


def patterns_of_rule(rule: object) -> list[Pattern]:
    """All patterns below `rule`."""
    if isinstance(rule, DFPattern):
        return [rule.pattern]
    below = getattr(rule, "rules", None) or [r for r in [getattr(rule, "rule", None)] if r]
    return [pattern for each in below for pattern in patterns_of_rule(each)]


@cache
def compared() -> tuple[Pattern, ...]:
    """The patterns of every shipped spec, and further ones."""
    found = patterns(FURTHER)
    for name in shipped_specs():
        for spec in load(folder("specs") / f"{name}.collage").values():
            found += patterns_of_rule(spec.rule)
    return tuple(dict.fromkeys(found))


@pytest.mark.slow
@pytest.mark.parametrize("name", light_models())
def test_matches_on_a_light_model_are_those_of_tvm(name: str) -> None:
    given = RelaxGraph(from_onnx(light_model(name)))
    counts = [check_agreement(pattern, given) for pattern in compared() if is_sayable(pattern)]
    assert sum(map(bool, counts)) >= 3, "too few of the patterns match in the model"


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_matches_on_random_graphs_are_those_of_tvm(first: int) -> None:
    matched = 0
    for seed in range(first, first + 50):
        generator = random.Random(seed)
        graph = relax_graph(generator, generator.randint(3, 14))
        given = RelaxGraph(graph)
        for _ in range(5):
            matched += bool(check_agreement(random_pattern(generator, graph), given))

    assert matched > 100, "too few of the 250 patterns match anywhere"


# A comparison that could not fail would prove nothing.


def test_the_comparison_sees_a_match_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    (pattern,) = patterns("collage 1;\npattern p(x) { y = exp?(nn.relu(x)); yield y; }")
    given = RelaxGraph(parse_graph("x: f32[4]; r = nn.relu(x); y = exp(r); return y;"))
    assert check_agreement(pattern, given) == 2

    monkeypatch.setattr("tests.tvm_oracle.ours", lambda *_: set())
    with pytest.raises(AssertionError, match="at `r` TVM covers"):
        check_agreement(pattern, given)


@pytest.mark.parametrize(
    ("asked", "count"),
    [("axis == none", 1), ("axis == [0]", 1), ("axis in [none, [0]]", 2), ("axis == [1]", 0)],
)
def test_tvm_too_matches_an_attribute_that_has_no_value(asked: str, count: int) -> None:
    (pattern,) = patterns(f"collage 1;\npattern p(x) {{ y = sum(x) [{asked}]; yield y; }}")
    graph = parse_graph("x: f32[4, 8]; a = sum(x); b = sum(x) [axis = 0]; return a, b;")

    assert check_agreement(pattern, RelaxGraph(graph)) == count


# What is meant to differ.


def test_tvm_keeps_the_first_alternative_and_we_go_back() -> None:
    left = Call(("exp",), (Reference("v"),))
    choices = Either((left, Call(("exp",), (Call(("nn.relu",), (Reference("v"),)),))))
    bindings = (Binding("y", Call(("subtract",), (choices, Reference("v")))),)
    pattern = Pattern("p", (Parameter("v"),), bindings, "y")
    graph = parse_graph("x: f32[4]; r = nn.relu(x); e = exp(r); y = subtract(e, x); return y;")
    given = RelaxGraph(graph)
    exp, relu, subtract = (dpl.is_op(f"relax.{op}") for op in ("exp", "nn.relu", "subtract"))
    v = dpl.wildcard()
    deeper = exp(relu(v, add_constraint=False), add_constraint=False)
    one = subtract(exp(v, add_constraint=False) | deeper, v, add_constraint=False)

    assert ours(sayable(pattern), graph, graph.index("y")) == {frozenset("rey")}
    assert not one.match(given.exprs["y"], given.bound)
    assert check_agreement(pattern, given) == 1  # as readings nothing is lost


def test_a_quotient_of_a_product_is_no_product_of_a_quotient() -> None:
    """TVM turns one into the other, but only in nested expressions, which no graph becomes."""
    (pattern,) = patterns(
        "collage 1;\npattern p(a, b, c) { y = divide(multiply(a, b), c); yield y; }"
    )
    values = "a: f32[4]; b: f32[4]; c: f32[4];"
    graph = parse_graph(f"{values} q = divide(b, c); y = multiply(a, q); return y;")
    (first, *_) = readings(sayable(pattern))
    a, b, c = (relax.Var(name, relax.TensorType((4,), "float32")) for name in "abc")

    assert check_agreement(pattern, RelaxGraph(graph)) == 0
    assert first.pattern.match(relax.op.multiply(relax.op.divide(b, c), a))


@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
def test_tvm_exchanges_the_operands_of_two_operators_only(op: str) -> None:
    (pattern,) = patterns(f"collage 1;\npattern p(a) {{ y = {op}(exp(a), a); yield y; }}")
    graph = parse_graph(f"a: f32[4]; e = exp(a); y = {op}(a, e); return y;")
    given = RelaxGraph(graph)
    x = dpl.wildcard()
    written = dpl.is_op(f"relax.{op}")(
        dpl.is_op("relax.exp")(x, add_constraint=False), x, add_constraint=False
    )

    assert ours(sayable(pattern), graph, graph.index("y"))
    assert written.match(given.exprs["y"], given.bound) == (op in ("add", "multiply"))


def test_a_value_that_is_used_outside_is_no_matter_to_tvm() -> None:
    (pattern,) = patterns("collage 1;\npattern p(x) { y = exp(nn.relu(x)); yield y; }")
    graph = parse_graph("x: f32[4]; r = nn.relu(x); y = exp(r); return y, r;")

    assert not matches(pattern, graph, graph.index("y"), Attempt())
    assert check_agreement(pattern, RelaxGraph(graph)) == 1
