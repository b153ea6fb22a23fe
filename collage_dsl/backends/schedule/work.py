"""Estimate the work of a group of stages, to keep small loops on one core."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import loads, operations
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.stages import Stage, extents

SHARED_FROM = 60_000.0
"""
The cycles from which a group is shared: about 20 µs. To share a loop costs less than 1 µs if the
cores share a cache. If they do not, what one core wrote is slow to read for the other, and sharing
10 µs of copying has cost 100 µs.
"""

_CALL = 20.0
"""Cycles for a vector of a mathematical function; one for an addition or a read."""


def with_enough_work(group: Group, context: Context) -> Context:
    """`context`, but with one core if the work of `group` is too small to be shared."""
    if context.machine.cores == 1 or cycles(group, context) >= SHARED_FROM:
        return context
    return replace(context, machine=replace(context.machine, cores=1))


def cycles(group: Group, context: Context) -> float:
    """The cycles that one core needs for a group, roughly, with its operands in the cache."""
    return sum(_cycles(stage, context) for stage in group.stages)


def _cycles(stage: Stage, context: Context) -> float:
    value = context.inlined.expand(stage.value)
    arithmetic, calls = operations(value)
    elements = prod(extents((*stage.spatial, *stage.reduced)))
    return elements / context.machine.lanes * (1 + len(loads(value)) + arithmetic + _CALL * calls)
