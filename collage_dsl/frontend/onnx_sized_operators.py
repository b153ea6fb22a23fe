"""
Convert ONNX operators whose results have sizes that are computed: `Reshape`, `Expand`, `Slice`.

Sizes may have dimensions of inputs in them. Where they are all numbers, TVM's converter is used.
"""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm_ffi
from onnx import numpy_helper
from tvm import relax, tirx

from collage_dsl.frontend.errors import CannotConvertError, UnknownSizeError
from collage_dsl.frontend.onnx_site import Converter, Site, Value, static_dims
from collage_dsl.frontend.onnx_sizes import Size, as_expr

_END = 1_000_000_000
"""A slice of an unknown size to here or beyond is one to the end, as tf2onnx writes it."""


def reshape(site: Site) -> Value | None:
    """The operand itself if the shape does not change."""
    x, shape = site.expr(0), site.sizes(1)
    if shape is None or not isinstance(x.ty, relax.TensorType):
        return None
    if site.constant(1) is not None and None not in static_dims(x.ty):
        is_same = static_dims(x.ty) == shape and not site.attrs.get("allowzero")
        return x if is_same else None
    dims = site.dims()
    if dims is None:
        return None
    wanted = _without_zeros(site, dims, shape)
    if wanted is None:
        return None
    if -1 in [size for size in wanted if isinstance(size, int)]:
        others = [size for size in wanted if not isinstance(size, int) or size != -1]
        if len(others) != len(wanted) - 1 or 0 in [s for s in others if isinstance(s, int)]:
            return None
        rest = site.scope.arithmetic.quotient(dims, others)
        wanted = [rest if isinstance(s, int) and s == -1 else s for s in wanted]
    if len(wanted) == len(dims) and all(map(site.scope.arithmetic.is_equal, wanted, dims)):
        return x
    return relax.op.reshape(x, relax.ShapeExpr(wanted))


def _without_zeros(site: Site, dims: Sequence[Size], shape: Sequence[Size]) -> list[Size] | None:
    """A shape in which 0 stands for the dimension of the operand, with that dimension."""
    if site.attrs.get("allowzero"):
        return list(shape)
    is_kept = [isinstance(size, int) and size == 0 for size in shape]
    if any(is_kept[len(dims) :]):
        return None
    return [
        dims[axis] if kept else size
        for axis, (size, kept) in enumerate(zip(shape, is_kept, strict=True))
    ]


def expand(site: Site) -> Value | None:
    """A dimension of 1 in either shape takes the size in the other."""
    dims, shape = site.dims(), site.sizes(1)
    if dims is None or shape is None or _are_numbers([*dims, *shape]):
        return None
    rank, arithmetic = max(len(dims), len(shape)), site.scope.arithmetic
    wanted: list[Size] = []
    for one, other in zip(_padded(dims, rank), _padded(shape, rank), strict=True):
        if _is(one, 1):
            wanted.append(other)
        elif _is(other, 1) or arithmetic.is_equal(one, other):
            wanted.append(one)
        else:
            raise UnknownSizeError(f"it is not known whether {one} or {other} is 1")
    x = site.expr(0)
    if len(dims) == rank and all(map(arithmetic.is_equal, wanted, dims)):
        return x
    return relax.op.broadcast_to(x, relax.ShapeExpr(wanted))


def _padded(dims: Sequence[Size], rank: int) -> list[Size]:
    return [1] * (rank - len(dims)) + list(dims)


def filled(site: Site) -> Value | None:
    """`ConstantOfShape`."""
    shape = site.sizes(0)
    if shape is None or _are_numbers(shape):
        return None
    value = site.attrs.get("value")
    array = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    fill = site.scope.literal(array.reshape(()))
    return relax.op.full(relax.ShapeExpr(shape), fill, str(array.dtype))


def tiled(site: Site) -> Value | None:
    """
    `Tile`. With repeats that are no numbers it is a broadcast, between reshapes where an axis that
    is repeated has several elements.
    """
    if (numbers := site.constant(1)) is not None:
        return relax.op.tile(site.expr(0), numbers.tolist())
    dims, repeats = site.dims(), site.sizes(1)
    if dims is None or repeats is None or len(repeats) != len(dims):
        return None
    x, emit = site.expr(0), site.scope.emit
    if all(_is(dim, 1) or _is(count, 1) for dim, count in zip(dims, repeats, strict=True)):
        wanted = [dim if _is(count, 1) else count for dim, count in zip(dims, repeats, strict=True)]
        return relax.op.broadcast_to(x, relax.ShapeExpr(wanted))
    pairs = list(zip(repeats, dims, strict=True))
    apart = emit(relax.op.reshape(x, relax.ShapeExpr([s for _, dim in pairs for s in (1, dim)])))
    made = emit(relax.op.broadcast_to(apart, relax.ShapeExpr([s for pair in pairs for s in pair])))
    return relax.op.reshape(made, relax.ShapeExpr([count * dim for count, dim in pairs]))


def counted(site: Site) -> Value | None:
    """
    `Range` up to a size. TVM's converter makes a tensor of unknown size. TVM's operator counts two
    elements too many where a step is negative, so such a range is its start less one that grows.
    """
    given = [_whole(site, place) for place in range(3)]
    sizes = [found[0] for found in given if found is not None and len(found) == 1]
    if len(sizes) < 3 or _are_numbers(sizes):
        return None
    start, stop, step = sizes
    falls = site.scope.arithmetic.is_at_least(-1, step)
    if not falls and not site.scope.arithmetic.is_at_least(step, 1):
        return None
    bounds = (0, start - stop, -step) if falls else (start, stop, step)
    made = relax.op.arange(*map(as_expr, bounds), "int64")
    constants = [site.constant(place) for place in range(3)]
    dtype = next((str(each.dtype) for each in constants if each is not None), "int64")
    if dtype != "int64":
        made = relax.op.astype(site.scope.emit(made), dtype)
    return relax.op.subtract(site.expr(0), site.scope.emit(made)) if falls else made


def _whole(site: Site, place: int) -> list[Size] | None:
    """The elements of an operand if they are whole: also floats that were sizes, and constants."""
    array = site.constant(place)
    if array is not None and array.dtype.kind == "f" and (array == np.trunc(array)).all():
        return [int(each) for each in array.flat] if np.isfinite(array).all() else None
    found = site.sizes(place)
    return site.scope.cast_sizes(site.name(place)) if found is None else found


def _differ(one: object, other: object) -> bool:
    """Whether two dimensions are different numbers."""
    return isinstance(one, int) and isinstance(other, int) and one != other


def joined(site: Site) -> Value | None:
    """
    `Concat` of tensors whose other dimensions are not known to be equal. They have to be, which is
    checked before the model runs: the reshape here is one to the same shape. In a graph inside the
    model, of whose nodes nothing is known later, at most one dimension of a tensor may be unknown.
    """
    shapes = [site.dims(place) for place in range(len(site.node.input))]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({*map(len, known)}) > 1 or not known[0]:
        return None
    axis, is_equal = site.attrs["axis"] % len(known[0]), site.scope.arithmetic.is_equal
    wanted = [[*known[0][:axis], dims[axis], *known[0][axis + 1 :]] for dims in known]
    for dims, sizes in zip(known, wanted, strict=True):
        if any(_differ(*pair) for pair in zip(dims, sizes, strict=True)):
            both = " and ".join(f"[{', '.join(map(str, each))}]" for each in (known[0], dims))
            raise CannotConvertError(f"tensors of {both} cannot be joined along axis {axis}")
    other = [
        sum(not is_equal(*pair) for pair in zip(*both, strict=True))
        for both in zip(known, wanted, strict=True)
    ]
    most = sys.maxsize if site.scope.is_of_model(site.node.output[0]) else 1
    if not 0 < max(other) <= most:
        return None
    parts = [
        site.scope.emit(relax.op.reshape(site.expr(place), relax.ShapeExpr(dims)))
        if is_other
        else site.expr(place)
        for place, (dims, is_other) in enumerate(zip(wanted, other, strict=True))
    ]
    return relax.op.concat(parts, axis)


def sliced(site: Site) -> Value | None:
    """
    Slices whose bounds or dimensions are no numbers, each as a `take` of the places in it. Of a
    dimension that is a number, a bound is taken to be inside, which the kernel checks as it runs.
    """
    dims = site.dims()
    bounds = _bounds(site, dims)
    if dims is None or bounds is None:
        return None
    if _are_numbers([dims[axis] for axis, *_ in bounds]) and _are_numbers(
        [size for _, *sizes in bounds for size in sizes]
    ):
        return None
    result, arithmetic = site.expr(0), site.scope.arithmetic
    for axis, start, end, step in bounds:
        if _is_flipped(start, end, step):
            result = site.scope.emit(relax.op.flip(result, axis))
            continue
        if not isinstance(step, int) or step < 1:
            raise UnknownSizeError("a slice backwards between sizes that are no numbers")
        dim = dims[axis]
        first, last = _place(site, start, dim), _place(site, end, dim, is_end=True)
        if _is(first, 0) and step == 1 and arithmetic.is_equal(last, dim):
            continue
        places = relax.op.arange(as_expr(first), as_expr(last), as_expr(step), "int64")
        result = site.scope.emit(relax.op.take(result, site.scope.emit(places), axis))
        result = _with_simple_size(site, result, axis)
    return result


def _is_flipped(start: Size, end: Size, step: Size) -> bool:
    """Whether a slice takes all elements of an axis from the last to the first."""
    is_from_last = _is(start, -1) or (isinstance(start, int) and start >= _END)
    return _is(step, -1) and is_from_last and isinstance(end, int) and end <= -_END


def _with_simple_size(site: Site, result: Value, axis: int) -> Value:
    """
    TVM gives a slice of `n - 1` elements the size `max(n - 1, 0)`, which it takes for another one
    wherever sizes have to be equal.
    """
    dims = list(result.ty.shape.values)
    arithmetic, size = site.scope.arithmetic, dims[axis]
    simple = arithmetic.simple(size)
    if tvm_ffi.structural_equal(as_expr(simple), size):
        if not arithmetic.is_at_least(size, 1):
            arithmetic.is_doubtful = True
        return result
    dims[axis] = as_expr(simple)
    return site.scope.emit(relax.op.reshape(result, relax.ShapeExpr(dims)))


_Bounds = list[tuple[int, Size, Size, Size]]


def _bounds(site: Site, dims: Sequence[Size] | None) -> _Bounds | None:
    """The axis, start, end and step of each slice."""
    if dims is None:
        return None
    if "starts" in site.attrs:
        starts, ends = list(site.attrs["starts"]), list(site.attrs["ends"])
        axes: list[Size] | None = list(site.attrs.get("axes", range(len(starts))))
        steps: list[Size] | None = [1] * len(starts)
    else:
        found = [site.sizes(place) for place in (1, 2)]
        if found[0] is None or found[1] is None:
            return None
        starts, ends = found[0], found[1]
        axes = site.sizes(3) if site.has(3) else list(range(len(starts)))
        steps = site.sizes(4) if site.has(4) else [1] * len(starts)
    if axes is None or steps is None or not _are_numbers(axes):
        return None
    if not len(starts) == len(ends) == len(axes) == len(steps):
        return None
    if not all(-len(dims) <= axis < len(dims) for axis in axes):
        return None
    named = [axis % len(dims) for axis in axes]
    return list(zip(named, starts, ends, steps, strict=True))


def _place(site: Site, bound: Size, dim: Size, *, is_end: bool = False) -> Size:
    """
    Where a bound is, counted from the first element, between 0 and the last place. It is a maximum
    or minimum where the slice may take nothing, which `may_be_empty` looks for.
    """
    at = site.scope.arithmetic
    if isinstance(bound, int) and bound >= _END and not isinstance(dim, int):
        return dim
    if at.is_proven(bound < 0):
        bound = at.simple(dim + bound)
        return bound if at.is_at_least(bound, int(is_end)) else _cut(tirx.max, bound, 0)
    if not isinstance(bound, int):
        return bound
    needed = bound + 1 if bound and not is_end else bound
    return bound if at.is_at_least(dim, needed) else _cut(tirx.min, bound, dim)


def _cut(function: Any, one: Size, other: Size) -> Size:
    numbers = {tirx.max: max, tirx.min: min}
    if isinstance(one, int) and isinstance(other, int):
        return numbers[function](one, other)
    return function(as_expr(one), as_expr(other))


def _is(size: Size, number: int) -> bool:
    return isinstance(size, int) and size == number


def _are_numbers(sizes: Sequence[Size]) -> bool:
    return all(isinstance(size, int) for size in sizes)


SIZED: Mapping[str, Converter] = {
    "Concat": joined,
    "ConstantOfShape": filled,
    "Expand": expand,
    "Range": counted,
    "Reshape": reshape,
    "Slice": sliced,
    "Tile": tiled,
}
