"""The values that attributes may have, in TVM or by the definition of an operator of ONNX."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from math import inf

from collage_dsl.graph.operators import Operator, operators, relax_operators
from collage_dsl.language.reasoning.values.domain import (
    COUNT,
    NATURAL,
    TRUTH,
    WHOLE,
    Values,
    between,
    one_of,
)

_BY_TYPE = {"int": WHOLE, "bool": TRUTH}

_SHARE = between(0, 1)
_FROM_ZERO = between(0, inf)
_FLAG = one_of((0, 1))

_COUNTS = frozenset(
    {"blocksize", "depth", "dilation", "dilations", "group", "groups", "hidden_size"}
    | {"kernel_shape", "kv_num_heads", "num_groups", "num_heads", "num_workers", "offset_group"}
    | {"output_size", "pool_size", "pooled_size", "q_num_heads", "repeats", "strides"}
    | {"upscale_factor"}
)

_ORDERED = ("A", "B", "X", "Y", "global_weight", "input", "output", "weight")
"""Tensors of which an attribute says how onnxruntime stores them."""

_RANGES: Mapping[str, Values] = {
    **dict.fromkeys(_COUNTS, COUNT),
    "accuracy_level": one_of(range(5)),
    "batch_dims": NATURAL,
    "bits": one_of((2, 4, 8)),
    "coord_start": NATURAL,
    "expert_weight_bits": one_of((2, 4, 8)),
    "id_index": between(-1, inf, whole=True),
    **{f"order_{of}": one_of(range(5)) for of in _ORDERED},
    "output_padding": NATURAL,
    "padding": WHOLE,
    "qk_matmul_output_mode": one_of(range(4)),
    "sample_ratio": between(-1, inf, whole=True),
    "score_index": NATURAL,
    "indices_or_sections": Values(excluded=frozenset({0})),
    "spatial_scale": replace(_FROM_ZERO, excluded=frozenset({0})),
    "epsilon": _FROM_ZERO,
    "momentum": _SHARE,
    "qk_norm_epsilon": _FROM_ZERO,
    "softcap": _FROM_ZERO,
    "softmax_precision": one_of((1, 10, 11, 16)),
    "rate": _SHARE,
    "ratio": _SHARE,
}
"""
By attribute; of one that is a list, for each of its numbers. TVM itself accepts some others, such
as a negative `epsilon`, but no model has them.
"""

_POWERS = tuple(2**power for power in range(4, 31))

_BLOCKS = one_of(_POWERS)

_OF_OPERATORS: Mapping[tuple[str, str], Values] = {
    ("ai.onnx.ml.TreeEnsemble", "aggregate_function"): one_of(range(4)),
    ("ai.onnx.ml.TreeEnsemble", "post_transform"): one_of(range(5)),
    ("com.microsoft.GatherBlockQuantized", "block_size"): one_of((0, *_POWERS)),
    ("com.microsoft.GroupNorm", "activation"): _FLAG,
    ("com.microsoft.MatMulBnb4", "block_size"): _BLOCKS,
    ("com.microsoft.MatMulBnb4", "quant_type"): _FLAG,
    ("com.microsoft.MatMulNBits", "block_size"): _BLOCKS,
    ("com.microsoft.SkipGroupNorm", "activation"): _FLAG,
    ("com.microsoft.SparseAttention", "sparse_block_size"): one_of((16, 32, 64, 128)),
    ("onnx.DequantizeLinear", "block_size"): NATURAL,
    ("onnx.GlobalLpPool", "p"): COUNT,
    ("onnx.LRN", "size"): COUNT,
    ("onnx.LpNormalization", "p"): one_of((1, 2)),
    ("onnx.LpPool", "p"): COUNT,
    ("onnx.Multinomial", "sample_size"): COUNT,
    ("onnx.QuantizeLinear", "block_size"): NATURAL,
}
"""By operator and attribute, where other operators have an attribute of the same name."""

_FLAGS = frozenset(
    {"align_corners", "allowzero", "antialias", "auxiliary_kv_shared", "causal", "ceil_mode"}
    | {"center_point_box", "channels_last", "count_include_pad", "detect_negative"}
    | {"detect_positive", "do_rotary", "early_stopping", "exclude_outside", "exclusive", "fmod"}
    | {"input_forget", "interleaved", "inverse", "is_bidirectional", "is_case_sensitive"}
    | {"is_causal", "is_inner_broadcast", "is_packed_batching", "isinf_only", "isnan_only"}
    | {"keepdims", "largest", "layout", "linear_before_reset", "multi_class", "new_axis"}
    | {"noop_with_empty_axes", "normalize_routing_weights", "one_class", "onesided"}
    | {"output_sequence", "past_present_share_buffer", "periodic", "positive", "qk_l2_norm"}
    | {"reset_on_eos", "reverse", "rotary_interleaved", "saturate", "select_last_index"}
    | {"sliding_window_cache", "sorted", "storage_order", "training_mode", "transA", "transB"}
    | {"transBatchA", "transBatchB", "unidirectional", "upper", "use_sparse_mixer", "zeros"}
)
"""Attributes of ONNX that are numbers, of which 0 stands for no and 1 for yes."""


@lru_cache(1024)
def ranges(ops: tuple[str, ...]) -> Mapping[str, Values]:
    """
    The values that attributes may have in a call of any of `ops`; under a name such as `strides[*]`
    those of each number of a list.
    """
    first, *others = (_of_operator(operators()[op]) for op in ops)
    return {
        name: values
        for name, values in first.items()
        if all(other.get(name) == values for other in others)
    }


def _of_operator(operator: Operator) -> dict[str, Values]:
    found: dict[str, Values] = {}
    for name, type_ in operator.attrs.items():
        known = _numbers(operator, name)
        if known is not None:
            found[f"{name}[*]" if type_ in _LISTS else name] = known
        elif type_ in _BY_TYPE:
            found[name] = _BY_TYPE[type_]
        elif name == "function":
            found[name] = _NAME
        elif name in operator.values and "layout" not in name:  # a layout may be in blocks
            found[name] = one_of(operator.values[name])
    return found


_NAME = Values(excluded=frozenset({""}))


_LISTS = frozenset({"floats", "ints"})


def _numbers(operator: Operator, name: str) -> Values | None:
    """The numbers that an attribute may be, or those of its list; None if that is not known."""
    type_, default = operator.attrs[name], operator.defaults.get(name)
    known = _OF_OPERATORS.get((operator.name, name)) or _RANGES.get(name)
    if name in _FLAGS and type_ == "int" and operator.name not in relax_operators():
        known = _FLAG
    if known is None or type_ not in ("float", "int", "int|ints", *_LISTS):
        return None
    usual = default if isinstance(default, tuple) else (default,)
    return known if all(each is None or each in known for each in usual) else None
