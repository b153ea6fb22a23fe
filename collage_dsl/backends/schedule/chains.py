"""Find chains of a product, stages along its rows, and a product of the result: attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import Buffer, loads
from collage_dsl.backends.schedule.gemm.form import Product, product_of
from collage_dsl.backends.schedule.groups import Group, Inlined, at_index, wide, wide_extents
from collage_dsl.backends.schedule.stages import Program, Stage

LEAST_ROWS = 4  # with fewer rows, packing the weights of a product costs more than it saves


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """
    A product, stages along its rows, and a product of the rows: `softmax(q @ k) @ v`.

    All three have the same batch and rows. What the first two store is read only inside.
    """

    first: Group
    middle: Group
    last: Group
    product: Product
    result: Product
    kept: frozenset[Buffer]
    """What one group stores for the next one."""

    @property
    def groups(self) -> tuple[Group, ...]:
        return self.first, self.middle, self.last

    @property
    def stages(self) -> tuple[Stage, ...]:
        return tuple(stage for group in self.groups for stage in group.stages)


def with_chains(
    groups: Sequence[Group], inlined: Inlined, program: Program
) -> tuple[Group | Chain, ...]:
    """The groups, with a chain in place of each three groups that make one."""
    found: list[Group | Chain] = []
    rest = tuple(groups)
    while rest:
        chain = _chain(rest[:3], inlined)
        if chain and _is_closed(chain, groups, inlined, program):
            found.append(chain)
            rest = rest[3:]
        else:
            found.append(rest[0])
            rest = rest[1:]
    return tuple(found)


def _chain(groups: Sequence[Group], inlined: Inlined) -> Chain | None:
    if len(groups) < 3:
        return None
    first, middle, last = groups
    product, result = _product(first, inlined), _product(last, inlined)
    if product is None or result is None or middle.rows != _line(product):
        return None
    axes = (*result.batch, *result.rows, result.inner)
    operand = result.operand
    if wide_extents(axes) != wide_extents(product.stage.spatial):
        return None
    if not isinstance(operand, TensorLoad) or not at_index(operand, axes):
        return None
    if operand.source not in {stage.buffer for stage in middle.stages}:
        return None
    reads = _reads_between(first, middle, inlined)
    if reads is None:
        return None
    return Chain(first, middle, last, product, result, reads | {operand.source})


def _product(group: Group, inlined: Inlined) -> Product | None:
    """The product of a group, if it has rows enough and the columns are the last axis."""
    form = product_of(group.anchor, inlined) if group.anchor and group.rows is None else None
    if form is None or form.by_columns or len(form.rows) != 1:
        return None
    return form if form.rows[0].extent >= LEAST_ROWS else None


def _line(product: Product) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The extents of the axes of all rows, and that of a row."""
    rows = wide_extents((*product.batch, *product.rows))
    return rows, (product.column.extent,)


def _reads_between(first: Group, middle: Group, inlined: Inlined) -> frozenset[Buffer] | None:
    """What `middle` reads of `first`; None if a row of it reads another row."""
    firsts = {stage.buffer for stage in first.stages}
    found: set[Buffer] = set()
    for stage in middle.stages:
        axes = (*wide(stage.spatial), *wide(stage.reduced))
        for read in loads(inlined.expand(stage.value)):
            if read.source in firsts and not at_index(read, axes):
                return None
            found |= {read.source} & firsts
    return frozenset(found)


def _is_closed(chain: Chain, groups: Sequence[Group], inlined: Inlined, program: Program) -> bool:
    """Whether nothing else needs what the first two groups compute, but for the second product."""
    inside = {stage.buffer for group in chain.groups[:2] for stage in group.stages}
    if inside & set(program.parameters):
        return False
    members = chain.groups[:2]
    others = [stage for group in groups if group not in members for stage in group.stages]
    values = [inlined.expand(stage.value) for stage in others if stage is not chain.result.stage]
    values.append(chain.result.weight)
    return not any(read.source in inside for value in values for read in loads(value))
