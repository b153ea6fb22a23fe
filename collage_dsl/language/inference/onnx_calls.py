"""The types of calls of operators of ONNX that Relax does not have, by their definition there."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from collage_dsl.graph import Dim, TensorType, TupleType, Type
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.graph.types import long_dtype
from collage_dsl.language.inference.einsum import einsum, subscripts_of
from collage_dsl.language.inference.lettered import Lettered, fitted
from collage_dsl.language.inference.onnx_fused import FUSED
from collage_dsl.language.inference.onnx_letters import TAKEN
from collage_dsl.language.inference.onnx_lists import (
    padding_sizes,
    resizing,
    reversing,
    slicing,
    updating,
)
from collage_dsl.language.inference.onnx_pools import POOLS
from collage_dsl.language.inference.onnx_scales import QUANTIZED, check_single
from collage_dsl.language.inference.onnx_windows import (
    convolving,
    convolving_integers,
    convolving_last,
    deformed,
    depth_to_space,
    fused_convolving,
    quantized_convolving,
    quantized_convolving_images,
    sampled,
    space_to_depth,
    transposed,
    transposed_with_pads,
)
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    Shape,
    axis_in,
    broadcast,
    differ,
    dtype_of,
    listed,
    multiplied,
    result,
    times,
    unknown,
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
    rows = times(again[2], _GATES[call.op])
    hidden = call.known_whole("hidden_size")
    if hidden is not None:
        call.agree(again[2], hidden, f"`R` takes {again[2]} hidden values, not {hidden}")
        rows = times(hidden, _GATES[call.op])
    for name, shape in (("W", weights), ("R", again)):
        call.agree(shape[1], rows, f"`{name}` has {shape[1]} rows, and the gates {rows}")
    directions = 2 if call.text("direction") == "bidirectional" else 1
    for name, shape in (("W", weights), ("R", again)):
        message = f"`{name}` is for {shape[0]} directions, not for {directions}"
        call.agree(shape[0], directions, message)
    if len(call.types) > 3:
        sizes = {"c": times(rows, 2), "p": times(again[2] if hidden is None else hidden, 3)}
        fitted(call, replace(_with_states(call, directions), sizes=sizes))
    steps, batch, _ = given
    every: Shape = (steps, directions, batch, again[2])
    last: Shape = (directions, batch, again[2])
    if call.whole("layout") == 1:
        every, last = (steps, batch, directions, again[2]), (steps, directions, again[2])
    states = 2 if call.op == "onnx.LSTM" else 1
    return TupleType(tuple(TensorType(dtype_of(call), each) for each in (every, *[last] * states)))


def _with_states(call: Call, directions: int) -> Lettered:
    """All operands: after the first three a bias, lengths, the states, and weights of an LSTM."""
    data, state = "sbi", f"{directions}bh"
    if call.whole("layout") == 1:
        data, state = "bsi", f"b{directions}h"
    of_cell = f"?{state} ?{directions}p" if call.op == "onnx.LSTM" else ""
    weights = f"{directions}gi {directions}gh ?{directions}c"
    return Lettered(f"{data} {weights} ?b ?{state} {of_cell}", "")


def quantized_recurrent(call: Call) -> Type:
    """
    What a `com.microsoft.DynamicQuantizeLSTM` gives, in the layout 0. Its weights have the gates
    last. There is a scale for each direction, or for each gate of it.
    """
    weights, hidden = _of_rank(3, call, 2, "R"), call.known_whole("hidden_size")
    width: Dim = weights[1] if hidden is None else hidden
    sizes = {letter: times(width, count) for letter, count in (("g", 4), ("c", 8), ("p", 3))}
    known = {} if width == UNKNOWN_DIM else {"h": width, **sizes}
    of = 2 if call.text("direction") == "bidirectional" else 1
    states = f"?{of}c ?b ?{of}bh ?{of}bh ?{of}p"
    operands = f"sbi {of}ig {of}hg {states} {of}~ {of}~ {of}~ {of}~"
    return fitted(call, Lettered(operands, f"s{of}bh {of}bh {of}bh", known))


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


def product_of_matrices(call: Call) -> Type:
    return result(call, multiplied(call, call.shape(0), call.shape(1)))


def fused_matmul(call: Call, places: tuple[int, int] = (0, 1)) -> Type:
    """A product of matrices, of which each may be transposed first."""
    left, right = (_turned(call, at, name) for at, name in zip(places, "AB", strict=True))
    return result(call, multiplied(call, left, right))


def _turned(call: Call, at: int, name: str) -> Shape | None:
    """The first dimension may come behind the other batches, before the last two are exchanged."""
    shape = call.shape(at)
    if shape is None or len(shape) < 2:
        return shape
    if call.whole(f"transBatch{name}"):
        if len(shape) < 3:
            raise MismatchError(f"`{name}` has no batches to transpose")
        shape = (*shape[1:-1], shape[0], shape[-1])
    return _transposed(shape) if call.whole(f"trans{name}") else shape


def _transposed(shape: Shape) -> Shape:
    return (*shape[:-2], shape[-1], shape[-2])


def matrices(call: Call, places: tuple[int, int] = (0, 1), added: int = 2) -> Type:
    """A product of two matrices, to which a third one is added."""
    for at, name in zip(places, "AB", strict=True):
        shape = call.shape(at)
        if shape is not None and len(shape) != 2:
            raise MismatchError(f"`{name}` has 2 dimensions, not {len(shape)}")
    type_ = fused_matmul(call, places)
    _check_sum(call.shape(added), type_)
    return type_


def _check_sum(added: Shape | None, type_: Type) -> None:
    """What is added is broadcast to the product."""
    shape = type_.shape if isinstance(type_, TensorType) else None
    if added is None or shape is None:
        return
    pairs = zip(reversed(added), reversed(shape), strict=False)
    if len(added) > 2 or any(dim != 1 and differ(dim, whole) for dim, whole in pairs):
        raise MismatchError(f"{listed(added)} is not added to {listed(shape)}")


def packed_matmul(call: Call) -> Type:
    """A product with a matrix of K rows and N columns, which is stored in one list."""
    shape, rows, columns = call.shape(0), call.known_whole("K"), call.known_whole("N")
    if shape and rows is not None:
        call.agree(shape[-1], rows, f"`A` has {shape[-1]} columns, not {rows} as `K` says")
    last: Dim = UNKNOWN_DIM if columns is None else columns
    return result(call, (*shape[:-1], last) if shape else None)


def flat_matmul(call: Call) -> Type:
    """Each element of the flat weights holds two numbers of four bits. Each block has a scale."""
    found, rows, columns = packed_matmul(call), call.known_whole("K"), call.known_whole("N")
    stored = call.shape(1)
    if stored and rows and columns:
        _check_length("B", stored, (rows * columns + 1) // 2)
    scales, size = call.shape(2), call.known_whole("block_size")
    if scales and rows and columns and size:
        _check_length("absmax", scales, -(-rows * columns // size))
    return found


def _check_length(name: str, shape: Shape, needed: int) -> None:
    if len(shape) == 1 and isinstance(shape[0], int) and shape[0] < needed:
        raise MismatchError(f"`{name}` has {shape[0]} elements, and {needed} are needed")


def blocked_matmul(call: Call) -> Type:
    """
    A product with a matrix of K rows and N columns. Each column is stored as blocks of numbers
    with few bits, unless it is packed for one machine.
    """
    found, rows, columns = packed_matmul(call), call.known_whole("K"), call.known_whole("N")
    blocks, size, bits = call.shape(1), call.known_whole("block_size"), call.known_whole("bits")
    if blocks is not None and call.known("weight_prepacked") == 0:
        count = -(-rows // size) if rows and size else UNKNOWN_DIM
        stored = size * bits // 8 if size and bits else UNKNOWN_DIM
        needed = (UNKNOWN_DIM if columns is None else columns, count, stored)
        message = f"`B` is {listed(blocks)}, and the attributes say {listed(needed)}"
        call.agree_all(blocks, needed, message)
    if rows and columns and size and call.known("weight_prepacked") == 0:
        _check_scales(call, columns, -(-rows // size))
    bias = call.shape(5)
    if columns and bias is not None and len(call.types) == 6:
        message = f"`bias` is {listed(bias)}, and the attributes say [{columns}]"
        call.agree_all(bias, (columns,), message)
    return found


def _check_scales(call: Call, columns: int, blocks: int) -> None:
    """There is a scale for each block, in one list or in a list for each column."""
    scales = call.shape(2)
    if scales:
        needed = (columns * blocks,) if len(scales) == 1 else (columns, blocks, 1)[: len(scales)]
        message = f"`scales` is {listed(scales)}, and the attributes say {listed(needed)}"
        call.agree_all(scales, needed, message)


def gathering_blocks(call: Call) -> Type:
    """
    The dimensions of the indices take the place of one dimension of the data. How many numbers are
    in the last dimension depends on how they are stored.
    """
    data, indices, axis = call.shape(0), call.shape(1), call.known_whole("gather_axis")
    scales = call.shape(2)
    if data is not None and scales is not None and len(scales) != len(data):
        message = f"scales have the {len(data)} dimensions of the data, not {len(scales)}"
        raise MismatchError(message)
    if not data or indices is None:
        return unknown(call)
    rank = len(data) + len(indices) - 1
    if axis is None:
        return result(call, (UNKNOWN_DIM,) * rank)
    at = axis_in(axis, len(data))
    return result(call, (*(*data[:at], *indices, *data[at + 1 :])[:-1], UNKNOWN_DIM))


def one_more_dim(call: Call) -> Type:
    shape = call.shape()
    return unknown(call) if shape is None else result(call, (UNKNOWN_DIM,) * (len(shape) + 1))


def fourier_transforming(call: Call) -> Type:
    """The last dimension holds a real number, or the two parts of a complex one."""
    shape = call.shape()
    if shape and isinstance(shape[-1], int) and shape[-1] not in (1, 2):
        raise MismatchError(f"the last dimension is 1 or 2, not {shape[-1]}")
    return unknown(call)


def transforming_frames(call: Call) -> Type:
    """Each frame is as long as the window, and half of what it gives is left out if `onesided`."""
    shape, window, is_half = call.shape(), call.shape(2), call.known("onesided")
    bins: Dim = UNKNOWN_DIM
    if window and isinstance(window[0], int) and is_half is not None:
        bins = window[0] // 2 + 1 if is_half else window[0]
    return result(call, (shape[0] if shape else UNKNOWN_DIM, UNKNOWN_DIM, bins, 2))


def loss_of_classes(call: Call) -> Type:
    """The second dimension holds the scores of the classes. Each list of scores has a label."""
    fitted(call, Lettered("nc* n* ?.", "."))
    return unknown(call)


def transposing(call: Call) -> Type:
    shape, order = call.shape(), call.ints("perm")
    if shape is None:
        return result(call, None)
    if order is None:
        return result(call, shape[::-1])
    if sorted(order) != list(range(len(shape))):
        message = f"`perm` {list(order)} does not order {len(shape)} dimensions"
        raise MismatchError(message)
    return result(call, tuple(shape[at] for at in order))


def sum_of_products(call: Call) -> Type:
    equation = call.text("equation")
    count = len(subscripts_of(equation).operands)
    if len(call.types) != count:
        message = f"`{equation}` takes {count} operands, and {len(call.types)} are given"
        raise MismatchError(message)
    one = (TupleType(call.types),)
    return einsum(Call("einsum", one, (None,), {"subscripts": equation}, call.agreed))


def of_onnx(call: Call, operator: Operator) -> Type:
    """The type of a call whose shape follows from those of the operands alone."""
    shapes = [call.shape(at) for at in range(len(call.types))]
    shape = shapes[0] if operator.shape == "first" else broadcast(shapes)
    (dtype,) = _dtypes(call, 1)
    return TensorType(dtype, shape)


def _dtypes(call: Call, count: int) -> Iterator[str]:
    """The dtypes that the table says; unknown if it says none, as of what an attribute names."""
    operator = operators()[call.op]
    for at in range(count):
        said = operator.dtypes[at] if at < len(operator.dtypes) else None
        if said is None:
            yield "unknown"
        elif said in (operator.operands or ()):
            operand = call.tensor((operator.operands or ()).index(said))
            yield operand.dtype if operand else "unknown"
        else:
            yield long_dtype(said) or "unknown"


def by_rule(call: Call) -> Type:
    """The type by a rule of `ONNX_RULES`, with the dtypes that the table says."""
    check_single(call)
    if call.op in TAKEN:
        fitted(call, TAKEN[call.op])
    match ONNX_RULES[call.op](call):
        case TupleType(fields):
            dtypes = _dtypes(call, len(fields))
            typed = zip(dtypes, fields, strict=True)
            return TupleType(tuple(_with_dtype(dtype, each) for dtype, each in typed))
        case type_:
            (dtype,) = _dtypes(call, 1)
            return _with_dtype(dtype, type_)


def _with_dtype(dtype: str, type_: Type) -> Type:
    return replace(type_, dtype=dtype) if isinstance(type_, TensorType) else type_


ONNX_RULES: Mapping[str, Callable[[Call], Type]] = {
    **QUANTIZED,
    **FUSED,
    **POOLS,
    **dict.fromkeys(_GATES, recurrent),
    **dict.fromkeys(("com.microsoft.NhwcConv", "com.microsoft.NhwcFusedConv"), convolving_last),
    **dict.fromkeys(("com.microsoft.FusedMatMul", "com.microsoft.TransposeMatMul"), fused_matmul),
    **dict.fromkeys(("onnx.Gemm", "com.microsoft.FusedGemm"), matrices),
    **dict.fromkeys(("onnx.MatMul", "onnx.MatMulInteger"), product_of_matrices),
    "onnx.Conv": convolving,
    "onnx.ConvInteger": convolving_integers,
    "onnx.ConvTranspose": transposed,
    "onnx.DeformConv": deformed,
    "onnx.DFT": fourier_transforming,
    "onnx.DepthToSpace": depth_to_space,
    "onnx.Einsum": sum_of_products,
    "onnx.GridSample": sampled,
    "onnx.NegativeLogLikelihoodLoss": loss_of_classes,
    "onnx.NonMaxSuppression": choosing_boxes,
    "onnx.Pad": padding_sizes,
    "onnx.QLinearConv": quantized_convolving,
    "onnx.Resize": resizing,
    "onnx.ReverseSequence": reversing,
    "onnx.STFT": transforming_frames,
    "onnx.Slice": slicing,
    "onnx.SoftmaxCrossEntropyLoss": loss_of_classes,
    "onnx.SpaceToDepth": space_to_depth,
    "onnx.TensorScatter": updating,
    "onnx.Transpose": transposing,
    "com.microsoft.ConvTransposeWithDynamicPads": transposed_with_pads,
    "com.microsoft.DynamicQuantizeLSTM": quantized_recurrent,
    "com.microsoft.DynamicQuantizeMatMul": product_of_matrices,
    "com.microsoft.FusedConv": fused_convolving,
    "com.microsoft.MatMulIntegerToFloat": product_of_matrices,
    "com.microsoft.ExpandDims": one_more_dim,
    "com.microsoft.GatherBlockQuantized": gathering_blocks,
    "com.microsoft.GridSample": sampled,
    "com.microsoft.MatMulBnb4": flat_matmul,
    "com.microsoft.MatMulInteger16": product_of_matrices,
    "com.microsoft.MatMulNBits": blocked_matmul,
    "com.microsoft.QLinearConv": quantized_convolving_images,
    "com.microsoft.QGemm": partial(matrices, places=(0, 3), added=6),
}
