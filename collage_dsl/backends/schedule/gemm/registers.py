"""The innermost loop of a product: a tile of sums in registers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Expr, integer
from collage_dsl.backends.schedule.loops import (
    Stmt,
    load,
    loop,
    scoped,
    scratch,
    sequence,
    store,
    unrolled,
    vector,
)
from collage_dsl.backends.schedule.sizes import is_known

LEAST_PART = 8  # steps of the inner loop: starting it has a cost too

Element = Callable[[Expr, Expr], Expr]


@dataclass(frozen=True, slots=True)
class SumTile:
    """
    `height` rows of `width` sums, which are whole vectors of `lanes`.

    The loop over the inner axis has parts of at most `part` steps, if it can be cut evenly. LLVM
    gives registers to the deepest loops first. So where other loops of a function hold constants
    in registers, a deeper loop keeps its sums there.
    """

    height: int
    width: int
    lanes: int
    part: int = 0

    def multiplied(
        self,
        inner: int,
        row: Element,
        weight: Element,
        begin: Element,
        out: Callable[[Expr, Expr, Expr], Stmt],
        ahead: Callable[[Expr], list[Stmt]] = lambda k: [],
    ) -> Stmt:
        """
        `out(i, column, begin(i, column) + sum over k of row(i, k) * weight(k, column))` for each
        element of the tile.

        `weight` is read in vectors along the columns, `row` as scalars. `ahead(k)` is what each
        step does besides.
        """
        held = scratch(self.height * self.width, "float32", "held", "local")

        def place(i: Expr, column: Expr) -> Expr:
            return i * self.width + column

        def step(k: Expr) -> Stmt:
            def add(i: Expr, column: Expr) -> Stmt:
                term = row(i, k) * weight(k, column)
                return store(held, load(held, place(i, column)) + term, place(i, column))

            return sequence([*ahead(k), self._each(add)])

        zero = self._each(lambda i, column: store(held, begin(i, column), place(i, column)))
        done = self._each(lambda i, column: out(i, column, load(held, place(i, column))))
        return scoped([held], sequence([zero, self._loop(inner, step), done]), "registers")

    def _loop(self, inner: int, step: Callable[[Expr], Stmt]) -> Stmt:
        if not is_known(inner):
            return self._cut(inner, step)
        size = next((n for n in range(self.part, LEAST_PART, -1) if inner % n == 0), inner)
        return loop(
            inner // size,
            lambda part: loop(size, lambda k: step(part * size + k), name="inner"),
            name="part",
        )

    def _cut(self, inner: int, step: Callable[[Expr], Stmt]) -> Stmt:
        """Parts of `part` steps, the last of which may have fewer."""

        def steps(part: Expr) -> Stmt:
            first = part * self.part
            k = tirx.Var("inner", "int64")
            count = tirx.min(integer(inner) - first, integer(self.part))
            return tirx.For(k, integer(0), count, tirx.ForKind.SERIAL, step(first + k))

        return loop(-(-inner // self.part), steps, name="part")

    def _each(self, body: Callable[[Expr, Expr], Stmt]) -> Stmt:
        def chunk(i: Expr, j: Expr) -> Stmt:
            return vector(self.lanes, lambda lane: body(i, j * self.lanes + lane))

        vectors = self.width // self.lanes
        return unrolled(self.height, lambda i: unrolled(vectors, lambda j: chunk(i, j)))
