"""The elements that a `Resize` to the nearest ones takes, in ONNX and in TVM."""

from __future__ import annotations

from typing import Any

import numpy as np

from collage_dsl.graph.arrays import Array

KNOWN_COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
"""The transformations of coordinates whose elements are known here."""

HALF = np.float32(0.5)


def nearest(size: int, made: int, scale: float, coordinates: str, rounding: str) -> Array | None:
    """
    The element of an axis of `size` that each of the `made` elements is, as onnxruntime computes
    it in float32. `scale` is what `made` is divided by, or what the model says. None where one is
    in the middle of two, and it depends on how the scale is rounded which of them is taken.
    """
    x, factor = np.arange(made, dtype=np.float32), np.float32(scale)
    if coordinates == "align_corners":
        at = x * np.float32(size - 1) / np.float32(max(made - 1, 1))
        return _rounded(at, size, rounding)
    shift = HALF if coordinates.endswith("half_pixel") else np.float32(0)
    one = _rounded((x + shift) / factor - shift, size, rounding)
    if rounding in ("floor", "ceil"):
        return one
    ratio = made / size if np.float32(made / size) == factor else float(factor)
    other = _rounded((x + shift).astype(np.float64) / ratio - shift, size, rounding)
    return one if np.array_equal(one, other) else None


def _rounded(at: Array, size: int, rounding: str) -> Array:
    down = np.trunc(at)
    rounded = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_ceil": np.floor(np.abs(at) + HALF) * np.sign(at),
        "round_prefer_floor": np.where(at == down + HALF, down, np.rint(at)),
    }[rounding]
    return np.clip(rounded, 0, size - 1).astype(np.int64)


def nearest_by_tvm(size: int, made: int, coordinates: str, rounding: str) -> Array | None:
    """The same in TVM's operator; None where it depends on how the processor rounds products."""
    if coordinates == "asymmetric" and rounding == "floor" and made % size == 0:
        return np.arange(made) // (made // size)
    one, other = (
        _by_tvm(size, made, coordinates, rounding, wide) for wide in (np.float32, np.float64)
    )
    return one if np.array_equal(one, other) else None


def _by_tvm(size: int, made: int, coordinates: str, rounding: str, wide: Any) -> Array:
    """Products have the type `wide` until something is added to them."""
    corners = coordinates == "align_corners"
    taken = (size - 1, max(made - 1, 1)) if corners else (size, made)
    ratio = np.float32(taken[0]) / np.float32(taken[1])
    shift = HALF if coordinates.endswith("half_pixel") else np.float32(0)
    x = np.arange(made, dtype=np.float32) + shift
    at = (x.astype(wide) * wide(ratio) - shift).astype(np.float32)
    nearly = np.float32(1e-5)
    rounded = {
        "floor": np.floor(at + nearly),
        "ceil": np.ceil(at - nearly),
        "round_prefer_ceil": np.floor(at + HALF),
        "round_prefer_floor": np.ceil(at - HALF),
    }[rounding]
    return np.clip(rounded, 0, size - 1).astype(np.int64)
