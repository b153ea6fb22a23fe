"""Sets of nodes as Python integers: bit `i` says whether node `i` is in the set."""

from collections.abc import Iterable, Sequence

OpSet = int
"""A set of node indexes. Union is `|`, intersection `&`, difference `& ~`."""


_WINDOW = (1 << 64) - 1
"""Members are taken out of so many nodes at a time: of small numbers, whatever the graph."""


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


def first(nodes: OpSet) -> int:
    """The least index in `nodes`, which must not be empty."""
    return (nodes & -nodes).bit_length() - 1


def last(nodes: OpSet) -> int:
    """The greatest index in `nodes`, which must not be empty."""
    return nodes.bit_length() - 1


def spread(nodes: OpSet) -> tuple[int, OpSet]:
    """
    What to have in place of `nodes` in a large `set` or `dict`.

    The hash of a number is its rest by 2**61 - 1: it is the same for a set of nodes and for that
    set moved by 61 nodes, so that the sets of a long chain would nearly all collide.
    """
    return nodes.bit_length(), nodes
