"""What is printed reads back as the same: specs and graphs."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.graph import Graph, Kind, Measuring, Toolchain, Tuning
from collage_dsl.graph.tuning import TUNED
from collage_dsl.graph.variants import NATIVE_VARIANTS
from collage_dsl.language import format_graph, load, parse_graph, to_text
from collage_dsl.language.reasoning.patterns.pattern_shape import always_there
from collage_dsl.rules import (
    TVM_DEFAULT,
    CombineByPrimitives,
    Constants,
    DFPattern,
    FusionRule,
    FusionSpec,
    Horizontal,
    Host,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    Limits,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Tagged,
    TupleArgs,
    TupleProjections,
    Union,
    Vertical,
)
from collage_dsl.rules.condition import (
    TOLERANCE,
    All,
    And,
    Attr,
    AttrOf,
    Bytes,
    Calculate,
    Compare,
    Constant,
    DimAt,
    Dtype,
    Each,
    Element,
    Expression,
    Has,
    Item,
    Max,
    Min,
    Near,
    Not,
    Or,
    Range,
    Rank,
    Shape,
    Size,
    Uses,
    ValueOf,
    Where,
    Within,
)
from collage_dsl.rules.pattern import (
    Anything,
    Binding,
    Call,
    Either,
    Excluded,
    FieldOf,
    Flat,
    Number,
    Operand,
    Parameter,
    PathFrom,
    PatternCall,
    Reference,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.rules.predicate import Predicate
from tests.cases import cases

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
labels = words.filter(bool)
whole = st.integers(-(10**17), 10**17)
numbers = whole | st.floats(allow_nan=False, allow_infinity=False)
bounds = st.none() | st.integers(1, 99)
dtypes = st.sampled_from(["f32", "bf16", "i8", "bool"])

# Conditions, well typed.

facts = st.sampled_from(["x", "o0", "v0"])
sides = st.recursive(
    st.builds(Constant, numbers)
    | st.builds(Rank, facts)
    | st.builds(DimAt, facts, whole)
    | st.builds(Size, facts)
    | st.builds(Bytes, facts)
    | st.sampled_from([ValueOf("c"), Min("c"), Max("c"), Item(AttrOf("k", "padding"), -1)]),
    lambda inner: st.builds(
        Calculate,
        st.sampled_from(["+", "-", "*", "/", "%"]),
        inner,
        inner.filter(lambda side: side != Constant(0)),
    ),
    max_leaves=6,
)
tolerances = st.sampled_from([TOLERANCE, 1e-3, 0.5, 1e-20])
elements = st.builds(Calculate, st.sampled_from(["+", "*"]), st.just(Element("c")), sides)
elements |= st.just(Element("c"))
of_elements = (
    st.builds(Compare, st.sampled_from(["==", "!=", "<", ">="]), elements, sides)
    | st.builds(Near, elements, sides.filter(lambda side: side != Constant(0)), tolerances)
    | st.builds(Within, st.just(Element("c")), st.builds(Range, whole, st.just(10**17)))
)
every = st.recursive(
    of_elements,
    lambda inner: st.builds(And, inner, inner) | st.builds(Not, inner),
    max_leaves=3,
)
shapes = st.lists(st.integers(0, 99), max_size=3).map(tuple)
comparisons = (
    st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), sides, sides)
    | st.builds(Compare, st.just("=="), st.builds(Dtype, facts), st.builds(Constant, dtypes))
    | st.builds(Compare, st.just("!="), st.builds(Shape, facts), st.builds(Constant, shapes))
    | st.builds(Within, sides, st.builds(Range, whole, st.just(10**17)))
    | st.builds(Within, sides, st.builds(Constant, st.lists(numbers, min_size=1).map(tuple)))
    | st.builds(
        Within,
        st.builds(Dtype, facts),
        st.builds(Constant, st.lists(dtypes, min_size=1).map(tuple)),
    )
    | st.builds(
        Within,
        st.builds(Shape, facts),
        st.builds(Constant, st.lists(shapes, min_size=1).map(tuple)),
    )
    | st.builds(Compare, st.just(">="), st.builds(Uses, facts), sides)
    | st.just(Has("o0"))
    | st.builds(Near, sides, sides, tolerances)
    | st.builds(All, every)
    | st.just(Compare("==", AttrOf("k", "strides"), Constant((1, 1))))
    | st.just(Within(Each(AttrOf("k", "padding")), Range(0, 2)))
    | st.builds(Constant, st.booleans())
)
conditions: st.SearchStrategy[Expression] = st.recursive(
    comparisons,
    lambda inner: (
        st.builds(Not, inner) | st.builds(And, inner, inner) | st.builds(Or, inner, inner)
    ),
    max_leaves=8,
)
wheres = st.builds(
    Where,
    # With a question in it, so that it is not known to be false before anything is matched.
    conditions.map(lambda condition: Or(Compare(">", Rank("x"), Constant(3)), condition)),
    words,
)
attributes = st.lists(
    st.sampled_from(
        [
            Where(Compare("==", Attr("groups"), Constant(1))),
            Where(Within(Attr("data_layout"), Constant(("NCHW", "NHWC")))),
            Where(Compare("!=", Attr("out_dtype"), Constant("f32"))),
            Where(Compare("==", Attr("out_dtype"), Constant(None))),
            Where(Compare("!=", Constant(None), Attr("out_dtype"))),
            Where(Within(Attr("out_dtype"), Constant((None, "f32", "bf16")))),
            Where(Within(Attr("strides"), Constant(((1, 1), (2, 2))))),
            Where(Compare("<=", Each(Attr("strides")), Constant(2))),
            Where(Within(Each(Attr("padding")), Range(-1, 2))),
            Where(Compare("==", Attr("groups"), DimAt("x", 1))),
            Where(Compare("==", Item(Attr("padding"), 0), Item(Attr("padding"), -2))),
            Where(Compare("==", Attr("strides"), AttrOf("k", "strides"))),
            Where(Near(ValueOf("c"), Constant(0.5))),
            Where(Or(Compare("<", Attr("groups"), Constant(-2)), Not(Constant(False)))),
        ]
    ),
    max_size=3,
    # Two conditions on `out_dtype` contradict each other, and a contradiction is refused.
    unique_by=lambda where: "out_dtype" in repr(where) or repr(where),
).map(tuple)


exclusions = st.sampled_from(
    [
        *[None] * 3,
        Excluded((), constants=True),
        Excluded(("nn.relu",), kinds=(Kind.REDUCE, Kind.OPAQUE)),
        Excluded(("nn.relu", "nn.silu"), constants=True),
    ]
)


ACTIVATION = Pattern(
    "act",
    (Parameter("a"),),
    (Binding("b", Call(("nn.relu", "nn.silu"), (Reference("a"),))),),
    "b",
    (Where(Compare("==", Rank("a"), Constant(4)), "images only"),),
)
BLOCK = Pattern(
    "block",
    (Parameter("a"), Parameter("c")),
    (Binding("b", PatternCall(ACTIVATION, (Call(("add",), (Reference("a"), Reference("c"))),))),),
    "b",
)


@st.composite
def patterns(draw: Any, name: str) -> Pattern:
    """A chain of calls, of which optional ones take optional parameters."""
    constant = draw(st.booleans())
    parameters = [
        Parameter("x", excluded=draw(exclusions)),
        Parameter("o0", constant, True, None if constant else draw(exclusions)),
        Parameter("c", constant=True),
    ]
    convolution = Call(("nn.conv2d",), (Reference("x"), Reference("c")))
    bindings: list[Binding] = [Binding("k", convolution)]
    value: Operand = Call(("add",), (Reference("k"), Reference("o0")), optional=True)
    for at in range(draw(st.integers(1, 5))):
        bindings.append(Binding(f"v{at}", value))
        before = Reference(f"v{at}")
        value = draw(
            st.sampled_from(
                [
                    Call(("nn.relu", "nn.gelu"), (before,), optional=True),
                    Call(("exp",), (Call(("sqrt",), (before,)),)),
                    Call(("reshape",), (before, Anything())),
                    Call((), (before,), kinds=(Kind.ELEMENTWISE,)),
                    Call(("add",), (before, Reference("x")), kinds=tuple(Kind)),
                    Call(("nn.conv2d",), (before, Reference("x")), draw(attributes)),
                    PatternCall(ACTIVATION, (before,), draw(st.booleans())),
                    Call(("concat",), (TupleOf((before, Reference("x"))),), shared=True),
                    PathFrom(("exp",), before, 1, 4, (Kind.BROADCAST, Kind.REDUCE)),
                    PathFrom((), Call(("exp",), (before,)), 0, 1, (Kind.ELEMENTWISE,)),
                    Call(("concat",), (TupleOfEach(Call(("exp",), (before,)), 1, 8),)),
                    FieldOf(TupleOfEach(Either((Anything(), before)), 2, 2), 1),
                    Call(("concat",), (TupleOfEach(PatternCall(ACTIVATION, (before,)), 2, 2),)),
                    FieldOf(Call(("split",), (before,), ordered=True), 1),
                    Flat("add", (before, Number(0.5, 1e-3), Reference("x")), draw(st.booleans())),
                    Repeat(Call(("tanh", "exp"), (before,)), 1, draw(st.integers(1, 3))),
                    Repeat(PatternCall(ACTIVATION, (before,)), 0, 2),
                    PatternCall(BLOCK, (before, Reference("x"))),
                    Either(
                        (Call(("tanh",), (before,)), before, PatternCall(ACTIVATION, (before,)))
                    ),
                    Call(("concat",), (Either((TupleOf((before, before)), before)),)),
                    Call(("exp",), (Either((FieldOf(FieldOf(before, 0), 1), before)),)),
                    FieldOf(Either((Call(("split",), (before,)), before)), 12),
                    FieldOf(FieldOf(TupleOf((before, TupleOf((before,)))), 1), 0),
                    FieldOf(Repeat(Call(("exp", "split"), (before,)), 1, 2), 0),
                ]
            )
            | st.builds(
                lambda n, t, b=before: Call(("multiply",), (Number(float(n), t), b)),
                numbers,
                st.sampled_from([0.0, TOLERANCE, 1e-3, 0.5, 1e-20]),
            )
        )
    bindings.append(Binding("y", value))
    if all(getattr(b.value, "optional", False) for b in bindings):
        # So that something takes `x` for certain, which is no optional parameter.
        bindings.append(Binding("z", Call(("exp",), (Reference("y"),))))
    found = draw(st.lists(wheres, max_size=2).map(tuple))
    result = bindings[-1].name
    always = always_there(tuple(parameters), tuple(bindings), (result,))
    shares = always & always_there(tuple(parameters), tuple(bindings), ("v0",))
    others = draw(st.sampled_from([(), ("v0",)])) if len(bindings) > 1 and shares else ()
    taps = draw(st.booleans())
    called = [
        each.name
        for each in bindings
        if isinstance(each.value, Call) and not each.value.optional and each.name in always
    ]
    anchor = draw(st.sampled_from(["", *called]))
    return Pattern(name, tuple(parameters), tuple(bindings), result, found, others, taps, anchor)


primitives = st.sampled_from(
    [JoinAnything(), InjectiveBranches(), TupleArgs(), TupleProjections(), Constants()]
)
primitives |= st.builds(KindPair, st.sampled_from(Kind), st.sampled_from(Kind))
limits = st.builds(
    Limits, bounds, bounds, bounds, st.booleans(), bounds, st.booleans(), bounds
).filter(lambda each: not each.min_nodes or not each.max_nodes or each.min_nodes <= each.max_nodes)
leaves = st.builds(
    OpCallByKind, st.lists(st.sampled_from(Kind), min_size=1, unique=True).map(tuple)
) | st.just(OpCallByKind())
leaves |= st.just(Host()) | st.builds(
    OpPredicate,
    st.sampled_from(
        [
            Predicate("fits", ("y",), "acme.predicates:fits"),
            Predicate("tensor-rt.supports", ("call",), "backend:tensor-rt"),
        ]
    ),
    st.lists(st.sampled_from(["nn.relu", "nn.max_pool2d", "add"]), unique=True).map(tuple),
)
sides_of_anchors = st.none() | st.sampled_from(Kind)


@st.composite
def rules(draw: Any) -> FusionRule:
    known = [draw(patterns(f"p{at}")) for at in range(draw(st.integers(1, 2)))]
    found: FusionRule = draw(
        st.recursive(
            leaves | st.sampled_from([DFPattern(pattern) for pattern in known]),
            lambda inner: (
                st.builds(Tagged, labels, inner)
                | st.builds(Union, st.lists(inner, min_size=1, max_size=3).map(tuple))
                | st.builds(
                    CombineByPrimitives,
                    inner,
                    st.just(TVM_DEFAULT) | st.lists(primitives, max_size=3).map(tuple),
                    bounds,
                    bounds,
                    st.none() | st.integers(0, 2),
                )
                | st.builds(Horizontal, inner, st.integers(2, 8))
                | st.builds(Vertical, inner, sides_of_anchors, sides_of_anchors, st.integers(1, 9))
                | st.builds(OnlyValid, inner, limits)
                | st.builds(OnlyVariants, inner, st.just(("direct", "gemm")))
                | st.builds(MaxCoalesce, inner)
            ),
            max_leaves=6,
        )
    )
    return found


options = st.dictionaries(
    st.sampled_from(["mcpu", "num_cores", "fast", "libs"]),
    numbers | words | st.booleans() | st.lists(words, max_size=3).map(tuple),
)
times = st.floats(0, 86_400, exclude_min=True)
measures = st.tuples(times, times).flatmap(
    lambda pair: st.builds(
        Measuring,
        st.integers(1, 10_000),
        st.integers(0, 100),
        st.just(min(pair)),
        st.none() if pair[0] == pair[1] else st.none() | st.just(max(pair)),
        st.sampled_from(["often", "rarely"]),
        st.floats(0, 0.5, exclude_min=True),
    )
)
native_variants = st.lists(st.sampled_from(list(NATIVE_VARIANTS)), unique=True)
makers = st.one_of(
    st.tuples(st.none(), native_variants, st.just(Tuning())),
    st.tuples(
        st.none(),
        native_variants.map(lambda names: list(dict.fromkeys([*names, TUNED]))) | st.just([]),
        st.builds(Tuning, st.integers(0, 100_000)),
    ),
    st.tuples(
        labels, st.lists(st.sampled_from(["fast", "direct"]), unique=True), st.just(Tuning())
    ),
)
"""A compiler, its variants, and how its kernels are tuned."""
targets = makers.flatmap(
    lambda maker: st.builds(
        Toolchain,
        st.sampled_from(["onednn", "rule"]),
        st.just("llvm"),
        st.just(maker[0]),
        options,
        st.integers(-9, 9),
        st.just(Measuring()) | measures,
        st.just(tuple(maker[1])),
        st.just(maker[2]),
    )
)


specs = st.builds(FusionSpec, targets, rules(), limits, st.booleans(), st.booleans())


@cases(30)
@given(specs)
def test_a_spec_is_read_back_as_it_was(spec: FusionSpec) -> None:
    text = to_text(spec)

    assert load(text=text) == {spec.name: spec}
    assert to_text(load(text=text)) == text


def test_the_specs_of_a_file_share_their_patterns() -> None:
    text = """collage 1;
        pattern p(x) { y = nn.relu(x); yield y; }
        target a on llvm { rules dfpattern(p); }
        target b on llvm { rules composite("b", dfpattern(p)); }"""
    specs = load(text=text)
    printed = to_text(specs)

    assert printed.count("pattern p") == 1
    assert load(text=printed) == specs


def test_the_text_of_a_spec_is_canonical() -> None:
    text = """collage 1;
        pattern p(x,w:const,b ? ){k=(nn.conv2d)(x,w)[ groups==1,];y=add ?(k,b);
        where ((dtype(x)in["float32",bf16])) and not(not has(b) or (rank(b)+1)*2==8);yield y;}
        rule r = union(op_call_by_kind(),dfpattern(p), op_call_by_kind(opaque),);
        target t on llvm(num_cores:2){fallback;rules only_valid(r,taps:true,max_exits:any);}"""

    assert (
        to_text(load(text=text))
        == """\
collage 1;

pattern p(x, w: const, b?) {
  k = nn.conv2d(x, w) [groups == 1];
  y = add?(k, b);
  where dtype(x) in [f32, bf16] and not (not has(b) or (rank(b) + 1) * 2 == 8);
  yield y;
}

target t on llvm(num_cores: 2) {
  rules only_valid(
    union(op_call_by_kind(), dfpattern(p), op_call_by_kind(opaque)),
    max_exits: any,
    taps: allowed,
  );
  fallback;
}
"""
    )


@pytest.mark.parametrize(
    "rule",
    [
        OpCallByKind(()),
        Union(
            (
                DFPattern(Pattern("p", (), (Binding("y", Call(("exp",), (Anything(),))),), "y")),
                DFPattern(Pattern("p", (), (Binding("y", Call(("sin",), (Anything(),))),), "y")),
            )
        ),
        DFPattern(
            Pattern("p", (), (Binding("y", Call(("add",), (Anything(), Number(1, 1.0)))),), "y")
        ),
        DFPattern(Pattern("p", (), (Binding("y", FieldOf(Number(2.0), 1)),), "y")),
        DFPattern(
            Pattern(
                "p",
                (Parameter("x"),),
                (Binding("y", Call(("exp",), (Either((Reference("x"),)),))),),
                "y",
            )
        ),
    ],
)
def test_what_the_language_cannot_say_is_not_printed(rule: FusionRule) -> None:
    with pytest.raises(ValueError, match=r"."):
        to_text(FusionSpec(Toolchain("t"), rule))


# Graphs.

node_names = st.sampled_from(["x", "lv1", "/conv/Conv_output_0", "return", "a.b", "graph", "é"])


@st.composite
def graph_texts(draw: Any) -> str:
    """A graph of calls, tuples and projections on tensors of one shape."""
    dims = draw(st.sampled_from(["4, 8", "n, 8", "`n * 2`, 8", "?, 8", ""]))
    names = [f"`{name}`" for name in draw(st.permutations(["x", "/a/b:0", "return", "é.ö", "lv"]))]
    lines = [f"{names[0]}: f32[{dims}]; c0 = const f32[] 0.5;"]
    known, tuples = [names[0]], []
    for at in range(1, draw(st.integers(1, 5))):
        one, other = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        name = names[at]
        choice = draw(st.integers(0, 7))
        if choice == 0:
            lines.append(f"t{at} = ({one}, {other},); {name} = t{at}.1;")
            tuples.append(f"t{at}")
        else:
            value = [
                f"add({one}, {other})",
                f"multiply({one}, 0.25)",
                f"clip({one}, -1.5, 6.0)",
                f"nn.leakyrelu({one}) [alpha = 0.25]",
                f"maximum({one}, const f32[])",
                f"subtract({one}, c0)",
                f"take({one}, {other}) [axis = none]",
            ][choice - 1]
            said = f": f32[{dims}]" if choice == 7 else ""
            lines.append(f"{name}{said} = {value};")
        known.append(name)
    outputs = draw(st.lists(st.sampled_from(known + tuples), min_size=1, max_size=3))
    comma = draw(st.sampled_from(["", ","]))
    return f"graph {{ {' '.join(lines)} return {', '.join(outputs)}{comma}; }}"


def same(one: Graph, other: Graph) -> bool:
    return (one.nodes, one.outputs, one.returns_tuple) == (
        other.nodes,
        other.outputs,
        other.returns_tuple,
    )


@cases(30)
@given(graph_texts())
def test_a_graph_is_read_back_as_it_was(text: str) -> None:
    graph = parse_graph(text)
    printed = format_graph(graph)

    assert same(parse_graph(printed), graph)
    assert format_graph(parse_graph(printed)) == printed
