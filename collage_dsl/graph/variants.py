"""Which variants may compute something, and the names of those of native kernels."""

from collections.abc import Mapping
from types import MappingProxyType

from collage_dsl.graph.tuning import TUNED

DIRECT = "direct"
"""The only native variant that can compute every kernel."""

NATIVE_VARIANTS: Mapping[str, str] = MappingProxyType(
    {
        DIRECT: "loops over the operands as they are",
        "in_place": "a concatenation whose operands are written to its result",
        "gemm": "a matrix product with weights that are packed when the model is loaded",
        "gemv": "one pass over the weights of a product with few rows",
        "depthwise": "a depthwise convolution with the pointwise ones before and after it",
        "winograd2": "convolutions of stride 1 by Winograd's algorithm, 2 by 2 results at a time",
        "winograd4": "convolutions of stride 1 by Winograd's algorithm, 4 by 4 results at a time",
        TUNED: "the best schedule that `collage tune` has found, if it has tuned the kernel",
    }
)
"""What each variant is. Which of them can compute a kernel is for the native backend to say."""

Variants = frozenset[str] | None
"""The variants that may compute something; None for any."""


def common(one: Variants, other: Variants) -> Variants:
    """The variants that both allow."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def either(one: Variants, other: Variants) -> Variants:
    """The variants that at least one of both allows."""
    return None if one is None or other is None else one | other
