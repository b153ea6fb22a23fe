"""Compute where a picture shows the nodes and edges of a graph: in layers, inputs above users."""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from collage_dsl.graph import Graph, OpSet, members

Point = tuple[int, int]

ROW = 74
"""The distance from the middle of one layer to the middle of the next."""
HEIGHT = 38
"""The height of a box."""
GAP = 26
"""The least distance between two boxes of a layer."""
_LANE = 8
"""The width that is kept free for an edge that passes a layer."""
_SWEEPS = 8

_Item = tuple[int, int, int]
"""An item that takes room in a layer: the node (i, i, layer), or the edge (i, j, layer)."""


@dataclass(frozen=True, slots=True)
class Layout:
    """
    The middle of each node that is drawn, and the points that each edge goes through from the
    bottom of a box to the top of another, all with x and y of 0 or more.
    """

    places: Mapping[int, Point]
    edges: Mapping[tuple[int, int], tuple[Point, ...]]
    width: int
    height: int


def layout(graph: Graph, shown: OpSet, width_of: Mapping[int, int]) -> Layout:
    """
    The nodes `shown` in layers. The layer of a node is the length of the longest path that leads
    to it. No path leads to an input; it is in the layer above its first user.

    The order within a layer has few crossings of edges. A node is below the middle of its inputs,
    as far as the other nodes leave room. The same graph is always drawn in the same way.
    """
    layer_of = _layers(graph, shown)
    chains = _chains(graph, shown, layer_of)
    rows = _rows(layer_of, chains)
    beside = _Neighbours(chains.values())
    widths = {each: width_of[each[0]] if each[0] == each[1] else _LANE for r in rows for each in r}
    rows = _few_crossings(rows, beside)
    x_of = _positions(rows, beside, widths)
    left = min((x_of[each] - widths[each] / 2 for each in x_of), default=0)
    right = max((x_of[each] + widths[each] / 2 for each in x_of), default=0)
    point = {each: (round(x - left), each[2] * ROW + HEIGHT // 2) for each, x in x_of.items()}
    places = {each[0]: place for each, place in point.items() if each[0] == each[1]}
    edges = {
        edge: _between_boxes([point[each] for each in chain]) for edge, chain in chains.items()
    }
    return Layout(places, edges, round(right - left), max(len(rows) - 1, 0) * ROW + HEIGHT)


def _layers(graph: Graph, shown: OpSet) -> dict[int, int]:
    layer_of: dict[int, int] = {}
    for index in members(shown):
        above = (layer_of[i] for i in members(graph.inputs_of[index] & shown))
        layer_of[index] = max(above, default=-1) + 1
    for index in members(shown):
        users = graph.users_of[index] & shown
        if users and not graph.inputs_of[index] & shown:
            layer_of[index] = min(layer_of[user] for user in members(users)) - 1
    return layer_of


def _chains(
    graph: Graph, shown: OpSet, layer_of: Mapping[int, int]
) -> dict[tuple[int, int], list[_Item]]:
    """For each edge: its start node, the edge in each layer that it passes, and its end node."""
    chains = {}
    for end in members(shown):
        for start in members(graph.inputs_of[end] & shown):
            passed = range(layer_of[start] + 1, layer_of[end])
            between = [(start, end, layer) for layer in passed]
            first, last = (start, start, layer_of[start]), (end, end, layer_of[end])
            chains[start, end] = [first, *between, last]
    return chains


def _rows(
    layer_of: Mapping[int, int], chains: Mapping[tuple[int, int], list[_Item]]
) -> list[list[_Item]]:
    items = {(index, index, layer) for index, layer in layer_of.items()}
    items |= {each for chain in chains.values() for each in chain}
    rows: list[list[_Item]] = [[] for _ in range(max(layer_of.values(), default=-1) + 1)]
    for each in sorted(items):
        rows[each[2]].append(each)
    return rows


class _Neighbours:
    """The items that each item is joined to in the layer above, and in the layer below."""

    def __init__(self, chains: Iterable[list[_Item]]) -> None:
        self.above: dict[_Item, list[_Item]] = {}
        self.below: dict[_Item, list[_Item]] = {}
        for upper, lower in sorted({pair for chain in chains for pair in pairwise(chain)}):
            self.above.setdefault(lower, []).append(upper)
            self.below.setdefault(upper, []).append(lower)


def _few_crossings(rows: list[list[_Item]], beside: _Neighbours) -> list[list[_Item]]:
    """Sweep down and up several times, and return the order with the fewest crossings."""
    best, fewest = rows, _crossings(rows, beside)
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        rows = _swept(rows, beside.above if is_down else beside.below, is_down)
        crossings = _crossings(rows, beside)
        if crossings < fewest:
            best, fewest = rows, crossings
    return best


def _swept(
    rows: Sequence[list[_Item]], near: Mapping[_Item, list[_Item]], is_down: bool
) -> list[list[_Item]]:
    """Sort each layer by the mean place of its neighbours in the layer before."""
    order = [list(row) for row in rows]
    place = {each: at for row in order for at, each in enumerate(row)}
    middle = _middle(near, place)
    for row in order if is_down else reversed(order):
        row.sort(key=lambda each: (middle(each), place[each]))
        place.update((each, at) for at, each in enumerate(row))
    return order


def _middle(
    near: Mapping[_Item, list[_Item]], place: Mapping[_Item, float]
) -> Callable[[_Item], float]:
    """The mean place of the neighbours of an item, or its own place if it has none."""

    def middle(item: _Item) -> float:
        found = [place[other] for other in near.get(item, ())] or [place[item]]
        return sum(found) / len(found)

    return middle


def _crossings(rows: Sequence[list[_Item]], beside: _Neighbours) -> int:
    total = 0
    for upper, lower in pairwise(rows):
        place = {each: at for at, each in enumerate(lower)}
        passed: list[int] = []
        for each in upper:
            for end in sorted(place[other] for other in beside.below.get(each, ())):
                total += len(passed) - bisect_right(passed, end)
                insort(passed, end)
    return total


def _positions(
    rows: list[list[_Item]], beside: _Neighbours, widths: Mapping[_Item, int]
) -> dict[_Item, float]:
    x_of: dict[_Item, float] = {each: 0.0 for row in rows for each in row}
    both = {
        each: [*beside.above.get(each, ()), *beside.below.get(each, ())]
        for row in rows
        for each in row
    }
    for sweep in range(2 * _SWEEPS):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wanted = [_middle(both, x_of)(each) for each in row]
            for each, x in zip(row, _apart(wanted, [widths[e] for e in row]), strict=True):
                x_of[each] = x
    return x_of


def _apart(wanted: Sequence[float], widths: Sequence[int]) -> list[float]:
    """
    The middles closest to those `wanted` (least sum of squares) that keep this order and leave at
    least `GAP` between neighbours. The algorithm is "pool adjacent violators".
    """
    steps = (GAP + (one + other) / 2 for one, other in pairwise(widths))
    offsets = [0.0, *accumulate(steps)]
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - offset, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean = (mean * count + other * others) / (count + others)
            count += others
        pools.append((mean, count))
    flat = [mean for mean, count in pools for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=False)]


def _between_boxes(points: list[Point]) -> tuple[Point, ...]:
    (x, y), *between, (last_x, last_y) = points
    return ((x, y + HEIGHT // 2), *between, (last_x, last_y - HEIGHT // 2))
