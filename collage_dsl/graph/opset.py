"""Sets of nodes as Python integers: bit `i` says whether node `i` is in the set."""

from collections.abc import Iterable, Iterator

OpSet = int
"""A set of node indexes. Union is `|`, intersection `&`, difference `& ~`."""


def opset(indexes: Iterable[int]) -> OpSet:
    """The set of `indexes`."""
    result = 0
    for index in indexes:
        result |= 1 << index
    return result


def members(nodes: OpSet) -> Iterator[int]:
    """The indexes in `nodes`, ascending."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


def first(nodes: OpSet) -> int:
    """The least index in `nodes`, which must not be empty."""
    return (nodes & -nodes).bit_length() - 1


def last(nodes: OpSet) -> int:
    """The greatest index in `nodes`, which must not be empty."""
    return nodes.bit_length() - 1
