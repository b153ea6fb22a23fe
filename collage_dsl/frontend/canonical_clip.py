"""The canonical form of `clip`, which TVM's importer of ONNX writes as functions of TIR."""

from collections.abc import Callable
from math import inf, isnan
from typing import Any

import tvm_ffi
from tvm import relax, tirx, topi

from collage_dsl.frontend.bindings import is_leaf
from collage_dsl.frontend.canonical_call import OldCall, dims_of, passed_on
from collage_dsl.frontend.onnx_operators import limited
from collage_dsl.frontend.onnx_site import Value, layout_of


def clip(call: OldCall) -> Value | None:
    """
    With bounds that are floats, as the elements. A bound that is infinite is none: TVM's importer
    of PyTorch writes `relu6` as `clip(clip(x, 0, inf), -inf, 6)`.
    """
    bounds = _bounds(call)
    if bounds is None:
        return None
    low, high = bounds
    if low is None and high is None:
        return passed_on(call)
    inner = call.made_by(0, "clip") if low is None else None
    lower, no_upper = (inner and _bounds(inner)) or (None, None)
    if inner and high is not None and lower is not None and no_upper is None and lower <= high:
        return relax.op.clip(inner.expr(0), lower, high)
    return limited(call.expr(0), low, high)


def _bounds(call: OldCall) -> tuple[float | None, float | None] | None:
    """The bounds of a call of `clip`; None if it is not one of floats with known bounds."""
    bounds = call.call.args[1:]
    if layout_of(call.type) is None or not call.has_leaves(0):
        return None
    if not all(isinstance(bound, tirx.IntImm | tirx.FloatImm) for bound in bounds):
        return None
    low, high = (float(bound.value) for bound in bounds)
    return None if low == -inf else low, None if high == inf else high


def call_tir(call: OldCall) -> Value | None:
    """What TVM writes for `Clip`."""
    upper = _bound(call, topi.minimum)
    if upper is None:
        lower = _bound(call, topi.maximum)
        return None if lower is None else _bounded(call, lower, None)
    operand = _operands(call)[0]
    made = call.writer.old.call(operand, "call_tir")
    if made is None or call.writer.uses[call.writer.key(operand)] != 1:
        return _bounded(call, None, upper)
    inner = OldCall(call.writer, made, call.writer.key(operand))
    lower = _bound(inner, topi.maximum)
    is_range = lower is not None and lower <= upper
    return _bounded(inner, lower, upper) if is_range else _bounded(call, None, upper)


def _bounded(call: OldCall, low: float | None, high: float | None) -> Value:
    """The canonical form of `Clip` on the operand of a PrimFunc."""
    return limited(call.writer.expr(call.writer.key(_operands(call)[0])), low, high)


def _operands(call: OldCall) -> list[Any]:
    return [call.writer.old.resolved(each) for each in call.call.args[1].fields]


def _bound(call: OldCall, operator: Callable[..., Any]) -> float | None:
    """The number that a call of a PrimFunc compares all elements with by `operator`."""
    found = call.writer.functions(call.call.args[0])
    operands = _operands(call)
    if found is None or not 1 <= len(operands) <= 2 or not all(map(is_leaf, operands)):
        return None
    x = operands[0].ty
    if layout_of(x) is None or dims_of(x) is None:
        return None
    if len(operands) == 2:
        array = call.writer.constant(call.writer.key(operands[1]))
        bounds = [] if array is None or array.ndim else [array.item()]
    else:
        bounds = _floats(found)
    for bound in bounds:
        other = operands[1].ty if len(operands) == 2 else tirx.const(bound, str(x.dtype.dtype))
        if not isnan(bound) and tvm_ffi.structural_equal(found, _compiled(operator, x, other)):
            return float(bound)
    return None


def _floats(function: Any) -> list[float]:
    found: list[float] = []
    tvm_ffi.structural_walk(function, (tirx.FloatImm, lambda each: found.append(each.value)))
    return found


def _compiled(operator: Callable[..., Any], x: Any, other: Any) -> Any:
    """The PrimFunc of `operator`, as `BlockBuilder.call_te` makes it."""
    builder = relax.BlockBuilder()
    given = [relax.Var("x", x)]
    if isinstance(other, relax.TensorType):
        given.append(relax.Var("y", other))
    operands = given if len(given) == 2 else [*given, other]
    call = builder.call_te(operator, *operands)
    return builder.get()[call.args[0]]
