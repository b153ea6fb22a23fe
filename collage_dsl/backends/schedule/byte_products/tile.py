"""The innermost loop of a product of bytes: a tile of sums in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.panels import QUAD
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    scoped,
    scratch,
    sequence,
    store,
    unrolled,
)
from collage_dsl.backends.schedule.machine import Machine

Element = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True, slots=True)
class DotTile:
    """`height` rows of `width` sums of int32, which are whole vectors."""

    height: int
    width: int
    machine: Machine

    def multiplied(
        self,
        inner: int,
        row: Element,
        weight: Element,
        out: Callable[[Expr, Expr, Expr], Stmt],
        ahead: Callable[[Expr], list[Stmt]],
    ) -> Stmt:
        """
        `out(i, column, sum)` for each vector of sums, from its first column on: those of the
        products of the quads `row(i, k)` and `weight(k, column)` over k.

        `row` is a quad of unsigned bytes as an int32, `weight` a vector of quads of signed ones.
        `ahead(k)` is what each step does besides.
        """
        lanes = self.machine.lanes
        held = scratch(self.height * self.width, "int32", "held", "local")

        def place(i: Expr, column: Expr) -> Expr:
            return whole(i * self.width + column, lanes)

        def step(k: Expr) -> Stmt:
            def add(i: Expr, column: Expr) -> Stmt:
                four = as_bytes(tirx.Broadcast(row(i, k), lanes), "uint8", lanes)
                weights = as_bytes(weight(k, column), "int8", lanes)
                total = dots(self.machine, load(held, place(i, column)), four, weights)
                return store(held, total, place(i, column))

            return sequence([*ahead(k), self._each(add)])

        zeros = tirx.Broadcast(tirx.IntImm("int32", 0), lanes)
        begin = self._each(lambda i, column: store(held, zeros, place(i, column)))
        done = self._each(lambda i, column: out(i, column, load(held, place(i, column))))
        return scoped([held], sequence([begin, loop(inner, step, name="inner"), done]), "registers")

    def _each(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        lanes = self.machine.lanes
        vectors = self.width // lanes
        return unrolled(self.height, lambda i: unrolled(vectors, lambda j: body(i, j * lanes)))


def row_total(machine: Machine, row: Callable[[Expr], Expr], vectors: int, total: Buffer) -> Stmt:
    """Add the unsigned bytes of `vectors` vectors, which are `row`, to the lanes of `total`."""
    lanes = machine.lanes
    ones = tirx.Broadcast(tirx.IntImm("int8", 1), QUAD * lanes)
    place = whole(integer(0), lanes)

    def step(number: Expr) -> Stmt:
        return store(total, dots(machine, load(total, place), row(number), ones), place)

    zeros = store(total, tirx.Broadcast(tirx.IntImm("int32", 0), lanes), place)
    return sequence([zeros, loop(vectors, step, name="vector")])


def dots(machine: Machine, total: Expr, unsigned: Expr, signed: Expr) -> Expr:
    """`total` with the products of each quad of `unsigned` and `signed` bytes added."""
    dtype = f"int32x{machine.lanes}"
    return tirx.call_llvm_pure_intrin(dtype, machine.dots, total, unsigned, signed)


def whole(first: Expr, lanes: int) -> Expr:
    """The indices of a vector."""
    return tirx.Ramp(first, integer(1), lanes)


def as_bytes(vector: Expr, dtype: str, lanes: int) -> Expr:
    """A vector of int32 as one of bytes."""
    return tirx.reinterpret(f"{dtype}x{QUAD * lanes}", vector)
