"""Which variants may compute something, and the names of those of native kernels."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from collage_dsl.graph.convolutions import Convolution, refused_by_depthwise, refused_by_winograd
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
        "winograd2": "convolutions by Winograd's algorithm, 2 by 2 results at a time",
        "winograd4": "convolutions by Winograd's algorithm, 4 by 4 results at a time",
        TUNED: "the best schedule that `collage tune` has found, if it has tuned the kernel",
    }
)
"""What each variant is. Which of them can compute a kernel is for the native backend to say."""

CONVOLUTION = "nn.conv2d"

TRANSPOSED = "nn.conv2d_transpose"
VOLUMES = "nn.conv3d"

WINOGRAD = (CONVOLUTION, TRANSPOSED, VOLUMES)
"""The convolutions that Winograd's algorithm computes."""

CONVOLUTIONS = ("nn.conv1d", CONVOLUTION, VOLUMES)

PRODUCTS = (*CONVOLUTIONS, "matmul")

WEIGHTED = (*PRODUCTS, TRANSPOSED)
"""The operators whose second operand is a weight that a variant may take in another form."""


@dataclass(frozen=True, slots=True)
class Computed:
    """
    The kernels that a variant computes at most: those with `least` to `most` calls of `ops`. A
    kernel has no other calls unless `others`, and none of kind `reduce` or higher unless
    `other_sums`. `refused` says why a convolution that is named in `ops` is never in one.
    """

    ops: tuple[str, ...]
    least: int = 1
    most: int | None = None
    others: bool = True
    other_sums: bool = True
    refused: Callable[[Convolution], str | None] | None = None


WINOGRAD_SIDES = {"winograd2": (1, 3, 5, 7), "winograd4": (1, 3, 5)}
"""The sides of a kernel, by variant. Longer ones need more points, and are less precise."""


def _winograd(sides: tuple[int, ...]) -> Computed:
    refused = partial(refused_by_winograd, sides=sides)
    return Computed(WINOGRAD, most=1, other_sums=False, refused=refused)


COMPUTED: Mapping[str, Computed] = MappingProxyType(
    {
        "in_place": Computed(("concat",), most=1, others=False),
        "gemm": Computed(WEIGHTED),
        "gemv": Computed(PRODUCTS),
        "depthwise": Computed(
            (CONVOLUTION,), least=2, most=3, other_sums=False, refused=refused_by_depthwise
        ),
        **{name: _winograd(sides) for name, sides in WINOGRAD_SIDES.items()},
    }
)
"""
By variant. Those that are not named compute kernels of any operators. The native backend also
says which shapes and attributes a variant needs.
"""

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
