"""The ranks of what operators of ONNX give, where nothing else of the shape is known."""

from collections.abc import Iterator, Mapping
from functools import partial
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import count
from collage_dsl.language.reasoning.claims.onnx_results import results_of_onnx
from collage_dsl.language.reasoning.claims.relations import Relation
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.domain import Number, one_of
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import Rank

RANKS_OF_ONNX: Mapping[str, int] = {
    "com.microsoft.FusedGemm": 2,
    **{f"onnx.{sort}Window": 1 for sort in ("Blackman", "Hamming", "Hann")},
    "onnx.EyeLike": 2,
    "onnx.Flatten": 2,
    "onnx.Gemm": 2,
    "onnx.ImageDecoder": 3,
    "onnx.MaxRoiPool": 4,
    "onnx.MelWeightMatrix": 2,
    "onnx.Multinomial": 2,
    "onnx.NonMaxSuppression": 2,
    "onnx.NonZero": 2,
    "onnx.OptionalHasElement": 0,
    "onnx.Range": 1,
    "onnx.RoiAlign": 4,
    "onnx.STFT": 4,
    **{f"com.microsoft.{op}": 2 for op in ("PackedAttention", "PackedMultiHeadAttention")},
    **{
        f"com.microsoft.{op}": 3
        for op in ("LongformerAttention", "QOrderedAttention", "QOrderedLongformerAttention")
    },
    "onnx.SequenceLength": 0,
    "onnx.Shape": 1,
    "onnx.Size": 0,
}
"""Operators whose result always has the same rank."""

_WITH_WEIGHTS = tuple(
    f"com.microsoft.{op}" for op in ("Attention", "DecoderMaskedSelfAttention", "QAttention")
)
"""Attention with the weights that make queries, keys and values."""

_WITH_CACHES = tuple(
    f"com.microsoft.{op}"
    for op in ("DecoderMaskedMultiHeadAttention", "GroupQueryAttention", "MultiHeadAttention")
)
"""Attention that gives the keys and the values of each head, and the scores."""

_RECURRENT = ("onnx.GRU", "onnx.LSTM", "onnx.RNN", "com.microsoft.DynamicQuantizeLSTM")

TAKES_IN_ONNX: Mapping[str, tuple[tuple[Number, Number], ...]] = {
    **dict.fromkeys(("onnx.MatMul", "onnx.MatMulInteger"), ((1, inf),) * 2),
    **dict.fromkeys(_RECURRENT, ((3, 3),) * 3),
    **dict.fromkeys(_WITH_WEIGHTS, ((3, 3), (2, 2))),
    **{f"com.microsoft.{op}": ((3, 3),) for op in ("GroupQueryAttention", "SparseAttention")},
    "com.microsoft.LongformerAttention": ((3, 3), (2, 3)),
    "onnx.Attention": ((3, 4),) * 3,
    "com.microsoft.BiasSplitGelu": ((3, 3), (1, 1)),
    "onnx.Col2Im": ((3, 3), (1, 1), (1, 1)),
    **dict.fromkeys(("onnx.DepthToSpace", "onnx.SpaceToDepth"), ((4, 4),)),
    "onnx.Multinomial": ((2, 2),),
    "onnx.ReverseSequence": ((2, inf), (1, 1)),
    **{f"{domain}.RotaryEmbedding": ((3, 4),) for domain in ("onnx", "com.microsoft")},
    "onnx.STFT": ((2, 3),),
    **{f"com.microsoft.{op}": ((1, inf),) for op in ("MatMulBnb4", "MatMulNBits")},
    "com.microsoft.MoE": ((2, 3),),
    "com.microsoft.PagedAttention": ((2, 2),),
    "com.microsoft.QMoE": ((2, 3), (2, 2), (3, 3)),
}
"""The least and the greatest rank of the first operands."""

RANKS_OF_RESULTS: Mapping[str, tuple[int | None, ...]] = {
    **dict.fromkeys(_RECURRENT, (4, 3)),
    **dict.fromkeys(_WITH_CACHES, (3, 4, 4, 4)),
    **{
        f"com.microsoft.{op}": (3, 5)
        for op in ("Attention", "DecoderMaskedSelfAttention", "QAttention")
    },
    **{f"com.microsoft.{op}": (3, 4, 4) for op in ("DecoderAttention", "SparseAttention")},
    "com.microsoft.PagedAttention": (2, 4, 4),
    "onnx.Attention": (None, 4, 4, 4),
    "onnx.DynamicQuantizeLinear": (None, 0, 0),
    **dict.fromkeys(("onnx.LSTM", "com.microsoft.DynamicQuantizeLSTM"), (4, 3, 3)),
    "onnx.Unique": (None, 1, 1, 1),
}
"""The ranks of operators with several results; None where it is not always the same."""

SAME_RANK_IN_ONNX = frozenset(
    {f"onnx.{sort}" for sort in ("Conv", "ConvInteger", "ConvTranspose", "QLinearConv")}
    | {f"onnx.{sort}Pool" for sort in ("Average", "Lp", "Max")}
    | {f"onnx.Global{sort}Pool" for sort in ("Average", "Lp", "Max")}
    | {f"onnx.{op}" for op in ("Concat", "DFT", "DepthToSpace", "GatherElements", "GridSample")}
    | {f"onnx.{op}" for op in ("LayerNormalization", "Pad", "Resize", "Slice", "SpaceToDepth")}
    | {f"onnx.{op}" for op in ("Split", "Tile", "TopK", "Transpose", "Upsample")}
    | {f"onnx.{op}" for op in ("BitCast", "Cast", "CenterCropPad", "DeformConv", "Dropout")}
    | {f"onnx.{op}" for op in ("Identity", "MaxUnpool", "MeanVarianceNormalization")}
    | {f"onnx.{op}" for op in ("ReverseSequence", "TfIdfVectorizer", "Trilu")}
    | {f"com.microsoft.Skip{sort}LayerNormalization" for sort in ("", "Simplified")}
    | {f"com.microsoft.{sort}Conv" for sort in ("Fused", "Nhwc", "NhwcFused")}
    | {
        "com.microsoft.NhwcMaxPool",
        "com.microsoft.BiasSplitGelu",
        "com.microsoft.MatMulBnb4",
        "com.microsoft.MatMulNBits",
    }
    | {f"com.microsoft.{op}" for op in ("GemmFastGelu", "GridSample")}
    | {f"com.microsoft.QLinear{op}" for op in ("AveragePool", "Conv", "GlobalAveragePool")}
)
"""Operators whose results have the rank of the first operand."""

BROADCASTING_IN_ONNX = frozenset(
    {f"onnx.{op}" for op in ("Add", "And", "Div", "Equal", "Greater", "Less", "Max", "Mean", "Min")}
    | {f"onnx.{op}" for op in ("Mul", "Or", "Pow", "Sub", "Sum", "Xor")}
)
"""
Operators whose result has the largest rank of the operands. In old versions, their dimensions are
compared in other ways.
"""

PRODUCTS_IN_ONNX = frozenset(
    {"onnx.MatMul", "onnx.MatMulInteger"}
    | {f"com.microsoft.{op}" for op in ("DynamicQuantizeMatMul", "FusedMatMul")}
    | {f"com.microsoft.{op}" for op in ("MatMulIntegerToFloat", "TransposeMatMul")}
)
"""Operators that multiply their first two operands as matrices."""

_WINDOWED = frozenset(
    {f"onnx.{sort}" for sort in ("Conv", "ConvInteger", "ConvTranspose", "DeformConv")}
    | {f"onnx.{sort}Pool" for sort in ("Average", "Lp", "Max")}
    | {"onnx.MaxUnpool", "onnx.QLinearConv"}
    | {f"com.microsoft.{sort}Conv" for sort in ("Fused", "Nhwc", "NhwcFused", "QLinear")}
    | {f"com.microsoft.{sort}" for sort in ("MaxpoolWithMask", "NhwcMaxPool", "QLinearAveragePool")}
)
"""Operators with lists of numbers for each dimension of an image."""

_PER_DIMENSION = {"dilations": 1, "kernel_shape": 1, "output_padding": 1, "pads": 2, "strides": 1}
"""How many numbers these lists have for each dimension but the batch and the channels."""

REDUCTIONS_OF_ONNX = frozenset(
    {f"onnx.Reduce{sort}" for sort in ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min")}
    | {f"onnx.Reduce{sort}" for sort in ("Prod", "Sum", "SumSquare")}
    | {"onnx.ArgMax", "onnx.ArgMin"}
)
"""Operators whose result keeps the reduced dimensions as 1 if `keepdims` is 1."""


def rank_relations_of_results(ops: tuple[str, ...]) -> Iterator[Relation]:
    ranks = RANKS_OF_RESULTS.get(ops[0], ())
    if len(ops) == 1 and ranks:
        named = (f"{rank} as result {at}" for at, rank in enumerate(ranks) if rank is not None)
        said = f"{{op}} gives values of rank {' and '.join(named)}"
        yield Relation(said, once=partial(_fixed_each, ranks))


def rank_relations_of_lists(ops: tuple[str, ...]) -> Iterator[Relation]:
    """What the lengths of lists say of the rank of the first operand."""
    if all(op in _WINDOWED for op in ops):
        for name, each in _PER_DIMENSION.items():
            if all(name in operators()[op].attrs for op in ops):
                numbers = "a number" if each == 1 else f"{each} numbers"
                said = f"`{name}` of {{op}} has {numbers} for each dimension after the channels"
                yield Relation(said, again=partial(_as_long_as, name, each, 2))
    if set(ops) == {"onnx.Transpose"}:
        said = "`perm` of {op} names each dimension once"
        yield Relation(said, again=partial(_as_long_as, "perm", 1, 0))


def _as_long_as(name: str, each: int, others: int, called: Called, facts: Facts) -> None:
    """Add that a list has `each` numbers for a dimension, without the `others`."""
    term, rank = called.attribute(name), Rank(called.operands[0])
    lists = facts.of(term).allowed
    if term not in facts.known or lists is None:
        return
    by_rank = {list_: len(list_) // each + others for list_ in lists if isinstance(list_, tuple)}
    fit = {
        list_: found
        for list_, found in by_rank.items()
        if len(list_) % each == 0 and found in facts.of(rank)
    }
    if by_rank and not fit:
        first, of = next(iter(by_rank)), called.call.ops[0]
        only = facts.of(rank).only()
        beside = ""
        if isinstance(only, int):
            numbers = count(each * (only - others), "number")
            beside = f", and this has rank {only}: write {numbers}"
        if len(first) % each == 0:
            facts.mismatch = (
                f"`{name}` {list(first)} of `{of}` is for rank {by_rank[first]}{beside}"
            )
    facts.narrow(term, one_of(fit))
    facts.narrow(rank, one_of(fit.values()))


def _fixed_each(ranks: tuple[int | None, ...], called: Called, facts: Facts) -> None:
    for name, places in results_of_onnx(called):
        known = [rank for rank in ranks[places.start : places.stop] if rank is not None]
        if len(known) == len(places):
            facts.narrow(Rank(name), one_of(known))
