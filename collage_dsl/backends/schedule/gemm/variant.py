"""The variant `gemm`: matrix products and convolutions with packed weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from collage_dsl.backends.schedule.apply import body_of, statement
from collage_dsl.backends.schedule.byte_products.channel_kernel import ByteChannelKernel
from collage_dsl.backends.schedule.byte_products.channels import (
    channel_blocks,
    channel_filters,
    packed_size,
)
from collage_dsl.backends.schedule.byte_products.form import ByteProduct
from collage_dsl.backends.schedule.byte_products.image import (
    ByteImage,
    byte_filters,
    filter_size,
)
from collage_dsl.backends.schedule.byte_products.image_kernel import ByteImageKernel
from collage_dsl.backends.schedule.byte_products.kernel import (
    ByteKernel,
    MatrixKernel,
    by_matrices,
    byte_blocks,
    packed_dtype,
)
from collage_dsl.backends.schedule.byte_products.matrices import HEIGHT
from collage_dsl.backends.schedule.byte_products.matrix_image import (
    MatrixFilters,
    MatrixImageKernel,
    image_of_matrices,
)
from collage_dsl.backends.schedule.byte_products.panels import byte_packing
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.expressions import Buffer, integer
from collage_dsl.backends.schedule.gemm.blocks import Blocks, blocks_of
from collage_dsl.backends.schedule.gemm.flat_kernel import FlatKernel
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.gemm.image import ImageProduct, filter_packing
from collage_dsl.backends.schedule.gemm.image_blocks import (
    ImageBlocks,
    flat_blocks,
    image_blocks,
    pixel_blocks,
)
from collage_dsl.backends.schedule.gemm.image_kernel import ImageKernel
from collage_dsl.backends.schedule.gemm.kernel import GemmKernel
from collage_dsl.backends.schedule.gemm.panels import packing
from collage_dsl.backends.schedule.gemm.pixel_kernel import PixelKernel
from collage_dsl.backends.schedule.gemm.products import Packable, packable
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import Stmt
from collage_dsl.backends.schedule.machine import Machine, machine_of
from collage_dsl.backends.schedule.scheduled import Scheduled
from collage_dsl.backends.schedule.sizes import is_known

SMALL_TILE = 4
"""
The height of tiles where few rows come, of a number that is not known before. Such a product takes
the time of reading its weights.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """The packed weights of a product, the function that packs them, and the loops."""

    packed: Buffer
    prepare: Any
    statement: Callable[[Group, Context], Stmt]


def gemm(func: Any, target: Any) -> Scheduled:
    """`func` with its products computed from packed weights, and the rest as `direct` does."""
    machine = machine_of(target)
    program, forms = packable(func, machine)
    methods = {stage: _method(form, machine) for stage, form in forms.items()}

    def generated(group: Group, context: Context) -> Stmt:
        method = methods.get(group.stages[0].buffer)
        if method is None:
            return statement(group, context)
        return method.statement(Group(group.stages), context)

    taken = {forms[stage].weights: method.packed for stage, method in methods.items()}
    buffers = [taken.get(buffer, buffer) for buffer in program.parameters]
    body = body_of(program, buffers, machine, generated)
    before = list(func.params)  # beside the buffers, sizes that are taken as numbers
    parameters = [taken.get(parameter, parameter) for parameter in before]
    prepared = {before.index(form.weights): methods[stage].prepare for stage, form in forms.items()}
    return Scheduled(tirx.PrimFunc(parameters, body, func.ret_type, func.attrs), prepared)


def _method(form: Packable, machine: Machine) -> Method:
    if isinstance(form, Product):
        return _of_rows(form, machine)
    if isinstance(form, ByteProduct):
        return _of_bytes(form, machine)
    if isinstance(form, ByteImage):
        return _of_byte_image(form, machine)
    return _of_image(form, machine)


def _of_image(form: ImageProduct, machine: Machine) -> Method:
    kernel, blocks = _in_blocks(form, machine)
    packed = _packed(form.weights, blocks.filters.size)

    def loops(group: Group, context: Context) -> Stmt:
        return kernel(form, blocks, packed, group, context).statement()

    return Method(packed, filter_packing(form, blocks.filters, packed), loops)


def _in_blocks(form: ImageProduct, machine: Machine) -> tuple[type[ImageKernel], ImageBlocks]:
    if not is_known(form.height * form.width):
        return FlatKernel, flat_blocks(form, machine)
    if by_pixels := pixel_blocks(form, machine):
        return PixelKernel, by_pixels
    return ImageKernel, image_blocks(form, machine)


def _of_rows(form: Product, machine: Machine) -> Method:
    blocks = blocks_of(form, machine)
    packed = _packed(form.weights, blocks.panels.size)

    def loops(group: Group, context: Context) -> Stmt:
        return _of_any_rows(
            blocks, lambda each: GemmKernel(form, each, packed, group, context), SMALL_TILE
        )

    return Method(packed, packing(form, blocks.panels, packed), loops)


def _of_any_rows(blocks: Blocks, kernel: Callable[[Blocks], GemmKernel], least: int) -> Stmt:
    """The loops of a product. If the number of rows is unknown, others compute few rows."""
    whole = kernel(blocks).statement()
    if is_known(blocks.tiles.rows):
        return whole
    small = replace(blocks, tiles=replace(blocks.tiles, height=least, tiles=2))
    few = kernel(small).statement(few=True)
    return tirx.IfThenElse(integer(blocks.tiles.rows) <= 2 * least, few, whole)


def _of_bytes(form: ByteProduct, machine: Machine) -> Method:
    blocks = byte_blocks(form, machine)
    packed = _packed(form.weights, blocks.panels.size, packed_dtype(form))

    by = by_matrices(form, machine)
    kernel, least = (MatrixKernel, HEIGHT) if by else (ByteKernel, SMALL_TILE)

    def loops(group: Group, context: Context) -> Stmt:
        return _of_any_rows(blocks, lambda each: kernel(form, each, packed, group, context), least)

    return Method(packed, byte_packing(form, blocks.panels, packed), loops)


def _of_byte_image(form: ByteImage, machine: Machine) -> Method:
    if (of_matrices := image_of_matrices(form, machine)) is not None:
        return _of_matrices(of_matrices)
    blocks = channel_blocks(form, machine)
    if blocks is not None:
        return _of_byte_channels(form, blocks)
    packed = _packed(form.weights, filter_size(form), "int32")

    def loops(group: Group, context: Context) -> Stmt:
        return ByteImageKernel(form, packed, group, context).statement()

    return Method(packed, byte_filters(form, packed), loops)


def _of_matrices(form: ByteImage) -> Method:
    filters = MatrixFilters(form)
    packed = _packed(form.weights, filters.size, "int32")

    def loops(group: Group, context: Context) -> Stmt:
        return MatrixImageKernel(filters, packed, group, context).statement()

    return Method(packed, filters.packing(packed), loops)


def _of_byte_channels(form: ByteImage, blocks: ImageBlocks) -> Method:
    panels = blocks.filters.panels
    packed = _packed(form.weights, packed_size(panels), "int32")

    def loops(group: Group, context: Context) -> Stmt:
        return ByteChannelKernel(form, blocks, packed, group, context).statement()

    return Method(packed, channel_filters(form, panels, packed), loops)


def _packed(weights: Buffer, size: int, dtype: str = "float32") -> Buffer:
    return tirx.decl_buffer((integer(size),), dtype, weights.name, data_alignment=64)
