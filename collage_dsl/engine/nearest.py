"""Explain an operator that no rule proposes by the pattern that nearly takes it."""

from collections.abc import Iterable, Iterator

from collage_dsl.graph import Graph, members
from collage_dsl.rules import Pattern
from collage_dsl.rules.explain import Explanation, How, Step, explained
from collage_dsl.rules.matcher import Matcher
from collage_dsl.rules.near import Share, share_of
from collage_dsl.rules.pattern import Call
from collage_dsl.rules.predicate import Lookup

_MOST_ROOTS = 16
"""The most nodes at which a match that has the operator inside is looked for."""


def nearest(patterns: Iterable[Pattern], graph: Graph, index: int, lookup: Lookup) -> str:
    """
    Why the pattern of `patterns` does not match that comes nearest to taking node `index`; empty if
    none of them has a place for it. Of patterns of which an equal share holds, the first.
    """
    best: tuple[Share, Explanation] | None = None
    for pattern in patterns:
        matcher = Matcher(pattern, graph, lookup)
        for root in _roots(graph, index):
            found = explained(matcher, root)
            if found.matches or index not in _taken(found.step):
                continue
            share = share_of(found)
            if best is None or (share.fraction, share.held) > (best[0].fraction, best[0].held):
                best = share, found
    return "" if best is None else _said(best[1], index)


def _said(found: Explanation, index: int) -> str:
    root = found.graph.nodes[found.root].name
    where = "" if found.root == index else f" at `{root}`"
    return f"pattern {found.step.frame.pattern.name}{where}: {found.attempt.because}"


def _roots(graph: Graph, index: int) -> list[int]:
    """`index` and the nodes that its value flows into, the nearest first."""
    found = [index]
    for node in found:
        found += [user for user in members(graph.users_of[node]) if user not in found]
        if len(found) >= _MOST_ROOTS:
            break
    return found[:_MOST_ROOTS]


def _taken(step: Step) -> Iterator[int]:
    """The nodes that are calls of the operators that the pattern has at their places."""
    if isinstance(step.wanted, Call):
        ways = (way.how in (How.PARTS, How.SWAPPED) for way in step.ways)
        if step.asked or any(ways):
            yield step.node
    for way in step.ways:
        for inner in way.steps:
            yield from _taken(inner)
