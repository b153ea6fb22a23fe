"""A Resize to the nearest elements takes those that onnxruntime takes."""

from __future__ import annotations

import random

import numpy as np
import onnx
import pytest
from onnx import parser

import collage_dsl as collage
from collage_dsl.frontend.nearest import nearest, nearest_by_tvm
from tests.reference import run_onnx

MODES = ("half_pixel", "asymmetric", "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")


def resized(size: int, made: int, coordinates: str, rounding: str) -> onnx.ModelProto:
    return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[1,1,2,{size}] x) => (float[1,1,4,{made}] y) <int64[4] s = {{1, 1, 4, {made}}}> {{
          y = Resize <mode = "nearest", coordinate_transformation_mode = "{coordinates}",
            nearest_mode = "{rounding}"> (x, , , s)
        }}""")


def taken(size: int, made: int, coordinates: str, rounding: str) -> np.ndarray:
    x = np.tile(np.arange(size, dtype=np.float32), (1, 1, 2, 1))
    (y,) = run_onnx(resized(size, made, coordinates, rounding), {"x": x}).values()
    return np.asarray(y[0, 0, 0], np.int64)


def test_the_elements_are_those_of_onnxruntime() -> None:
    random.seed(1)
    unknown = 0
    for _ in range(300):
        size = random.randint(1, 60)
        made = random.choice([2 * size, 3 * size, random.randint(1, 120)])
        how = random.choice(MODES), random.choice(ROUNDINGS)
        found = nearest(size, made, made / size, *how)
        if found is None:
            unknown += 1
        else:
            np.testing.assert_array_equal(found, taken(size, made, *how))
    assert unknown < 10


DIFFERENT = [
    (15, 39, "half_pixel", "ceil"),
    (4, 13, "half_pixel", "round_prefer_floor"),
    (31, 93, "align_corners", "round_prefer_floor"),
    (25, 15, "asymmetric", "floor"),
]


@pytest.mark.parametrize(("size", "made", "coordinates", "rounding"), DIFFERENT)
def test_a_model_is_compiled_where_tvm_takes_others(
    size: int, made: int, coordinates: str, rounding: str
) -> None:
    right = taken(size, made, coordinates, rounding)
    by_tvm = nearest_by_tvm(size, made, coordinates, rounding)
    assert by_tvm is None or not np.array_equal(by_tvm, right)
    model = resized(size, made, coordinates, rounding)

    compiled = collage.compile(model, ["native"], cost=lambda _: 1e-6, race_seconds=0.01, plans=1)

    x = np.random.default_rng(0).standard_normal((1, 1, 2, size), "float32")
    np.testing.assert_array_equal(compiled.run({"x": x})["y"], run_onnx(model, {"x": x})["y"])


def test_onnxruntime_takes_those_in_the_middle_of_two() -> None:
    size, made, *how = 20, 6, "half_pixel", "round_prefer_ceil"
    assert nearest(size, made, made / size, *how) is None
    model = resized(size, made, *how)

    targets = ["native", "onnxruntime"]
    found = collage.compile(model, targets, cost=lambda _: 1e-6, race_seconds=0.01, plans=1)

    assert [kernel.label for kernel in found.plan.kernels] == ["onnx.Resize"]
