"""Recognize a convolution of bytes, and pack its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from collage_dsl.backends.schedule.byte_products.form import Factor, factor_of
from collage_dsl.backends.schedule.byte_products.panels import as_unsigned, signed, word_of
from collage_dsl.backends.schedule.expressions import (
    Buffer,
    Expr,
    integer,
    substitute,
    variables,
)
from collage_dsl.backends.schedule.groups import Inlined, wide
from collage_dsl.backends.schedule.loops import Stmt, load, loop, nest, sequence, store
from collage_dsl.backends.schedule.machine import Dots
from collage_dsl.backends.schedule.packing import Source
from collage_dsl.backends.schedule.scheduled import preparing
from collage_dsl.backends.schedule.sliding import Sliding, sliding_of
from collage_dsl.backends.schedule.stages import Axis, Stage, extents


@dataclass(frozen=True, slots=True, eq=False)
class ByteImage:
    """
    A convolution of an image of bytes with filters of bytes, without the zero points of these, by
    the instruction `dots`.

    The zero point of the image uses no axis, that of the filters none but `column`. The channels of
    a pixel are in `words` words, of which some bytes may be too many.
    """

    window: Sliding
    operand: Factor
    weight: Factor
    dots: Dots
    words: int

    @property
    def weights(self) -> Buffer:
        return self.weight.value.source

    @property
    def column(self) -> Axis:
        return self.window.rows[0]

    @property
    def channel(self) -> Axis:
        return self.window.channels[0]

    @property
    def taps(self) -> int:
        return prod(extents(self.window.taps))

    @property
    def terms(self) -> int:
        """The products that are summed for a pixel."""
        return self.channel.extent * self.taps

    @property
    def steps(self) -> int:
        """The words of a filter."""
        return self.words * self.taps

    @property
    def is_filled(self) -> bool:
        """Whether the words have bytes that are no channels."""
        return self.words * self.dots.terms > self.channel.extent

    def step(self, number: Expr, *tap: Expr) -> Expr:
        """The number of a word of a filter: that of some channels, at a tap."""
        for axis, index in zip(self.window.taps, tap, strict=True):
            number = number * axis.extent + index
        return number


def byte_image(stage: Stage, inlined: Inlined, dots: Dots) -> ByteImage | None:
    """The stage as a convolution of bytes whose second factor is the weight; None if it is none."""
    factors = stage.factors()
    if factors is None or str(stage.buffer.dtype) != "int32" or not wide(stage.spatial):
        return None
    operand, weight = factor_of(factors[0]), factor_of(inlined.expand(factors[1]))
    if operand is None or weight is None or not isinstance(weight.value, TensorLoad):
        return None
    form = sliding_of(stage, tirx.Add, weight.value, operand.value, inlined)
    if form is None or len(form.rows) != 1 or len(form.channels) != 1:
        return None
    channel = form.channels[0].var
    of_channel = [index for index in form.moving.indices if channel in variables(index)]
    if len(of_channel) != 1 or not channel.same_as(of_channel[0]):
        return None
    of_image = {axis.var for axis in (*stage.spatial, *stage.reduced)}
    of_filter = of_image - {form.rows[0].var}
    if variables(operand.zero) & of_image or variables(weight.zero) & of_filter:
        return None
    grouped = variables(weight.value) & {axis.var for axis in form.batch}
    words = dots.words(form.channels[0].extent)
    return None if grouped else ByteImage(form, operand, weight, dots, words)


def in_words(image: Source, form: ByteImage) -> Source:
    """`image` by words of channels, all of them unsigned bytes."""
    channels, terms = form.channel.extent, form.dots.terms
    places = [form.channel.var.same_as(each) for each in form.window.moving.indices]
    dimension = places.index(True)

    def unsigned(value: Expr) -> Expr:
        return tirx.Cast("int32", as_unsigned(value))

    def word(at: Sequence[Expr]) -> Expr:
        return word_of([byte(at, at[dimension] * terms + place) for place in range(terms)])

    def byte(at: Sequence[Expr], channel: Expr) -> Expr:
        if form.is_filled:
            channel = tirx.min(channel, integer(channels - 1))
        return unsigned(image.value([*at[:dimension], channel, *at[dimension + 1 :]]))

    return replace(image, value=word, fill=word_of([unsigned(image.fill)] * terms))


def filter_size(form: ByteImage) -> int:
    """
    The packed weights: a filter after the other, its words and then the sum of its bytes. The last
    filter has ones, so that it sums what a pixel reads.
    """
    return (form.column.extent + 1) * (form.steps + 1)


def filter_bytes(form: ByteImage, filter_: Expr, number: Expr, tap: Sequence[Expr]) -> list[Expr]:
    """
    The signed bytes of a word of channels in a filter, each an int32; 0 for channels that do not
    exist.
    """
    axes = (*form.window.stage.spatial, *form.window.stage.reduced)
    at = {axis.var: integer(0) for axis in axes if axis.extent == 1}
    at |= {a.var: t for a, t in zip(form.window.taps, tap, strict=True)}
    at |= {form.column.var: filter_}
    channels = _channels(form, number)
    values = [substitute(form.weight.value, at | {form.channel.var: each}) for each in channels]
    return [
        in_filter(form, channel, signed(value))
        for channel, value in zip(channels, values, strict=True)
    ]


def ones_of(form: ByteImage, number: Expr) -> list[Expr]:
    """The bytes of a word of channels in a filter of ones; 0 for channels that do not exist."""
    one = tirx.IntImm("int32", 1)
    return [in_filter(form, channel, one) for channel in _channels(form, number)]


def _channels(form: ByteImage, number: Expr) -> list[Expr]:
    """The channels of a word."""
    terms = form.dots.terms
    return [number * terms + place for place in range(terms)]


def in_filter(form: ByteImage, channel: Expr, value: Expr) -> Expr:
    """`value`; 0 for a channel that does not exist."""
    channels, zero = form.channel.extent, tirx.IntImm("int32", 0)
    if not form.is_filled:
        return value
    return tirx.if_then_else(channel < channels, value, zero)


def byte_filters(form: ByteImage, packed: Buffer) -> Any:
    """The PrimFunc that packs weights: it takes them and writes `packed`."""
    pitch, taps = form.steps + 1, extents(form.window.taps)

    def word(filter_: Expr, number: Expr, tap: list[Expr]) -> Stmt:
        bytes_ = filter_bytes(form, filter_, number, tap)
        total = load(packed, filter_ * pitch + form.steps)
        summed = store(packed, sum(bytes_, total), filter_ * pitch + form.steps)
        return sequence(
            [summed, store(packed, word_of(bytes_), filter_ * pitch + form.step(number, *tap))]
        )

    def ones(number: Expr, tap: list[Expr]) -> Stmt:
        place = form.column.extent * pitch + form.step(number, *tap)
        return store(packed, word_of(ones_of(form, number)), place)

    def filled(filter_: Expr) -> Stmt:
        zero = store(packed, tirx.IntImm("int32", 0), filter_ * pitch + form.steps)
        counts = (form.words, *taps)
        return sequence([zero, nest(counts, lambda at: word(filter_, at[0], at[1:]))])

    body = sequence(
        [
            loop(form.column.extent, filled, name="filter"),
            nest((form.words, *taps), lambda at: ones(at[0], at[1:])),
        ]
    )
    return preparing(form.weights, packed, body)
