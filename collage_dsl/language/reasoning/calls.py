"""Check that a call in a pattern or a graph names a known operator with the right operands."""

from collections.abc import Iterable, Mapping

from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.messages.advice import (
    import_of,
    none_meant,
    operator_meant,
    place_of_imports,
)
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.syntax import ast
from collage_dsl.source import Span


def find_operator(
    name: ast.Name, findings: Findings, others: Iterable[str] = ()
) -> Operator | None:
    """
    The operator called `name`; None after reporting that there is none.

    `others` are further names that the hint may suggest.
    """
    known = operators()
    if name.text not in known:
        message = f"unknown operator `{name.text}`"
        if hint := import_of(name.text):
            place = place_of_imports(name.span.source)
            findings.error("E0201", name.span, message, hint, place=place)
        else:
            hint = operator_meant(name.text) or did_you_mean(name.text, (*known, *others))
            findings.error("E0201", name.span, message, hint)
    return known.get(name.text)


def refuse(name: ast.Name, refused: Mapping[str, str], findings: Findings) -> None:
    """Report the use of a pattern of a table that the language cannot express."""
    hint = "write what it is to match as a pattern of your own"
    message = f"`{name.text}` cannot be used: {refused[name.text]}"
    findings.error("E0811", name.span, message, hint)


def check_count(operator: Operator, given: int, span: Span, who: str, findings: Findings) -> bool:
    """Whether `operator` takes `given` operands; the message says that `who` gives them."""
    names = operator.operands
    if names is None or len(names) - operator.optional <= given <= len(names):
        return True
    takes = f"takes {count(len(names), 'operand')}"
    if operator.optional:
        takes = f"takes {len(names) - operator.optional} to {len(names)} operands"
    message = f"`{operator.name}` {takes}, {who} gives {given}"
    hint = ""
    if names:
        hint = f"it takes {listed(names, 'and')}"
        hint += "; `_` matches any value" if who == "the pattern" else ""
    findings.error("E0203", span, message, hint)
    return False


def unknown_attribute(
    operator: Operator, name: ast.Name, findings: Findings, hint: str = ""
) -> None:
    known = operator.attrs
    hint = hint or none_meant(name.text) or did_you_mean(name.text, known)
    if not hint:
        hint = f"it has {listed(known, 'and')}" if known else "it has no attributes"
    message = f"`{operator.name}` has no attribute `{name.text}`"
    findings.error("E0204", name.span, message, hint)
