"""Put arguments into the body of a rule with parameters, and find parameters without a use."""

from collections.abc import Mapping
from dataclasses import replace

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast


def check_parameters(rule: ast.Rule, findings: Findings) -> None:
    """Report parameters of a rule that its body does not use."""
    for name in rule.parameters:
        if substituted(rule.value, {name.text: replace(name, text="")}) == rule.value:
            message = f"`{rule.name.text}` does not use its parameter `{name.text}`"
            findings.warning("W0405", name.span, message, "use it, or remove it")


def substituted(written: ast.Expression, values: Mapping[str, ast.Expression]) -> ast.Expression:
    """`written` with the names in `values` replaced by their values."""
    match written:
        case ast.Name(text):
            return values.get(text, written)
        case ast.List(items):
            return replace(written, items=tuple(substituted(item, values) for item in items))
        case ast.Application(_, arguments):
            changed = (replace(a, value=substituted(a.value, values)) for a in arguments)
            return replace(written, arguments=tuple(changed))
        case ast.Operation(_, left, right):
            first = None if left is None else substituted(left, values)
            return replace(written, left=first, right=substituted(right, values))
        case _:
            return written
