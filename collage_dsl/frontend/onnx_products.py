"""Convert ONNX operators with weights: convolutions, products, and what is folded into these."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from tvm import relax

from collage_dsl.frontend.arrays import empty
from collage_dsl.frontend.errors import CannotConvertError, UnknownSizeError
from collage_dsl.frontend.onnx_affine import Affine, Factor, Layout, Linear, Pending, Step
from collage_dsl.frontend.onnx_site import LEAST_DIVISOR, Site, Value, layout_of, static_dims
from collage_dsl.frontend.onnx_windows import check_window, explicit_pads, per_axis
from collage_dsl.graph.arrays import Array


def affine(site: Site, place: int, step: Step) -> Pending | None:
    """The operand at `place` with `step` applied; folded into a pending value if possible."""
    pending = site.scope.pending(site.name(place))
    made = None if pending is None else _merged(pending, step)
    if made is not None:
        return made
    layout = site.layout(place)
    return None if layout is None else Affine(site.expr(place), layout, step)


def _merged(pending: Pending, step: Step) -> Pending | None:
    """
    `pending` followed by `step`; None if that changes more than the last digit. `(x - 1e6) * 0.3`
    has more digits than `x * 0.3 - 3e5` where `x` is near 1e6. And `x * 300 * 300` may be finite in
    float16, in which 90000 is not.
    """
    is_shift = isinstance(pending, Affine) and pending.step.scale is None
    if is_shift and step.scale is not None:
        return None
    made = pending.then(step)
    return made if made.is_in_range else None


def _with_constant(site: Site, step: Callable[[Factor], Step | None]) -> Value | None:
    """A binary operator of a value and a constant, from which `step` makes a step."""
    place = 0 if site.constant(1) is not None else 1
    array = site.constant(1 - place)
    layout = site.layout(place) if array is not None else None
    factor = layout.factor(array, site.name(1 - place)) if layout and array is not None else None
    made = step(factor) if factor else None
    return affine(site, place, made) if made else None


def add(site: Site) -> Value | None:
    return _with_constant(site, lambda factor: Step(shift=factor))


def multiply(site: Site) -> Value | None:
    return _with_constant(site, lambda factor: Step(scale=factor))


def subtract(site: Site) -> Value | None:
    if site.constant(1) is None:
        return None
    return _with_constant(site, lambda factor: Step(shift=Factor(-factor.values)))


def divide(site: Site) -> Value | None:
    if site.constant(1) is None:
        return None
    return _with_constant(site, _reciprocal)


def _reciprocal(factor: Factor) -> Step | None:
    size = np.abs(factor.values.astype(np.float64))
    if not ((size >= LEAST_DIVISOR) & (size <= 1 / LEAST_DIVISOR)).all():
        return None
    return Step(scale=Factor(1 / factor.values.astype(np.float64)))


def batch_norm(site: Site) -> Value | None:
    if site.attrs.get("training_mode") or not site.attrs.get("spatial", 1):
        raise CannotConvertError("only BatchNormalization for inference, by channel, is supported")
    parameters = [site.constant(place) for place in (1, 2, 3, 4)]
    if any(parameter is None for parameter in parameters):
        return None
    layout = site.layout(0)
    if layout is None or layout.channels is None:
        raise UnknownSizeError("a normalization of an unknown number of channels")
    gamma, beta, mean, variance = (np.asarray(p, np.float64) for p in parameters)
    scale = gamma / np.sqrt(variance + site.attrs.get("epsilon", 1e-5))
    return normalized(site, mean, scale, beta)


def normalized(site: Site, mean: Array, scale: Array, shift: Array) -> Value | None:
    """`(x - mean) * scale + shift` by channel, as one step unless its numbers are too large."""
    made = affine(site, 0, Step(Factor(scale), Factor(shift - mean * scale)))
    if made is None or made.is_in_range:
        return made
    layout = made.layout
    centred = relax.op.add(site.expr(0), site.scope.literal(layout.spread(-mean)))
    return Affine(site.scope.emit(centred), layout, Step(Factor(scale), Factor(shift)))


def convolution(site: Site) -> Value:
    x = site.expr(0)
    rank = x.ty.ndim
    weight, bias = site.constant(1), site.constant(2)
    kernel = static_dims(site.expr(1).ty)[2:] if weight is None else weight.shape[2:]
    call = _convolution(site, x, kernel)
    if weight is None or (site.has(2) and bias is None):
        return _variable_convolution(site, call, rank)
    layout = Layout(str(x.ty.dtype.dtype), rank, 1, weight.shape[0])
    factor = None if bias is None else Factor(bias, site.name(2))
    return Linear(call, layout, Factor(weight, site.name(1)), 0, factor)


def _convolution(site: Site, x: Any, kernel: Sequence[int | None]) -> Callable[..., Any]:
    """The operator on `x` with the attributes of the node; it takes the weight, of these sizes."""
    rank = x.ty.ndim
    check_window(site, rank, len(kernel))
    if rank not in _CONVOLUTIONS:
        raise CannotConvertError(f"a convolution of rank {rank} is not supported")
    if site.attrs.get("group", 1) > 1 and static_dims(x.ty)[1] is None:
        raise UnknownSizeError("groups of an unknown number of channels are not supported")
    return partial(
        _CONVOLUTIONS[rank],
        x,
        strides=per_axis(site, "strides", rank),
        padding=explicit_pads(site, x.ty, kernel),
        dilation=per_axis(site, "dilations", rank),
        groups=site.attrs.get("group", 1),
    )


_CONVOLUTIONS: Mapping[int, Any] = {
    3: relax.op.nn.conv1d,
    4: relax.op.nn.conv2d,
    5: relax.op.nn.conv3d,
}


def _variable_convolution(site: Site, call: Callable[[Any], Any], rank: int) -> Value:
    """A convolution whose weight or bias is not constant."""
    result = call(site.expr(1))
    if not site.has(2):
        return result
    shape = (1, -1, *(1,) * (rank - 2))
    bias = site.constant(2)
    shaped = (
        relax.op.reshape(site.expr(2), shape)
        if bias is None
        else site.scope.literal(bias.reshape(shape))
    )
    return relax.op.add(site.scope.emit(result), shaped)


def gemm(site: Site) -> Value | None:
    weight = site.constant(1)
    if weight is None:
        return None
    x = site.expr(0)
    if site.attrs.get("transA"):
        x = site.scope.emit(relax.op.permute_dims(x))
    name = site.name(1)
    if site.attrs.get("transB"):
        weight, name = transposed(weight), ""
    result = _product(x, Factor(weight, name))
    if (alpha := site.attrs.get("alpha", 1.0)) != 1.0:
        result = result.then(Step(scale=Factor(np.asarray([alpha]))))
        if not result.is_in_range:
            return None
    return _plus(site, result, site.attrs.get("beta", 1.0)) if site.has(2) else result


def _plus(site: Site, product: Linear, beta: float) -> Value:
    """`product` plus `beta` times the third operand of a Gemm."""
    addend = site.constant(2)
    factor = None if addend is None else product.layout.factor(addend)
    if factor is not None:
        return product.then(Step(shift=factor.times(Factor(np.asarray([beta])))))
    left = site.scope.emit(product.call(site.scope.literal(product.weight.values)))
    right = site.expr(2)
    if beta != 1.0:
        scale = site.scope.literal(np.asarray(beta, product.layout.dtype))
        right = site.scope.emit(relax.op.multiply(right, scale))
    return relax.op.add(left, right)


def matmul(site: Site) -> Value | None:
    weight = site.constant(1)
    if weight is None or weight.ndim != 2 or layout_of(site.expr(0).ty) is None:
        return None
    return _product(site.expr(0), Factor(weight, site.name(1)))


def _product(x: Any, weight: Factor) -> Linear:
    rank = x.ty.ndim
    layout = Layout(str(x.ty.dtype.dtype), rank, rank - 1, weight.values.shape[1])
    return Linear(partial(relax.op.matmul, x), layout, weight, 1)


def matmul_integer(site: Site) -> Value | None:
    """
    A product in int32 of bytes without their zero points, of which each product has its own
    operators: a kernel that has them inside computes with bytes. None where the first operand has a
    zero point for each row.
    """
    if site.has(2) and not _is_one(site.expr(2)):
        return None
    x, weight = _moved(site, 0, 2), _weight_moved(site)
    return relax.op.matmul(x, _moved(site, 1, 3) if weight is None else weight)


def convolution_integer(site: Site) -> Value:
    """The same for a convolution."""
    if any(site.has(place) and not _is_one(site.expr(place)) for place in (2, 3)):
        raise CannotConvertError("a ConvInteger with several zero points is not supported")
    x, weight = _moved(site, 0, 2), _weight_moved(site)
    weight = _moved(site, 1, 3) if weight is None else weight
    return _convolution(site, x, static_dims(weight.ty)[2:])(weight)


def _moved(site: Site, place: int, by: int) -> Any:
    """An operand without its zero point, of which it has one, or one for each column."""
    emit = site.scope.emit
    x = emit(relax.op.astype(site.expr(place), "int32"))
    point = site.constant(by)
    if not site.has(by) or (point is not None and not point.any()):
        return x
    first = site.expr(by)
    if first.ty.ndim and _is_one(first):
        first = emit(relax.op.reshape(first, ()))
    return emit(relax.op.subtract(x, emit(relax.op.astype(first, "int32"))))


def _weight_moved(site: Site) -> Any | None:
    """A constant weight without its zero point, if it consists of bytes then too; else None."""
    weight, zero = site.constant(1), site.constant(3)
    if weight is None or zero is None or not zero.any():
        return None
    shifted = weight.astype(np.int32) - zero
    limits = np.iinfo(np.int8)
    if shifted.size and (shifted.min() < limits.min or shifted.max() > limits.max):
        return None
    held = site.scope.literal(shifted.astype(np.int8), f"{site.node.output[0]}.weight")
    return site.scope.emit(relax.op.astype(held, "int32"))


def _is_one(tensor: Any) -> bool:
    """Whether a tensor has one element, by its shape."""
    return all(dim == 1 for dim in static_dims(tensor.ty))


def transposed(matrix: Array, block: int = 256) -> Array:
    """A transposed copy, made in blocks that fit the cache: otherwise it is slow if large."""
    rows, columns = matrix.shape
    result = empty((columns, rows), matrix.dtype)
    for i in range(0, rows, block):
        for j in range(0, columns, block):
            result[j : j + block, i : i + block] = matrix[i : i + block, j : j + block].T
    return result
