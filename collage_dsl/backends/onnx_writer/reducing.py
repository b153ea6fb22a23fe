"""Write operators that combine elements along axes, and matrix products."""

from collections.abc import Mapping

import numpy as np

from collage_dsl.backends.onnx_writer.call import Call, Value, Write
from collage_dsl.graph import Dim


def _reduced(call: Call, op: str, value: str, *, keepdims: bool | None = None) -> str:
    """
    `value`, with the rank of the first operand, reduced along the axes of the call. An empty list
    of axes is none of them in Relax, but all of them in ONNX by default.
    """
    axes = call.axes("axis")
    return call.emit(
        op,
        value,
        "" if axes is None else call.int64(*axes),
        keepdims=int(call.attr("keepdims", False) if keepdims is None else keepdims),
        noop_with_empty_axes=1 if axes == () else None,
    )


def _reduction(op: str) -> Write:
    return lambda call: _reduced(call, op, call.tensor())


_POOLED = ("float16", "bfloat16", "float32")


def _mean(call: Call) -> str:
    """
    Write the mean of whole images as a pooling, which keeps onnxruntime's blocked layout. It has
    none of float64.
    """
    spatial, is_pooled = tuple(range(2, call.rank())), call.type().dtype in _POOLED
    if is_pooled and len(spatial) > 1 and call.axes("axis") == spatial and call.attr("keepdims"):
        return call.emit("GlobalAveragePool", call.tensor())
    return _reduced(call, "ReduceMean", call.tensor())


def _variance(call: Call) -> str:
    mean = _reduced(call, "ReduceMean", call.tensor(), keepdims=True)
    centred = call.emit("Sub", call.tensor(), mean)
    return _reduced(call, "ReduceMean", call.emit("Mul", centred, centred))


def _std(call: Call) -> str:
    return call.emit("Sqrt", _variance(call))


def _arg(op: str) -> Write:
    def write(call: Call) -> str:
        axis, keepdims = call.attr("axis"), bool(call.attr("keepdims", False))
        if axis is not None:
            found = call.emit(op, call.tensor(), axis=int(axis), keepdims=int(keepdims))
        else:
            flat = call.emit(op, call.reshaped(call.tensor(), -1), axis=0, keepdims=0)
            found = call.reshaped(flat, *[1] * call.rank()) if keepdims else flat
        return found if call.result_dtype == "int64" else call.cast(found, call.result_dtype)

    return write


def _cumsum(call: Call) -> str:
    axis = call.attr("axis")
    value = call.tensor() if axis is not None else call.reshaped(call.tensor(), -1)
    if call.type().dtype != call.result_dtype:
        value = call.cast(value, call.result_dtype)
    along = call.array(np.array(axis or 0, np.int64))
    return call.emit("CumSum", value, along, exclusive=int(call.attr("exclusive", False)))


def _topk(call: Call) -> Value:
    values, found = _top(call, call.attr("k"), bool(call.attr("largest", True)))
    indices = call.cast(found, str(call.attr("dtype", "int32")))
    results: dict[str, Value] = {
        "both": (values, indices),
        "values": values,
        "indices": indices,
    }
    return results[call.attr("ret_type", "both")]


def _sort(call: Call) -> str:
    axis = call.axis(call.attr("axis", -1))
    return _top(call, call.dims()[axis], bool(call.attr("descending", False)))[0]


def _top(call: Call, k: Dim, largest: bool) -> tuple[str, ...]:
    axis = call.axis(call.attr("axis", -1))
    call.require(isinstance(k, str) or k > 0, "`k` does not say how many")
    return call.emit_many(
        "TopK", call.tensor(), call.int64(k), outputs=2, axis=axis, largest=int(largest), sorted=1
    )


def _matmul(call: Call) -> str:
    same = call.type(0).dtype == call.type(1).dtype == call.result_dtype
    call.require(same, f"operands and result differ in dtype ({call.result_dtype})")
    return call.emit("MatMul", *call.tensors)


def _einsum(call: Call) -> str:
    return call.emit("Einsum", *call.fields(), equation=call.attr("subscripts"))


OPERATORS: Mapping[str, Write] = {
    "argmax": _arg("ArgMax"),
    "argmin": _arg("ArgMin"),
    "cumsum": _cumsum,
    "einsum": _einsum,
    "matmul": _matmul,
    "max": _reduction("ReduceMax"),
    "mean": _mean,
    "min": _reduction("ReduceMin"),
    "prod": _reduction("ReduceProd"),
    "sort": _sort,
    "std": _std,
    "sum": _reduction("ReduceSum"),
    "topk": _topk,
    "variance": _variance,
}
