"""Resized images are resampled along their rows, and then down their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser
from tvm.relax import op as R  # noqa: N812 - as TVM prints it

from collage_dsl.backends.schedule import schedule
from collage_dsl.backends.schedule.resampling import resampling_of
from collage_dsl.backends.schedule.stages import read
from tests.cases import covering
from tests.reference import run_onnx
from tests.test_schedule import fused, native, outputs

pytestmark = pytest.mark.usefixtures("small_loops_are_shared")

Array = Any
Body = Callable[..., Any]


def model(shape: tuple[int, ...], size: tuple[int, int], **attrs: str) -> onnx.ModelProto:
    said = ", ".join(f'{name} = "{value}"' for name, value in attrs.items())
    sizes = ", ".join(map(str, (*shape[:2], *size)))
    given = ", ".join(map(str, shape))
    return parser.parse_model(f"""<ir_version: 8, opset_import: ["": 18]>
        g (float[{given}] x) => (float[{sizes}] y) <int64[4] s = {{{sizes}}}> {{
          a = Relu (x)
          b = Resize <{said}> (a, , , s)
          y = Neg (b)
        }}""")


CASES = {
    "twice": ((1, 3, 20, 18), (40, 36), "nearest", "asymmetric", "floor"),
    "four times": ((2, 2, 17, 21), (68, 84), "nearest", "half_pixel", "round_prefer_floor"),
    "no whole number of times": ((1, 3, 19, 18), (45, 50), "nearest", "asymmetric", "floor"),
    "few columns": ((1, 3, 5, 7), (10, 14), "nearest", "asymmetric", "floor"),
    "as many rows": ((1, 2, 9, 20), (9, 40), "nearest", "asymmetric", "floor"),
    "fewer columns": ((1, 2, 9, 40), (18, 20), "linear", "half_pixel", "floor"),
    "fewer rows": ((1, 3, 40, 20), (13, 30), "linear", "half_pixel", "floor"),
    "fewer rows, nearest": ((1, 3, 40, 20), (20, 40), "nearest", "asymmetric", "floor"),
    "linear": ((1, 4, 16, 17), (32, 34), "linear", "half_pixel", "floor"),
    "corners": ((1, 2, 9, 9), (65, 65), "linear", "align_corners", "floor"),
    "cubic": ((1, 2, 8, 9), (20, 30), "cubic", "half_pixel", "floor"),
}


@pytest.mark.parametrize(("name", "processor", "cores"), covering(CASES, [None, "x86-64"], [1, 2]))
def test_results_are_those_of_onnxruntime(name: str, processor: str | None, cores: int) -> None:
    shape, size, mode, coordinates, nearest = CASES[name]
    x = np.random.default_rng(0).standard_normal(shape, "float32")
    attrs = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}

    def body(emit: Any, x: Any) -> Any:
        y = R.image.resize2d(
            emit(R.nn.relu(x)),
            size,
            layout="NCHW",
            method={"nearest": "nearest_neighbor"}.get(mode, mode),
            coordinate_transformation_mode=coordinates,
            rounding_method=nearest if mode == "nearest" else "round",
        )
        return R.negative(emit(y))

    func, target = fused([shape], body), native(cores, processor)
    program = read(func)
    assert program
    assert any(resampling_of(stage) for stage in program.stages)
    (found,) = outputs(schedule(func, target=target), target, [x])

    right = run_onnx(model(shape, size, mode=mode, **attrs), {"x": x})["y"]
    np.testing.assert_allclose(found, right, rtol=1e-4, atol=2e-5)


PADS = [0, 0, 0, 0, 2, 1, 3, 2]

COPIES: dict[str, tuple[Body, Callable[[Array], Array]]] = {
    "reflected": (
        lambda emit, x: R.nn.pad(x, PADS, pad_mode="reflect"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), "reflect"),
    ),
    "of the edge": (
        lambda emit, x: R.nn.pad(x, PADS, pad_mode="replicate"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), "edge"),
    ),
    "from the other side": (
        lambda emit, x: R.nn.pad(x, PADS, pad_mode="circular"),
        lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1), (3, 2)), "wrap"),
    ),
    "beside each other": (
        lambda emit, x: R.tile(x, (1, 1, 2, 3)),
        lambda x: np.tile(x, (1, 1, 2, 3)),
    ),
}


@pytest.mark.parametrize(("name", "width", "cores"), covering(COPIES, [7, 37], [1, 2]))
def test_copies_of_rows_and_columns_are_exact(name: str, width: int, cores: int) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 9, width), "float32")
    body, copied = COPIES[name]
    func, target = fused([x.shape], body), native(cores)

    (found,) = outputs(schedule(func, target=target), target, [x])

    np.testing.assert_array_equal(found, copied(x))


@pytest.mark.parametrize(
    "body",
    [
        lambda emit, x: R.image.resize2d(x, (40, 40), layout="NHWC", method="linear"),
        lambda emit, x: R.nn.avg_pool2d(x, (2, 2), (2, 2)),
        lambda emit, x: R.strided_slice(x, [2, 3], [1, 1], [9, 9], [2, 2]),
        lambda emit, x: R.permute_dims(x, [0, 1, 3, 2]),
    ],
    ids=["channels last", "pooling", "slices", "turned"],
)
def test_others_are_no_resampling(body: Body) -> None:
    program = read(fused([(1, 20, 20, 20)], body))
    assert program
    assert not any(resampling_of(stage) for stage in program.stages)
