"""Warn about operands in the order of another library: the weight before the data."""

from collections.abc import Mapping, Sequence

from collage_dsl.graph.operators import Operator
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Operand, Parameter, Reference
from collage_dsl.source import Span


def check_order(
    known: Sequence[Operator],
    written: ast.OperatorCall,
    operands: Sequence[Operand | None],
    parameters: Mapping[str, Parameter],
    findings: Findings,
) -> None:
    """
    Warn if the data of the operators `known` is constant and the weight is not.

    `operands` must have the number that the operators take.
    """
    if not all(op.operands == ("data", "weight") for op in known):
        return
    first, second = operands
    if _is_constant(first, parameters) and second and not _is_constant(second, parameters):
        data, weight = (operand.span.text for operand in written.operands)
        message = f"the data of `{known[0].name}` is the constant `{data}` here"
        hint = Hint(
            f"write `{known[0].name}({weight}, {data})`: the weight comes second",
            f"{weight}, {data}",
        )
        at, last = (operand.span for operand in written.operands)
        findings.warning("W0333", at, message, hint, place=Span(at.source, at.start, last.end))


def _is_constant(operand: Operand | None, parameters: Mapping[str, Parameter]) -> bool:
    if not isinstance(operand, Reference):
        return False
    parameter = parameters.get(operand.name)
    return parameter is not None and parameter.constant
