"""Enter a virtual machine: its `main`, with the weights that it needs in another form."""

from collections.abc import Callable, Sequence
from typing import Any

from collage_dsl.backends.runtime.cores import on_cores

MAIN = "main"

PREPARE = "collage_prepare"
"""The function of an executable that makes all prepared weights."""

PREPARED_MAIN = "collage_main"
"""The function of an executable that takes the prepared weights after its other parameters."""


def prepared_weights(machine: Any) -> tuple[Any, ...]:
    """The weights that the `entry` of a virtual machine needs; those of one fit any other."""
    return tuple(machine[PREPARE]()) if prepares(machine.module) else ()


def entry(machine: Any, weights: Sequence[Any], cores: int = 1) -> Callable[..., Any]:
    """`main` of a virtual machine on `cores`, with the prepared `weights` of its executable."""
    if not weights:
        return on_cores(machine[MAIN], cores)
    main, last = on_cores(machine[PREPARED_MAIN], cores), tuple(weights)
    return lambda *tensors: main(*tensors, *last)


def prepares(module: Any) -> bool:
    """Whether the executable prepares weights when it is loaded."""
    return bool(module.implements_function(PREPARE))
