"""Find the products of a function that can be computed in another way than by `direct`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from collage_dsl.backends.schedule.apply import is_empty, outlined
from collage_dsl.backends.schedule.byte_products.form import ByteProduct, byte_product
from collage_dsl.backends.schedule.byte_products.image import ByteImage, byte_image
from collage_dsl.backends.schedule.byte_products.integers import with_integer_sums
from collage_dsl.backends.schedule.chains import Chain
from collage_dsl.backends.schedule.expressions import Buffer, loads
from collage_dsl.backends.schedule.gemm.form import Product, product_of
from collage_dsl.backends.schedule.gemm.image import ImageProduct, image_product
from collage_dsl.backends.schedule.groups import Group, Inlined, wide, wide_extents
from collage_dsl.backends.schedule.machine import Dots, Machine
from collage_dsl.backends.schedule.phases import without_zeros
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.schedule.sizes import is_known
from collage_dsl.backends.schedule.stages import (
    Program,
    Stage,
    extents,
    has_only_buffers,
    read_of_any_size,
)


def products_of(func: Any) -> tuple[Program, dict[Buffer, Product]]:
    """
    The program of a function, and its products by what they write.

    The weight of each is an input that nothing else reads. Raises `VariantError` if there is
    no such product.
    """
    program = _program(func)
    return program, _some(_products(program, product))


def product(stage: Stage, inlined: Inlined) -> Product | None:
    """The stage as a product with one matrix of weights; None if it is none."""
    form = product_of(stage, inlined)
    return form if form is not None and form.has_one_weight else None


Packable = Product | ImageProduct | ByteProduct | ByteImage


def packable(func: Any, machine: Machine) -> tuple[Program, dict[Buffer, Packable]]:
    """
    The same, with convolutions of any number of taps and products of bytes. The program has sums of
    integers for those of dequantized bytes. Of a program with unknown sizes, only products of which
    the number of rows is unknown, and convolutions of images of any sides.
    """
    program = without_zeros(with_integer_sums(_program_of_any_size(func)))
    if not program.is_known:
        return program, _some(_products_of_any_size(program, machine.dots))
    return program, _some(_products(program, partial(_packable, machine.dots)))


def _packable(dots: Dots | None, stage: Stage, inlined: Inlined) -> Packable | None:
    found = image_product(stage, inlined) or product(stage, inlined)
    if found is not None or dots is None:
        return found
    return byte_product(stage, inlined, dots) or byte_image(stage, inlined, dots)


def _products_of_any_size(program: Program, dots: Dots | None) -> dict[Buffer, Any]:
    """
    The products of a program with rows of unknown number, and convolutions of images of any sides,
    if it has no other sums than these.
    """
    forms = _products(program, partial(_of_any_size, dots))
    _, groups = outlined(program)
    others = [group for group in groups if isinstance(group, Chain) or _has_sums(group)]
    return forms if all(group.stages[0].buffer in forms for group in others) else {}


def _of_any_size(
    dots: Dots | None, stage: Stage, inlined: Inlined
) -> ImageProduct | Product | ByteProduct | None:
    return _of_any_sides(stage, inlined) or _of_rows(dots, stage, inlined)


def _of_any_sides(stage: Stage, inlined: Inlined) -> ImageProduct | None:
    if not any(not is_known(axis.extent) for axis in wide(stage.spatial)[-2:]):
        return None
    form = image_product(stage, inlined)
    if form is None or is_known(form.height * form.width):
        return None
    axes = (form.column, *form.window.channels, *form.window.taps, *form.groups)
    return form if all(map(is_known, extents(axes))) else None


def _of_rows(dots: Dots | None, stage: Stage, inlined: Inlined) -> Product | ByteProduct | None:
    found = product(stage, inlined) or (byte_product(stage, inlined, dots) if dots else None)
    form = found.product if isinstance(found, ByteProduct) else found
    if form is None or form.by_columns or form.batch:
        return None
    return found if is_known(form.column.extent) and is_known(form.inner.extent) else None


def _has_sums(group: Group) -> bool:
    return group.rows is None and group.anchor is not None


def _program(func: Any) -> Program:
    program = _program_of_any_size(func)
    if not program.is_known or not has_only_buffers(func):
        raise VariantError("not all sizes of this function are known")
    return program


def _program_of_any_size(func: Any) -> Program:
    program = read_of_any_size(func)
    if program is None or any(is_empty(buffer) for buffer in program.parameters):
        raise VariantError("the form of this function is not known")
    return program


def _some(forms: dict[Buffer, Any]) -> dict[Buffer, Any]:
    if not forms:
        raise VariantError("no sum of this function is a product with a weight that is read once")
    return forms


def _products(program: Program, form_of: Callable[[Stage, Inlined], Any]) -> dict[Buffer, Any]:
    inlined, groups = outlined(program)
    values = [inlined.expand(stage.value) for group in groups for stage in group.stages]
    reads = Counter(access.source for value in values for access in loads(value))
    forms: dict[Buffer, Any] = {}
    inputs = program.inputs
    for group in groups:
        form = form_of(group.stages[0], inlined) if _is_alone(group) else None
        if form and form.weights in inputs and reads[form.weights] == 1:
            forms[group.stages[0].buffer] = form
    return forms


def _is_alone(group: Group | Chain) -> bool:
    """Whether a group has one reduction, its first stage, and other stages at the same index."""
    first, *others = group.stages
    domain = wide_extents(first.spatial)
    return bool(first.reduced) and all(
        not stage.reduced and wide_extents(stage.spatial) == domain for stage in others
    )
