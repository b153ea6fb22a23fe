"""Specs made in Python are those that files say."""

from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl import builder as build
from collage_dsl.graph import Kind
from collage_dsl.rules import FusionSpec, Limits

DOCUMENT = Path(__file__).parent.parent / "docs" / "builder.md"


def conv_block() -> FusionSpec:
    block = build.PatternBuilder("conv_block")
    x, w = block.value("x"), block.constant("w")
    b, r = block.constant("b", optional=True), block.value("r", optional=True)
    conv = build.one("nn.conv2d")
    k = block.bind("k", conv(x, w, groups=1, where=(build.each("strides").between(1, 2),)))
    s = block.bind("s", build.one("add")(k, b, optional=True))
    t = block.bind("t", build.one("add")(s, r, optional=True))
    y = block.bind("y", build.one("nn.relu", "nn.silu")(t, optional=True))
    block.where(x.dtype.one_of("f32", "bf16") & (x.dtype == w.dtype))
    block.where(w.dim(0) % 16 == 0, "the blocked layout needs channels divisible by 16")
    block.where(~r.present | (r.shape == k.shape))
    rule = build.union(
        build.composite("acme.conv_block", build.dfpattern(block.yields(y))),
        build.combine_by_primitives(build.op_call_by_kind(Kind.ELEMENTWISE), max_depth=4),
    )
    return build.target("acme", "llvm", rules=rule, compiler="acme", coalesce=True)


TEXT = """\
collage 1;

pattern conv_block(x, w: const, b?: const, r?) {
  k = nn.conv2d(x, w) [groups == 1, strides[*] in 1..2];
  s = add?(k, b);
  t = add?(s, r);
  y = (nn.relu | nn.silu)?(t);
  where dtype(x) in [f32, bf16] and dtype(x) == dtype(w);
  where dim(w, 0) % 16 == 0 else "the blocked layout needs channels divisible by 16";
  where not has(r) or shape(r) == shape(k);
  yield y;
}

target acme on llvm {
  compiler "acme";
  rules union(
    composite("acme.conv_block", dfpattern(conv_block)),
    combine_by_primitives(op_call_by_kind(elementwise), using: tvm_default, max_depth: 4),
  );
  after max_coalesce();
}
"""


def test_a_built_spec_is_that_of_its_text() -> None:
    assert collage.load(text=TEXT)["acme"] == conv_block()
    assert collage.to_text(conv_block()) == TEXT


def test_every_sort_of_value_and_term_can_be_built() -> None:
    inner = build.PatternBuilder("scaled")
    x = inner.value("x")
    scaled = inner.yields(inner.bind("y", build.one("multiply")(x, build.number(0.5))))

    outer = build.PatternBuilder("gate")
    x = outer.value("x")
    s = outer.bind("s", build.one("split")(x))
    a = outer.bind("a", build.match(scaled, s[0]))
    c = outer.bind("c", build.one("concat")(build.tuple_of(a, s[1]), axis=1))
    r = outer.bind("r", build.repeat(1, 3, build.one("nn.relu")(c)))
    y = outer.bind("y", build.one("add")(r, build.ANYTHING, ordered=True))
    terms = [
        x.rank != 3,
        x.size < 1000,
        x.bytes <= 4000,
        x.dim(0) > 1,
        x.dim(1) >= 2,
        x.dim(0) + x.dim(1) - 1 != x.dim(0) * 2,
        x.dim(1) // 2 == 4,
    ]
    for term in terms:
        outer.where(term)
    pattern = outer.yields(y, r, taps=True)
    limits = Limits(max_exits=None, taps=True)
    rule = build.max_coalesce(build.only_valid(build.dfpattern(pattern), limits))

    spec = build.target("t", "llvm", rules=rule, limits=limits, fallback=False)

    assert collage.load(text=collage.to_text(spec))["t"] == spec
    assert "where dim(x, 1) / 2 == 4;" in collage.to_text(spec)


def test_what_a_file_could_not_say_is_refused_with_the_place_in_its_text() -> None:
    block = build.PatternBuilder("bad")
    x, w = block.value("x"), block.constant("w")
    y = block.bind("y", build.one("nn.conv2d")(x, w, group=1))

    with pytest.raises(collage.RuleError) as caught:
        build.target("t", "llvm", rules=build.dfpattern(block.yields(y)))

    assert {d.code for d in caught.value.diagnostics} == {"E0204"}
    assert "<builder>:4:" in str(caught.value)


def test_an_operator_that_there_is_not_is_refused() -> None:
    block = build.PatternBuilder("bad")
    y = block.bind("y", build.one("nn.conv2D")(block.value("x")))

    with pytest.raises(ValueError, match=r"there is no operator `nn\.conv2D`"):
        build.target("t", "llvm", rules=build.dfpattern(block.yields(y)))


def test_a_name_that_is_none_is_refused() -> None:
    with pytest.raises((ValueError, collage.RuleError)):
        build.target("two words", "llvm", rules=build.op_call_by_kind())


def test_only_values_with_a_name_can_be_asked_about() -> None:
    with pytest.raises(ValueError, match="`bind` it first"):
        _ = build.one("nn.relu")(build.ANYTHING).dtype


def test_a_term_is_not_true_or_false_in_python() -> None:
    block = build.PatternBuilder("p")
    x = block.value("x")

    with pytest.raises(TypeError, match="join terms with"):
        block.where(x.dim(0) > 1 and x.dim(1) > 1)


def test_only_calls_can_be_repeated() -> None:
    with pytest.raises(ValueError, match="can be repeated"):
        build.repeat(1, 2, build.ANYTHING)


def test_the_example_of_the_page_runs() -> None:
    text = DOCUMENT.read_text("utf-8")
    code, shown = (
        part.split("```")[0]
        for part in text.split("```python\n")[1:2] + text.split("```collage\n")[1:2]
    )
    names: dict[str, object] = {}

    exec(code, names)

    spec = names["spec"]
    assert isinstance(spec, FusionSpec)
    assert collage.to_text(spec) == shown
