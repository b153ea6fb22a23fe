"""
Write a reduction over a few neighbours along an outer axis as plain arithmetic.

A local response norm sums the squares of five neighbouring channels. Each sum is of elements at the
same place of five planes, so a stage without reduction computes it in one pass over the planes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Expr, integer, substitute, variables
from collage_dsl.backends.schedule.groups import wide
from collage_dsl.backends.schedule.sliding import COMBINERS
from collage_dsl.backends.schedule.stages import Program, Stage, extents, within

NEIGHBOURS = 9  # the most terms that are written out


def without_short_reductions(program: Program) -> Program:
    """The program with each reduction over neighbours along an outer axis written out."""
    stages = tuple(_written_out(_counted(stage)) for stage in program.stages)
    return replace(program, stages=stages)


def _written_out(stage: Stage) -> Stage:
    if not _is_short(stage):
        return stage
    terms: list[Expr] = []
    for choice in product(*(range(axis.extent) for axis in stage.reduced)):
        at = {axis.var: integer(k) for axis, k in zip(stage.reduced, choice, strict=True)}
        terms.append(substitute(stage.value.b, at))
    combine = type(stage.value)
    is_sum = combine is tirx.Add and isinstance(stage.init, tirx.FloatImm) and not stage.init.value
    value = reduce(combine, terms if is_sum else [stage.init, *terms])
    return Stage(stage.spatial, (), stage.buffer, stage.indices, None, value)


def _is_short(stage: Stage) -> bool:
    """Whether a window slides over one tensor, and not along the last two axes of the result."""
    value, axes = stage.value, wide(stage.spatial)
    if not stage.reduced or type(value) not in COMBINERS or len(axes) < 3:
        return False
    own, term = value.a, value.b
    if not isinstance(own, TensorLoad) or not own.source.same_as(stage.buffer):
        return False
    if not isinstance(term, TensorLoad) or prod(extents(stage.reduced)) > NEIGHBOURS:
        return False
    reduced = {axis.var for axis in wide(stage.reduced)}
    used = [variables(index) for index in term.indices]
    slid = [each for each in used if each & reduced]
    outer, inner = {a.var for a in axes[:-2]}, {a.var for a in axes[-2:]}
    return bool(slid) and all(each & outer and not each & inner for each in slid)


def _counted(stage: Stage) -> Stage:
    """The stage with numbers of elements simplified, given the ranges of its axes."""
    analyzer = within(stage.spatial)

    def simpler(cast: Any) -> Expr:
        return tirx.Cast(cast.ty.dtype, analyzer.simplify(cast.value))

    value = tvm_ffi.structural_map(stage.value, (tirx.Cast, simpler))
    return Stage(stage.spatial, stage.reduced, stage.buffer, stage.indices, stage.init, value)
