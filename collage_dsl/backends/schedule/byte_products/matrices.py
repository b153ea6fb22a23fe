"""
Sums of products of bytes in registers that hold matrices (AMX, Advanced Matrix Extensions of x86).

There are eight such registers, of up to 16 rows of up to 64 bytes. One instruction multiplies the
words of `a`, a row of sums each, with those of `b`, a column of sums each, and adds the products to
16 by 16 sums. Two registers of each factor make four such products, so each is read once for two.

Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18. The most that a
register holds is in its section 18.2, the system's leave to use them in
https://docs.kernel.org/arch/x86/xstate.html.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import StringImm

from collage_dsl.backends.instructions import USE_MATRICES
from collage_dsl.backends.schedule.expressions import Buffer, Expr, integer
from collage_dsl.backends.schedule.loops import (
    Stmt,
    address,
    nest,
    scoped,
    scratch,
    sequence,
    store,
    used,
)

HEIGHT = 16  # the most rows of a register
WORDS = 16  # the most words of a row
SUMS = 4  # registers for sums, as two rows of two
FEWEST_ROWS = 6
"""With fewer rows of 768 bytes, vectors of words took less time than matrices (Emerald Rapids)."""

ROWS_UNSIGNED = "tdpbusd"
"""The instruction for rows of unsigned bytes and columns of signed ones."""
COLUMNS_UNSIGNED = "tdpbsud"
"""That for rows of signed bytes and columns of unsigned ones."""

Place = tuple[Buffer, Expr, int]
"""
A register in memory: a buffer, where the first row begins there, and how far apart the rows are, in
elements of the buffer.
"""

Factor = Callable[[int, list[Expr]], Place]
"""Where the register with a number is at a step."""


@dataclass(frozen=True, slots=True)
class Steps:
    """`count` steps of `words` words each. Some words of the last one may be too many."""

    count: int
    words: int

    @property
    def total(self) -> int:
        return self.count * self.words


def steps_of(words: int) -> Steps:
    """The fewest steps for a number of words, of as few words each as possible."""
    count = -(-words // WORDS)
    return Steps(count, -(-words // count))


def heights_of(rows: int) -> tuple[int, ...]:
    """The heights of the registers that have up to 32 rows."""
    first = -(-rows // 2) if rows > HEIGHT else rows
    return (first, rows - first) if rows > first else (first,)


@dataclass(frozen=True, slots=True)
class MatrixTile:
    """
    Registers of `heights` rows of sums, and for each the sums of `columns` registers of 16 columns.
    """

    heights: tuple[int, ...]
    columns: int
    words: int
    intrinsic: str

    def configured(self, body: Stmt) -> Stmt:
        """`body` with the registers configured, by a thread that the system has allowed to."""
        sizes = {self._sum(i, j): (h, WORDS) for i, h in self._rows() for j in range(2)}
        sizes |= {self._row(i): (height, self.words) for i, height in self._rows()}
        sizes |= {self._column(j): (self.words, WORDS) for j in range(2)}
        config = scratch(8, "int64", "config")
        parts = [store(config, part, integer(n)) for n, part in enumerate(_config(sizes))]
        begin = [*parts, _instruction("ldtilecfg", address(config, integer(0)))]
        return scoped([config], sequence([*begin, body, _instruction("tilerelease")]), "matrices")

    def multiplied(
        self,
        steps: Sequence[int],
        row: Factor,
        column: Factor,
        out: Callable[[int, int], Place],
        ahead: Callable[[list[Expr]], list[Stmt]] = lambda step: [],
    ) -> Stmt:
        """
        Write the sums of the products of `row(i, step)` and `column(j, step)` over all steps, the
        indices below `steps`, to `out(i, j)`. `ahead(step)` is what each step does besides.
        """
        pairs = [(i, j) for i, _ in self._rows() for j in range(self.columns)]

        def step(at: list[Expr]) -> Stmt:
            rows = [_read(self._row(i), row(i, at)) for i, _ in self._rows()]
            columns = [_read(self._column(j), column(j, at)) for j in range(self.columns)]
            products = [
                _instruction(
                    self.intrinsic, *map(_number, (self._sum(i, j), self._row(i), self._column(j)))
                )
                for i, j in pairs
            ]
            return sequence([*ahead(at), *rows, *columns, *products])

        begin = [_instruction("tilezero", _number(self._sum(i, j))) for i, j in pairs]
        done = [_moved("tilestored64", self._sum(i, j), out(i, j)) for i, j in pairs]
        start = [integer(0)] * len(steps)
        buffers = (place[0] for place in (row(0, start), column(0, start), out(0, 0)))
        return sequence([*map(used, buffers), *begin, nest(steps, step, "step"), *done])

    def _rows(self) -> Sequence[tuple[int, int]]:
        return tuple(enumerate(self.heights))

    @staticmethod
    def _sum(row: int, column: int) -> int:
        return 2 * row + column

    @staticmethod
    def _row(number: int) -> int:
        return SUMS + number

    @staticmethod
    def _column(number: int) -> int:
        return SUMS + 2 + number


def allowed(body: Stmt) -> Stmt:
    """`body` after the system has been asked to let this process use the registers."""
    arguments = (tirx.IntImm("int64", each) for each in USE_MATRICES)
    refused = tirx.call_extern("int64", "syscall", *arguments)
    message = (
        "this system does not let the process use AMX, which this code needs: "
        'compile for a target with `mattr: "-amx-tile"`'
    )
    # TVM 0.27 names the first two parameters in the other order.
    is_allowed = tirx.EQ(refused, integer(0))
    check = tirx.AssertStmt(is_allowed, StringImm("RuntimeError"), [StringImm(message)])
    return sequence([check, body])


def _config(sizes: dict[int, tuple[int, int]]) -> list[Expr]:
    """The 64 bytes that say of each register how many rows it has, of how many words."""
    config = bytearray(64)
    config[0] = 1  # the palette
    for register, (rows, words) in sizes.items():
        config[16 + 2 * register] = 4 * words
        config[48 + register] = rows
    parts = (config[at : at + 8] for at in range(0, 64, 8))
    return [tirx.IntImm("int64", int.from_bytes(part, "little", signed=True)) for part in parts]


def _read(register: int, place: Place) -> Stmt:
    return _moved("tileloadd64", register, place)


def _moved(name: str, register: int, place: Place) -> Stmt:
    buffer, first, pitch = place
    size = 1 if str(buffer.dtype) in ("int8", "uint8") else 4
    where, step = address(buffer, first), tirx.IntImm("int64", pitch * size)
    return _instruction(name, _number(register), where, step)


def _number(register: int) -> Expr:
    return tirx.IntImm("int8", register)


def _instruction(name: str, *arguments: Expr) -> Stmt:
    return tirx.Evaluate(tirx.call_llvm_intrin("void", f"llvm.x86.{name}", *arguments))
