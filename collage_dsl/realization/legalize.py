"""
Make PrimFuncs of operators as TVM does, but such that no value of a tensor ends the process or
writes outside of a tensor.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import relax, te, tirx, topi
from tvm.tirx import ForKind

from collage_dsl.backends.schedule.expressions import integer
from collage_dsl.backends.schedule.loops import load, sequence, store
from collage_dsl.realization.defined import with_defined_results
from collage_dsl.realization.index_checks import checked


def legalized(module: tvm.IRModule, kept: set[str]) -> tvm.IRModule:
    """
    `module` with PrimFuncs in place of operators. They check their indices, and their integer
    operations have a result for all values. PrimFuncs with names in `kept` are not changed.
    """
    module = relax.transform.LegalizeOps(_LEGALIZE)(module)
    functions = dict(module.functions_items())
    for var, function in functions.items():
        if isinstance(function, tirx.PrimFunc) and var.name_hint not in kept:
            functions[var] = with_defined_results(function)
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


# Operators that read at indices.


def _take(builder: Any, call: Any) -> Any:
    axis, mode = call.attrs.axis, call.attrs.mode
    if mode != "fast":
        return builder.call_te(topi.take, *call.args, axis, mode=mode)
    return builder.call_te(take, *call.args, axis)


def take(data: Any, indices: Any, axis: Any) -> Any:
    """`take`; `indices` may be one number."""
    if axis is None:
        data, axis = topi.reshape(data, (_product(data.shape),)), 0
    axis, size = int(axis) % len(data.shape), data.shape[int(axis)]
    is_tensor = isinstance(indices, te.Tensor)
    shape = indices.shape if is_tensor else ()
    rank = len(shape)

    def element(*at: Any) -> Any:
        index = indices(*at[axis : axis + rank]) if is_tensor else indices
        return data(*at[:axis], checked(index, size, "take"), *at[axis + rank :])

    return te.compute((*data.shape[:axis], *shape, *data.shape[axis + 1 :]), element, "take")


def _product(shape: Sequence[Any]) -> Any:
    product = integer(1)
    for extent in shape:
        product = product * extent
    return product


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


# Operators that write at indices.


def _scatter_elements(builder: Any, call: Any) -> Any:
    axis, reduction = int(call.attrs.axis), str(call.attrs.reduction)
    return builder.call_te(scatter_elements, *call.args, axis, reduction)


def scatter_elements(data: Any, indices: Any, updates: Any, axis: int, reduction: str) -> Any:
    axis %= len(data.shape)

    def place(indices: Any, at: list[Any]) -> list[Any]:
        index = checked(load(indices, *at), data.shape[axis], "scatter_elements")
        return [*at[:axis], index, *at[axis + 1 :]]

    return _scattered("scatter_elements", data, indices, updates, place, reduction)


def _scatter_nd(builder: Any, call: Any) -> Any:
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


# Powers.


def _power(builder: Any, call: Any) -> Any:
    """Of integers, that of float64, as in onnxruntime."""
    dtype = str(call.ty.dtype.dtype)
    if "int" not in dtype:
        return builder.call_te(topi.power, *call.args)
    wide = [builder.emit_te(topi.cast, each, "float64") for each in call.args]
    return builder.call_te(topi.cast, builder.emit_te(topi.power, *wide), dtype)


_LEGALIZE = {
    "relax.gather_elements": _gather_elements,
    "relax.gather_nd": _gather_nd,
    "relax.power": _power,
    "relax.scatter_elements": _scatter_elements,
    "relax.scatter_nd": _scatter_nd,
    "relax.take": _take,
}
