"""Models that end the process of onnxruntime for some inputs."""

import numpy as np
import onnx
from onnx.parser import parse_model

import collage_dsl as collage
from collage_dsl.frontend.crashing import may_crash
from collage_dsl.frontend.reference import reference_session

SCAN = """
<ir_version: 8, opset_import: ["" : 17]>
g (float[b, n, 3] x, float[b, 3] start) => (float[b, 3] last, float[b, m, 3] sums)
<int64[1] four = {4}, int64[1] end = {1000000}, int64[1] axis = {1}>
{
    late = Slice(x, four, end, axis)
    last, sums = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
        body = step (float[b, 3] before, float[b, 3] now)
            => (float[b, 3] after, float[b, 3] given)
            { after = Add(before, now) given = Identity(after) }>(start, late)
}
"""
"""onnxruntime divides by the length of the sequence, which is 0 for an `n` of 4 or less."""


def test_a_model_is_compiled_whose_sequence_is_empty_for_small_inputs() -> None:
    model = parse_model(SCAN)
    random = np.random.default_rng(0)
    inputs = {
        "x": random.normal(size=(2, 9, 3)).astype(np.float32),
        "start": random.normal(size=(2, 3)).astype(np.float32),
    }

    made = collage.compile(model, ["native", "onnxruntime"], cost=lambda _: 1e-6, race_seconds=0.01)

    found = made.run(inputs)
    last, sums = reference_session(model).run(None, inputs)
    np.testing.assert_allclose(found["last"], last, rtol=1e-5)
    np.testing.assert_allclose(found["sums"], sums, rtol=1e-5)


def test_only_a_scan_along_another_axis_may_crash() -> None:
    assert may_crash(parse_model(SCAN))
    assert not may_crash(
        parse_model(SCAN.replace("scan_input_axes = [1]", "scan_input_axes = [0]"))
    )
    plain: onnx.ModelProto = parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
    )
    assert not may_crash(plain)
