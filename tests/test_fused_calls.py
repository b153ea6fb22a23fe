"""What calls of operators of onnxruntime take and give, compared with onnxruntime itself."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from collage_dsl.frontend.reference import REFUSALS
from collage_dsl.graph import Attribute, Dim, TensorType, TupleType
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.infer import infer
from collage_dsl.language.inference.shapes import Call, MismatchError
from collage_dsl.offline import onnxruntime

Shape = tuple[int, ...]
Array = NDArray[np.generic]


NEWEST = {"onnx.Attention": 23, "onnx.TensorScatter": 24}
"""The operators that the operator set 17 lacks, with the first one that has them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A call; the shapes of its operands in order, of which None is left out."""

    op: str
    shapes: tuple[Shape | None, ...]
    attrs: tuple[tuple[str, Attribute], ...] = ()
    dtypes: str = ""
    """The dtypes of the first operands, as letters of numpy; the others are `f`."""

    def __str__(self) -> str:
        return f"{self.op} {self.shapes} {dict(self.attrs)}"

    def arrays(self) -> list[Array | None]:
        dtypes = self.dtypes.ljust(len(self.shapes), "f")
        pairs = zip(self.shapes, dtypes, strict=True)
        return [None if s is None else np.ones(s, dtype) for s, dtype in pairs]

    def call(self) -> Call:
        given = tuple(TensorType("float32", shape) for shape in self.shapes if shape is not None)
        attrs = {**operators()[self.op].defaults, **dict(self.attrs)}
        return Call(self.op, given, (None,) * len(given), attrs)

    def by_rule(self) -> list[Shape | None] | None:
        """The shapes of the results; None if the call is refused."""
        try:
            type_ = infer(self.call())
        except MismatchError:
            return None
        fields = type_.fields if isinstance(type_, TupleType) else (type_,)
        return [_known(each.shape) if isinstance(each, TensorType) else None for each in fields]

    def by_onnxruntime(self) -> Shape | None:
        """The shape of the first result; None if the call is refused."""
        arrays = self.arrays()
        names = [f"x{at}" if array is not None else "" for at, array in enumerate(arrays)]
        feeds = {n: a for n, a in zip(names, arrays, strict=True) if a is not None}
        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in feeds.items()
        ]
        domain, _, name = self.op.rpartition(".")
        results = ["y", *["mask"] * (name == "EmbedLayerNormalization")]
        domain = domain.removeprefix("onnx")
        node = helper.make_node(name, names, results, domain=domain, **dict(self.attrs))
        graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
        newest = NEWEST.get(self.op, 17)
        opsets = [helper.make_opsetid("", newest), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
            (result,) = session.run(["y"], feeds)
        except REFUSALS:
            return None
        return tuple(result.shape)


def _known(shape: tuple[Dim, ...] | None) -> Shape | None:
    numbers = tuple(dim for dim in shape or () if isinstance(dim, int))
    return numbers if shape is not None and len(numbers) == len(shape) else None


def standard(name: str, *shapes: Shape | None, dtypes: str = "", **attrs: Attribute) -> Case:
    return Case(f"onnx.{name}", shapes, tuple(attrs.items()), dtypes)


def microsoft(name: str, *shapes: Shape | None, dtypes: str = "", **attrs: Attribute) -> Case:
    return Case(f"com.microsoft.{name}", shapes, tuple(attrs.items()), dtypes)


HEADS: dict[str, Attribute] = {"q_num_heads": 2, "kv_num_heads": 2}
STORED: dict[str, Attribute] = {"K": 64, "N": 8, "block_size": 64, "quant_type": 0}
BLOCKS: dict[str, Attribute] = {"K": 64, "N": 8, "bits": 4, "block_size": 32}

WITH_BIAS: tuple[Shape, ...] = ((2, 64), (8, 2, 16), (16,), (8,), (64,))
GATHERED: dict[str, Attribute] = {"bits": 4, "block_size": 32}
CONVOLVED: tuple[Shape, ...] = ((1, 5, 5, 4), (), (), (6, 4, 3, 3), (), (), (), ())
OF_CONVOLUTION = "BfBBfBfB"
POOLED: tuple[Shape, ...] = ((), (), (), ())
JOINED = "fBBfBBfB"

PARTIAL: dict[str, Attribute] = {"num_heads": 2, "rotary_embedding_dim": 4}

OF_GROUPS: Any = {"dtypes": "fffffii", "num_heads": 4, "kv_num_heads": 2}

GROUPED = (1, 1, 64), (1, 1, 32), (1, 1, 32)
CACHED = (1, 2, 4, 16), (1, 2, 4, 16), (1,), (1,)
EXPERTS = (2, 16, 16), (2, 16), None, (2, 32, 8), (2, 32)
SCALED = (), (), (), ()

TAKEN = [
    *(microsoft(name, (2, 3), (3,)) for name in ("BiasGelu", "FastGelu")),
    *(microsoft(name, (2, 3)) for name in ("FastGelu", "Gelu", "QuickGelu")),
    microsoft("SkipLayerNormalization", (2, 3, 4), (2, 3, 4), (4,)),
    microsoft("SkipLayerNormalization", (2, 3, 4), (1, 3, 4), (4,), (4,)),
    microsoft("SkipLayerNormalization", (2, 3, 4), (3, 4), (4,), None, (4,)),
    microsoft("SkipLayerNormalization", (3, 4), (3, 4), (4,), (4,), (4,)),
    microsoft("SkipSimplifiedLayerNormalization", (2, 3, 4), (2, 3, 4), (4,), (4,)),
    microsoft(
        *("EmbedLayerNormalization", (2, 3), (2, 3), (10, 4), (5, 4), (2, 4), (4,), (4,)),
        dtypes="ii",
    ),
    microsoft(
        *("EmbedLayerNormalization", (2, 3), None, (10, 4), (5, 4), None, (4,), (4,)),
        *((2, 3), (1, 3)),
        dtypes="iffffffii",
    ),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 5, 8), (2, 5, 12), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 4), num_heads=2),
    microsoft("Attention", (2, 3, 8), (8, 24), (24,), num_heads=2),
    standard("Attention", (2, 3, 8), (2, 5, 8), (2, 5, 4), **HEADS),
    standard("Attention", (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6)),
    standard("Attention", (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6), q_num_heads=4),
    microsoft("Attention", (2, 3, 8), (8, 24), (24,), num_heads=2, qkv_hidden_sizes=(6, 6, 12)),
    standard("Resize", (1, 5), None, (2,)),
    standard("Resize", (1, 5), None, None, (2,), dtypes="fffl"),
    standard("TensorScatter", (2, 3, 4, 5), (2, 3, 2, 5), (2,), dtypes="ffl", axis=-2),
    standard("Slice", (3, 5), (2,), (2,), dtypes="fll"),
    standard("Slice", (3, 5), (1,), (1,), (1,), dtypes="flll"),
    microsoft("DynamicQuantizeMatMul", (2, 3, 4), (4, 5), (1,), dtypes="fb"),
    microsoft("MatMulIntegerToFloat", (2, 3, 4), (4, 5), (1,), (1,), dtypes="Bb"),
    microsoft("Inverse", (2, 1, 1)),
    microsoft("RotaryEmbedding", (1, 3, 8), (1, 3), (5, 4), (5, 4), dtypes="fl"),
    microsoft("RotaryEmbedding", (1, 2, 3, 8), (1, 3), (5, 4), (5, 4), dtypes="fl"),
    microsoft("MatMulNBits", (2, 64), (8, 2, 16), (16,), dtypes="fB", **BLOCKS),
    microsoft("MatMulNBits", (64,), (8, 2, 16), (8, 2), dtypes="fB", **BLOCKS),
    microsoft("MatMulBnb4", (2, 64), (256,), (8,), dtypes="fB", **STORED),
    *(
        microsoft(f"QLinear{sort}", (2, 3), (), (), (3,), (), (), (), (), dtypes="BfBBfBfB")
        for sort in ("Add", "Mul")
    ),
    *(
        microsoft(f"QLinear{sort}", (2, 3), (), (), (), (), dtypes="BfBfB")
        for sort in ("LeakyRelu", "Sigmoid")
    ),
    microsoft("QLinearSoftmax", (2, 3), (), (), (), (), dtypes="BfBfB", axis=1, opset=13),
    microsoft("CDist", (2, 3), (4, 3)),
    microsoft("Trilu", (2, 3, 3)),
    microsoft("Trilu", (3, 3), (), dtypes="fl"),
    microsoft("GridSample", (1, 2, 5, 5), (1, 3, 4, 2)),
    microsoft("FusedConv", (1, 4, 5, 5), (6, 2, 3, 3), (6,), group=2),
    microsoft("FusedConv", (1, 4, 5, 5), (6, 4, 3, 3), None, (1, 6, 3, 3)),
    microsoft("FusedGemm", (2, 4), (4, 5), (5,), activation="Relu"),
    microsoft("FusedGemm", (4, 2), (5, 4), transA=1, transB=1, activation="Relu"),
    microsoft("TransposeMatMul", (4, 3), (4, 5), transA=1),
    microsoft("FusedMatMul", (2, 3, 4), (2, 4, 5)),
    microsoft("FusedMatMul", (3, 2, 4), (2, 4, 5), transBatchA=1),
    microsoft("FusedMatMul", (4, 2, 3), (2, 4, 5), transBatchA=1, transA=1),
    microsoft("FusedMatMul", (2, 3, 4), (5, 2, 4), transBatchB=1, transB=1),
    microsoft("FusedMatMul", (3, 2, 7, 4), (2, 7, 4, 5), transBatchA=1),
    microsoft("FusedMatMul", (4,), (4, 5), transA=1),
    microsoft("Attention", (2, 3, 8), (8, 24), (24,), num_heads=4),
    microsoft("FusedConv", (1, 4, 5, 5), (6, 4, 3, 3), (6,)),
    microsoft("MatMulInteger16", (2, 3, 4), (1, 4, 5), dtypes="hh"),
    microsoft("MatMulBnb4", (2, 64), (300,), (8,), dtypes="fB", **STORED),
    microsoft("MoE", (3, 4), (3, 2), (2, 6, 4), None, (2, 4, 6), k=2),
    microsoft("MatMulNBits", *WITH_BIAS, (8,), dtypes="fBfBif", **BLOCKS),
    microsoft("DecoderMaskedMultiHeadAttention", (2, 1, 8), (2, 1, 8), (2, 1, 8), num_heads=2),
    *(
        microsoft("FusedGemm", (4, 8), (8, 6), added, activation="Relu")
        for added in ((), (1,), (6,), (4, 1), (1, 6), (4, 6))
    ),
    *(
        microsoft("QGemm", (4, 8), (), (), (8, 6), (), (), added, dtypes="BfBBfBi")
        for added in ((), (6,), (4, 1))
    ),
    microsoft("ExpandDims", (2, 3), (), dtypes="fi"),
    microsoft("GatherBlockQuantized", (4, 64), (2, 3), (4, 4), dtypes="Bl", **GATHERED),
    microsoft("GatherBlockQuantized", (4, 64), (), (4, 4), dtypes="Bl", **GATHERED),
    microsoft("CropAndResize", (2, 3, 8, 8), (1, 4), (1,), (2,), dtypes="ffii"),
    microsoft("UnfoldTensor", (2, 10), size=4, step=2),
    microsoft("UnfoldTensor", (9, 2), dim=0, size=9),
    *(
        microsoft(f"{sort}Linear", (2, 3), scales, points, dtypes=dtypes, axis=1)
        for sort, dtypes in (("Dequantize", "BfB"), ("Quantize", "ffB"))
        for scales, points in (((3,), (3,)), ((), (1,)), ((1,), ()), ((), ()))
    ),
    microsoft("QLinearConv", *CONVOLVED, dtypes=OF_CONVOLUTION, channels_last=1),
    microsoft("QLinearConcat", (), (), (2, 3), (), (), dtypes="fBBfB", axis=1),
    microsoft("QLinearConcat", (), (), (2, 3), (), (), (2, 4), (), (), dtypes=JOINED, axis=-1),
    microsoft("QLinearWhere", (3,), (2, 3), (), (), (1,), (), (), (), (), dtypes="?BfBBfBfB"),
    *(
        microsoft(
            "QLinearGlobalAveragePool", (1, 3, 4, 5), *POOLED, dtypes="BfBfB", channels_last=last
        )
        for last in (0, 1)
    ),
    *(
        microsoft("QLinearAveragePool", (1, 5, 6, 7), *POOLED, dtypes="BfBfB", **attrs)
        for attrs in (
            {"kernel_shape": (2, 3)},
            {"kernel_shape": (2, 3), "channels_last": 1},
            {"kernel_shape": (3, 2), "strides": (2, 3), "pads": (1, 0, 1, 1)},
            {"kernel_shape": (3, 2), "strides": (2, 3), "ceil_mode": 1},
            {"kernel_shape": (3, 2), "strides": (2, 2), "auto_pad": "SAME_UPPER"},
        )
    ),
    microsoft("NhwcMaxPool", (1, 5, 6, 7), dtypes="B", kernel_shape=(2, 2), dilations=(2, 1)),
    microsoft("NhwcMaxPool", (1, 3, 3, 7), dtypes="B", kernel_shape=(4, 4), strides=(2, 2)),
    standard("MaxUnpool", (1, 1, 2, 2), (1, 1, 2, 2), dtypes="fl", kernel_shape=(2, 2)),
    standard("CumSum", (2, 3), (1,), dtypes="fl"),
    standard("DFT", (1, 8, 2)),
    standard("DFT", (1, 8, 1)),
    standard("SoftmaxCrossEntropyLoss", (4, 5, 3), (4, 3), dtypes="fl"),
    standard("NegativeLogLikelihoodLoss", (4, 5), (4,), (5,), dtypes="fl"),
    microsoft("RotaryEmbedding", (1, 3, 64), (1, 3), (5, 4), (5, 4), dtypes="fl", num_heads=8),
    microsoft("RotaryEmbedding", (1, 2, 3, 8), (1, 3), (5, 2), (5, 2), dtypes="fl", **PARTIAL),
    microsoft(
        "GroupQueryAttention", *GROUPED, (1, 2, 4, 16), (1, 2, 4, 16), (1,), (1,), **OF_GROUPS
    ),
    microsoft("GroupQueryAttention", *GROUPED, *CACHED, (8, 8), (8, 8), **OF_GROUPS, do_rotary=1),
    microsoft("NGramRepeatBlock", (2, 3), (2, 5), dtypes="lf", ngram_size=2),
    microsoft("GatedRMSNorm", (2, 8), (8,), (2, 8)),
    microsoft("GatedAdd", (2, 8), (2, 8), (2, 1)),
    microsoft("QAttention", (1, 2, 8), (8, 24), (24,), (), (), dtypes="BBfff", num_heads=2),
    microsoft("Attention", (2, 3, 8), (8, 24), (24,), None, None, (1, 1, 3, 3), num_heads=2),
    microsoft("QMoE", (3, 32), (3, 2), *EXPERTS, dtypes="ffBffBf", k=1),
    microsoft("MatMulIntegerToFloat", (2, 4), (4, 5), *SCALED, (5,), dtypes="BBffBBf"),
    microsoft("Trilu", (3, 3), (1,), dtypes="fl"),
    standard("OneHot", (3,), (1,), (2,), dtypes="llf"),
    standard("STFT", (1, 160, 1), (), (16,), dtypes="flf"),
    standard("STFT", (1, 160), (1,), (16,), dtypes="flf", onesided=0),
    standard("Conv", (1, 4, 5, 5), (6, 4, 3, 3), (6,)),
    standard("ConvTranspose", (1, 4, 5, 5), (4, 6, 3, 3), (6,)),
]
"""Calls that onnxruntime takes."""

REFUSED = [
    *(microsoft(name, (2, 3), (1,)) for name in ("BiasGelu", "FastGelu")),
    *(microsoft(name, (2, 3), (2, 3)) for name in ("BiasGelu", "FastGelu")),
    microsoft("SkipLayerNormalization", (2, 3, 4), (2, 3, 1), (4,)),
    microsoft("SkipLayerNormalization", (2, 3, 4), (2, 1, 4), (4,)),
    microsoft("SkipLayerNormalization", (2, 3, 4), (4,), (4,)),
    microsoft("SkipLayerNormalization", (2, 3, 4), (2, 3, 4), (1,)),
    microsoft("SkipLayerNormalization", (2, 3, 4), (2, 3, 4), (4,), None, (3,)),
    microsoft("SkipSimplifiedLayerNormalization", (2, 3, 4), (2, 3, 4), (3,)),
    microsoft(
        *("EmbedLayerNormalization", (2, 3), (2, 3), (10, 4), (5, 3), (2, 4), (4,), (4,)),
        dtypes="ii",
    ),
    microsoft(
        *("EmbedLayerNormalization", (2, 3), (2, 2), (10, 4), (5, 4), (2, 4), (4,), (4,)),
        dtypes="ii",
    ),
    microsoft("MultiHeadAttention", (2, 3, 9), (2, 5, 9), (2, 5, 9), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 5, 6), (2, 5, 8), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 5, 8), (2, 4, 8), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (1, 5, 8), (1, 5, 8), num_heads=2),
    microsoft("MultiHeadAttention", (2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 4), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 5, 8), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 2, 5, 4), (2, 5, 8), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 5, 8), (2, 2, 5, 4), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 2, 5, 3), (2, 2, 5, 3), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 2), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 4, 5, 2), (2, 4, 5, 2), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 8), (2, 5, 8), (2, 5, 7), num_heads=2),
    microsoft("MultiHeadAttention", (2, 3, 2, 2, 4), num_heads=2),
    standard("Attention", (2, 3, 8), (2, 5, 8), (2, 5, 7), **HEADS),
    standard("Attention", (2, 3, 8), (2, 5, 6), (2, 5, 8), **HEADS),
    standard("Attention", (2, 3, 8), (2, 2, 5, 4), (2, 2, 5, 4), **HEADS),
    standard("TensorScatter", (2, 3, 4, 5), (2, 3, 6, 5), (2,), dtypes="ffl", axis=-2),
    standard("TensorScatter", (2, 3, 4, 5), (2, 3, 2, 6), (2,), dtypes="ffl", axis=-2),
    standard("Attention", (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6), q_num_heads=2),
    standard("Attention", (2, 4, 3, 8), (2, 2, 5, 8), (2, 2, 5, 6), kv_num_heads=4),
    *(
        microsoft("Attention", (2, 3, 8), (8, 24), (24,), num_heads=2, qkv_hidden_sizes=sizes)
        for sizes in ((8, 8, 12), (12, 12), (6, 8, 10), (7, 7, 10))
    ),
    standard("Resize", (1, 5), None, (3,)),
    standard("Resize", (1, 5), None, None, (3,), dtypes="fffl"),
    standard("Slice", (3, 5), (1,), (2,), dtypes="fll"),
    standard("Slice", (3, 5), (3,), (3,), dtypes="fll"),
    standard("Slice", (3, 5), (1,), (1,), (2,), dtypes="flll"),
    microsoft("Attention", (2, 3, 8), (7, 24), (24,), num_heads=2),
    microsoft("DynamicQuantizeMatMul", (2, 3, 4), (3, 5), (1,), dtypes="fb"),
    microsoft("MatMulIntegerToFloat", (2, 3, 4), (3, 5), (1,), (1,), dtypes="Bb"),
    microsoft("MatMulNBits", (2, 64), (8, 2, 32), (16,), dtypes="fB", **BLOCKS),
    microsoft("MatMulNBits", (2, 64), (8, 3, 16), (16,), dtypes="fB", **BLOCKS),
    microsoft("MatMulNBits", (2, 64), (9, 2, 16), (16,), dtypes="fB", **BLOCKS),
    microsoft("MatMulNBits", (2, 64), (8, 32), (16,), dtypes="fB", **BLOCKS),
    microsoft("MatMulNBits", (2, 60), (8, 2, 16), (16,), dtypes="fB", **BLOCKS),
    microsoft("MatMulBnb4", (2, 60), (256,), (8,), dtypes="fB", **STORED),
    microsoft("QLinearAdd", (2, 3), (), (), (2,), (), (), (), (), dtypes="BfBBfBfB"),
    microsoft("CDist", (2, 3), (4, 2)),
    microsoft("GridSample", (1, 2, 5, 5), (1, 3, 4, 3)),
    microsoft("FusedConv", (1, 4, 5, 5), (6, 3, 3, 3)),
    microsoft("FusedConv", (1, 4, 5), (6, 4, 3, 3)),
    microsoft("FusedConv", (1, 4, 5, 5), (5, 2, 3, 3), group=2),
    microsoft("FusedGemm", (2, 4), (3, 5), (5,), activation="Relu"),
    microsoft("TransposeMatMul", (3, 4), (4, 5), transA=1),
    microsoft("FusedMatMul", (3, 2, 4), (2, 4, 5)),
    microsoft("FusedMatMul", (2, 3, 4), (2, 4, 5), transBatchA=1),
    microsoft("FusedMatMul", (3, 4), (4, 5), transBatchA=1),
    microsoft("Attention", (2, 3, 8), (8, 24), (24,), num_heads=6),
    microsoft("FusedConv", (1, 4, 5, 5), (6, 4, 3, 3), (4,)),
    microsoft("MatMulInteger16", (2, 3, 4), (3, 4, 5), dtypes="hh"),
    microsoft("MatMulBnb4", (2, 64), (255,), (8,), dtypes="fB", **STORED),
    microsoft("MoE", (3, 4), (3, 2), (2, 6, 5), None, (2, 5, 6), k=2),
    microsoft("MoE", (3, 4), (3, 2), (2, 6, 4), None, (2, 4, 6), k=3),
    microsoft("MatMulBnb4", (2, 64), (256,), (7,), dtypes="fB", **STORED),
    microsoft("MatMulNBits", *WITH_BIAS, (1,), dtypes="fBfBif", **BLOCKS),
    microsoft("DecoderMaskedMultiHeadAttention", (2, 3, 8), (2, 3, 8), (2, 3, 8), num_heads=2),
    microsoft("GatherBlockQuantized", (4, 64), (2, 3), (4,), dtypes="Bl", **GATHERED),
    *(
        microsoft("FusedGemm", (4, 8), (8, 6), added, activation="Relu")
        for added in ((5,), (4,), (4, 5), (1, 4, 6))
    ),
    microsoft("QGemm", (4, 8), (), (), (8, 6), (), (), (5,), dtypes="BfBBfBi"),
    microsoft("CropAndResize", (1, 3, 8, 8), (1, 5), (1,), (2,), dtypes="ffii"),
    microsoft("CropAndResize", (1, 3, 8, 8), (1, 4), (2,), (2,), dtypes="ffii"),
    microsoft("Trilu", (3,)),
    microsoft("UnfoldTensor", (2, 10), size=11),
    microsoft("UnfoldTensor", (2, 10), dim=2, size=4),
    *(
        microsoft(f"{sort}Linear", (2, 3), scales, points, dtypes=dtypes, axis=1)
        for sort, dtypes in (("Dequantize", "BfB"), ("Quantize", "ffB"))
        for scales, points in (((3,), (2,)), ((3,), (1,)), ((3,), ()), ((), (3,)), ((1,), (3,)))
    ),
    microsoft("QLinearConv", *CONVOLVED, dtypes=OF_CONVOLUTION),
    microsoft("QLinearConcat", (), (), (2, 3), (), dtypes="fBBf", axis=1),
    microsoft("QLinearConcat", (), (), (2, 3), (), (), (3, 4), (), (), dtypes=JOINED, axis=1),
    microsoft("QLinearWhere", (3,), (2, 3), (), (), (2,), (), (), (), (), dtypes="?BfBBfBfB"),
    microsoft("QLinearGlobalAveragePool", (1, 3), *POOLED, dtypes="BfBfB"),
    microsoft("QLinearAveragePool", (1, 5, 6, 7), *POOLED, dtypes="BfBfB", kernel_shape=(2,)),
    standard("MaxUnpool", (1, 1, 2, 2), (1, 1, 3, 3), dtypes="fl", kernel_shape=(2, 2)),
    standard("CumSum", (2, 3), (2,), dtypes="fl"),
    standard("DFT", (1, 8, 3)),
    standard("SoftmaxCrossEntropyLoss", (4, 5, 3), (4,), dtypes="fl"),
    standard("NegativeLogLikelihoodLoss", (4, 5), (3,), dtypes="fl"),
    microsoft("RotaryEmbedding", (1, 3, 64), (1, 3), (5, 8), (5, 8), dtypes="fl", num_heads=8),
    microsoft("RotaryEmbedding", (1, 3, 64), (1, 3), (5, 2), (5, 2), dtypes="fl", num_heads=8),
    microsoft("RotaryEmbedding", (1, 2, 3, 8), (1, 3), (5, 8), (5, 8), dtypes="fl"),
    microsoft("GroupQueryAttention", *GROUPED, (1, 2, 4, 8), (1, 2, 4, 8), (1,), (1,), **OF_GROUPS),
    microsoft(
        "GroupQueryAttention", *GROUPED, (2, 2, 4, 16), (2, 2, 4, 16), (1,), (1,), **OF_GROUPS
    ),
    microsoft("GroupQueryAttention", *GROUPED, *CACHED, (8, 16), (8, 16), **OF_GROUPS, do_rotary=1),
    microsoft("NGramRepeatBlock", (2, 3), (3, 5), dtypes="lf", ngram_size=2),
    microsoft("GatedAdd", (2, 8), (2, 8), (2, 8)),
    microsoft("QAttention", (1, 2, 8), (8, 24), (24,), (2,), (), dtypes="BBfff", num_heads=2),
    microsoft("QMoE", (3, 32), (3, 4), *EXPERTS, dtypes="ffBffBf", k=1),
    microsoft("MatMulIntegerToFloat", (2, 4), (4, 5), *SCALED, (4,), dtypes="BBffBBf"),
    microsoft("Trilu", (3, 3), (2,), dtypes="fl"),
    standard("OneHot", (3,), (2,), (2,), dtypes="llf"),
    standard("STFT", (1, 160, 1), (2,), (16,), dtypes="flf"),
    standard("Conv", (1, 4, 5, 5), (6, 4, 3, 3), (6, 1)),
    standard("ConvTranspose", (1, 4, 5, 5), (4, 6, 3, 3), (6, 1)),
]
"""Calls that onnxruntime does not take."""


@pytest.mark.parametrize("case", TAKEN, ids=str)
def test_what_onnxruntime_takes_is_not_refused(case: Case) -> None:
    found, expected = case.by_rule(), case.by_onnxruntime()

    assert expected is not None
    assert found is not None
    assert found[0] in (None, expected)


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_refused_onnxruntime_refuses_too(case: Case) -> None:
    assert case.by_rule() is None
    assert case.by_onnxruntime() is None


def test_each_operator_of_which_calls_are_refused_runs() -> None:
    assert {case.op for case in REFUSED} <= {case.op for case in TAKEN}


@pytest.mark.parametrize("name", ["CumSum", "CumProd"])
def test_what_is_summed_or_multiplied_along_an_axis_keeps_its_shape(name: str) -> None:
    assert standard(name, (2, 3), (1,)).by_rule() == [(2, 3)]


def test_most_shapes_of_results_are_known() -> None:
    known = [case for case in TAKEN if (case.by_rule() or [None])[0]]

    assert len(known) > len(TAKEN) * 0.7
