"""
The types of calls in graphs that are written as text, as far as rules ask for them.

What is not inferred has a shape that is not known, and can be written: `y: f32[1, 64] = …`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import prod

from collage_dsl.graph import Attribute, Dim, Kind, OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators

UNKNOWN_DIM = "?"
"""A dimension of which nothing is known, where the rank is."""

Shape = tuple[Dim, ...]


class MismatchError(Exception):
    """The operands do not fit each other; the message says how."""


@dataclass(frozen=True, slots=True)
class Call:
    """What the type of a call depends on: `values` are those of literal operands."""

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

    def ints(self, name: str) -> tuple[int, ...]:
        value = self.attrs.get(name)
        return tuple(i for i in value if isinstance(i, int)) if isinstance(value, tuple) else ()

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
        if known and known.kind is Kind.BROADCAST and call.types:
            return _broadcasting(call)
        if known and known.kind is Kind.ELEMENTWISE and call.tensor():
            return _like_first(call)
    except (IndexError, ZeroDivisionError):
        raise MismatchError("the attributes do not fit the shapes of the operands") from None
    return _unknown(call)


def _dtype(call: Call) -> str:
    tensors = (call.tensor(at) for at in range(len(call.types)))
    return next((tensor.dtype for tensor in tensors if tensor), "float32")


def _unknown(call: Call) -> Type:
    return TensorType(_dtype(call), None)


def _like_first(call: Call) -> Type:
    return call.tensor() or _unknown(call)


def _result(call: Call, shape: Shape | None, dtype: str | None = None) -> Type:
    return TensorType(dtype or _dtype(call), shape)


# Elementwise and broadcasting.


def _truth(call: Call) -> Type:
    return _result(call, call.shape(), "bool")


def _broadcasting(call: Call) -> Type:
    tensors = [type_ for type_ in call.types if isinstance(type_, TensorType)]
    return _result(call, _broadcast([tensor.shape for tensor in tensors]))


def _comparing(call: Call) -> Type:
    return _result(call, _broadcast([call.shape(0), call.shape(1)]), "bool")


def _where(call: Call) -> Type:
    shape = _broadcast([call.shape(0), call.shape(1), call.shape(2)])
    values = call.tensor(1)
    return _result(call, shape, values.dtype if values else None)


def _broadcast(shapes: list[Shape | None]) -> Shape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or not known:
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    return tuple(reduce(_one_dim, dims) for dims in zip(*padded, strict=True))


def _one_dim(left: Dim, right: Dim) -> Dim:
    if left == right or right == 1:
        return left
    if left == 1:
        return right
    if isinstance(left, int) and isinstance(right, int):
        raise MismatchError(f"dimensions {left} and {right} do not broadcast")
    if isinstance(left, int):
        return left
    return right if isinstance(right, int) else UNKNOWN_DIM


# Convolution, pooling, matrix multiplication.


def _convolution(call: Call) -> Type:
    data, weight = call.shape(0), call.shape(1)
    layout, kernel = call.text("data_layout"), call.text("kernel_layout")
    output = call.text("out_layout") or layout
    if data is None or weight is None or not _fits(layout, data) or not _fits(kernel, weight):
        return _unknown(call)
    size = dict(zip(layout, data, strict=True)) | {"O": weight[kernel.index("O")]}
    channels, per_group = size["C"], weight[kernel.index("I")]
    groups = call.whole("groups") or 1
    if isinstance(channels, int) and isinstance(per_group, int) and channels != per_group * groups:
        raise MismatchError(
            f"{channels} channels in {count_groups(groups)} do not fit a weight for {per_group}"
        )
    spatial = [axis for axis in layout if axis not in "NC"]
    windows = [weight[kernel.index(axis)] for axis in spatial]
    size["C"] = size.pop("O")
    size.update(_slide(call, spatial, size, windows))
    return _result(call, tuple(size[axis] for axis in output), call.text("out_dtype"))


def count_groups(groups: int) -> str:
    return "1 group" if groups == 1 else f"{groups} groups"


def _pooling(call: Call) -> Type:
    data, layout = call.shape(), call.text("layout")
    if data is None or not _fits(layout, data):
        return _unknown(call)
    size = dict(zip(layout, data, strict=True))
    spatial = [axis for axis in layout if axis not in "NC"]
    size.update(_slide(call, spatial, size, list(call.ints("pool_size"))))
    return _result(call, tuple(size[axis] for axis in call.text("out_layout") or layout))


def _adaptive_pooling(call: Call) -> Type:
    data, layout = call.shape(), call.text("layout")
    if data is None or not _fits(layout, data):
        return _unknown(call)
    size = dict(zip(layout, data, strict=True))
    wanted = call.ints("output_size")
    spatial = [axis for axis in layout if axis not in "NC"]
    size.update(zip(spatial, wanted if len(wanted) != 1 else wanted * len(spatial), strict=False))
    return _result(call, tuple(size[axis] for axis in layout))


def _fits(layout: str, shape: Shape) -> bool:
    """Whether each letter of `layout` is one axis: `NCHW`, not `NCHW16c`."""
    return layout.isalpha() and layout.isupper() and len(layout) == len(shape)


def _slide(
    call: Call, spatial: list[str], size: Mapping[str, Dim], windows: list[Dim]
) -> Mapping[str, Dim]:
    """How often a window fits along each of the spatial axes."""
    rank = len(spatial)
    padding, strides, dilation = (call.ints(n) for n in ("padding", "strides", "dilation"))
    found: dict[str, Dim] = {}
    for at, axis in enumerate(spatial):
        window = windows[at]
        if not isinstance(window, int):
            found[axis] = UNKNOWN_DIM
            continue
        extra = padding[at] + padding[at + rank] - dilation[at] * (window - 1) - 1
        up = strides[at] - 1 if call.attrs.get("ceil_mode") else 0
        found[axis] = _steps(size[axis], extra + up, strides[at])
    return found


def _steps(dim: Dim, extra: int, stride: int) -> Dim:
    """`(dim + extra) // stride + 1`."""
    if isinstance(dim, int):
        if dim + extra < 0:
            raise MismatchError("the window is larger than the padded data")
        return (dim + extra) // stride + 1
    if dim == UNKNOWN_DIM:
        return dim
    if stride == 1:
        return _plus(dim, extra + 1)
    inner = _plus(dim, extra)
    return f"{_closed(inner)} // {stride} + 1"


def _plus(dim: str, number: int) -> str:
    if number == 0:
        return dim
    return f"{_closed(dim)} {'+' if number > 0 else '-'} {abs(number)}"


def _closed(dim: str) -> str:
    return dim if dim.isidentifier() else f"({dim})"


def _matmul(call: Call) -> Type:
    left, right = call.shape(0), call.shape(1)
    if not left or not right:
        return _unknown(call)
    rows = left if len(left) > 1 else (1, *left)
    columns = right if len(right) > 1 else (*right, 1)
    inner, other = rows[-1], columns[-2]
    if isinstance(inner, int) and isinstance(other, int) and inner != other:
        raise MismatchError(f"{inner} columns cannot be multiplied with {other} rows")
    shape = _broadcast([rows[:-2], columns[:-2]]) or ()
    shape += rows[-2:-1] if len(left) > 1 else ()
    shape += columns[-1:] if len(right) > 1 else ()
    return _result(call, shape, call.text("out_dtype"))


def _attention(call: Call) -> Type:
    query, value = call.shape(0), call.shape(2)
    if query is None or value is None:
        return _unknown(call)
    return _result(call, (*query[:-1], value[-1]))


# Moving elements.


def _reshape(call: Call) -> Type:
    wanted = call.values[1]
    if not isinstance(wanted, tuple):
        return _unknown(call)
    data = call.tensor()
    size = data.size if data else None
    given = [dim for dim in wanted if dim != -1]
    if len(given) < len(wanted):
        static = size is not None and all(isinstance(dim, int) for dim in given)
        rest: Dim = size // prod(given) if static and size is not None else UNKNOWN_DIM
        wanted = tuple(rest if dim == -1 else dim for dim in wanted)
    result = TensorType(_dtype(call), wanted)
    if size is not None and result.size is not None and result.size != size:
        raise MismatchError(f"{size} elements cannot have the shape {list(wanted)}")
    return result


def _of_shape(call: Call) -> Type:
    """The operand that is a shape is that of the result."""
    wanted = next((value for value in call.values if isinstance(value, tuple)), None)
    return _result(call, wanted, call.text("dtype"))


def _like(call: Call) -> Type:
    return _result(call, call.shape(), call.text("dtype"))


def _permute_dims(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return _unknown(call)
    axes = call.ints("axes") or tuple(reversed(range(len(shape))))
    if sorted(axis % len(shape) for axis in axes) != list(range(len(shape))):
        raise MismatchError(f"axes {list(axes)} are no order of {len(shape)} dimensions")
    return _result(call, tuple(shape[axis] for axis in axes))


def _concat(call: Call) -> Type:
    shapes = _field_shapes(call)
    axis = call.whole("axis")
    if not shapes or axis is None or any(shape is None for shape in shapes):
        return _unknown(call)
    known = [shape for shape in shapes if shape is not None]
    at = _axis(axis, len(known[0]))
    if any(_without(shape, at) != _without(known[0], at) for shape in known):
        raise MismatchError("tensors of these shapes cannot be joined")
    dims = [shape[at] for shape in known]
    total: Dim = sum(d for d in dims if isinstance(d, int))
    if any(isinstance(dim, str) for dim in dims):
        total = UNKNOWN_DIM
    return _result(call, (*known[0][:at], total, *known[0][at + 1 :]), _field_dtype(call))


def _stack(call: Call) -> Type:
    shapes = _field_shapes(call)
    first = shapes[0] if shapes else None
    if first is None:
        return _unknown(call)
    at = _axis(call.whole("axis") or 0, len(first) + 1)
    return _result(call, (*first[:at], len(shapes), *first[at:]), _field_dtype(call))


def _field_shapes(call: Call) -> list[Shape | None]:
    fields = call.types[0].fields if isinstance(call.types[0], TupleType) else ()
    return [field.shape if isinstance(field, TensorType) else None for field in fields]


def _field_dtype(call: Call) -> str:
    fields = call.types[0].fields if isinstance(call.types[0], TupleType) else ()
    return next((field.dtype for field in fields if isinstance(field, TensorType)), "float32")


def _split(call: Call) -> Type:
    shape, sections = call.shape(), call.attrs.get("indices_or_sections")
    if shape is None:
        return _unknown(call)
    at = _axis(call.whole("axis") or 0, len(shape))
    sizes = _section_sizes(shape[at], sections)
    parts = ((*shape[:at], size, *shape[at + 1 :]) for size in sizes)
    return TupleType(tuple(TensorType(_dtype(call), part) for part in parts))


def _section_sizes(dim: Dim, sections: Attribute) -> list[Dim]:
    if isinstance(sections, int):
        if not isinstance(dim, int):
            return [UNKNOWN_DIM] * sections
        size = -(-dim // sections)
        return [max(0, min(size, dim - size * at)) for at in range(sections)]
    cuts = [cut for cut in sections if isinstance(cut, int)] if isinstance(sections, tuple) else []
    last: Dim = dim - cuts[-1] if isinstance(dim, int) and cuts else dim
    return [*(b - a for a, b in zip([0, *cuts], cuts, strict=False)), last]


def _flatten(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return _unknown(call)
    return _result(call, (_product(shape),))


def _batch_flatten(call: Call) -> Type:
    shape = call.shape()
    if not shape:
        return _unknown(call)
    return _result(call, (shape[0], _product(shape[1:])))


def _product(shape: Shape) -> Dim:
    static = [dim for dim in shape if isinstance(dim, int)]
    return prod(static) if len(static) == len(shape) else UNKNOWN_DIM


def _expand_dims(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return _unknown(call)
    rank = len(shape) + len(call.ints("axis"))
    axes = {_axis(axis, rank) for axis in call.ints("axis")}
    rest = iter(shape)
    return _result(call, tuple(1 if at in axes else next(rest) for at in range(rank)))


def _squeeze(call: Call) -> Type:
    shape = call.shape()
    if shape is None:
        return _unknown(call)
    axes = {_axis(axis, len(shape)) for axis in call.ints("axis")}
    if not axes:
        if any(isinstance(dim, str) for dim in shape):
            return _unknown(call)
        axes = {at for at, dim in enumerate(shape) if dim == 1}
    if any(shape[at] != 1 and isinstance(shape[at], int) for at in axes):
        raise MismatchError("only dimensions of 1 can be squeezed away")
    return _result(call, tuple(dim for at, dim in enumerate(shape) if at not in axes))


def _take(call: Call) -> Type:
    shape, indices, axis = call.shape(0), call.shape(1), call.whole("axis")
    if shape is None or indices is None or axis is None:
        return _unknown(call)
    at = _axis(axis, len(shape))
    return _result(call, (*shape[:at], *indices, *shape[at + 1 :]))


def _pad(call: Call) -> Type:
    shape, widths = call.shape(), call.ints("pad_width")
    if shape is None or len(widths) != 2 * len(shape):
        return _unknown(call)
    added = (widths[2 * at] + widths[2 * at + 1] for at in range(len(shape)))
    dims = zip(shape, added, strict=True)
    return _result(call, tuple(d + n if isinstance(d, int) else _plus(d, n) for d, n in dims))


def _resize(call: Call) -> Type:
    shape, size, layout = call.shape(), call.values[1], call.text("layout")
    if shape is None or not isinstance(size, tuple) or not _fits(layout, shape):
        return _unknown(call)
    dims = dict(zip(layout, shape, strict=True))
    dims.update(zip((axis for axis in layout if axis not in "NC"), size, strict=False))
    return _result(call, tuple(dims[axis] for axis in layout))


# Reductions, and results of several tensors.


def _reduction(call: Call) -> Type:
    shape, axes = call.shape(), call.attrs.get("axis")
    if shape is None:
        return _unknown(call)
    named = (axes,) if isinstance(axes, int) else axes
    if not isinstance(named, tuple):
        named = tuple(range(len(shape)))
    gone = {_axis(axis, len(shape)) for axis in named if isinstance(axis, int)}
    dtype = "int64" if call.op in ("argmax", "argmin") else None
    if call.attrs.get("keepdims"):
        return _result(call, tuple(1 if at in gone else d for at, d in enumerate(shape)), dtype)
    return _result(call, tuple(dim for at, dim in enumerate(shape) if at not in gone), dtype)


def _scan(call: Call) -> Type:
    if call.whole("axis") is None:
        return _result(call, None, call.text("dtype"))
    return _like(call)


def _dropout(call: Call) -> Type:
    return TupleType((_like_first(call), _like_first(call)))


def _batch_norm(call: Call) -> Type:
    return TupleType((call.types[0], call.types[3], call.types[4]))


def _shape_of(call: Call) -> Type:
    return OpaqueType("shape")


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise MismatchError(f"there is no dimension {axis} among {rank}")
    return axis % rank


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
    **dict.fromkeys(
        (
            "nn.softmax",
            "nn.log_softmax",
            "nn.layer_norm",
            "nn.rms_norm",
            "nn.group_norm",
            "nn.instance_norm",
            "sort",
            "flip",
        ),
        _like_first,
    ),
    **dict.fromkeys(("ones", "zeros", "full", "broadcast_to"), _of_shape),
    **dict.fromkeys(("ones_like", "zeros_like", "full_like", "astype", "wrap_param"), _like),
    **dict.fromkeys(
        ("sum", "mean", "max", "min", "prod", "std", "variance", "median", "argmax", "argmin"),
        _reduction,
    ),
    **dict.fromkeys(("cumsum", "cumprod"), _scan),
    **dict.fromkeys(
        ("quantize", "dequantize"), lambda c: _result(c, c.shape(), c.text("out_dtype"))
    ),
    "where": _where,
    "matmul": _matmul,
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
    "nn.dropout": _dropout,
    "nn.batch_norm": _batch_norm,
    "shape_of": _shape_of,
    "eye": _unknown,
    "outer": _unknown,
    "hamming_window": _unknown,
    "strided_slice": _unknown,
}
