"""
How operators become PrimFuncs that check the indices in their tensors, and what integer operators
do with numbers that TVM refuses. The other operators are made as TVM does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tvm
from tvm import DataType, relax, te, tirx, topi
from tvm.tirx import ForKind

from collage_dsl.backends.schedule.expressions import integer
from collage_dsl.backends.schedule.functions import PRODUCT_DTYPES, PRODUCTS, power
from collage_dsl.backends.schedule.loops import load, sequence, store
from collage_dsl.realization.index_checks import checked, checked_float
from collage_dsl.realization.short_floats import usual

# Operators that read at indices.


def _take(builder: Any, call: Any) -> Any:
    axis, mode = call.attrs.axis, call.attrs.mode
    if mode != "fast":
        return builder.call_te(topi.take, *call.args, axis, mode=mode)
    return builder.call_te(take, *call.args, axis)


def take(data: Any, indices: Any, axis: Any) -> Any:
    """`take`; `indices` may be one number. Without an axis, TVM allows only data that has one."""
    axis = int(axis or 0) % len(data.shape)
    size = data.shape[axis]
    is_tensor = isinstance(indices, te.Tensor)
    shape = indices.shape if is_tensor else ()
    rank = len(shape)

    def element(*at: Any) -> Any:
        index = indices(*at[axis : axis + rank]) if is_tensor else indices
        return data(*at[:axis], checked(index, size, "take"), *at[axis + rank :])

    return te.compute((*data.shape[:axis], *shape, *data.shape[axis + 1 :]), element, "take")


def _gather_elements(builder: Any, call: Any) -> Any:
    return builder.call_te(gather_elements, *call.args, int(call.attrs.axis))


def gather_elements(data: Any, indices: Any, axis: int) -> Any:
    axis %= len(data.shape)

    def element(*at: Any) -> Any:
        index = checked(indices(*at), data.shape[axis], "gather_elements")
        return data(*at[:axis], index, *at[axis + 1 :])

    return te.compute(indices.shape, element, "gather_elements")


def _gather_nd(builder: Any, call: Any) -> Any:
    return builder.call_te(gather_nd, *call.args, int(call.attrs.batch_dims))


def gather_nd(data: Any, indices: Any, batch: int) -> Any:
    rank, count = len(indices.shape) - 1, int(indices.shape[-1])
    sizes = data.shape[batch : batch + count]

    def element(*at: Any) -> Any:
        found = [
            checked(indices(*at[:rank], integer(place)), size, "gather_nd")
            for place, size in enumerate(sizes)
        ]
        return data(*at[:batch], *found, *at[rank:])

    return te.compute((*indices.shape[:-1], *data.shape[batch + count :]), element, "gather_nd")


def _strided_slice(builder: Any, call: Any) -> Any:
    """TVM reads where bounds that depend on sizes point to, though it may be outside."""
    data, axes, *bounds = call.args
    if all(isinstance(each, tirx.IntImm) for bound in bounds for each in bound.fields):
        return usual(builder, call)
    begin, strides = bounds[0].fields, bounds[2].fields if len(bounds) > 2 else [1] * len(axes)
    steps = {
        int(axis.value) % data.ty.ndim: (first, step)
        for axis, first, step in zip(axes.fields, begin, strides, strict=True)
    }
    shape = list(call.ty.shape.values)

    def sliced(data: Any, *_: Any) -> Any:
        def element(*at: Any) -> Any:
            places = [
                checked(steps[axis][0] + each * steps[axis][1], size, "strided_slice")
                if axis in steps
                else each
                for axis, (each, size) in enumerate(zip(at, data.shape, strict=True))
            ]
            return data(*places)

        return te.compute(shape, element, "strided_slice")

    return builder.call_te(sliced, data)


# Operators that write at indices.


def _is_on_gpu() -> bool:
    """Whether TVM shares the loops of a scatter among the threads of a GPU, without checks."""
    target = tvm.target.Target.current(allow_none=True)
    return target is not None and "gpu" in target.keys


def _scatter_elements(builder: Any, call: Any) -> Any:
    if _is_on_gpu():
        return usual(builder, call)
    axis, reduction = int(call.attrs.axis), str(call.attrs.reduction)
    return builder.call_te(scatter_elements, *call.args, axis, reduction)


def scatter_elements(data: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    axis %= len(data.shape)

    def place(indices: Any, at: list[Any]) -> list[Any]:
        index = checked(load(indices, *at), data.shape[axis], "scatter_elements")
        return [*at[:axis], index, *at[axis + 1 :]]

    return _scattered("scatter_elements", data, indices, updates, place, reduction)


def _scatter_nd(builder: Any, call: Any) -> Any:
    if _is_on_gpu():
        return usual(builder, call)
    return builder.call_te(scatter_nd, *call.args, str(call.attrs.reduction))


def scatter_nd(data: Any, indices: Any, updates: Any, reduction: str) -> Any:
    rank, count = len(indices.shape) - 1, int(indices.shape[-1])

    def place(indices: Any, at: list[Any]) -> list[Any]:
        found = [
            checked(load(indices, *at[:rank], integer(axis)), data.shape[axis], "scatter_nd")
            for axis in range(count)
        ]
        return [*found, *at[rank:]]

    return _scattered("scatter_nd", data, indices, updates, place, reduction)


_REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "update": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "mean": lambda old, new: (old + new) / 2,
    "min": tirx.min,
    "max": tirx.max,
}


def _scattered(
    name: str,
    data: Any,
    indices: Any,
    updates: Any,
    place: Callable[[Any, list[Any]], list[Any]],
    reduction: str,
) -> Any:
    """
    A copy of `data` with each element of `updates` combined into it at its `place`. They are taken
    in order, since two may have the same place.
    """
    combined = _REDUCTIONS[reduction]

    def body(data: Any, indices: Any, updates: Any, result: Any) -> Any:
        def update(at: list[Any]) -> Any:
            to = place(indices, at)
            return store(result, combined(load(result, *to), load(updates, *at)), *to)

        copies = _loops(data.shape, lambda at: store(result, load(data, *at), *at))
        return sequence([copies, _loops(updates.shape, update)])

    return te.extern(
        [data.shape],
        [data, indices, updates],
        lambda given, made: body(*given, *made),
        name=name,
        dtype=data.dtype,
        out_buffers=[tirx.decl_buffer(data.shape, data.dtype, name, layout=None)],
    )


def _loops(shape: Sequence[Any], body: Callable[[list[Any]], Any]) -> Any:
    at = [tirx.Var("i", "int64") for _ in shape]
    result = body(at)
    for var, extent in zip(reversed(at), reversed(shape), strict=True):
        result = tirx.For(var, integer(0), extent, ForKind.SERIAL, result)
    return result


# Other operators with indices: TVM's, on indices that are checked before.


def _with_operand(builder: Any, call: Any, place: int, operand: Any) -> Any:
    """What TVM makes of `call` with another operand at `place`."""
    operands = [*call.args]
    operands[place] = operand
    changed = relax.Call(call.op, operands, call.attrs, call.ty_args)
    return usual(builder, builder.normalize(changed))


def _advanced(builder: Any, call: Any) -> Any:
    """An operator with one tensor of indices for each of the first axes."""
    name = call.op.name.removeprefix("relax.")

    def one(indices: Any, size: Any) -> Any:
        return te.compute(indices.shape, lambda *at: checked(indices(*at), size, name), name)

    tensors = call.args[1]
    fields = [relax.TupleGetItem(tensors, place) for place in range(len(tensors.ty.fields))]
    sizes = list(call.args[0].ty.shape)[: len(fields)]
    plain = [builder.emit_te(one, *pair) for pair in zip(fields, sizes, strict=True)]
    return _with_operand(builder, call, 1, builder.normalize(relax.Tuple(plain)))


def _of_regions(builder: Any, call: Any) -> Any:
    """An operator on regions of images. A region starts with the index of its image, a float."""
    name = call.op.name.removeprefix("relax.vision.")

    def regions(regions: Any, images: Any) -> Any:
        def element(region: Any, place: Any) -> Any:
            image = checked_float(regions(region, integer(0)), images, name)
            return tirx.Select(place == 0, image, regions(region, place))

        return te.compute(regions.shape, element, name)

    plain = builder.emit_te(regions, call.args[1], call.args[0].ty.shape[0])
    return _with_operand(builder, call, 1, plain)


# Integer operators with a scalar constant.


def _with_number(operator: Callable[..., Any], is_bad: Callable[[int, int], bool]) -> Any:
    """
    TVM takes a scalar constant into the code, but refuses a division by zero and a shift of all
    bits. Such a constant stays a tensor.
    """

    def legalize(builder: Any, call: Any) -> Any:
        constant = call.args[1]
        if isinstance(constant, tvm.ir.GenericConst) and constant.ty.ndim == 0:
            dtype, value = call.ty.dtype.dtype, constant.value.numpy().item()
            if "int" in dtype and is_bad(value, DataType(dtype).bits):
                return builder.call_te(operator, *call.args)
        return usual(builder, call)

    return legalize


def _power(builder: Any, call: Any) -> Any:
    """Of integers, that of float64, as in onnxruntime."""
    base, exponent = call.args
    dtype = str(call.ty.dtype.dtype)
    is_number = isinstance(exponent, tvm.ir.GenericConst) and exponent.ty.ndim == 0
    if is_number and dtype in PRODUCT_DTYPES and exponent.value.numpy().item() in PRODUCTS:
        number = exponent.value.numpy().item()
        return builder.call_te(_product, base, number, primfunc_name_hint="power")
    if "int" not in dtype:
        return usual(builder, call)
    wide = [builder.emit_te(topi.cast, each, "float64") for each in call.args]
    return builder.call_te(topi.cast, builder.emit_te(topi.power, *wide), dtype)


def _product(base: Any, exponent: float) -> Any:
    def element(*at: Any) -> Any:
        return power(base(*at), tirx.FloatImm(base.dtype, exponent))

    return te.compute(base.shape, element, "T_power", tag=topi.tag.ELEMWISE)


def _divides_by_zero(value: int, _bits: int) -> bool:
    return value == 0


def _shifts_all(value: int, bits: int) -> bool:
    return not 0 <= value < bits


INDEXED = frozenset({
    "gather_elements", "gather_nd", "index_put", "index_tensor", "scatter_elements", "scatter_nd",
    "strided_slice", "take", "vision.roi_align", "vision.roi_pool",
})  # fmt: skip
"""The operators with indices that a kernel checks."""

CHECKED_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "relax.divide": _with_number(topi.divide, _divides_by_zero),
    "relax.floor_divide": _with_number(topi.floor_divide, _divides_by_zero),
    "relax.floor_mod": _with_number(topi.floor_mod, _divides_by_zero),
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
    "relax.index_put": _advanced,
    "relax.index_tensor": _advanced,
    "relax.left_shift": _with_number(topi.left_shift, _shifts_all),
    "relax.mod": _with_number(topi.mod, _divides_by_zero),
    "relax.power": _power,
    "relax.right_shift": _with_number(topi.right_shift, _shifts_all),
    "relax.scatter_elements": _scatter_elements,
    "relax.scatter_nd": _scatter_nd,
    "relax.strided_slice": _strided_slice,
    "relax.take": _take,
    "relax.vision.roi_align": _of_regions,
    "relax.vision.roi_pool": _of_regions,
}
