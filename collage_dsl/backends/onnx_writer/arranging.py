"""Write operators that create, move and select elements."""

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import numpy_helper

from collage_dsl.backends.onnx_writer.call import Call, Value, Write, element_type
from collage_dsl.graph import Dim, TensorType, TupleType
from collage_dsl.graph.sizes import UNKNOWN

# ---- Shapes ----


def _target(shape: Sequence[Dim], value: Sequence[Dim]) -> list[Dim]:
    """
    The shape that a value of the shape `value` gets, as ONNX writes it: a dimension with a name is
    0 where it stays what it is, and -1 where it is the only one, to be computed from the others.
    """
    names = [place for place, dim in enumerate(shape) if isinstance(dim, str)]
    if len(names) == 1:
        return [-1 if isinstance(dim, str) else dim for dim in shape]
    stays = [place < len(value) and shape[place] == value[place] != UNKNOWN for place in names]
    return [0 if isinstance(dim, str) else dim for dim in shape] if all(stays) else list(shape)


def _to_result_shape(call: Call) -> str:
    return _in_result_shape(call, call.tensor(), call.dims())


def _in_result_shape(call: Call, value: str, dims: Sequence[Dim]) -> str:
    """`value` of the shape `dims` in that of the result."""
    shape = call.result_dims
    sizes = call.int64(*_target(shape, dims))
    if 0 not in shape:
        return call.emit("Reshape", value, sizes)
    # By default, ONNX takes a 0 for the dimension of the value at the same place.
    is_known = all(isinstance(dim, int) for dim in shape)
    call.require(is_known, "its shape has a dimension of 0 and one with a name")
    return call.emit("Reshape", value, sizes, allowzero=1)


def _permute_dims(call: Call) -> str:
    axes = call.axes("axes") or tuple(reversed(range(call.rank())))
    return call.emit("Transpose", call.tensor(), perm=axes)


def _expand_dims(call: Call) -> str:
    return call.emit("Unsqueeze", call.tensor(), call.int64(*call.attr("axis")))


def _squeeze(call: Call) -> str:
    axes = call.axes("axis")
    # Which dimensions are 1 has to be known here: a batch of one would be squeezed as well.
    call.require(axes is not None or call.type().is_static, "without axes on a symbolic shape")
    return call.emit("Squeeze", call.tensor(), "" if axes is None else call.int64(*axes))


def _batch_flatten(call: Call) -> str:
    return call.emit("Flatten", call.tensor(), axis=1)


def _broadcast_to(call: Call) -> str:
    return call.emit("Expand", call.tensor(), call.int64(*call.result_dims))


# ---- Whole tensors ----


def _filled(value: float) -> Write:
    def write(call: Call) -> str:
        return _constant_of_shape(call, np.array([value], call.result_dtype))

    return write


def _constant_of_shape(call: Call, value: np.ndarray[tuple[int], np.dtype[np.generic]]) -> str:
    shape = call.int64(*call.result_dims)
    return call.emit("ConstantOfShape", shape, value=numpy_helper.from_array(value))


def _full(call: Call) -> str:
    value = call.tensor(1)
    if call.type(1).dtype != call.result_dtype:
        value = call.cast(value, call.result_dtype)
    return call.emit("Expand", value, call.int64(*call.result_dims))


def _arange(call: Call) -> str:
    bounds = call.literals[:3]
    if any(isinstance(each, str) for each in bounds):
        scalars = [call.emit("Squeeze", call.int64(each)) for each in bounds]
        return call.cast(call.emit("Range", *scalars), call.result_dtype)
    start, end, step = (call.literal(i) for i in range(3))
    return call.array(np.arange(start, end, step).astype(call.result_dtype))


def _shape_to_tensor(call: Call) -> str:
    return call.int64(*call.literals[0])


def _eye_like(call: Call) -> str:
    (diagonal,) = call.ints(1)
    dtype = element_type(call.node, call.result_dtype)
    return call.emit("EyeLike", call.tensor(), k=diagonal, dtype=dtype)


def _triangle(upper: int) -> Write:
    def write(call: Call) -> str:
        diagonal = call.array(np.array(call.literal(1), np.int64))
        return call.emit("Trilu", call.tensor(), diagonal, upper=upper)

    return write


def _one_hot(call: Call) -> str:
    """A negative index is out of range, for which nothing is on; ONNX would count from the end."""
    dtype = call.result_dtype
    made = "float32" if "float" in dtype else "int64"  # onnxruntime has it for few combinations
    values = call.array(np.array([call.literal(2), call.literal(1)]).astype(made))
    depth = call.array(np.array(call.attr("depth"), np.int64))
    indices = call.tensor() if call.type(0).dtype == "int64" else call.cast(call.tensor(), "int64")
    is_negative = call.emit("Less", indices, call.array(np.array(0, np.int64)))
    indices = call.emit("Where", is_negative, depth, indices)
    if not call.rank():
        indices = call.reshaped(indices, 1)
    result = call.emit("OneHot", indices, depth, values, axis=call.attr("axis", -1))
    if not call.rank():
        result = call.reshaped(result, *call.result_dims)
    return result if made == dtype else call.cast(result, dtype)


# ---- Joining and splitting ----


def _concat(call: Call) -> str:
    axis = call.attr("axis")
    call.require(axis is not None, "without an axis")
    return call.emit("Concat", *call.fields(), axis=axis)


def _stack(call: Call) -> str:
    axis = call.axis(call.attr("axis", 0), call.node.tensor.rank)
    rows = [call.emit("Unsqueeze", field, call.int64(axis)) for field in call.fields()]
    return call.emit("Concat", *rows, axis=axis)


def _split(call: Call) -> Value:
    axis = call.axis(call.attr("axis", 0))
    type_ = call.node.type
    assert isinstance(type_, TupleType)
    sizes = [_dim(call, field, axis) for field in type_.fields if isinstance(field, TensorType)]
    return call.emit_many("Split", call.tensor(), call.int64(*sizes), outputs=len(sizes), axis=axis)


def _dim(call: Call, type_: TensorType, axis: int) -> Dim:
    if type_.shape is None:
        raise call.refused(f"the size of a part is not known: {type_}")
    return type_.shape[axis]


def _tile(call: Call) -> str:
    repeats = call.attr("repeats")
    value, missing = call.tensor(), len(repeats) - call.rank()
    if missing > 0:
        value = call.emit("Unsqueeze", value, call.int64(*range(missing)))
    return call.emit("Tile", value, call.int64(*[1] * -missing, *repeats))


def _repeat(call: Call) -> str:
    """Put each element into its own row, repeat it along the row, and flatten the rows again."""
    axis = call.attr("axis")
    value = call.tensor() if axis is not None else call.reshaped(call.tensor(), -1)
    rank = call.rank() if axis is not None else 1
    after = (axis or 0) % rank + 1
    rows = call.emit("Unsqueeze", value, call.int64(after))
    wide = [1] * (rank + 1)
    wide[after] = call.attr("repeats")
    rows = call.emit("Tile", rows, call.int64(*wide))
    return _in_result_shape(call, rows, ())


_PAD_MODES = {
    "constant": "constant",
    "replicate": "edge",
    "reflect": "reflect",
    "circular": "wrap",
}


def _pad(call: Call) -> str:
    widths, mode = call.attr("pad_width"), call.attr("pad_mode", "constant")
    call.require(mode in _PAD_MODES, f"pad_mode is {mode!r}")
    value = call.scalar(call.attr("pad_value", 0.0)) if mode == "constant" else ""
    pads = call.int64(*widths[::2], *widths[1::2])
    return call.emit("Pad", call.tensor(), pads, value, mode=_PAD_MODES[mode])


# ---- Picking ----


def _strided_slice(call: Call) -> str:
    axes, begin, end = (call.ints(i) for i in (1, 2, 3))
    steps = call.ints(4) if len(call.operands) > 4 else (1,) * len(axes)
    call.require(len(axes) == len(begin) == len(end) == len(steps), "its operands differ in length")
    return call.emit("Slice", call.tensor(), *(call.int64(*v) for v in (begin, end, axes, steps)))


def _flip(call: Call) -> str:
    one = call.int64(-1)
    lowest = call.int64(np.iinfo(np.int64).min)
    return call.emit("Slice", call.tensor(), one, lowest, call.int64(call.attr("axis")), one)


def _take(call: Call) -> str:
    axis = call.attr("axis")
    value = call.tensor() if axis is not None else call.reshaped(call.tensor(), -1)
    return call.emit("Gather", value, _taken(call), axis=axis or 0)


def _taken(call: Call) -> str:
    """The indices of a `take`, brought into the range by its mode `wrap` or `clip`."""
    if call.types[1] is None:
        return call.array(np.array(call.literal(1), np.int64))
    mode, dtype = call.attr("mode", "fast"), call.type(1).dtype
    indices = call.tensor(1)
    if dtype not in ("int32", "int64"):
        indices, dtype = call.cast(indices, "int64"), "int64"
    if mode not in ("wrap", "clip"):
        return indices
    axis = call.attr("axis")
    size = int(np.prod(call.shape())) if axis is None else call.dim(axis)
    if mode == "wrap":
        return call.emit("Mod", indices, call.scalar(size, dtype))
    return call.emit("Clip", indices, call.scalar(0, dtype), call.scalar(size - 1, dtype))


def _gather_elements(call: Call) -> str:
    return call.emit("GatherElements", *call.tensors, axis=call.attr("axis", 0))


def _gather_nd(call: Call) -> str:
    return call.emit(
        "GatherND",
        call.tensor(),
        call.cast(call.tensor(1), "int64"),
        batch_dims=call.attr("batch_dims", 0),
    )


_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "min": "min", "max": "max"}


def _reduction(call: Call) -> str:
    reduction = call.attr("reduction", "update")
    call.require(reduction in _REDUCTIONS, f"reduction is {reduction!r}")
    return _REDUCTIONS[reduction]


def _scatter_elements(call: Call) -> str:
    return call.emit(
        "ScatterElements", *call.tensors, axis=call.attr("axis", 0), reduction=_reduction(call)
    )


def _scatter_nd(call: Call) -> str:
    indices = call.cast(call.tensor(1), "int64")
    return call.emit(
        "ScatterND", call.tensor(), indices, call.tensor(2), reduction=_reduction(call)
    )


OPERATORS: Mapping[str, Write] = {
    "arange": _arange,
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "expand_dims": _expand_dims,
    "eye_like": _eye_like,
    "flatten": _to_result_shape,
    "flip": _flip,
    "full": _full,
    "full_like": _full,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "nn.batch_flatten": _batch_flatten,
    "nn.pad": _pad,
    "one_hot": _one_hot,
    "ones": _filled(1),
    "ones_like": _filled(1),
    "permute_dims": _permute_dims,
    "repeat": _repeat,
    "reshape": _to_result_shape,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "split": _split,
    "shape_to_tensor": _shape_to_tensor,
    "squeeze": _squeeze,
    "stack": _stack,
    "strided_slice": _strided_slice,
    "take": _take,
    "tile": _tile,
    "tril": _triangle(upper=0),
    "triu": _triangle(upper=1),
    "zeros": _filled(0),
    "zeros_like": _filled(0),
}
