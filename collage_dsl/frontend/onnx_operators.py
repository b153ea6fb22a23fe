"""
Convert ONNX operators to canonical form: the one form of each that patterns look for.

TVM's converter is used for an operator that is not in `CANONICAL`.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx
import tvm_ffi
from tvm import relax, tirx

from collage_dsl.frontend.errors import CannotConvertError, UnknownSizeError, WrongNodeError
from collage_dsl.frontend.onnx_indices import (
    gather,
    gather_elements,
    gather_nd,
    one_hot,
    scatter_elements,
    scatter_nd,
    top,
)
from collage_dsl.frontend.onnx_products import (
    add,
    batch_norm,
    convolution,
    convolution_integer,
    divide,
    gemm,
    matmul,
    matmul_integer,
    multiply,
    subtract,
)
from collage_dsl.frontend.onnx_site import (
    Converter,
    Site,
    Value,
    known_dims,
    layout_of,
    static_dims,
)
from collage_dsl.frontend.onnx_windows import (
    global_average_pool,
    grid_sample,
    local_response_norm,
    lp_pool,
    pad,
    pool,
    resize,
    roi_align,
    transposed_convolution,
    upsample,
)


def chain(operator: Callable[..., Any], site: Site) -> Value:
    """A binary operator on all operands, one after the other."""
    result = site.expr(0)
    for place in range(1, len(site.node.input)):
        result = operator(result if place == 1 else site.scope.emit(result), site.expr(place))
    return result


def mean(site: Site) -> Value:
    """The sum of all operands, divided by their number."""
    total, count = chain(relax.op.add, site), len(site.node.input)
    if count == 1:
        return total
    total = site.scope.emit(total)
    return relax.op.multiply(total, relax.const(1 / count, str(total.ty.dtype.dtype)))


def clip(site: Site) -> Value | None:
    """
    `clip`; with only one bound, `nn.relu`, `maximum` or `minimum`. A bound that is NaN is none, as
    in onnxruntime.
    """
    x = site.expr(0)
    if site.scope.opset < 11:
        low, high = site.attrs.get("min"), site.attrs.get("max")
    else:
        arrays = site.constant(1), site.constant(2)
        if any(site.has(place) and arrays[place - 1] is None for place in (1, 2)):
            return _clip_to_computed(site)
        low, high = (None if array is None else array.item() for array in arrays)
    low, high = (None if bound != bound else bound for bound in (low, high))
    dtype = str(x.ty.dtype.dtype)
    if low is None or high is None or low <= high:
        return limited(x, low, high)
    raised = relax.op.maximum(x, relax.const(low, dtype))
    return relax.op.minimum(site.scope.emit(raised), relax.const(high, dtype))


def limited(x: Any, low: float | None, high: float | None) -> Value:
    """The numbers of `x` between two bounds, of which `low` is the lower one, or within one."""
    dtype = str(x.ty.dtype.dtype)
    if low is not None and high is not None:
        return relax.op.clip(x, low, high)
    if low is not None:
        return relax.op.nn.relu(x) if low == 0 else relax.op.maximum(x, relax.const(low, dtype))
    return x if high is None else relax.op.minimum(x, relax.const(high, dtype))


def _clip_to_computed(site: Site) -> Value:
    """`maximum` and `minimum`."""
    result, emit = site.expr(0), site.scope.emit
    for place, operator, none in (
        (1, relax.op.maximum, -math.inf),
        (2, relax.op.minimum, math.inf),
    ):
        if site.has(place):
            bound = site.expr(place)
            if layout_of(site.expr(0).ty) is not None:
                is_none = emit(relax.op.isnan(bound))
                limit = relax.const(none, str(bound.ty.dtype.dtype))
                bound = emit(relax.op.where(is_none, limit, bound))
            result = emit(operator(result, bound))
    return result


def einsum(site: Site) -> Value:
    """
    TVM's operator, which libraries have too; TVM's converter makes a function of TIR. TVM takes as
    many elements of each operand as the largest size of a letter, so named sizes must be equal.
    """
    equation = site.attrs["equation"].decode().replace(" ", "")
    operands = [site.expr(place) for place in range(len(site.node.input))]
    sizes: dict[str, Any] = {}
    for term, operand in zip(equation.partition("->")[0].split(","), operands, strict=True):
        for letter, size in _lettered(term, operand.ty):
            known = sizes.setdefault(letter, size)
            are_numbers = isinstance(known, tirx.IntImm) and isinstance(size, tirx.IntImm)
            if not are_numbers and not tvm_ffi.structural_equal(known, size):
                raise UnknownSizeError("an Einsum over sizes that may differ is not supported")
    return relax.op.einsum(relax.Tuple(operands), equation)


def _lettered(term: str, type_: Any) -> Iterator[tuple[str, Any]]:
    """Each letter of an operand and its size. The axes of an ellipsis are digits, the last is 9."""
    if not isinstance(type_.shape, relax.ShapeExpr):
        raise UnknownSizeError("an Einsum of tensors of unknown sizes is not supported")
    dims = list(type_.shape.values)
    others = len(dims) - len(term.replace("...", ""))
    return zip(term.replace("...", "0123456789"[10 - others :]), dims, strict=True)


def softmax(operator: Callable[..., Any], site: Site) -> Value:
    """
    `Softmax`. Before operator set 13 it is over all axes from `axis` on. The last axis is -1, as in
    the patterns of libraries.
    """
    x = site.expr(0)
    dims = static_dims(x.ty)
    default = 1 if site.scope.opset < 13 else -1
    axis = site.attrs.get("axis", default) % max(len(dims), 1)
    if axis == len(dims) - 1:
        return operator(x, axis=-1)
    if site.scope.opset >= 13 or all(dim == 1 for dim in dims[axis + 1 :]):
        return operator(x, axis=axis)
    if (known := known_dims(dims)) is None:
        raise UnknownSizeError(f"{site.node.op_type} over several axes, not all of known size")
    flat = relax.op.reshape(x, (prod(known[:axis]), prod(known[axis:])))
    result = operator(site.scope.emit(flat), axis=-1)
    return relax.op.reshape(site.scope.emit(result), known)


def reduce_log_sum_exp(site: Site) -> Value | None:
    """
    `log(sum(exp(x - m))) + m`, where `m` is the maximum if it is finite, else 0: infinity minus
    infinity would be NaN.
    """
    axes = site.attrs.get("axes")
    if site.scope.opset >= 18 and site.has(1):
        found = site.constant(1)
        if found is None:
            return None
        axes = found.tolist()
    x, emit = site.expr(0), site.scope.emit
    if not axes and site.attrs.get("noop_with_empty_axes"):
        return x
    axes, keeps = axes or None, bool(site.attrs.get("keepdims", 1))
    infinity, zero = (relax.const(number, str(x.ty.dtype.dtype)) for number in (math.inf, 0.0))
    most = emit(relax.op.max(x, axes, True))
    is_infinite = emit(relax.op.equal(emit(relax.op.abs(most)), infinity))
    shift = emit(relax.op.where(is_infinite, zero, most))
    total = emit(relax.op.sum(emit(relax.op.exp(emit(relax.op.subtract(x, shift)))), axes, True))
    result = relax.op.add(emit(relax.op.log(total)), shift)
    return result if keeps else relax.op.squeeze(emit(result), axes)


def thresholded_relu(site: Site) -> Value:
    x, alpha = site.expr(0), site.attrs.get("alpha", 1.0)
    threshold, zero = (relax.const(number, str(x.ty.dtype.dtype)) for number in (alpha, 0.0))
    return relax.op.where(site.scope.emit(relax.op.greater(x, threshold)), x, zero)


def flatten(site: Site) -> Value | None:
    """TVM's operators, except for no elements: the size of the rest does not follow from them."""
    dims = static_dims(site.expr(0).ty)
    known = known_dims(dims)
    if known is None or 0 not in known:
        return None
    axis = site.attrs.get("axis", 1)
    return relax.op.reshape(site.expr(0), (prod(known[:axis]), prod(known[axis:])))


def prelu(site: Site) -> Value | None:
    """TVM's operators, except for slopes that do not fit, which its kernel does not see."""
    dims, slopes = (static_dims(site.expr(place).ty) for place in (0, 1))
    if len(slopes) > len(dims):
        raise WrongNodeError(f"the slopes have {len(slopes)} dimensions, the tensor {len(dims)}")
    for size, count in zip(dims[len(dims) - len(slopes) :], slopes, strict=True):
        if count == 1:
            continue
        if size is None or count is None:
            raise UnknownSizeError("slopes along an axis of unknown size are not supported")
        if size != count:
            raise WrongNodeError(f"{count} slopes do not fit an axis of {size} elements")
    return None


def split(site: Site) -> Value | None:
    """TVM's operator, except along an axis that may not have the size of all parts."""
    size = static_dims(site.expr(0).ty)[site.attrs.get("axis", 0)]
    if size is None and "num_outputs" not in site.attrs:
        raise UnknownSizeError("parts of an axis of unknown size are not supported")
    return None


def shrink(site: Site) -> Value | None:
    """TVM's operators, except for a threshold below 0: they add both sides, which overlap then."""
    if site.attrs.get("lambd", 0.5) < 0:
        raise CannotConvertError("Shrink with a threshold below 0 is not supported")
    return of_floats(site)


def of_floats(site: Site) -> Value | None:
    """
    TVM's operators, except for integers: it rounds the threshold of `Shrink`, and means of integers
    have another type than it says.
    """
    if "float" not in str(site.expr(0).ty.dtype.dtype):
        raise CannotConvertError(f"{site.node.op_type} of integers is not supported")
    return None


def group_norm(site: Site) -> Value | None:
    """One operator, with scale and shift by channel; TVM's converter has three from set 21 on."""
    x = site.expr(0)
    channels = static_dims(x.ty)[1]
    groups = site.attrs["num_groups"]
    is_plain = str(x.ty.dtype.dtype) == "float32" and site.attrs.get("stash_type", 1) == 1
    if site.scope.opset < 21 or not is_plain or not channels or groups < 1 or channels % groups:
        return None
    scale, shift, axes = site.expr(1), site.expr(2), list(range(2, x.ty.ndim))
    epsilon = site.attrs.get("epsilon", 1e-5)
    return relax.op.nn.group_norm(x, scale, shift, groups, 1, axes, epsilon)


def instance_norm(site: Site) -> Value | None:
    """One operator; TVM's converter has eight."""
    x, axes = site.expr(0), list(range(2, site.expr(0).ty.ndim))
    if not axes:
        return None
    epsilon = site.attrs.get("epsilon", 1e-5)
    return relax.op.nn.instance_norm(x, site.expr(1), site.expr(2), 1, axes, epsilon)


def mean_variance_norm(site: Site) -> Value:
    """
    With the mean of squared differences. TVM's converter takes the difference of two squares, as
    ONNX defines it, which loses the digits of a variance that is small beside the mean.
    """
    x, emit, axes = site.expr(0), site.scope.emit, list(site.attrs.get("axes", (0, 2, 3)))
    mean = emit(relax.op.mean(x, axes, keepdims=True))
    centred = emit(relax.op.subtract(x, mean))
    square = emit(relax.op.multiply(centred, centred))
    deviation = emit(relax.op.sqrt(emit(relax.op.mean(square, axes, keepdims=True))))
    least = relax.const(1e-9, str(x.ty.dtype.dtype))
    return relax.op.divide(centred, emit(relax.op.add(deviation, least)))


def sign(site: Site) -> Value | None:
    """TVM's operator, except for integers without signs: it compares them with -1."""
    x = site.expr(0)
    dtype = str(x.ty.dtype.dtype)
    return relax.op.minimum(x, relax.const(1, dtype)) if dtype.startswith("uint") else None


def remainder(site: Site) -> Value | None:
    """
    Of floats with the sign of the divisor, which ONNX has from operator set 28 on: what TVM's
    `floor_mod` makes of an infinite divisor is not a number.
    """
    x, y, emit = site.expr(0), site.expr(1), site.scope.emit
    dtype = str(x.ty.dtype.dtype)
    if site.attrs.get("fmod") or "float" not in dtype:
        return None
    zero, rest = relax.const(0, dtype), emit(relax.op.mod(x, y))
    signs = [emit(relax.op.less(each, zero)) for each in (rest, y)]
    differ = emit(relax.op.logical_xor(*signs))
    is_wrong = emit(relax.op.logical_and(differ, emit(relax.op.not_equal(rest, zero))))
    return relax.op.where(is_wrong, emit(relax.op.add(rest, y)), rest)


def is_nan(site: Site) -> Value:
    """`isnan`, which TVM does not have for bfloat16."""
    x = site.expr(0)
    if str(x.ty.dtype.dtype) == "bfloat16":
        x = site.scope.emit(relax.op.astype(x, "float32"))
    return relax.op.isnan(x)


def of_numbers(site: Site) -> Value | None:
    """TVM's operator, except for truth values, of which it knows no least one."""
    if str(site.expr(0).ty.dtype.dtype) == "bool":
        raise CannotConvertError(f"{site.node.op_type} of truth values is not supported")
    return None


def dynamic_quantize(site: Site) -> Value:
    """`DynamicQuantizeLinear`. The scale of zeros alone is 1, as that of onnxruntime."""
    x, emit = site.expr(0), site.scope.emit
    zero, most, one = (relax.const(each, str(x.ty.dtype.dtype)) for each in (0.0, 255.0, 1.0))
    low = emit(relax.op.minimum(zero, emit(relax.op.min(x))))
    high = emit(relax.op.maximum(zero, emit(relax.op.max(x))))
    step = emit(relax.op.divide(emit(relax.op.subtract(high, low)), most))
    scale = emit(relax.op.where(emit(relax.op.equal(step, zero)), one, step))
    start = emit(relax.op.subtract(zero, emit(relax.op.divide(low, scale))))
    rounded = emit(relax.op.round(emit(relax.op.clip(start, 0, 255))))
    point = emit(relax.op.astype(rounded, "uint8"))
    return relax.Tuple([emit(relax.op.quantize(x, scale, point, 0, "uint8")), scale, point])


def cumulated(site: Site) -> Value | None:
    """A `cumsum`, between two `flip` where it is reversed."""
    given = site.constant(1)
    if given is None or given.size != 1:
        return None
    x, axis, emit = site.expr(0), int(given.item()), site.scope.emit
    is_reversed = bool(site.attrs.get("reverse", 0))
    if is_reversed:
        x = emit(relax.op.flip(x, axis))
    result = relax.op.cumsum(x, axis, exclusive=bool(site.attrs.get("exclusive", 0)))
    return relax.op.flip(emit(result), axis) if is_reversed else result


def cast(site: Site) -> Value | None:
    """A float to an integer, in one operator; TVM's converter has seven."""
    x, dtype = site.expr(0), np.dtype(onnx.helper.tensor_dtype_to_np_dtype(site.attrs["to"]))
    if layout_of(x.ty) is None or dtype.kind not in "iu":
        return None
    return relax.op.astype(x, str(dtype))


CANONICAL: Mapping[str, Converter] = {
    "Add": add,
    "AveragePool": partial(
        pool, {3: relax.op.nn.avg_pool1d, 4: relax.op.nn.avg_pool2d, 5: relax.op.nn.avg_pool3d}
    ),
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Clip": clip,
    "Conv": convolution,
    "ConvInteger": convolution_integer,
    "ConvTranspose": transposed_convolution,
    "CumSum": cumulated,
    "Div": divide,
    "DynamicQuantizeLinear": dynamic_quantize,
    "Einsum": einsum,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "GridSample": grid_sample,
    "IsNaN": is_nan,
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LRN": local_response_norm,
    "LpPool": lp_pool,
    "LogSoftmax": partial(softmax, relax.op.nn.log_softmax),
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "Max": partial(chain, relax.op.maximum),
    "MaxPool": partial(
        pool, {3: relax.op.nn.max_pool1d, 4: relax.op.nn.max_pool2d, 5: relax.op.nn.max_pool3d}
    ),
    "Mean": mean,
    "MeanVarianceNormalization": mean_variance_norm,
    "Min": partial(chain, relax.op.minimum),
    "Mod": remainder,
    "Mul": multiply,
    "OneHot": one_hot,
    "PRelu": prelu,
    "Pad": pad,
    "ReduceLogSumExp": reduce_log_sum_exp,
    "ReduceMax": of_numbers,
    "ReduceMean": of_floats,
    "ReduceMin": of_numbers,
    "Resize": resize,
    "RoiAlign": roi_align,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Shrink": shrink,
    "Sign": sign,
    "Softmax": partial(softmax, relax.op.nn.softmax),
    "Split": split,
    "Sub": subtract,
    "Sum": partial(chain, relax.op.add),
    "TopK": top,
    "ThresholdedRelu": thresholded_relu,
    "Upsample": upsample,
}
