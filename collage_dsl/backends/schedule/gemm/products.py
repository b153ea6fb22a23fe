"""Find the products of a function that can be computed in another way than by `direct`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from collage_dsl.backends.schedule.apply import is_empty, outlined
from collage_dsl.backends.schedule.chains import Chain
from collage_dsl.backends.schedule.expressions import Buffer, loads
from collage_dsl.backends.schedule.gemm.form import Product, product_of
from collage_dsl.backends.schedule.gemm.image import ImageProduct, image_product
from collage_dsl.backends.schedule.groups import Group, Inlined, wide_extents
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.schedule.stages import Program, Stage, read


def products_of(func: Any) -> tuple[Program, dict[Buffer, Product]]:
    """
    The program of a function, and its products by what they write.

    The weight of each is a parameter that nothing else reads. Raises `VariantError` if there is
    no such product.
    """
    return _found(func, product)


def product(stage: Stage, inlined: Inlined) -> Product | None:
    """The stage as a product with one matrix of weights; None if it is none."""
    form = product_of(stage, inlined)
    return form if form is not None and form.has_one_weight else None


def packable(func: Any) -> tuple[Program, dict[Buffer, Product | ImageProduct]]:
    """The same, with convolutions of any number of taps."""

    def form_of(stage: Stage, inlined: Inlined) -> Product | ImageProduct | None:
        return image_product(stage, inlined) or product(stage, inlined)

    return _found(func, form_of)


def _found(
    func: Any, form_of: Callable[[Stage, Inlined], Any]
) -> tuple[Program, dict[Buffer, Any]]:
    program = read(func)
    if program is None or any(is_empty(buffer) for buffer in program.parameters):
        raise VariantError("the form of this function is not known")
    forms = _products(program, form_of)
    if not forms:
        raise VariantError("no sum of this function is a product with a weight that is read once")
    return program, forms


def _products(program: Program, form_of: Callable[[Stage, Inlined], Any]) -> dict[Buffer, Any]:
    inlined, groups = outlined(program)
    values = [inlined.expand(stage.value) for group in groups for stage in group.stages]
    reads = Counter(access.source for value in values for access in loads(value))
    forms: dict[Buffer, Any] = {}
    for group in groups:
        form = form_of(group.stages[0], inlined) if _is_alone(group) else None
        if form and form.weights in program.parameters and reads[form.weights] == 1:
            forms[group.stages[0].buffer] = form
    return forms


def _is_alone(group: Group | Chain) -> bool:
    """Whether a group has one reduction, its first stage, and other stages at the same index."""
    first, *others = group.stages
    domain = wide_extents(first.spatial)
    return bool(first.reduced) and all(
        not stage.reduced and wide_extents(stage.spatial) == domain for stage in others
    )
