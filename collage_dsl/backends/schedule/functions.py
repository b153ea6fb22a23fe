"""
Replace mathematical functions by arithmetic that LLVM vectorises.

LLVM turns a vector of `exp` into one library call for each lane. These formulas stay in vectors.
Their relative error is at most 1e-6; the coefficients are our own least-squares fits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call

from collage_dsl.backends.schedule.expressions import Expr, has_bfloat16

LOG2_E = 1.4426950408889634
LN2_HIGH, LN2_LOW = 0.693359375, -2.12194440e-4  # high part * small integer is exact
EXP = (
    1.0, 1.0, 0.4999920129776001, 0.16667133569717407, 0.04189449921250343, 0.008312049321830273,
)  # fmt: skip
EXP_LOW, EXP_HIGH = -87.33654, 88.72283  # beyond, the result is below or above the normal numbers
ROUNDING = 1.5 * 2**23  # added to a small float, its last bits are the nearest integer

WHOLE = 2.0**23  # floats from here on are integers

LEAST = 2.0**-126  # the smallest normal number

ERF_BOUND = 3.65
ERF_ABOVE = (
    1.1283791065216064, 0.20010636746883392, 0.0505961999297142, 0.0037074361462146044,
    0.00014184103929437697, -1.9545229861250846e-06, 1.9863596989466714e-08,
)  # fmt: skip
ERF_BELOW = (
    1.0, 0.5106713771820068, 0.11507224291563034, 0.014367097988724709, 0.0009569467511028051,
)  # fmt: skip

TANH_BOUND = 7.9
TANH_ABOVE = (
    1.0, 0.13452866673469543, 0.003581652417778969, 2.2067093595978804e-05, 1.5489849403138578e-08,
)  # fmt: skip
TANH_BELOW = (
    1.0, 0.46786195039749146, 0.026202373206615448, 0.00034279993269592524, 8.623806024843361e-07,
)  # fmt: skip


def vectorisable(value: Expr) -> Expr:
    """
    `value` with formulas instead of float32 calls that LLVM cannot vectorise, and with products
    instead of divisions by a number.

    A value that has bfloat16 stays as it is, since it gets no name (see `has_bfloat16`).
    """
    if has_bfloat16(value):
        return value
    rules = ((Call, _rewritten), (tirx.Div, _multiplied), (tirx.Cast, _chosen))
    return tvm_ffi.structural_map(value, rules)


def with_hyperbolic_functions(function: Any) -> Any:
    """
    A scheduled function with `tanh` as exact near 0 as elsewhere, and with `sinh` and `cosh` of the
    C library. For `tanh`, TVM's code for a CPU divides `1 - exp(-2x)`, which has no digits left
    there; for the others, TVM 0.27 makes no code of its own in vectors.
    """
    return tvm_ffi.structural_map(function, (Call, _hyperbolic))


def _hyperbolic(call: Any) -> Expr:
    match getattr(call.op, "name", ""):
        case "tirx.tanh":
            return _exact_tangent(call)
        case "tirx.cosh" | "tirx.sinh":
            return _of_c_library(call)
    return call


def _exact_tangent(call: Any) -> Expr:
    """The formula in float32; the function of the C library where that cannot be."""
    (x,) = call.args
    if _is_float(call) and not has_bfloat16(x):
        return hyperbolic_tangent(x)
    symbol = {"float32": "tanhf", "float64": "tanh"}.get(str(call.ty.dtype))
    return tirx.call_pure_extern(str(call.ty.dtype), symbol, x) if symbol else call


def _of_c_library(call: Any) -> Expr:
    """The function of the C library with the same name; that of float32 for shorter floats."""
    name, (x,), dtype = call.op.name.removeprefix("tirx."), call.args, str(call.ty.dtype)
    if dtype == "float64":
        return tirx.call_pure_extern(dtype, name, x)
    wide = tirx.call_pure_extern("float32", f"{name}f", x.astype("float32"))
    return wide.astype(dtype)


def _chosen(cast: Any) -> Expr:
    """1 or 0 for a truth value. TVM 0.27 fails where a name has a vector of casts as its value."""
    dtype = str(cast.ty.dtype)
    if str(cast.value.ty.dtype) != "bool" or dtype not in ("float32", "float64", "int32", "int64"):
        return cast
    return tirx.Select(cast.value, tirx.const(1, dtype), tirx.const(0, dtype))


def _multiplied(division: Any) -> Expr:
    number = division.b.value if isinstance(division.b, tirx.Cast) else division.b
    if not _is_float(division) or not isinstance(number, (tirx.FloatImm, tirx.IntImm)):
        return division
    size = abs(number.value)
    return division.a * _f(1 / number.value) if LEAST <= size <= 1 / LEAST else division


def _rewritten(call: Any) -> Expr:
    formula = FORMULAS.get(getattr(call.op, "name", ""))
    return formula(call) if formula and _is_float(call) else call


def _is_float(expression: Expr) -> bool:
    return str(expression.ty.dtype) == "float32"


def _f(value: float) -> Expr:
    return tirx.FloatImm("float32", value)


def _named(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """`body(value)`, with the value computed only once, however often `body` uses it."""
    if isinstance(value, (tirx.Var, tirx.FloatImm)):
        return body(value)
    variable = tirx.Var("t", value.ty.dtype)
    return tirx.Let(variable, value, body(variable))


def _polynomial(x: Expr, factors: Sequence[float]) -> Expr:
    result = _f(factors[-1])
    for factor in reversed(factors[:-1]):
        result = result * x + _f(factor)
    return result


def _clamped(x: Expr, low: float, high: float) -> Expr:
    """`x` limited to the bounds. NaN stays NaN, unlike with `min` and `max`."""
    return tirx.Select(x < _f(low), _f(low), tirx.Select(x > _f(high), _f(high), x))


def exponential(x: Expr) -> Expr:
    """
    2^n e^r with |r| < 0.35. The result is zero where it would be below the normal numbers.

    `n` is taken from the bits of a float that was rounded, and is added to the exponent.
    """

    def whole(x: Expr) -> Expr:
        inside = _named(_clamped(x, EXP_LOW, EXP_HIGH), _bounded_exponential)
        above = tirx.Select(x > _f(EXP_HIGH), tirx.FloatImm("float32", math.inf), inside)
        return tirx.Select(x < _f(EXP_LOW), _f(0.0), above)

    return _named(x, whole)


def exponential_of_difference(x: Expr) -> Expr:
    """`exponential(x)` where `x` is at most 0, as a number less the maximum of several, or NaN."""
    return _named(x, lambda x: tirx.Select(x < _f(EXP_LOW), _f(0.0), _bounded_exponential(x)))


def _bounded_exponential(x: Expr) -> Expr:
    """The exponential of a named `x`, where it is a normal number; elsewhere anything."""

    def scaled(rounded: Expr) -> Expr:
        exponent = tirx.reinterpret("int32", rounded) << 23
        bits = tirx.reinterpret("int32", _named(rounded - _f(ROUNDING), series))
        return tirx.reinterpret("float32", bits + exponent)

    def series(n: Expr) -> Expr:
        r = (x - n * _f(LN2_HIGH)) - n * _f(LN2_LOW)
        return _named(r, lambda r: _polynomial(r, EXP))

    return _named(x * _f(LOG2_E) + _f(ROUNDING), scaled)


def sigmoid(x: Expr) -> Expr:
    return _f(1.0) / (_f(1.0) + exponential(_f(0.0) - x))


def hyperbolic_tangent(x: Expr) -> Expr:
    """A quotient of polynomials; the value is within 3e-7 of 1 beyond the bound."""
    return _odd_quotient(x, TANH_ABOVE, TANH_BELOW, TANH_BOUND)


def error_function(x: Expr) -> Expr:
    """A quotient of polynomials; the value is within 3e-7 of 1 beyond the bound."""
    return _odd_quotient(x, ERF_ABOVE, ERF_BELOW, ERF_BOUND)


def _odd_quotient(x: Expr, above: Sequence[float], below: Sequence[float], bound: float) -> Expr:
    """
    `x` times a quotient of polynomials in x², and 1 or -1 beyond the bound. There, the quotient
    could be above 1, which would change the sign of a GELU, or be infinity over infinity.
    """

    def whole(x: Expr) -> Expr:
        quotient = _named(x * x, lambda u: x * _polynomial(u, above) / _polynomial(u, below))
        limited = tirx.Select(x < _f(-bound), _f(-1.0), quotient)
        return tirx.Select(x > _f(bound), _f(1.0), limited)

    return _named(x, whole)


def nearest(x: Expr) -> Expr:
    """
    The nearest integer, of two the even one, with the sign of `x`. A size below WHOLE has no more
    digits after the point once WHOLE is added; larger ones are integers, infinite, or NaN.
    """

    def whole(x: Expr) -> Expr:
        bits = tirx.reinterpret("int32", x)
        sign = tirx.bitwise_and(bits, tirx.IntImm("int32", -(2**31)))
        size = tirx.reinterpret("float32", tirx.bitwise_xor(bits, sign))
        return _named(size, lambda size: tirx.Select(size < _f(WHOLE), signed(size, sign), x))

    def signed(size: Expr, sign: Expr) -> Expr:
        rounded = _named(size + _f(WHOLE), lambda moved: moved - _f(WHOLE))
        bits = tirx.bitwise_or(tirx.reinterpret("int32", rounded), sign)
        return tirx.reinterpret("float32", bits)

    return _named(x, whole)


PRODUCTS = (3, 4)
"""
Exponents whose powers are made as products at once. TVM's `pow` prints advice about every number
from 3 on, so any other such number stays a tensor.
"""
PRODUCT_DTYPES = ("float16", "float32", "float64")
"""The types of these products. Those of bfloat16 are computed in float32."""


def power(x: Expr, exponent: Expr) -> Expr | None:
    """The power, if the exponent is a constant multiple of 1/4 of at most 4; else None."""
    if not isinstance(exponent, tirx.FloatImm) or not 0 < exponent.value <= 4:
        return None
    quarters = exponent.value * 4
    if quarters != int(quarters):
        return None
    whole, part = divmod(int(quarters), 4)

    def product(x: Expr) -> Expr:
        factors = [x] * whole
        factors += [tirx.sqrt(x)] if part >= 2 else []
        factors += [tirx.sqrt(tirx.sqrt(x))] if part % 2 else []
        result = factors[0]
        for factor in factors[1:]:
            result = result * factor
        return result

    return _named(x, product)


def _power(call: Any) -> Expr:
    result = power(call.args[0], call.args[1])
    return call if result is None else result


FORMULAS: dict[str, Callable[[Any], Expr]] = {
    "tirx.nearbyint": lambda call: nearest(call.args[0]),
    "tirx.exp": lambda call: exponential(call.args[0]),
    "tirx.sigmoid": lambda call: sigmoid(call.args[0]),
    "tirx.tanh": lambda call: hyperbolic_tangent(call.args[0]),
    "tirx.erf": lambda call: error_function(call.args[0]),
    "tirx.pow": _power,
    "tirx.rsqrt": lambda call: _f(1.0) / tirx.sqrt(call.args[0]),
}
