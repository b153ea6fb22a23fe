"""
Give every memory access one flat, simplified index.

TVM flattens buffers too, but only after it has rewritten each index separately with the ranges of
the loops. It then no longer recognizes that indices over several axes make up one consecutive
position, and does not read the access as a vector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from math import prod
from typing import Any

import tvm_ffi
from tvm import sym, tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    constant,
    integer,
    substitute,
)
from collage_dsl.backends.schedule.loops import Stmt
from collage_dsl.backends.schedule.polynomials import Indices, least_sizes
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import shape


def flattened(
    body: Stmt, parameters: Sequence[Buffer], allocated: Sequence[Buffer]
) -> tuple[Stmt, list[Buffer]]:
    """The body with flat views of the parameters, and flat buffers for the allocated ones."""
    views = {buffer: _flat(buffer) for buffer in parameters if len(buffer.shape) > 1}
    owned = {buffer: _flat(buffer) for buffer in allocated}
    flat = views | owned
    analyzer = sym.Analyzer()
    buffers = [*parameters, *allocated]
    is_static = all(is_known(size) for buffer in buffers for size in shape(buffer))
    unknown = None if is_static else Indices({}, least_sizes(buffers))

    def index(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
        place = position(buffer, indices)
        return rejoined(place, analyzer) if unknown is None else unknown.simplified(place)

    def read(access: TensorLoad) -> Expr:
        if access.source not in flat:
            if len(access.indices) != 1:
                return access
            (place,) = access.indices
            joined = together(place)
            return access if joined is place else tirx.BufferLoad(access.source, [joined])
        return tirx.BufferLoad(flat[access.source], [index(access.source, access.indices)])

    def write(access: Any) -> Stmt:
        if access.buffer not in flat:
            return access
        place = index(access.buffer, access.indices)
        return tirx.BufferStore(flat[access.buffer], access.value, [place])

    body = tvm_ffi.structural_map(body, ((TensorLoad, read), (tirx.BufferStore, write)))
    declared = [
        tirx.DeclBuffer(view, data=tirx.buffer.buffer_data(buffer))
        for buffer, view in views.items()
    ]
    return tirx.SeqStmt([*declared, body]) if declared else body, list(owned.values())


def position(buffer: Buffer, indices: Sequence[Expr]) -> Expr:
    """Where an element lies in the memory of a buffer."""
    place: Expr = integer(0)
    for part, extent in zip(indices, shape(buffer), strict=True):
        place = place * extent + part
    return place


def rejoined(index: Expr, analyzer: sym.Analyzer) -> Expr:
    """
    The simplified index, with `p // n * n + p % n` replaced by `p` for every expression `p`.

    While TVM simplifies, each dividend is replaced by a variable. Otherwise the analyzer changes
    its constants differently in the quotient and in the rest, and does not find the pair.
    """
    hidden: list[tuple[tirx.Var, Expr]] = []

    def hide(division: Any) -> Expr:
        if isinstance(division.a, (tirx.Var, tirx.FloorDiv, tirx.FloorMod, tirx.IntImm)):
            return division
        return type(division)(_name(division.a, hidden), division.b)

    result = tvm_ffi.structural_map(together(index), ((tirx.FloorDiv, tirx.FloorMod), hide))
    result = analyzer.simplify(result)
    for variable, value in reversed(hidden):
        result = substitute(result, {variable: value})
    return result


def together(index: Expr) -> Expr:
    """
    The index with `p % m // n * n + p % n` replaced by `p % m`, where `n` divides `m`. A position
    is taken apart so by each reshape. TVM does not put it together, and where it knows the range of
    `p` it changes the constants of the parts, from which its next pass makes another position.
    """
    return tvm_ffi.structural_map(index, (tirx.Add, _joined))


def _joined(total: Any) -> Expr:
    terms = list(_terms(total))
    for rest in terms:
        if not isinstance(rest, tirx.FloorMod):
            continue
        for whole in terms:
            if (found := _with_rest(whole, rest)) is not None:
                others = [each for each in terms if each is not rest and each is not whole]
                return _joined(reduce(tirx.Add, [*others, found]))
    return total


def _terms(value: Expr) -> Iterator[Expr]:
    if isinstance(value, tirx.Add):
        yield from _terms(value.a)
        yield from _terms(value.b)
    else:
        yield value


def _with_rest(whole: Expr, rest: Any) -> Expr | None:
    """`whole + rest`, if they are the two parts of one position."""
    if not isinstance(whole, tirx.Mul) or not isinstance(whole.a, tirx.FloorDiv):
        return None
    position, size = whole.a.a, constant(rest.b)
    is_size = size is not None and constant(whole.b) == size == constant(whole.a.b)
    if not is_size or not isinstance(position, tirx.FloorMod):
        return None
    modulus = constant(position.b)
    is_multiple = modulus is not None and size is not None and modulus % size == 0
    same = is_multiple and tvm_ffi.structural_equal(position.a, rest.a)
    return position if same else None


def _name(value: Expr, hidden: list[tuple[tirx.Var, Expr]]) -> tirx.Var:
    for variable, known in hidden:
        if tvm_ffi.structural_equal(known, value):
            return variable
    hidden.append((tirx.Var("hidden", "int64"), value))
    return hidden[-1][0]


def _flat(buffer: Buffer) -> Buffer:
    size = integer(prod(shape(buffer)))
    return tirx.decl_buffer((size,), buffer.dtype, f"{buffer.name}_flat", scope=buffer.scope())
