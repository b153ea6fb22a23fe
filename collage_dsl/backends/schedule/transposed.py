"""
Split a transposed convolution into convolutions that multiply no zeros.

TVM writes a transposed convolution of stride two as a convolution over an image that has a zero
after each element. Output elements at even and at odd places use different taps of the kernel,
and all their other taps meet zeros. So each of these *phases* of the output is a convolution of
stride one over the image itself, with some of the taps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.expressions import (
    IF_THEN_ELSE,
    Buffer,
    Expr,
    called,
    coefficients,
    constant,
    integer,
    replace_loads,
    simplified,
    substitute,
)
from collage_dsl.backends.schedule.groups import Inlined, wide
from collage_dsl.backends.schedule.packing import bound, conjuncts
from collage_dsl.backends.schedule.sizes import greatest, least
from collage_dsl.backends.schedule.sliding import Sliding, sliding, window
from collage_dsl.backends.schedule.stages import Axis, Stage, shape, within


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """
    A tensor that is zero but for the elements of `dense`, which has no such zeros.

    In each dimension, element `i` of the dense tensor is at `first + stride * i`.
    """

    dense: Stage
    first: tuple[int, ...]
    stride: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Phases:
    """
    Neighbouring phases of one output axis that read the same elements of the image.

    Element `n` of phase `p` is at `stride * n + start + p`. It reads the dense elements `n + offset
    + t` and multiplies them by tap `stride * t + tap - p`.
    """

    stride: int
    start: int
    count: int
    extent: int
    offset: int
    tap: int
    taps: int


def by_phases(stage: Stage, inlined: Inlined) -> tuple[list[Sliding], Inlined] | None:
    """
    A convolution over an image with zeros between its elements, as convolutions over the image.

    Each of them computes other elements of the output. The second result has the image as one of
    its inlined stages. None for a stage of another form.
    """
    found = _split(stage, inlined)
    if found is None:
        return None
    stages, _, inside = found
    forms = [sliding(each, inside) for each in stages]
    known = [form for form in forms if form is not None and _slides_beside_only(form)]
    return (known, inside) if known and len(known) == len(forms) else None


def phases_of(stage: Stage, inlined: Inlined) -> tuple[list[Stage], Inlined] | None:
    """The same as stages that read 0 beside the image."""
    found = _split(stage, inlined)
    if found is None:
        return None
    stages, dense, inside = found

    def read(access: TensorLoad) -> Expr:
        if not access.source.same_as(dense):
            return access
        value: Expr = access
        for index, size in zip(access.indices, dense.shape, strict=True):
            within = tirx.And(integer(0) <= index, index < size)
            value = tirx.if_then_else(within, value, tirx.const(0, dense.dtype))
        return value

    guarded = [replace(each, value=replace_loads(each.value, read)) for each in stages]
    return guarded, inside


def _split(stage: Stage, inlined: Inlined) -> tuple[list[Stage], Buffer, Inlined] | None:
    """The convolutions of all phases over an image, the image, and what has it as a stage."""
    found = _spread_operand(stage, inlined)
    if found is None:
        return None
    moving, spread = found
    slid = _slid(stage, moving, spread)
    if slid is None:
        return None
    inside = Inlined({**inlined.stages, spread.dense.buffer: spread.dense})
    choices = [_phases(axis, tap, base, spread, d) for d, (axis, tap, base) in slid.items()]
    sizes = [shape(spread.dense.buffer)[d] for d in slid]
    if not all(_reads(p, size) for c, size in zip(choices, sizes, strict=True) for p in c):
        return None
    stages = [
        _phase(stage, moving, spread, dict(zip(slid, chosen, strict=True)), slid)
        for chosen in product(*choices)
    ]
    return stages, spread.dense.buffer, inside


def _slides_beside_only(form: Sliding) -> bool:
    """Whether only dimensions that slide are read beside the image: they get a border of zeros."""
    slides = {each.dimension for each in (form.x, form.y) if each is not None}
    analyzer = within((*form.stage.spatial, *form.stage.reduced))
    for dimension, size in enumerate(shape(form.moving.source)):
        read = analyzer.const_int_bound(form.moving.indices[dimension])
        if dimension not in slides and not 0 <= read.min_value <= read.max_value < size:
            return False
    return True


def _spread_operand(stage: Stage, inlined: Inlined) -> tuple[TensorLoad, Spread] | None:
    """The factor of a sum of products that is read from a spread tensor."""
    for factor in stage.factors() or ():
        spread = spread_of(factor, inlined) if isinstance(factor, TensorLoad) else None
        if isinstance(factor, TensorLoad) and spread is not None:
            return factor, spread
    return None


def spread_of(read: TensorLoad, inlined: Inlined) -> Spread | None:
    """What is read, if it is a spread tensor that is computed where it is read."""
    stage = inlined.stages.get(read.source)
    return None if stage is None else _spread(stage, inlined)


def _spread(stage: Stage, inlined: Inlined) -> Spread | None:
    """The stage as a spread tensor, if its value is zero but at multiples of a stride."""
    value = inlined.expand(stage.value)
    low, high = [0] * len(stage.spatial), list(shape(stage.buffer))
    strides, rests = [1] * len(low), [0] * len(low)
    while called(value, IF_THEN_ELSE):
        condition, value, zero = value.args
        if not isinstance(zero, tirx.FloatImm) or zero.value != 0:
            return None
        for part in conjuncts(condition):
            limits, every = bound(part, stage), _every(part, stage)
            if limits is not None:
                d, lower, upper = limits
                low[d], high[d] = greatest(low[d], lower), least(high[d], upper)
            elif every is not None and strides[every[0]] == 1:
                d, strides[d], rests[d] = every
            else:
                return None
    if all(stride == 1 for stride in strides):
        return None
    pairs = list(zip(low, strides, rests, strict=True))
    first = tuple(lower + (rest - lower) % stride for lower, stride, rest in pairs)
    sizes = [-(-(h - f) // s) for h, f, s in zip(high, first, strides, strict=True)]
    return Spread(_dense(stage, value, first, strides, sizes), first, tuple(strides))


def _every(condition: Expr, stage: Stage) -> tuple[int, int, int] | None:
    """The dimension, stride and rest of a condition `(axis + number) % stride == 0`."""
    if not isinstance(condition, tirx.EQ) or constant(condition.b) != 0:
        return None
    modulo = condition.a
    stride = constant(modulo.b) if isinstance(modulo, tirx.FloorMod) else None
    if stride is None:
        return None
    for dimension, axis in enumerate(stage.spatial):
        split = coefficients(modulo.a, [axis.var])
        number = constant(simplified(split[1])) if split and split[0] == [1] else None
        if number is not None:
            return dimension, stride, -number % stride
    return None


def _dense(
    stage: Stage, value: Expr, first: Sequence[int], strides: Sequence[int], sizes: Sequence[int]
) -> Stage:
    axes = tuple(Axis(tirx.Var(f"i{d}", "int64"), size) for d, size in enumerate(sizes))
    places = {
        old.var: new.var * stride + start
        for old, new, stride, start in zip(stage.spatial, axes, strides, first, strict=True)
    }
    value = simplified(substitute(value, places))
    buffer = tirx.decl_buffer([integer(size) for size in sizes], stage.buffer.dtype, "dense")
    return Stage(axes, (), buffer, tuple(axis.var for axis in axes), None, value)


def _slid(
    stage: Stage, moving: TensorLoad, spread: Spread
) -> dict[int, tuple[Axis, Axis, int]] | None:
    """
    The output axis, the tap axis and the base of each dimension with zeros in between.

    None if one of these dimensions is not read at `base + axis + tap`.
    """
    windows = [window(stage, moving, axis) for axis in wide(stage.spatial)]
    plain = {
        w.dimension: (w.axis, w.taps[0][0], w.base)
        for w in windows
        if w is not None and w.stride == 1 and len(w.taps) == 1 and w.taps[0][1] == 1
    }
    spread_out = [d for d, stride in enumerate(spread.stride) if stride > 1]
    if not all(d in plain for d in spread_out):
        return None
    return {d: plain[d] for d in spread_out}


def _phases(axis: Axis, tap: Axis, base: int, spread: Spread, dimension: int) -> list[Phases]:
    """All phases of an output axis. A phase joins its neighbour if both read the same elements."""
    stride, first = spread.stride[dimension], spread.first[dimension]
    found: list[Phases] = []
    for start in range(min(stride, axis.extent)):
        least = (first - base - start) % stride
        one = Phases(
            stride,
            start,
            1,
            -(-(axis.extent - start) // stride),
            (base + start + least - first) // stride,
            least,
            -(-(tap.extent - least) // stride),
        )
        last = found[-1] if found else None
        if last and _alike(last, one):
            found[-1] = replace(last, count=last.count + 1)
        else:
            found.append(one)
    return found


def _reads(phases: Phases, size: int) -> bool:
    """
    Whether phases read anything, and nothing beside the image, of `size` elements, if they have one
    element: then the image gets no border of zeros.
    """
    if phases.taps < 1:
        return False
    return phases.extent > 1 or 0 <= phases.offset <= size - phases.taps


def _alike(one: Phases, other: Phases) -> bool:
    return (one.extent, one.offset, one.taps) == (other.extent, other.offset, other.taps)


def _phase(
    stage: Stage,
    moving: TensorLoad,
    spread: Spread,
    chosen: Mapping[int, Phases],
    slid: Mapping[int, tuple[Axis, Axis, int]],
) -> Stage:
    """The part of `stage` that computes the chosen phases, from the dense tensor."""
    places: dict[Any, Expr] = {}
    renamed: dict[Axis, Axis] = {}
    kinds: list[Axis] = []
    indices = [_densely(spread, d, index) for d, index in enumerate(moving.indices)]
    for d, phases in chosen.items():
        axis, tap, _ = slid[d]
        kind = Axis(tirx.Var("phase", "int64"), phases.count)
        renamed[axis] = Axis(tirx.Var("n", "int64"), phases.extent)
        renamed[tap] = Axis(tirx.Var("t", "int64"), phases.taps)
        n, t = renamed[axis].var, renamed[tap].var
        places[axis.var] = n * phases.stride + kind.var + phases.start
        places[tap.var] = t * phases.stride - kind.var + phases.tap
        indices[d] = n + t + phases.offset
        kinds.append(kind)
    dense = tirx.BufferLoad(spread.dense.buffer, [simplified(index) for index in indices])
    product_of = stage.value.b
    still = product_of.b if product_of.a.same_as(moving) else product_of.a
    value = stage.value.a + dense * substitute(still, places)
    first = min(stage.spatial.index(axis) for axis, _, _ in slid.values())
    spatial = [renamed.get(axis, axis) for axis in stage.spatial]
    spatial[first:first] = kinds
    reduced = tuple(renamed.get(axis, axis) for axis in stage.reduced)
    written = tuple(substitute(index, places) for index in stage.indices)
    return replace(stage, spatial=tuple(spatial), reduced=reduced, indices=written, value=value)


def _densely(spread: Spread, dimension: int, index: Expr) -> Expr:
    """The index of a dimension without zeros in between, in the dense tensor."""
    return index - spread.first[dimension]
