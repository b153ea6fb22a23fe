"""Find where the paths to a value may begin: `path[1..6] elementwise from k`."""

from collections.abc import Iterator

from collage_dsl.graph import Form, Graph, OpSet, members, union_of
from collage_dsl.rules.pattern import PathFrom

MOST_OBSTACLES = 8


def beginnings(path: PathFrom, graph: Graph, index: int) -> Iterator[tuple[int, OpSet]]:
    """
    The nodes from which all paths to node `index` consist of calls of the path alone, each with
    the calls on these paths. The one that is first in the graph comes first. If no call is
    needed, the node itself comes last.
    """
    between = _between(path, graph, index)
    for origin in sorted(between):
        if path.least <= between[origin].bit_count():
            yield origin, between[origin]
    if path.least == 0:
        yield index, 0


def _between(path: PathFrom, graph: Graph, index: int) -> dict[int, OpSet]:
    """
    By the nodes from which all paths to node `index` are allowed: the calls on these paths. They
    are those on the paths from its users, and the users.
    """
    allowed = _above(path, graph, index)
    leading = graph.upstream_of[index] | 1 << index
    found: dict[int, OpSet] = {}
    for node in reversed(members(_near(graph, index, allowed))):
        users = graph.users_of[node] & leading
        if users & ~allowed:
            continue
        calls = users
        for user in members(users & ~(1 << index)):
            if user not in found:
                break
            calls |= found[user]
        else:
            if calls.bit_count() <= path.most:
                found[node] = calls
    return found


def obstacles(path: PathFrom, graph: Graph, index: int) -> Iterator[tuple[int, int]]:
    """
    The nodes with a path to node `index` that has another node on it, each with that node. Only
    the last `MOST_OBSTACLES` in the graph are given: they are for a message.
    """
    allowed = _above(path, graph, index)
    leading = graph.upstream_of[index] | 1 << index
    for origin in members(_near(graph, index, allowed))[: -MOST_OBSTACLES - 1 : -1]:
        for other in members(graph.users_of[origin] & leading & ~allowed)[:1]:
            yield origin, other


def _near(graph: Graph, index: int, allowed: OpSet) -> OpSet:
    """The `allowed` calls and their operands, without node `index`."""
    near = union_of(graph.inputs_of[call] for call in members(allowed))
    return (allowed | near) & ~(1 << index)


def _above(path: PathFrom, graph: Graph, index: int) -> OpSet:
    """The calls of the path that lead to node `index` through such calls, in at most so many."""
    found = 0
    level = {index}
    for _ in range(path.most):
        level = {each for each in level if not found >> each & 1 and _is_on(path, graph, each)}
        if not level:
            break
        for each in level:
            found |= 1 << each
        level = {operand for each in level for operand in graph.nodes[each].inputs}
    return found


def _is_on(path: PathFrom, graph: Graph, index: int) -> bool:
    node = graph.nodes[index]
    return node.form is Form.CALL and (node.op in path.ops or node.kind in path.kinds)
