"""
Convert ONNX operators on float16 and bfloat16 that become several operators: in float32.

Else each step would round. The sum of squares in ReduceL2 would overflow from 256 on.
"""

from collections.abc import Callable

import onnx
from onnx import TensorProto

from collage_dsl.graph.arrays import Array
from collage_dsl.in_float32 import between_conversions

_SEVERAL_STEPS = frozenset({
    "Elu", "GlobalLpPool", "GroupNormalization", "HardSigmoid", "HardSwish",
    "InstanceNormalization", "LRN", "LpPool", "Mean", "MeanVarianceNormalization", "Mish",
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare", "RoiAlign",
    "Selu", "Shrink", "Softplus", "Softsign", "ThresholdedRelu",
})  # fmt: skip

_SHORT = {"float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


def in_float32(
    node: onnx.NodeProto,
    dtype_of: Callable[[str], str],
    constant: Callable[[str], Array | None],
    fresh: Callable[[str], str],
) -> tuple[onnx.NodeProto, ...] | None:
    """
    `node` between conversions, if it is to be computed in float32; None if not. `fresh` makes a
    name one that no value has.
    """
    # A normalization by constants becomes a multiplication and an addition, or part of a product.
    varies = any(constant(name) is None for name in node.input[1:] if name)
    varies = varies and not any(node.output[1:])
    if node.op_type not in _SEVERAL_STEPS and (node.op_type != "BatchNormalization" or not varies):
        return None
    dtypes = {name: dtype_of(name) for name in node.input if name}
    short = [name for name, dtype in dtypes.items() if dtype in _SHORT]
    if not short:
        return None
    wide = {name: fresh(f"{name}.float32") for name in (*short, node.output[0])}
    return tuple(between_conversions(node, wide, _SHORT[dtypes[short[0]]]))
