"""`min_nodes`, `largest_first`, `max_regions`: leave out valid candidates if a spec asks for it."""

from collections.abc import Iterable, Iterator
from itertools import islice

from collage_dsl.graph import Graph, OpSet, SubGraph, first, members
from collage_dsl.rules.limits import Limits
from collage_dsl.rules.trace import Trace

_SHOWN = 3
"""How many operator calls of a candidate a reason names."""


def pruned(
    graph: Graph,
    found: Iterable[SubGraph],
    limits: Limits,
    trace: Trace,
    *,
    keeps_single: bool = False,
) -> Iterator[SubGraph]:
    """
    The candidates of `found`, all valid, that pruning by `limits` keeps; each once, in order.

    With `keeps_single` all candidates with one operator call are kept, because `fallback;`
    promises them.
    """
    if not limits.prunes:
        yield from found
        return
    distinct = list(dict.fromkeys(found))
    refusals = dict(_too_small(graph, distinct, limits))
    large = [each for each in distinct if each not in refusals]
    refusals |= _not_chosen(graph, large, limits)
    for each in distinct:
        is_kept = each not in refusals or (keeps_single and _size(graph, each) == 1)
        if is_kept:
            yield each
        else:
            trace.refused(each.inside, refusals[each])


def _size(graph: Graph, sub_graph: SubGraph) -> int:
    return (sub_graph.inside & graph.calls).bit_count()


def _too_small(
    graph: Graph, found: Iterable[SubGraph], limits: Limits
) -> Iterator[tuple[SubGraph, str]]:
    for each in found:
        size = _size(graph, each)
        if limits.min_nodes is not None and size < limits.min_nodes:
            operators = "1 operator" if size == 1 else f"{size} operators"
            yield each, f"{operators}, min_nodes is {limits.min_nodes}"


def _not_chosen(
    graph: Graph, found: Iterable[SubGraph], limits: Limits
) -> Iterator[tuple[SubGraph, str]]:
    """The candidates that overlap a larger one, and those after the largest `max_regions`."""
    if not limits.largest_first and limits.max_regions is None:
        return
    setting = "largest_first" if limits.largest_first else "max_regions"
    owners: dict[int, tuple[SubGraph, int]] = {}
    taken: OpSet = 0
    count = 0
    for each in _by_size(graph, found):
        if shared := each.inside & taken:
            other, number = owners[first(shared)]
            too_many = limits.max_regions is not None and number > limits.max_regions
            which = f"region {number} by size" if too_many else f"which {setting} prefers"
            yield each, f"overlaps {_shown(graph, other)}, {which}"
            continue
        taken |= each.inside
        count += 1
        owners |= dict.fromkeys(members(each.inside), (each, count))
        if limits.max_regions is not None and count > limits.max_regions:
            yield each, f"region {count} by size, max_regions is {limits.max_regions}"


def _by_size(graph: Graph, found: Iterable[SubGraph]) -> list[SubGraph]:
    """The largest first; equal ones in graph order, then in the given order."""

    def rank(each: SubGraph) -> tuple[int, int, OpSet]:
        return -_size(graph, each), first(each.inside), each.inside

    return sorted(found, key=rank)


def _shown(graph: Graph, sub_graph: SubGraph) -> str:
    """The names of its first few operator calls."""
    calls = sub_graph.inside & graph.calls or sub_graph.inside
    names = [f"`{graph.nodes[index].name}`" for index in islice(members(calls), _SHOWN)]
    hidden = calls.bit_count() - len(names)
    *others, last = [*names, f"{hidden} more"] if hidden else names
    return f"{', '.join(others)} and {last}" if others else last
