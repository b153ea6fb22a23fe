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
    | {"kernel_shape", "kv_num_heads", "num_groups", "num_heads", "output_size", "pool_size"}
    | {"pooled_size", "q_num_heads", "repeats", "strides", "upscale_factor"}
)

_RANGES: Mapping[str, Values] = {
    **dict.fromkeys(_COUNTS, COUNT),
    "output_padding": NATURAL,
    "padding": WHOLE,
    "sample_ratio": between(-1, inf, whole=True),
    "indices_or_sections": Values(excluded=frozenset({0})),
    "spatial_scale": replace(_FROM_ZERO, excluded=frozenset({0})),
    "epsilon": _FROM_ZERO,
    "momentum": _SHARE,
    "qk_norm_epsilon": _FROM_ZERO,
    "rate": _SHARE,
    "ratio": _SHARE,
}
"""
By attribute; of one that is a list, for each of its numbers. TVM itself accepts some others, such
as a negative `epsilon`, but no model has them.
"""

_BLOCKS = one_of(2**power for power in range(4, 31))

_OF_OPERATORS: Mapping[tuple[str, str], Values] = {
    ("com.microsoft.MatMulBnb4", "block_size"): _BLOCKS,
    ("com.microsoft.MatMulNBits", "block_size"): _BLOCKS,
    ("onnx.DequantizeLinear", "block_size"): NATURAL,
    ("onnx.QuantizeLinear", "block_size"): NATURAL,
}
"""By operator and attribute, where other operators have an attribute of the same name."""

_FLAGS = frozenset(
    {"align_corners", "allowzero", "ceil_mode", "center_point_box", "count_include_pad"}
    | {"detect_negative", "detect_positive", "do_rotary", "exclusive", "fmod", "input_forget"}
    | {"interleaved", "inverse", "is_causal", "is_packed_batching", "keepdims", "largest"}
    | {"layout", "linear_before_reset", "noop_with_empty_axes", "onesided", "output_sequence"}
    | {"periodic", "reverse", "saturate", "select_last_index", "sorted", "storage_order"}
    | {"transA", "transB", "transBatchA", "transBatchB", "unidirectional", "upper"}
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
