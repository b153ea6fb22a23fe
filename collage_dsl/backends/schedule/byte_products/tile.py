"""The innermost loop of a product of bytes: a tile of sums in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.panels import word_of
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
from collage_dsl.backends.schedule.machine import Dots

Element = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True, slots=True)
class DotTile:
    """`height` rows of `width` sums of int32, which are whole vectors."""

    height: int
    width: int
    lanes: int
    dots: Dots

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
        products of the words `row(i, k)` and `weight(k, column)` over k.

        `row` is a word of unsigned bytes, `weight` a vector of words of signed ones.
        `ahead(k)` is what each step does besides.
        """
        lanes = self.lanes
        held = scratch(self.height * self.width, "int32", "held", "local")

        def place(i: Expr, column: Expr) -> Expr:
            return whole(i * self.width + column, lanes)

        def step(k: Expr) -> Stmt:
            def add(i: Expr, column: Expr) -> Stmt:
                operand = tirx.Broadcast(row(i, k), lanes)
                total = added(self.dots, load(held, place(i, column)), operand, weight(k, column))
                return store(held, total, place(i, column))

            return sequence([*ahead(k), self._each(add)])

        zeros = tirx.Broadcast(tirx.IntImm("int32", 0), lanes)
        begin = self._each(lambda i, column: store(held, zeros, place(i, column)))
        done = self._each(lambda i, column: out(i, column, load(held, place(i, column))))
        return scoped([held], sequence([begin, loop(inner, step, name="inner"), done]), "registers")

    def _each(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        vectors = self.width // self.lanes
        return unrolled(self.height, lambda i: unrolled(vectors, lambda j: body(i, j * self.lanes)))


def row_total(
    dots: Dots, lanes: int, row: Callable[[Expr], Expr], vectors: int, total: Buffer
) -> Stmt:
    """Sum the unsigned bytes of a row of `vectors` vectors in the lanes of `total`."""
    one = word_of([tirx.IntImm("int32", 1)] * dots.terms)
    place = whole(integer(0), lanes)

    def step(number: Expr) -> Stmt:
        ones = tirx.Broadcast(one, lanes)
        return store(total, added(dots, load(total, place), row(number), ones), place)

    zeros = store(total, tirx.Broadcast(tirx.IntImm("int32", 0), lanes), place)
    return sequence([zeros, loop(vectors, step, name="vector")])


def added(dots: Dots, total: Expr, unsigned: Expr, signed: Expr) -> Expr:
    """`total` with the products of the words `unsigned` and `signed` added; all are vectors."""
    lanes = total.ty.dtype.lanes
    numbers = dots.terms * lanes
    one = tirx.reinterpret(f"{dots.unsigned}x{numbers}", unsigned)
    other = tirx.reinterpret(f"{dots.signed}x{numbers}", signed)
    dtype = f"int32x{lanes}"
    if dots.terms == 4:
        return tirx.call_llvm_pure_intrin(dtype, dots.intrinsic, total, one, other)
    return total + tirx.call_llvm_pure_intrin(dtype, dots.intrinsic, one, other)


def whole(first: Expr, lanes: int) -> Expr:
    """The indices of a vector."""
    return tirx.Ramp(first, integer(1), lanes)
