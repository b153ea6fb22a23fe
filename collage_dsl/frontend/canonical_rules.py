"""The canonical form of what the importers of TVM write in another form, by operator of Relax."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan, prod
from typing import Any, Protocol

import numpy as np
import tvm
import tvm_ffi
from onnx import helper
from tvm import relax, tirx, topi

from collage_dsl.frontend import onnx_operators
from collage_dsl.frontend.arrays import Array
from collage_dsl.frontend.attributes import attributes_of
from collage_dsl.frontend.bindings import Bindings, is_leaf
from collage_dsl.frontend.onnx_affine import Factor, Layout, Linear, Step
from collage_dsl.frontend.onnx_operators import (
    Converter,
    Scope,
    Site,
    Value,
    known_dims,
    layout_of,
    static_dims,
    transposed,
)


class Writer(Scope, Protocol):
    """The access of a rule to the new values, and to the old bindings."""

    old: Bindings
    uses: Counter[str]
    functions: Callable[[Any], Any | None]

    def key(self, leaf: Any) -> str:
        """The name of a variable or constant of the old function."""

    def value(self, name: str) -> Value:
        """The new value `name`."""


@dataclass(frozen=True, slots=True)
class OldCall:
    """A call of the old function, and the name of the value that it gives."""

    writer: Writer
    call: Any
    name: str

    @property
    def attrs(self) -> Any:
        return self.call.attrs

    @property
    def type(self) -> Any:
        return self.call.ty

    def type_of(self, place: int) -> Any:
        return self.call.args[place].ty

    def has_leaves(self, *places: int) -> bool:
        """Whether the operands at `places` are variables or constants."""
        return all(is_leaf(self.writer.old.resolved(self.call.args[place])) for place in places)

    def key(self, place: int) -> str:
        return self.writer.key(self.call.args[place])

    def constant(self, place: int) -> Array | None:
        return self.writer.constant(self.key(place)) if self.has_leaves(place) else None

    def expr(self, place: int) -> Any:
        return self.writer.expr(self.key(place))

    def made_by(self, place: int, op: str) -> "OldCall | None":
        """The call of `op` that gives the operand at `place`, if nothing else uses it."""
        operand = self.call.args[place]
        made = self.writer.old.call(operand, op)
        if made is None or self.writer.uses[self.key(place)] != 1:
            return None
        return OldCall(self.writer, made, self.key(place))

    def as_onnx(self, op: str, keys: Sequence[str]) -> Site:
        """The ONNX node that computes the same from the values `keys`."""
        return Site(self.writer, helper.make_node(op, keys, [self.name]), {})


Rule = Callable[[OldCall], Value | None]
"""Gives the canonical form of a call; None if it has that form already."""


def passed_on(call: OldCall) -> Value:
    """The first operand."""
    pending = call.writer.pending(call.key(0))
    return call.writer.value(call.key(0)) if pending is None else pending


def dims_of(type_: Any) -> list[int] | None:
    """The dimensions of a tensor type, if all are numbers."""
    if not isinstance(type_, relax.TensorType) or type_.ndim < 0:
        return None
    return known_dims(static_dims(type_))


# Arithmetic with constants


def _binary(converter: Converter, op: str, call: OldCall) -> Value | None:
    if not call.has_leaves(0, 1):
        return None
    return converter(call.as_onnx(op, [call.key(0), call.key(1)]))


def batch_norm(call: OldCall) -> Value:
    """A batch norm with constant parameters, of which only the first result is used."""
    arrays = [call.constant(place) for place in (1, 2, 3, 4)]
    gamma, beta, mean, variance = (np.asarray(array, np.float64) for array in arrays)
    scale = 1 / np.sqrt(variance + float(call.attrs.epsilon))
    scale = scale * gamma if call.attrs.scale else scale
    shift = (beta if call.attrs.center else 0.0) - mean * scale
    site = call.as_onnx("BatchNormalization", [call.key(0)])
    return onnx_operators.affine(site, 0, Step(Factor(scale), Factor(shift)))


def convolution(call: OldCall) -> Value | None:
    """A convolution with a constant weight, so that what follows can be folded into it."""
    attrs, x = call.attrs, call.type_of(0)
    layouts = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout)
    if layouts not in _LAYOUTS or not (call.has_leaves(0, 1) and _keeps_dtype(call)):
        return None
    made = partial(_called, call.call.op, _without_dtype(attrs), call.expr(0))
    weight = call.constant(1)
    if weight is None or layout_of(x) is None:
        return made(call.expr(1))
    layout = Layout(str(x.dtype.dtype), x.ndim, 1, weight.shape[0])
    return Linear(made, layout, Factor(weight, call.key(1)), 0)


_LAYOUTS = (("NCW", "OIW", "NCW"), ("NCHW", "OIHW", "NCHW"), ("NCDHW", "OIDHW", "NCDHW"))


def _called(op: Any, attrs: Any, x: Any, weight: Any) -> Any:
    return relax.Call(op, [x, weight], attrs)


def _without_dtype(attrs: Any) -> Any:
    fields = {**attributes_of(attrs), "out_dtype": None}
    return tvm.ir.make_node(attrs.__class__.__tvm_ffi_type_info__.type_key, **fields)


def _keeps_dtype(call: OldCall) -> bool:
    """Whether the elements of the result have the type of those of the first operand."""
    return bool(call.type.dtype == call.type_of(0).dtype)


def matmul(call: OldCall) -> Value | None:
    """Without the broadcasts that a product does by itself."""
    if not (call.has_leaves(0, 1) and _keeps_dtype(call)):
        return None
    keys = [call.key(0), call.key(1)]
    dims = [dims_of(call.type_of(0)), dims_of(call.type_of(1))]
    for place in (0, 1):
        made = call.made_by(place, "broadcast_to")
        source = made and made.has_leaves(0) and dims_of(made.type_of(0))
        if made and source and _is_product(source, dims, place, dims_of(call.type)):
            keys[place], dims[place] = made.key(0), source
    linear = onnx_operators.matmul(call.as_onnx("MatMul", keys))
    return linear or relax.op.matmul(*map(call.writer.expr, keys))


def _is_product(
    source: list[int], dims: list[list[int] | None], place: int, result: list[int] | None
) -> bool:
    """Whether a product has the shape `result` with an operand of the shape `source` at `place`."""
    old, other = dims[place], dims[1 - place]
    if old is None or other is None or result is None or min(len(source), len(other)) < 2:
        return False
    batch = np.broadcast_shapes(tuple(source[:-2]), tuple(other[:-2]))
    return source[-2:] == old[-2:] and list(batch) == result[:-2]


# Constants, and what changes nothing


def _folded(function: Callable[..., Any], call: OldCall) -> Value | None:
    """The value of a call on constants, if it is not much larger than they are."""
    places = range(len(call.call.args))
    arrays = [call.constant(place) for place in places]
    known, dims = [array for array in arrays if array is not None], dims_of(call.type)
    if len(known) < len(arrays) or dims is None:
        return None
    if prod(dims) > max(_SMALL, *(array.size for array in known)):
        return None
    with np.errstate(all="ignore"):
        made = np.asarray(function(*known))
    return made.astype(str(call.type.dtype.dtype), copy=False).reshape(dims)


_SMALL = 4096
"""A constant of so many elements is computed even if it is larger than what it is made of."""


def _either(*rules: Rule) -> Rule:
    """The first of several rules that gives a value."""

    def rule(call: OldCall) -> Value | None:
        return next((made for each in rules if (made := each(call)) is not None), None)

    return rule


def _same_elements(call: OldCall, made: Callable[[Array, list[int]], Array]) -> Value | None:
    """
    An operator that only moves or repeats elements: its value on a constant, if that is not too
    large; its operand, if that has the same shape.
    """
    dims = dims_of(call.type)
    if not call.has_leaves(0) or dims is None:
        return None
    if dims == dims_of(call.type_of(0)):
        return passed_on(call)
    array = call.constant(0)
    fits = array is not None and prod(dims) <= max(array.size, _SMALL)
    return made(array, dims) if array is not None and fits else None


def reshape(call: OldCall) -> Value | None:
    return _same_elements(call, lambda array, dims: array.reshape(dims))


def broadcast_to(call: OldCall) -> Value | None:
    return _same_elements(call, lambda array, dims: np.broadcast_to(array, dims).copy())


def permute_dims(call: OldCall) -> Value | None:
    rank, given = call.type.ndim, call.attrs.axes
    axes = list(range(rank))[::-1] if given is None else [int(axis) % rank for axis in given]
    if not call.has_leaves(0):
        return None
    if axes == sorted(axes):
        return passed_on(call)
    array = call.constant(0)
    if array is None:
        return None
    return transposed(array) if axes == [1, 0] else np.ascontiguousarray(array.transpose(axes))


def astype(call: OldCall) -> Value | None:
    if not call.has_leaves(0):
        return None
    if _keeps_dtype(call):
        return passed_on(call)
    array, dtype = call.constant(0), str(call.type.dtype.dtype)
    is_exact = array is not None and np.can_cast(array.dtype, dtype, "same_kind")
    return array.astype(dtype) if array is not None and is_exact else None


def shape_to_tensor(call: OldCall) -> Value | None:
    shape = call.writer.old.call(call.call.args[0], "shape_of")
    dims = None if shape is None else dims_of(shape.args[0].ty)
    return None if dims is None else np.asarray(dims, np.int64)


# Several operators in place of one


def _of_stack(operator: Callable[..., Any], call: OldCall) -> Value | None:
    """A reduction of a stack of tensors: `operator` on one after the other."""
    stack = call.made_by(0, "stack") if call.has_leaves(0) else None
    if stack is None or [int(axis) for axis in call.attrs.axis or ()] != [int(stack.attrs.axis)]:
        return None
    old = call.writer.old
    fields = [old.resolved(each) for each in old.resolved(stack.call.args[0]).fields]
    if call.attrs.keepdims or not all(map(is_leaf, fields)):
        return None
    keys = [call.writer.key(each) for each in _narrow(call, fields)]
    if len(keys) == 2 and operator is relax.op.add:
        made = onnx_operators.add(call.as_onnx("Add", keys))
        if made is not None:
            return made
    result = call.writer.expr(keys[0])
    for place, key in enumerate(keys[1:]):
        result = operator(call.writer.emit(result) if place else result, call.writer.expr(key))
    return result


def _narrow(call: OldCall, fields: Sequence[Any]) -> Sequence[Any]:
    """The tensors that `fields` were broadcast from, if they have the shape of `call` together."""
    old, sources = call.writer.old, []
    for field in fields:
        made = old.call(field, "broadcast_to")
        source = field if made is None else old.resolved(made.args[0])
        sources.append(source if is_leaf(source) else field)
    shapes = [dims_of(each.ty) for each in sources]
    known = [tuple(shape) for shape in shapes if shape is not None]
    if len(known) < len(shapes) or dims_of(call.type) != list(np.broadcast_shapes(*known)):
        return fields
    return sources


def _product_of_rows(call: OldCall) -> Value | None:
    """A product with a constant matrix, and perhaps a bias, of rows in several dimensions."""
    linear = call.writer.pending(call.key(0)) if call.has_leaves(0) else None
    product = _product_before(call) if isinstance(linear, Linear) and linear.rows == 1 else None
    flat = product.made_by(0, "reshape") if product and product.has_leaves(0) else None
    if not isinstance(linear, Linear) or flat is None or not flat.has_leaves(0):
        return None
    dims, rows, result = (dims_of(each) for each in (flat.type_of(0), flat.type, call.type))
    if dims is None or rows is None or result is None or len(rows) != 2:
        return None
    channels = linear.layout.channels
    if dims[-1] != rows[-1] or result != [*dims[:-1], channels]:
        return None
    layout = Layout(linear.layout.dtype, len(dims), len(dims) - 1, channels)
    return replace(linear, call=partial(relax.op.matmul, flat.expr(0)), layout=layout)


def _product_before(call: OldCall) -> OldCall | None:
    """The product that gives the operand of `call`, before a constant is added."""
    if (product := call.made_by(0, "matmul")) is not None:
        return product
    total = call.made_by(0, "add")
    products = (total and total.has_leaves(i) and total.made_by(i, "matmul") for i in (0, 1))
    return next((each for each in products if each), None)


def _product_of_batches(call: OldCall) -> Value | None:
    """A product of matrices that are in several dimensions, which is written for one dimension."""
    product = call.made_by(0, "matmul") if call.has_leaves(0) else None
    if product is None or not product.has_leaves(0, 1) or not _keeps_dtype(product):
        return None
    flat = [product.made_by(place, "reshape") for place in (0, 1)]
    sources = [each for each in flat if each is not None and each.has_leaves(0)]
    types = [each.type_of(0) for each in sources]
    dims, result = [dims_of(each) for each in types], dims_of(call.type)
    if len(sources) < 2 or result is None or dims[0] is None or dims[1] is None:
        return None
    flats = [dims_of(each.type) for each in sources]
    is_flat = all(
        flat is not None and given is not None and len(flat) == 3 and flat[1:] == given[-2:]
        for flat, given in zip(flats, dims, strict=True)
    )
    batch, rows, columns = dims[0][:-2], dims[0][-2], dims[1][-1]
    if not is_flat or batch != dims[1][:-2] or result != [*batch, rows, columns]:
        return None
    return relax.op.matmul(*(each.expr(0) for each in sources))


def squeeze(call: OldCall) -> Value | None:
    """A mean over channels that is written in five dimensions: a pooling with another layout."""
    pool = call.made_by(0, "nn.avg_pool3d") if call.has_leaves(0) else None
    inner = pool and pool.has_leaves(0) and pool.made_by(0, "expand_dims")
    if not (pool and inner and inner.has_leaves(0)) or inner.type_of(0).ndim != 4:
        return None
    attrs, axes = pool.attrs, [list(map(int, each.attrs.axis or ())) for each in (call, inner)]
    size, padding = list(map(int, attrs.pool_size)), list(map(int, attrs.padding))
    plain = {1, *map(int, attrs.strides), *map(int, attrs.dilation), *size[1:]} == {1}
    sides = [*padding[1:3], *padding[4:]]
    if axes != [[1], [1]] or not plain or any(sides) or not attrs.count_include_pad:
        return None
    if attrs.ceil_mode or (str(attrs.layout), str(attrs.out_layout)) != ("NCDHW", "NCDHW"):
        return None
    return relax.op.nn.avg_pool2d(
        inner.expr(0),
        (size[0], 1),
        padding=(padding[0], 0, padding[3], 0),
        layout="NHWC",
        count_include_pad=True,
    )


def mean(call: OldCall) -> Value | None:
    """Over all axes of an image, these from first to last."""
    rank = call.type_of(0).ndim
    axes = [int(axis) for axis in call.attrs.axis or ()]
    inner = list(range(2, rank))
    if not call.attrs.keepdims or rank < 3 or not call.has_leaves(0) or axes == inner:
        return None
    is_all = sorted(axis % rank for axis in axes) == inner
    return relax.op.mean(call.expr(0), axis=inner, keepdims=True) if is_all else None


def softmax(operator: Callable[..., Any], call: OldCall) -> Value | None:
    """Over the last axis, it has the axis -1."""
    axis = int(call.attrs.axis)
    is_last = axis == call.type.ndim - 1
    return operator(call.expr(0), axis=-1) if is_last and call.has_leaves(0) else None


def _softmax_of_matrix(call: OldCall) -> Value | None:
    """A softmax over one axis, with only axes of size 1 behind it, that is written for a matrix."""
    for op, operator in _SOFTMAX.items():
        inner = call.made_by(0, op) if call.has_leaves(0) else None
        flat = inner and inner.has_leaves(0) and inner.made_by(0, "reshape")
        if not (inner and flat and flat.has_leaves(0)):
            continue
        dims, matrix = dims_of(flat.type_of(0)), dims_of(inner.type)
        if dims is None or matrix is None or dims != dims_of(call.type) or len(matrix) != 2:
            return None
        axes = [axis for axis, dim in enumerate(dims) if prod(dims[axis:]) == matrix[1] == dim]
        if axes and int(inner.attrs.axis) in (-1, 1):
            return operator(flat.expr(0), axis=axes[-1] if axes[-1] < len(dims) - 1 else -1)
    return None


_SOFTMAX = {"nn.softmax": relax.op.nn.softmax, "nn.log_softmax": relax.op.nn.log_softmax}


def clip(call: OldCall) -> Value | None:
    """With bounds that are floats, as the elements."""
    bounds = call.call.args[1:]
    if layout_of(call.type) is None or not call.has_leaves(0):
        return None
    if not all(isinstance(bound, tirx.IntImm | tirx.FloatImm) for bound in bounds):
        return None
    return relax.op.clip(call.expr(0), *(float(bound.value) for bound in bounds))


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
    """The canonical form of `Clip`, as in `onnx_operators.clip`."""
    x = call.writer.expr(call.writer.key(_operands(call)[0]))
    dtype = str(x.ty.dtype.dtype)
    if low is not None and high is not None:
        return relax.op.clip(x, low, high)
    if low is None:
        return relax.op.minimum(x, relax.const(high, dtype))
    return relax.op.nn.relu(x) if low == 0 else relax.op.maximum(x, relax.const(low, dtype))


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


# Indices


def _picked(call: OldCall) -> Value | None:
    """A constant picked from a constant."""
    if not call.has_leaves(0, 1) or call.attrs.axis is None:
        return None
    array, index = call.constant(0), call.constant(1)
    if array is None or index is None or array.size > _SMALL or dims_of(call.type) is None:
        return None
    axis = int(call.attrs.axis)
    is_inside = ((index >= 0) & (index < array.shape[axis])).all()
    return np.asarray(np.take(array, index, axis)) if is_inside else None


def strided_slice(call: OldCall) -> Value | None:
    """A part of a small constant."""
    array = call.constant(0)
    if array is None or array.size > _SMALL:
        return None
    numbers = [_numbers(each) for each in call.call.args[1:]]
    if len(numbers) < 3 or any(each is None for each in numbers):
        return None
    axes, *bounds = (each for each in numbers if each is not None)
    part = [slice(None)] * array.ndim
    for axis, *limits in zip(axes, *bounds, strict=True):
        part[axis] = slice(*limits)
    return array[tuple(part)].copy()


def _numbers(expr: Any) -> list[int] | None:
    """The numbers of a literal tuple, none of which counts from the end."""
    fields = expr.fields if isinstance(expr, tvm.ir.Tuple) else [None]
    values = [each.value for each in fields if isinstance(each, tirx.IntImm) and each.value >= 0]
    return [int(value) for value in values] if len(values) == len(fields) else None


def _indexed(call: OldCall) -> Value | None:
    """
    An operator with indices, without the operators that add the sizes of axes to negative ones: it
    counts a negative index from the end by itself.
    """
    wrapped = call.made_by(1, "where") if call.has_leaves(0, 1) else None
    if wrapped is None or not wrapped.has_leaves(0, 1, 2):
        return None
    below, raised = wrapped.made_by(0, "less"), wrapped.made_by(1, "add")
    if not (below and raised and below.has_leaves(0, 1) and raised.has_leaves(0, 1)):
        return None
    zero, sizes = below.constant(1), raised.constant(1)
    if len({each.key(place) for each, place in ((below, 0), (raised, 0), (wrapped, 2))}) > 1:
        return None
    wanted = _sizes_of_indexed_axes(call)
    if zero is None or zero.any() or sizes is None or wanted is None:
        return None
    if sizes.ndim > 1 or (sizes != np.asarray(wanted)).any():
        return None
    places = range(2, len(call.call.args))
    others = [call.expr(place) for place in places if call.has_leaves(place)]
    if len(others) < len(places):
        return None
    return relax.Call(call.call.op, [call.expr(0), wrapped.expr(2), *others], call.attrs)


def _sizes_of_indexed_axes(call: OldCall) -> list[int] | None:
    """The sizes of the axes that the indices of a call are for, if these are known."""
    dims, indices = static_dims(call.type_of(0)), call.type_of(1)
    axis = getattr(call.attrs, "axis", None)
    if axis is not None:
        return known_dims([dims[int(axis)]])
    points = static_dims(indices)[-1:]
    first = int(getattr(call.attrs, "batch_dims", 0))
    return known_dims(dims[first : first + points[0]]) if points and points[0] else None


_FOLDED: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "isnan": np.isnan,
    "less": np.less,
    "less_equal": np.less_equal,
    "logical_not": np.logical_not,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negative": np.negative,
    "subtract": np.subtract,
    "where": np.where,
}

_RULES: Mapping[str, Rule] = {
    "add": partial(_binary, onnx_operators.add, "Add"),
    "astype": astype,
    "broadcast_to": broadcast_to,
    "call_tir": call_tir,
    "clip": clip,
    "divide": partial(_binary, onnx_operators.divide, "Div"),
    "expand_dims": reshape,
    "gather_elements": _indexed,
    "gather_nd": _indexed,
    "matmul": matmul,
    "max": partial(_of_stack, relax.op.maximum),
    "mean": mean,
    "min": partial(_of_stack, relax.op.minimum),
    "multiply": partial(_binary, onnx_operators.multiply, "Mul"),
    "nn.conv1d": convolution,
    "nn.conv2d": convolution,
    "nn.conv3d": convolution,
    **{op: partial(softmax, operator) for op, operator in _SOFTMAX.items()},
    "permute_dims": permute_dims,
    "reshape": _either(_softmax_of_matrix, _product_of_rows, _product_of_batches, reshape),
    "scatter_elements": _indexed,
    "scatter_nd": _indexed,
    "shape_to_tensor": shape_to_tensor,
    "squeeze": _either(squeeze, reshape),
    "strided_slice": strided_slice,
    "subtract": partial(_binary, onnx_operators.subtract, "Sub"),
    "sum": partial(_of_stack, relax.op.add),
    "take": _either(_picked, _indexed),
}

RULES: Mapping[str, Rule] = {
    op: _either(partial(_folded, _FOLDED[op]), _RULES[op])
    if op in _FOLDED and op in _RULES
    else _RULES.get(op) or partial(_folded, _FOLDED[op])
    for op in sorted({*_RULES, *_FOLDED})
}
