"""ONNX models come in canonical form, and compute what they did."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm import relax

import collage_dsl as collage
from collage_dsl.exact_products import exact
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.frontend.reference import reference_session
from collage_dsl.frontend.to_relax import to_relax
from collage_dsl.graph import Form, Graph, TensorType, members
from collage_dsl.realization.lower import build

Array = np.ndarray[Any, np.dtype[Any]]

RANDOM = np.random.default_rng(0)


def weights(*shape: int) -> Array:
    return RANDOM.uniform(-1, 1, shape).astype(np.float32)


def positive(*shape: int) -> Array:
    return RANDOM.uniform(0.5, 1.5, shape).astype(np.float32)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None,
    opset: int = 13,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(a, name) for name, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def node(op: str, inputs: str, outputs: str, **attrs: Any) -> onnx.NodeProto:
    given, made = inputs.split(), outputs.split()
    return helper.make_node(op, given, made, name=f"{op}_{made[0]}", **attrs)


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    nodes = [graph.nodes[i] for i in members(graph.parameters)]
    return {n.name: random.standard_normal(n.tensor.static_shape, np.float32) for n in nodes}


def run_onnx(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # else each session has threads, which wait busily
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(exact(model).SerializeToString(), options)
    return [np.asarray(value) for value in session.run(None, dict(inputs))]


def run_graph(graph: Graph, inputs: Mapping[str, Array]) -> list[Array]:
    machine = relax.VirtualMachine(build(to_relax(graph)), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(value) for value in inputs.values()))
    values = result if graph.returns_tuple else [result]
    return [value.numpy() for value in values]


def largest_error(model: onnx.ModelProto, graph: Graph) -> float:
    """The largest difference to onnxruntime, relative to the largest output."""
    inputs = random_inputs(graph)
    pairs = zip(run_onnx(model, inputs), run_graph(graph, inputs), strict=True)
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs)


def imported(model: onnx.ModelProto) -> Graph:
    """The graph of a model, checked to compute the same."""
    graph = from_onnx(model)
    assert largest_error(model, graph) < 1e-5
    return graph


def operators(graph: Graph) -> tuple[str, ...]:
    return graph.operators(graph.calls)


def shape(graph: Graph, name: str) -> tuple[Any, ...] | None:
    type_ = graph.nodes[graph.index(name)].type
    assert isinstance(type_, TensorType)
    return type_.shape


def batch_norm(name: str, channels: int) -> tuple[str, dict[str, Array]]:
    """The names of the parameters of a batch norm, and their values."""
    constants = {
        f"{name}_scale": positive(channels),
        f"{name}_bias": weights(channels),
        f"{name}_mean": weights(channels),
        f"{name}_var": positive(channels),
    }
    return " ".join(constants), constants


# Batch norm, and other scales and shifts


@pytest.mark.parametrize(
    ("made", "call"),
    [
        (node("LeakyRelu", "x", "y", alpha=0.1), "nn.leakyrelu(x) [alpha == 0.1]"),
        (node("RandomNormalLike", "x", "y", scale=0.3), "onnx.RandomNormalLike(x) [scale == 0.3]"),
        (node("LeakyRelu", "x", "y", alpha=1 / 3), "nn.leakyrelu(x) [alpha ~= 0.333333]"),
    ],
)
def test_an_attribute_is_the_number_that_was_written(made: onnx.NodeProto, call: str) -> None:
    graph = from_onnx(model([made], {"x": (2, 3)}, ["y"]))
    text = f"""collage 1;
        pattern p(x) {{ y = {call}; yield y; }}
        target lib on llvm {{ compiler "lib"; rules dfpattern(p); }}
        """

    assert len(collage.propose(graph, collage.load(text=text)["lib"])) == 1


def test_a_batch_norm_after_a_convolution_goes_into_its_weight_and_bias() -> None:
    names, constants = batch_norm("bn", 4)
    graph = imported(
        model(
            [
                node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
                node("BatchNormalization", f"c {names}", "y", epsilon=1e-3),
            ],
            {"x": (1, 3, 8, 8)},
            ["y"],
            {"w": weights(4, 3, 3, 3), **constants},
        )
    )

    assert operators(graph) == ("nn.conv2d", "add")
    assert [graph.nodes[i].name for i in members(graph.calls)] == ["y.conv2d", "y"]
    assert shape(graph, "y.bias") == (1, 4, 1, 1)


def test_a_batch_norm_after_nothing_foldable_is_a_multiplication_and_an_addition() -> None:
    names, constants = batch_norm("bn", 3)
    graph = imported(
        model(
            [
                node("Relu", "x", "r"),
                node("BatchNormalization", f"r {names}", "y"),
            ],
            {"x": (1, 3, 4, 4)},
            ["y"],
            constants,
        )
    )

    assert operators(graph) == ("nn.relu", "multiply", "add")
    assert shape(graph, "y.scale") == shape(graph, "y.shift") == (1, 3, 1, 1)


def test_a_convolution_with_two_users_keeps_its_own_weights() -> None:
    names, constants = batch_norm("bn", 4)
    graph = imported(
        model(
            [
                node("Conv", "x w", "c"),
                node("BatchNormalization", f"c {names}", "n"),
                node("Relu", "c", "r"),
                node("Add", "n r", "y"),
            ],
            {"x": (1, 3, 4, 4)},
            ["y"],
            {"w": weights(4, 3, 1, 1), **constants},
        )
    )

    assert sorted(operators(graph)) == ["add", "add", "multiply", "nn.conv2d", "nn.relu"]


def test_a_chain_of_scales_and_shifts_is_one_scale_and_one_shift() -> None:
    names, constants = batch_norm("bn", 3)
    graph = imported(
        model(
            [
                node("MaxPool", "x", "p", kernel_shape=[2, 2]),
                node("BatchNormalization", f"p {names}", "n"),
                node("Unsqueeze", "m axes", "m3"),
                node("Mul", "n m3", "s"),
                node("Add", "a s", "t"),
                node("Sub", "t a", "u"),
                node("Div", "u two", "y"),
            ],
            {"x": (1, 3, 4, 4)},
            ["y"],
            {
                "m": positive(3),
                "axes": np.array([1, 2]),
                "a": weights(1, 3, 1, 1),
                "two": np.array(2, np.float32),
                **constants,
            },
        )
    )

    assert operators(graph) == ("nn.max_pool2d", "multiply", "add")


def test_a_chain_of_scales_and_shifts_goes_into_the_convolution_before_it() -> None:
    graph = imported(
        model(
            [
                node("Conv", "x w b", "c", group=3),
                node("Mul", "c m", "s"),
                node("Add", "s a", "t"),
                node("Relu", "t", "y"),
            ],
            {"x": (1, 3, 4, 4)},
            ["y"],
            {
                "w": weights(6, 1, 3, 3),
                "b": weights(6),
                "m": positive(6, 1, 1),
                "a": weights(1, 6, 1, 1),
            },
        )
    )

    assert operators(graph) == ("nn.conv2d", "add", "nn.relu")


HEAD = '<ir_version: 9, opset_import: ["" : 15]> g (float16[1,2] x) => (float16[1,2] y) '


def of_short(nodes: str, x: list[float], **constants: Any) -> tuple[Graph, Array]:
    """The graph of a model of one float16 vector of channels, checked to compute the same."""
    kept = {name: np.array(values, np.float16) for name, values in constants.items()}
    made = onnx.parser.parse_model(HEAD + nodes)
    made.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in kept.items())
    inputs, graph = {"x": np.array([x], np.float16)}, from_onnx(made)
    (right,), (found,) = run_onnx(made, inputs), run_graph(graph, inputs)
    np.testing.assert_allclose(found, right, rtol=5e-3)
    return graph, found


@pytest.mark.parametrize(("scale", "x"), [(300.0, 0.01), (0.001, 1000.0)])
def test_scales_are_not_joined_to_one_that_the_dtype_lacks(scale: float, x: float) -> None:
    graph, _ = of_short("{ t = Mul(x, a) y = Mul(t, a) }", [x, 2 * x], a=[scale])

    assert operators(graph) == ("multiply", "multiply")


def test_a_product_is_not_scaled_to_a_weight_that_the_dtype_lacks() -> None:
    weight = np.array([[300, 200], [100, 250]], np.float16)

    graph, _ = of_short("{ y = Gemm <alpha = 300.0> (x, w) }", [1e-3, 2e-3], w=weight.tolist())

    assert set(operators(graph)) == {"matmul", "multiply"}


def test_a_batch_norm_whose_shift_the_dtype_lacks_takes_off_the_mean_first() -> None:
    graph, found = of_short(
        "{ y = BatchNormalization(x, scale, shift, mean, variance) }",
        [1000.0, 1001.0],
        scale=[1.0, 1.0],
        shift=[0.0, 0.5],
        mean=[1000.0, 999.0],
        variance=[1e-4, 1e-4],
    )

    assert operators(graph) == ("add", "multiply", "add")
    assert np.isfinite(found).all()


def test_a_scale_along_another_axis_stays_as_it_is() -> None:
    graph = imported(
        model(
            [node("Conv", "x w", "c"), node("Mul", "c m", "s"), node("Add", "s a", "y")],
            {"x": (1, 3, 4, 4)},
            ["y"],
            {"w": weights(6, 3, 1, 1), "m": positive(1, 1, 1, 4), "a": weights(1, 1, 4, 1)},
        )
    )

    assert operators(graph) == ("nn.conv2d", "multiply", "add")


def test_a_constant_of_higher_rank_is_not_a_scale() -> None:
    graph = imported(
        model([node("Mul", "x m", "y")], {"x": (3, 4)}, ["y"], {"m": positive(1, 2, 1, 1)})
    )

    assert operators(graph) == ("multiply",)
    assert shape(graph, "y") == (1, 2, 3, 4)


# Convolutions and matrix products


def test_the_bias_of_a_convolution_is_an_addition_of_its_rank() -> None:
    graph = imported(
        model(
            [node("Conv", "x w b", "y", strides=[2, 2], dilations=[2, 2])],
            {"x": (1, 3, 9, 9)},
            ["y"],
            {"w": weights(4, 3, 3, 3), "b": weights(4)},
        )
    )

    assert operators(graph) == ("nn.conv2d", "add")
    assert shape(graph, "y.bias") == (1, 4, 1, 1)
    assert graph.nodes[graph.index("w")].form is Form.CONSTANT


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("op", ["Conv", "MaxPool", "AveragePool"])
def test_automatic_padding_becomes_explicit(op: str, mode: str) -> None:
    inputs, attrs = ("x w", {}) if op == "Conv" else ("x", {"kernel_shape": [4, 3]})
    graph = imported(
        model(
            [node(op, inputs, "y", auto_pad=mode, strides=[2, 1], **attrs)],
            {"x": (1, 3, 9, 9)},
            ["y"],
            {"w": weights(4, 3, 4, 3)} if op == "Conv" else {},
        )
    )

    assert len(operators(graph)) == 1


@pytest.mark.parametrize("rank", [3, 5])
def test_convolutions_of_other_ranks_are_imported(rank: int) -> None:
    graph = imported(
        model(
            [node("Conv", "x w b", "y")],
            {"x": (1, 3, *(6,) * (rank - 2))},
            ["y"],
            {"w": weights(4, 3, *(3,) * (rank - 2)), "b": weights(4)},
        )
    )

    assert operators(graph) == (f"nn.conv{rank - 2}d", "add")


def test_a_convolution_with_a_computed_weight_is_imported() -> None:
    graph = imported(
        model(
            [node("Relu", "v", "w"), node("Conv", "x w b", "y")],
            {"x": (1, 3, 4, 4), "v": (4, 3, 1, 1)},
            ["y"],
            {"b": weights(4)},
        )
    )

    assert operators(graph) == ("nn.relu", "nn.conv2d", "add")


@pytest.mark.parametrize("attrs", [{}, {"transB": 1}, {"transB": 1, "alpha": 0.5, "beta": 3.0}])
def test_a_gemm_is_a_product_and_an_addition(attrs: dict[str, Any]) -> None:
    graph = imported(
        model(
            [node("Gemm", "x w b", "y", **attrs)],
            {"x": (2, 5)},
            ["y"],
            {"w": weights(7, 5) if attrs else weights(5, 7), "b": weights(7)},
        )
    )

    assert operators(graph) == ("matmul", "add")
    assert shape(graph, "y.bias") == (7,)


@pytest.mark.parametrize("addend", [(2, 7), (2, 1), (1, 7), (1,), ()])
def test_a_gemm_adds_what_broadcasts(addend: tuple[int, ...]) -> None:
    graph = imported(
        model(
            [node("Gemm", "x w b", "y", transA=1, alpha=2.0, beta=0.5)],
            {"x": (5, 2)},
            ["y"],
            {"w": weights(5, 7), "b": weights(*addend)},
        )
    )

    assert operators(graph)[:2] == ("permute_dims", "matmul")


def test_a_gemm_of_two_inputs_is_imported() -> None:
    imported(
        model(
            [node("Gemm", "x v c", "y", transB=1, alpha=2.0, beta=0.5)],
            {"x": (2, 5), "v": (7, 5), "c": (7,)},
            ["y"],
        )
    )


@pytest.mark.parametrize("name", ["y.weight", "y.bias"])
def test_a_weight_that_is_computed_is_no_constant_of_the_same_name(name: str) -> None:
    """As a layer `y` of PyTorch has `y.weight`, which another node may take too."""
    nodes = [
        node("Gemm", "x w b", "t"),
        node("Mul", "t two", "y"),
        node("Max", f"y {name}", "z"),
    ]
    constants = {
        "w": weights(4, 5),
        "b": weights(5),
        "two": np.array([2], np.float32),
        name: {"y.weight": weights(4, 5), "y.bias": weights(5)}[name],
    }

    imported(model(nodes, {"x": (4, 4)}, ["y", "z"], constants))


def test_a_scale_goes_into_the_matrix_before_it() -> None:
    graph = imported(
        model(
            [
                node("MatMul", "x w", "p"),
                node("Add", "b p", "s"),
                node("Mul", "s eighth", "y"),
            ],
            {"x": (2, 3, 5)},
            ["y"],
            {"w": weights(5, 7), "b": weights(7), "eighth": np.array(0.125, np.float32)},
        )
    )

    assert operators(graph) == ("matmul", "add")
    assert shape(graph, "y.bias") == (7,)


# Single operators


def test_a_sum_of_three_is_two_additions() -> None:
    graph = imported(
        model([node("Sum", "a b c", "y")], {"a": (2, 3), "b": (2, 3), "c": (1, 3)}, ["y"])
    )

    assert operators(graph) == ("add", "add")
    assert [graph.nodes[i].name for i in members(graph.calls)] == ["y.add", "y"]


@pytest.mark.parametrize("opset", [7, 13])
@pytest.mark.parametrize(
    ("low", "high", "op"),
    [(0.0, 6.0, "clip"), (-0.5, None, "maximum"), (None, 0.5, "minimum"), (0.0, None, "nn.relu")],
)
def test_a_clip_by_constants_is_one_operator(
    opset: int, low: float | None, high: float | None, op: str
) -> None:
    bounds = {"min": low, "max": high}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    if opset < 11:
        clip, constants = node("Clip", "x", "y", **given), {}
    else:
        names = ["x", *(name if name in given else "" for name in bounds)]
        clip = helper.make_node("Clip", names, ["y"])
        constants = {name: np.array(bound, np.float32) for name, bound in given.items()}
    graph = imported(model([clip], {"x": (4, 50)}, ["y"], constants, opset))

    assert operators(graph) == (op,)


@pytest.mark.parametrize(("low", "high"), [(np.nan, 0.5), (-0.5, np.nan), (np.nan, np.nan)])
def test_a_bound_of_a_clip_that_is_not_a_number_is_none(low: float, high: float) -> None:
    bounds = {"low": np.array(low, np.float32), "high": np.array(high, np.float32)}

    graph = imported(model([node("Clip", "x low high", "y")], {"x": (4,)}, ["y"], bounds))

    assert len(operators(graph)) <= 1


def test_the_bounds_of_a_clip_are_literals() -> None:
    graph = from_onnx(model([node("Clip", "x", "y", min=0.0, max=6.0)], {"x": (4,)}, ["y"], {}, 7))

    assert [graph.nodes[i].value for i in members(graph.literals)] == [0.0, 6.0]


def test_dropout_and_identity_are_gone() -> None:
    graph = imported(
        model(
            [
                node("Identity", "x", "i"),
                node("Dropout", "i", "d mask"),
                node("Relu", "d", "r"),
                node("Identity", "r", "y"),
            ],
            {"x": (2, 3)},
            ["y"],
        )
    )

    assert operators(graph) == ("nn.relu",)
    assert [graph.nodes[i].name for i in graph.outputs] == ["y"]


def test_a_batch_norm_is_folded_through_an_identity() -> None:
    names, constants = batch_norm("bn", 4)
    graph = imported(
        model(
            [
                node("Conv", "x w", "c"),
                node("Identity", "c", "i"),
                node("BatchNormalization", f"i {names}", "y"),
            ],
            {"x": (1, 3, 4, 4)},
            ["y"],
            {"w": weights(4, 3, 1, 1), **constants},
        )
    )

    assert operators(graph) == ("nn.conv2d", "add")


def test_arithmetic_on_static_shapes_is_folded() -> None:
    graph = imported(
        model(
            [
                node("Relu", "x", "r"),
                node("Shape", "r", "s"),
                node("Gather", "s zero", "n", axis=0),
                node("Unsqueeze", "n axes", "n1"),
                node("Concat", "n1 minus", "t", axis=0),
                node("Reshape", "r t", "y"),
            ],
            {"x": (2, 3, 4)},
            ["y"],
            {"zero": np.array(0), "axes": np.array([0]), "minus": np.array([-1])},
        )
    )

    assert operators(graph) == ("nn.relu", "reshape")
    assert [graph.nodes[i].value for i in members(graph.literals)] == [(2, 12)]


def test_a_constant_range_of_floats_has_the_last_digits_of_onnxruntime() -> None:
    numbers = {
        name: np.array(each, np.float32) for name, each in zip("abc", (0, 1, 0.1), strict=True)
    }
    nodes = [node("Range", "a b c", "r"), node("Max", "x r", "y")]
    given = model(nodes, {"x": (10,)}, ["y"], numbers)
    least = {"x": np.full(10, -1, np.float32)}

    np.testing.assert_array_equal(run_graph(from_onnx(given), least), run_onnx(given, least))


def test_a_reshape_to_the_same_shape_is_gone() -> None:
    graph = imported(
        model(
            [node("Relu", "x", "r"), node("Reshape", "r s", "y")],
            {"x": (2, 3)},
            ["y"],
            {"s": np.array([2, 3])},
        )
    )

    assert operators(graph) == ("nn.relu",)


def test_a_reshape_may_copy_and_infer_dimensions() -> None:
    graph = imported(
        model([node("Reshape", "x s", "y")], {"x": (2, 3, 4)}, ["y"], {"s": np.array([0, -1])})
    )

    assert shape(graph, "y") == (2, 12)


def test_a_global_average_pool_is_a_mean() -> None:
    graph = imported(model([node("GlobalAveragePool", "x", "y")], {"x": (1, 3, 4, 5)}, ["y"]))

    assert operators(graph) == ("mean",)
    assert graph.nodes[graph.index("y")].attrs == {"axis": (2, 3), "keepdims": True}


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax"])
@pytest.mark.parametrize(
    ("opset", "dims", "attrs", "expected"),
    [
        (13, (2, 3, 4), {"axis": 1}, 1),
        (13, (2, 3, 4), {}, 1),
        (11, (2, 30), {}, 1),
        (11, (2, 30, 1, 1), {}, 1),
        (11, (2, 3, 4), {"axis": -1}, 1),
        (11, (2, 3, 4), {}, 3),
    ],
)
def test_a_softmax_means_what_its_operator_set_says(
    op: str, opset: int, dims: tuple[int, ...], attrs: dict[str, int], expected: int
) -> None:
    graph = imported(model([node(op, "x", "y", **attrs)], {"x": dims}, ["y"], opset=opset))

    assert len(operators(graph)) == expected


@pytest.mark.parametrize("size", [3, 5])
def test_a_local_response_norm_is_six_operators(size: int) -> None:
    graph = imported(
        model(
            [node("LRN", "x", "y", size=size, alpha=0.5, beta=0.6, bias=1.5)],
            {"x": (2, 7, 4, 5)},
            ["y"],
        )
    )

    assert len(operators(graph)) == 6


@pytest.mark.parametrize("padded", [0, 1])
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_pools_round_up_where_they_say_so(op: str, padded: int) -> None:
    attrs = {"count_include_pad": padded} if op == "AveragePool" else {}
    pads = [1, 1, 1, 1] if op == "MaxPool" or padded == 0 else [0, 0, 0, 0]
    graph = imported(
        model(
            [
                node(
                    op,
                    "x",
                    "y",
                    kernel_shape=[3, 3],
                    strides=[2, 2],
                    ceil_mode=1,
                    pads=pads,
                    **attrs,
                )
            ],
            {"x": (1, 3, 8, 8)},
            ["y"],
        )
    )

    assert len(operators(graph)) == 1


@pytest.mark.parametrize(
    "attrs", [{}, {"pads": [1, 2, 2, 1]}, {"dilations": [3, 2], "strides": [120, 20]}]
)
@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
def test_a_window_larger_than_an_image_pools_all_of_it_where_sizes_are_rounded_up(
    op: str, attrs: dict[str, Any]
) -> None:
    size: dict[str, Any] = {"kernel_shape": [40, 9], "strides": [40, 20], "ceil_mode": 1}
    counted = [{}] if op == "MaxPool" else [{}, {"count_include_pad": 1}]
    for each in counted:
        pooled = node(op, "x", "y", **{**size, **attrs, **each})
        graph = imported(model([pooled], {"x": (1, 3, 7, 5)}, ["y"], opset=19))

        assert len(operators(graph)) == 1


def test_products_of_the_same_integers_have_operators_of_their_own() -> None:
    """So a kernel may have them inside, and compute with bytes."""
    random = np.random.default_rng(0)
    constants = {f"w{i}": random.integers(-128, 128, (8, 5), np.int8) for i in range(3)}
    constants |= {"z1": np.array(3, np.int8), "z2": np.arange(5, dtype=np.int8)}
    graph = imported(
        model(
            [
                node("DynamicQuantizeLinear", "x", "q s z"),
                node("MatMulInteger", "q w0 z", "y0"),
                node("MatMulInteger", "q w1 z z1", "y1"),
                node("MatMulInteger", "q w2 z z2", "y2"),
            ],
            {"x": (4, 8)},
            ["y0", "y1", "y2"],
            constants,
        )
    )

    products = [n for n in graph.nodes if n.op == "matmul"]
    assert len({n.inputs[0] for n in products}) == 3
    weights = [graph.nodes[n.inputs[1]] for n in products]
    assert [n.op for n in weights] == ["astype", "subtract", "subtract"]
    (weight,) = (graph.nodes[i] for i in weights[0].inputs)
    assert (weight.form, weight.tensor.dtype) == (Form.CONSTANT, "int8")


def test_a_zero_point_is_taken_off_from_a_constant_weight_that_stays_bytes() -> None:
    weight = np.arange(40, dtype=np.uint8).reshape(8, 5) + 100
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"),
        node("MatMulInteger", "q w z b", "y"),
    ]
    constants = {"w": weight, "b": np.array(128, np.uint8)}
    graph = imported(model(nodes, {"x": (4, 8)}, ["y"], constants))

    (product,) = (n for n in graph.nodes if n.op == "matmul")
    widened = graph.nodes[product.inputs[1]]
    (moved,) = (graph.nodes[i] for i in widened.inputs)
    assert (widened.op, moved.form, moved.tensor.dtype) == ("astype", Form.CONSTANT, "int8")


def test_products_of_the_same_dequantized_numbers_dequantize_them_themselves() -> None:
    random = np.random.default_rng(0)
    constants = {f"w{i}": random.integers(-128, 128, (8, 5), np.int8) for i in range(2)}
    constants |= {"s": np.array(0.02, np.float32), "z": np.array(9, np.uint8)}
    constants |= {"t": np.array(0.01, np.float32), "zero": np.array(0, np.int8)}
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d")]
    for i in range(2):
        nodes.append(node("DequantizeLinear", f"w{i} t zero", f"v{i}"))
        nodes.append(node("MatMul", f"d v{i}", f"y{i}"))
    nodes.append(node("Relu", "d", "r"))
    graph = imported(model(nodes, {"x": (4, 8)}, ["y0", "y1", "r"], constants))

    taken = [n.inputs[0] for n in graph.nodes if n.op in ("matmul", "nn.relu")]
    assert len(set(taken)) == 3
    assert all(graph.nodes[index].op == "dequantize" for index in taken)


@pytest.mark.parametrize("zero", [0, 7])
@pytest.mark.parametrize("dims", [(), (1,)])
def test_a_product_of_integers_may_have_a_constant_zero_point(
    zero: int, dims: tuple[int, ...]
) -> None:
    constants = {"w": np.arange(40, dtype=np.int8).reshape(8, 5)}
    constants |= {"s": np.array(0.02, np.float32), "q0": np.array(9, np.uint8)}
    imported(
        model(
            [
                node("QuantizeLinear", "x s q0", "q"),
                node("MatMulInteger", "q w z", "y"),
            ],
            {"x": (4, 8)},
            ["y"],
            {**constants, "z": np.full(dims, zero, np.uint8)},
        )
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_a_padding_is_one_operator(mode: str) -> None:
    graph = imported(
        model(
            [node("Pad", "x pads value", "y", mode=mode)],
            {"x": (2, 3, 5)},
            ["y"],
            {"pads": np.array([0, 1, 2, 0, 0, 1]), "value": np.array(0.5, np.float32)},
        )
    )

    assert operators(graph) == ("nn.pad",)


def test_a_padding_may_name_its_axes() -> None:
    graph = imported(
        model(
            [node("Pad", "x pads value axes", "y")],
            {"x": (2, 3, 5)},
            ["y"],
            {
                "pads": np.array([1, 2]),
                "value": np.array(0.5, np.float32),
                "axes": np.array([-1]),
            },
            opset=18,
        )
    )

    assert shape(graph, "y") == (2, 3, 8)


def test_the_parts_of_a_split_have_their_names() -> None:
    graph = imported(
        model(
            [node("Split", "x sizes", "a b", axis=1), node("Concat", "b a", "y", axis=1)],
            {"x": (2, 6)},
            ["y"],
            {"sizes": np.array([2, 4])},
        )
    )

    assert operators(graph) == ("split", "concat")
    assert graph.nodes[graph.index("a")].form is Form.PROJECTION


# Names, inputs and outputs


def test_a_node_is_named_after_the_value_that_it_computes() -> None:
    graph = imported(
        model(
            [
                node("Conv", "scope/x:0 scope/w:0", "scope/c:0"),
                node("Relu", "scope/c:0", "scope/c.1"),
                node("Relu", "scope/c.1", "1"),
            ],
            {"scope/x:0": (1, 3, 4, 4)},
            ["1"],
            {"scope/w:0": weights(4, 3, 1, 1)},
        )
    )

    assert [n.name for n in graph.nodes] == [
        "scope/x:0",
        "scope/w:0",
        "scope/c:0",
        "scope/c.1",
        "1",
    ]


def test_nodes_that_no_output_needs_are_dropped() -> None:
    graph = imported(
        model(
            [node("Relu", "x", "y"), node("Sigmoid", "y", "u"), node("Shape", "u", "s")],
            {"x": (2, 3)},
            ["y"],
        )
    )

    assert operators(graph) == ("nn.relu",)


def test_a_model_may_have_several_outputs_and_return_its_input() -> None:
    graph = imported(
        model(
            [node("Relu", "x", "a"), node("Sigmoid", "a", "b"), node("Identity", "x", "c")],
            {"x": (2, 3)},
            ["b", "a", "c"],
        )
    )

    assert [graph.nodes[i].name for i in graph.outputs] == ["b", "a", "x"]
    assert graph.returns_tuple


def test_two_users_of_one_weight_share_the_constant() -> None:
    graph = imported(
        model(
            [node("MatMul", "x w", "a"), node("MatMul", "a w", "y")],
            {"x": (2, 5)},
            ["y"],
            {"w": weights(5, 5)},
        )
    )

    assert graph.constants.bit_count() == 1


def test_initializers_among_the_inputs_are_constants() -> None:
    given = model([node("Add", "x w", "y")], {"x": (2, 3), "w": (3,)}, ["y"], {"w": weights(3)})
    graph = from_onnx(given)

    assert graph.names(graph.parameters) == {"x"}


def test_a_given_shape_fixes_a_symbolic_one() -> None:
    given = model(
        [node("Conv", "x w", "y"), node("Flatten", "y", "z")],
        {"x": ("batch", 3, "height", 8)},
        ["z"],
        {"w": weights(4, 3, 1, 1)},
    )
    graph = from_onnx(given, shapes={"x": (2, 3, 8, 8)})

    assert shape(graph, "z") == (2, 256)
    assert largest_error(given, graph) < 1e-5


@pytest.mark.parametrize("opset", [6, 7])
def test_an_old_model_is_compared_at_given_shapes_and_with_a_name_twice(opset: int) -> None:
    nodes = [node("Exp", "x", "t"), node("Neg", "t", "y")]
    given = model(nodes, {"x": (1, 3)}, ["y"], opset=opset)
    for each in given.graph.node:
        each.name = "same"

    session = reference_session(given, {"x": (2, 3)})

    assert session.run(None, {"x": weights(2, 3)})[0].shape == (2, 3)


def test_a_given_shape_may_have_integers_of_numpy() -> None:
    given = model([node("Exp", "x", "y")], {"x": ("n", 3)}, ["y"])

    graph = from_onnx(given, shapes={"x": tuple(np.array([2, 3]))})

    assert shape(graph, "y") == (2, 3)


def test_a_dimension_may_be_called_like_a_truth_value() -> None:
    graph = from_onnx(model([node("Exp", "x", "y")], {"x": ("True", 3)}, ["y"]))

    assert shape(graph, "y") == ("True_2", 3)


def test_a_symbolic_batch_stays_symbolic() -> None:
    given = model(
        [
            node("Conv", "x w b", "c"),
            node("Relu", "c", "r"),
            node("GlobalAveragePool", "r", "p"),
            node("Flatten", "p", "f"),
            node("Gemm", "f m v", "y", transB=1),
        ],
        {"x": ("batch", 3, 8, 8)},
        ["y"],
        {"w": weights(4, 3, 1, 1), "b": weights(4), "m": weights(7, 4), "v": weights(7)},
    )
    graph = from_onnx(given)
    inputs = {"x": weights(3, 3, 8, 8)}

    assert shape(graph, "y") == ("batch", 7)
    [expected], [computed] = run_onnx(given, inputs), run_graph(graph, inputs)
    np.testing.assert_allclose(computed, expected, rtol=1e-4, atol=1e-5)


def test_a_model_of_local_functions_is_imported() -> None:
    twice = helper.make_function(
        "local", "Twice", ["a"], ["b"], [node("Add", "a a", "b")], [helper.make_opsetid("", 13)]
    )
    given = model([], {"x": (2, 3)}, ["y"])
    given.graph.node.append(helper.make_node("Twice", ["x"], ["y"], domain="local"))
    given.functions.append(twice)
    given.opset_import.append(helper.make_opsetid("local", 1))

    assert operators(imported(given)) == ("add",)


def test_half_precision_is_kept() -> None:
    names, constants = batch_norm("bn", 4)
    constants["w"] = weights(4, 3, 1, 1)
    given = model(
        [node("Conv", "x w", "c"), node("BatchNormalization", f"c {names}", "y")],
        {"x": (1, 3, 4, 4)},
        ["y"],
        {name: value.astype(np.float16) for name, value in constants.items()},
    )
    given.graph.input[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    graph = from_onnx(given)

    assert {graph.nodes[i].tensor.dtype for i in members(graph.calls | graph.constants)} == {
        "float16"
    }


def test_a_conversion_to_float32_has_the_name_of_no_other_value() -> None:
    text = '{ "x.float32" = Mul(x, x) t = ReduceL2(x) y = Add(t, "x.float32") }'

    of_short(text, [1.0, 2.0])


# Gather


@pytest.mark.parametrize("indices", [[0, 2, 2], [-1, 0, -3], [[1], [-2]], -1, 1])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_of_constant_indices_is_one_take(indices: Any, axis: int) -> None:
    chosen = np.asarray(indices, np.int64)

    given = model(
        [node("Gather", "x i", "g", axis=axis), node("Relu", "g", "y")],
        {"x": (3, 4, 5)},
        ["y"],
        {"i": chosen},
    )
    graph = imported(given)

    assert operators(graph) == ("take", "nn.relu")
    assert graph.nodes[graph.index("g")].attrs["mode"] == "fast"


def test_gather_of_nothing_is_a_constant() -> None:
    given = model(
        [node("Gather", "x i", "g"), node("Relu", "g", "y")],
        {"x": (3, 4, 5)},
        ["y"],
        {"i": np.zeros(0, np.int64)},
    )
    graph = from_onnx(given)

    assert operators(graph) == ()
    assert graph.nodes[graph.outputs[0]].tensor.shape == (0, 4, 5)


def test_gather_of_computed_indices_is_one_take() -> None:
    given = model(
        [
            node("Sign", "x", "s"),
            node("Cast", "s", "i", to=TensorProto.INT64),
            node("Gather", "w i", "y", axis=0),
        ],
        {"x": (3, 4)},
        ["y"],
        {"w": weights(6, 5)},
    )

    graph = imported(given)

    assert operators(graph)[-2:] == ("astype", "take")
    assert graph.nodes[graph.index("y")].attrs["mode"] == "fast"


def test_a_dimension_of_no_elements_is_a_number() -> None:
    graph = from_onnx(model([node("Relu", "x", "y")], {"x": (0, 8)}, ["y"]))

    assert shape(graph, "x") == (0, 8)
