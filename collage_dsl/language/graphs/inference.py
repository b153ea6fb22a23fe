"""
Infer the types of calls in graphs that are written as text, as far as rules need them.

The results are those of TVM, and what TVM refuses raises MismatchError. One exception: whether an
operator supports a dtype is not checked. Also refused are a window larger than the data and a
split into more parts than there are elements (TVM gives dimensions of 0 or less), and an output
size with more numbers than axes. In the target shape of a reshape, 0 keeps the dimension, and a
single -1 stands for the rest.
A type that is not inferred has an unknown shape; the user can write it: `y: f32[1, 64] = …`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from math import prod

from collage_dsl.graph import Attribute, Dim, Kind, OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators
from collage_dsl.graph.types import short_dtype, tensors

UNKNOWN_DIM = "?"
"""An unknown dimension of a shape whose rank is known."""

MOST_PARTS = 10_000
"""The most parts that a value may be split into."""

Shape = tuple[Dim, ...]


class MismatchError(Exception):
    """The operands do not fit each other; the message says how."""


@dataclass(frozen=True, slots=True)
class Call:
    """Everything that the type of a call depends on. `values` are those of literal operands."""

    op: str
    types: tuple[Type, ...]
    values: tuple[object, ...]
    attrs: Mapping[str, Attribute]

    def tensor(self, at: int = 0) -> TensorType | None:
        type_ = self.types[at] if at < len(self.types) else None
        return type_ if isinstance(type_, TensorType) else None

    def shape(self, at: int = 0) -> Shape | None:
        tensor = self.tensor(at)
        return None if tensor is None else tensor.shape

    def ints(self, name: str) -> tuple[int, ...] | None:
        """The numbers of an attribute; None if it has no value."""
        match self.attrs.get(name):
            case int() as number:
                return (number,)
            case tuple() as numbers:
                return tuple(number for number in numbers if isinstance(number, int))
        return None

    def whole(self, name: str) -> int | None:
        value = self.attrs.get(name)
        return value if isinstance(value, int) else None

    def text(self, name: str) -> str:
        return str(self.attrs.get(name) or "")


def infer(call: Call) -> Type:
    """The type of `call`. Raises MismatchError."""
    known = operators().get(call.op)
    try:
        if rule := _RULES.get(call.op):
            return rule(call)
        if known and known.kind is Kind.BROADCAST:
            return _broadcasting(call)
        if known and known.kind is Kind.ELEMENTWISE:
            return _like_first(call)
    except (IndexError, ZeroDivisionError):
        raise MismatchError("the attributes do not fit the shapes of the operands") from None
    return _unknown(call)


def _dtype(call: Call) -> str:
    """The dtype in the attributes, else that of the first tensor."""
    found = (tensor.dtype for type_ in call.types for tensor in tensors(type_))
    return call.text("out_dtype") or call.text("dtype") or next(found, "unknown")


def _unknown(call: Call) -> Type:
    return TensorType(_dtype(call), None)


def _like_first(call: Call) -> Type:
    return _result(call, call.shape())


def _result(call: Call, shape: Shape | None, dtype: str | None = None) -> Type:
    return TensorType(dtype or _dtype(call), shape)


def _check_dtypes(types: Iterable[Type]) -> None:
    """Raise MismatchError unless all tensors have the same dtype."""
    dtypes = {tensor.dtype for type_ in types for tensor in tensors(type_)} - {"unknown"}
    if len(dtypes) > 1:
        raise MismatchError(f"the dtypes {' and '.join(sorted(map(short_dtype, dtypes)))} differ")


# Elementwise and broadcasting.


def _truth(call: Call) -> Type:
    return _result(call, call.shape(), "bool")


def _broadcasting(call: Call) -> Type:
    _check_dtypes(call.types)
    found = [type_.shape for type_ in call.types if isinstance(type_, TensorType)]
    return _result(call, _broadcast(found))


def _comparing(call: Call) -> Type:
    return _result(call, _broadcast([call.shape(0), call.shape(1)]), "bool")


def _where(call: Call) -> Type:
    _check_dtypes(call.types[1:])
    shape = _broadcast([call.shape(0), call.shape(1), call.shape(2)])
    values = call.tensor(1)
    return _result(call, shape, values.dtype if values else None)


def _outer(call: Call) -> Type:
    left, right = call.shape(0), call.shape(1)
    if left is None or right is None:
        return _unknown(call)
    if len(left) != 1 or len(right) != 1:
        raise MismatchError("both operands are to have one dimension")
    return _result(call, (*left, *right))


def _scaling(call: Call) -> Type:
    shape = call.shape()
    if shape is not None:
        dim = shape[_axis(call.whole("axis") or 0, len(shape))] if shape else 1
        for given in (call.shape(1), call.shape(2)):
            if given and given[0] != 1 and _differ(given[0], dim):
                raise MismatchError(f"{given[0]} numbers do not fit a dimension of {dim}")
    return _result(call, shape)


def _broadcast(shapes: list[Shape | None]) -> Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or not known:
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(reduce(_one_dim, dims) for dims in zip(*padded, strict=True))


def _one_dim(left: Dim, right: Dim) -> Dim:
    if right == 1:
        return left
    if left == 1:
        return right
    if _differ(left, right):
        raise MismatchError(f"dimensions {left} and {right} do not broadcast")
    return _both(left, right)


def _both(left: Dim, right: Dim) -> Dim:
    """The more exact of two descriptions of the same dimension."""
    if left == right or isinstance(left, int):
        return left
    return right if isinstance(right, int) else UNKNOWN_DIM


def _differ(left: Dim, right: Dim) -> bool:
    return isinstance(left, int) and isinstance(right, int) and left != right


def _are_different(left: Shape, right: Shape) -> bool:
    return len(left) != len(right) or any(map(_differ, left, right))


def _listed(shape: Shape) -> str:
    return f"[{', '.join(map(str, shape))}]"


# Convolution, pooling, matrix multiplication.


def _convolution(call: Call) -> Type:
    _check_dtypes(call.types)
    size, weight = _sizes(call, 0, "data_layout"), _sizes(call, 1, "kernel_layout")
    output = _layout(call, "out_layout")
    if size is None or weight is None or output is None:
        return _unknown(call)
    channels, per_group, found = size["C"], weight["I"], weight["O"]
    groups = call.whole("groups") or 0
    if groups < 1:
        raise MismatchError(f"there are no {count_groups(groups)}")
    if isinstance(channels, int) and isinstance(per_group, int) and channels != per_group * groups:
        raise MismatchError(
            f"{channels} channels in {count_groups(groups)} do not fit a weight for {per_group}"
        )
    if isinstance(found, int) and found % groups:
        raise MismatchError(f"{found} channels cannot be made by {count_groups(groups)}")
    size |= _slide(call, size, [weight[axis] for axis in _spatial(size)]) | {"C": found}
    return _result(call, tuple(size[axis] for axis in output))


def count_groups(groups: int) -> str:
    return "1 group" if groups == 1 else f"{groups} groups"


def _pooling(call: Call) -> Type:
    size, output = _sizes(call, 0, "layout"), _layout(call, "out_layout")
    if size is None or output is None:
        return _unknown(call)
    size |= _slide(call, size, call.ints("pool_size") or ())
    return _result(call, tuple(size[axis] for axis in output))


def _adaptive_pooling(call: Call) -> Type:
    size, output = _sizes(call, 0, "layout"), _layout(call, "out_layout")
    if size is None or output is None:
        return _unknown(call)
    wanted = call.ints("output_size")
    if wanted is not None:
        size |= _of_axes(_spatial(size), wanted)
    return _result(call, tuple(size[axis] for axis in output))


def _resize(call: Call) -> Type:
    size, wanted = _sizes(call, 0, "layout"), call.values[1]
    if size is None or not isinstance(wanted, tuple):
        return _unknown(call)
    size |= _of_axes(_spatial(size), wanted)
    return _result(call, tuple(size.values()))


def _sizes(call: Call, at: int, attribute: str) -> dict[str, Dim] | None:
    """The dimensions of an operand by the letters of its layout, in order."""
    shape, layout = call.shape(at), _layout(call, attribute)
    if shape is None or layout is None:
        return None
    if len(shape) != len(layout):
        raise MismatchError(f"an operand of {len(shape)} dimensions has no layout {layout}")
    return dict(zip(layout, shape, strict=True))


def _layout(call: Call, attribute: str) -> str | None:
    """A layout in which each letter is an axis; None for a blocked one such as `NCHW16c`."""
    layout, usual = call.text(attribute), str(operators()[call.op].defaults[attribute])
    if any(map(str.islower, layout)):
        return None
    if sorted(layout) != sorted(usual):
        raise MismatchError(f"the layout {layout} is no order of {usual}")
    return layout


def _spatial(size: Mapping[str, Dim]) -> list[str]:
    return [axis for axis in size if axis not in ("N", "C")]


def _of_axes(axes: list[str], wanted: tuple[Dim, ...]) -> dict[str, Dim]:
    if len(axes) != len(wanted):
        raise MismatchError(f"{_listed(wanted)} is not one number for each of {' and '.join(axes)}")
    return dict(zip(axes, wanted, strict=True))


def _slide(call: Call, size: Mapping[str, Dim], windows: Sequence[Dim]) -> dict[str, Dim]:
    """The number of positions of a window along each spatial axis."""
    spatial, steps = _spatial(size), _rounded_up if call.attrs.get("ceil_mode") else _steps
    padding, strides, dilation = (call.ints(n) or () for n in ("padding", "strides", "dilation"))
    if any(stride < 1 for stride in strides):
        raise MismatchError(f"a window does not move by {min(strides)}")
    befores, afters = padding[: len(spatial)], padding[len(spatial) :]
    found: dict[str, Dim] = {}
    for at, axis in enumerate(spatial):
        window, before, after = windows[at], befores[at], afters[at]
        if isinstance(window, int):
            more = before + after - dilation[at] * (window - 1) - 1
            found[axis] = steps(size[axis], more, strides[at], before)
        else:
            found[axis] = UNKNOWN_DIM
    return found


def _rounded_up(dim: Dim, extra: int, stride: int, before: int) -> Dim:
    """Like `_steps`, plus a last partial window if it begins before the data ends."""
    if not isinstance(dim, int):
        return UNKNOWN_DIM
    steps = _steps_in(dim, extra + stride - 1, stride)
    return steps - 1 if (steps - 1) * stride >= dim + before else steps


def _steps(dim: Dim, extra: int, stride: int, _before: int) -> Dim:
    """`(dim + extra) // stride + 1`."""
    if isinstance(dim, int):
        return _steps_in(dim, extra, stride)
    if dim == UNKNOWN_DIM:
        return dim
    if stride == 1:
        return _plus(dim, extra + 1)
    inner = _plus(dim, extra)
    return f"{_closed(inner)} // {stride} + 1"


def _steps_in(dim: int, extra: int, stride: int) -> int:
    if dim + extra < 0:
        raise MismatchError("the window is larger than the padded data")
    return (dim + extra) // stride + 1


def _plus(dim: str, number: int) -> str:
    if number < 0:
        return f"{_closed(dim)} - {-number}"
    return f"{_closed(dim)} + {number}" if number else dim


def _closed(dim: str) -> str:
    return dim if dim.isidentifier() else f"({dim})"


def _matmul(call: Call) -> Type:
    _check_dtypes(call.types)
    left, right = call.shape(0), call.shape(1)
    if left is None or right is None:
        return _unknown(call)
    if not left or not right:
        raise MismatchError("a scalar cannot be multiplied as a matrix")
    columns, rows = left[-1], right[-2:][0]
    if _differ(columns, rows):
        raise MismatchError(f"{columns} columns cannot be multiplied with {rows} rows")
    shape = _broadcast([left[:-2], right[:-2]]) or ()
    shape += left[-2:-1]
    shape += right[-1:] if len(right) > 1 else ()
    return _result(call, shape)


def _attention(call: Call) -> Type:
    shapes = [call.shape(at) for at in range(len(call.types))]
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return _unknown(call)
    if any(len(shape) != 4 for shape in known):
        raise MismatchError("attention takes operands of 4 dimensions")
    query, key, value, *bias = known
    pairs = [(query[0], key[0]), (query[0], value[0]), (key[1], value[1]), (query[3], key[3])]
    for each in bias:
        pairs += [(dim, of) for dim, of in zip(each[:3], _scores(query), strict=True) if dim != 1]
        pairs.append((each[3], key[1]))
    for one, other in pairs:
        if _differ(one, other):
            raise MismatchError(f"the dimensions {one} and {other} are to be the same")
    for heads in (key[2], value[2]):
        if _is_no_multiple(query[2], heads):
            raise MismatchError(f"{query[2]} heads are no multiple of {heads}")
    return _result(call, (*query[:3], value[3]))


def _scores(query: Shape) -> Shape:
    return query[0], query[2], query[1]


def _is_no_multiple(number: Dim, of: Dim) -> bool:
    return isinstance(number, int) and isinstance(of, int) and number % of != 0


# Normalizing.


def _along_axis(call: Call) -> Type:
    shape, axis = call.shape(), call.whole("axis")
    if shape is not None and axis is not None:
        _axis(axis, len(shape))
    return _result(call, shape)


def _normalizing(call: Call) -> Type:
    _check_weights(call, call.ints("axes") or ())
    return _like_first(call)


def _channel_norm(call: Call) -> Type:
    """Normalize groups of channels; `instance_norm` has one channel per group."""
    shape, channel, groups = call.shape(), call.whole("channel_axis"), call.whole("num_groups")
    if shape is not None and channel is not None:
        at, *_ = _axes((channel, *(call.ints("axes") or ())), len(shape))
        _check_weights(call, (channel,))
        if groups is not None and _is_no_multiple(shape[at], groups):
            raise MismatchError(f"{shape[at]} channels do not make {count_groups(groups)}")
    return _like_first(call)


def _batch_norm(call: Call) -> Type:
    _check_weights(call, call.ints("axis") or ())
    return TupleType((call.types[0], call.types[3], call.types[4]))


def _check_weights(call: Call, axes: tuple[int, ...]) -> None:
    """Raise unless each operand after the first has the dimensions of the first along `axes`."""
    _check_dtypes(call.types)
    shape = call.shape()
    if shape is None:
        return
    wanted = tuple(shape[at] for at in _axes(axes, len(shape)))
    for given in (call.shape(at) for at in range(1, len(call.types))):
        if given is not None and _are_different(given, wanted):
            raise MismatchError(
                f"a weight of {_listed(given)} does not fit dimensions of {_listed(wanted)}"
            )


# Moving elements.


def _reshape(call: Call) -> Type:
    wanted, data = call.values[1], call.tensor()
    if not isinstance(wanted, tuple):
        return _unknown(call)
    if wanted.count(-1) > 1:
        raise MismatchError("one dimension of a shape at most is left open")
    if any(isinstance(dim, int) and dim < -1 for dim in wanted):
        raise MismatchError(f"the shape {_listed(wanted)} has a dimension below 0")
    size, given = (data.size, data.shape) if data else (None, None)
    kept = tuple(_kept(given, at) if dim == 0 else dim for at, dim in enumerate(wanted))
    shape = tuple(_what_is_left(size, kept) if dim == -1 else dim for dim in kept)
    result = TensorType(_dtype(call), shape)
    if size is not None and result.size not in (None, size):
        raise MismatchError(f"{size} elements cannot have the shape {_listed(wanted)}")
    return result


def _kept(shape: Shape | None, at: int) -> Dim:
    """The dimension of the result of a reshape that is written as 0."""
    if shape is None:
        return UNKNOWN_DIM
    if at >= len(shape):
        raise MismatchError(f"there is no dimension {at} to keep")
    return shape[at]


def _what_is_left(size: int | None, wanted: Shape) -> Dim:
    """The dimension of the result of a reshape that is written as -1."""
    given = _product(tuple(dim for dim in wanted if dim != -1))
    return size // given if size is not None and isinstance(given, int) else UNKNOWN_DIM


def _of_shape(call: Call) -> Type:
    """The first operand is the shape of the result."""
    wanted = call.values[0]
    if call.shape(1):
        raise MismatchError("the value to fill with is to be a scalar")
    return _result(call, wanted if isinstance(wanted, tuple) else None)


def _full_like(call: Call) -> Type:
    if call.shape(1):
        raise MismatchError("the value to fill with is to be a scalar")
    return _like_first(call)


def _broadcast_to(call: Call) -> Type:
    shape, wanted = call.shape(), call.values[1]
    if not isinstance(wanted, tuple):
        return _unknown(call)
    if shape is not None and _are_different(_broadcast([shape, wanted]) or (), wanted):
        raise MismatchError(f"{_listed(shape)} cannot be broadcast to {_listed(wanted)}")
    return _result(call, wanted)


def _eye(call: Call) -> Type:
    rows, columns = (n if isinstance(n, int) else UNKNOWN_DIM for n in call.values[:2])
    return _result(call, (rows, columns))


def _permute_dims(call: Call) -> Type:
    shape, axes = call.shape(), call.ints("axes")
    if shape is None:
        return _unknown(call)
    if axes is None:
        axes = tuple(reversed(range(len(shape))))
    if len(axes) != len(shape):
        raise MismatchError(f"axes {list(axes)} are no order of {len(shape)} dimensions")
    return _result(call, tuple(shape[at] for at in _axes(axes, len(shape))))


def _concat(call: Call) -> Type:
    shapes, axis = _field_shapes(call), call.whole("axis")
    known = [shape for shape in shapes if shape is not None]
    if not known or len(known) < len(shapes):
        return _unknown(call)
    if axis is None and any(len(shape) != 1 for shape in known):
        raise MismatchError("without an axis, only tensors of one dimension are joined")
    at = _axis(axis or 0, len(known[0]))
    rest = reduce(_joined, (_without(shape, at) for shape in known))
    dims = [shape[at] for shape in known]
    static = [dim for dim in dims if isinstance(dim, int)]
    total: Dim = sum(static) if len(static) == len(dims) else UNKNOWN_DIM
    return _result(call, (*rest[:at], total, *rest[at:]))


def _stack(call: Call) -> Type:
    shapes = _field_shapes(call)
    known = [shape for shape in shapes if shape is not None]
    if not known:
        return _unknown(call)
    shape = reduce(_joined, known)
    at = _axis(call.whole("axis") or 0, len(shape) + 1)
    return _result(call, (*shape[:at], len(shapes), *shape[at:]))


def _field_shapes(call: Call) -> list[Shape | None]:
    if not isinstance(call.types[0], TupleType):
        raise MismatchError("the operand is to be a tuple of tensors")
    _check_dtypes(call.types)
    return [tensor.shape for tensor in tensors(call.types[0])]


def _joined(left: Shape, right: Shape) -> Shape:
    """The more exact of two descriptions of the same shape, dimension by dimension."""
    if _are_different(left, right):
        raise MismatchError("tensors of these shapes cannot be joined")
    return tuple(map(_both, left, right))


def _split(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        found = [_unknown(call) for _ in _section_sizes(call, UNKNOWN_DIM)]
    else:
        at = _axis(call.whole("axis") or 0, len(shape))
        sizes = _section_sizes(call, shape[at])
        found = [_result(call, (*shape[:at], size, *shape[at + 1 :])) for size in sizes]
    return found[0] if len(found) == 1 else TupleType(tuple(found))


def _section_sizes(call: Call, dim: Dim) -> list[Dim]:
    cuts, count = call.ints("indices_or_sections"), call.whole("indices_or_sections")
    if cuts is None:
        raise MismatchError("where to split is not said")
    return _cut(dim, cuts) if count is None else _parts(dim, count)


def _parts(dim: Dim, count: int) -> list[Dim]:
    if 0 < count <= MOST_PARTS:
        if not isinstance(dim, int):
            return [UNKNOWN_DIM] * count
        size = -(-dim // count)
        last = dim - size * (count - 1)
        if last >= 0:
            return [*[size] * (count - 1), last]
    raise MismatchError(f"a dimension of {dim} cannot be split into {count} parts")


def _cut(dim: Dim, cuts: tuple[int, ...]) -> list[Dim]:
    if not isinstance(dim, int):
        return [UNKNOWN_DIM] * (len(cuts) + 1)
    ends = [max(0, min(end, dim)) for end in (0, *cuts, dim)]
    return [max(0, end - begin) for begin, end in pairwise(ends)]


def _flatten(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return _unknown(call)
    return _result(call, (_product(shape),))


def _batch_flatten(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return _unknown(call)
    if len(shape) < 2:
        raise MismatchError("there is nothing to flatten after the first dimension")
    return _result(call, (shape[0], _product(shape[1:])))


def _product(shape: Shape) -> Dim:
    static = [dim for dim in shape if isinstance(dim, int)]
    return prod(static) if len(static) == len(shape) else UNKNOWN_DIM


def _expand_dims(call: Call) -> Type:
    shape, new = call.shape(), call.ints("axis")
    if shape is None or new is None:
        return _unknown(call)
    rank = len(shape) + len(new)
    axes = _axes(new, rank)
    rest = iter(shape)
    return _result(call, tuple(1 if at in axes else next(rest) for at in range(rank)))


def _squeeze(call: Call) -> Type:
    shape, named = call.shape(), call.ints("axis")
    if shape is None or (named is None and any(isinstance(dim, str) for dim in shape)):
        return _unknown(call)
    axes = range(len(shape)) if named is None else _axes(named, len(shape))
    gone = {at for at in axes if shape[at] == 1 or isinstance(shape[at], str)}
    return _result(call, tuple(dim for at, dim in enumerate(shape) if at not in gone))


def _take(call: Call) -> Type:
    shape, indices, axis = call.shape(0), call.shape(1), call.whole("axis")
    if shape is None or indices is None:
        return _unknown(call)
    if axis is None and len(shape) != 1:
        raise MismatchError("without an axis, elements of one dimension only are taken")
    at = _axis(axis or 0, len(shape))
    return _result(call, (*shape[:at], *indices, *shape[at + 1 :]))


def _pad(call: Call) -> Type:
    shape, widths = call.shape(), call.ints("pad_width") or ()
    if shape is None:
        return _unknown(call)
    if len(widths) != 2 * len(shape):
        raise MismatchError(
            f"{len(shape)} dimensions take {2 * len(shape)} widths, not {len(widths)}"
        )
    each = zip(shape, widths[::2], widths[1::2], strict=True)
    return _result(call, tuple(_longer(dim, before + after) for dim, before, after in each))


def _longer(dim: Dim, number: int) -> Dim:
    return dim + number if isinstance(dim, int) else _plus(dim, number)


def _triangle(call: Call) -> Type:
    shape = call.shape()
    if shape is not None and len(shape) < 2:
        raise MismatchError("a triangle has two dimensions")
    return _like_first(call)


# Reductions, and results of several tensors.


def _reduction(call: Call) -> Type:
    return _result(call, _reduced(call))


def _arg_reduction(call: Call) -> Type:
    return _result(call, _reduced(call), "int64")


def _median(call: Call) -> Type:
    """With several axes, the result has only the values, not their places."""
    axes, values = call.ints("axis"), _reduction(call)
    if axes is None or len(axes) > 1:
        return values
    return TupleType((values, _arg_reduction(call)))


def _reduced(call: Call) -> Shape | None:
    shape, axes = call.shape(), call.ints("axis")
    if shape is None:
        return None
    gone = range(len(shape)) if axes is None else _axes(axes, len(shape))
    if call.attrs.get("keepdims"):
        return tuple(1 if at in gone else dim for at, dim in enumerate(shape))
    return tuple(dim for at, dim in enumerate(shape) if at not in gone)


def _scan(call: Call) -> Type:
    return _flatten(call) if call.whole("axis") is None else _like_first(call)


def _dropout(call: Call) -> Type:
    return TupleType((_like_first(call), _like_first(call)))


def _bucketize(call: Call) -> Type:
    return _result(call, call.shape(), "int32" if call.attrs.get("out_int32") else "int64")


def _places(call: Call) -> Type:
    return TensorType("int64", (UNKNOWN_DIM, UNKNOWN_DIM))


def _size(call: Call) -> Type:
    return TensorType("int64", ())


def _of_literals(call: Call) -> Type:
    """The dtype is unknown: it does not follow from the operands that are tensors."""
    return TensorType("unknown", None)


def _shape_of(call: Call) -> Type:
    return OpaqueType("shape")


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise MismatchError(f"there is no dimension {axis} among {rank}")
    return axis % rank


def _axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    found = tuple(_axis(axis, rank) for axis in axes)
    if len(set(found)) < len(found):
        raise MismatchError(f"axes {list(axes)} name a dimension twice")
    return found


def _without(shape: Shape, at: int) -> Shape:
    return (*shape[:at], *shape[at + 1 :])


_RULES: Mapping[str, Callable[[Call], Type]] = {
    **dict.fromkeys(("isfinite", "isinf", "isnan"), _truth),
    **dict.fromkeys(
        ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"), _comparing
    ),
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), _convolution),
    **{f"nn.{sort}_pool{rank}d": _pooling for sort in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{rank}d": _adaptive_pooling for rank in (1, 2, 3)},
    **dict.fromkeys(("nn.attention", "nn.attention_bias"), _attention),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax", "nn.prelu", "flip"), _along_axis),
    **dict.fromkeys(("nn.layer_norm", "nn.rms_norm"), _normalizing),
    **dict.fromkeys(("nn.group_norm", "nn.instance_norm"), _channel_norm),
    **dict.fromkeys(("argsort", "sort", "wrap_param"), _like_first),
    **dict.fromkeys(("ones", "zeros", "full"), _of_shape),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "std", "variance"), _reduction),
    **dict.fromkeys(("argmax", "argmin"), _arg_reduction),
    **dict.fromkeys(("cumsum", "cumprod"), _scan),
    **dict.fromkeys(("quantize", "dequantize"), _scaling),
    **dict.fromkeys(("tril", "triu"), _triangle),
    "where": _where,
    "outer": _outer,
    "matmul": _matmul,
    "full_like": _full_like,
    "broadcast_to": _broadcast_to,
    "eye": _eye,
    "reshape": _reshape,
    "permute_dims": _permute_dims,
    "concat": _concat,
    "stack": _stack,
    "split": _split,
    "flatten": _flatten,
    "nn.batch_flatten": _batch_flatten,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "take": _take,
    "nn.pad": _pad,
    "image.resize2d": _resize,
    "median": _median,
    "nn.dropout": _dropout,
    "nn.batch_norm": _batch_norm,
    "bucketize": _bucketize,
    "nonzero": _places,
    "one_hot": _of_literals,
    "size": _size,
    "shape_of": _shape_of,
    "tensor_to_shape": _shape_of,
}
