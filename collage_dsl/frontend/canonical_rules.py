"""The canonical form of what the importers of TVM write in another form, by operator of Relax."""

from collections.abc import Mapping
from functools import partial

from tvm import relax

from collage_dsl.frontend import onnx_products
from collage_dsl.frontend.canonical_call import Rule, either
from collage_dsl.frontend.canonical_clip import call_tir, clip
from collage_dsl.frontend.canonical_constants import (
    FOLDED,
    astype,
    broadcast_to,
    folded,
    permute_dims,
    picked,
    reshape,
    shape_to_tensor,
    strided_slice,
)
from collage_dsl.frontend.canonical_forms import (
    SOFTMAX,
    indexed,
    mean,
    mean_of_stack,
    of_stack,
    softmax,
    softmax_of_matrix,
    squeeze,
)
from collage_dsl.frontend.canonical_products import (
    binary,
    convolution,
    matmul,
    product_of_batches,
    product_of_rows,
)

_RULES: Mapping[str, Rule] = {
    "add": partial(binary, onnx_products.add, "Add"),
    "astype": astype,
    "broadcast_to": broadcast_to,
    "call_tir": call_tir,
    "clip": clip,
    "divide": partial(binary, onnx_products.divide, "Div"),
    "expand_dims": reshape,
    "gather_elements": indexed,
    "gather_nd": indexed,
    "matmul": matmul,
    "max": partial(of_stack, relax.op.maximum),
    "mean": either(mean_of_stack, mean),
    "min": partial(of_stack, relax.op.minimum),
    "multiply": partial(binary, onnx_products.multiply, "Mul"),
    "nn.conv1d": convolution,
    "nn.conv2d": convolution,
    "nn.conv3d": convolution,
    **{op: partial(softmax, operator) for op, operator in SOFTMAX.items()},
    "permute_dims": permute_dims,
    "reshape": either(softmax_of_matrix, product_of_rows, product_of_batches, reshape),
    "scatter_elements": indexed,
    "scatter_nd": indexed,
    "shape_to_tensor": shape_to_tensor,
    "squeeze": either(squeeze, reshape),
    "strided_slice": strided_slice,
    "subtract": partial(binary, onnx_products.subtract, "Sub"),
    "sum": partial(of_stack, relax.op.add),
    "take": either(picked, indexed),
}

RULES: Mapping[str, Rule] = {
    op: either(partial(folded, FOLDED[op]), _RULES[op])
    if op in FOLDED and op in _RULES
    else _RULES.get(op) or partial(folded, FOLDED[op])
    for op in sorted({*_RULES, *FOLDED})
}
