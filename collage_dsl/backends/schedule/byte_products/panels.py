"""
The packed form of weights that are bytes: those of a column whose products are summed at once, in
the bits of an int32, a *word*. After them comes the sum of each column.

Two bytes are numbers of 16 bits in a word, which are ready to be multiplied. Where few rows are
multiplied, to read the weights takes longer, and a word is the two bytes in an int16. Then the sum
of a column is in two of these, the lower bits first.
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


def word_of(numbers: Sequence[Expr], bits: int | None = None) -> Expr:
    """Two or four numbers, each an int32, in the bits of one; `bits` of each, or as many as fit."""
    word: Expr = tirx.IntImm("int32", 0)
    bits = bits or 32 // len(numbers)
    for place, number in enumerate(numbers):
        word = tirx.bitwise_or(word, (number & (2**bits - 1)) << (bits * place))
    return word


def total_of(panels: Panels, packed: Buffer, panel: Panel, column: Expr) -> Expr:
    """The sum of a column."""
    if not is_narrow(packed):
        return load(packed, panels.place(panel, integer(panels.inner - 1), column))
    low, high = (
        tirx.Cast("int32", load(packed, panels.place(panel, integer(panels.inner - n), column)))
        for n in (2, 1)
    )
    return tirx.bitwise_or(low & 0xFFFF, high << 16)


def is_narrow(packed: Buffer) -> bool:
    """Whether words are the two bytes in an int16."""
    return str(packed.dtype) == "int16"


def widened(words: Expr) -> Expr:
    """A vector of words whose two bytes become numbers of 16 bits."""
    lanes = words.ty.dtype.lanes
    return tirx.Cast(f"int16x{2 * lanes}", tirx.reinterpret(f"int8x{2 * lanes}", words))


def rows_of_totals(packed_dtype: str) -> int:
    """The rows of a panel that have the sums of its columns."""
    return 2 if packed_dtype == "int16" else 1


def byte_packing(form: ByteProduct, panels: Panels, packed: Buffer) -> Any:
    """The PrimFunc that packs weights: it takes them and writes `packed`."""
    product, terms, dtype = form.product, form.dots.terms, str(packed.dtype)
    inner, count = product.inner.extent, panels.inner - rows_of_totals(dtype)

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

    def kept(panel: Panel, column: Expr, total: Expr) -> Stmt:
        """Store the sum of a column."""
        name = tirx.Var("total", "int32")
        places = [panels.place(panel, integer(at), column) for at in range(count, panels.inner)]
        parts = [name, name >> 16][: len(places)]
        stores = [
            store(packed, tirx.Cast(dtype, part), place)
            for part, place in zip(parts, places, strict=True)
        ]
        return sequence([tirx.Bind(name, total), *stores])

    def word(panel: Panel, number: Expr, column: Expr) -> Stmt:
        bytes_ = [byte(panel, number * terms + place, column) for place in range(terms)]
        total = sum(bytes_, total_of(panels, packed, panel, column))
        value = word_of(bytes_, 8 if is_narrow(packed) else None)
        place = panels.place(panel, number, column)
        summed = kept(panel, column, total)
        return sequence([summed, store(packed, tirx.Cast(dtype, value), place)])

    def column_packed(panel: Panel, column: Expr) -> Stmt:
        zero = kept(panel, column, tirx.IntImm("int32", 0))
        rows = loop(count, lambda number: word(panel, number, column), name="word")
        return sequence([zero, rows])

    def copied(panel: Panel) -> Stmt:
        return loop(panel.width, lambda column: column_packed(panel, column), name="column")

    return preparing(product.weights, packed, panels.each(copied))
