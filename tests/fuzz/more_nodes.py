"""
Nodes of operators that the tests of onnx lack: some of the standard and of `ai.onnx.ml`, those that
were removed, and those of onnxruntime that take plain tensors.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

Array = np.ndarray[Any, Any]
Written = tuple[NodeProto, tuple[Any, ...], int]
"""A node, its operands and its operator set."""

MICROSOFT = "com.microsoft"
LEARNING = "ai.onnx.ml"

NEWEST = 21
"""Operators are written as they are in this set, unless another is said."""


def written() -> Iterator[Written]:
    yield from _standard()
    yield from _removed()
    yield from _learning()
    yield from _microsoft()
    yield from _quantized()


def _node(
    op: str, *operands: Any, domain: str = "", outputs: int = 1, opset: int = NEWEST, **attrs: Any
) -> Written:
    names = [f"x{place}" if each is not None else "" for place, each in enumerate(operands)]
    results = [f"y{place}" for place in range(outputs)]
    return helper.make_node(op, names, results, domain=domain, **attrs), operands, opset


def _f(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _i(*values: Any) -> Array:
    return np.array(values, np.int64)


def _u(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape).astype(np.uint8)


def _standard() -> Iterator[Written]:
    yield _node("GlobalLpPool", _f(2, 3, 4, 5), p=2)
    yield _node("GlobalLpPool", _f(2, 3, 4))
    rois = np.array([[0, 0, 0, 3, 3], [1, 1, 1, 5, 4]], np.float32)
    yield _node("MaxRoiPool", _f(2, 3, 6, 6), rois, pooled_shape=[2, 2], spatial_scale=1.0)
    yield _node("ConcatFromSequence", [_f(2, 3), _f(1, 3)], axis=0)
    yield _node("ConcatFromSequence", [_f(2, 3), _f(2, 3)], axis=-1, new_axis=1)
    yield _node("SequenceErase", [_f(2, 3), _f(1, 3)], np.array(-1))
    yield _node("SequenceErase", [_f(2), _f(3)])
    yield _node("SequenceConstruct", _f(2, 3), _f(2, 3), _f(1, 3))
    yield _node("SequenceAt", [_f(2, 3), _f(1, 3)], np.array(-1))
    yield _node("Optional", _f(2, 3))
    yield _node("SequenceLength", [_f(2, 3), _f(1, 3)])
    yield _node("SequenceEmpty", dtype=TensorProto.FLOAT)
    yield _node("SimplifiedLayerNormalization", _f(2, 3, 4), _f(4), axis=-1, epsilon=1e-5)
    yield _node("RandomNormal", shape=[2, 3], mean=1.0)
    yield _node("RandomUniform", shape=[2, 3], high=2.0, dtype=TensorProto.DOUBLE)
    yield _node("RandomNormalLike", _f(2, 3))
    yield _node("RandomUniformLike", _f(2, 3))
    yield _node("Multinomial", _f(2, 5), sample_size=4)
    yield _node("Bernoulli", np.array([[0.0, 1.0], [0.5, 0.5]], np.float32))
    yield _node("Einsum", _f(2, 3, 4), _f(2, 4, 5), equation="bij,bjk->bik")
    yield _node("Einsum", _f(3, 4), equation="ij->ji")
    yield _node("Einsum", _f(3, 4), _f(4), equation="ij,j")
    yield _node("Einsum", _f(2, 3, 4), _f(2, 4), equation="...ij,...j->...i")
    yield _node("Loop", np.array(3), None, _f(2, 3), body=_body(), outputs=2)
    yield _node("Scan", _f(4, 3), num_scan_inputs=1, body=_scanned(), outputs=1)
    yield _node("Constant", value_floats=[1.0, 2.0])
    yield _node("Constant", value_int=3)


def _body() -> Any:
    tensor = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Identity", ["c"], ["d"]),
        helper.make_node("Add", ["a", "a"], ["b"]),
        helper.make_node("Exp", ["a"], ["e"]),
    ]
    taken = tensor("i", TensorProto.INT64, []), tensor("c", TensorProto.BOOL, [])
    given = tensor("d", TensorProto.BOOL, []), tensor("b", TensorProto.FLOAT, [2, 3])
    return helper.make_graph(
        nodes,
        "body",
        [*taken, tensor("a", TensorProto.FLOAT, [2, 3])],
        [*given, tensor("e", TensorProto.FLOAT, [2, 3])],
    )


def _scanned() -> Any:
    tensor = helper.make_tensor_value_info
    return helper.make_graph(
        [helper.make_node("Tanh", ["a"], ["b"])],
        "scanned",
        [tensor("a", TensorProto.FLOAT, [3])],
        [tensor("b", TensorProto.FLOAT, [3])],
    )


def _removed() -> Iterator[Written]:
    yield _node("Scatter", _f(3, 3), np.array([[1, 0, 2]]), _f(1, 3), opset=9)
    scales = np.array([1, 1, 2, 2], np.float32)
    yield _node("Upsample", _f(1, 2, 3, 3), scales, opset=9)
    yield _node("Upsample", _f(1, 2, 3, 3), scales, mode="linear", opset=9)
    yield _node("Upsample", _f(1, 2, 3, 3), scales=[1.0, 1.0, 2.0, 2.0], opset=7)
    yield _node("Resize", _f(1, 2, 3, 3), scales, opset=10)
    yield _node("Resize", _f(1, 2, 3, 3), scales, mode="linear", opset=10)
    yield _node("Resize", _f(1, 2, 4, 4), scales / 2, opset=10)
    yield _node("GroupNormalization", _f(2, 4, 3), _f(2), _f(2), num_groups=2, opset=18)
    yield _node("BatchNormalization", *_normal(3, 8), opset=8)
    yield _node("BatchNormalization", *_normal(3, 8), opset=9, epsilon=0.01)
    yield _node("BatchNormalization", *_normal(3, 8), opset=14)
    yield _node("Dropout", _f(3, 4), ratio=0.3, outputs=2, opset=7)
    yield _node("Gemm", _f(2, 3), _f(3, 4), _f(1, 4), alpha=0.5, opset=7)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        yield _node(op, _f(2, 3, 4), axis=1, opset=11)
        yield _node(op, _f(2, 3, 4), opset=8)
    for op in ("ArgMax", "ArgMin"):
        yield _node(op, _f(2, 3, 4), axis=1, keepdims=0, opset=8)
    yield _node("Slice", _f(4, 5), starts=[0, 1], ends=[3, -1], opset=8)
    yield _node("Slice", _f(4, 5), starts=[-3], ends=[9], axes=[1], opset=8)
    yield _node("Cast", _f(3, 4), to=TensorProto.INT32, opset=7)
    yield _node("Expand", _f(3, 1), _i(2, 1, 4), opset=8)
    yield _node("Clip", _f(3, 4), min=-0.5, opset=7)
    yield _node("Clip", _f(3, 4), min=-0.5, max=0.25, opset=10)
    yield _node("Reshape", _f(3, 4), _i(0, -1, 2), opset=8)
    yield _node("Scan", None, _f(2, 4, 3), num_scan_inputs=1, body=_scanned(), opset=8)


def _normal(channels: int, size: int) -> tuple[Array, ...]:
    variance = np.abs(_f(channels)) + np.float32(0.5)
    return _f(2, channels, size), _f(channels), _f(channels), _f(channels), variance


def _learning() -> Iterator[Written]:
    def node(op: str, *operands: Any, outputs: int = 1, **attrs: Any) -> Written:
        return _node(op, *operands, domain=LEARNING, outputs=outputs, **attrs)

    words = {"cats_strings": ["a", "b"], "cats_int64s": [1, 2]}
    yield node("CategoryMapper", np.array([1, 2, 3]), default_string="none", **words)
    yield node("CategoryMapper", np.array(["a", "b", "c"], object), default_int64=-7, **words)
    yield node("FeatureVectorizer", _f(3, 2), _f(3, 1), inputdimensions=[2, 1])
    yield node("Imputer", _f(3, 2), imputed_value_floats=[0.5], replaced_value_float=0.0)
    yield node(
        "LinearClassifier",
        _f(3, 2),
        outputs=2,
        classlabels_ints=[3, 5],
        coefficients=[1.0, -0.5, 0.5, 0.3],
        intercepts=[0.1, -0.2],
        post_transform="SOFTMAX",
    )
    yield node("LinearRegressor", _f(3, 2), coefficients=[1.0, -0.5], intercepts=[0.1], targets=1)
    for norm in ("MAX", "L1", "L2"):
        yield node("Normalizer", _f(3, 2), norm=norm)
    yield node("OneHotEncoder", np.array([1, 3, 2]), cats_int64s=[1, 2, 3], zeros=1)
    yield node("Scaler", _f(3, 2), offset=[0.5, 1.0], scale=[2.0, 0.5])
    support = {"support_vectors": [0.1, 0.2, -0.3, 0.4], "kernel_params": [0.5, 0.0, 3.0]}
    yield node(
        "SVMRegressor",
        _f(3, 2),
        coefficients=[1.0, -1.0],
        n_supports=2,
        rho=[0.1],
        kernel_type="RBF",
        **support,
    )
    yield node(
        "SVMClassifier",
        _f(3, 2),
        outputs=2,
        classlabels_ints=[0, 1],
        coefficients=[1.0, -1.0],
        rho=[0.1],
        kernel_type="RBF",
        vectors_per_class=[1, 1],
        **support,
    )
    tree: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [1, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.1, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
    }
    leaves = {"treeids": [0, 0], "nodeids": [1, 2], "ids": [0, 0], "weights": [0.5, -1.5]}
    target = {f"target_{name}": value for name, value in leaves.items()}
    yield node("TreeEnsembleRegressor", _f(4, 2), n_targets=1, **tree, **target)
    classes = {f"class_{name}": value for name, value in leaves.items()}
    classes["class_ids"] = [0, 1]
    yield node(
        "TreeEnsembleClassifier",
        _f(4, 2),
        outputs=2,
        classlabels_int64s=[0, 1],
        **tree,
        **classes,
    )


def _microsoft() -> Iterator[Written]:
    def node(op: str, *operands: Any, outputs: int = 1, **attrs: Any) -> Written:
        return _node(op, *operands, domain=MICROSOFT, outputs=outputs, **attrs)

    for op in ("Gelu", "QuickGelu", "FastGelu", "SampleOp", "ScaledSiLU"):
        yield node(op, _f(2, 3, 4))
    yield node("FastGelu", _f(2, 3, 4), _f(4))
    yield node("BiasGelu", _f(2, 3, 4), _f(4))
    yield node("QuickGelu", _f(5), alpha=0.5)
    yield node("FusedMatMul", _f(2, 3, 4), _f(2, 5, 4), transB=1, alpha=0.5)
    yield node("FusedMatMul", _f(3, 4), _f(4, 5))
    yield node("TransposeMatMul", _f(4, 3), _f(4, 5), transA=1)
    yield node("FusedGemm", _f(3, 4), _f(4, 5), _f(5), activation="Relu")
    yield node("FusedGemm", _f(3, 4), _f(5, 4), _f(5), activation="LeakyRelu", transB=1)
    yield node("FusedConv", _f(1, 2, 5, 5), _f(3, 2, 3, 3), _f(3), activation="Relu")
    yield node(
        "FusedConv", _f(1, 2, 5, 5), _f(3, 2, 3, 3), _f(3), _f(1, 3, 3, 3), activation="Relu"
    )
    norm = _f(2, 3, 4), _f(2, 3, 4), _f(4)
    yield node("SkipLayerNormalization", *norm, _f(4), _f(4))
    yield node("SkipLayerNormalization", *norm, _f(4), _f(4), outputs=4)
    yield node("SkipLayerNormalization", *norm)
    yield node("SkipSimplifiedLayerNormalization", *norm)
    yield node("SkipSimplifiedLayerNormalization", *norm, _f(4), outputs=4)
    yield node("Attention", _f(2, 3, 4), _f(4, 12), _f(12), num_heads=2)
    yield node("Attention", _f(2, 3, 4), _f(4, 12), _f(12), num_heads=1, unidirectional=1)
    yield node("MultiHeadAttention", _f(2, 3, 4), _f(2, 5, 4), _f(2, 5, 4), num_heads=2)
    ids = np.array([[0, 1, 2], [2, 1, 0]], np.int32)
    tables = _f(5, 4), _f(3, 4), _f(2, 4)
    yield node("EmbedLayerNormalization", ids, ids % 2, *tables, _f(4), _f(4), outputs=2)
    embedding = ids, ids % 2, *tables, _f(4), _f(4), ids % 2
    yield node("EmbedLayerNormalization", *embedding, outputs=3)
    yield node("CDist", _f(3, 4), _f(5, 4), metric="sqeuclidean")
    yield node("ExpandDims", _f(3, 4), np.array(1, np.int32))
    yield node("GatherND", _f(3, 4), np.array([[0, 1], [2, 3]]))
    yield node("MatMulInteger16", _u(2, 3).astype(np.int16), _u(3, 4).astype(np.int16))
    yield node("MurmurHash3", np.array([1, 2, 3], np.int32), positive=1)
    yield node("NGramRepeatBlock", np.array([[1, 2, 1]]), _f(1, 4), ngram_size=2)
    yield node("Pad", _f(2, 3), _i(0, 1, 1, 0), np.array([0.5], np.float32), mode="constant")
    yield node("Range", *map(np.array, (1, 9, 2)))
    cache = np.random.default_rng(0).uniform(-1, 1, (2, 8, 2)).astype(np.float32)
    yield node("RotaryEmbedding", _f(2, 3, 8), np.array([0]), cache[0], cache[1], num_heads=2)
    yield node("Trilu", _f(3, 4), np.array(1), upper=0)
    yield node("UnfoldTensor", _f(2, 7), dim=1, size=3, step=2)
    yield node("Unique", np.array([1.0, 3.0, 1.0], np.float32), outputs=3)
    yield node("GatedAdd", _f(2, 4), _f(2, 4), _f(2, 4))
    yield node("DynamicTimeWarping", _f(1, 4, 5))
    yield node("GridSample", _f(1, 2, 4, 4), np.clip(_f(1, 3, 3, 2), -1, 1))
    boxes = np.array([[0, 0, 1, 1], [0.2, 0.2, 0.7, 0.8]], np.float32)
    where, size = np.array([0, 1], np.int32), np.array([3, 3], np.int32)
    yield node("CropAndResize", _f(2, 2, 5, 5), boxes, where, size)
    yield node("ConvTransposeWithDynamicPads", _f(1, 2, 3, 3), _f(2, 3, 3, 3), _i(1, 1, 1, 1))
    yield node(
        "BifurcationDetector", np.array([1, 5, 3, 4]), np.array([7, 5, 3]), np.array(0), outputs=2
    )
    bits = {"K": 32, "N": 3, "bits": 4, "block_size": 32}
    yield node("MatMulNBits", _f(2, 32), _u(3, 1, 16), np.abs(_f(3)) / 8, **bits)


def _quantized() -> Iterator[Written]:
    def node(op: str, *operands: Any, **attrs: Any) -> Written:
        return _node(op, *operands, domain=MICROSOFT, **attrs)

    scale, zero = np.array(0.05, np.float32), np.array(128, np.uint8)
    other = np.array(0.1, np.float32), np.array(100, np.uint8)
    pair, last = (scale, zero), other
    for op in ("QLinearAdd", "QLinearMul"):
        yield node(op, _u(3, 4), *pair, _u(4), *other, *last)
    for op in ("QLinearLeakyRelu", "QLinearSigmoid"):
        yield node(op, _u(3, 4), *pair, *last)
    softmax = node("QLinearSoftmax", _u(3, 4), *pair, *last, axis=-1)
    softmax[0].attribute.append(helper.make_attribute("opset", 13))
    yield softmax
    yield node("QLinearGlobalAveragePool", _u(1, 3, 4, 4), *pair, *last)
    yield node("QLinearAveragePool", _u(1, 3, 4, 4), *pair, *last, kernel_shape=[2, 2])
    yield node("QLinearConcat", *last, _u(2, 3), *pair, _u(1, 3), *other, axis=0)
    yield node("QLinearWhere", _u(3, 4) > 99, _u(3, 4), *pair, _u(3, 4), *other, *last)
    yield node("QuantizeLinear", _f(3, 4), *pair)
    yield node("DequantizeLinear", _u(3, 4), *pair)
    yield node("QGemm", _u(2, 3), *pair, _u(3, 4), *other, None, *last)
    yield node("DynamicQuantizeMatMul", _f(2, 3), _u(3, 4), *other)
    yield node("MatMulIntegerToFloat", _u(2, 3), _u(3, 4), scale, other[0], zero, other[1])
    yield node("QLinearConv", _u(1, 2, 5, 5), *pair, _u(3, 2, 3, 3), *other, *last)
    yield node("NhwcMaxPool", _u(1, 4, 4, 3), kernel_shape=[2, 2])
