"""The canonical form of several operators that importers write in place of one."""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import relax

from collage_dsl.frontend import onnx_products
from collage_dsl.frontend.bindings import is_leaf
from collage_dsl.frontend.canonical_call import OldCall, dims_of
from collage_dsl.frontend.onnx_site import Value, known_dims, static_dims


def of_stack(operator: Callable[..., Any], call: OldCall) -> Value | None:
    """A reduction of a stack of tensors: `operator` on one after the other."""
    keys = _stacked(call)
    if keys is None:
        return None
    if len(keys) == 2 and operator is relax.op.add:
        made = onnx_products.add(call.as_onnx("Add", keys))
        if made is not None:
            return made
    return _joined(operator, call, keys)


def mean_of_stack(call: OldCall) -> Value | None:
    """The sum of all tensors, divided by their number, as in `onnx_operators.mean`."""
    keys = _stacked(call)
    if keys is None:
        return None
    total = _joined(relax.op.add, call, keys)
    if len(keys) == 1:
        return total
    total = call.writer.emit(total)
    return relax.op.multiply(total, relax.const(1 / len(keys), str(total.ty.dtype.dtype)))


def _stacked(call: OldCall) -> list[str] | None:
    """The names of the tensors of a stack that is reduced to one of them."""
    stack = call.made_by(0, "stack") if call.has_leaves(0) else None
    if stack is None or [int(axis) for axis in call.attrs.axis or ()] != [int(stack.attrs.axis)]:
        return None
    old = call.writer.old
    fields = [old.resolved(each) for each in old.resolved(stack.call.args[0]).fields]
    if call.attrs.keepdims or not all(map(is_leaf, fields)):
        return None
    return [call.writer.key(each) for each in _narrow(call, fields)]


def _joined(operator: Callable[..., Any], call: OldCall, keys: Sequence[str]) -> Value:
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


def softmax_of_matrix(call: OldCall) -> Value | None:
    """A softmax over one axis, with only axes of size 1 behind it, that is written for a matrix."""
    for op, operator in SOFTMAX.items():
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


SOFTMAX = {"nn.softmax": relax.op.nn.softmax, "nn.log_softmax": relax.op.nn.log_softmax}


def indexed(call: OldCall) -> Value | None:
    """
    An operator with indices, without the operators that add the sizes of axes to negative ones: it
    counts a negative index from the end by itself.
    """
    if getattr(call.attrs, "mode", "fast") != "fast" or not call.has_leaves(0, 1):
        return None
    wrapped = call.made_by(1, "where")
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
    if hasattr(call.attrs, "axis"):
        return None if axis is None else known_dims([dims[int(axis)]])
    points = static_dims(indices)[-1:]
    first = int(getattr(call.attrs, "batch_dims", 0))
    return known_dims(dims[first : first + points[0]]) if points and points[0] else None
