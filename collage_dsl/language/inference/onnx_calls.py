"""The types of calls of operators of ONNX that Relax does not have, by their definition there."""

from collections.abc import Callable, Mapping

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.graph.operators import Operator
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    broadcast,
    dtype_of,
    multiplied,
    result,
    times,
)

_GATES = {"onnx.LSTM": 4, "onnx.GRU": 3, "onnx.RNN": 1}
"""How many products of the input each cell has."""


def recurrent(call: Call) -> Type:
    """
    All steps of `X`, then what is left after the last one: the state, and of an LSTM the cell.

    `X` is `[steps, batch, features]`, or with `layout` 1 `[batch, steps, features]`; `W` is
    `[directions, gates * hidden, features]`, `R` `[directions, gates * hidden, hidden]`.
    """
    given, weights, again = (_of_rank(3, call, at, name) for at, name in enumerate("XWR"))
    call.agree(given[2], weights[2], f"`X` has {given[2]} features, and `W` takes {weights[2]}")
    for at in range(2):
        message = f"`W` has {weights[at]} and `R` {again[at]} in dimension {at}"
        call.agree(weights[at], again[at], message)
    if _is_any_known(again[2], weights[1], again[1]):
        hidden = call.whole("hidden_size")
        if hidden is not None:
            call.agree(again[2], hidden, f"`R` takes {again[2]} hidden values, not {hidden}")
        rows = times(again[2] if hidden is None else hidden, _GATES[call.op])
        for name, shape in (("W", weights), ("R", again)):
            call.agree(shape[1], rows, f"`{name}` has {shape[1]} rows, and the gates {rows}")
    directions = 2 if call.text("direction") == "bidirectional" else 1
    for name, shape in (("W", weights), ("R", again)):
        message = f"`{name}` is for {shape[0]} directions, not for {directions}"
        call.agree(shape[0], directions, message)
    steps, batch, _ = given
    every: Shape = (steps, directions, batch, again[2])
    last: Shape = (directions, batch, again[2])
    if call.whole("layout") == 1:
        every, last = (steps, batch, directions, again[2]), (steps, directions, again[2])
    states = 2 if call.op == "onnx.LSTM" else 1
    return TupleType(tuple(TensorType(dtype_of(call), each) for each in (every, *[last] * states)))


def _is_any_known(*dims: Dim) -> bool:
    return any(isinstance(dim, int) for dim in dims)


def _of_rank(rank: int, call: Call, at: int, name: str) -> Shape:
    shape = call.shape(at)
    if shape is None:
        return (UNKNOWN_DIM,) * rank
    if len(shape) != rank:
        raise MismatchError(f"`{name}` has {rank} dimensions, not {len(shape)}")
    return shape


def choosing_boxes(call: Call) -> Type:
    """The numbers of a batch, a class and a box for each of the boxes that are left."""
    boxes, scores = (_of_rank(3, call, at, name) for at, name in enumerate(("boxes", "scores")))
    call.agree(boxes[0], scores[0], f"{boxes[0]} batches of boxes, and {scores[0]} of scores")
    call.agree(boxes[1], scores[2], f"{boxes[1]} boxes, and scores of {scores[2]}")
    call.agree(boxes[2], 4, f"a box has 4 numbers, not {boxes[2]}")
    return TensorType("int64", (UNKNOWN_DIM, 3))


def integer_matmul(call: Call) -> Type:
    return TensorType("int32", multiplied(call, call.shape(0), call.shape(1)))


def fused_matmul(call: Call) -> Type:
    """A product of matrices, of which each may be transposed first."""
    left, right = call.shape(0), call.shape(1)
    if call.whole("transBatchA") or call.whole("transBatchB"):
        return result(call, None)
    left = _transposed(left) if call.whole("transA") else left
    right = _transposed(right) if call.whole("transB") else right
    return result(call, multiplied(call, left, right))


def _transposed(shape: Shape | None) -> Shape | None:
    return shape if shape is None or len(shape) < 2 else (*shape[:-2], shape[-1], shape[-2])


def blocked_matmul(call: Call) -> Type:
    """A product with a matrix of K rows and N columns, which is stored in blocks."""
    shape, rows = call.shape(0), call.whole("K")
    if not shape:
        return result(call, None)
    if rows is not None:
        call.agree(shape[-1], rows, f"`A` has {shape[-1]} columns, not {rows} as `K` says")
    columns = call.whole("N")
    last: Dim = UNKNOWN_DIM if columns is None else columns
    return result(call, (*shape[:-1], last))


def of_onnx(call: Call, operator: Operator) -> Type:
    """The type of a call whose shape follows from those of the operands alone."""
    shapes = [call.shape(at) for at in range(len(call.types))]
    shape = shapes[0] if operator.shape == "first" else broadcast(shapes)
    return TensorType(_dtype_of_result(call, operator), shape)


def _dtype_of_result(call: Call, operator: Operator) -> str:
    """The dtype that the table says; unknown if it says none, as of what an attribute names."""
    (said,) = operator.dtypes or (None,)
    if said is None:
        return "unknown"
    if said not in (operator.operands or ()):
        return long_dtype(said) or "unknown"
    operand = call.tensor((operator.operands or ()).index(said))
    return operand.dtype if operand else "unknown"


ONNX_RULES: Mapping[str, Callable[[Call], Type]] = {
    **dict.fromkeys(_GATES, recurrent),
    "onnx.NonMaxSuppression": choosing_boxes,
    "onnx.MatMulInteger": integer_matmul,
    "com.microsoft.FusedMatMul": fused_matmul,
    "com.microsoft.MatMulNBits": blocked_matmul,
}
