"""Small models by native kernels alone and by onnxruntime alone: what random models once found."""

import re
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.parser
import pytest

import collage_dsl as collage
from collage_dsl.engine.steps import UncoveredError
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.graph import CandidateKernel, Graph, Toolchain
from collage_dsl.realization.signature import ExecutableError
from collage_dsl.resources import shipped_spec
from collage_dsl.rules import FusionSpec, OpCallByKind
from tests.faulty_backends import Faulty
from tests.one_kernel import Array
from tests.reference import run_onnx

TARGETS = pytest.mark.parametrize("target", ["native", "onnxruntime"])


def parsed(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> g {text}')


def same_cost(_: CandidateKernel) -> float:
    return 1e-6


def compiled(model: onnx.ModelProto, target: str) -> collage.Compiled:
    path = shipped_spec(target)
    return collage.compile(model, [path], cost=same_cost, race_seconds=0.01)


X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
SPECIAL = np.array([[np.inf, -np.inf, np.nan], [1, 0, -2]], np.float32)

ONE_HOT = (
    "(int64[9] x) => (float[9,5] y) <int64 d = {5}, float[2] v = {-1,2}> { y = OneHot(x, d, v) }"
)
INDICES = np.array([0, 4, -1, -5, -6, 5, -10, 5000, -20000])
ELU = "(float[2,3] x) => (float[2,3] y) { y = Elu <alpha = 1.5> (x) }"
SIN = "(float[2,3] x) => (float16[2,3] y) { c = Cast <to = 10> (x) y = Sin(c) }"
BACK = "(float[2,3] x) => (float[2,3] y) <int64 a = {1}> { y = CumSum <reverse = 1> (x, a) }"
TILE = "(float[2,3] x) => (float[4,9] y) <int64[2] r = {2,3}> { y = Tile(x, r) }"
XOR = "(float[2,3] x) => (bool[2,3] y) <bool[3] m = {1,0,1}> { n = IsNaN(x) y = Xor(n, m) }"
TRIANGLE = "(float[6,1,1] x) => (float[6,1,1] y) { t = Trilu(x) y = Sub(x, t) }"

CASES: dict[str, tuple[str, Array]] = {
    "one_hot": (ONE_HOT, INDICES),
    "the type of one_hot": (ONE_HOT, np.zeros(9, np.int64)),
    "cumsum from the end": (BACK, X),
    "tile": (TILE, X),
    "a constant of bool": (XOR, SPECIAL),
    "a difference of the same": (TRIANGLE, SPECIAL.reshape(6, 1, 1)),
    "a cast to float16": (SIN, 100 * X),
    "few digits": (ELU, 1e-4 * X),
}


@TARGETS
@pytest.mark.parametrize("case", CASES)
def test_a_model_is_compiled_and_gives_what_onnxruntime_gives(case: str, target: str) -> None:
    text, x = CASES[case]
    model = parsed(text)

    actual, expected = compiled(model, target).run({"x": x})["y"], run_onnx(model, {"x": x})["y"]

    assert actual.dtype == expected.dtype
    if case == "a cast to float16" and target == "native":  # onnxruntime leaves it out.
        expected = np.sin(x.astype(np.float16).astype(np.float32))
    least = 1e-3 if actual.dtype == np.float16 else 2e-7
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=least)


@TARGETS
@pytest.mark.parametrize("index", [3, -4, 2**40])
def test_an_index_out_of_range_is_refused_and_the_next_call_works(index: int, target: str) -> None:
    model = parsed("(float[3,2] a, int64[1] i) => (float[1,2] y) { y = Gather(a, i) }")
    found = compiled(model, target)
    data = np.arange(6, dtype=np.float32).reshape(3, 2)

    with pytest.raises(ExecutableError, match=re.escape(str(index))):
        found.run({"a": data, "i": np.array([index])})

    np.testing.assert_array_equal(found.run({"a": data, "i": np.array([-1])})["y"], data[2:])


NO_WINDOW = (
    "(float[1,1,1,4] x) => (float[1,2,1,4] y) <float[2,1,2,1] w = {1,2,3,4}>"
    " { y = Conv <strides = [2,1]> (x, w) }"
)
NO_POOLING = "(float[1,1,1,4] x) => (y) { y = LpPool <kernel_shape = [2,1], strides = [2,1]> (x) }"
NO_MIRROR = (
    "(float[2,1] x) => (float[2,3] y) <int64[4] p = {0,1,0,1}>"
    ' { y = Pad <mode = "reflect"> (x, p) }'
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (NO_WINDOW, "the window covers 2 elements of an axis that has 1 with padding"),
        (NO_POOLING, "the window covers 2 elements of an axis that has 1 with padding"),
        (NO_MIRROR, "an axis of 1 elements has too few to be reflected"),
    ],
)
def test_what_reads_beside_its_operand_is_refused_at_its_node(text: str, said: str) -> None:
    with pytest.raises(FrontendError, match=f"cannot import .*{said}"):
        collage.from_onnx(parsed(text))


FLAT = "(float[1,4,4] x) => (y) { y = MaxPool <kernel_shape = [2,2], strides = [2,2]> (x) }"
FLAT_CONV = "(float[1,4,4] x) => (y) <float[4,1,1,1] w = {1,2,3,4}> { y = Conv <group = 4> (x, w) }"
FLAT_TRANSPOSED = "(float[1,4,4] x, float[4,1,2,2] w) => (y) { y = ConvTranspose (x, w) }"
ONE_STRIDE = (
    "(float[1,4,4,4] x) => (y) { y = AveragePool <kernel_shape = [2,2], strides = [2]> (x) }"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FLAT, "a window of 2 axes needs 4 dimensions, and the input has 3"),
        (FLAT_CONV, "a window of 2 axes needs 4 dimensions, and the input has 3"),
        (FLAT_TRANSPOSED, "a window of 2 axes needs 4 dimensions, and the input has 3"),
        (ONE_STRIDE, "`strides` has the length 1, and 2 is needed"),
    ],
)
def test_a_window_of_another_rank_than_its_operand_is_refused(text: str, said: str) -> None:
    with pytest.raises(FrontendError, match=f"cannot import .*{said}"):
        collage.from_onnx(parsed(text))


@dataclass(frozen=True, slots=True)
class Small(Faulty):
    """A library that supports nothing."""

    on: str = "no operator"

    def supports(self, graph: Graph) -> str | None:
        return "it has too few elements"


def test_no_given_cost_makes_a_backend_run_what_it_does_not_support() -> None:
    spec = FusionSpec(Toolchain("small", compiler="small"), OpCallByKind())
    with pytest.raises(UncoveredError, match="it has too few elements"):
        collage.compile(parsed(ELU), [spec], backends=[Small()], cost=same_cost)
