"""CPU schedules of the native backend: a fused function in, tiles, vectors and threads out."""

from __future__ import annotations

from typing import Any


def schedule(func: Any, *, target: Any) -> Any:
    """
    The function computed with vectors, register tiles and, where `target` has cores, threads.

    `func` is a fused `tvm.tirx.PrimFunc` as `FuseTIR` leaves it. The parameters and the values are
    unchanged up to the order of summation. How it is computed follows from the shape of its blocks
    alone; a function of a shape that no rule reads comes back as it was.
    """
    from collage_dsl.backends.schedule.apply import scheduled

    return scheduled(func, target)
