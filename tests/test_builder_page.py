"""
Everything that `docs/language.md` shows can be made in Python: for each of its sections that has
an example, a function here makes the same specs with `collage_dsl.builder`.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace

import pytest

from collage_dsl import builder as build
from collage_dsl.builder import PatternBuilder, Value, dfpattern, match, number, one, target
from collage_dsl.graph import Kind, Measuring, Tuning
from collage_dsl.graph.variants import NATIVE_VARIANTS
from collage_dsl.language import load
from collage_dsl.language.forms import _classes, _fields, _usual
from collage_dsl.rules import FusionRule, FusionSpec, Limits, Pattern
from collage_dsl.rules.predicate import Predicate
from collage_dsl.rules.primitive import Primitive
from tests.test_language_page import EXAMPLES

Section = Callable[[], list[FusionSpec]]

MADE: dict[str, Section] = {}
"""What makes the specs of the example, by the heading of its section."""

ANY_EXIT = Limits(max_exits=None, taps=True)


def section(heading: str) -> Callable[[Section], Section]:
    def note(make: Section) -> Section:
        MADE[heading] = make
        return make

    return note


def of(name: str, *values: tuple[str, Value]) -> Pattern:
    """The pattern of one parameter `x` with these equations, of which the last is the result."""
    block = PatternBuilder(name)
    block.value("x")
    for variable, value in values:
        result = block.bind(variable, value)
    return block.yields(result)


X = PatternBuilder("any").value("x")
"""The parameter `x` of whichever pattern."""

CALLS = build.op_call_by_kind()


def lib(rule: FusionRule | Pattern, **options: object) -> list[FusionSpec]:
    """The target `lib` alone."""
    rules = dfpattern(rule) if isinstance(rule, Pattern) else rule
    return [target("lib", "llvm", rules=rules, **options)]  # type: ignore[arg-type]


def patterns(*several: Pattern) -> FusionRule:
    return build.union(*map(dfpattern, several))


# Files.


@section("Edition, comments, names")
def edition() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=dfpattern(of("activation", ("y", one("nn.relu")(X)))))]


@section("Import")
def import_() -> list[FusionSpec]:
    activations = build.imported("std/activations.collage")
    operators = build.imported("std/operators.collage")
    act, swish, binary = activations["act"], activations["swish"], operators["binary"]
    assert isinstance(act, build.Operators)
    assert isinstance(binary, build.Operators)
    assert isinstance(swish, Pattern)
    block = PatternBuilder("dense")
    x, w, b = block.value("x"), block.value("w"), block.constant("b", optional=True)
    m = block.bind("m", one("matmul")(x, w))
    s = block.bind("s", binary(m, b, optional=True))
    y = block.bind("y", match(swish, act(s, optional=True), optional=True))
    return lib(block.yields(y))


@section("Shipped patterns")
def shipped_patterns() -> list[FusionSpec]:
    gelu = build.imported("std/activations.collage")["gelu"]
    rms_norm = build.imported("std/normalization.collage")["rms_norm"]
    assert isinstance(gelu, Pattern)
    assert isinstance(rms_norm, Pattern)
    block = PatternBuilder("block")
    x, g = block.value("x"), block.value("g", optional=True)
    return lib(block.yields(block.bind("y", match(gelu, match(rms_norm, x, g)))))


@section("Pattern tables")
def pattern_tables() -> list[FusionSpec]:
    everything = build.pattern_table("nnapi")["all"]
    assert not isinstance(everything, build.Operators | Predicate | Pattern)
    return [target("nnapi", "llvm", compiler="nnapi", rules=everything)]


# Patterns.


@section("Pattern")
def pattern() -> list[FusionSpec]:
    return lib(conv_relu())


def conv_relu(*, anchor: bool = False) -> Pattern:
    block = PatternBuilder("conv_relu")
    x, w = block.value("x"), block.constant("w")
    k = block.bind("k", one("nn.conv2d")(x, w))
    if anchor:
        block.anchor(k)
    return block.yields(block.bind("y", one("nn.relu")(k)))


@section("Parameters")
def parameters() -> list[FusionSpec]:
    squared = of("squared", ("y", one("multiply")(X, X)))
    block = PatternBuilder("scaled")
    x, s = block.value("x"), block.constant("s")
    scaled = block.yields(block.bind("y", one("multiply")(x, s)))
    return lib(patterns(squared, scaled))


@section("Not")
def excluded() -> list[FusionSpec]:
    block = PatternBuilder("dense")
    x = block.value("x", excluded=("nn.relu", "nn.silu", "const"))
    w = block.constant("w")
    return lib(block.yields(block.bind("y", one("matmul")(x, w))))


@section("Operator calls")
def operator_calls() -> list[FusionSpec]:
    reshaped = one("reshape")(X, build.ANYTHING)
    return lib(of("heads", ("y", one("permute_dims")(reshaped, axes=[0, 2, 1, 3]))))


@section("Weights of four bits")
def weights_of_four_bits() -> list[FusionSpec]:
    block, dequantized = PatternBuilder("packed"), one("onnx.DequantizeLinear")
    x, w, s = block.value("x"), block.constant("w"), block.constant("s")
    z = block.constant("z", optional=True)
    d = block.bind("d", build.either(dequantized(w, s), dequantized(w, s, z)))
    y = block.bind("y", one("matmul")(x, d))
    block.where(w.dtype.one_of("i4", "u4") & (w.rank == 2) & (w.dim(1) % 16 == 0))
    return [target("lib", "llvm", compiler="onnxruntime", rules=dfpattern(block.yields(y)))]


@section("Attributes")
def attributes() -> list[FusionSpec]:
    block = PatternBuilder("conv")
    x, w = block.value("x"), block.constant("w")
    asked = (
        build.attribute("groups") == 1,
        build.attribute("data_layout").one_of("NCHW", "NHWC"),
        build.each("strides").between(1, 2),
        build.attribute("dilation") == [1, 1],
    )
    return lib(block.yields(block.bind("y", one("nn.conv2d")(x, w, where=asked))))


@section("Compiled functions")
def compiled_functions() -> list[FusionSpec]:
    block = PatternBuilder("epilogue")
    x, w = block.value("x"), block.value("w")
    named = build.attribute("function").one_of("acme_matmul", "acme_conv2d")
    light = build.attribute("op_pattern").one_of("elementwise", "broadcast")
    s = block.bind("s", one("call_tir")(x, w, where=(named,)))
    y = block.bind("y", one("call_tir")(s, where=(light,)))
    return [target("acme", "llvm", rules=dfpattern(block.yields(y)))]


@section("Packed functions")
def packed_functions() -> list[FusionSpec]:
    block = PatternBuilder("attention")
    q, k = block.value("q"), block.value("k")
    scores = build.attribute("function") == "acme.scores"
    softmax = build.attribute("function").one_of("acme.softmax", "acme.softmax2")
    s = block.bind("s", one("call_dps_packed")(q, k, where=(scores,)))
    y = block.bind("y", one("call_pure_packed")(one("nn.relu")(s), where=(softmax,)))
    rules = build.composite("acme.attention", dfpattern(block.yields(y)))
    return [target("acme", "llvm", compiler="acme", rules=rules)]


@section("None")
def none() -> list[FusionSpec]:
    block = PatternBuilder("attention")
    q, k, v = (block.value(name) for name in "qkv")
    mask = build.attribute("causal_mask").one_of(None, "TopLeft")
    call = one("nn.attention")(q, k, v, where=(mask, build.attribute("window_size") == None))  # noqa: E711
    attention = block.yields(block.bind("y", call))
    has_axis = build.attribute("axis") != None  # noqa: E711 (a term of a condition)
    some = of("some", ("y", one("sum")(X, where=(has_axis,))))
    return lib(patterns(attention, some))


@section("Classes")
def classes() -> list[FusionSpec]:
    smooth = ("nn.gelu", "nn.silu")
    act = ("nn.relu", *smooth)
    return lib(of("tail", ("y", one(*act, "tanh")(one("exp")(X)))))


@section("Classes by kind")
def classes_by_kind() -> list[FusionSpec]:
    block = PatternBuilder("epilogue")
    x = block.value("x", excluded=(Kind.REDUCE,))
    w, b = block.value("w"), block.value("b")
    m = block.bind("m", one("matmul")(x, w))
    light = one(Kind.ELEMENTWISE, Kind.BROADCAST)
    return lib(block.yields(block.bind("y", one(Kind.ELEMENTWISE)(light(m, b)))))


@section("Optional nodes")
def optional_nodes() -> list[FusionSpec]:
    block = PatternBuilder("conv_block")
    x, w = block.value("x"), block.constant("w")
    b, r = block.constant("b", optional=True), block.value("r", optional=True)
    k = block.bind("k", one("nn.conv2d")(x, w))
    s = block.bind("s", one("add")(k, b, optional=True))
    t = block.bind("t", one("add")(s, r, optional=True))
    y = block.bind("y", one("nn.relu")(t, optional=True))
    reason = "the residual has the shape of the result"
    block.where(~r.present | (r.shape == k.shape), reason)
    return lib(block.yields(y))


@section("Alternatives")
def alternatives() -> list[FusionSpec]:
    block = PatternBuilder("gated")
    x, g = block.value("x"), block.value("g", optional=True)
    e = block.bind("e", one("exp")(x))
    gate = one("multiply")(e, one("sigmoid")(g))
    y = block.bind("y", build.either(one("nn.relu")(e), gate))
    block.where(~g.present | (g.shape == x.shape))
    return lib(block.yields(y))


@section("Constants")
def constants() -> list[FusionSpec]:
    half = of("half", ("y", one("multiply")(X, number(0.5))))
    third = of("third", ("y", one("multiply")(X, number(0.33, within=2e-2))))
    return lib(patterns(half, third))


@section("Anchors")
def anchors() -> list[FusionSpec]:
    return lib(conv_relu(anchor=True))


@section("Operand order")
def operand_order() -> list[FusionSpec]:
    def bias(name: str, ordered: bool) -> Pattern:
        block = PatternBuilder(name)
        x, b = block.value("x"), block.constant("b")
        return block.yields(block.bind("y", one("add")(one("nn.relu")(x), b, ordered=ordered)))

    return lib(patterns(bias("bias", False), bias("bias_last", True)))


@section("Any grouping")
def any_grouping() -> list[FusionSpec]:
    multiply, plus = one("multiply"), one("add")
    block = PatternBuilder("gelu")
    x = block.value("x")
    scaled = multiply(x, build.approximately(0.70710678), flat=True)
    e = block.bind("e", one("erf")(scaled))
    y = block.bind("y", multiply(x, number(0.5), plus(e, number(1)), flat=True))
    cube = multiply(X, X, X, build.approximately(0.044715), flat=True)
    return lib(patterns(block.yields(y), of("cubic", ("y", plus(X, cube)))))


@section("Tuples and projections")
def tuples() -> list[FusionSpec]:
    block = PatternBuilder("gated")
    s = block.bind("s", one("split")(block.value("x")))
    gated = block.yields(block.bind("y", one("multiply")(s[0], one("sigmoid")(s[1]))))
    block = PatternBuilder("joined")
    both = build.tuple_of(block.value("a"), block.value("b"))
    joined = block.yields(block.bind("y", one("nn.relu")(one("concat")(both))))
    return lib(patterns(gated, joined))


@section("Tuples of any length")
def tuples_of_any_length() -> list[FusionSpec]:
    block = PatternBuilder("branch")
    x, w = block.value("x"), block.constant("w")
    k = block.bind("k", one("nn.conv2d")(x, w))
    y = block.bind("y", one("nn.relu")(k, optional=True))
    block.where(w.dim(2).one_of(1, 3))
    field = match(block.yields(y), X, build.ANYTHING)
    return lib(of("module", ("y", one("concat")(build.tuple_of_each(2, 4, field)))))


@section("Repetition")
def repetition() -> list[FusionSpec]:
    return lib(of("tail", ("y", build.repeat(1, 3, one("nn.relu", "exp", "tanh")(X)))))


@section("Paths")
def paths() -> list[FusionSpec]:
    block = PatternBuilder("epilogue")
    x, w = block.value("x"), block.constant("w")
    k = block.bind("k", one("matmul")(x, w))
    light = one(Kind.ELEMENTWISE, Kind.BROADCAST)
    return lib(block.yields(block.bind("y", build.path(1, 4, light, k))))


@section("Repeated patterns")
def repeated_patterns() -> list[FusionSpec]:
    block = PatternBuilder("dense")
    x, w, b = block.value("x"), block.constant("w"), block.constant("b", optional=True)
    m = block.bind("m", one("matmul")(x, w))
    y = block.bind("y", one("nn.relu")(one("add")(m, b, optional=True)))
    block.where(w.dim(1) % 4 == 0, "the width is divisible by 4")
    layer = match(block.yields(y), X, build.ANYTHING, build.ANYTHING)
    return lib(of("layers", ("y", build.repeat(1, 6, layer))))


@section("Several results")
def several_results() -> list[FusionSpec]:
    block = PatternBuilder("split_heads")
    r = block.bind("r", one("reshape")(block.value("x"), build.ANYTHING))
    y = block.bind("y", one("permute_dims")(r))
    return lib(block.yields(y, r), limits=Limits(max_exits=2, taps=True))


@section("Taps")
def taps() -> list[FusionSpec]:
    closed = of("closed", ("y", one("nn.relu")(one("exp")(X))))
    opened = of("open", ("y", one("nn.relu")(one("exp")(X, shared=True))))
    return lib(patterns(closed, opened), limits=ANY_EXIT)


@section("Calls between patterns")
def calls_between_patterns() -> list[FusionSpec]:
    block = PatternBuilder("gelu")
    x = block.value("x")
    e = block.bind("e", one("erf")(one("multiply")(x, build.approximately(0.70710678))))
    halved = one("multiply")(x, number(0.5))
    y = block.bind("y", one("multiply")(halved, one("add")(e, number(1))))
    gelu = block.yields(y)
    block = PatternBuilder("dense")
    x, w, b = block.value("x"), block.value("w"), block.constant("b")
    m = block.bind("m", one("add")(one("matmul")(x, w), b))
    return lib(block.yields(block.bind("y", match(gelu, m, optional=True))))


# Conditions.


@section("Where")
def where() -> list[FusionSpec]:
    block = PatternBuilder("blocked")
    x, w = block.value("x"), block.constant("w")
    y = block.bind("y", one("nn.conv2d")(x, w))
    block.where(x.dtype.one_of("f32", "bf16") & (x.dtype == w.dtype))
    block.where(w.dim(0) % 16 == 0, "the blocked layout needs channels divisible by 16")
    return lib(block.yields(y))


@section("Facts")
def facts() -> list[FusionSpec]:
    block = PatternBuilder("small")
    x, w = block.value("x"), block.value("w")
    y = block.bind("y", one("matmul")(x, w))
    block.where((x.rank == 2) & (x.shape != w.shape))
    block.where((y.size <= 4096) & w.bytes.between(1, 65536))
    return lib(block.yields(y))


@section("Values of constants")
def values_of_constants() -> list[FusionSpec]:
    block = PatternBuilder("quantized")
    x = block.value("x")
    sx, zx, w, sw, zw, sy, zy = map(block.constant, ("sx", "zx", "w", "sw", "zw", "sy", "zy"))
    a = block.bind("a", one("dequantize")(x, sx, zx))
    b = block.bind("b", one("dequantize")(w, sw, zw))
    m = block.bind("m", one("matmul")(a, b))
    y = block.bind("y", one("quantize")(m, sy, zy, out_dtype="u8"))
    block.where((x.dtype == "u8") & (w.dtype == "i8"))
    block.where((sx.value > 0) & build.all_elements(sw.element > 0), "scales are positive")
    block.where(
        build.all_elements(zw.element == 0) & zy.value.one_of(0, 128),
        "the library has no other zero points",
    )
    in_range = build.all_elements(w.element.between(-127, 127))
    block.where(in_range, "weights are symmetric")
    product = sx.value * sw.max / 2
    block.where(sy.value.near(product, within=1e-3) | sw.min.near(sw.max))
    return lib(block.yields(y))


@section("Places of elements")
def places_of_elements() -> list[FusionSpec]:
    block = PatternBuilder("causal")
    x, mask = block.value("x"), block.constant("mask", dims=("t", "t"))
    y = block.bind("y", one("nn.softmax")(one("add")(x, mask)))
    later = mask.place(1) > mask.place(0)
    seen = build.all_elements((mask.element == 0) | later)
    block.where(seen, "the past is not hidden")
    hidden = build.all_elements((mask.element < -10000) | (mask.place(1) <= mask.place(0)))
    block.where(hidden, "the future is hidden")
    return lib(block.yields(y))


@section("Elements and attributes of other calls")
def elements_and_attributes_of_other_calls() -> list[FusionSpec]:
    block = PatternBuilder("conv_pool")
    x, w = block.value("x"), block.constant("w")
    padding = build.attribute("padding")
    symmetric = padding[0] == padding[2], padding[1] == padding[-1]
    k = block.bind("k", one("nn.conv2d")(x, w, where=symmetric))
    same = (
        build.attribute("strides") == k.attribute("strides"),
        build.attribute("layout") == k.attribute("data_layout"),
    )
    y = block.bind("y", one("nn.max_pool2d")(k, where=same))
    block.where((k.attribute("padding")[0] <= 1) & (k.attribute("dilation").each == 1))
    return lib(block.yields(y))


@section("Named dimensions")
def named_dimensions() -> list[FusionSpec]:
    block = PatternBuilder("dense")
    x = block.value("x", dims=("m", "k"))
    w = block.constant("w", dims=("k", "n"))
    b = block.constant("b", optional=True, dims=["n"])
    y = block.bind("y", one("add")(one("matmul")(x, w), b, optional=True))
    block.where(block.dim("n") % 8 == 0, "columns come in blocks of 8")
    return lib(block.yields(y))


@section("Open ranks")
def open_ranks() -> list[FusionSpec]:
    block = PatternBuilder("dense")
    x, w = block.value("x", dims=("..", "k")), block.constant("w", dims=("k", "n"))
    y = block.bind("y", one("matmul")(x, w))
    block.where(block.dim("n") % 8 == 0)
    return lib(block.yields(y))


@section("Lists")
def lists() -> list[FusionSpec]:
    heads = PatternBuilder("heads")
    x = heads.value("x", dims=("b", "s", "_"))
    shape = heads.list_of("shape", "b", "s", "h", "d")
    r = heads.bind("r", one("reshape")(x, shape))
    y = heads.bind("y", one("permute_dims")(r, axes=(0, 2, 1, 3)))
    reason = "the library has kernels for heads of 64 and 128"
    heads.where(heads.dim("d").one_of(64, 128), reason)

    upscaled = PatternBuilder("upscaled")
    image = upscaled.value("x")
    size = upscaled.list_of("size", "n", "n")
    larger = upscaled.bind("y", one("image.resize2d")(image, size))
    upscaled.where(upscaled.dim("n") % 32 == 0)
    return lib(build.union(dfpattern(heads.yields(y)), dfpattern(upscaled.yields(larger))))


@section("Names in lists")
def names_in_lists() -> list[FusionSpec]:
    rotated = PatternBuilder("rotated")
    x = rotated.value("x", dims=("_", "_", "_", "d"))
    cut = one("strided_slice")
    axis, start = build.list_of(3), build.list_of(0)
    end = rotated.list_of("end", "half")
    first = rotated.bind("first", cut(x, axis, start, end, build.ANYTHING))
    begin = rotated.list_of("begin", "half")
    second = rotated.bind("second", cut(x, axis, begin, build.ANYTHING, build.ANYTHING))
    halves = build.tuple_of(one("negative")(second), first)
    either = build.attribute("axis").one_of(-1, 3)
    y = rotated.bind("y", one("concat")(halves, where=(either,)))
    rotated.where(rotated.dim("half") * 2 == rotated.dim("d"), "it is cut in the middle")

    merged = PatternBuilder("merged")
    x, w = merged.value("x"), merged.value("w")
    shape = merged.list_of("shape", "rows", "k")
    rows = one("reshape")(x, shape, optional=True)
    product = merged.bind("y", one("matmul")(rows, w))
    few = "few rows have a kernel of their own"
    merged.where(~shape.present | (merged.dim("rows") >= 32), few)
    return lib(build.union(dfpattern(rotated.yields(y)), dfpattern(merged.yields(product))))


@section("Unknown")
def unknown() -> list[FusionSpec]:
    block = PatternBuilder("blocked")
    x, w = block.value("x"), block.value("w")
    y = block.bind("y", one("matmul")(x, w))
    block.where(x.dim(0) % 4 == 0, "rows come in blocks of 4")
    return lib(block.yields(y))


@section("Extern predicates")
def extern_predicates() -> list[FusionSpec]:
    fits = build.extern_predicate("fits", "x", "w", source="acme.predicates:fits")
    block = PatternBuilder("dense")
    x, w = block.value("x"), block.constant("w")
    y = block.bind("y", one("matmul")(x, w))
    block.where((x.dtype == "f32") & build.holds(fits, x, w), "the library cannot lay it out")
    return lib(block.yields(y), compiler="lib")


# Rules.


@section("Rule")
def rule() -> list[FusionSpec]:
    cheap = build.op_call_by_kind(Kind.ELEMENTWISE, Kind.BROADCAST)
    return lib(build.union(cheap, build.op_call_by_kind(Kind.ANCHOR)))


@section("op_call_by_kind")
def op_call_by_kind() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=CALLS)]


@section("dfpattern")
def dfpattern_() -> list[FusionSpec]:
    return lib(of("pair", ("y", one("exp")(one("nn.relu")(X), optional=True))))


@section("op_predicate")
def op_predicate() -> list[FusionSpec]:
    pools = ("nn.max_pool2d", "nn.avg_pool2d")
    supported = build.op_predicate("onnxruntime", ops=(*pools, "nn.softmax"))
    rule = build.composite("onnxruntime.op", supported)
    tvm = target("tvm", "llvm", rules=CALLS)
    return [*lib(rule, compiler="onnxruntime"), tvm]


@section("composite")
def composite() -> list[FusionSpec]:
    dense = dfpattern(dense_relu())
    both = (build.composite(label, dense) for label in ("lib.dense", "lib.fast"))
    return lib(build.union(*both), compiler="lib")


def dense_relu() -> Pattern:
    block = PatternBuilder("dense")
    product = one("matmul")(block.value("x"), block.value("w"))
    return block.yields(block.bind("y", one("nn.relu")(product, optional=True)))


@section("union")
def union() -> list[FusionSpec]:
    one_kind = build.op_call_by_kind(Kind.ELEMENTWISE, Kind.BROADCAST)
    return lib(build.union(one_kind, build.op_call_by_kind(Kind.ELEMENTWISE, Kind.REDUCE)))


@section("combine_by_primitives")
def combine_by_primitives() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=build.combine_by_primitives(CALLS, max_depth=3))]


def combined(*using: Primitive, calls: FusionRule = CALLS) -> FusionRule:
    return build.combine_by_primitives(calls, using=using)


@section("Primitive kind")
def primitive_kind() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=combined(build.kind(Kind.ANCHOR, Kind.BROADCAST)))]


@section("Primitive injective_branches")
def primitive_injective_branches() -> list[FusionSpec]:
    rules = combined(build.kind(Kind.INJECTIVE, Kind.INJECTIVE), build.INJECTIVE_BRANCHES)
    return [target("tvm", "llvm", rules=rules)]


@section("Primitive tuple_args")
def primitive_tuple_args() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=combined(build.TUPLE_ARGS))]


@section("Primitive tuple_projections")
def primitive_tuple_projections() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=combined(build.TUPLE_PROJECTIONS), limits=ANY_EXIT)]


@section("Primitive constants")
def primitive_constants() -> list[FusionSpec]:
    return lib(combined(build.CONSTANTS, calls=build.op_call_by_kind(Kind.ANCHOR)))


@section("Primitive join_anything")
def primitive_join_anything() -> list[FusionSpec]:
    rule = build.combine_by_primitives(CALLS, using=(build.JOIN_ANYTHING,), max_nodes=9)
    return lib(rule)


@section("tvm_default")
def tvm_default() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=build.combine_by_primitives(CALLS))]


@section("max_splits")
def max_splits() -> list[FusionSpec]:
    using = (build.JOIN_ANYTHING,)
    return lib(build.combine_by_primitives(CALLS, using=using, max_splits=1))


@section("horizontal")
def horizontal() -> list[FusionSpec]:
    anchors = build.op_call_by_kind(Kind.ANCHOR)
    return lib(build.horizontal(anchors), limits=Limits(max_exits=None))


@section("vertical")
def vertical() -> list[FusionSpec]:
    anchors = build.op_call_by_kind(Kind.ANCHOR)
    both = build.vertical(anchors, epilogue=Kind.INJECTIVE)
    return [*lib(build.vertical(anchors, prologue=None)), target("both", "llvm", rules=both)]


@section("max_coalesce")
def max_coalesce() -> list[FusionSpec]:
    supported = build.op_call_by_kind(Kind.ELEMENTWISE, Kind.BROADCAST, Kind.ANCHOR)
    return lib(build.max_coalesce(supported), compiler="lib", limits=ANY_EXIT)


@section("only_valid")
def only_valid() -> list[FusionSpec]:
    chains = build.combine_by_primitives(CALLS, using=(build.JOIN_ANYTHING,), max_nodes=9)
    pairs = build.only_valid(chains, Limits(max_nodes=2))
    return [target("tvm", "llvm", rules=build.union(CALLS, pairs))]


@section("only_variants")
def only_variants() -> list[FusionSpec]:
    calls = build.op_call_by_kind(Kind.ANCHOR)
    anchors = build.only_variants(calls, ["direct", "winograd4"])
    rest = build.only_variants(build.op_call_by_kind(Kind.ELEMENTWISE), ["direct"])
    together = build.combine_by_primitives(build.union(anchors, rest))
    winograd = build.only_variants(anchors, ["winograd4"])
    parted = build.combine_by_primitives(build.union(winograd, rest))
    allowed = ["direct", "winograd4"]
    apart = target("apart", "llvm", rules=parted, variants=allowed)
    return [target("tvm", "llvm", rules=together), apart]


@section("primitive and host")
def primitive_and_host() -> list[FusionSpec]:
    return lib(build.union(build.primitive(CALLS), build.host()))


@section("Parametric rules")
def parametric_rules() -> list[FusionSpec]:
    block = PatternBuilder("conv")
    product = one("nn.conv2d")(block.value("x"), block.constant("w"))
    conv = block.yields(block.bind("y", one("nn.relu")(product, optional=True)))

    def offered(p: Pattern, label: str) -> FusionRule:
        return build.composite(label, dfpattern(p))

    rules = build.union(offered(conv, "lib.conv"), offered(dense_relu(), "lib.dense"))
    return lib(rules, compiler="lib")


# Targets.


@section("Target")
def target_() -> list[FusionSpec]:
    options = {"mcpu": "skylake-avx512", "num_cores": 4}
    every = build.op_call_by_kind(Kind.OPAQUE)
    rules = build.union(build.combine_by_primitives(CALLS, max_depth=8), every)
    tvm = target("tvm", "llvm", options=options, rules=rules, fallback=True)
    return [tvm, *lib(build.op_call_by_kind(Kind.ANCHOR), compiler="lib")]


@section("Libs")
def libs() -> list[FusionSpec]:
    block = PatternBuilder("dense")
    x, w = block.value("x"), block.value("w")
    dense = block.yields(block.bind("y", one("matmul")(x, w)))
    part = build.composite("onednn.dense", dfpattern(dense))
    calls = build.union(part, build.op_call_by_kind(Kind.ELEMENTWISE))
    options = {"libs": ["onednn", "openblas"]}
    return [target("tvm", "llvm", options=options, rules=build.combine_by_primitives(calls))]


@section("Variants")
def variants() -> list[FusionSpec]:
    exact = target("exact", "llvm", rules=CALLS, variants=["direct", "gemm", "gemv"])
    allowed = [name for name in NATIVE_VARIANTS if name != "winograd4"]
    fast = target("fast", "llvm", rules=CALLS, variants=allowed)
    calls = build.op_call_by_kind(Kind.ANCHOR)
    return [exact, fast, *lib(calls, compiler="lib", variants=["im2col"])]


@section("Limits")
def limits() -> list[FusionSpec]:
    rule = build.combine_by_primitives(CALLS, using=(build.JOIN_ANYTHING,), max_nodes=9)
    allowed = Limits(max_exits=2, max_nodes=3, taps=True, max_candidates=500)
    return lib(rule, limits=allowed)


@section("Pruning")
def pruning() -> list[FusionSpec]:
    triples = build.combine_by_primitives(CALLS, using=(build.JOIN_ANYTHING,), max_nodes=3)
    large = Limits(min_nodes=2, largest_first=True)
    every = build.union(triples, build.op_call_by_kind(Kind.OPAQUE))
    tvm = target("tvm", "llvm", rules=every, limits=large, fallback=True)
    regions = build.only_valid(triples, large)
    return [tvm, *lib(regions, compiler="lib", limits=Limits(max_regions=1))]


@section("Measure")
def measure() -> list[FusionSpec]:
    alike = Measuring(repeats=30, percentile=50, budget=2, runs="rarely", noise_margin=0.01)
    tvm = target("tvm", "llvm", rules=CALLS, measure=alike)
    return [tvm, *lib(CALLS, compiler="lib", measure=replace(alike, timeout=30))]


@section("Tune")
def tune() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=CALLS, tune=Tuning(trials=200))]


@section("After")
def after() -> list[FusionSpec]:
    return lib(CALLS, compiler="lib", limits=ANY_EXIT, coalesce=True)


@section("Fallback")
def fallback() -> list[FusionSpec]:
    rule = build.union(CALLS, build.op_call_by_kind(Kind.OPAQUE))
    return [target("tvm", "llvm", rules=rule, fallback=True)]


@section("Priority")
def priority() -> list[FusionSpec]:
    return [target("tvm", "llvm", rules=CALLS), *lib(CALLS, compiler="lib", priority=10)]


@section("Pin and forbid")
def pin_and_forbid() -> list[FusionSpec]:
    pinned = build.pin(build.name("/head/*"), because="accuracy")
    selected = build.op("nn.softmax", "nn.relu", "tanh")
    forbidden = build.forbid(selected, because="slower for short rows")
    tvm = target("tvm", "llvm", rules=CALLS, placements=[pinned])
    return [tvm, *lib(CALLS, compiler="lib", placements=[forbidden])]


@pytest.mark.parametrize(("heading", "text"), EXAMPLES, ids=[heading for heading, _ in EXAMPLES])
def test_the_example_of_each_section_can_be_made_in_python(heading: str, text: str) -> None:
    assert heading in MADE, "nothing here makes what this section shows"

    made = MADE[heading]()

    assert list(load(text=text).values()) == made


def test_nothing_is_made_that_no_section_shows() -> None:
    assert list(MADE) == [heading for heading, _ in EXAMPLES]


# What the examples of the page do not show.


def rest() -> FusionSpec:
    """Primitives, bounds, a preference, arithmetic, a shared tree, another kind of target."""
    using = (
        build.kind(Kind.ANCHOR, Kind.BROADCAST),
        build.INJECTIVE_BRANCHES,
        build.TUPLE_ARGS,
        build.TUPLE_PROJECTIONS,
        build.CONSTANTS,
    )
    block = PatternBuilder("used")
    x = block.value("x")
    e = one("add")(x, number(1), flat=True, shared=True)
    y = block.bind("y", one("exp")(e))
    block.where(x.uses + 1 == 2)
    rule = build.union(
        build.max_coalesce(CALLS, prefer="first"),
        build.combine_by_primitives(CALLS, using=using, max_nodes=5),
        dfpattern(block.yields(y, taps=True)),
        build.horizontal(build.vertical(CALLS, max_depth=3), max=2),
    )
    return target("t", "cuda", rules=rule, limits=Limits(max_depth=4))


REST = """collage 1;
pattern used(x) { y = exp(add(x, 1) flat shared); where uses(x) + 1 == 2; taps allowed; yield y; }
target t on cuda {
  rules union(
    max_coalesce(op_call_by_kind(), prefer: first),
    combine_by_primitives(
      op_call_by_kind(),
      using: [
        kind(anchor -> broadcast), injective_branches, tuple_args, tuple_projections, constants,
      ],
      max_nodes: 5,
    ),
    dfpattern(used),
    horizontal(vertical(op_call_by_kind(), max_depth: 3), max: 2),
  );
  limits { max_depth 4; }
}
"""


def test_the_rest_can_be_made_too() -> None:
    assert list(load(text=REST).values()) == [rest()]


def parts(value: object) -> Iterator[object]:
    """`value` and all that it is made of."""
    yield value
    if is_dataclass(value):
        for field in fields(value):
            yield from parts(getattr(value, field.name))
    elif isinstance(value, tuple):
        for each in value:
            yield from parts(each)


def test_every_class_of_the_tree_and_every_field_of_it_has_been_made_here() -> None:
    """A new one fails this until the builder can make it, with more than its usual value."""
    made = [spec for make in MADE.values() for spec in make()]
    said: dict[type, list[object]] = {cls: [] for cls in _classes()}
    for value in (part for spec in [*made, rest()] for part in parts(spec)):
        if type(value) in said:
            said[type(value)].append(value)

    assert [cls.__name__ for cls, values in said.items() if not values] == []
    assert [
        f"{cls.__name__}.{field.name}"
        for cls, values in said.items()
        for field in _fields(cls)
        if all(getattr(value, field.name) == _usual(field) for value in values)
    ] == []
