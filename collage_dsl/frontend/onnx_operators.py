"""
Convert ONNX operators to canonical form: the one form of each that patterns look for.

TVM's converter is used for an operator that is not in `CANONICAL`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Protocol

import numpy as np
import onnx
from tvm import relax, tirx

from collage_dsl.frontend.arrays import Array, empty
from collage_dsl.frontend.errors import CannotConvertError, WrongNodeError
from collage_dsl.frontend.onnx_affine import Affine, Factor, Layout, Linear, Pending, Step
from collage_dsl.frontend.onnx_sizes import Arithmetic, Sizes

Value = Any
"""An ONNX value: a numpy array, a Relax expression, or a pending value (`Pending`)."""


class Scope(Protocol):
    """The access of a converter to the values so far."""

    opset: int
    arithmetic: Arithmetic

    def constant(self, name: str) -> Array | None:
        """The value `name` if it is constant, else None."""

    def sizes(self, name: str) -> Sizes | None:
        """The value `name` if its elements follow from dimensions of inputs, and are no numbers."""

    def dims(self, name: str) -> list[Any] | None:
        """The dimensions of a tensor, of which some are no numbers; None where one is not known."""

    def expr(self, name: str) -> Any:
        """The value `name` as an expression. A pending value is emitted."""

    def pending(self, name: str) -> Pending | None:
        """The value `name` if it is pending and nothing else uses it, else None."""

    def emit(self, expr: Any) -> Any:
        """A variable bound to an expression."""

    def literal(self, array: Array, name: str = "") -> Any:
        """A Relax constant."""

    def once(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for all nodes that ask for this key."""


@dataclass(frozen=True, slots=True)
class Site:
    """One node of an ONNX graph, and the values that it may use."""

    scope: Scope
    node: onnx.NodeProto
    attrs: Mapping[str, Any]

    def has(self, place: int) -> bool:
        return place < len(self.node.input) and bool(self.node.input[place])

    def constant(self, place: int) -> Array | None:
        return self.scope.constant(self.node.input[place]) if self.has(place) else None

    def sizes(self, place: int) -> list[Any] | None:
        """The elements of a vector or scalar of integers; None where they are not known."""
        if not self.has(place):
            return None
        array = self.constant(place)
        if array is not None:
            return array.ravel().tolist() if array.dtype.kind == "i" else None
        found = self.scope.sizes(self.node.input[place])
        return None if found is None else list(found.values.flat)

    def dims(self, place: int = 0) -> list[Any] | None:
        return self.scope.dims(self.node.input[place])

    def expr(self, place: int) -> Any:
        return self.scope.expr(self.node.input[place])

    def layout(self, place: int) -> Layout | None:
        """The layout of a floating point operand of known rank; None for others."""
        pending = self.scope.pending(self.node.input[place])
        return pending.layout if pending else layout_of(self.expr(place).ty)

    def name(self, place: int) -> str:
        return str(self.node.input[place])


LEAST_DIVISOR = 2.0**-14
"""A number is multiplied by the reciprocal if both are normal in all types of floats."""

Converter = Callable[[Site], Value | None]
"""Converts one node; None if TVM's converter is right for this node."""


def layout_of(type_: Any) -> Layout | None:
    if not isinstance(type_, relax.TensorType) or type_.dtype is None or type_.ndim < 1:
        return None
    dtype = str(type_.dtype.dtype)
    if "float" not in dtype:
        return None
    dims = static_dims(type_)
    axis = min(1, type_.ndim - 1)
    return Layout(dtype, type_.ndim, axis, dims[axis])


def static_dims(type_: Any) -> list[int | None]:
    """The dimensions of a tensor type, with None for a symbolic one."""
    if not isinstance(type_.shape, relax.ShapeExpr):
        return [None] * type_.ndim
    values = type_.shape.values
    return [int(d.value) if isinstance(d, tirx.IntImm) else None for d in values]


def known_dims(dims: Sequence[int | None]) -> list[int] | None:
    """`dims` if all are known, else None."""
    known = [dim for dim in dims if dim is not None]
    return known if len(known) == len(dims) else None


# x * scale + shift


def affine(site: Site, place: int, step: Step) -> Value | None:
    """The operand at `place` with `step` applied; folded into a pending value if possible."""
    name = site.name(place)
    pending = site.scope.pending(name)
    if pending is not None:
        return pending.then(step)
    layout = site.layout(place)
    return layout and Affine(site.expr(place), layout, step)


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
    gamma, beta, mean, variance = (np.asarray(p, np.float64) for p in parameters)
    scale = gamma / np.sqrt(variance + site.attrs.get("epsilon", 1e-5))
    return affine(site, 0, Step(Factor(scale), Factor(beta - mean * scale)))


# Convolutions and matrix products


def convolution(site: Site) -> Value:
    x = site.expr(0)
    rank = x.ty.ndim
    if rank not in _CONVOLUTIONS:
        raise CannotConvertError(f"a convolution of rank {rank} is not supported")
    if site.attrs.get("group", 1) > 1 and static_dims(x.ty)[1] is None:
        raise CannotConvertError("groups of an unknown number of channels are not supported")
    weight, bias = site.constant(1), site.constant(2)
    kernel = static_dims(site.expr(1).ty)[2:] if weight is None else weight.shape[2:]
    strides, dilations = _per_axis(site, "strides", rank), _per_axis(site, "dilations", rank)
    call = partial(
        _CONVOLUTIONS[rank],
        x,
        strides=strides,
        padding=explicit_pads(site, x.ty, kernel),
        dilation=dilations,
        groups=site.attrs.get("group", 1),
    )
    if weight is None or (site.has(2) and bias is None):
        return _variable_convolution(site, call, rank)
    layout = Layout(str(x.ty.dtype.dtype), rank, 1, weight.shape[0])
    factor = None if bias is None else Factor(bias, site.name(2))
    return Linear(call, layout, Factor(weight, site.name(1)), 0, factor)


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


def _per_axis(site: Site, name: str, rank: int) -> Sequence[int]:
    return site.attrs.get(name) or (1,) * (rank - 2)


def explicit_pads(site: Site, type_: Any, kernel: Sequence[int | None]) -> list[int]:
    """
    The padding before each axis, then after each, with `auto_pad` resolved. Raises
    `CannotConvertError` where a window does not fit into what it slides over.
    """
    pads = _pads(site, type_, kernel)
    dilations = _per_axis(site, "dilations", len(kernel) + 2)
    dims, before, after = static_dims(type_)[2:], pads[: len(kernel)], pads[len(kernel) :]
    for each in zip(dims, before, after, kernel, dilations, strict=True):
        size, first, last, window, dilation = each
        if size is None or window is None:
            continue
        padded, covered = size + first + last, (window - 1) * dilation + 1
        if padded < covered:
            raise WrongNodeError(
                f"the window covers {covered} elements of an axis that has {padded} with padding"
            )
    return pads


def _pads(site: Site, type_: Any, kernel: Sequence[int | None]) -> list[int]:
    axes = len(kernel)
    mode = site.attrs.get("auto_pad", b"NOTSET").decode()
    if mode == "NOTSET":
        return list(site.attrs.get("pads") or (0,) * 2 * axes)
    if mode == "VALID":
        return [0] * 2 * axes
    dims, sizes = known_dims(static_dims(type_)[2:]), known_dims(kernel)
    if dims is None or sizes is None:
        raise CannotConvertError(f"{mode} padding of an unknown shape")
    strides = _per_axis(site, "strides", axes + 2)
    dilations = _per_axis(site, "dilations", axes + 2)
    total = [
        max(0, (-(-dim // stride) - 1) * stride + (size - 1) * dilation + 1 - dim)
        for dim, size, stride, dilation in zip(dims, sizes, strides, dilations, strict=True)
    ]
    less = [pad // 2 for pad in total]
    more = [pad - half for pad, half in zip(total, less, strict=True)]
    return less + more if mode == "SAME_UPPER" else more + less


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
    A product in int32, with what is constant of it computed now. None where the first operand has
    a zero point for each row.
    """
    weight, zero, emit = site.constant(1), site.constant(3), site.scope.emit
    if site.has(2) and not _is_one(site.expr(2)):
        return None

    def moved(place: int, by: int) -> Any:
        """An operand without its zero point, of which it has one, or one for each column."""
        x = emit(relax.op.astype(site.expr(place), "int32"))
        point = site.constant(by)
        if not site.has(by) or (point is not None and not point.any()):
            return x
        first = site.expr(by)
        if first.ty.ndim and _is_one(first):
            first = emit(relax.op.reshape(first, ()))
        return emit(relax.op.subtract(x, emit(relax.op.astype(first, "int32"))))

    names = (*site.node.input[0:1], *site.node.input[2:3])
    x = site.scope.once(("moved", *names), lambda: moved(0, 2))
    if weight is None or (site.has(3) and zero is None):
        return relax.op.matmul(x, moved(1, 3))
    shifted = weight.astype(np.int32)
    if zero is not None:
        shifted = shifted - zero.astype(np.int32)
    return relax.op.matmul(x, site.scope.literal(shifted, f"{site.node.output[0]}.weight"))


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


# Other operators


def chain(operator: Callable[..., Any], site: Site) -> Value:
    """A binary operator on all operands, one after the other."""
    result = site.expr(0)
    for place in range(1, len(site.node.input)):
        result = operator(result if place == 1 else site.scope.emit(result), site.expr(place))
    return result


def clip(site: Site) -> Value | None:
    """`clip`; with only one bound, `nn.relu`, `maximum` or `minimum`."""
    x = site.expr(0)
    if site.scope.opset < 11:
        low, high = site.attrs.get("min"), site.attrs.get("max")
    else:
        arrays = site.constant(1), site.constant(2)
        if any(site.has(place) and arrays[place - 1] is None for place in (1, 2)):
            return None
        low, high = (None if array is None else array.item() for array in arrays)
    dtype = str(x.ty.dtype.dtype)
    if low is not None and high is not None and low <= high:
        return relax.op.clip(x, low, high)
    if low is not None and high is not None:
        raised = relax.op.maximum(x, relax.const(low, dtype))
        return relax.op.minimum(site.scope.emit(raised), relax.const(high, dtype))
    if low is not None:
        return relax.op.nn.relu(x) if low == 0 else relax.op.maximum(x, relax.const(low, dtype))
    return x if high is None else relax.op.minimum(x, relax.const(high, dtype))


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
        raise CannotConvertError(f"{site.node.op_type} over several axes, not all of known size")
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


def global_average_pool(site: Site) -> Value:
    """
    A mean, not a pooling. Exporters write both; a mean is the form that native kernels fuse with
    the operator before it.
    """
    x = site.expr(0)
    return relax.op.mean(x, axis=list(range(2, x.ty.ndim)), keepdims=True)


def pool(operators: Mapping[int, Any], site: Site) -> Value | None:
    x = site.expr(0)
    rank = x.ty.ndim
    if rank not in operators or len(site.node.output) > 1:
        return None
    kernel = site.attrs["kernel_shape"]
    if site.attrs.get("ceil_mode"):
        kernel = _cut(kernel, site, x.ty)
    return operators[rank](
        x,
        kernel,
        strides=_per_axis(site, "strides", rank),
        padding=explicit_pads(site, x.ty, kernel),
        dilation=_per_axis(site, "dilations", rank),
        ceil_mode=bool(site.attrs.get("ceil_mode", 0)),
        count_include_pad=bool(site.attrs.get("count_include_pad", 0)),
    )


def _cut(kernel: Sequence[int], site: Site, type_: Any) -> list[int]:
    """
    `kernel` without the rows that lie behind the padding, where a pooling that rounds its size up
    has only one window along an axis. That pools the same elements, and no more are counted:
    exporters write a window larger than any image in place of a global pooling.
    """
    axes = len(kernel)
    if site.attrs.get("auto_pad", b"NOTSET") not in (b"NOTSET", b"VALID"):
        return list(kernel)
    pads, dims = _pads(site, type_, kernel), static_dims(type_)[2:]
    strides, dilations = (_per_axis(site, n, axes + 2) for n in ("strides", "dilations"))
    sizes = []
    for axis, (window, size) in enumerate(zip(kernel, dims, strict=True)):
        covered = (window - 1) * dilations[axis] + 1
        padded = covered if size is None else size + pads[axis] + pads[axes + axis]
        is_only = padded < covered < padded + strides[axis]
        sizes.append((padded - 1) // dilations[axis] + 1 if is_only else window)
    return sizes


def local_response_norm(site: Site) -> Value | None:
    """
    `x / (bias + alpha * mean of squares over channels) ** beta`, in six operators.

    The mean is a pooling whose layout names the axes of channels and rows H and W.
    """
    x, emit = site.expr(0), site.scope.emit
    if x.ty.ndim != 4:
        return None
    size = site.attrs["size"]
    behind = size // 2
    mean = relax.op.nn.avg_pool2d(
        emit(relax.op.multiply(x, x)),
        (size, 1),
        padding=((size - 1) // 2, 0, behind, 0),
        layout="NHWC",
        count_include_pad=True,
    )
    dtype = str(x.ty.dtype.dtype)
    alpha, bias, beta = (
        site.scope.literal(np.asarray(site.attrs.get(name, default), dtype))
        for name, default in (("alpha", 1e-4), ("bias", 1.0), ("beta", 0.75))
    )
    scaled = emit(relax.op.multiply(emit(mean), alpha))
    return relax.op.divide(x, emit(relax.op.power(emit(relax.op.add(scaled, bias)), beta)))


def pad(site: Site) -> Value | None:
    x, rank = site.expr(0), site.expr(0).ty.ndim
    mode = _PADDING.get(site.attrs.get("mode", b"constant"))
    pads: Any = site.attrs.get("pads")
    value, axes = site.attrs.get("value", 0.0), None
    if site.scope.opset >= 11:
        pads, value, axes = (site.constant(place) for place in (1, 2, 3))
        if pads is None or (site.has(2) and value is None) or (site.has(3) and axes is None):
            raise CannotConvertError("padding that is computed")
    around = [0] * 2 * rank
    chosen = range(rank) if axes is None else axes.tolist()
    for place, axis in enumerate(chosen):
        around[2 * axis % (2 * rank)] = int(pads[place])
        around[(2 * axis + 1) % (2 * rank)] = int(pads[place + len(chosen)])
    if min(around) < 0 or mode is None:
        return None
    if mode == "reflect":
        for size, before, after in zip(static_dims(x.ty), around[::2], around[1::2], strict=True):
            if size is not None and max(before, after) >= size:
                raise WrongNodeError(f"an axis of {size} elements has too few to be reflected")
    fill = 0.0 if value is None else float(np.asarray(value).item())
    return relax.op.nn.pad(x, around, pad_mode=mode, pad_value=fill)


_PADDING = {
    b"constant": "constant",
    b"reflect": "reflect",
    b"edge": "replicate",
    b"wrap": "circular",
}


def upsample(site: Site) -> Value:
    """
    `Upsample` of older operator sets: it scales from the first element on, and the nearest element
    is the one before.
    """
    x, given = site.expr(0), site.attrs.get("scales")
    scales = site.constant(1) if given is None else np.asarray(given, np.float32)
    dims = known_dims(static_dims(x.ty))
    if scales is None or dims is None or len(dims) != 4 or scales[:2].tolist() != [1, 1]:
        raise CannotConvertError("an Upsample but of images by known scales is not supported")
    sizes = np.asarray(dims[2:]) * scales[2:].astype(np.float64)
    if not (sizes == np.round(sizes)).all():
        raise CannotConvertError("Upsample to what is no whole number of elements is not supported")
    mode = site.attrs.get("mode", b"nearest").decode()
    return relax.op.image.resize2d(
        x,
        [int(size) for size in sizes],
        layout="NCHW",
        method={"nearest": "nearest_neighbor"}.get(mode, mode),
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )


def flatten(site: Site) -> Value | None:
    """TVM's operators, except for no elements: the size of the rest does not follow from them."""
    dims = static_dims(site.expr(0).ty)
    known = known_dims(dims)
    if known is None or 0 not in known:
        return None
    axis = site.attrs.get("axis", 1)
    return relax.op.reshape(site.expr(0), (prod(known[:axis]), prod(known[axis:])))


def of_floats(site: Site) -> Value | None:
    """
    TVM's operators, except for integers: it rounds the threshold of `Shrink`, and means of integers
    have another type than it says.
    """
    if "float" not in str(site.expr(0).ty.dtype.dtype):
        raise CannotConvertError(f"{site.node.op_type} of integers is not supported")
    return None


def top(site: Site) -> Value | None:
    """`TopK` of operator set 10, in which TVM does not read the second operand."""
    if site.scope.opset != 10:
        return None
    count = site.constant(1)
    if count is None:
        raise CannotConvertError("a number of elements that is computed is not supported")
    axis = site.attrs.get("axis", -1)
    return relax.op.topk(site.expr(0), int(count.item()), axis, ret_type="both", dtype="int64")


def roi_align(site: Site) -> Value | None:
    """TVM's operators, which have kernels for images of known sizes only."""
    if known_dims(static_dims(site.expr(0).ty)) is None:
        raise CannotConvertError("RoiAlign of an image whose sizes have names is not supported")
    return None


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


def one_hot(site: Site) -> Value | None:
    """TVM's operator, in which a negative index does not count from the end."""
    depth, values = site.constant(1), site.constant(2)
    if depth is None or values is None:
        return None
    indices, emit = site.expr(0), site.scope.emit
    dtype = str(indices.ty.dtype.dtype)
    if dtype.startswith("int"):
        below = emit(relax.op.less(indices, site.scope.literal(np.array(0, dtype))))
        wrapped = emit(relax.op.add(indices, site.scope.literal(np.array(depth.item(), dtype))))
        indices = emit(relax.op.where(below, wrapped, indices))
    off, on = (relax.prim_value(tirx.const(each.item(), str(values.dtype))) for each in values)
    axis = site.attrs.get("axis", -1)
    return relax.op.one_hot(indices, on, off, int(depth.item()), axis)


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


def tile(site: Site) -> Value | None:
    repeats = site.constant(1)
    return None if repeats is None else relax.op.tile(site.expr(0), repeats.tolist())


def gather(site: Site) -> Value | None:
    """One `take`. Constant negative indices are made positive."""
    if not _has_tensors(site) or not site.expr(0).ty.ndim:
        return None
    x, axis = site.expr(0), site.attrs.get("axis", 0)
    indices, size = site.constant(1), static_dims(x.ty)[axis]
    if indices is None:
        return relax.op.take(x, site.expr(1), axis)
    _check_indices(indices, size)
    from_start = indices if size is None else np.where(indices < 0, indices + size, indices)
    return relax.op.take(x, site.scope.literal(from_start), axis)


def gather_elements(site: Site) -> Value | None:
    return _along_axis(site, lambda axis: relax.op.gather_elements(*_operands(site), axis))


def scatter_elements(site: Site) -> Value | None:
    reduction = _reduction(site)
    return _along_axis(
        site, lambda axis: relax.op.scatter_elements(*_operands(site), axis, reduction)
    )


def _along_axis(site: Site, made: Callable[[int], Value]) -> Value | None:
    """An operator with an index into one axis for each element."""
    if not _has_tensors(site):
        return None
    axis = site.attrs.get("axis", 0)
    data, places = (static_dims(site.expr(place).ty) for place in (0, 1))
    if len(data) != len(places):
        raise WrongNodeError(f"the data has {len(data)} dimensions, the indices {len(places)}")
    others = [
        pair for at, pair in enumerate(zip(data, places, strict=True)) if at != axis % len(data)
    ]
    if any(size is not None and count is not None and count > size for size, count in others):
        raise CannotConvertError("more indices than elements beside the axis are not supported")
    if (indices := site.constant(1)) is not None:
        _check_indices(indices, static_dims(site.expr(0).ty)[axis])
    return made(axis)


def gather_nd(site: Site) -> Value | None:
    batch = site.attrs.get("batch_dims", 0)
    return _at_points(site, batch, lambda: relax.op.gather_nd(*_operands(site), batch))


def scatter_nd(site: Site) -> Value | None:
    reduction = _reduction(site)
    return _at_points(site, 0, lambda: relax.op.scatter_nd(*_operands(site), reduction))


def _at_points(site: Site, batch: int, made: Callable[[], Value]) -> Value | None:
    """An operator with one index for each of several axes, those from `batch` on."""
    if not _has_tensors(site):
        return None
    data, places = (static_dims(site.expr(place).ty)[:batch] for place in (0, 1))
    if any(None not in pair and pair[0] != pair[1] for pair in zip(data, places, strict=True)):
        raise CannotConvertError("batches of other sizes than those of the data are not supported")
    if (indices := site.constant(1)) is not None:
        sizes = static_dims(site.expr(0).ty)[batch:]
        for place, size in zip(range(indices.shape[-1]), sizes, strict=False):
            _check_indices(indices[..., place], size)
    return made()


def _has_tensors(site: Site) -> bool:
    """Whether the data and the indices of an operator are tensors, not shapes."""
    return all(isinstance(site.expr(place).ty, relax.TensorType) for place in (0, 1))


def _operands(site: Site) -> list[Any]:
    return [site.expr(place) for place in range(len(site.node.input))]


def _reduction(site: Site) -> str:
    reduction = str(site.attrs.get("reduction", b"none").decode())
    return "update" if reduction == "none" else reduction


def _check_indices(indices: Array, size: int | None) -> None:
    """Refuse constant indices that are out of range for an axis of `size` elements."""
    if size is None or not indices.size:
        return
    for index in (indices.min(initial=0), indices.max(initial=-1)):
        if not -size <= index < size:
            raise WrongNodeError(f"the index {index} is out of range for an axis of size {size}")


# Casts


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
    "CumSum": cumulated,
    "Div": divide,
    "DynamicQuantizeLinear": dynamic_quantize,
    "Flatten": flatten,
    "Gather": gather,
    "GatherElements": gather_elements,
    "GatherND": gather_nd,
    "Gemm": gemm,
    "GlobalAveragePool": global_average_pool,
    "IsNaN": is_nan,
    "LRN": local_response_norm,
    "LogSoftmax": partial(softmax, relax.op.nn.log_softmax),
    "MatMul": matmul,
    "MatMulInteger": matmul_integer,
    "Max": partial(chain, relax.op.maximum),
    "MaxPool": partial(
        pool, {3: relax.op.nn.max_pool1d, 4: relax.op.nn.max_pool2d, 5: relax.op.nn.max_pool3d}
    ),
    "Min": partial(chain, relax.op.minimum),
    "Mul": multiply,
    "OneHot": one_hot,
    "Pad": pad,
    "ReduceLogSumExp": reduce_log_sum_exp,
    "ReduceMax": of_numbers,
    "ReduceMean": of_floats,
    "ReduceMin": of_numbers,
    "RoiAlign": roi_align,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "Shrink": of_floats,
    "Softmax": partial(softmax, relax.op.nn.softmax),
    "Sub": subtract,
    "Sum": partial(chain, relax.op.add),
    "TopK": top,
    "ThresholdedRelu": thresholded_relu,
    "Tile": tile,
    "Upsample": upsample,
}
