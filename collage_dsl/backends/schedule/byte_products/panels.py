"""
The packed form of weights that are bytes: those of a column whose products are summed at once, in
the bits of an int32, a *word*. After them comes the sum of each column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.byte_products.form import ByteProduct
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer, substitute
from collage_dsl.backends.schedule.gemm.panels import Panel, Panels
from collage_dsl.backends.schedule.loops import Stmt, load, loop, sequence, store
from collage_dsl.backends.schedule.scheduled import preparing


def signed(value: Expr) -> Expr:
    """A byte, less 128 if it is unsigned, as an int32."""
    wide = tirx.Cast("int32", value)
    return wide if str(value.ty.dtype) == "int8" else wide - 128


def as_unsigned(value: Expr) -> Expr:
    """A byte, plus 128 if it is signed, as an unsigned one."""
    if str(value.ty.dtype) == "uint8":
        return value
    return tirx.bitwise_xor(tirx.Cast("uint8", value), tirx.const(128, "uint8"))


def word_of(numbers: Sequence[Expr]) -> Expr:
    """Two or four numbers, each an int32, in the bits of one."""
    word: Expr = tirx.IntImm("int32", 0)
    bits = 32 // len(numbers)
    for place, number in enumerate(numbers):
        word = tirx.bitwise_or(word, (number & (2**bits - 1)) << (bits * place))
    return word


def byte_packing(form: ByteProduct, panels: Panels, packed: Buffer) -> Any:
    """The PrimFunc that packs weights: it takes them and writes `packed`."""
    product, terms = form.product, form.dots.terms
    inner, count = product.inner.extent, panels.inner - 1
    last = integer(count)

    def byte(panel: Panel, at: Expr, column: Expr) -> Expr:
        """A signed byte as an int32, and zero for what does not exist."""
        where = {product.column.var: panel.column + column, product.inner.var: at}
        value = signed(substitute(product.weight, product.fixed | where))
        exists = column < panel.used if panel.used < panel.width else None
        if count * terms > inner:
            inside = at < inner
            exists = inside if exists is None else tirx.And(exists, inside)
        zero = tirx.IntImm("int32", 0)
        return value if exists is None else tirx.if_then_else(exists, value, zero)

    def word(panel: Panel, number: Expr, column: Expr) -> Stmt:
        bytes_ = [byte(panel, number * terms + place, column) for place in range(terms)]
        total = load(packed, panels.place(panel, last, column))
        summed = store(packed, sum(bytes_, total), panels.place(panel, last, column))
        return sequence(
            [summed, store(packed, word_of(bytes_), panels.place(panel, number, column))]
        )

    def column_packed(panel: Panel, column: Expr) -> Stmt:
        place = panels.place(panel, last, column)
        zero = store(packed, tirx.IntImm("int32", 0), place)
        rows = loop(count, lambda number: word(panel, number, column), name="word")
        return sequence([zero, rows])

    def copied(panel: Panel) -> Stmt:
        return loop(panel.width, lambda column: column_packed(panel, column), name="column")

    return preparing(product.weights, packed, panels.each(copied))
