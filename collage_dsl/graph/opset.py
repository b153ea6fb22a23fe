"""Represent a set of nodes as one Python integer: bit `i` is set if node `i` is in the set."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import compress, count
from operator import or_

OpSet = int
"""
A set of node indexes. Union is `|`, intersection `&`, difference `& ~`.

Where there are very many sets, the difference is written `a ^ a & b`: Python takes long for `~b` of
many bits, which is negative.
"""

_WINDOW_BITS = 64
_WINDOW = (1 << _WINDOW_BITS) - 1
"""Bits examined at a time, so that large sets stay cheap."""

_WIDE = 2_000
"""The bits from which on it is slow to negate a set."""


def opset(indexes: Iterable[int]) -> OpSet:
    """The set of `indexes`."""
    return expanded(compact_of(indexes))


def members(nodes: OpSet) -> Sequence[int]:
    """The indexes in `nodes`, ascending."""
    if not nodes:
        return ()
    length = nodes.bit_length()
    if nodes == 1 << length - 1:  # most sets have one member
        return (length - 1,)
    start = first(nodes)
    return _counted_members(start, nodes >> start)


def _counted_members(start: int, nodes: OpSet) -> Sequence[int]:
    """The members of a set that is counted from its first one, `start`."""
    size = nodes.bit_length()
    if size <= _WINDOW_BITS:
        return [start + index for index in _in_window(nodes)]
    if 4 * nodes.bit_count() > size:
        return _dense_members(nodes, start)
    found: list[int] = []
    while nodes:
        gap = (nodes & -nodes).bit_length() - 1
        start += gap
        nodes >>= gap
        window = nodes & _WINDOW
        nodes ^= window
        found += [start + index for index in _in_window(window)]
    return found


@lru_cache(maxsize=1 << 12)
def _in_window(nodes: OpSet) -> tuple[int, ...]:
    """
    The members of a set within one window. Many sub-graphs of a model look alike when they are
    counted from their first node.
    """
    found = []
    while nodes:
        lowest = nodes & -nodes
        found.append(lowest.bit_length() - 1)
        nodes ^= lowest
    return tuple(found)


def _dense_members(nodes: OpSet, start: int) -> Sequence[int]:
    """
    The members of a set that is counted from `start` and has at least a quarter of the indexes.
    """
    bits = bin(nodes)[:1:-1].encode()
    return list(compress(count(start), bits.translate(_ONES)))


_ONES = bytes.maketrans(b"01", b"\0\1")
"""Makes the digits of a binary number true or false."""


def first(nodes: OpSet) -> int:
    """The least index in `nodes`, which must not be empty."""
    length = nodes.bit_length()
    if length <= _WIDE:
        return (nodes & -nodes).bit_length() - 1
    # The members of a sub-graph are close to each other: look at the last nodes first.
    start = length - _WINDOW_BITS
    while (above := nodes >> start) << start != nodes:
        start = max(0, 4 * start - 3 * length)
    return start + (above & -above).bit_length() - 1


def last(nodes: OpSet) -> int:
    """The greatest index in `nodes`, which must not be empty."""
    return nodes.bit_length() - 1


def union_of(sets: Iterable[OpSet]) -> OpSet:
    """The nodes that are in any of `sets`."""
    return reduce(or_, sets, 0)


Compact = tuple[int, OpSet]
"""A set in little memory: its first member, and the set counted from there; (0, 0) if empty."""


def compact(nodes: OpSet, lowest: int = 0) -> Compact:
    """
    The same set in the memory that its members need, whatever their indexes are. Where it is known
    that no member is less than `lowest`, the first one is found at once.

    It is also the key to use instead of `nodes` in a large `set` or `dict`. Python hashes an
    integer modulo 2**61 - 1. A set of nodes and the same set moved by 61 nodes have the same hash,
    so nearly all sets of a long chain would collide.
    """
    if not nodes:
        return NOTHING
    counted = nodes >> lowest
    gap = first(counted)
    return lowest + gap, counted >> gap


NOTHING: Compact = 0, 0


def compact_of(indexes: Iterable[int]) -> Compact:
    """The compact set of `indexes`."""
    known = tuple(indexes)
    if not known:
        return NOTHING
    start, nodes = min(known), 0
    for index in known:
        nodes |= 1 << index - start
    return start, nodes


def joined(one: Compact, other: Compact) -> Compact:
    """The union of two compact sets."""
    if not one[1]:
        return other
    if not other[1]:
        return one
    if other[0] < one[0]:
        one, other = other, one
    start, nodes = one
    return start, nodes | other[1] << other[0] - start


def members_of(nodes: Compact) -> Sequence[int]:
    """The members of a compact set, ascending."""
    start, counted = nodes
    return _counted_members(start, counted)


def expanded(nodes: Compact) -> OpSet:
    """The set as one number again."""
    return nodes[1] << nodes[0]


class OpSets:
    """Many sets of nodes, each kept compact."""

    __slots__ = ("_sets",)

    def __init__(self, sets: Iterable[Compact]) -> None:
        self._sets = tuple(sets)

    def __len__(self) -> int:
        return len(self._sets)

    def __getitem__(self, number: int) -> OpSet:
        return expanded(self._sets[number])

    def indexes(self, number: int) -> Sequence[int]:
        """The members of set `number`, ascending."""
        return members_of(self._sets[number])

    def __iter__(self) -> Iterator[OpSet]:
        return map(expanded, self._sets)

    def union(self, numbers: Iterable[int]) -> OpSet:
        """The nodes that are in any of the sets with these numbers."""
        return expanded(reduce(joined, map(self._sets.__getitem__, numbers), NOTHING))

    def meets(self, number: int, nodes: OpSet) -> bool:
        """Whether set `number` and `nodes` have a member in common."""
        start, own = self._sets[number]
        return nodes >> start & own != 0

    def is_within(self, number: int, nodes: OpSet) -> bool:
        """Whether all members of set `number` are in `nodes`."""
        start, own = self._sets[number]
        return nodes >> start & own == own
