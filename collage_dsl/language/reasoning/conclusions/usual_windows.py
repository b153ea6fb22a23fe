"""The windows of pools, which are usually larger than the padding beside an image."""

from collections.abc import Iterator, Mapping, Sequence

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.list_values import asked_list
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.language.reasoning.values.facts import Facts
from collage_dsl.rules.condition import (
    Attr,
    Calculate,
    Compare,
    Constant,
    DimAt,
    Expression,
    Has,
    Item,
)

_POOLS: Mapping[str, int] = {
    f"nn.{sort}_pool{axes}d": axes for sort in ("avg", "max") for axes in (1, 2, 3)
}
"""The number of axes of a window, by operator."""

_CHANNELS_SECOND = frozenset({"onnx.AveragePool", "onnx.LpPool", "onnx.MaxPool"})
_POOLS_OF_ONNX = _CHANNELS_SECOND | {
    f"com.microsoft.{pool}" for pool in ("MaxpoolWithMask", "NhwcMaxPool", "QLinearAveragePool")
}

_NAMES = ("padding", "pool_size", "dilation")
_NAMES_IN_ONNX = ("pads", "kernel_shape", "dilations")


def usual_windows(
    called: Called, asked: frozenset[Attr], ways: Sequence[Facts]
) -> Iterator[Expression]:
    """
    That no window of a pool is in the padding alone, as conditions on each side, if its padding is
    among the attributes `asked` about.
    """
    names = _NAMES_IN_ONNX if _POOLS_OF_ONNX.issuperset(called.call.ops) else _NAMES
    if not all(name in operators()[op].attrs for op in called.call.ops for name in names[:2]):
        return
    padding, size, dilation = map(called.attribute, names)
    count = _axes_of(called, ways) if padding in asked else 0
    for side in range(2 * count):
        axis = side % count
        reach: Expression = Calculate("-", Item(size, axis), Constant(1))
        if dilation in asked:
            reach = Calculate("*", reach, Item(dilation, axis))
        yield Compare("<=", Item(padding, side), reach)


def usual_fits(
    called: Called, asked: frozenset[Attr], ways: Sequence[Facts]
) -> Iterator[Expression]:
    """That the window of a pool of ONNX fits into the padded data, as conditions on each axis."""
    is_known = _CHANNELS_SECOND.issuperset(called.call.ops)
    padding, size = called.attribute("pads"), called.attribute("kernel_shape")
    count = _axes_of(called, ways) if is_known and padding in asked else 0
    for axis in range(count):
        pads = Calculate("+", Item(padding, axis), Item(padding, axis + count))
        yield Compare(
            "<=", Item(size, axis), Calculate("+", DimAt(called.operands[0], 2 + axis), pads)
        )


def _axes_of(called: Called, ways: Sequence[Facts]) -> int:
    """The number of axes of a window that is padded; 0 if it is not known."""
    if not _POOLS_OF_ONNX.issuperset(called.call.ops):
        axes = {_POOLS.get(op, 0) for op in called.call.ops}
        return axes.pop() if len(axes) == 1 else 0
    windows = {len(asked_list(called, way, "kernel_shape") or ()) for way in ways}
    padding = Has(called.attribute("pads").name)
    is_padded = all(way.of(padding).only() is True for way in ways)
    return windows.pop() if is_padded and len(windows) == 1 else 0
