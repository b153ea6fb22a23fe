"""What a variant of a native kernel makes of a function, and its refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tvm import s_tir, tirx

from collage_dsl.backends.schedule.expressions import Buffer


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


def preparing(weight: Buffer, made: Buffer, body: Any) -> Any:
    """
    The PrimFunc that makes another form of a weight.

    It says that its tensors share no memory. Else TVM 0.27 may compile other functions of the
    module as if theirs did too: sums are kept in memory then, and a product takes three times as
    long.
    """
    root = s_tir.SBlock([], [], [], "root", body)
    function = tirx.PrimFunc([weight, made], s_tir.SBlockRealize([], True, root))
    return function.with_attrs({"global_symbol": "prepare", "s_tir": True, "tirx.noalias": True})
