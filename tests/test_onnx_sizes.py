"""Arithmetic with dimensions, as exporters write it, in models with free dimensions."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.parser import parse_model
from tvm import tirx

import collage_dsl as collage
from collage_dsl.frontend.dims import dim_of, expr_of
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import CandidateKernel, Graph
from collage_dsl.graph.sizes import size_of
from collage_dsl.graph.types import TensorType
from collage_dsl.realization.signature import ExecutableError
from tests.reference import run_onnx

CONSTANTS = """
    one = Constant<value_ints=[1]>() two = Constant<value_ints=[2]>()
    six = Constant<value_ints=[6]>() zero = Constant<value_ints=[0]>()
    m1 = Constant<value_ints=[-1]>() big = Constant<value_ints=[9223372036854775807]>()
    izero = Constant<value_int=0>() ione = Constant<value_int=1>()
    fzero = Constant<value_float=0.0>() fone = Constant<value_float=1.0>()
    low = Constant<value_ints=[-9223372036854775807]>()
    below = Constant<value_ints=[0, 0, 0, 0, 1, 0]>()
    sh = Shape(x) n0 = Gather(sh, zero) l = Gather(sh, one) s0 = Squeeze(l)
"""

CASES = {
    "first": "y = Slice(x, zero, two, one)",
    "last": "y = Slice(x, m1, big, one)",
    "all_but_the_last": "y = Slice(x, zero, m1, one)",
    "from_the_second": "y = Slice(x, one, l, one)",
    "half": "q = Div(l, two) y = Slice(x, zero, q, one)",
    "second_half": "q = Div(l, two) y = Slice(x, q, big, one)",
    "every_second": "y = Slice(x, zero, big, one, two)",
    "smaller": "q = Min(l, two) y = Slice(x, zero, q, one)",
    "heads": "three = Div(six, two) t = Concat<axis=0>(n0, l, two, three) y = Reshape(x, t)",
    "rest": "t = Constant<value_ints=[0, -1, 3]>() y = Reshape(x, t)",
    "merged": "p = Mul(n0, l) t = Concat<axis=0>(p, m1) y = Reshape(x, t)",
    "product": "p = ReduceProd(sh) d = Div(p, l) t = Concat<axis=0>(one, l, d) y = Reshape(x, t)",
    "cast": "c = Cast<to=6>(l) d = Cast<to=7>(c) t = Concat<axis=0>(n0, d, m1) y = Reshape(x, t)",
    "chosen": (
        "z = Equal(l, m1) q = Where(z, one, l) t = Concat<axis=0>(n0, q, m1) y = Reshape(x, t)"
    ),
    "expanded": "t = Concat<axis=0>(n0, l, one) h = Slice(x, zero, one, one) y = Expand(h, t)",
    "kept": (
        "t = Constant<value_ints=[-1, 1, 6]>() e = Equal(t, m1) w = Where(e, sh, t) "
        "h = Slice(x, zero, one, one) y = Expand(h, w)"
    ),
    "filled": "t = Concat<axis=0>(n0, l, one) f = ConstantOfShape(t) y = Add(x, f)",
    "counted": "r = Range(izero, s0, ione) f = Cast<to=1>(r) u = Unsqueeze(f, one) y = Add(x, u)",
    "counted_in_floats": (
        "f = Cast<to=1>(s0) r = Range(fzero, f, fone) u = Unsqueeze(r, one) y = Add(x, u)"
    ),
    "falling": (
        "down = Constant<value_int=-1>() r = Range(s0, izero, down) f = Cast<to=1>(r) "
        "u = Unsqueeze(f, one) y = Add(x, u)"
    ),
    "falling_by_two_in_floats": (
        "down = Constant<value_float=-2.0>() m = Neg(s0) f = Cast<to=1>(s0) g = Cast<to=1>(m) "
        "r = Range(f, g, down) u = Unsqueeze(r, one) y = Add(x, u)"
    ),
    "last_as_many": "t = Concat<axis=1>(x, x) m = Neg(l) y = Slice(t, m, big, one)",
    "mask": "t = Concat<axis=0>(l, l) f = ConstantOfShape(t) y = Trilu<upper=1>(f)",
    "mean": "f = Cast<to=1>(s0) y = Div(x, f)",
    "flipped": "y = Slice(x, m1, low, one, m1)",
    "tiled": "h = Slice(x, zero, one, one) t = Concat<axis=0>(two, l, one) y = Tile(h, t)",
    "tiled_axes": "t = Concat<axis=0>(one, l, two) y = Tile(x, t)",
    "shifted": "t = Slice(x, one, big, one) p = Pad(t, below) y = Concat<axis=2>(p, x)",
    "before_the_first": (
        "b = Slice(sh, low, low, zero, m1) t = Concat<axis=0>(b, l, m1) y = Reshape(x, t)"
    ),
    "last_row": "g = Sub(s0, ione) y = Gather<axis=1>(x, g)",
}
"""Each computes `y` from `x`, a tensor of `n`, `s` and 6."""


def renamed(case: str, body: str) -> str:
    """The nodes of a case, with names of its own for what it computes."""
    shared = {"x", *CONSTANTS.split()}
    words = []
    for word in body.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split():
        is_own = word.isidentifier() and word.islower() and word not in shared
        words.append(f"{case}_{word}" if is_own and word not in ("axis", "to") else word)
    return " ".join(words)


def model(cases: Mapping[str, str]) -> onnx.ModelProto:
    outputs = ", ".join(f"{type_of(case)} {case}_y" for case in cases)
    bodies = " ".join(renamed(case, body) for case, body in cases.items())
    header = '<ir_version: 10, opset_import: ["" : 18]>'
    return parse_model(f"{header} g (float[n, s, 6] x) => ({outputs}) {{ {CONSTANTS} {bodies} }}")


def type_of(case: str) -> str:
    ranks = {"heads": 4, "merged": 2, "mask": 2, "last_row": 2}
    dims = ", ".join(f"{case}{axis}" for axis in range(ranks.get(case, 3)))
    return f"float[{dims}]"


def operators(graph: Graph) -> set[str]:
    return {node.op for node in graph.nodes if node.is_call}


def test_all_of_it_has_forms_in_relax() -> None:
    assert not {op for op in operators(from_onnx(model(CASES))) if op.startswith("onnx.")}


@pytest.fixture(scope="module", params=["native", "onnxruntime"])
def compiled(request: pytest.FixtureRequest) -> collage.Compiled:
    def price(kernel: CandidateKernel) -> float:
        return 1e-6 + 1e-7 * len(kernel.nodes)

    return collage.compile(model(CASES), [request.param], cost=price, race_seconds=0.01)


@pytest.mark.parametrize(("n", "s"), [(2, 3), (1, 4), (3, 2), (2, 7), (1, 1)])
def test_results_are_those_of_onnxruntime(compiled: collage.Compiled, n: int, s: int) -> None:
    x = np.random.default_rng(s).normal(size=(n, s, 6)).astype(np.float32)

    actual, expected = compiled.run({"x": x}), run_onnx(model(CASES), {"x": x})

    for name, right in expected.items():
        np.testing.assert_allclose(actual[name], right, rtol=1e-5, atol=1e-6, err_msg=name)


def test_nothing_is_compiled_for_an_empty_dimension(compiled: collage.Compiled) -> None:
    with pytest.raises(ExecutableError) as caught:
        compiled.run({"x": np.zeros((1, 0, 6), np.float32)})
    assert str(caught.value) == (
        "input `x` is float32[n, s, 6], and its dimension 1 is 0: it is at least 1, unless the "
        "model is compiled for the size 0"
    )


TABLE = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[n, s] x) => (float[n, s] y) <float[1, 4] table = {1.0, 2.0, 3.0, 4.0}>
{
    zero = Constant<value_ints=[0]>() one = Constant<value_ints=[1]>()
    sh = Shape(x) l = Gather(sh, one) t = Slice(table, zero, l, one) y = Add(x, t)
}
"""


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_a_table_that_is_too_short_is_noticed(target: str) -> None:
    made = collage.compile(
        parse_model(TABLE), [target], cost=lambda _: 1e-6, shapes={"x": (2, "s")}, inputs=x_of(3)
    )

    assert made.run(x_of(4))["y"].tolist() == [[1, 2, 3, 4]] * 2
    with pytest.raises(ExecutableError):
        made.run(x_of(5))


def x_of(size: int) -> dict[str, Any]:
    return {"x": np.zeros((2, size), np.float32)}


def test_what_is_not_known_stays_an_onnx_node() -> None:
    made = parse_model(
        """
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[n, s] x) => (float[a, b] y, float[c, d] z)
        {
            one = Constant<value_ints=[1]>() m1 = Constant<value_ints=[-1]>()
            two = Constant<value_ints=[2]>() m2 = Constant<value_ints=[-2]>()
            small = Constant<value_ints=[-9223372036854775807]>()
            y = Slice(x, m1, small, one, m2)
            sh = Shape(x) l = Gather(sh, one) k = Min(l, two) z, i = TopK<axis=1>(x, k)
        }
        """
    )

    graph = from_onnx(made)

    assert {"onnx.Slice", "onnx.TopK"} <= operators(graph)


@pytest.mark.parametrize("name", ["?", "-1", "None", ""])
def test_a_sign_for_a_dimension_that_is_not_known_is_no_name(name: str) -> None:
    """Exporters of Paddle write `?` for each of them."""
    made = parse_model(
        '<ir_version: 10, opset_import: ["" : 18]> g (float[n, m] x) => (float[n, m] y) {'
        "y = Relu (x) }"
    )
    for value in (made.graph.input[0], made.graph.output[0]):
        for dim in value.type.tensor_type.shape.dim:
            dim.dim_param = name
    compiled = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)

    assert compiled.run({"x": x})["y"].shape == (2, 3)


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_whether_a_size_is_a_number_is_found_as_the_model_runs(target: str) -> None:
    """TVM's importer says that `n` is not 1, since it is written otherwise."""
    made = parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[n, s] x) => (bool[2] y, bool[1] z, float[a, b] w) {
          sizes = Constant <value_ints = [1, 3]> () zero = Constant <value_ints = [0]> ()
          one = Constant <value_ints = [1]> () sh = Shape (x) first = Gather (sh, zero)
          y = Equal (sh, sizes) z = Equal (first, one) w = Relu (x)
        }"""
    )
    compiled = collage.compile(made, [target], cost=lambda _: 1e-6, race_seconds=0.01)

    for n, s in ((1, 3), (2, 3), (1, 2)):
        found = compiled.run({"x": np.zeros((n, s), np.float32)})
        assert found["y"].tolist() == [n == 1, s == 3]
        assert found["z"].tolist() == [n == 1]


def test_a_formula_may_have_a_number_below_0() -> None:
    """As `max(n // 2, -1)`, which convolutions in a row make."""
    symbols = {"n": tirx.Var("n", "int64")}

    formula = tirx.max(symbols["n"] // 2 - 3, tirx.IntImm("int64", -1)) + 1

    assert size_of(dim_of(formula), {"n": 2}) == 0
    assert dim_of(expr_of(dim_of(formula), symbols)) == dim_of(formula)
    assert symbols.keys() == {"n"}


def test_a_size_that_a_window_needs_is_divided() -> None:
    """A division of integers is one towards zero, but 3 and more are left, for the window fits."""
    made = parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[n, 1, s, 4] x) => (float[n, k, 4] y)
        <int64[1] at = {2}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}> {
          sh = Shape(x) l = Gather(sh, at) a = Sub(l, three) b = Div(a, two) k = Add(b, one)
          four = Constant<value_ints=[4]>() zero = Constant<value_ints=[0]>() n = Gather(sh, zero)
          t = Concat<axis=0>(n, k, four) p = MaxPool<kernel_shape=[3, 1], strides=[2, 1]>(x)
          y = Reshape<allowzero=1>(p, t)
        }"""
    )
    compiled = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)

    for size in (3, 4, 9):
        x = np.random.default_rng(size).normal(size=(2, 1, size, 4)).astype(np.float32)
        np.testing.assert_array_equal(compiled.run({"x": x})["y"], run_onnx(made, {"x": x})["y"])
    with pytest.raises(ExecutableError, match="needs "):
        compiled.run({"x": np.zeros((2, 1, 2, 4), np.float32)})


def test_a_slice_of_what_windows_give_has_the_size_of_their_input() -> None:
    """The slice has elements for each size that the first window takes."""
    made = parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[n, 4, s] x) => (float[n, 4, k] y)
        <int64[1] zero = {0}, int64[1] end = {-1}, int64[1] axis = {2}> {
          a = AveragePool<kernel_shape=[10], strides=[5]>(x)
          b = MaxPool<kernel_shape=[4], pads=[2, 2]>(a)
          c = Slice(b, zero, end, axis) d = Add(a, c) y = Softmax(d)
        }"""
    )

    assert not {op for op in operators(from_onnx(made)) if op.startswith("onnx.")}

    compiled = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)
    for size in (10, 14, 33):
        x = np.random.default_rng(size).normal(size=(2, 4, size)).astype(np.float32)
        right = run_onnx(made, {"x": x})["y"]
        np.testing.assert_allclose(compiled.run({"x": x})["y"], right, rtol=1e-5)


def test_a_model_may_take_batches_of_one_only_although_it_names_them() -> None:
    made = parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[b, s, 4] x) => (float[s, 4] y) <int64[1] at = {1}, int64[1] four = {4}> {
          sh = Shape(x) s = Gather(sh, at) t = Concat<axis=0>(s, four) y = Reshape(x, t)
        }"""
    )
    compiled = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)

    x = np.random.default_rng(0).normal(size=(1, 5, 4)).astype(np.float32)
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], x[0])
    with pytest.raises(ExecutableError, match="`b` of input `x` is 2"):
        compiled.run({"x": np.zeros((2, 5, 4), np.float32)})


def test_axes_whose_sizes_are_formulas_are_joined_in_a_kernel() -> None:
    """As in a lookup of correlations: TVM made no code of a sum before the reshape."""
    made = parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[b, 2, h, w] x) => (float[b, k, l, 2] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] nine = {9}> {
          p = MaxPool<kernel_shape=[1, 1], strides=[4, 4]>(x) t = Transpose<perm=[0, 2, 3, 1]>(p)
          u = Unsqueeze(t, one) s = Shape(u) b = Gather(s, zero) h = Gather(s, two)
          three = Constant<value_ints=[3]>() w = Gather(s, three) n = Mul(h, nine)
          places = Constant<value_floats=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]>()
          shape = Constant<value_ints=[1, 9, 1, 1, 1]>() at = Reshape(places, shape)
          scales = Constant<value_floats=[3.0, 5.0]>() a = Add(u, at) d = Div(a, scales)
          c = Concat<axis=0>(b, n, w, two) y = Reshape(d, c)
        }"""
    )
    compiled = collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)

    for height, width in ((1, 4), (9, 6)):
        inputs = {"x": np.random.default_rng(0).normal(size=(2, 2, height, width))}
        inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
        right = run_onnx(made, inputs)["y"]
        np.testing.assert_allclose(compiled.run(inputs)["y"], right, rtol=1e-6)


# ---- Slices of a dimension with a name ----


def slice_to(end: int) -> onnx.ModelProto:
    """Takes the elements before `end` of `n`, and turns them."""
    return parse_model(
        f"""<ir_version: 10, opset_import: ["" : 18]>
        g (float[n, 1000] x) => (float[1000, k] y)
        <int64[1] zero = {{0}}, int64[1] last = {{{end}}}> {{
          r = Relu(x) s = Slice(r, zero, last) e = Exp(s) y = Transpose<perm = [1, 0]>(e)
        }}"""
    )


def test_the_number_that_tf2onnx_writes_for_the_end_is_the_end() -> None:
    graph = from_onnx(slice_to(1_000_000_000))

    assert operators(graph) == {"nn.relu", "exp", "permute_dims"}


def test_a_slice_from_the_first_element_begins_at_0() -> None:
    graph = from_onnx(slice_to(5))

    assert "min(0" not in collage.format_graph(graph)


def test_a_slice_takes_no_more_memory_than_it_has_elements() -> None:
    """TVM allocates 3.6e+12 bytes for the largest size that the slice may have."""

    def alone(kernel: CandidateKernel) -> float:
        return 1e-6 * len(kernel.nodes) ** 2

    made = collage.compile(slice_to(900_000_000), ["native"], cost=alone, race_seconds=0.01)
    x = np.random.default_rng(0).normal(size=(3, 1000)).astype(np.float32)

    np.testing.assert_allclose(made.run({"x": x})["y"], np.exp(np.maximum(x, 0)).T, rtol=1e-5)


# ---- Functions ----


@pytest.mark.parametrize(
    ("node", "found"),
    [
        ("y = Celu<alpha=2.0>(x)", "nn.relu"),
        ("y = Swish(x)", "sigmoid"),
        ("y = Attention<q_num_heads=2, kv_num_heads=2, softcap=9.0>(x, x, x)", "onnx.Attention"),
    ],
)
def test_a_small_function_is_what_it_is_made_of(node: str, found: str) -> None:
    made = parse_model(
        '<ir_version: 10, opset_import: ["" : 24]>'
        f" g (float[2, 5, 8] x) => (float[2, 5, 8] y) {{ {node} }}"
    )

    assert found in operators(from_onnx(made))


def test_a_slice_of_a_known_size_ends_where_it_says() -> None:
    """Also beyond the number that tf2onnx writes for the end of a size that is not known."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18]> g (float[n, 2000000000] x) => (float[a, b] y)
        <int64[2] starts = {1, 0}, int64[2] ends = {1000000000, 1500000000}> {
          y = Slice (x, starts, ends)
        }"""
    )

    graph = from_onnx(model)

    assert graph.nodes[graph.outputs[0]].tensor.shape == ("n - 1", 1_500_000_000)


JOINED = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[1, 2, h, w] x) => (float[a, b, c, d] y)
<float[4] scales = {1.0, 1.0, 2.0, 2.0}>
{
    p = AveragePool<kernel_shape=[1, 1], strides=[2, 2]>(x)
    r = Resize<mode="nearest", coordinate_transformation_mode="asymmetric",
        nearest_mode="floor">(p, , scales)
    y = Concat<axis=1>(r, x)
}
"""


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
def test_tensors_that_are_joined_have_the_same_sizes(target: str) -> None:
    """As in detectors: an image that was made smaller and enlarged again, beside the image."""
    made = collage.compile(parse_model(JOINED), [target], cost=lambda _: 1e-6, race_seconds=0.01)
    inputs = {"x": np.random.default_rng(0).normal(size=(1, 2, 6, 4)).astype(np.float32)}

    assert not {op for op in operators(from_onnx(parse_model(JOINED))) if op.startswith("onnx.")}
    right = run_onnx(parse_model(JOINED), inputs)
    np.testing.assert_allclose(made.run(inputs)["y"], right["y"], rtol=1e-5, atol=1e-6)
    for shape in ((1, 2, 5, 4), (1, 2, 6, 3)):
        with pytest.raises(ExecutableError, match="needs"):
            made.run({"x": np.zeros(shape, np.float32)})


def test_names_of_joined_dimensions_are_one_size() -> None:
    text = """<ir_version: 10, opset_import: ["" : 18]>
    g (float[1, h, 4] x, float[1, k, 4] z) => (float[a, b, c] y) { y = Concat<axis=2>(x, z) }"""

    graph = from_onnx(parse_model(text))

    assert [node.op for node in graph.nodes if node.is_call] == ["concat"]
    shapes = [node.type.shape for node in graph.nodes if isinstance(node.type, TensorType)]
    assert shapes == [(1, "h", 4), (1, "h", 4), (1, "h", 8)]


def test_joined_dimensions_in_a_branch_are_checked_by_onnxruntime() -> None:
    """Two dimensions of a tensor there may be exchanged: only their product would be checked."""
    inner = JOINED[JOINED.index("p = ") : JOINED.rindex("}")].replace("y = Concat", "j = Concat")
    text = JOINED[: JOINED.index("p = ")] + (
        "yes = Constant<value = bool {1}>() "
        f"y = If(yes)<then_branch = a () => (float[b0, b1, b2, b3] j) {{ {inner} }}, "
        "else_branch = b () => (float[c0, c1, c2, c3] x2) { x2 = Identity(x) }> }"
    )

    graph = from_onnx(parse_model(text))

    assert "onnx.Concat" in operators(graph)


def test_a_mask_as_long_as_a_text_and_its_past_needs_no_inputs() -> None:
    """Its elements are taken at places that the sizes of the others give."""
    made = parse_model(
        """<ir_version: 10, opset_import: ["" : 18]>
        g (float[1, text, 4] x, float[1, past, 4] p, float[total] mask) => (float[1, k, 4] y)
        <int64 zero = {0}, int64 one = {1}, int64[1] axis = {1}> {
          c = Concat<axis = 1>(p, x) s = Shape<start = 1, end = 2>(c) l = Squeeze(s)
          r = Range(zero, l, one) m = Gather(mask, r) u = Unsqueeze(m, axis) y = Add(c, u)
        }"""
    )

    collage.compile(made, ["native"], cost=lambda _: 1e-6, race_seconds=0.01)
