"""What `combine_by_primitives` means: of every set of nodes, whether it is proposed."""

from collections.abc import Iterator

from collage_dsl.graph import Form, Graph, Kind, OpSet, SubGraph, members, opset
from collage_dsl.rules import (
    Constants,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    TupleArgs,
    TupleProjections,
)
from collage_dsl.rules.primitive import Primitive


def slow_combine(
    graph: Graph,
    using: tuple[Primitive, ...],
    *,
    max_depth: int | None = None,
    max_nodes: int | None = None,
) -> set[SubGraph]:
    """
    What is proposed from the calls of `graph`, by trying every subset of the nodes, smaller
    ones first.

    A subset is proposed if it is one call; or if it is possible, and it parts into two that are
    proposed and that a primitive joins, or into one that is proposed and a tuple or projection
    that a primitive adds to it. Without constants; and, where `constants` is one of the
    primitives, with all that flow into it as well.
    """
    proposed = {1 << i for i in members(graph.calls)}
    for inside in sorted(subsets(graph.computed), key=int.bit_count):
        if is_possible(graph, inside, max_depth, max_nodes) and any(
            are_united(graph, using, proposed, part, inside & ~part) for part in subsets(inside)
        ):
            proposed.add(inside)
    found = {SubGraph(inside) for inside in proposed}
    if Constants() in using:
        found |= {SubGraph(each, operands(graph, each) & graph.constants) for each in proposed}
    return found


def are_united(
    graph: Graph, using: tuple[Primitive, ...], proposed: set[OpSet], part: OpSet, rest: OpSet
) -> bool:
    """Whether the two are proposed, the one above the other, or the one and what it grows by."""
    are_proposed = part in proposed and rest in proposed
    is_edge = are_proposed and operands(graph, rest) & part
    if is_edge and any(joins(graph, primitive, part, rest) for primitive in using):
        return True
    return part in proposed and any(adds(graph, primitive, part, rest) for primitive in using)


def joins(graph: Graph, primitive: Primitive, upstream: OpSet, downstream: OpSet) -> bool:
    above, below = kind(graph, upstream), kind(graph, downstream)
    match primitive:
        case KindPair(most_above, most_below):
            return above <= most_above and below <= most_below
        case JoinAnything():
            return True
        case InjectiveBranches():
            if below == Kind.INJECTIVE and above in (Kind.REDUCE, Kind.ANCHOR):
                return has_side_branches(graph, downstream)
            both = above == Kind.INJECTIVE and below == Kind.REDUCE
            return both and has_side_branches(graph, upstream)
        case TupleArgs():
            taking = [i for i in members(downstream) if opset(graph.nodes[i].inputs) & upstream]
            are_tuples = all(graph.nodes[i].form is Form.TUPLE for i in taking)
            return are_tuples and max(above, below) <= Kind.INJECTIVE
        case _:
            return False


def adds(graph: Graph, primitive: Primitive, part: OpSet, rest: OpSet) -> bool:
    """Whether the primitive grows `part` by `rest`, which is one tuple or projection then."""
    node = graph.nodes[rest.bit_length() - 1] if rest.bit_count() == 1 else None
    match primitive:
        case TupleArgs() if node and node.form is Form.TUPLE:
            return bool(operands(graph, part) & rest) and kind(graph, part) <= Kind.INJECTIVE
        case TupleProjections() if node and node.form is Form.PROJECTION:
            return bool(opset(node.inputs) & part)
        case _:
            return False


def subsets(nodes: OpSet) -> Iterator[OpSet]:
    """All but the empty one, `nodes` itself first."""
    part = nodes
    while part:
        yield part
        part = (part - 1) & nodes


def operands(graph: Graph, inside: OpSet) -> OpSet:
    return opset(operand for i in members(inside) for operand in graph.nodes[i].inputs)


def kind(graph: Graph, inside: OpSet) -> Kind:
    return max(graph.nodes[i].kind for i in members(inside))


def is_possible(graph: Graph, inside: OpSet, max_depth: int | None, max_nodes: int | None) -> bool:
    """Within the bounds, in one dataflow block, and with no way out of it and back."""
    calls = [i for i in members(inside) if graph.nodes[i].is_call]
    blocks = {graph.nodes[i].block for i in members(inside)}
    if max_nodes is not None and len(calls) > max_nodes:
        return False
    if max_depth is not None and depth(graph, inside) > max_depth:
        return False
    above = below = inside
    for i in range(len(graph)):
        below |= (1 << i) * bool(opset(graph.nodes[i].inputs) & below)
    for i in reversed(range(len(graph))):
        above |= operands(graph, 1 << i) * (above >> i & 1)
    return len(blocks) == 1 and above & below == inside


def depth(graph: Graph, inside: OpSet) -> int:
    longest = [0] * len(graph)
    for i in members(inside):
        longest[i] = graph.nodes[i].is_call + max(longest[j] for j in graph.nodes[i].inputs)
    return max(longest)


def paths(graph: Graph, start: int, inside: OpSet) -> list[OpSet]:
    """The nodes on each path inside that leads from `start` to a node that nothing inside uses."""
    further = [
        path for i in members(graph.users_of[start] & inside) for path in paths(graph, i, inside)
    ]
    return [path | 1 << start for path in further] or [1 << start]


def has_side_branches(graph: Graph, inside: OpSet) -> bool:
    """
    Whether a region has one exit, and each injective node of it is on a side branch: some paths
    from a broadcasting call to the exit have it, and some have not.
    """
    if graph.exit(inside).bit_count() != 1:
        return False
    on_branch = 0
    for start in members(inside):
        if graph.nodes[start].kind <= Kind.BROADCAST:
            found = paths(graph, start, inside)
            on_branch |= opset(
                i for path in found for i in members(path) if any(not p >> i & 1 for p in found)
            )
    injective = opset(i for i in members(inside) if graph.nodes[i].kind is Kind.INJECTIVE)
    return not injective & ~on_branch
