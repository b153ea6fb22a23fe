"""Transpose square blocks of numbers in registers."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from collage_dsl.backends.schedule.expressions import Buffer, Expr
from collage_dsl.backends.schedule.winograd.maps import Lines


def turn(lines: Lines, source: tuple[Buffer, Expr], target: tuple[Buffer, Expr]) -> None:
    """Write the transposed block of `source`; both are a buffer and where the block starts."""
    rows = [lines.read(source[0], source[1] + row * lines.lanes) for row in range(lines.lanes)]
    for number, column in enumerate(transposed(lines, rows)):
        lines.write(target[0], column, target[1] + number * lines.lanes)


def transposed(lines: Lines, rows: Sequence[Expr]) -> list[Expr]:
    """
    The columns of a square block, from its rows: a vector for each.

    Each step joins two vectors. The first two steps stay within groups of four lanes and the later
    ones move whole groups, since processors have instructions for just that.
    """
    lanes = len(rows)
    vectors = list(rows)
    labels = [[(row, lane) for lane in range(lanes)] for row in range(lanes)]
    distance = 1
    while distance < lanes:
        masks = _masks(distance, lanes)
        for first in range(lanes):
            if first & distance:
                continue
            second = first + distance
            pair = [vectors[first], vectors[second]]
            joined = labels[first] + labels[second]
            for place, mask in zip((first, second), masks, strict=True):
                vectors[place] = lines.named(tirx.Shuffle(pair, mask))
                labels[place] = [joined[lane] for lane in mask]
        distance *= 2
    columns = {label[0][1]: vector for label, vector in zip(labels, vectors, strict=True)}
    return [columns[number] for number in range(lanes)]


def _masks(distance: int, lanes: int) -> tuple[list[int], list[int]]:
    """The lanes of two joined vectors that go to the first and to the second result."""
    if distance < 4:
        chunks = [list(range(start, start + distance)) for start in range(0, 4, distance)]
        groups = range(0, lanes, 4)
        low, high = chunks[: len(chunks) // 2], chunks[len(chunks) // 2 :]
        return _interleaved(low, groups, lanes), _interleaved(high, groups, lanes)
    groups = range(0, 2 * lanes, 4)
    even, odd = groups[::2], groups[1::2]
    return [lane for g in even for lane in range(g, g + 4)], [
        lane for g in odd for lane in range(g, g + 4)
    ]


def _interleaved(chunks: list[list[int]], groups: range, lanes: int) -> list[int]:
    return [
        group + lane + side
        for group in groups
        for chunk in chunks
        for side in (0, lanes)
        for lane in chunk
    ]
