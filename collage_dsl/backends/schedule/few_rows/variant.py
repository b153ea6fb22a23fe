"""The variant `gemv`: matrix products with few rows, at the speed of memory."""

from __future__ import annotations

from math import prod
from typing import Any

from collage_dsl.backends.products import FEW_ROWS
from collage_dsl.backends.schedule.apply import body_of, statement
from collage_dsl.backends.schedule.context import Context
from collage_dsl.backends.schedule.few_rows.dots import dots_statement
from collage_dsl.backends.schedule.few_rows.lines import lines_statement
from collage_dsl.backends.schedule.few_rows.operands import Operands
from collage_dsl.backends.schedule.gemm.form import Product
from collage_dsl.backends.schedule.gemm.products import products_of
from collage_dsl.backends.schedule.groups import Group
from collage_dsl.backends.schedule.loops import Stmt
from collage_dsl.backends.schedule.machine import machine_of
from collage_dsl.backends.schedule.scheduled import Scheduled, VariantError
from collage_dsl.backends.schedule.stages import extents


def gemv(func: Any, target: Any) -> Scheduled:
    """`func` with its products of few rows in one pass over weights that stay as they are."""
    program, found = products_of(func)
    forms = {stage: form for stage, form in found.items() if _has_few_rows(form)}
    if not forms:
        raise VariantError(f"gemv computes products of at most {FEW_ROWS} rows, here are more")

    def generated(group: Group, context: Context) -> Stmt:
        form = forms.get(group.stages[0].buffer)
        if form is None:
            return statement(group, context)
        operands = Operands(form, Group(group.stages), context)
        return dots_statement(operands) if form.weight_by_inner else lines_statement(operands)

    body = body_of(program, program.parameters, machine_of(target), generated)
    return Scheduled(func.with_body(body))


def _has_few_rows(form: Product) -> bool:
    return prod(extents((*form.batch, *form.rows))) <= FEW_ROWS
