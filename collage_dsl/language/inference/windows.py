"""Infer the types of operators that move a window over their data, of resizing and of sampling."""

from collections.abc import Mapping, Sequence

from collage_dsl.graph import Dim, Type
from collage_dsl.graph.operators import operators
from collage_dsl.language.inference.shapes import (
    UNKNOWN_DIM,
    Call,
    MismatchError,
    check_multiplied,
    closed,
    is_no_multiple,
    listed,
    plus,
    result,
    times,
    total,
    unknown,
)


def convolution(call: Call) -> Type:
    found = _convolved(call)
    if found is None:
        return unknown(call)
    size, weight, output = found
    channels, per_group, made = size["C"], weight["I"], weight["O"]
    groups = _groups(call)
    if groups is not None:
        said = f"in {groups} groups, {channels} channels do not fit a weight for {per_group}"
        call.agree(channels, times(per_group, groups), said)
        if is_no_multiple(made, groups):
            raise MismatchError(f"{made} channels cannot be made by {groups} groups")
    size |= _slide(call, size, [weight[axis] for axis in _spatial(size)]) | {"C": made}
    return result(call, tuple(size[axis] for axis in output))


def _groups(call: Call) -> int | None:
    groups = call.whole("groups")
    if groups is not None and groups < 1:
        raise MismatchError(f"there are no {groups} groups")
    return groups


def _convolved(call: Call) -> tuple[dict[str, Dim], Mapping[str, Dim], str] | None:
    """The dimensions of data and weight by their letters, and the layout of the result."""
    check_multiplied(call)
    size, weight = _sizes(call, 0, "data_layout"), _sizes(call, 1, "kernel_layout")
    output = _layout(call, "out_layout")
    return None if size is None or weight is None or output is None else (size, weight, output)


def transposed_convolution(call: Call) -> Type:
    found = _convolved(call)
    if found is None:
        return unknown(call)
    size, weight, output = found
    groups, made = _groups(call), weight["O"]
    channels, taken = size["C"], weight["I"]
    call.agree(channels, taken, f"{channels} channels do not fit a weight for {taken}")
    if groups is not None and is_no_multiple(channels, groups):
        raise MismatchError(f"{channels} channels do not make {groups} groups")
    size |= _slide_back(call, size, [weight[axis] for axis in _spatial(size)])
    size["C"] = UNKNOWN_DIM if groups is None else times(made, groups)
    return result(call, tuple(size[axis] for axis in output))


def _slide_back(call: Call, size: Mapping[str, Dim], windows: Sequence[Dim]) -> dict[str, Dim]:
    """The size of the data for which a window has the given number of positions."""
    spatial = _spatial(size)
    padding, strides = call.ints("padding") or (), call.ints("strides") or ()
    dilation, more = call.ints("dilation") or (), call.ints("output_padding") or ()
    befores, afters = padding[: len(spatial)], padding[len(spatial) :]
    found: dict[str, Dim] = {}
    for at, axis in enumerate(spatial):
        dim, window = size[axis], windows[at]
        if more[at] >= strides[at]:
            raise MismatchError(f"an output padding of {more[at]} is no less than the stride")
        found[axis] = UNKNOWN_DIM
        if isinstance(window, int):
            added = dilation[at] * (window - 1) + 1 + more[at] - befores[at] - afters[at]
            found[axis] = total((times(dim, strides[at]), added - strides[at]))
    return found


_REGION_LAYOUTS = {"vision.roi_align": ("NCHW", "NHWC"), "vision.roi_pool": ("NCHW",)}


def pooling_regions(call: Call) -> Type:
    """Regions are rows of the second operand."""
    regions = call.shape(1)
    if regions is not None:
        if len(regions) != 2:
            raise MismatchError(f"regions have 2 dimensions, not {len(regions)}")
        call.agree(regions[1], 5, f"a region is a batch and 4 bounds, not {regions[1]} numbers")
    layout, known = call.text("layout"), _REGION_LAYOUTS[call.op]
    if layout not in known:
        raise MismatchError(f"regions are taken of data in {' or '.join(known)}, not {layout}")
    size = _sizes(call, 0, "layout")
    if size is None or regions is None:
        return unknown(call)
    size |= _of_axes(_spatial(size), call.ints("pooled_size") or ()) | {"N": regions[0]}
    return result(call, tuple(size.values()))


def sampling(call: Call) -> Type:
    """The grid has the layout `[N, 2, H, W]`, whatever that of the data is."""
    size, grid = _sizes(call, 0, "layout"), call.shape(1)
    if size is None or grid is None or len(grid) != len(size):
        return unknown(call)
    size |= _of_axes(_spatial(size), grid[2:])
    return result(call, tuple(size.values()))


def pooling(call: Call) -> Type:
    size, output = _sizes(call, 0, "layout"), _layout(call, "out_layout")
    if size is None or output is None:
        return unknown(call)
    size |= _slide(call, size, call.ints("pool_size") or ())
    return result(call, tuple(size[axis] for axis in output))


def adaptive_pooling(call: Call) -> Type:
    size, output = _sizes(call, 0, "layout"), _layout(call, "out_layout")
    if size is None or output is None:
        return unknown(call)
    wanted = call.ints("output_size")
    if wanted is not None:
        size |= _of_axes(_spatial(size), wanted)
    return result(call, tuple(size[axis] for axis in output))


def resize(call: Call) -> Type:
    size, wanted = _sizes(call, 0, "layout"), call.values[1]
    if size is None or not isinstance(wanted, tuple):
        return unknown(call)
    size |= _of_axes(_spatial(size), wanted)
    return result(call, tuple(size.values()))


def _sizes(call: Call, at: int, attribute: str) -> dict[str, Dim] | None:
    """The dimensions of an operand by the letters of its layout, in order."""
    shape, layout = call.shape(at), _layout(call, attribute)
    if shape is None or layout is None:
        return None
    if len(shape) != len(layout):
        raise MismatchError(f"an operand of {len(shape)} dimensions has no layout {layout}")
    return dict(zip(layout, shape, strict=True))


def _layout(call: Call, attribute: str) -> str | None:
    """A layout in which each letter is an axis; None for a blocked one such as `NCHW16c`."""
    layout, usual = call.text(attribute), str(operators()[call.op].defaults[attribute])
    if any(map(str.islower, layout)):
        return None
    if sorted(layout) != sorted(usual):
        raise MismatchError(f"the layout {layout} is no order of {usual}")
    return layout


def _spatial(size: Mapping[str, Dim]) -> list[str]:
    return [axis for axis in size if axis not in ("N", "C")]


def _of_axes(axes: list[str], wanted: tuple[Dim, ...]) -> dict[str, Dim]:
    if len(axes) != len(wanted):
        raise MismatchError(f"{listed(wanted)} is not one number for each of {' and '.join(axes)}")
    return dict(zip(axes, wanted, strict=True))


def _slide(call: Call, size: Mapping[str, Dim], windows: Sequence[Dim]) -> dict[str, Dim]:
    """The number of positions of a window along each spatial axis."""
    spatial, steps = _spatial(size), _rounded_up if call.attrs.get("ceil_mode") else _steps
    padding, strides, dilation = (call.ints(n) or () for n in ("padding", "strides", "dilation"))
    if any(stride < 1 for stride in strides):
        raise MismatchError(f"a window does not move by {min(strides)}")
    befores, afters = padding[: len(spatial)], padding[len(spatial) :]
    found: dict[str, Dim] = {}
    for at, axis in enumerate(spatial):
        window, before, after = windows[at], befores[at], afters[at]
        if isinstance(window, int):
            more = before + after - dilation[at] * (window - 1) - 1
            found[axis] = steps(size[axis], more, strides[at], before)
        else:
            found[axis] = UNKNOWN_DIM
    return found


def _rounded_up(dim: Dim, extra: int, stride: int, before: int) -> Dim:
    """Like `_steps`, plus a last partial window if it begins before the data ends."""
    if not isinstance(dim, int):
        return UNKNOWN_DIM
    steps = _steps_in(dim, extra + stride - 1, stride)
    return steps - 1 if (steps - 1) * stride >= dim + before else steps


def _steps(dim: Dim, extra: int, stride: int, _before: int) -> Dim:
    """`(dim + extra) // stride + 1`."""
    if isinstance(dim, int):
        return _steps_in(dim, extra, stride)
    if dim == UNKNOWN_DIM:
        return dim
    if stride == 1:
        return plus(dim, extra + 1)
    inner = plus(dim, extra)
    return f"{closed(inner)} // {stride} + 1"


def _steps_in(dim: int, extra: int, stride: int) -> int:
    if dim + extra < 0:
        raise MismatchError("the window is larger than the padded data")
    return (dim + extra) // stride + 1
