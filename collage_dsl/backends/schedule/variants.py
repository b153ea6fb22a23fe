"""The variants of a native kernel: algorithms that compute the same function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collage_dsl.backends.schedule.apply import scheduled


class VariantError(ValueError):
    """A variant cannot compute a function. The message says why, in one sentence."""


@dataclass(frozen=True, slots=True, eq=False)
class Scheduled:
    """
    A scheduled PrimFunc, and how to make what it takes in place of some of its parameters.

    `prepared` has a PrimFunc for the position of a parameter. It takes what the function took
    there before, a weight, and writes what the scheduled function takes: the weight in another
    form. It runs once for each weight, when a model is loaded.
    """

    function: Any
    prepared: Mapping[int, Any] = field(default_factory=dict)


def direct(func: Any, target: Any) -> Scheduled:
    """Every function by loops over its own operands."""
    return Scheduled(scheduled(func, target))


VARIANTS: dict[str, Callable[[Any, Any], Scheduled]] = {"direct": direct}
"""
The variants by name. Each takes a fused PrimFunc, as `FuseTIR` makes it, and a TVM target. Raises
`VariantError` for a function that it cannot compute.
"""
