"""The numbers from which the operands of a single kernel may be drawn, so that it is defined."""

from collections.abc import Iterator, Mapping

from collage_dsl.graph import Graph, TensorType, members
from collage_dsl.realization.draws import integer_range, same_values

Range = tuple[float, float]
"""The least number, and the end: a number that none reaches."""

USUAL: Range = (-1.0, 1.0)
POSITIVE: Range = (0.5, 1.5)

_DEFINED: Mapping[tuple[str, int], Range] = {
    **dict.fromkeys(((op, 1) for op in ("divide", "floor_divide", "mod", "floor_mod")), POSITIVE),
    **dict.fromkeys(((op, 0) for op in ("log", "log2", "log10", "sqrt", "rsqrt")), POSITIVE),
    **dict.fromkeys(((op, 0) for op in ("asin", "acos", "atanh")), (-0.9, 0.9)),
    ("power", 0): POSITIVE,
    ("acosh", 0): (1.1, 2.0),
    ("nn.batch_norm", 4): POSITIVE,
}
"""The range of an operand, by operator and position, where not every number is possible."""

_KEEPS_POSITIVE = (
    *("add", "multiply", "divide", "maximum", "minimum", "sum", "mean", "max", "min"),
    *("prod", "sqrt", "rsqrt", "abs", "square", "exp", "power", "astype", "cumsum", "where"),
    *("nn.relu", "nn.max_pool2d", "nn.avg_pool2d", "nn.dropout"),
)
"""Operators whose results are positive numbers where all operands are."""


def range_of(kernel: Graph, index: int) -> Range:
    """
    The range of a parameter of a kernel. Numbers whose sum, product or the like is a divisor, or an
    operand of a logarithm or root, are positive. Integers are valid indices, or 0 and 1.
    """
    type_ = kernel.nodes[index].type
    if not isinstance(type_, TensorType):
        return USUAL
    if "float" not in type_.dtype:
        return integer_range(kernel, index)
    found = [_DEFINED[place] for place in _restricting(kernel, index)]
    if not found:
        return USUAL
    return found[0] if len(set(found)) == 1 else POSITIVE


def _restricting(kernel: Graph, index: int) -> Iterator[tuple[str, int]]:
    """The operators that are not defined for every number, and where they take those of a node."""
    seen: set[int] = set()
    pending = [index]
    while pending:
        here = pending.pop()
        if here in seen:
            continue
        seen.update(same := set(same_values(kernel, here)))
        for value in same:
            for user in members(kernel.users_of[value]):
                node = kernel.nodes[user]
                at = (k for k, operand in enumerate(node.inputs) if operand == value)
                yield from ((node.op, k) for k in at if (node.op, k) in _DEFINED)
                if node.op in _KEEPS_POSITIVE:
                    pending.append(user)
