"""The nodes of a graph that is written as text, and what is said of texts that are too long."""

import numpy as np
import pytest

from collage_dsl.diagnostics import RuleError, Severity
from collage_dsl.graph import Form, Graph, Kind, Node
from collage_dsl.language import check, format_graph, parse_graph
from collage_dsl.source import Source

IMAGE = "x: f32[1, 4, 8, 8]; w: f32[4, 4, 3, 3]; m: f32[1, 8, 4];"


def node(graph: Graph, name: str) -> Node:
    return graph.nodes[graph.index(name)]


def operands(graph: Graph, name: str) -> list[Node]:
    return [graph.nodes[at] for at in node(graph, name).inputs]


# Attributes.


@pytest.mark.parametrize(
    ("call", "name", "value"),
    [
        ("nn.softmax(m) [axis = -2]", "axis", -2),
        ("nn.dropout(m) [rate = 0.25]", "rate", 0.25),
        ("nn.dropout(m) [rate = 1]", "rate", 1.0),
        ("sum(m) [keepdims = true]", "keepdims", True),
        ("sum(m) [keepdims = false]", "keepdims", False),
        ("sum(m) [axis = none]", "axis", None),
        ("sum(m) [axis = 1]", "axis", (1,)),
        ("sum(m) [axis = [1, 2]]", "axis", (1, 2)),
        ("split(m) [indices_or_sections = 2, axis = 1]", "indices_or_sections", 2),
        ("split(m) [indices_or_sections = [2, 6], axis = 1]", "indices_or_sections", (2, 6)),
        (
            "image.resize2d(x, [4, 4]) [roi = [0, 0.5, 1, 2]]",
            "roi",
            (0.0, 0.5, 1.0, 2.0),
        ),
        ('nn.avg_pool2d(x) [layout = "NHWC"]', "layout", "NHWC"),
        ("astype(m) [dtype = f16]", "dtype", "float16"),
        ('astype(m) [dtype = "float16"]', "dtype", "float16"),
    ],
)
def test_a_value_is_stored_as_its_attribute_has_it(call: str, name: str, value: object) -> None:
    stored = node(parse_graph(f"{IMAGE} y = {call}; return y;"), "y").attrs[name]

    assert repr(stored) == repr(value)  # 1 is neither 1.0 nor true


@pytest.mark.parametrize(
    ("attributes", "stored"),
    [
        ("", {"strides": (1, 1), "padding": (0, 0, 0, 0), "out_layout": "NCHW"}),
        ("strides = 2", {"strides": (2, 2), "padding": (0, 0, 0, 0)}),
        ("strides = [2]", {"strides": (2, 2)}),
        ("strides = [2, 1]", {"strides": (2, 1)}),
        ("dilation = 2", {"dilation": (2, 2)}),
        ("padding = 1", {"padding": (1, 1, 1, 1), "strides": (1, 1)}),
        ("padding = [1, 2]", {"padding": (1, 2, 1, 2)}),
        ("padding = [1, 2, 3, 4]", {"padding": (1, 2, 3, 4)}),
        ('data_layout = "NHWC"', {"data_layout": "NHWC", "out_layout": "NHWC"}),
        (
            'data_layout = "NHWC", out_layout = "NCHW"',
            {"data_layout": "NHWC", "out_layout": "NCHW"},
        ),
        (
            'out_layout = "NCHW", data_layout = "NHWC"',
            {"data_layout": "NHWC", "out_layout": "NCHW"},
        ),
    ],
)
def test_what_is_not_said_of_a_convolution_is_as_tvm_has_it(
    attributes: str, stored: dict[str, object]
) -> None:
    brackets = f" [{attributes}]" if attributes else ""
    graph = parse_graph(f"{IMAGE} y: f32[*] = nn.conv2d(x, w){brackets}; return y;")

    found = node(graph, "y").attrs
    assert {name: found[name] for name in stored} == stored


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("nn.avg_pool2d(x) [pool_size = 2]", "pool_size"),
        ("nn.avg_pool2d(x) [dilation = 2]", "dilation"),
        ("nn.avg_pool2d(x) [strides = 2]", "strides"),
        ("nn.conv2d_transpose(x, w) [output_padding = 2, strides = 3]", "output_padding"),
    ],
)
def test_one_number_is_for_each_axis(call: str, name: str) -> None:
    graph = parse_graph(f"{IMAGE} y = {call}; return y;")

    assert node(graph, "y").attrs[name] == (2, 2)


@pytest.mark.parametrize(
    ("operator", "written", "stored"),
    [
        ("nn.max_pool1d", "1", (1, 1)),
        ("nn.max_pool1d", "[1, 2]", (1, 2)),
        ("nn.max_pool3d", "1", (1, 1, 1, 1, 1, 1)),
        ("nn.max_pool3d", "[1, 2, 3]", (1, 2, 3, 1, 2, 3)),
        ("grad.max_pool2d_backward", "[1, 2]", (1, 2)),
    ],
)
def test_padding_is_completed_to_both_ends_of_each_axis(
    operator: str, written: str, stored: tuple[int, ...]
) -> None:
    operands = "x, x" if "grad" in operator else "x"
    graph = parse_graph(f"x: f32[*]; y = {operator}({operands}) [padding = {written}]; return y;")

    assert node(graph, "y").attrs["padding"] == stored


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("nn.avg_pool2d(x)", ["layout", "out_layout"]),
        ("image.resize2d(x, [4, 4])", ["layout"]),
    ],
)
def test_the_layout_of_the_result_is_said_where_there_is_one(
    operator: str, attributes: list[str]
) -> None:
    found = node(parse_graph(f'{IMAGE} y = {operator} [layout = "NHWC"]; return y;'), "y").attrs

    assert {name: found[name] for name in found if "layout" in name} == dict.fromkeys(
        attributes, "NHWC"
    )


# Nodes.


def test_a_graph_has_the_name_and_the_results_of_its_text() -> None:
    one = parse_graph("x: f32[4]; return x;")
    tuple_of_one = parse_graph("x: f32[4]; return x,;", "model")

    assert (one.name, one.returns_tuple) == ("graph", False)
    assert (tuple_of_one.name, tuple_of_one.returns_tuple) == ("model", True)


def test_a_type_that_is_written_counts() -> None:
    graph = parse_graph("x: f32[4]; y: f16[n] = exp(x); s: size = [1, 2]; return y;")

    assert [str(each.type) for each in graph.nodes] == ["f32[4]", "f16[n]", "size"]


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("true", "bool", True),
        ("3", "int64", 3),
        ("2.5", "float32", 2.5),
        ('"text"', "string", "text"),
        ("[1, n]", "shape", (1, "n")),
        ("none", "object", None),
    ],
)
def test_what_is_no_tensor_can_have_a_name(text: str, type_: str, value: object) -> None:
    found = node(parse_graph(f"l = {text}; return l;"), "l")

    assert (found.form, str(found.type), found.value) == (Form.LITERAL, type_, value)


def test_what_is_written_in_place_is_named_by_the_operand() -> None:
    graph = parse_graph("""
        x: f32[4];
        r = reshape(x, [2, 2]);
        c = clip(r, 0, 6.0);
        s = strided_slice(c, [0], [0], [1]);
        p = print(s, 1.5, "text", [1, 2]);
        i: f32[1, 4, 8, 8];
        z = image.resize2d(i, [4, 4]);
        return p, z;
    """)
    names = ["r.shape", "c.min", "c.max", "s.axes", "s.begin", "s.end", "p.const1"]
    names += ["p.literal2", "p.literal3", "z.size"]
    types = ["shape", "int64", "float32", "scalars", "scalars", "scalars", "f32[]"]
    types += ["string", "scalars", "shape"]
    in_place = [found for found in graph.nodes if "." in found.name]

    assert [found.name for found in in_place] == names
    assert [str(found.type) for found in in_place] == types


def test_a_name_that_is_taken_gets_a_number() -> None:
    graph = parse_graph("""
        r.shape: f32[1]; x: f32[4]; r = reshape(x, [2, 2]); y = exp(r); y.shape: f32[1];
        s = reshape(x, [1, 4]); s.shape: f32[1]; s.shape_1: f32[1];
        return r, s;
    """)

    assert operands(graph, "r")[1].name == "r.shape_1"
    assert operands(graph, "s")[1].name == "s.shape_2"


@pytest.mark.parametrize(
    ("call", "type_", "value"),
    [
        ("multiply(h, 0.5)", "f16[]", 0.5),
        ("add(i, 2)", "i64[]", 2),
        ("add(2, i)", "i64[]", 2),
        ("subtract(0.5, h)", "f16[]", 0.5),
    ],
)
def test_a_number_in_place_of_a_tensor_is_a_constant(call: str, type_: str, value: float) -> None:
    graph = parse_graph(f"h: f16[4]; i: i64[4]; y = {call}; return y;")
    (number,) = (each for each in operands(graph, "y") if each.form is Form.CONSTANT)

    assert str(number.type) == type_
    assert np.asarray(number.value).tolist() == value


@pytest.mark.parametrize(
    ("dtype", "value", "fits"),
    [
        ("f16", "65519", True),
        ("f16", "65520", False),
        ("f16", "-65520", False),
        ("bf16", "3.3953e38", True),
        ("bf16", "3.3963e38", False),
        ("f32", "-3.4028234663852886e38", True),  # a mask of attention has it
        ("f32", "3.4028235e38", True),
        ("f32", "3.4028236e38", False),
        ("f64", "1e299", True),
        ("u8", "0", True),
        ("u8", "255", True),
        ("u8", "256", False),
        ("u8", "-1", False),
        ("i8", "-128", True),
        ("i8", "-129", False),
        ("i8", "127", True),
        ("i8", "1.0", False),
        ("i8", "true", True),
        ("bool", "1", True),
        ("bool", "2", False),
    ],
)
def test_a_constant_holds_what_its_dtype_can_rounded(dtype: str, value: str, fits: bool) -> None:
    text = f"c = const {dtype}[] {value}; return c;"

    if not fits:
        assert [code for code, *_ in problems(text)] == ["E0603"]
    else:
        graph = parse_graph(text)
        kept = graph.nodes[0].value.tolist()  # type: ignore[attr-defined]
        again = parse_graph(format_graph(graph)).nodes[0].value
        assert np.isfinite(kept)
        assert again.tolist() == kept  # type: ignore[attr-defined]


def test_the_kind_of_a_slice_is_that_of_its_start() -> None:
    graph = parse_graph("""
        x: f32[8];
        start = strided_slice(x, [0], [0], [4]);
        later = strided_slice(x, [0], [1], [4]);
        return start, later;
    """)

    assert node(graph, "start").kind is Kind.ELEMENTWISE
    assert node(graph, "later").kind is Kind.INJECTIVE


# What is too much.


def problems(text: str) -> list[tuple[str, str, str]]:
    with pytest.raises(RuleError) as caught:
        parse_graph(text)
    return [(found.code, found.message, found.help) for found in caught.value.diagnostics]


def test_of_a_text_that_is_too_long_nothing_is_read() -> None:
    text = "x: f33[4]; return x;"

    assert [code for code, *_ in problems(text + " " * (1 << 20))] == ["E0106"]


def test_after_a_hundred_errors_a_graph_is_not_checked() -> None:
    text = "".join(f"x{at}: f33[4];\n" for at in range(101)) + "return x0;"

    assert problems(text)[-1] == (
        "E0108",
        "there are more than 100 errors; the rest is not checked",
        "correct the others first",
    )


def test_warnings_that_are_not_shown_are_no_error() -> None:
    target = "collage 1; target t on llvm { rules op_call_by_kind(); }\n"
    rules = "".join(f"rule r{at} = op_call_by_kind();\n" for at in range(1_001))
    last = check(Source("t.collage", target + rules))[-1]

    assert (last.code, last.severity, last.help) == ("W0109", Severity.WARNING, "")


@pytest.mark.parametrize(("before", "hint"), [(999, "did you mean `input`?"), (1_000, "")])
def test_what_was_meant_is_looked_for_among_a_thousand_names(before: int, hint: str) -> None:
    many = "".join(f"q{at}: f32[4];" for at in range(before))

    assert problems(f"{many} input: f32[4]; y = exp(inptu); return y;") == [
        ("E0206", "unknown name `inptu`", hint)
    ]


@pytest.mark.parametrize(
    ("call", "type_"),
    [
        ("reshape(x, [0, 2, 4])", "f32[n, 2, 4]"),
        ("reshape(x, [0, -1])", "f32[n, ?]"),
        ("reshape(z, [0, -1])", "f32[4, 0]"),
        ("reshape(y, [0, -1])", "f32[?, ?]"),
    ],
)
def test_a_dimension_that_is_0_is_the_one_that_is_there(call: str, type_: str) -> None:
    graph = parse_graph(f"x: f32[n, 8]; z: f32[4, 0]; y: f32[*]; r = {call}; return r;")

    assert str(graph.nodes[graph.index("r")].type) == type_


@pytest.mark.parametrize("shape", ["[none, 4]", "[[4], 5]", "[2.5, 8]", "[true, 20]"])
@pytest.mark.parametrize("text", ["r = reshape(x, {});", "s = {}; r = reshape(x, s);"])
def test_a_shape_has_dimensions_only(shape: str, text: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_graph(f"x: f32[4, 5]; {text.format(shape)} return r;")

    (found,) = caught.value.diagnostics
    assert found.code == "E0603"
    assert found.message == "a shape can contain only whole numbers and names of dimensions"
    assert found.span.text == shape


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("split(x) [indices_or_sections = 100000000000]", "a dimension of n cannot be split"),
        ("split(x) [indices_or_sections = 10001]", "a dimension of n cannot be split"),
        ("nn.max_pool1d(p) [strides = 0]", "a window does not move by 0"),
        ("nn.conv1d(p, w) [groups = -1]", "there are no -1 groups"),
        ("reshape(x, [1, 2, 0])", "there is no dimension 2 to keep"),
        ("reshape(x, [-2, 8])", "the shape [-2, 8] has a dimension below 0"),
    ],
)
def test_what_makes_no_sense_is_refused_whatever_the_size(call: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse_graph(f"x: f32[n, 8]; p: f32[1, c, n]; w: f32[4, c, 3]; r = {call}; return r;")

    (found,) = caught.value.diagnostics
    assert found.message.startswith(message)


def test_a_value_is_split_into_ten_thousand_parts() -> None:
    graph = parse_graph("x: f32[n]; r = split(x) [indices_or_sections = 10000]; return r;")

    assert len(graph.nodes[graph.index("r")].type.fields) == 10_000  # type: ignore[attr-defined]
