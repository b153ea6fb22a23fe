"""Specs made in Python are those that files say."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_a_parameter_can_exclude_where_its_value_comes_from() -> None:
    made = build.PatternBuilder("p")
    x = made.value("x", excluded=("nn.relu", "const"))
    pattern = made.yields(made.bind("y", build.one("exp")(x)))
    spec = build.target("t", "llvm", rules=build.dfpattern(pattern))

    assert "pattern p(x: not (nn.relu | const)) {" in collage.to_text(spec)


def test_a_class_by_kind_can_be_called_and_excluded() -> None:
    made = build.PatternBuilder("p")
    x = made.value("x", excluded=(Kind.BROADCAST, "exp"))
    y = made.bind("y", build.one("nn.softmax", Kind.ELEMENTWISE)(x))
    spec = build.target("t", "llvm", rules=build.dfpattern(made.yields(y)))

    text = collage.to_text(spec)
    assert "pattern p(x: not (exp | broadcast)) {" in text
    assert "y = (nn.softmax | elementwise)(x);" in text


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


def test_an_attribute_may_have_to_be_none() -> None:
    block = build.PatternBuilder("attention")
    q, k, v = (block.value(name) for name in "qkv")
    asked = (
        build.attribute("scale").one_of(None, 0.5),
        build.attribute("window_size") != None,  # noqa: E711 (a term of a condition)
    )
    y = block.bind("y", build.one("nn.attention")(q, k, v, causal_mask=None, where=asked))

    spec = build.target("t", "llvm", rules=build.dfpattern(block.yields(y)))

    assert collage.load(text=collage.to_text(spec))["t"] == spec
    brackets = "[causal_mask == none, scale in [none, 0.5], window_size != none]"
    assert f"y = nn.attention(q, k, v) {brackets};" in collage.to_text(spec)


def test_an_attribute_that_always_has_a_value_cannot_be_none() -> None:
    block = build.PatternBuilder("softmax")
    y = block.bind("y", build.one("nn.softmax")(block.value("x"), axis=None))

    with pytest.raises(collage.RuleError, match="E0321"):
        build.target("t", "llvm", rules=build.dfpattern(block.yields(y)))


def test_an_option_may_be_a_list_of_strings() -> None:
    rules = build.op_call_by_kind()

    spec = build.target("t", "llvm", rules=rules, options={"libs": ["onednn", "blas"]})

    assert spec.target.options == {"libs": ("onednn", "blas")}
    assert 'target t on llvm(libs: ["onednn", "blas"]) {' in collage.to_text(spec)


LIBRARY = """\
collage 1;
let act = one_of(nn.relu, tanh);
extern predicate fits(x) from "acme.NAME:fits";
pattern tail(x) { y = act(x); where fits(x); yield y; }
rule tails = dfpattern(tail);
rule offered(p) = dfpattern(p);
"""


def test_what_files_define_can_be_used_and_has_distinct_names(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.collage").write_text(LIBRARY.replace("NAME", name))
    one, two = (
        build.imported(tmp_path / "one.collage"),
        build.imported("two.collage", search=[tmp_path]),
    )
    text = """collage 1;
import "one.collage" as one;
import "two.collage" as two;
target t on llvm { rules union(one.tails, dfpattern(two.tail), op_predicate(two.fits)); }
"""

    assert list(one) == ["act", "fits", "tail", "tails"]
    assert one["act"] == build.one("nn.relu", "tanh")
    rules = build.union(one["tails"], build.dfpattern(two["tail"]), build.op_predicate(two["fits"]))
    spec = build.target("t", "llvm", rules=rules)
    assert collage.load(text=text, search=[tmp_path])["t"] == spec
    assert "pattern tail_2(x)" in collage.to_text(spec)


@pytest.mark.parametrize(
    ("file", "code"), [("none.collage", "E0801"), ("bad.collage", "E0201"), ("it.collage", "E0802")]
)
def test_a_file_that_cannot_be_imported_says_why(file: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "bad.collage").write_text(LIBRARY.replace("tanh", "tanhh"))
    (tmp_path / "it.collage").write_text('collage 1;\nimport "it.collage" as it;\n')

    with pytest.raises(collage.RuleError) as caught:
        build.imported(file, search=[tmp_path])

    assert code in {d.code for d in caught.value.diagnostics}


def test_a_table_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no pattern table `cutlas`"):
        build.pattern_table("cutlas")


def test_dimensions_have_names_that_some_parameter_gives() -> None:
    block = build.PatternBuilder("p")
    block.value("x", dims=("n", 16, "_"))

    with pytest.raises(ValueError, match="no parameter or list has a dimension `m`"):
        block.dim("m")


def test_a_predicate_is_declared_as_in_a_file() -> None:
    fits = build.extern_predicate("fits", "x", source="acme")
    block = build.PatternBuilder("p")
    x = block.value("x")
    y = block.bind("y", build.one("exp")(x))
    block.where(build.holds(fits, x))

    with pytest.raises(collage.RuleError) as caught:
        build.target("t", "llvm", rules=build.dfpattern(block.yields(y)))
    assert [d.code for d in caught.value.diagnostics] == ["E0410"]


def test_what_a_file_could_not_say_is_refused_with_the_place_in_its_text() -> None:
    block = build.PatternBuilder("bad")
    x, w = block.value("x"), block.constant("w")
    y = block.bind("y", build.one("nn.conv2d")(x, w, group=1))

    with pytest.raises(collage.RuleError) as caught:
        build.target("t", "llvm", rules=build.dfpattern(block.yields(y)))

    assert {d.code for d in caught.value.diagnostics} == {"E0204"}
    assert "<builder>:4:" in str(caught.value)


def test_an_operator_that_does_not_exist_is_shown_in_the_text() -> None:
    block = build.PatternBuilder("bad")
    y = block.bind("y", build.one("nn.conv2D")(block.value("x")))

    with pytest.raises(collage.RuleError, match=r"did you mean `nn\.conv2d`"):
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


def test_a_value_of_another_pattern_is_pointed_at() -> None:
    other = build.PatternBuilder("other").value("elsewhere")
    block = build.PatternBuilder("p")
    pattern = block.yields(block.bind("y", build.one("exp")(other)))

    with pytest.raises(collage.RuleError, match=r"E0206.*`elsewhere`"):
        build.target("t", "llvm", rules=build.dfpattern(pattern))


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


def test_what_the_table_of_the_page_calls_is_there() -> None:
    """In its second column `one(…)` is of the module, `block.bind(…)` of a builder."""
    rows = re.findall(r"^\|.*(?<!\\)\|(.*)\|$", DOCUMENT.read_text("utf-8"), re.MULTILINE)
    code = re.sub(r'"[^"]*"', '""', " ".join(re.findall(r"`([^`]*)`", " ".join(rows))))
    called = set(re.findall(r"(?<![\w.])([a-z_]{2,})\(", code)) - {"act"}
    of_blocks = set(re.findall(r"block\.([a-z_]+)", code))
    of_values = set(re.findall(r"\b[xb]\.([a-z_]+)", code))

    assert {"one", "pin", "forbid", "imported", "pattern_table", "extern_predicate"} <= called
    assert [name for name in called if not hasattr(build, name)] == []
    assert [name for name in of_blocks if not hasattr(build.PatternBuilder("p"), name)] == []
    assert [name for name in of_values if not hasattr(build.Value, name)] == []
    assert {"anchor", "dim", "where"} <= of_blocks
    assert {"uses", "present"} <= of_values


def test_what_is_no_rule_is_named() -> None:
    block = build.PatternBuilder("block")
    made = block.yields(block.bind("y", build.one("exp")(block.value("x"))))

    for use in (
        lambda: build.union(made, build.host()),  # type: ignore[arg-type]
        lambda: build.target("acme", "llvm", rules=made),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=r"not the pattern `block`; write dfpattern\(…\)"):
            use()
    with pytest.raises(TypeError, match="`label` of `composite` must be a string"):
        build.composite(build.dfpattern(made), "acme.block")  # type: ignore[arg-type]


wrong: Any = build
"""The builder, for calls that a type checker would refuse."""

PATTERN: Any = build.PatternBuilder("p")
X = PATTERN.value("x")
Y = PATTERN.bind("y", wrong.one("nn.relu")(X))
RELU = PATTERN.yields(Y)
RULE = build.dfpattern(RELU)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: wrong.target("t", "llvm", rules=RULE, options={"mcpu": object()}),
            "options",
        ),
        (
            lambda: wrong.target("t", "llvm", rules=RULE, options={3: "x"}),
            "options",
        ),
        (
            lambda: wrong.target("t", "llvm", rules=RULE, limits={"max_exits": 1}),
            "limits",
        ),
        (
            lambda: wrong.target("t", 3, rules=RULE),
            "`kind` of `target` must be a string",
        ),
        (
            lambda: wrong.target("t", "llvm", rules=RULE, variants="direct"),
            "variants",
        ),
        (lambda: wrong.target("t", "llvm", rules="r"), "a rule is needed here, not a str"),
        (lambda: wrong.op_call_by_kind("broadcast"), "must be a Kind, not 'broadcast'"),
        (
            lambda: wrong.max_coalesce(RULE, prefer="least"),
            "'largest' or 'first'",
        ),
        (lambda: wrong.dfpattern("p"), "`pattern` of `dfpattern` must be a Pattern, not 'p'"),
        (lambda: wrong.one("exp")("x"), "must be a Value"),
        (lambda: wrong.one("exp")(X, axis=object()), "not with a value of type object"),
        (lambda: X.rank & 3, "must be a Term, not 3"),
        (lambda: X.dim(True), "`axis` of `dim` must be a whole number, not True"),
        (
            lambda: wrong.PatternBuilder("q").where(True),
            "`term` of `where` must be a Term, not True",
        ),
        (lambda: wrong.PatternBuilder(3), "`name` of `PatternBuilder` must be a string"),
        (lambda: wrong.PatternBuilder("q").value("x", dims="mk"), "`dims` of `value`"),
        (lambda: wrong.number(Kind.BROADCAST), "`value` of `number` must be a number"),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(call: Callable[[], object], said: str) -> None:
    with pytest.raises(TypeError, match=re.escape(said)):
        call()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (wrong.union, "`union` needs at least one rule"),
        (wrong.either, "`either` needs at least one value"),
        (lambda: wrong.match(RELU), "`p` takes 1 operand, not 0"),
        (lambda: wrong.PatternBuilder("q").yields(Y), "the pattern does not define `y`"),
        (
            lambda: wrong.PatternBuilder("q").value("x", dims=("..", 3, "..")),
            "`dims` of `x` may have one `..`, not several",
        ),
    ],
)
def test_an_argument_of_a_wrong_value_is_named(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        call()
