"""Find the products of a function that can be computed in another way than by `direct`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from collage_dsl.backends.schedule.apply import is_empty, outlined
from collage_dsl.backends.schedule.chains import Chain
from collage_dsl.backends.schedule.expressions import Buffer, loads
from collage_dsl.backends.schedule.gemm.form import Product, product_of
from collage_dsl.backends.schedule.groups import Group, wide_extents
from collage_dsl.backends.schedule.scheduled import VariantError
from collage_dsl.backends.schedule.stages import Program, read


def products_of(func: Any) -> tuple[Program, dict[Buffer, Product]]:
    """
    The program of a function, and its products by what they write.

    The weight of each is a parameter that nothing else reads. Raises `VariantError` if there is
    no such product.
    """
    program = read(func)
    if program is None or any(is_empty(buffer) for buffer in program.parameters):
        raise VariantError("the form of this function is not known")
    forms = _products(program)
    if not forms:
        raise VariantError("no sum of this function is a product with a weight that is read once")
    return program, forms


def _products(program: Program) -> dict[Buffer, Product]:
    inlined, groups = outlined(program)
    values = [inlined.expand(stage.value) for group in groups for stage in group.stages]
    reads = Counter(access.source for value in values for access in loads(value))
    forms: dict[Buffer, Product] = {}
    for group in groups:
        form = product_of(group.stages[0], inlined) if _is_alone(group) else None
        if form is None or not form.has_one_weight:
            continue
        if form.weights in program.parameters and reads[form.weights] == 1:
            forms[group.stages[0].buffer] = form
    return forms


def _is_alone(group: Group | Chain) -> bool:
    """Whether a group has one reduction, its first stage, and other stages at the same index."""
    first, *others = group.stages
    domain = wide_extents(first.spatial)
    return bool(first.reduced) and all(
        not stage.reduced and wide_extents(stage.spatial) == domain for stage in others
    )
