"""CPU schedules of the native backend: give a fused function tiles, vectors and threads."""

from __future__ import annotations

from typing import Any


def schedule(func: Any, *, target: Any) -> Any:
    """
    The function, computed with vectors, register tiles and, if `target` has several cores, threads.

    `func` is a fused `tvm.tirx.PrimFunc` as `FuseTIR` makes it. The parameters stay the same, and
    so do the values up to the order of summation. The schedule depends only on the form of the
    function's blocks; a function of an unknown form is returned unchanged.
    """
    from collage_dsl.backends.schedule.apply import scheduled

    return scheduled(func, target)


def schedule_variant(func: Any, variant: str, *, target: Any) -> Any:
    """
    The `variants.Scheduled` function that `variant` makes of a fused PrimFunc.

    Raises `variants.VariantError` if the variant cannot compute the function.
    """
    from collage_dsl.backends.schedule.variants import by_variant

    return by_variant(func, variant, target)
