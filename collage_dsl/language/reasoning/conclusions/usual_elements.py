"""The numbers that operators usually take: scales, variances, shifts and bounds."""

from collections.abc import Collection, Iterator

from collage_dsl.graph.operators import operators
from collage_dsl.language.reasoning.claims.required_calls import Called
from collage_dsl.rules.condition import (
    Compare,
    Comparison,
    Constant,
    Element,
    Expression,
    Max,
    Min,
    ValueOf,
    every_part,
)
from collage_dsl.rules.pattern import Number

_SCALES = ("scale", "x_scale", "y_scale")
_SCALED = frozenset(
    {"dequantize", "onnx.DequantizeLinear", "onnx.QuantizeLinear", "quantize"}
    | {"com.microsoft.DequantizeLinear", "com.microsoft.QuantizeLinear"}
)

_USUAL: tuple[tuple[frozenset[str], tuple[str, ...], Comparison, str], ...] = (
    (_SCALED, _SCALES, ">", "the scales of {op} are above 0"),
    (
        frozenset({"nn.batch_norm"}),
        ("moving_var",),
        ">=",
        "no variance that {op} takes is below 0",
    ),
    (
        frozenset({"left_shift", "right_shift"}),
        ("x2",),
        ">=",
        "{op} shifts by no number below 0",
    ),
)
"""Operators, some of their operands, how each element of these compares with 0, and words."""


def usual_elements(called: Called, asked: Collection[str]) -> Iterator[tuple[Expression, str]]:
    """
    What is usual of the numbers that a call takes, each with words for it: of those that the
    pattern writes, and of the constants that are `asked` about.
    """
    ops, numbers = called.call.ops, called.names.numbers
    named = zip(operators()[ops[0]].operands or (), called.operands, strict=False)
    given = {name: operand for name, operand in named if operand in numbers or operand in asked}
    for known, names, operator, words in _USUAL:
        for name in names if known.issuperset(ops) else ():
            if name in given:
                condition = Compare(operator, Min(given[name]), Constant(0))
                yield condition, words.format(op=f"`{ops[0]}`")
    match [numbers.get(operand) for operand in called.operands]:
        case [_, Number(low), Number(high)] if set(ops) == {"clip"}:
            words = f"`clip` takes the lower bound first, {high:g} before {low:g}"
            yield Compare("<=", Constant(low), Constant(high)), words


def asked_of_elements(expression: Expression) -> Iterator[str]:
    """The constants whose elements `expression` asks about."""
    for part in every_part(expression):
        if isinstance(part, Element | ValueOf | Min | Max):
            yield part.of
