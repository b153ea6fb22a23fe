"""What verification sees: wrong kernels that no output of the model shows."""

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.backends.base import LibraryBackend
from collage_dsl.backends.onnx_writer import model as onnx_model
from collage_dsl.backends.onnx_writer.table import OPERATORS
from collage_dsl.backends.onnxruntime import OnnxRuntime
from collage_dsl.engine.compile import backends_of
from collage_dsl.frontend.errors import RefusedInputsError
from collage_dsl.frontend.onnx import from_onnx
from collage_dsl.graph import Form, Graph, Node, OpaqueType, Option, Toolchain, members
from collage_dsl.measuring.checked import Right, WrongResult, errors_of, largest_error
from collage_dsl.realization import native
from collage_dsl.realization.difference import compared, relative_error, tolerance
from collage_dsl.realization.draws import Draw, draws_of
from collage_dsl.realization.executable import ModelExecutable
from collage_dsl.realization.lower import build
from collage_dsl.realization.onnx_reference import Reference, evaluated
from collage_dsl.realization.partition import realized
from collage_dsl.realization.runners import exact_runner, runner
from collage_dsl.realization.signature import ExecutableError, Signature
from collage_dsl.realization.verification import (
    Finding,
    Verification,
    VerificationError,
    failed,
)
from collage_dsl.realization.verify import verify
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.cases import covering, slow
from tests.models import small_convolution, transformer_block
from tests.reference import run_onnx
from tests.test_in_place import join, node
from tests.test_onnx_writer import CASES, graph_of

Array = np.ndarray[Any, Any]

NATIVE = FusionSpec(Toolchain("tvm"), OpCallByKind())


def saturated() -> onnx.ModelProto:
    """
    A classifier whose outputs say nothing: one class has a logit that is larger than all others
    by thousands.
    """
    generator = np.random.default_rng(7)

    def weight(name: str, array: Array) -> onnx.TensorProto:
        return numpy_helper.from_array(array.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["conv", "bias"], ["biased"]),
        helper.make_node("Relu", ["biased"], ["relu"]),
        helper.make_node("MaxPool", ["relu"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Softmax", ["pool"], ["attention"], axis=1),
        helper.make_node("Sub", ["pool", "attention"], ["difference"]),
        helper.make_node("Tanh", ["difference"], ["tanh"]),
        helper.make_node("Flatten", ["tanh"], ["flat"]),
        helper.make_node("MatMul", ["flat", "g"], ["product"]),
        helper.make_node("Add", ["product", "favour"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["y"], axis=1),
        helper.make_node("ArgMax", ["y"], ["class"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "saturated",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5]),
            helper.make_tensor_value_info("class", TensorProto.INT64, [1, 1]),
        ],
        [
            weight("w", generator.normal(0, 0.3, (4, 2, 3, 3))),
            weight("bias", generator.normal(0, 0.3, (1, 4, 1, 1))),
            weight("g", generator.normal(0, 0.3, (36, 5))),
            weight("favour", np.array([0, 0, 1e4, 0, 0])),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# Corruptions of the graph of a kernel.


def edited(op: str, edit: Callable[[Node], Node]) -> Callable[[Graph], Graph]:
    def corrupt(graph: Graph) -> Graph:
        nodes = [edit(each) if each.op == op else each for each in graph.nodes]
        return Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)

    return corrupt


def other_bias(graph: Graph) -> Graph:
    nodes = [
        replace(each, value=np.asarray(each.value) * np.float32(1.01))
        if each.form is Form.CONSTANT
        else each
        for each in graph.nodes
    ]
    return Graph(nodes, graph.outputs, name=graph.name, returns_tuple=graph.returns_tuple)


def attribute(name: str, value: Any) -> Callable[[Node], Node]:
    return lambda each: replace(each, attrs={**each.attrs, name: value})


def saturating(graph: Graph) -> Graph:
    """A relu that is right up to 50."""
    (x, relu) = graph.nodes
    bounds = [Node(str(n), Form.LITERAL, OpaqueType("prim"), value=n) for n in (0.0, 50.0)]
    clip = replace(relu, op="clip", inputs=(0, 1, 2))
    return Graph([x, *bounds, clip], [3], name=graph.name)


def wider(each: Node) -> Node:
    """A window of a pool that is one larger at its end."""
    padding: Any = (0, 0, 1, 1)
    return replace(each, attrs={**each.attrs, "pool_size": (3, 3), "padding": padding})


CORRUPTIONS: Mapping[str, tuple[str, str, Callable[[Graph], Graph]]] = {
    "a wrong bias": ("add", "biased", other_bias),
    "swapped operands": (
        "subtract",
        "difference",
        edited("subtract", lambda each: replace(each, inputs=each.inputs[::-1])),
    ),
    "a dropped relu": (
        "nn.relu",
        "relu",
        edited("nn.relu", lambda each: replace(each, op="nn.leakyrelu", attrs={"alpha": 1.0})),
    ),
    "a window off by one": ("nn.max_pool2d", "pool", edited("nn.max_pool2d", wider)),
    "softmax along another axis": (
        "nn.softmax",
        "attention",
        edited("nn.softmax", attribute("axis", 2)),
    ),
    "right for small inputs only": ("nn.relu", "relu", saturating),
}


@dataclass(frozen=True, slots=True)
class Corrupt(LibraryBackend):
    """Works, but for the kernels with one operator, and an image as their result."""

    on: str
    corrupt: Callable[[Graph], Graph]

    @property
    def name(self) -> str:
        return "corrupt"

    @property
    def version(self) -> str:
        return "1"

    def supports(self, graph: Graph) -> str | None:
        return None

    def codegen(self, graph: Graph, symbol: str, options: Mapping[str, Option]) -> Any:
        is_image = graph.nodes[graph.outputs[0]].tensor.rank == 4
        if is_image and self.on in graph.operators(graph.calls):
            graph = self.corrupt(graph)
        return OnnxRuntime().codegen(graph, symbol, options)


def compiled(model: onnx.ModelProto, *backends: Any, **options: Any) -> collage.Compiled:
    """Each operator is a kernel of the first backend, else of TVM."""
    targets = [FusionSpec(Toolchain(b.name, compiler=b.name), OpCallByKind()) for b in backends]
    return fast(model, targets or [NATIVE], backends=backends, **options)


def fast(model: onnx.ModelProto, targets: Sequence[Any], **options: Any) -> collage.Compiled:
    """Compiled without measuring."""
    return collage.compile(model, targets, cost=lambda _: 1e-5, race_seconds=0.01, **options)


@pytest.mark.parametrize("which", CORRUPTIONS)
def test_a_wrong_kernel_is_named_though_no_output_shows_it(which: str) -> None:
    op, at, corrupt = CORRUPTIONS[which]
    with pytest.raises(VerificationError) as caught:
        compiled(saturated(), Corrupt(op, corrupt))

    verification = caught.value.verification
    assert verification is not None
    assert [finding.node for finding in verification.wrong] == [at]
    assert verification.error > verification.tolerance
    first, second, _ = str(caught.value).splitlines()
    assert first == f"1 of {verification.kernels} kernels differs from onnxruntime"
    assert second.startswith(f"  {op} of target `corrupt`, nodes {at}: `{at}` differs by ")


def test_the_outputs_of_that_model_say_nothing() -> None:
    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=(1, 2, 6, 6)).astype(np.float32)
        y, number = run_onnx(saturated(), {"x": x}).values()
        np.testing.assert_array_equal(y, [[0, 0, 1, 0, 0]])
        assert number == 2


def test_what_is_right_for_small_inputs_only_is_seen_in_a_draw_of_large_ones() -> None:
    op, _, corrupt = CORRUPTIONS["right for small inputs only"]
    with pytest.raises(VerificationError) as caught:
        compiled(saturated(), Corrupt(op, corrupt))

    assert caught.value.verification is not None
    assert caught.value.verification.worst.draw == "large"


@pytest.mark.parametrize("model", [saturated, slow(small_convolution), transformer_block])
def test_the_report_says_which_kernel_errs_most(model: Callable[[], onnx.ModelProto]) -> None:
    found = compiled(model())
    verification = found.report.verification

    assert verification is not None
    assert verification.passed
    assert verification.kernel is not None
    assert verification.output is not None
    assert 0 < verification.kernel.error < 1e-5
    assert verification.output.error < 1e-5
    assert verification.error in (verification.kernel.error, verification.output.error)
    assert verification.kernel.node in verification.kernel.nodes
    assert verification.kernel.nodes in [kernel.nodes for kernel in found.report.plan.kernels]
    assert verification.draws == ["usual", "large", "tiny", "negative", "special"]
    assert verification.kernels == len(found.plan.kernels)
    assert verification.unchecked == []


INTEGERS = ("INT8", "UINT8", "INT16", "INT32", "INT64", "UINT32", "UINT64")


def cast(before: str, to: str) -> onnx.ModelProto:
    """A model that makes floats integers; an exponential is too large for any of them."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node(before, ["x", "x"] if before == "Mul" else ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["y"], to=getattr(TensorProto, to)),
    ]
    inputs = [value("x", TensorProto.FLOAT, [4, 64])]
    outputs = [value("y", getattr(TensorProto, to), [4, 64])]
    graph = helper.make_graph(nodes, "cast", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("to", "before"), covering(INTEGERS, ["Mul", "Exp"]))
def test_floats_that_an_integer_cannot_hold_are_not_compared(before: str, to: str) -> None:
    verification = compiled(cast(before, to)).report.verification

    assert verification is not None
    assert verification.passed
    assert verification.unchecked == []


@pytest.mark.parametrize(
    ("to", "numbers", "defined"),
    [
        ("INT8", [300.0, -3e4, 0.0], True),
        ("INT8", [2.2e9], False),
        ("INT32", [2147483520.0, -2147483648.0], True),
        ("INT32", [2147483648.0], False),
        ("INT64", [9e18], True),
        ("INT64", [1e19], False),
        ("UINT32", [4e9, -2e9], True),
        ("UINT32", [-3e9], False),
        ("UINT64", [-1.0], False),
        ("UINT64", [-0.5], True),
        ("INT32", [np.nan], False),
        ("INT32", [np.inf], False),
        ("BOOL", [np.nan, np.inf, 1e30], True),
    ],
)
def test_which_floats_an_integer_can_hold(to: str, numbers: list[float], defined: bool) -> None:
    reference = Reference(from_onnx(cast("Relu" if min(numbers) >= 0 else "Identity", to)))
    array = np.zeros((4, 64), np.float32)
    array[1, : len(numbers)] = numbers

    assert reference.is_defined([array]) == defined


def test_a_kernel_that_cannot_be_compared_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    written = dict(OPERATORS)
    del written["tanh"]
    monkeypatch.setattr(onnx_model, "OPERATORS", written)

    verification = compiled(saturated()).report.verification

    assert verification is not None
    assert verification.passed
    assert verification.kernels == 12
    assert [each.split(":")[0] for each in verification.unchecked] == [
        "`tanh` at `tanh` cannot be written in ONNX"
    ]


def test_a_kernel_that_needs_only_the_shape_of_what_it_takes_is_compared() -> None:
    text = """<ir_version: 9, opset_import: ["": 20]> g (float[2,4] x) => (float[2,4] y) {
      e = Exp (x)
      one = EyeLike <k = 1> (e)
      y = Add (e, one)
    }"""

    verification = compiled(onnx.parser.parse_model(text)).report.verification

    assert verification is not None
    assert verification.passed
    assert verification.kernels == 3
    assert not verification.unchecked


# Kernels that run nothing.


def joined() -> onnx.ModelProto:
    """A concatenation that runs nothing, between operators of which each is a kernel."""
    nodes = [
        node("Relu", "x", "a"),
        node("Exp", "x", "b"),
        join("a b", "c"),
        node("Tanh", "c", "y"),
    ]
    shape = [1, 3, 5, 7]
    graph = helper.make_graph(
        nodes,
        "joined",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 6, 5, 7])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


IN_PLACE = FusionSpec(Toolchain("tvm", variants=("in_place", "direct")), OpCallByKind())


def compiled_in_place(model: onnx.ModelProto) -> collage.Compiled:
    return fast(model, [IN_PLACE])


def test_a_concatenation_that_runs_nothing_is_compared_where_it_is_taken() -> None:
    found = compiled_in_place(joined())

    assert "concat" not in found.executable.module["as_text"]().replace("in_place_concat", "")
    assert found.report.verification is not None
    assert found.report.verification.passed


def test_a_wrong_concatenation_that_runs_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    right = native.joined
    monkeypatch.setattr(native, "joined", lambda function: right(function)[::-1])

    with pytest.raises(VerificationError, match=r"concat of target `tvm` by in_place, nodes .*c"):
        compiled_in_place(joined())


# Inputs.


def with_integers() -> onnx.ModelProto:
    """Token ids that are looked up, a mask that is a number, and what is divided by."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"]),
        helper.make_node("Cast", ["mask"], ["factor"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["factor", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["masked"]),
        helper.make_node("Div", ["mask", "divisor"], ["quotient"]),
        helper.make_node("Mul", ["masked", "x"], ["y"]),
    ]
    ints = [
        helper.make_tensor_value_info(name, TensorProto.INT64, [7])
        for name in ("ids", "mask", "divisor")
    ]
    graph = helper.make_graph(
        nodes,
        "integers",
        [*ints, helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [7, 4]),
            helper.make_tensor_value_info("quotient", TensorProto.INT64, [7]),
        ],
        [
            numpy_helper.from_array(np.arange(44, dtype=np.float32).reshape(11, 4), "table"),
            numpy_helper.from_array(np.array([1]), "last"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def draws(given: Mapping[str, Array] | None = None) -> dict[str, Draw]:
    return {draw.name: draw for draw in draws_of(from_onnx(with_integers()), given)}


def test_indices_are_valid_masks_are_0_and_1_first_and_divisors_are_not_0() -> None:
    found = draws()

    ids = {name: draw.inputs["ids"] for name, draw in found.items()}
    assert all(((each >= -11) & (each < 11)).all() for each in ids.values())
    assert ids["usual"].max() > 1
    assert (ids["negative"] < 0).all()
    assert set(found["usual"].inputs["mask"]) <= {0, 1}
    assert np.abs(found["large"].inputs["mask"]).max() > 100
    assert all((draw.inputs["divisor"] > 0).all() for draw in found.values())


def test_integers_that_are_compared_with_several_are_of_their_range() -> None:
    """As in a one-hot code that is spelled out, where others leave nothing but zeros."""
    text = """<ir_version: 8, opset_import: ["": 15]>
    g (int64[6,1] x) => (bool[6,4] y) <int64[4] known = {3, 4, 5, 9}> { y = Equal (x, known) }"""

    found = [draw.inputs["x"] for draw in draws_of(from_onnx(onnx.parser.parse_model(text)))]

    assert all(((each >= 3) & (each <= 9)).all() for each in found)


def test_draws_are_of_several_magnitudes_and_seeded() -> None:
    found, again = draws(), draws()

    largest = {name: np.abs(draw.inputs["x"]).max() for name, draw in found.items()}
    assert largest["tiny"] < 1e-2 < largest["usual"] < 10 < largest["large"]
    assert (found["negative"].inputs["x"] <= 0).all()
    for name, draw in found.items():
        for each, array in draw.inputs.items():
            np.testing.assert_array_equal(array, again[name].inputs[each])


def test_integers_that_are_given_stay_in_all_draws() -> None:
    given = dict(draws()["usual"].inputs)
    found = draws(given)

    assert list(found) == ["given", "usual", "large", "tiny", "negative", "special"]
    assert found["given"].inputs is given
    for draw in found.values():
        np.testing.assert_array_equal(draw.inputs["ids"], given["ids"])
    assert np.abs(found["large"].inputs["x"]).max() > 10


def test_a_model_with_integers_is_verified_on_random_and_on_given_inputs() -> None:
    given = dict(draws()["usual"].inputs)
    options: Mapping[str, Any]
    for options in ({}, {"inputs": given}):
        verification = fast(with_integers(), ["native"], **options).report.verification
        assert verification is not None
        assert verification.passed


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda inputs: {**inputs, "z": inputs["x"]}, "the model has no input `z`"),
        (lambda inputs: {"x": inputs["x"]}, "input `ids` is missing"),
        (lambda inputs: {**inputs, "x": inputs["x"][1:]}, "input `x` is float32"),
        (lambda inputs: {**inputs, "x": inputs["ids"][:4]}, "input `x` is int64"),
    ],
)
def test_given_inputs_that_are_not_those_of_the_model(
    change: Callable[[dict[str, Array]], dict[str, Array]], said: str
) -> None:
    with pytest.raises(ExecutableError, match=said):
        fast(with_integers(), ["native"], inputs=change(dict(draws()["usual"].inputs)))


def test_given_indices_that_are_out_of_range() -> None:
    inputs = dict(draws()["usual"].inputs)
    inputs["ids"] = np.full(7, 11)

    with pytest.raises(ExecutableError, match="index 11 is out of range"):
        fast(with_integers(), ["native"], inputs=inputs)


# Infinities, and what is not a number.


def checked(target: str, model: onnx.ModelProto | None = None) -> Verification:
    """Of a model with relus, or of `model`, by native kernels, on all draws."""
    model = model or joined()
    graph = from_onnx(model)
    rules = "union(op_call_by_kind(), op_call_by_kind(opaque))"
    spec = collage.load(text=f"collage 1; target tvm on {target} {{ rules {rules}; }}")["tvm"]
    kernels = collage.choose(graph, collage.propose(graph, spec), cost=lambda _: 1e-5).candidates
    found = realized(graph, kernels, backends_of([spec]))
    executable = ModelExecutable(build(found.module), Signature.of(graph, cores=1))
    exact = exact_runner(model)
    return verify(executable, runner(model), exact, graph, found.calls, draws_of(graph))


def test_a_kernel_that_loses_nan_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = checked("llvm")
    monkeypatch.setattr(native, "with_ieee_values", lambda function: function)
    wrong = checked("llvm")

    assert right.passed
    assert right.draws[-1] == "special"
    assert ("a", "special") in [(each.node, each.draw) for each in wrong.wrong]
    assert {each.draw for each in wrong.wrong} == {"special"}


def test_nan_of_fast_math_is_not_compared() -> None:
    found = checked("llvm(fast_math: true)")

    assert found.passed
    assert found.draws[-1] == "special"


def test_a_kernel_that_takes_sizes_alone_is_compared() -> None:
    text = """<ir_version: 9, opset_import: ["" : 11]>
        g (float[3,n] x) => (float[3,1] y) <int64[1] a = {1}, int64[1] b = {2147483647}> {
          s = Slice (x, a, b, a)
          y = ReduceMax <axes = [1]> (s)
        }"""

    found = checked("llvm", onnx.parser.parse_model(text))

    assert found.passed
    assert found.draws[-1] == "special"


@pytest.mark.parametrize("weight", ["<float[1,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}>", ""])
def test_zeros_that_a_transposed_convolution_multiplies_are_not_compared(weight: str) -> None:
    given = "" if weight else ", float[1,1,3,3] w"
    text = f"""<ir_version: 9, opset_import: ["" : 11]>
        g (float[1,1,5,6] x{given}) => (float[1,1,a,b] y) {weight} {{
          y = ConvTranspose <strides = [2, 1], dilations = [2, 2]> (x, w)
        }}"""

    found = checked("llvm", onnx.parser.parse_model(text))

    assert found.passed
    assert found.draws[-1] == "special"


@pytest.mark.parametrize("reduction", ["max", "min"])
def test_nan_that_onnxruntime_loses_as_it_scatters_is_not_compared(reduction: str) -> None:
    indices = ", ".join(map(str, 8 * [0, 1, 2, 3, 4]))
    text = f"""<ir_version: 9, opset_import: ["" : 18]>
        g (float[40] u) => (float[5] y)
          <float[5] x = {{0, 0, 0, 0, 0}}, int64[40] i = {{{indices}}}> {{
          s = ScatterElements <reduction = "{reduction}"> (x, i, u)
          y = Neg (s)
        }}"""

    found = checked("llvm", onnx.parser.parse_model(text))

    assert found.passed
    assert found.draws[-1] == "special"


# What counts as wrong.


OF_THE_STANDARD = [name for name in CASES if "int16" not in name]
"""16 bits are quantized by onnxruntime's own operators, which ONNX's reference lacks."""


@pytest.mark.parametrize("name", OF_THE_STANDARD)
def test_the_reference_in_float64_is_that_of_onnxruntime(name: str) -> None:
    case = CASES[name]
    reference = Reference(graph_of(case))

    feeds = dict(zip(reference.names, case.arguments, strict=True))
    widened = next(evaluated(reference.model, feeds, reference.constants))
    for one, other in zip(reference.run(case.arguments), widened.values(), strict=True):
        assert relative_error(other.astype(one.dtype), one) <= tolerance(one)


def cancelling() -> Graph:
    """The mean of numbers is subtracted that are far from 0: little is left."""
    return collage.parse_graph("x: f32[1024]; m = mean(x); y = subtract(x, m); return y;")


def test_the_reference_keeps_no_value_longer_than_it_is_used() -> None:
    """Also not one that only a branch takes, and never an output."""
    steps = "".join(f"v{n + 1} = Sin (v{n}) " for n in range(1, 40))
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[n] x, bool c) => (float[n] v1, float[n] y) {{
          v1 = Abs (x) {steps}
          y = If (c) <
            then_branch = then () => (float[n] a) {{ a = Add (v40, v3) }},
            else_branch = otherwise () => (float[n] b) {{ b = Neg (v40) }}
          >
        }}"""
    )
    x = np.linspace(-1, 1, 1_000_000, dtype=np.float32)

    tracemalloc.start()
    (found,) = evaluated(model, {"x": x, "c": np.asarray(True)})
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 8 * 8 * x.size
    right = runner(model)({"x": x, "c": np.asarray(True)})
    for name, array in found.items():
        np.testing.assert_allclose(array, right[name], rtol=1e-5)


def test_an_error_as_large_as_that_of_onnxruntime_is_allowed() -> None:
    graph = cancelling()
    x = (1e6 + np.random.default_rng(0).normal(size=1024) / 16).astype(np.float32)
    (right,) = Reference(graph).run([x])
    others = [each[0] for each in Reference(graph).doubtful([x])]
    noise = np.abs(others[0] - right).max() / np.abs(right).max()

    assert noise > 1e-3
    error, allowed = compared(others[0].astype(np.float32), right, lambda: others)
    assert error <= allowed
    error, allowed = compared(right + 1000 * np.float32(noise), right, lambda: others)
    assert error > allowed


def test_numbers_of_which_rounding_decides_all_digits_may_differ_by_more() -> None:
    """As what a Gaussian process gives in float32, whose weights of 1e6 cancel out."""
    right, found = np.ones(3, np.float32), np.full(3, 50, np.float32)

    error, allowed = compared(found, right, lambda: [np.full(3, -1.5, np.float32)])
    assert error <= allowed
    error, allowed = compared(6 * found, right, lambda: [np.full(3, -1.5, np.float32)])
    assert error > allowed
    error, allowed = compared(found, right, lambda: [np.full(3, 1.5, np.float32)])
    assert error > allowed
    error, allowed = compared(found * np.nan, right, lambda: [np.full(3, -1.5, np.float32)])
    assert error > allowed


def test_integers_that_rounding_decides_do_not_count() -> None:
    right, other = np.array([1, 2, 3]), np.array([1, 2, 4])

    assert compared(other, right, tuple) == (np.inf, 0)
    assert compared(other, right, lambda: [other]) == (0, 0)
    assert compared(np.array([0, 2, 3]), right, lambda: [other]) == (np.inf, 0)


@pytest.mark.parametrize(("same_sign", "of_integers"), covering([False, True], [False, True]))
def test_floats_next_to_half_of_an_integer_may_be_rounded_either_way(
    *, same_sign: bool, of_integers: bool
) -> None:
    generator = np.random.default_rng(2)
    w, x = (generator.normal(size=s).astype(np.float32) for s in ((4096, 64), (256, 4096)))
    if same_sign:
        w, x = np.abs(w) / np.float32(24), np.abs(x)
    given = x
    if of_integers:
        given = np.rint(x * 16).astype(np.int8)
        x = given.astype(np.float32) * np.float32(0.07)
    convert = "DequantizeLinear (x, of)" if of_integers else "Identity (x)"
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]>
        g ({"int8" if of_integers else "float"}[256,4096] x) => (uint8[256,64] y)
        <float step = {{0.7}}, uint8 zero = {{{0 if same_sign else 128}}}, float of = {{0.07}}> {{
          f = {convert}
          product = MatMul (f, w)
          y = QuantizeLinear (product, step, zero)
        }}"""
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    reference = Reference(collage.from_onnx(model))
    (right,) = reference.run([given])

    def others() -> list[Array]:
        return [each[0] for each in (*reference.doubtful([given]), *reference.near([given]))]

    product = np.zeros((256, 64), np.float32)
    for i in range(4096):
        product += np.outer(x[:, i], w[i])  # one after the other, which errs the most
    zero = 0 if same_sign else 128
    found = np.clip(np.rint(product / np.float32(0.7)) + zero, 0, 255).astype(np.uint8)

    assert 0 < (found != right).sum() < 20
    assert compared(found, right, others) == (0, 0)
    wrong = found + (np.arange(found.size).reshape(found.shape) == 1000).astype(np.uint8)
    assert compared(wrong, right, others)[0] == np.inf


def found_by_rounding(before: str) -> onnx.ModelProto:
    """
    The places where `x * 3 / 3` is less than `x`. It never is after the import, which computes one
    factor.
    """
    nodes = [
        helper.make_node(before, ["x"], ["v"]),
        helper.make_node("Mul", ["v", "three"], ["product"]),
        helper.make_node("Div", ["product", "three"], ["same"]),
        helper.make_node("Less", ["same", "v"], ["is_less"]),
        helper.make_node("NonZero", ["is_less"], ["places"]),
    ]
    graph = helper.make_graph(
        nodes,
        "found",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [999])],
        [helper.make_tensor_value_info("places", TensorProto.INT64, [1, "n"])],
        [numpy_helper.from_array(np.array(3, np.float32), "three")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_size_that_rounding_decides_is_compared_in_draws_where_it_does_not() -> None:
    found = fast(found_by_rounding("Relu"), ["native", "onnxruntime"]).report.verification

    assert found is not None
    assert found.passed
    assert "negative" in found.draws


def test_a_size_that_rounding_always_decides_needs_inputs() -> None:
    with pytest.raises(VerificationError, match="rounding decides the size of `places`") as caught:
        fast(found_by_rounding("Exp"), ["native", "onnxruntime"])

    assert "with the argument `inputs`" in str(caught.value)


@pytest.mark.parametrize(("element", "runs"), [(TensorProto.INT64, 3), (TensorProto.FLOAT, 1)])
def test_weights_are_shaken_where_no_input_can_be(element: int, runs: int) -> None:
    cast = helper.make_node("Cast", ["x"], ["v"], to=TensorProto.FLOAT)
    graph = helper.make_graph(
        [cast, helper.make_node("Mul", ["v", "w"], ["y"])],
        "weighted",
        [helper.make_tensor_value_info("x", element, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.full(4, 0.3, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.arange(4).astype(helper.tensor_dtype_to_np_dtype(element))
    right = run_onnx(model, {"x": x})["y"]

    found = [each["y"] for each in exact_runner(model)({"x": x})]

    assert len(found) == runs
    assert all(relative_error(each.astype(np.float32), right) < 1e-6 for each in found)
    assert all((each != right).any() for each in found[1:])


@pytest.mark.parametrize("opset", [17, 22])
def test_a_model_that_rounds_is_run_with_other_weights_too(opset: int) -> None:
    weights = numpy_helper.from_array(np.float32([3, 7, 11, 0.5]), "w")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["v"]), helper.make_node("Floor", ["v"], ["y"])],
        "rounded",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])],
        [weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    x = np.ones(4, np.float32)

    found = np.stack([each["y"] for each in exact_runner(model)({"x": x})])

    assert len(found) == 9
    assert [set(each) for each in found.T] == [{2, 3}, {6, 7}, {10, 11}, {0}]


def test_the_scales_of_an_image_stay_in_a_model_that_rounds() -> None:
    """By a scale of 1.000001 for its channels, onnxruntime refuses to resize it."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18]> g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y)
        <float[1] w = {7}, float[4] scales = {1, 1, 2, 2}> {
          r = Resize <mode = "linear"> (x, , scales)
          v = Mul (r, w)
          y = Floor (v)
        }"""
    )

    found = [each["y"] for each in exact_runner(model)({"x": np.ones((1, 1, 2, 2), np.float32)})]

    assert {each.shape for each in found} == {(1, 1, 4, 4)}
    assert set(np.unique(found)) == {6, 7}


@pytest.mark.parametrize(
    ("node", "type_"),
    [
        ("y = ArgMax <axis = 0, keepdims = 0> (v)", "int64"),
        ("y = Greater (v, v1)", "bool[2]"),
        ("t, y = TopK (v, one)", "int64[1]"),
    ],
)
def test_a_model_that_compares_numbers_is_run_with_other_weights_too(node: str, type_: str) -> None:
    """Inputs far smaller than a weight that is added change nothing if they are shaken."""
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (float[2] x) => ({type_} y)
        <float[2] w = {{1, 1.0000001}}, float[1] w1 = {{1}}, int64[1] one = {{1}}> {{
          v = Add (x, w)
          v1 = Mul (w1, w1)
          {node}
        }}"""
    )
    x = np.float32([1e-9, 2e-9])

    found = [each["y"].ravel().tolist() for each in exact_runner(model)({"x": x})]

    assert any(each != found[0] for each in found)


def test_scalars_are_drawn_and_shaken_as_arrays() -> None:
    graph = collage.parse_graph("x: f32[]; y = exp(x); return y;")
    for draw in draws_of(graph):
        (x,) = draw.inputs.values()
        assert isinstance(x, np.ndarray)
        assert x.shape == ()
        assert [each[0].shape for each in Reference(graph).doubtful([x])] == [(), (), ()]


def test_members_of_a_graph_are_in_the_order_of_its_inputs() -> None:
    graph = from_onnx(with_integers())
    names = [graph.nodes[index].name for index in members(graph.parameters)]

    assert names == list(draws()["usual"].inputs)


def of_eight(height: int) -> onnx.ModelProto:
    """Runs for images of which the sides are multiples of 8, lower than `height`."""
    return parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (float[h, w] x) => (float[h, w] y)
        <int64[3] parts = {{-1, 8, 8}}, int64[1] none = {{7}}> {{
          s = Shape (x)
          zero = Constant <value_int = 0> ()
          most = Constant <value_int = {height}> ()
          size = Gather (s, zero)
          small = Less (size, most)
          u = If (small) <
            then_branch = then () => (float[p, 8, 8] a) {{ a = Reshape (x, parts) }},
            else_branch = otherwise () => (float[7] b) {{ b = Reshape (x, none) }}
          >
          r = Relu (u)
          y = Reshape (r, s)
        }}"""
    )


def test_inputs_are_drawn_of_sizes_for_which_the_model_runs() -> None:
    made = collage.compile(of_eight(64), ["native", "onnxruntime"], cost=lambda _: 1e-6)
    x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)

    np.testing.assert_array_equal(made.run({"x": x})["y"], np.maximum(x, 0))


def test_a_model_that_runs_on_no_random_inputs_needs_real_ones() -> None:
    with pytest.raises(VerificationError) as caught:
        collage.compile(of_eight(1), ["onnxruntime"], cost=lambda _: 1e-6)

    assert "give inputs that the model accepts, with the argument `inputs`" in str(caught.value)


def test_a_run_of_the_reference_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubling comes to 100 from 3, and never from -3."""
    model = parse_model(
        """<ir_version: 10, opset_import: ["": 21]> g (float x) => (float y) {
          true = Constant <value = bool {1}> ()
          y = Loop (, true, x) <body = b (int64 i, bool go, float v) => (bool less, float w) {
            w = Add (v, v)
            most = Constant <value_float = 100.0> ()
            less = Less (w, most)
          }>
        }"""
    )
    assert runner(model)({"x": np.array(3, np.float32)})["y"] == 192
    monkeypatch.setattr("collage_dsl.realization.runners._PATIENCE", 0.1)

    with pytest.raises(RefusedInputsError, match="has not ended"):
        runner(model)({"x": np.array(-3, np.float32)})


def test_a_float_made_of_an_integer_that_rounding_decides_does_not_count() -> None:
    right, other = (np.array(each, np.float32) for each in ([0, 0.5, 1, 8], [0, 0.5, 1.5, 8]))

    def allowed(found: list[float]) -> bool:
        array = np.array(found, np.float32)
        error, most = compared(array, right, lambda: [other], in_steps=True)
        return error <= most

    assert allowed([0, 0.5, 1.5, 8])
    assert not allowed([0, 1.0, 1.5, 8])
    assert not allowed([0.5, 0.5, 1, 8])
    assert not allowed([0, 0.5, 8, 8])


@pytest.mark.parametrize(
    ("call", "decides"), [("quantize(x, s, z)", True), ("less(x, s)", True), ("add(x, s)", False)]
)
def test_which_references_decide(call: str, decides: bool) -> None:
    graph = collage.parse_graph(f"x: f32[4]; s: f32[]; z: i8[]; y = {call}; return y;")
    assert Reference(graph).decides == decides


@pytest.mark.parametrize(
    ("last", "step"),
    [
        ("q = QuantizeLinear (r, s, zero) y = DequantizeLinear (q, s, zero)", 0.0083),
        ("q = Div (r, s) y = Round (q)", 1.0),
    ],
)
def test_values_halfway_between_two_steps_may_be_rounded_to_either(last: str, step: float) -> None:
    model = parse_model(
        f"""<ir_version: 10, opset_import: ["": 21]> g (int8[2, 8, 4, 4] x) => (float[2, 8, 3, 3] y)
        <float s = {{0.0083}}, int8 zero = {{-6}}, int64[4] size = {{2, 8, 3, 3}}> {{
          v = DequantizeLinear (x, s, zero)
          r = Resize <mode = "linear"> (v, , , size)
          {last}
        }}"""
    )
    x = np.random.default_rng(0).integers(-128, 128, (2, 8, 4, 4)).astype(np.int8)
    kernel = [each[0] for each in Reference(from_onnx(model)).near([x])]
    whole = [each["y"] for each in exact_runner(model)({"x": x})]

    is_half = x[:, :, 1:3, 1:3].sum((2, 3), dtype=int) % 4 == 2  # The mean of the middle four.
    for found in map(np.stack, (kernel, whole)):
        middle = found[..., 1, 1]
        assert np.array_equal(np.rint(np.ptp(middle, axis=0) / step), is_half)
    fast(model, ["native"])


def test_a_sum_of_bytes_may_be_rounded_as_its_zero_point_hides_small_changes() -> None:
    model = parse_model(
        """<ir_version: 8, opset_import: ["": 13, "com.microsoft": 1]>
        g (uint8[256] a, uint8[256] b) => (uint8[256] y)
        <float s = {0.1}, uint8 z = {10}, float t = {0.07}, uint8 u = {200}, float v = {0.2},
         uint8 w = {128}> { y = com.microsoft.QLinearAdd (a, s, z, b, t, u, v, w) }"""
    )
    a = np.arange(256, dtype=np.uint8)
    b = np.random.default_rng(0).permutation(a)
    y = fast(model, ["native"]).run({"a": a, "b": b})["y"]

    right = np.clip((a - 10.0) * 0.5 + (b - 200.0) * 0.35 + 128, 0, 255)
    assert np.abs(y - right).max() <= 0.5 + 1e-4


@pytest.mark.parametrize(
    ("error", "tolerance", "said"),
    [
        (2e-3, 1e-4, "differs from onnxruntime by 2.0e-03 of its largest value, where 1e-04 is"),
        (inf, 0.0, "differs from onnxruntime in values that have to be equal (inputs: usual)"),
        (inf, 1e-4, "in shape, in dtype, or in which numbers are finite (inputs: usual)"),
    ],
)
def test_no_difference_is_said_to_be_infinite(error: float, tolerance: float, said: str) -> None:
    output = Finding(error, tolerance, "y", "usual")

    assert said in str(failed(Verification(None, output, (), ("usual",), 1)))


def test_a_kernel_with_other_integers_is_not_said_to_be_infinitely_far() -> None:
    right = Right("onnxruntime", lambda _: [np.array([1, 2])], lambda _: [])

    with pytest.raises(WrongResult, match=r"those of `onnxruntime` on large inputs$"):
        largest_error(right, {"large": errors_of(lambda _: [np.array([1, 3])], right, [])})


def test_a_kernel_that_quantizes_may_err_on_all_inputs_as_rounding_makes_it_err_on_some() -> None:
    right = Right("onnxruntime", lambda _: [], lambda _: [], quantizes=True)
    found = {"usual": {0: (0.02, 0.05)}, "large": {0: (0.01, 1e-4)}}

    assert largest_error(right, found) == 0.02
    with pytest.raises(WrongResult, match="by 1e-02 on large inputs"):
        largest_error(replace(right, quantizes=False), found)
    with pytest.raises(WrongResult, match="by 6e-01 on large inputs"):
        largest_error(right, {"usual": {0: (0.7, 0.9)}, "large": {0: (0.6, 1e-4)}})
