"""
Infer the types of calls in graphs that are written as text, as far as rules need them.

The results are those of TVM, and what TVM refuses raises MismatchError. One exception: whether an
operator supports a dtype is not checked. Also refused are a window larger than the data and a
split into more parts than there are elements (TVM gives dimensions of 0 or less), an output size
with more numbers than axes, and an `index_put` of fewer values than places (TVM reads what comes
after them in memory). In the target shape of a reshape, 0 keeps the dimension, and a
single -1 stands for the rest.
A type that is not inferred has an unknown shape; the user can write it: `y: f32[1, 64] = …`.
"""

from collections.abc import Callable, Mapping, Sequence

from collage_dsl.graph import Kind, OpaqueType, TensorType, TupleType, Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.attending import attention, attention_of_lengths
from collage_dsl.language.inference.detecting import DETECTION_RULES
from collage_dsl.language.inference.einsum import einsum
from collage_dsl.language.inference.losses import cross_entropy, nll_loss
from collage_dsl.language.inference.making import (
    affine_grid,
    counting,
    eye_like,
    eye_matrix,
    full_like,
    of_shape,
    one_hot,
    window,
)
from collage_dsl.language.inference.moving import (
    batch_flatten,
    broadcast_to,
    expand_dims,
    flatten,
    joining,
    padding,
    permute_dims,
    reshape,
    squeeze,
    stacking,
    summed_to,
    taking,
    triangle,
)
from collage_dsl.language.inference.onnx_calls import ONNX_RULES, by_rule, of_onnx
from collage_dsl.language.inference.picking import (
    drawing,
    filling_places,
    finding_distinct,
    finding_largest,
    gathering_elements,
    gathering_from_workers,
    gathering_slices,
    meshing,
    picking_places,
    pixel_shuffle,
    repeating,
    scattering_to_workers,
    tiling,
)
from collage_dsl.language.inference.scattering import (
    reversing,
    scattering_elements,
    scattering_slices,
)
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    axes_in,
    axis_in,
    broadcast,
    check_dtypes,
    check_multiplied,
    check_unless_bool,
    differ,
    is_no_multiple,
    like_first,
    listed,
    multiplied,
    result,
    unknown,
)
from collage_dsl.language.inference.slicing import (
    dynamic_slicing,
    scattering_slice,
    slicing,
    splitting,
)
from collage_dsl.language.inference.windows import (
    adaptive_pooling,
    convolution,
    pooling,
    pooling_regions,
    resize,
    sampling,
    transposed_convolution,
)


def infer(call: Call) -> Type:
    """The type of `call`. Raises MismatchError."""
    known = operators().get(call.op)
    try:
        if rule := _RULES.get(call.op):
            return rule(call)
        if known and known.kind is Kind.BROADCAST:
            return _broadcasting(call)
        if known and known.kind is Kind.ELEMENTWISE:
            return like_first(call)
        if known and known.shape:
            return of_onnx(call, known)
    except (IndexError, ZeroDivisionError):
        raise MismatchError("the attributes do not fit the shapes of the operands") from None
    return unknown(call)


def has_rule(op: str) -> bool:
    """Whether something is inferred of `op` that its kind does not say."""
    return op in _RULES


def is_one_rule(ops: Sequence[str]) -> bool:
    """Whether the same is inferred of all operators, from the same operands and layouts."""
    return len({_kind_of_rule(op) for op in ops}) == 1


def _kind_of_rule(op: str) -> tuple[object, ...]:
    known = operators()[op]
    layouts = [value for name, value in known.defaults.items() if name.endswith("layout")]
    rule = op if op in ONNX_RULES else _RULES.get(op)
    return rule, known.operands, frozenset(known.attrs), *layouts


def _truth(call: Call) -> Type:
    return result(call, call.shape(), "bool")


def _broadcasting(call: Call) -> Type:
    check_unless_bool(call.types)
    found = [type_.shape for type_ in call.types if isinstance(type_, TensorType)]
    return result(call, broadcast(found))


def _comparing(call: Call) -> Type:
    return result(call, broadcast([call.shape(0), call.shape(1)]), "bool")


def _where(call: Call) -> Type:
    check_unless_bool(call.types[1:])
    shape = broadcast([call.shape(0), call.shape(1), call.shape(2)])
    values = call.tensor(1)
    return result(call, shape, values.dtype if values else None)


def _outer(call: Call) -> Type:
    left, right = call.shape(0), call.shape(1)
    if left is None or right is None:
        return unknown(call)
    if len(left) != 1 or len(right) != 1:
        raise MismatchError("both operands are to have one dimension")
    return result(call, (*left, *right))


def _scaling(call: Call) -> Type:
    shape = call.shape()
    if shape is not None:
        dim = shape[axis_in(call.whole("axis") or 0, len(shape))] if shape else 1
        for given in (call.shape(1), call.shape(2)):
            if not given or not any(differ(each, 1) for each in given):
                continue
            if not shape:
                raise MismatchError(f"numbers of the shape {listed(given)} do not fit a scalar")
            if differ(given[0], dim):
                raise MismatchError(f"{given[0]} numbers do not fit a dimension of {dim}")
    return result(call, shape)


def _matmul(call: Call) -> Type:
    check_multiplied(call)
    return result(call, multiplied(call, call.shape(0), call.shape(1)))


def _along_axis(call: Call) -> Type:
    shape, axis = call.shape(), call.whole("axis")
    if shape is not None and axis is not None:
        axis_in(axis, len(shape))
    return result(call, shape)


def _normalizing(call: Call) -> Type:
    _check_weights(call, call.ints("axes") or ())
    return like_first(call)


def _channel_norm(call: Call) -> Type:
    """Normalize groups of channels; `instance_norm` has one channel per group."""
    shape, channel, groups = call.shape(), call.whole("channel_axis"), call.whole("num_groups")
    if shape is not None and channel is not None:
        at, *_ = axes_in((channel, *(call.ints("axes") or ())), len(shape))
        _check_weights(call, (channel,))
        if groups is not None and is_no_multiple(shape[at], groups):
            raise MismatchError(f"{shape[at]} channels do not make {groups} groups")
    return like_first(call)


def _batch_norm(call: Call) -> Type:
    _check_weights(call, call.ints("axis") or ())
    return TupleType((call.types[0], call.types[3], call.types[4]))


def _check_weights(call: Call, axes: tuple[int, ...]) -> None:
    """Raise unless each operand after the first has the dimensions of the first along `axes`."""
    check_dtypes(call.types)
    shape = call.shape()
    if shape is None:
        return
    wanted = tuple(shape[at] for at in axes_in(axes, len(shape)))
    for given in (call.shape(at) for at in range(1, len(call.types))):
        if given is not None:
            said = f"a weight of {listed(given)} does not fit dimensions of {listed(wanted)}"
            call.agree_all(given, wanted, said)


def _reduction(call: Call) -> Type:
    return result(call, _reduced(call))


def _arg_reduction(call: Call) -> Type:
    return result(call, _reduced(call), "int64")


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
    gone = range(len(shape)) if axes is None else axes_in(axes, len(shape))
    if call.attrs.get("keepdims"):
        return tuple(1 if at in gone else dim for at, dim in enumerate(shape))
    return tuple(dim for at, dim in enumerate(shape) if at not in gone)


def _scan(call: Call) -> Type:
    return flatten(call) if call.whole("axis") is None else like_first(call)


def _dropout(call: Call) -> Type:
    return TupleType((like_first(call), like_first(call)))


def _bucketize(call: Call) -> Type:
    bounds = call.shape(1)
    if bounds is not None and len(bounds) != 1:
        raise MismatchError(f"boundaries have 1 dimension, not {len(bounds)}")
    return result(call, call.shape(), "int32" if call.attrs.get("out_int32") else "int64")


def _places(call: Call) -> Type:
    return TensorType("int64", (UNKNOWN_DIM, UNKNOWN_DIM))


def _size(call: Call) -> Type:
    return TensorType("int64", ())


def _like_second(call: Call) -> Type:
    return result(call, call.shape(1))


def _alike(call: Call) -> Type:
    """All operands have the same shape."""
    check_dtypes(call.types)
    shapes = [shape for at in range(len(call.types)) if (shape := call.shape(at)) is not None]
    for shape in shapes[1:]:
        call.agree_all(shapes[0], shape, f"{listed(shapes[0])} and {listed(shape)} differ")
    return like_first(call)


def _shape_of(call: Call) -> Type:
    return OpaqueType("shape")


_RULES: Mapping[str, Callable[[Call], Type]] = {
    **dict.fromkeys(("isfinite", "isinf", "isnan"), _truth),
    **dict.fromkeys(
        ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal"), _comparing
    ),
    **dict.fromkeys(("nn.conv1d", "nn.conv2d", "nn.conv3d"), convolution),
    **{f"nn.{sort}_pool{rank}d": pooling for sort in ("max", "avg") for rank in (1, 2, 3)},
    **{f"nn.adaptive_avg_pool{rank}d": adaptive_pooling for rank in (1, 2, 3)},
    **dict.fromkeys(("nn.attention", "nn.attention_bias"), attention),
    "nn.attention_var_len": attention_of_lengths,
    **dict.fromkeys(("nn.softmax", "nn.log_softmax", "nn.prelu", "flip"), _along_axis),
    **dict.fromkeys(("nn.layer_norm", "nn.rms_norm"), _normalizing),
    **dict.fromkeys(("nn.group_norm", "nn.instance_norm"), _channel_norm),
    **dict.fromkeys(("argsort", "sort", "wrap_param"), like_first),
    **dict.fromkeys(("hint_on_device", "to_vdevice"), like_first),
    "index_put": filling_places,
    "index_tensor": picking_places,
    "ccl.allgather": gathering_from_workers,
    "ccl.scatter_from_worker0": scattering_to_workers,
    **dict.fromkeys(("ccl.allreduce", "ccl.broadcast_from_worker0"), like_first),
    **dict.fromkeys(("grad.end_checkpoint", "grad.no_grad", "grad.start_checkpoint"), like_first),
    **{f"grad.{sort}_pool2d_backward": _like_second for sort in ("avg", "max")},
    **dict.fromkeys(("grad.nll_loss_backward", "grad.take_backward"), _like_second),
    **dict.fromkeys(("collapse_sum_like", "collapse_sum_to"), summed_to),
    "nn.cross_entropy_with_logits": cross_entropy,
    "nn.nll_loss": nll_loss,
    "scatter_elements": scattering_elements,
    "scatter_nd": scattering_slices,
    "slice_scatter": scattering_slice,
    "reverse_sequence": reversing,
    **{f"nn.conv{rank}d_transpose": transposed_convolution for rank in (1, 2, 3)},
    **dict.fromkeys(("vision.roi_align", "vision.roi_pool"), pooling_regions),
    **dict.fromkeys(("ones", "zeros", "full"), of_shape),
    **dict.fromkeys(("sum", "mean", "max", "min", "prod", "std", "variance"), _reduction),
    **dict.fromkeys(("argmax", "argmin"), _arg_reduction),
    **dict.fromkeys(("cumsum", "cumprod"), _scan),
    **dict.fromkeys(("quantize", "dequantize"), _scaling),
    **dict.fromkeys(("tril", "triu"), triangle),
    "where": _where,
    "outer": _outer,
    "matmul": _matmul,
    "full_like": full_like,
    "broadcast_to": broadcast_to,
    "eye": eye_matrix,
    "eye_like": eye_like,
    "reshape": reshape,
    "strided_slice": slicing,
    "dynamic_strided_slice": dynamic_slicing,
    "permute_dims": permute_dims,
    "concat": joining,
    "stack": stacking,
    "split": splitting,
    "flatten": flatten,
    "nn.batch_flatten": batch_flatten,
    "expand_dims": expand_dims,
    "squeeze": squeeze,
    "take": taking,
    "nn.pad": padding,
    "image.resize2d": resize,
    "image.resize3d": resize,
    "image.grid_sample": sampling,
    "ewise_fma": _alike,
    "tile": tiling,
    "repeat": repeating,
    "topk": finding_largest,
    "nn.pixel_shuffle": pixel_shuffle,
    "gather_elements": gathering_elements,
    "gather_nd": gathering_slices,
    "meshgrid": meshing,
    "median": _median,
    "nn.dropout": _dropout,
    "nn.batch_norm": _batch_norm,
    "bucketize": _bucketize,
    "nonzero": _places,
    "one_hot": one_hot,
    "arange": counting,
    "hamming_window": window,
    "image.affine_grid": affine_grid,
    "einsum": einsum,
    "size": _size,
    "shape_of": _shape_of,
    "tensor_to_shape": _shape_of,
    "multinomial_from_uniform": drawing,
    "unique": finding_distinct,
    **DETECTION_RULES,
    **dict.fromkeys(ONNX_RULES, by_rule),
}
