"""Lists in patterns match the shapes and bounds that models write, from ONNX and from Relax."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import helper
from tvm import relax

import collage_dsl as collage
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import Form, Graph
from collage_dsl.graph.operators import relax_operators
from collage_dsl.language import load, parse_graph
from collage_dsl.report.why import near, why
from collage_dsl.rules.matcher import Attempt, matches
from collage_dsl.rules.pattern import Pattern
from tests.test_frontend_onnx import model
from tests.test_why import pattern

SLICE = "strided_slice(x, [1], [2], [n], _)"


def matched(wanted: Pattern, graph: Graph, at: int | None = None) -> bool:
    root = graph.outputs[0] if at is None else at
    return bool(list(matches(wanted, graph, root, Attempt())))


def of(call: str, where: str = "") -> Pattern:
    said = f"where {where};" if where else ""
    return pattern(f"pattern p(x) {{ y = {call}; {said} yield y; }}")


def relax_graph(make: Callable[[Any], Any], shape: Sequence[int]) -> Graph:
    x = relax.Var("x", relax.TensorType(shape, "float32"))
    block = relax.BlockBuilder()
    with block.function("main", [x]):
        with block.dataflow():
            result = block.emit_output(block.emit(make(x)))
        block.emit_func_output(result)
    return collage.from_relax(block.get(), "main")


RELAX: dict[str, tuple[Callable[[Any], Any], tuple[int, ...], str, str]] = {
    "broadcast_to": (
        lambda x: relax.op.broadcast_to(x, (3, 2, 4)),
        (2, 4),
        "broadcast_to(x, [3, n, 4])",
        "n == 2",
    ),
    "collapse_sum_to": (
        lambda x: relax.op.collapse_sum_to(x, relax.ShapeExpr((2, 1))),
        (2, 4),
        "collapse_sum_to(x, [n, 1])",
        "n == 2",
    ),
    "full": (
        lambda x: relax.op.add(x, relax.op.full((2, 4), relax.const(1.0), "float32")),
        (2, 4),
        "add(x, full([n, 4], _))",
        "n == 2",
    ),
    "image.affine_grid": (
        lambda x: relax.op.image.affine_grid(x, (5, 6)),
        (1, 2, 3),
        "image.affine_grid(x, [n, 6])",
        "n == 5",
    ),
    "image.resize2d": (
        lambda x: relax.op.image.resize2d(x, (8, 6)),
        (1, 3, 4, 4),
        "image.resize2d(x, [n, 6])",
        "n == 8",
    ),
    "image.resize3d": (
        lambda x: relax.op.image.resize3d(x, (8, 6, 4)),
        (1, 3, 4, 4, 4),
        "image.resize3d(x, [n, .., 4])",
        "n == 8",
    ),
    "ones": (
        lambda x: relax.op.add(x, relax.op.ones((2, 4), "float32")),
        (2, 4),
        "add(x, ones([n, 4]))",
        "n == 2",
    ),
    "reshape": (
        lambda x: relax.op.reshape(x, (0, -1, 2)),
        (2, 4),
        "reshape(x, [2, n, 2])",
        "n == 2",
    ),
    "shape_to_tensor": (
        lambda x: relax.op.take(x, relax.op.shape_to_tensor(relax.ShapeExpr((1, 0))), axis=0),
        (2, 4),
        "take(x, shape_to_tensor([n, 0]))",
        "n == 1",
    ),
    "strided_slice": (
        lambda x: relax.op.strided_slice(x, [-1], [-3], [2**31 - 1], [2]),
        (2, 4),
        "strided_slice(x, [-1], [n], [..], [2])",
        "n == -3",
    ),
    "zeros": (
        lambda x: relax.op.add(x, relax.op.zeros((2, 4), "float32")),
        (2, 4),
        "add(x, zeros([n, 4]))",
        "n == 2",
    ),
}


def test_each_operator_with_a_list_is_tried() -> None:
    """A new one in the table fails this until it is below."""
    assert set(RELAX) == {name for name, op in relax_operators().items() if "list" in op.takes}


@pytest.mark.parametrize("name", RELAX)
def test_the_lists_of_a_relax_model_are_matched(name: str) -> None:
    make, shape, call, where = RELAX[name]
    graph = relax_graph(make, shape)

    assert matched(of(call, where), graph)
    assert not matched(of(call, where.replace("== ", "!= ")), graph)


def onnx_graph(
    operator: str,
    shape: Sequence[int | str],
    constants: dict[str, Any],
    inputs: Sequence[str] | None = None,
    **attributes: Any,
) -> Graph:
    arrays = {name: np.asarray(value) for name, value in constants.items()}
    node = helper.make_node(operator, inputs or ["x", *constants], ["y"], **attributes)
    return from_onnx(model([node], {"x": shape}, ["y"], arrays, opset=20))


def filled() -> Graph:
    """A tensor of ones as large as `x`, whose size is not known."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("ConstantOfShape", ["s"], ["c"]),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    return from_onnx(model(nodes, {"x": ["n", 2]}, ["y"]))


@pytest.mark.parametrize(
    ("graph", "call", "where"),
    [
        (
            lambda: onnx_graph("Reshape", [2, 4], {"s": [0, -1, 2]}),
            "reshape(x, [2, n, 2])",
            "n == 2",
        ),
        (
            lambda: onnx_graph("Reshape", ["n", 4], {"s": [0, -1, 2]}),
            "reshape(x, [m, k, 2])",
            "m == dim(x, 0) and k == 2",
        ),
        (
            lambda: onnx_graph("Expand", [2, 4], {"s": [3, 1, 1]}),
            "broadcast_to(x, [3, n, 4])",
            "n == 2",
        ),
        (
            lambda: onnx_graph("Slice", [2, 4], {"b": [-3], "e": [2**62], "a": [-1]}),
            "strided_slice(x, [1], [n], [_], [1])",
            "n == -3",
        ),
        (
            lambda: onnx_graph(
                "Resize", [1, 3, 4, 4], {"s": [1, 3, 8, 6]}, ["x", "", "", "s"], mode="linear"
            ),
            "image.resize2d(x, [n, 6])",
            "n == 8",
        ),
        (
            lambda: onnx_graph(
                "Resize", [1, 3, 4, 4, 4], {"s": [1, 3, 8, 6, 4]}, ["x", "", "", "s"], mode="linear"
            ),
            "image.resize3d(x, [n, 6, 4])",
            "n == 8",
        ),
        (
            lambda: onnx_graph("AffineGrid", [1, 2, 3], {"s": [1, 1, 5, 6]}),
            "permute_dims(image.affine_grid(x, [n, 6]))",
            "n == 5",
        ),
        (filled, "add(x, full([m, k], _))", "m == dim(x, 0) and k == 2"),
        (lambda: onnx_graph("Flatten", [2, 3, 4], {}, axis=2), "reshape(x, [n, 4])", "n == 6"),
    ],
)
def test_the_lists_of_an_onnx_model_are_matched(
    graph: Callable[[], Graph], call: str, where: str
) -> None:
    found = graph()

    assert matched(of(call, where), found)
    assert not matched(of(call, where.replace("n == ", "n != ").replace("k == ", "k != ")), found)


SYMBOLS = parse_graph("x: f32[n, 8]; y = reshape(x, [n, 4, 2]); return y;")


@pytest.mark.parametrize(
    ("call", "where", "holds"),
    [
        ("reshape(x, [_, 4, 2])", "", True),
        ("reshape(x, [m, 4, 2])", "", True),
        ("reshape(x, [m, 4, 2])", "m == dim(x, 0)", True),
        ("reshape(x, [8, 4, 2])", "", False),
        ("reshape(x, [m, 4, 2])", "m > 0", False),
        ("reshape(x, [m, 4, 2])", "not m == 8", False),
        ("reshape(x, [.., a, b])", "a == b * 2", True),
        ("reshape(x, [m, .., b])", "m != b", False),
    ],
)
def test_a_symbol_is_equal_to_itself_and_else_unknown(call: str, where: str, holds: bool) -> None:
    assert matched(of(call, where), SYMBOLS) is holds


def test_equal_lists_of_repeated_calls_are_one_list() -> None:
    """Each call of a model has a literal of its own."""
    wanted = pattern(
        "pattern p(x) { y = concat(each[2..3] reshape(x, [h, d])); where h * 2 == d; yield y; }"
    )
    text = "x: f32[4, 8]; a = reshape(x, {}); b = reshape(x, {}); t = (a, b); y = {}; return y;"
    joined = parse_graph(text.format("[4, 8]", "[4, 8]", "concat(t)"))
    other = parse_graph(text.format("[8, 4]", "[8, 4]", "concat(t)"))
    mixed = parse_graph(text.format("[4, 8]", "[8, 4]", "stack(t)").replace("y =", "y: f32[*] ="))

    assert matched(wanted, joined)
    assert not matched(wanted, other)
    stacked = replace(mixed.nodes[-1], op="concat")
    assert not matched(wanted, Graph((*mixed.nodes[:-1], stacked), mixed.outputs))


def test_a_name_of_an_optional_list_is_asked_only_if_the_list_is_there() -> None:
    wanted = pattern("pattern p(x: [b, _]) { r = reshape?(x, [b, h, d]); y = exp(r); yield y; }")
    text = "x: f32[2, 8]; r = reshape(x, {}); y = exp(r); return y;"

    assert matched(wanted, parse_graph("x: f32[2, 8]; y = exp(x); return y;"))
    assert matched(wanted, parse_graph(text.format("[2, 4, 2]")))
    assert not matched(wanted, parse_graph(text.format("[4, 2, 2]")))


def test_alternatives_may_be_lists() -> None:
    wanted = of("reshape(x, ([4, _] | [_, 4, _]))")

    for shape, holds in (("[4, 2]", True), ("[1, 4, 2]", True), ("[2, 4]", False)):
        text = f"x: f32[8]; y = reshape(x, {shape}); return y;"
        assert matched(wanted, parse_graph(text)) is holds


SLICED = "x: f32[2, 8]; y = strided_slice(x, {}, {}, {}, {}); return y;"


@pytest.mark.parametrize(
    ("lists", "said"),
    [
        (("[0]", "[2]", "[4]", "[1]"), "item 0 of `y.axes` is 0, not 1"),
        (("[1]", "[3]", "[4]", "[1]"), "item 0 of `y.begin` is 3, not 2"),
        (("[0, 1]", "[0, 2]", "[2, 4]", "[1, 1]"), "`y.axes` has 2 items, not 1 as in [1]"),
    ],
)
def test_a_refusal_names_the_item_and_its_value(lists: tuple[str, ...], said: str) -> None:
    graph = parse_graph(SLICED.format(*lists))
    wanted = of(SLICE)

    assert why(wanted, graph, at="y").because == said
    assert said in str(near(wanted, graph))


def test_a_list_is_no_other_literal() -> None:
    graph = parse_graph("x: f32[2, 2]; y = triu(x, 1); return y;")
    wanted = load(
        text="collage 1; pattern p(x, k) { y = triu(x, k); where rank(k) == 1; yield y; }"
        " target t on llvm { rules dfpattern(p); }"
    )

    assert not collage.propose(graph, wanted["t"])
    assert graph.nodes[1].form is Form.LITERAL


def test_the_parts_of_a_list_are_shown_with_the_condition_on_them() -> None:
    graph = parse_graph("x: f32[2, 8]; y = reshape(x, [4, 4]); return y;")

    wanted = pattern("pattern p(x: [b, _]) { y = reshape(x, [b, _]); yield y; }")
    told = str(why(wanted, graph, at="y"))

    assert "`b` must be the same in `x` and `shape`" in told
    assert "dim(shape, 0) is 4" in told
    assert "dim(x, 0) is 2" in told


def test_a_list_is_written_with_a_name_if_its_items_have_names() -> None:
    text = (
        "collage 1; pattern p(x: [b, _]) { y = reshape(exp(x), [b, n, ..]);"
        " z = reshape(y, [-1, ..]); where n > 2; yield z; }"
        " target t on llvm { rules dfpattern(p); }"
    )
    spec = load(text=text)["t"]
    written = collage.to_text(spec)

    assert "  shape = [_, _, ..];\n  y = reshape(exp(x), shape);\n" in written
    assert "  z = reshape(y, [-1, ..]);\n" in written
    assert load(text=written)["t"] == spec
