"""What a variant of a native kernel makes of a function, and its refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


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
