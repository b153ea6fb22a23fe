"""The names of the parameters of predicates and rules."""

from collections.abc import Sequence

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.resolve.reserved import reserved
from collage_dsl.language.syntax import ast
from collage_dsl.source import Span


def check_parameter_names(parameters: Sequence[ast.Name], findings: Findings) -> None:
    """Report names that are reserved, and names that are given twice."""
    first: dict[str, Span] = {}
    for parameter in parameters:
        if why := reserved(parameter.text):
            findings.error("E0208", parameter.span, why)
        elif parameter.text in first:
            note = Note("the first definition", first[parameter.text])
            message = f"`{parameter.text}` is defined twice"
            findings.error("E0202", parameter.span, message, "give it another name", (note,))
        first.setdefault(parameter.text, parameter.span)
