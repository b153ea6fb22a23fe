"""Represent a set of nodes as one Python integer: bit `i` is set if node `i` is in the set."""

from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import compress, count
from operator import or_

OpSet = int
"""A set of node indexes. Union is `|`, intersection `&`, difference `& ~`."""


_WINDOW_BITS = 64
_WINDOW = (1 << _WINDOW_BITS) - 1
"""Bits examined at a time, so that large sets stay cheap."""


def opset(indexes: Iterable[int]) -> OpSet:
    """The set of `indexes`."""
    result = 0
    for index in indexes:
        result |= 1 << index
    return result


def members(nodes: OpSet) -> Sequence[int]:
    """The indexes in `nodes`, ascending."""
    lowest = nodes & -nodes
    if nodes == lowest:  # most sets have one member
        return (nodes.bit_length() - 1,) if nodes else ()
    if 4 * (size := nodes.bit_count()) > _WINDOW_BITS:
        start = lowest.bit_length() - 1
        if 4 * size > nodes.bit_length() - start:
            return _dense_members(nodes, start)
    found = []
    start = -1
    while nodes:
        gap = (nodes & -nodes).bit_length() - 1
        start += gap
        nodes >>= gap
        window = nodes & _WINDOW
        nodes ^= window
        while window:
            lowest = window & -window
            found.append(start + lowest.bit_length())
            window ^= lowest
    return found


def _dense_members(nodes: OpSet, start: int) -> Sequence[int]:
    """The members of a set that has at least every fourth index from `start` on."""
    bits = bin(nodes >> start)[:1:-1].encode()
    return list(compress(count(start), bits.translate(_ONES)))


_ONES = bytes.maketrans(b"01", b"\0\1")
"""Makes the digits of a binary number true or false."""


def first(nodes: OpSet) -> int:
    """The least index in `nodes`, which must not be empty."""
    return (nodes & -nodes).bit_length() - 1


def last(nodes: OpSet) -> int:
    """The greatest index in `nodes`, which must not be empty."""
    return nodes.bit_length() - 1


def union_of(sets: Iterable[OpSet]) -> OpSet:
    """The nodes that are in any of `sets`."""
    return reduce(or_, sets, 0)


def spread(nodes: OpSet) -> tuple[int, OpSet]:
    """
    A key to use instead of `nodes` in a large `set` or `dict`.

    Python hashes an integer modulo 2**61 - 1. A set of nodes and the same set moved by 61 nodes
    have the same hash, so nearly all sets of a long chain would collide.
    """
    return nodes.bit_length(), nodes
