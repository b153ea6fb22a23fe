"""The variants of a native kernel: algorithms that compute the same function."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from collage_dsl.backends.schedule.apply import scheduled
from collage_dsl.backends.schedule.depthwise.variant import depthwise
from collage_dsl.backends.schedule.few_rows.variant import gemv
from collage_dsl.backends.schedule.gemm.variant import gemm
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.schedule.scheduled import Scheduled, VariantError
from collage_dsl.backends.schedule.slices import sliced
from collage_dsl.backends.schedule.tuned import tuned
from collage_dsl.backends.schedule.winograd.variant import winograd

__all__ = ["VARIANTS", "Scheduled", "VariantError", "by_variant", "direct"]


def by_variant(func: Any, variant: str, target: Any) -> Scheduled:
    """
    What a variant makes of a function; of one of any batch, a loop around that for one image.

    Raises `VariantError` if the variant cannot compute the function.
    """

    def schedule(func: Any) -> Scheduled:
        return VARIANTS[variant](func, target)

    try:
        return schedule(func)
    except VariantError:
        slices = sliced(func, schedule, machine_of(target).cores)
        if slices is None:
            raise
        return slices


def direct(func: Any, target: Any) -> Scheduled:
    """Every function by loops over its own operands."""
    return Scheduled(scheduled(func, target))


VARIANTS: dict[str, Callable[[Any, Any], Scheduled]] = {
    "direct": direct,
    "in_place": direct,
    "gemm": gemm,
    "gemv": gemv,
    "depthwise": depthwise,
    "winograd2": partial(winograd, outputs=2),
    "winograd4": partial(winograd, outputs=4),
    "tuned": tuned,
}
"""
The variants by name: `direct` loops over operands as they are, `gemm` takes weights that were
packed at load, `gemv` reads the weights of a product with few rows once.

Each takes a fused PrimFunc, as `FuseTIR` makes it, and a TVM target. Raises
`VariantError` for a function that it cannot compute.
"""
