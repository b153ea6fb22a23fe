"""Build loops, vectors and scratch buffers. An extent of one makes no loop; indices are 64 bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvm import s_tir, tirx
from tvm.tirx import ForKind

from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.sizes import is_known

Stmt = Any
Body = Callable[[Expr], Stmt]

TASKS = 8
"""Parts of a shared loop for each core, as in `backends/runtime/cores.cc`."""


def loop(extent: int, body: Body, kind: ForKind = ForKind.SERIAL, name: str = "i") -> Stmt:
    """`body` for each index below `extent`."""
    if extent == 1:
        return body(integer(0))
    variable = tirx.Var(name, "int64")
    return tirx.For(variable, integer(0), integer(extent), kind, body(variable))


def unrolled(extent: int, body: Body, name: str = "u") -> Stmt:
    """`body` repeated in the code for each index."""
    return loop(extent, body, ForKind.UNROLLED, name)


def vector(extent: int, body: Body) -> Stmt:
    """`body` for all indices at once, as one vector."""
    return loop(extent, body, ForKind.VECTORIZED, "lane")


def parallel(extent: int, cores: int, body: Body) -> Stmt:
    """
    `body` for each index, shared among the cores.

    The indices are cut into TASKS parts a core, which differ by one index at most. A part is a
    loop of its own, so a buffer of `body` is allocated once for each part, not for each index.
    """
    parts = TASKS * cores
    if cores == 1 or extent == 1:
        return loop(extent, body, name="task")

    def part(number: Expr) -> Stmt:
        if extent % parts == 0:
            each = extent // parts
            return loop(each, lambda i: body(number * each + i), name="task")
        divided = tirx.floordiv if is_known(extent) else tirx.truncdiv
        first = divided(number * extent, integer(parts))
        after = divided((number + 1) * extent, integer(parts))
        task = tirx.Var("task", "int64")
        return tirx.For(task, integer(0), after - first, ForKind.SERIAL, body(first + task))

    return loop(parts, part, ForKind.PARALLEL, "part")


def vectorised(extent: int, lanes: int, body: Body) -> Stmt:
    """`body` for each index, in full vectors and one narrower vector for the rest."""
    full, rest = divmod(extent, lanes)
    parts = []
    if full:
        parts.append(
            loop(full, lambda c: vector(lanes, lambda lane: body(c * lanes + lane)), name="c")
        )
    if rest:
        last = vector(rest, lambda lane: body(lane + full * lanes))
        parts.append(last if is_known(rest) else tirx.IfThenElse(integer(rest) > 0, last, None))
    return sequence(parts)


def parallel_nest(extents: Sequence[int], cores: int, body: Callable[[list[Expr]], Stmt]) -> Stmt:
    """
    `body` for each index, shared among the cores. If a size is not known, an index gets a name, or
    a loop of its own: a processor takes long to divide by such a size.
    """
    if all(map(is_known, extents)):
        return parallel(prod(extents), cores, lambda number: body(split_index(number, extents)))
    if cores == 1:
        return nest(extents, body, "task")

    return parallel(prod(extents), cores, lambda number: _named(number, extents, body))


def _named(number: Expr, extents: Sequence[int], body: Callable[[list[Expr]], Stmt]) -> Stmt:
    """
    `body` at the named indices whose row-major position is `number`. It is not below 0, but TVM
    does not know: for `floordiv` it would ask at each use.
    """
    binds: list[Stmt] = []

    def named(value: Expr) -> Expr:
        name = tirx.Var("at", "int64")
        binds.append(tirx.Bind(name, value))
        return name

    places: list[Expr] = []
    rest = number
    for extent in reversed(extents[1:]):
        places.append(named(tirx.truncmod(rest, integer(extent))))
        rest = named(tirx.truncdiv(rest, integer(extent)))
    return sequence([*binds, body([rest, *reversed(places)])])


def nest(extents: Sequence[int], body: Callable[[list[Expr]], Stmt], name: str = "k") -> Stmt:
    """Loops around `body`, the last extent innermost."""
    if not extents:
        return body([])
    return loop(
        extents[0], lambda i: nest(extents[1:], lambda rest: body([i, *rest]), name), name=name
    )


def in_blocks(total: int, size: int, body: Callable[[Expr, int, bool], Stmt]) -> Stmt:
    """
    `body(first, count, last)` for blocks of `size`, and for the rest.

    The last block is not in the loop over the others.
    """
    full, rest = divmod(total, size)
    if not rest:
        full, rest = full - 1, size
    parts = [loop(full, lambda b: body(b * size, size, False), name="block")] if full else []
    return sequence([*parts, body(integer(full * size), rest, True)])


def sequence(statements: Sequence[Stmt]) -> Stmt:
    """The statements one after the other."""
    flat = [statement for statement in statements if statement is not None]
    return flat[0] if len(flat) == 1 else tirx.SeqStmt(flat)


def store(buffer: Buffer, value: Expr, *indices: Expr) -> Stmt:
    """Write one element."""
    return tirx.BufferStore(buffer, value, list(indices))


def load(buffer: Buffer, *indices: Expr) -> Expr:
    """Read one element."""
    return tirx.BufferLoad(buffer, list(indices))


def scratch(size: int, dtype: str, name: str, scope: str = "global") -> Buffer:
    """A flat buffer for use inside the `scoped` statement that declares it."""
    return tirx.decl_buffer((integer(size),), dtype, name, scope=scope, data_alignment=64)


def prefetched(buffer: Buffer, first: Expr) -> Stmt:
    """Ask for the cache line at `first`, to be read soon, in the second-level cache."""
    reads, locality, data = (tirx.IntImm("int32", value) for value in (0, 2, 1))
    address = tirx.address_of(load(buffer, first))
    return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, reads, locality, data))


def prefetched_share(
    buffer: Buffer, first: Expr, size: int, step: Expr, steps: int, lanes: int
) -> list[Stmt]:
    """
    Ask for a share of the `size` elements from `first`: all of them are asked for after `steps`
    steps. Elements are asked for in vectors of `lanes`.
    """
    share = -(-size // steps)
    start = first + step * share
    return [prefetched(buffer, start + n) for n in range(0, share, lanes)]


def address(buffer: Buffer, first: Expr) -> Expr:
    """
    A pointer to the element `first`, for an instruction that accesses others from there on too. Of
    a buffer that is declared inside of a function, TVM has to be told which: see `used`.
    """
    return tirx.address_of(load(buffer, first))


def used(buffer: Buffer) -> Stmt:
    """
    A read of the last element, of which no code is made. TVM makes a buffer shorter where it sees
    no access, and of what an `address` is for it sees the first element only.
    """
    (size,) = buffer.shape
    return tirx.Evaluate(load(buffer, size - 1))


def scoped(buffers: Sequence[Buffer], body: Stmt, name: str = "tile") -> Stmt:
    """`body` with local buffers, separate for each thread that runs it."""
    block = s_tir.SBlock([], [], [], name, body, alloc_buffers=list(buffers))
    return s_tir.SBlockRealize([], True, block)


def split_index(index: Expr, extents: Sequence[int]) -> list[Expr]:
    """The indices whose row-major position is `index`."""
    parts: list[Expr] = []
    rest = index
    for extent in reversed(extents[1:]):
        parts.append(tirx.floormod(rest, extent) if extent > 1 else integer(0))
        rest = tirx.floordiv(rest, extent) if extent > 1 else rest
    return [rest, *reversed(parts)] if extents else []
