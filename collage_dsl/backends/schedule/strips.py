"""
Compute a chain of convolutions in strips of rows, so that what lies between them stays in cache.

For each strip of the last result, the convolutions before it compute only the rows that are still
missing. A buffer between two of them is a ring: it holds as many rows as the next strip reads, and
a new row takes the place of one that is not read again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.contraction import SlidingKernel
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    coefficients,
    constant,
    integer,
    loads,
    simplified,
)
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import Stmt, loop, sequence, store
from collage_dsl.backends.schedule.planes import PlaneKernel, slides_over_planes
from collage_dsl.backends.schedule.sliding import Sliding, sliding
from collage_dsl.backends.schedule.stages import shape
from collage_dsl.backends.schedule.transposed import by_phases

RING_BYTES = 448 * 1024  # of a 1 MiB second-level cache, for all rings of a chain
WORTH_BYTES = 1024 * 1024  # smaller buffers between the kernels stay in the cache as they are
WEIGHT_BYTES = 512 * 1024  # read again for each strip


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """
    One kernel of a chain, and how it reads the rows of the kernel before it.

    Its row `y` needs the rows from `stride * y + base` to `stride * y + base + reach`.
    """

    group: Group
    form: Sliding
    stride: int = 1
    base: int = 0
    reach: int = 0

    @property
    def height(self) -> int:
        assert self.form.y is not None
        return self.form.y.axis.extent

    @property
    def result(self) -> Buffer:
        return self.group.stages[-1].buffer

    @property
    def weight_bytes(self) -> int:
        still = self.form.still
        return (
            sum(4 * prod(shape(read.source)) for read in loads(still)) if still is not None else 0
        )

    @property
    def dimension(self) -> int:
        """The dimension of the result that has the rows."""
        assert self.form.y is not None
        row = self.form.y.axis.var
        return next(d for d, index in enumerate(self.form.stage.indices) if row.same_as(index))


@dataclass(frozen=True, slots=True)
class Rows:
    """
    The rows of one kernel: `count` new ones for each strip, after the first `ahead` ones.

    `ring` rows of them are kept.
    """

    count: int
    ahead: int
    ring: int


def chains(groups: Sequence[Group], context: Context) -> list[tuple[Link, ...] | Group]:
    """The groups in order, those of a chain together."""
    found: list[tuple[Link, ...] | Group] = []
    chain: tuple[Link, ...] = ()
    for group in groups:
        link = _link(group, context)
        after = _after(chain[-1], link, groups, context) if chain and link else None
        if after is None:
            found += _closed(chain)
            chain = (link,) if link else ()
            found += [] if link else [group]
        else:
            chain = (*chain, after)
    return [*found, *_closed(chain)]


def _closed(chain: tuple[Link, ...]) -> Sequence[tuple[Link, ...] | Group]:
    """A chain as it is if strips are worth while, otherwise its groups."""
    between = sum(4 * prod(shape(link.result)) for link in chain[:-1])
    weights = sum(link.weight_bytes for link in chain)
    worth = between > WORTH_BYTES and weights <= WEIGHT_BYTES and _strip(chain)
    return [chain] if worth else [link.group for link in chain]


def _link(group: Group, context: Context) -> Link | None:
    if group.rows is not None or group.anchor is None or context.machine.cores > 1:
        return None
    form = sliding(group.anchor, context.inlined)
    alike = shape(group.stages[-1].buffer) == shape(group.anchor.buffer)
    if form is None or form.y is None or not alike:
        return None
    return None if by_phases(group.anchor, context.inlined) else Link(group, form)


def _after(
    link: Link, following: Link | None, groups: Sequence[Group], context: Context
) -> Link | None:
    """`following` as the next link of a chain, if it is the only reader of the link's result."""
    if following is None:
        return None
    inlined, buffer = context.inlined, link.result
    inner = [stage.buffer for stage in link.group.stages[:-1]]
    if buffer in context.parameters or any(each in context.stored for each in inner):
        return None
    others = [s for group in groups for s in group.stages if s not in link.group.stages]
    readers = [s for s in others if _reads(inlined.expand(s.value), buffer)]
    moving = _reads(inlined.expand(following.form.moving), buffer)
    if readers != [following.group.anchor] or not moving:
        return None
    known = {_rows_read(read, link, following.form) for read in moving}
    rows = known.pop() if len(known) == 1 else None
    return Link(following.group, following.form, *rows) if rows else None


def _reads(value: Any, buffer: Buffer) -> list[TensorLoad]:
    return [read for read in loads(value) if read.source.same_as(buffer)]


def _rows_read(read: TensorLoad, link: Link, form: Sliding) -> tuple[int, int, int] | None:
    """The stride, base and reach of the rows of `link` that `form` reads."""
    assert form.y is not None
    axes = [form.y.axis.var, *(tap.var for tap, _ in form.y.taps)]
    split = coefficients(read.indices[link.dimension], axes)
    base = constant(simplified(split[1])) if split else None
    if split is None or base is None:
        return None
    stride, *steps = split[0]
    taps = [tap.extent for tap, _ in form.y.taps]
    reach = sum(step * (count - 1) for step, count in zip(steps, taps, strict=True))
    return (stride, base, reach) if stride > 0 and min(steps, default=1) >= 0 else None


def _strip(chain: Sequence[Link]) -> tuple[Rows, ...] | None:
    """The rows of each kernel for the highest strips that fit the cache; None if none do."""
    height = chain[-1].height
    heights = sorted({-(-height // parts) for parts in range(2, height + 1)}, reverse=True)
    for count in heights:
        rows = _rows(chain, count)
        size = sum(_bytes(link, each.ring) for link, each in zip(chain[:-1], rows, strict=False))
        if size <= RING_BYTES:
            return rows
    return None


def _rows(chain: Sequence[Link], count: int) -> tuple[Rows, ...]:
    """The rows of each kernel if the last one computes `count` rows for each strip."""
    found = [Rows(count, 0, 0)]
    for link in reversed(chain[1:]):
        after = found[0]
        news = after.count * link.stride
        ahead = max(0, (after.ahead - 1) * link.stride + link.base + link.reach + 1)
        first = after.ahead * link.stride + link.base
        found.insert(0, Rows(news, ahead, max(news + ahead - min(first, ahead), ahead)))
    return tuple(found)


def _bytes(link: Link, rows: int) -> int:
    return 4 * prod(shape(link.result)) // link.height * rows


def strips_statement(
    chain: Sequence[Link], context: Context
) -> tuple[Stmt, Mapping[Buffer, Buffer]]:
    """The kernels of a chain, and the ring that takes the place of each buffer between them."""
    rows = _strip(chain)
    assert rows is not None
    rings = {
        link.result: _ring(link, each.ring) for link, each in zip(chain[:-1], rows, strict=False)
    }
    begin = [
        _kernel(link, context, each.ahead).rows_from(integer(0))
        for link, each in zip(chain, rows, strict=True)
        if each.ahead
    ]
    kernels = [_kernel(link, context, each.count) for link, each in zip(chain, rows, strict=True)]

    def strip(number: Any) -> Stmt:
        return sequence(
            [
                kernel.rows_from(number * each.count + each.ahead)
                for kernel, each in zip(kernels, rows, strict=True)
            ]
        )

    # TVM moves a buffer into the loop that has all its uses. There it would lose the rows that the
    # next strip reads.
    used = [store(ring, tirx.const(0, ring.dtype), *_origin(ring)) for ring in rings.values()]
    body = sequence([*begin, loop(-(-chain[-1].height // rows[-1].count), strip, name="strip")])
    body = _in_rings(body, rings, {link.result: link.dimension for link in chain})
    return sequence([*used, body]), rings


def _origin(buffer: Buffer) -> list[Any]:
    return [integer(0)] * len(buffer.shape)


def _kernel(link: Link, context: Context, height: int) -> PlaneKernel | SlidingKernel:
    kind = PlaneKernel if slides_over_planes(link.form) else SlidingKernel
    return kind(link.form, link.group, context, height)


def _ring(link: Link, rows: int) -> Buffer:
    extent = list(shape(link.result))
    extent[link.dimension] = min(rows, link.height)
    sizes = [integer(each) for each in extent]
    return tirx.decl_buffer(sizes, link.result.dtype, link.result.name)


def _in_rings(body: Stmt, rings: Mapping[Buffer, Buffer], dimensions: Mapping[Buffer, int]) -> Stmt:
    """The body with each row at its place in its ring."""

    def place(buffer: Buffer, indices: Sequence[Any]) -> list[Any]:
        d, at = dimensions[buffer], list(indices)
        at[d] = tirx.floormod(at[d], shape(rings[buffer])[d])
        return at

    def read(access: TensorLoad) -> Any:
        if access.source not in rings:
            return access
        return tirx.BufferLoad(rings[access.source], place(access.source, access.indices))

    def write(access: Any) -> Any:
        if access.buffer not in rings:
            return access
        at = place(access.buffer, access.indices)
        return tirx.BufferStore(rings[access.buffer], access.value, at)

    return tvm_ffi.structural_map(body, ((TensorLoad, read), (tirx.BufferStore, write)))
