"""The windows of pools, which are usually larger than the padding beside an image."""

from collections.abc import Iterator, Mapping

from collage_dsl.language.reasoning.required_calls import Called
from collage_dsl.rules.condition import Calculate, Compare, Constant, Expression, Item

_POOLS: Mapping[str, int] = {
    f"nn.{sort}_pool{axes}d": axes for sort in ("avg", "max") for axes in (1, 2, 3)
}
"""The number of axes of a window, by operator."""


def usual_windows(called: Called, *, is_dilated: bool) -> Iterator[Expression]:
    """That no window of a pool is in the padding alone, as conditions on each side."""
    axes = {_POOLS.get(op) for op in called.call.ops}
    count = axes.pop() if len(axes) == 1 else None
    padding, size, dilation = map(called.attribute, ("padding", "pool_size", "dilation"))
    for side in range(2 * (count or 0)):
        axis = side % (count or 1)
        reach: Expression = Calculate("-", Item(size, axis), Constant(1))
        if is_dilated:
            reach = Calculate("*", reach, Item(dilation, axis))
        yield Compare("<=", Item(padding, side), reach)
