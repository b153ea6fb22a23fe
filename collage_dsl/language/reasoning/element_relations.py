"""The numbers that operators take: scales, variances, bounds and shifts."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import inf

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.domain import Values, between
from collage_dsl.language.reasoning.facts import Facts
from collage_dsl.language.reasoning.relations import Relation
from collage_dsl.language.reasoning.required_calls import Called
from collage_dsl.rules.condition import Max, Min, ValueOf

_NOT_NEGATIVE = between(0, inf)
_POSITIVE = replace(_NOT_NEGATIVE, excluded=frozenset({0}))

_SCALES = frozenset({"scale", "x_scale", "y_scale"})
_SCALED = frozenset(
    {"dequantize", "onnx.DequantizeLinear", "onnx.QuantizeLinear", "quantize"}
    | {"com.microsoft.DequantizeLinear", "com.microsoft.QuantizeLinear"}
)


def element_relations(ops: tuple[str, ...]) -> Iterator[Relation]:
    for holds, relation in _RELATIONS:
        if all(map(holds, ops)):
            yield relation


def _elements(names: frozenset[str], values: Values, called: Called, facts: Facts) -> None:
    """Add what the elements of the operands with these names are."""
    operands = operators()[called.call.ops[0]].operands or ()
    for name, operand in zip(operands, called.operands, strict=False):
        if name in names:
            for term in (ValueOf(operand), Min(operand), Max(operand)):
                facts.narrow(term, values)


def _ordered(called: Called, facts: Facts) -> None:
    bounds = [called.names.numbers.get(name) for name in called.operands[1:]]
    least, most = (None if each is None else each.value for each in bounds)
    if least is not None and most is not None and least > most:
        facts.mismatch = f"`clip` takes the lower bound first: {most:g} and then {least:g}"
        facts.possible = False


_RELATIONS: tuple[tuple[Callable[[str], bool], Relation], ...] = (
    (
        _SCALED.__contains__,
        Relation("the scales of {op} are above 0", once=partial(_elements, _SCALES, _POSITIVE)),
    ),
    (
        {"nn.batch_norm"}.__contains__,
        Relation(
            "no variance that {op} takes is below 0",
            once=partial(_elements, frozenset({"moving_var"}), _NOT_NEGATIVE),
        ),
    ),
    (
        {"left_shift", "right_shift"}.__contains__,
        Relation(
            "{op} shifts by no number below 0",
            once=partial(_elements, frozenset({"x2"}), _NOT_NEGATIVE),
        ),
    ),
    (
        {"clip"}.__contains__,
        Relation("the lower bound of {op} comes first, and then the upper one", again=_ordered),
    ),
)
