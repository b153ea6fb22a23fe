"""Check calls that are `flat`: trees of one operator, in any order and grouping."""

from collections.abc import Callable

from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.resolve.scope import PatternScope
from collage_dsl.language.syntax import ast
from collage_dsl.rules.flattening import COMBINING
from collage_dsl.rules.pattern import Flat, Number, Operand
from collage_dsl.source import Span

_INSTEAD = {
    "subtract": "write `add(x, -2) flat`: it matches `subtract(x, 2)` too",
    "divide": "write `multiply(x, 0.5) flat`: it matches `divide(x, 2)` too",
    "square": "write `multiply(x, x) flat`: it matches `square(x)` too",
    "power": "write `multiply(x, x, x) flat`: it matches `power(x, 3)` too",
    "negative": "write `multiply(x, -1) flat`: it matches `negative(x)` too",
}


def flat_call(
    written: ast.OperatorCall,
    checked: Callable[[ast.Operand], Operand | None],
    scope: PatternScope,
    findings: Findings,
) -> Flat | None:
    """The tree that `written` stands for; None after reporting what is wrong with it."""
    operands = [checked(operand) for operand in written.operands]
    errors = findings.errors
    op = _operator(written, scope, findings)
    _check_rest(written, findings)
    if len(operands) < 2:
        message = f"a flat call combines two operands or more, this has {len(operands)}"
        findings.error("E0203", written.span, message, "write `multiply(x, 0.5) flat`")
    elif all(isinstance(operand, Number) for operand in operands):
        message = "a flat call of numbers alone never matches"
        findings.error("E0301", written.span, message, "write the number that they make together")
    present = tuple(operand for operand in operands if operand is not None)
    if op is None or findings.errors > errors or len(present) < len(operands):
        return None
    is_shared = any(modifier.text == "shared" for modifier in written.modifiers)
    return Flat(op, present, is_shared, written.operators[0].span)


def _operator(written: ast.OperatorCall, scope: PatternScope, findings: Findings) -> str | None:
    names = [name for name in written.operators if isinstance(name, ast.Name)]
    if len(written.operators) > 1 or not names:
        first, last = written.operators[0].span, written.operators[-1].span
        message = "a flat call is of one operator"
        hint = f"write a call for each: `({' | '.join(f'{n.text}(…) flat' for n in names)})`"
        findings.error(
            "E0306", Span(first.source, first.start, last.end), message, hint if names else ""
        )
        return None
    name = names[0]
    members = scope.class_of(name)
    if members is None:
        return None
    if len(members) == 1 and str(members[0].name) in COMBINING:
        return members[0].name
    if len(members) > 1:
        message = f"`{name.text}` stands for several operators, and a flat call is of one"
        findings.error("E0306", name.span, message)
    else:
        message = f"`{name.text}` is not associative, so that it cannot be flat"
        hint = _INSTEAD.get(name.text) or f"{listed(COMBINING, 'and')} can be flat"
        findings.error("E0306", name.span, message, hint)
    return None


def _check_rest(written: ast.OperatorCall, findings: Findings) -> None:
    """Report what a call has that a flat call cannot have."""
    if written.optional:
        message = "a flat call is not optional"
        hint = "write `(multiply(x, 0.5) flat | x)` for one that may be absent"
        findings.error("E0306", written.span, message, hint)
    for attribute in written.attributes:
        message = "a flat call may be several calls, so that its attributes cannot be asked"
        findings.error("E0306", attribute.span, message)
    for modifier in written.modifiers:
        if modifier.text == "ordered":
            message = "a flat call matches in any order, `ordered` in one"
            findings.error("E0306", modifier.span, message, "take out one of the two")
