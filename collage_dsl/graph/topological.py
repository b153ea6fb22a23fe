"""Order things so that each comes after those that it needs."""

from collections.abc import Collection, Sequence
from heapq import heappop, heappush


def in_topological_order(needs: Sequence[Collection[int]]) -> list[int]:
    """
    All numbers, each after the numbers that it needs; of several that can come next, the least.
    Numbers on a cycle, and those that need them, are left out.
    """
    users: dict[int, list[int]] = {}
    for number, needed in enumerate(needs):
        for other in needed:
            users.setdefault(other, []).append(number)
    missing = [len(needed) for needed in needs]
    ready = [number for number, count in enumerate(missing) if not count]
    order = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for user in users.get(number, ()):
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, user)
    return order
