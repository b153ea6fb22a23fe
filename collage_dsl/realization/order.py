"""Sort bindings and kernels so that each comes after those that it needs."""

from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush


def in_order(needs: Mapping[int, set[int]], priority: Callable[[int], int]) -> list[int]:
    """The units, each after those it needs. Of those that can come next, the least `priority`."""
    missing = {unit: len(needed) for unit, needed in needs.items()}
    users: dict[int, list[int]] = {}
    for unit, needed in needs.items():
        for other in needed:
            users.setdefault(other, []).append(unit)
    ready = [(priority(unit), unit) for unit, count in missing.items() if not count]
    heapify(ready)
    order = []
    while ready:
        _, unit = heappop(ready)
        order.append(unit)
        for user in users.get(unit, ()):
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, (priority(user), user))
    if len(order) < len(needs):
        raise ValueError("kernels of a dataflow block wait for each other")
    return order
