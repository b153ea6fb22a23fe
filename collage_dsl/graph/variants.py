"""The names of the variants of native kernels, which specs and backends share."""

from collections.abc import Mapping
from types import MappingProxyType

NATIVE_VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        "direct": "loops over the operands as they are",
        "gemm": "a matrix product with weights that are packed when the model is loaded",
        "gemv": "one pass over the weights of a product with few rows",
        "winograd2": "convolutions of stride 1 by Winograd's algorithm, 2 by 2 results at a time",
        "winograd4": "convolutions of stride 1 by Winograd's algorithm, 4 by 4 results at a time",
    }
)
"""What each variant is. Which of them can compute a kernel is for the native backend to say."""
