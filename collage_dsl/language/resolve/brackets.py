"""Check the conditions in brackets after a call, which are about its attributes."""

import re
from functools import partial

from collage_dsl.graph.operators import Operator
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.operators.attribute_values import check_values
from collage_dsl.language.resolve.condition_scope import AttributeScope, Scope
from collage_dsl.language.resolve.conditions import Checker
from collage_dsl.language.resolve.pattern_names import Names
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import Attr, AttrOf, Where


def check_attributes(
    known: tuple[Operator, ...],
    call: ast.OperatorCall,
    names: Names,
    values: Scope,
    findings: Findings,
) -> tuple[Where, ...]:
    """
    The conditions on the attributes of a call of the operators `known`, without those that are
    wrong. `values` is what names mean that are no attributes.
    """
    found = []
    for written in call.attributes:
        scope = AttributeScope(known, findings, values, _in_where(known, written, call, names))
        where = _attribute(written, scope, findings)
        if where is not None:
            check_values(where, partial(_owners, known, names), findings)
            found.append(where)
    return tuple(found)


def _owners(
    known: tuple[Operator, ...], names: Names, attribute: Attr | AttrOf
) -> tuple[Operator, ...]:
    return known if isinstance(attribute, Attr) else names.owners(attribute)


def _attribute(written: ast.Expression, scope: AttributeScope, findings: Findings) -> Where | None:
    if isinstance(written, ast.Literal) and type(written.value) is int:
        message = "a condition is needed here, but this is a number"
        hint = f"write `.{written.value}` for a field of a tuple"
        findings.error("E0303", written.span, message, hint)
        return None
    return Checker(findings, scope).condition(written)


def _in_where(
    known: tuple[Operator, ...], written: ast.Expression, call: ast.OperatorCall, names: Names
) -> str:
    """What to write if the condition is about more than attributes: `where y.groups == c`."""
    attributes = sorted({name for operator in known for name in operator.attrs})
    name, is_named = names.name_of(call)
    text = " ".join(_with_names(written).split())
    if attributes:
        text = re.sub(rf"(?<![\w.\"])({'|'.join(attributes)})\b", rf"{name}.\1", text)
    if is_named:
        return f"write `where {text};` instead"
    return f"name the call, `{name} = …;`, and write `where {text};`"


def _with_names(written: ast.Expression) -> str:
    """The text of a condition in which a list of numbers and names is taken apart."""
    match written:
        case ast.Operation("in", left, ast.List(items)) if left is not None:
            return " or ".join(f"{left.span.text} == {item.span.text}" for item in items)
        case _:
            return written.span.text
