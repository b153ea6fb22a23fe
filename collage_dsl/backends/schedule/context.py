"""The facts that every kernel generator is given, and the final step that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    has_bfloat16,
    integer,
    loads,
    replace_loads,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.functions import vectorisable
from collage_dsl.backends.schedule.groups import Inlined
from collage_dsl.backends.schedule.loops import Stmt, sequence, store
from collage_dsl.backends.schedule.machine import Machine
from collage_dsl.backends.schedule.quotients import with_products
from collage_dsl.backends.schedule.stages import Stage, shape


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """
    The machine, the inlined stages, and the buffers that are read outside their group. Those of
    them that are no parameters are `local`: TVM may keep two of these in the same memory.
    """

    machine: Machine
    inlined: Inlined
    stored: frozenset[Buffer]
    local: frozenset[Buffer] = frozenset()


def finish(
    context: Context, stages: Sequence[Stage], at: Sequence[Expr], held: Mapping[Buffer, Expr]
) -> Stmt:
    """
    Store what `stages` compute at one index, given the values `held` there.

    `at` has an entry for each axis longer than one. A value that several stages read is computed
    once and gets a name, unless it has bfloat16. An int32 that is stored is read again instead:
    TVM 0.27 refuses a name for it in a condition.
    """
    values = dict(held)
    names: list[tuple[tirx.Var, Expr]] = []
    statements = [
        store(buffer, value, *spread(buffer, at))
        for buffer, value in held.items()
        if buffer in context.stored
    ]
    for position, stage in enumerate(stages):
        value = _value(stage, at, values)
        uses = [r for later in stages[position + 1 :] for r in loads(later.value)]
        is_named = sum(read.source.same_as(stage.buffer) for read in uses) > 1
        is_stored = stage.buffer in context.stored
        is_read = is_named and is_stored and str(stage.buffer.dtype) == "int32"
        if is_named and not is_read and not has_bfloat16(value):
            name = tirx.Var("v", value.ty.dtype)
            names.append((name, value))
            value = name
        if not is_read:
            values[stage.buffer] = value
        if is_stored:
            whole = _with_names(value, names)
            whole = vectorisable(with_products(whole) if context.machine.fuses else whole)
            statements.append(store(stage.buffer, whole, *spread(stage.buffer, at)))
    return sequence(statements)


def value_at_end(stages: Sequence[Stage], at: Sequence[Expr], held: Mapping[Buffer, Expr]) -> Expr:
    """What the last of `stages` computes at one index, or the one value `held` without stages."""
    values = dict(held)
    *_, value = values.values()
    for stage in stages:
        value = values[stage.buffer] = _value(stage, at, values)
    return value


def _value(stage: Stage, at: Sequence[Expr], values: Mapping[Buffer, Expr]) -> Expr:
    rest = iter(at)
    where = {axis.var: next(rest) if axis.extent > 1 else integer(0) for axis in stage.spatial}
    expression = substitute(stage.value, where)
    return replace_loads(expression, lambda read: values.get(read.source, read))


def _with_names(value: Expr, names: Sequence[tuple[tirx.Var, Expr]]) -> Expr:
    for name, named in reversed(names):
        if name in variables(value):
            value = tirx.Let(name, named, value)
    return value


def spread(buffer: Buffer, at: Sequence[Expr]) -> list[Expr]:
    """The index with a zero inserted for each dimension of extent one."""
    rest = iter(at)
    return [next(rest) if extent > 1 else integer(0) for extent in shape(buffer)]
