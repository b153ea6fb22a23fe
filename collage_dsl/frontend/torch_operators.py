"""What is written in ONNX for operators of PyTorch that PyTorch's own exporter writes wrongly."""

from functools import reduce
from math import log, pi
from typing import Any


def decomposed(program: Any) -> Any:
    """
    `program`, in which a cross entropy is written by other operators. For it, the exporter takes
    only classes as a target, and leaves out the smoothing of labels.
    """
    import torch

    cross_entropy = torch.ops.aten.cross_entropy_loss.default
    if all(node.target is not cross_entropy for node in program.graph.nodes):
        return program
    known = torch.export.default_decompositions()
    return program.run_decompositions({cross_entropy: known[cross_entropy]})


def translations() -> dict[Any, Any]:
    """
    What is written for single operators. For many of these, the exporter writes logarithms of
    powers that may be 0 or infinite: `Log(Sigmoid(x))` is -inf for -200, where PyTorch gives -200.
    """
    import torch

    left, right = torch.ops.aten.bitwise_left_shift, torch.ops.aten.bitwise_right_shift
    return {
        left.Tensor: _shifted_left,
        left.Tensor_Scalar: _shifted_left,
        right.Tensor: _shifted_right,
        right.Tensor_Scalar: _shifted_right,
        torch.ops.aten.__lshift__.Tensor: _shifted_left,
        torch.ops.aten.__lshift__.Scalar: _shifted_left,
        torch.ops.aten.__rshift__.Tensor: _shifted_right,
        torch.ops.aten.__rshift__.Scalar: _shifted_right,
        torch.ops.aten.atan2.default: _atan2,
        torch.ops.aten.log_sigmoid.default: _log_sigmoid,
        torch.ops.aten.logaddexp.default: _log_add_exp,
        torch.ops.aten.logaddexp2.default: _log_add_exp2,
        torch.ops.aten.logcumsumexp.default: _log_cumulative_sum_exp,
        torch.ops.aten.special_erfcx.default: _scaled_erfc,
    }


def _shifted_left(x: Any, count: Any) -> Any:
    """The exporter gives signed integers for unsigned ones, here and in shifts to the right."""
    return _shifted(x, count, "LEFT", x.dtype)


def _shifted_right(x: Any, count: Any) -> Any:
    from onnxscript import opset18 as op

    if x.dtype.name.startswith("UINT"):
        return _shifted(x, count, "RIGHT", x.dtype)
    is_negative = op.Less(x, _number(0, x))
    size = op.Where(is_negative, op.BitwiseNot(x), x)
    shifted = _shifted(size, count, "RIGHT", x.dtype)
    return op.Where(is_negative, op.BitwiseNot(shifted), shifted)


def _shifted(x: Any, count: Any, direction: str, dtype: Any) -> Any:
    """ONNX shifts only unsigned integers."""
    from onnxscript import ir
    from onnxscript import opset18 as op

    unsigned = ir.DataType[f"UINT{dtype.bitwidth}"]
    count = op.Constant(value=ir.tensor(count, dtype=dtype)) if isinstance(count, int) else count
    bits, count = op.Cast(x, to=unsigned), op.Cast(count, to=unsigned)
    return op.Cast(op.BitShift(bits, count, direction=direction), to=dtype)


def _number(value: float, like: Any) -> Any:
    """A number of the dtype of `like`."""
    from onnxscript import ir
    from onnxscript import opset18 as op

    return op.CastLike(op.Constant(value=ir.tensor(value, dtype=ir.DataType.DOUBLE)), like)


def _log_sigmoid(x: Any) -> Any:
    from onnxscript import opset18 as op

    return op.Neg(op.Softplus(op.Neg(x)))


def _log_add_exp(x: Any, y: Any) -> Any:
    from onnxscript import opset18 as op

    between = op.Where(op.Equal(x, y), _number(0, x), op.Sub(x, y))  # infinities may be equal
    return op.Add(op.Max(x, y), op.Softplus(op.Neg(op.Abs(between))))


def _log_add_exp2(x: Any, y: Any) -> Any:
    from onnxscript import opset18 as op

    one_bit = _number(log(2), x)
    return op.Div(_log_add_exp(op.Mul(x, one_bit), op.Mul(y, one_bit)), one_bit)


def _log_cumulative_sum_exp(x: Any, dim: int) -> Any:
    """
    Each round adds to an element what stands `step` before it. It is then the sum of twice as many
    elements.
    """
    from onnxscript import opset18 as op

    if not len(x.shape):
        return op.Identity(x)
    size = x.shape[dim]
    if not isinstance(size, int):
        return _of_all_before(x, dim % len(x.shape))

    def part(value: Any, start: int, end: int) -> Any:
        bounds = (op.Constant(value_ints=[each]) for each in (start, end, dim))
        return op.Slice(value, *bounds)

    step = 1
    while step < size:
        added = _log_add_exp(part(x, step, size), part(x, 0, size - step))
        x = op.Concat(part(x, 0, step), added, axis=dim)
        step *= 2
    return x


def _of_all_before(x: Any, dim: int) -> Any:
    """
    The logarithm of the sum of the powers of each element and those before it, where their number
    is not known: all pairs of elements are written out.
    """
    from onnxscript import opset18 as op

    size = op.Shape(x, start=dim, end=dim + 1)
    ones = op.Expand(op.Constant(value_ints=[1]), op.Concat(size, size, axis=0))
    is_before = op.Cast(op.Trilu(ones, upper=0), to=9)  # a bool
    behind = list(range(2, 2 + len(x.shape) - dim - 1))
    if behind:
        is_before = op.Unsqueeze(is_before, op.Constant(value_ints=behind))
    pairs = op.Unsqueeze(x, op.Constant(value_ints=[dim]))
    added = op.Where(is_before, pairs, _number(float("-inf"), x))
    return op.ReduceLogSumExp(added, op.Constant(value_ints=[dim + 1]), keepdims=0)


def _atan2(y: Any, x: Any) -> Any:
    """The exporter gives -pi for `atan2(0, -1)`, and 0 for NaN and for two infinities."""
    from onnxscript import opset18 as op

    zero = _number(0, x)

    def is_negative(value: Any) -> Any:
        return op.Or(op.Less(value, zero), op.Less(op.Reciprocal(value), zero))  # -0 too

    are_infinite = op.And(op.IsInf(y), op.IsInf(x))
    slope = op.Where(are_infinite, op.Mul(op.Sign(y), op.Sign(x)), op.Div(y, x))
    is_zero = op.And(op.Equal(y, zero), op.Not(op.IsNaN(x)))
    angle = op.Atan(op.Where(is_zero, y, slope))
    half = op.Where(is_negative(y), _number(-pi, x), _number(pi, x))
    return op.Where(is_negative(x), op.Add(angle, half), angle)


def _scaled_erfc(x: Any) -> Any:
    """
    `exp(x * x) * erfc(x)`, with an error of 1.2e-7 of it, by the approximation of *Numerical
    Recipes*. The exporter writes the product, which is 0 times infinity from 10 on.
    """
    from onnxscript import opset18 as op

    two, half, one = (_number(each, x) for each in (2, 0.5, 1))
    size = op.Abs(x)
    t = op.Reciprocal(op.Add(op.Mul(size, half), one))
    first, *others = (_number(each, x) for each in _ERFC)
    power = reduce(lambda sum_, each: op.Add(op.Mul(sum_, t), each), others, first)
    positive = op.Mul(t, op.Exp(power))
    negative = op.Sub(op.Mul(two, op.Exp(op.Mul(x, x))), positive)
    return op.Where(op.Less(x, _number(0, x)), negative, positive)


_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
"""The coefficients of a polynomial, the highest power first."""
