"""Find rotary embedding, where the two of a pair are far from each other, or neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

from collage_dsl.graph import Form, Graph
from tests.fusions.nodes import Fusion, Nodes, listed

Half = tuple[int, frozenset[int]]
"""What one of the pairs is taken from, and the nodes that take it."""


def rotary(graph: Graph) -> set[Fusion]:
    """`x * cos + concat(-x[half:], x[:half]) * sin`, along the last axis."""
    nodes = Nodes(graph)
    return {found for concat in nodes.calls("concat") for found in _rotated(nodes, concat)}


def _rotated(nodes: Nodes, concat: int) -> Iterator[Fusion]:
    (pair,) = nodes.operands(concat)
    rank = len(nodes.shape(concat))
    if nodes[pair].form is not Form.TUPLE or len(nodes.operands(pair)) != 2:
        return
    negative, low = nodes.operands(pair)
    if nodes[concat].attrs["axis"] not in (-1, rank - 1) or not nodes.is_call(negative, "negative"):
        return
    (high,) = nodes.operands(negative)
    if not (nodes.is_call(high, "strided_slice") and nodes.is_call(low, "strided_slice")):
        return
    x = nodes.operands(low)[0]
    size = nodes.shape(x)[-1]
    if nodes.operands(high)[0] != x or not isinstance(size, int) or size % 2:
        return
    if _part(nodes, low) != (0, size // 2) or _part(nodes, high) != (size // 2, size):
        return
    for turned in nodes.following(concat, "multiply"):
        for result in nodes.following(turned, "add"):
            straight = nodes.other(result, turned)
            if nodes.is_call(straight, "multiply") and x in nodes.operands(straight):
                group = frozenset({low, high, negative, pair, concat, turned, straight, result})
                if nodes.closed(group, result):
                    yield group


def _part(nodes: Nodes, index: int) -> tuple[int, int] | None:
    """Where a slice with steps of one begins and ends on the last axis, if it is of that alone."""
    found = _steps(nodes, index)
    return found[:2] if found and found[2] == 1 else None


def _steps(nodes: Nodes, index: int) -> tuple[int, int, int] | None:
    """Where a slice begins and ends on the last axis, and its step, if it is of that alone."""
    x, *literals = nodes.operands(index)
    axes, begins, ends, steps = (tuple(map(int, listed(nodes[i].value))) for i in literals)
    rank, size = len(nodes.shape(x)), int(nodes.shape(x)[-1])
    if [axis % rank for axis in axes] != [rank - 1]:
        return None
    begin, end = (each + size if each < 0 else each for each in (begins[0], ends[0]))
    return min(begin, size), min(end, size), steps[0]


def interleaved_rotary(graph: Graph) -> set[Fusion]:
    """
    `x * cos + turned * sin`, where `turned` has the negative of each odd element before the even
    one; and the same for the even and the odd elements apart.
    """
    nodes = Nodes(graph)
    found = set[Fusion]()
    for reshape in nodes.calls("reshape"):
        for first, second, joined in _interleaved(nodes, reshape):
            found.update(_turned(nodes, reshape, first, second, joined))
            found.update(_turned_apart(nodes, reshape, first, second, joined))
    return found


def _interleaved(nodes: Nodes, reshape: int) -> Iterator[tuple[int, int, frozenset[int]]]:
    """The values of which a reshape has the elements in turn, and the nodes that do that."""
    concat = nodes.operands(reshape)[0]
    if not nodes.is_call(concat, "concat"):
        return
    (pair,) = nodes.operands(concat)
    if nodes[pair].form is not Form.TUPLE or len(nodes.operands(pair)) != 2:
        return
    longer = nodes.operands(pair)
    if not all(nodes.is_call(each, "expand_dims") for each in longer):
        return
    first, second = (nodes.operands(each)[0] for each in longer)
    shape, made = nodes.shape(first), nodes.shape(reshape)
    on_last = all(nodes[each].attrs["axis"] in ((-1,), (len(shape),)) for each in longer)
    if not on_last or nodes[concat].attrs["axis"] not in (-1, len(shape)):
        return
    if len(made) == len(shape) and made[-1] == 2 * int(shape[-1]):
        yield first, second, frozenset({reshape, concat, pair, *longer})


def _turned(
    nodes: Nodes, reshape: int, first: int, second: int, joined: frozenset[int]
) -> Iterator[Fusion]:
    if not nodes.is_call(first, "negative"):
        return
    odd, even = nodes.operands(first)[0], second
    x = _every_second(nodes, even, 0)
    if x is None or _every_second(nodes, odd, 1) != x:
        return
    for turned in nodes.following(reshape, "multiply"):
        for result in nodes.following(turned, "add"):
            straight = nodes.other(result, turned)
            if nodes.is_call(straight, "multiply") and x in nodes.operands(straight):
                group = joined | {first, odd, even, turned, straight, result}
                if _is_like(nodes, result, x) and nodes.closed(group, result):
                    yield group


def _turned_apart(
    nodes: Nodes, reshape: int, first: int, second: int, joined: frozenset[int]
) -> Iterator[Fusion]:
    if not (nodes.is_call(first, "subtract") and nodes.is_call(second, "add")):
        return
    parts = (*nodes.operands(first), *nodes.operands(second))
    if not all(nodes.is_call(part, "multiply") for part in parts):
        return
    kept, turned, *others = (nodes.operands(part) for part in parts)
    for (a, cos), (b, sin) in product(permutations(kept), permutations(turned)):
        sums = [sorted(other) for other in others]
        if sums not in ([sorted((b, cos)), sorted((a, sin))], [sorted((a, sin)), sorted((b, cos))]):
            continue
        for (x, one), (same, other) in product(_halves(nodes, a, 0), _halves(nodes, b, 1)):
            group = joined | {first, second, *parts} | one | other
            if x == same and _is_like(nodes, reshape, x) and nodes.closed(group, reshape):
                yield group


def _halves(nodes: Nodes, index: int, number: int) -> Iterator[Half]:
    """From what a value takes the first or the second of each pair."""
    x = _every_second(nodes, index, number)
    if x is not None:
        yield x, frozenset({index})
    pairs, inside = index, {index}
    if nodes.is_call(index, "take"):
        if nodes.number(nodes.operands(index)[1]) != number:
            return
        pairs = nodes.operands(index)[0]
        if nodes[index].attrs["axis"] not in (-1, len(nodes.shape(pairs)) - 1):
            return
    elif nodes.is_call(index, "squeeze"):
        cut = nodes.operands(index)[0]
        inside.add(cut)
        pairs = nodes.operands(cut)[0] if nodes.operands(cut) else cut
        if nodes[cut].form is Form.PROJECTION:
            inside.add(pairs)
            if nodes[cut].value != number or not nodes.is_call(pairs, "split"):
                return
            axis, pairs = nodes[pairs].attrs["axis"], nodes.operands(pairs)[0]
            if axis not in (-1, len(nodes.shape(pairs)) - 1):
                return
        elif not nodes.is_call(cut, "strided_slice") or _part(nodes, cut) != (number, number + 1):
            return
        if nodes[index].attrs["axis"] not in ((-1,), (len(nodes.shape(pairs)) - 1,)):
            return
    else:
        return
    if not nodes.is_call(pairs, "reshape"):
        return
    x, shape = nodes.operands(pairs)[0], nodes.shape(pairs)
    is_split = len(shape) == len(nodes.shape(x)) + 1 and shape[-1] == 2
    is_taken = len(nodes.shape(index)) == len(nodes.shape(x))
    if is_split and is_taken and 2 * int(shape[-2]) == nodes.shape(x)[-1]:
        yield x, frozenset({*inside, pairs})


def _every_second(nodes: Nodes, index: int, number: int) -> int | None:
    """What a value takes every second element of the last axis of, from the first or second on."""
    if not nodes.is_call(index, "strided_slice"):
        return None
    x = nodes.operands(index)[0]
    return x if _steps(nodes, index) == (number, nodes.shape(x)[-1], 2) else None


def _is_like(nodes: Nodes, index: int, x: int) -> bool:
    """Whether a value has the rank of `x`, and its last dimension."""
    shape, other = nodes.shape(index), nodes.shape(x)
    return len(shape) == len(other) and shape[-1] == other[-1]
