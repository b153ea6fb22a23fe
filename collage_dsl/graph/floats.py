"""Formats of floating-point numbers with 4 to 32 bits: what they hold, and how they round."""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """
    Numbers with `fraction` bits after the leading one, exponents of two from `least_exponent` on,
    and `largest` as the largest number.
    """

    fraction: int
    least_exponent: int
    largest: float
    is_positive: bool = False
    """Whether there is neither a sign nor a zero."""

    def rounded(self, value: float) -> float:
        """The nearest number, of two the even one; `value` itself if it is too large."""
        if not self.holds(value) or value == 0:
            return value
        exponent = max(math.frexp(value)[1] - 1, self.least_exponent)
        step = math.ldexp(1.0, exponent - self.fraction)
        nearest = round(value / step) * step
        return max(nearest, math.ldexp(1.0, self.least_exponent)) if self.is_positive else nearest

    def holds(self, value: float) -> bool:
        """Whether `value`, rounded, is at most the largest number."""
        step = math.ldexp(1.0, math.frexp(self.largest)[1] - 1 - self.fraction)
        fits = abs(value) < self.largest + step / 2
        return fits and (value > 0 or not self.is_positive)


FORMATS: Mapping[str, FloatFormat] = {
    "float16": FloatFormat(10, -14, 65504.0),
    "bfloat16": FloatFormat(7, -126, (2 - 2**-7) * 2.0**127),
    "float32": FloatFormat(23, -126, (2 - 2**-23) * 2.0**127),
    "float8_e3m4": FloatFormat(4, -2, 15.5),
    "float8_e4m3": FloatFormat(3, -6, 240.0),
    "float8_e4m3b11fnuz": FloatFormat(3, -10, 30.0),
    "float8_e4m3fn": FloatFormat(3, -6, 448.0),
    "float8_e4m3fnuz": FloatFormat(3, -7, 240.0),
    "float8_e5m2": FloatFormat(2, -14, 57344.0),
    "float8_e5m2fnuz": FloatFormat(2, -15, 57344.0),
    "float8_e8m0fnu": FloatFormat(0, -127, 2.0**127, is_positive=True),
    "float4_e2m1fn": FloatFormat(1, 0, 6.0),
}
"""By dtype. Those of 8 and 4 bits are the formats of the OCP specifications and of `ml_dtypes`."""


def rounded(value: float, dtype: str) -> float:
    """`value` as a tensor of `dtype` has it: 0.1 is 0.10000000149… in float32."""
    return FORMATS[dtype].rounded(value) if dtype in FORMATS else value


def as_written(value: float) -> float:
    """
    The number with at most six digits that float32 rounds to `value`; `value` if there is none.
    Attributes of ONNX are float32, so an epsilon of 1e-05 is read as 9.99999974…e-06.
    """
    if value.is_integer() or not FORMATS["float32"].holds(value):
        return value
    shorter = (float(f"{value:.{digits}g}") for digits in range(1, _SURE_DIGITS + 1))
    return next((each for each in shorter if rounded(each, "float32") == value), value)


_SURE_DIGITS = 6
"""Two numbers with so many digits are never the same in float32."""


def has_infinity(dtype: str) -> bool:
    """Whether infinite numbers are elements of `dtype`."""
    return "float" in dtype and "fn" not in dtype


def precision(dtype: str) -> float:
    """By how much the rounding of a number of `dtype` may change it, relative to the number."""
    fraction = FORMATS[dtype].fraction if dtype in FORMATS else 52
    return 2.0**-fraction
