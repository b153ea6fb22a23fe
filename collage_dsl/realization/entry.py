"""
Enter a virtual machine: one of its entry functions, with the weights that it needs in another form.

Most modules have one entry function, `main`. A model that was compiled for several sizes has one
for each of them too: `main_1`, `main_2`, and so on.
"""

from collections.abc import Callable
from typing import Any

from collage_dsl.backends.runtime.cores import on_cores
from collage_dsl.realization.huge_pages import put_on_huge_pages

MAIN = "main"

PREPARE = "collage_prepare"
"""
The function of an executable that makes all prepared weights: for each entry function, in order, a
tuple of those that it needs.
"""


def entry_name(position: int = 0) -> str:
    """The name of the entry function at a position; the first is `main`."""
    return f"{MAIN}_{position}" if position else MAIN


def prepared_name(position: int = 0) -> str:
    """
    The name of the function that does the same as an entry function, and takes the prepared weights
    after its other parameters.
    """
    return f"collage_{entry_name(position)}"


Weights = tuple[tuple[Any, ...], ...]
"""The prepared weights for each entry function; empty where none needs any."""


def prepared_weights(machine: Any) -> Weights:
    """
    The weights that the entries of a virtual machine need, on huge pages; those of one fit any
    other.
    """
    if not machine.module.implements_function(PREPARE):
        return ()
    weights = tuple(map(tuple, machine[PREPARE]()))
    put_on_huge_pages(tensor for each in weights for tensor in each)
    return weights


def takes_prepared(weights: Weights, position: int = 0) -> bool:
    """Whether the entry function at a position needs any of the prepared `weights`."""
    return bool(weights) and bool(weights[position])


def entry(machine: Any, weights: Weights, cores: int = 1, position: int = 0) -> Callable[..., Any]:
    """
    The entry function of a virtual machine at a position, on `cores`, with the prepared `weights`
    of its executable.
    """
    if not takes_prepared(weights, position):
        return on_cores(machine[entry_name(position)], cores)
    main, last = on_cores(machine[prepared_name(position)], cores), weights[position]
    return lambda *tensors: main(*tensors, *last)
