"""Warn about operands in the order of another library: the weight before the data."""

from collections.abc import Mapping, Sequence

from collage_dsl.graph.operators import Operator
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Operand, Parameter, Reference


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
        message = f"`{data}` is constant, and is the data of `{known[0].name}` here"
        hint = f"write `{known[0].name}({weight}, {data})`: the weight comes second"
        findings.warning("W0333", written.operands[0].span, message, hint)


def _is_constant(operand: Operand | None, parameters: Mapping[str, Parameter]) -> bool:
    if not isinstance(operand, Reference):
        return False
    parameter = parameters.get(operand.name)
    return parameter is not None and parameter.constant
