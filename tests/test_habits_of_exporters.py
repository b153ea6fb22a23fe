"""Nodes that exporters write often, and that random models of all operators seldom have."""

import numpy as np
import pytest
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.realization.verify import runner


def test_a_comparison_with_a_truth_value_is_fused() -> None:
    """PyTorch divides integers rounded down in this way."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18]> g (int64[2,5] x) => (bool[2,5] y, bool[2,5] z) {
          zero = Constant <value_int = 0> ()
          true = Constant <value = bool {1}> ()
          a = Less (x, zero)
          y = Equal (a, true)
          b = Not (a)
          c = Equal (true, b)
          z = Not (c)
        }"""
    )
    compiled = collage.compile(model, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.1)
    x = np.arange(-5, 5).reshape(2, 5)

    found = compiled.run({"x": x})

    assert (found["y"] == (x < 0)).all()
    assert (found["z"] == (x < 0)).all()


@pytest.mark.parametrize("target", ["native", "onnxruntime"])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_negative_padding_takes_elements_away(mode: str, target: str) -> None:
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 19]>
        g (float[5] x) => (float[k] a, float[m] b, float[n] c) {{
          first = Constant <value_ints = [2, -1]> ()
          a = Pad <mode = "{mode}"> (x, first)
          second = Constant <value_ints = [-1, 2]> ()
          b = Pad <mode = "{mode}"> (x, second)
          third = Constant <value_ints = [-2, -1]> ()
          c = Pad <mode = "{mode}"> (x, third)
        }}"""
    )
    compiled = collage.compile(model, [target], cost=[lambda kernel: 1e-6], race_seconds=0.1)
    inputs = {"x": np.arange(1, 6, dtype=np.float32)}

    found = compiled.run(inputs)

    for name, right in runner(model)(inputs).items():
        assert found[name].tolist() == right.tolist()


@pytest.mark.parametrize(("trains", "ops"), [(0, ["nn.relu"]), (1, ["onnx.Dropout", "nn.relu"])])
def test_a_dropout_that_is_not_trained_is_left_out(trains: int, ops: list[str]) -> None:
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (float[3] x) => (float[3] y) {{
          trains = Constant <value = bool {{{trains}}}> ()
          ratio = Constant <value_float = 0.3> ()
          d = Dropout (x, ratio, trains)
          y = Relu (d)
        }}"""
    )

    assert [node.op for node in collage.from_onnx(model).nodes if node.is_call] == ops


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_enlarged_image_may_hold_infinities(mode: str) -> None:
    """Beside an infinity, a weight of 0 gives NaN, and a weight of 1e-8 gives infinity."""
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]>
        g (float[1,1,5,6] x) => (float[1,1,15,19] y) <int64[4] sizes = {{1, 1, 15, 19}}> {{
          y = Resize <mode = "{mode}"> (x, , , sizes)
        }}"""
    )

    collage.compile(model, ["native"], cost=[lambda kernel: 1e-6], race_seconds=0.1)


def test_rounding_decides_between_integers_of_16_bits() -> None:
    """The last digit of a sigmoid is a hundredth of a step."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 21]>
        g (float[64,64] x) => (float[64,64] y)
        <float s = {5e-5}, uint16 z = {35000}, float t = {1.25e-5}, uint16 zero = {0}> {
          q = QuantizeLinear (x, s, z)
          d = DequantizeLinear (q, s, z)
          g = Sigmoid (d)
          r = QuantizeLinear (g, t, zero)
          y = DequantizeLinear (r, t, zero)
        }"""
    )

    def cost(kernel: collage.CandidateKernel) -> float:
        """Small, but for the kernel of the first four calls."""
        return 1e-7 if kernel.nodes == {"q", "d", "g", "r"} else 1e-6 * len(kernel.nodes)

    for target in ("native", "onnxruntime"):
        collage.compile(model, [target], cost=[cost], race_seconds=0.1)


def test_an_attribute_of_a_function_has_its_default() -> None:
    """ONNX's own inliner leaves it out, so that an operator inside takes its own default."""
    model = parse_model(
        """<ir_version: 9, opset_import: ["": 18, "own": 1]>
        g (float[2,3] x, bool c) => (float[2,3] y, float[2,3] z) {
          y = own.outer (x)
          z = If (c) <
            then_branch = then () => (float[2,3] a) { a = own.leaky <slope = 0.75> (x) },
            else_branch = otherwise () => (float[2,3] b) { b = own.leaky (x) }
          >
        }
        <domain: "own", opset_import: ["": 18, "own": 1]>
        outer (x) => (y) { y = own.leaky (x) }
        <domain: "own", opset_import: ["": 18]>
        leaky <slope: float = 0.25> (x) => (y) { y = LeakyRelu <alpha: float = @slope> (x) }"""
    )
    targets = ["native", "onnxruntime"]
    compiled = collage.compile(model, targets, cost=[lambda kernel: 1e-6], race_seconds=0.1)
    x = -np.ones((2, 3), np.float32)

    found = compiled.run({"x": x, "c": np.array(False)})

    assert (found["y"] == -0.25).all()
    assert (found["z"] == -0.25).all()
    assert (compiled.run({"x": x, "c": np.array(True)})["z"] == -0.75).all()
