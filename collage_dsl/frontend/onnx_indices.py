"""Convert ONNX operators that take or give indices."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, tirx

from collage_dsl.frontend.errors import CannotConvertError, WrongNodeError
from collage_dsl.frontend.onnx_site import Site, Value, static_dims
from collage_dsl.graph.arrays import Array


def top(site: Site) -> Value | None:
    """`TopK` of operator set 10, in which TVM does not read the second operand."""
    if site.scope.opset != 10:
        return None
    count = site.constant(1)
    if count is None:
        raise CannotConvertError("a number of elements that is computed is not supported")
    axis = site.attrs.get("axis", -1)
    return relax.op.topk(site.expr(0), int(count.item()), axis, ret_type="both", dtype="int64")


def one_hot(site: Site) -> Value | None:
    """
    TVM's operator, in which a negative index does not count from the end, and of whose negative
    axes its kernels know only the last.
    """
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
    axis = axis if axis == -1 else axis % (indices.ty.ndim + 1)
    return relax.op.one_hot(indices, on, off, int(depth.item()), axis)


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
