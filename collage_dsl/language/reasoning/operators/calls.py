"""Check that a call in a pattern or a graph names a known operator with the right operands."""

from collections.abc import Mapping, Sequence
from functools import cache

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import Operator, operators
from collage_dsl.language.messages.advice import (
    attribute_meant,
    dtype_meant,
    import_of,
    import_of_similar,
    imported_already,
    none_meant,
    operator_meant,
    place_of_imports,
)
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.messages.hints import Hint, did_you_mean, not_imported
from collage_dsl.language.reasoning.operators.extra_operands import as_attributes
from collage_dsl.language.syntax import ast
from collage_dsl.rules.flattening import COMBINING
from collage_dsl.source import Span


def find_operator(
    name: ast.Name, findings: Findings, others: Sequence[str] = ()
) -> Operator | None:
    """
    The operator called `name`; None after reporting that there is none.

    `others` are further names that the hint may suggest. Those with the prefix of an import come
    before the operators of Relax: the user knows them. A graph has no other names.
    """
    known = operators()
    if name.text not in known:
        message = f"unknown operator `{name.text}`"
        if hint := imported_already(name.text, name.span.source, others):
            findings.error("E0201", name.span, message, hint)
        elif others and (hint := import_of(name.text)):
            place = place_of_imports(name.span.source)
            findings.error("E0201", name.span, message, hint, place=place)
        else:
            meant: str = (
                did_you_mean(name.text, [each for each in others if "." in each])
                or operator_meant(name.text)
                or (import_of_similar(name.text) if others else "")
                or did_you_mean(name.text, (*known, *others))
                or (not_imported(name.text, (*known, *others)) if others else "")
            )
            findings.error("E0201", name.span, message, meant)
    return known.get(name.text)


def refuse(name: ast.Name, refused: Mapping[str, str], findings: Findings) -> None:
    """Report the use of a pattern of a table that the language cannot express."""
    hint = "write your own pattern for what it matches"
    message = f"`{name.text}` cannot be used: {refused[name.text]}"
    findings.error("E0811", name.span, message, hint)


def check_count(
    operator: Operator,
    written: Sequence[str],
    span: Span,
    who: str,
    findings: Findings,
    *,
    together: bool = False,
) -> bool:
    """
    Whether `operator` takes as many operands as are `written`. The message says that `who` gives
    them. It may be called `together` with others, as one of a class.
    """
    names, given = operator.operands, len(written)
    if names is None or len(names) - operator.optional <= given <= len(names):
        return True
    takes = f"takes {count(len(names), 'operand')}"
    if operator.optional:
        takes = f"takes {len(names) - operator.optional} to {len(names)} operands"
    message = f"`{operator.name}` {takes}, but {who} gives {given}"
    hint = ""
    if who == "the pattern" and operator.name in COMBINING and given > 2:
        hint = Hint("write `flat` after the call: it matches in any order and grouping", " flat")
        after = Span(span.source, span.end, span.end)
        findings.error("E0203", span, message, hint, place=after)
        return False
    more = names is not None and given > len(names)
    if together:
        hint = (
            "operators that are called together take the same number of operands: write "
            f"`{operator.name}` as an alternative of its own, or leave it out"
        )
    elif more and (attributes := as_attributes(operator, written, _SIGNS[who])):
        hint = f"attributes stand in brackets: `{attributes}`"
    elif names and who == "the pattern":
        hint = _written(operator, given, names)
    elif operator.takes == ("tuple",):
        hint = f"it takes a tuple: write `t = (a, b);` and then `{operator.name}(t)`"
    elif names:
        hint = f"it takes {listed(names, 'and')}"
    findings.error("E0203", span, message, hint)
    return False


_SIGNS = {"the pattern": "==", "the graph": "="}
"""What stands between an attribute and its value."""
_WITH_BIAS = {"nn.attention": "nn.attention_bias"}
_WEIGHED = "nn.conv"


def _written(operator: Operator, given: int, names: tuple[str, ...]) -> str:
    """A hint that shows the operands of a call in a pattern."""
    name = operator.name
    if name == "repeat" and given > 1:
        return "a chain of calls is written `repeat[1..3] nn.relu(x)`"
    if operator.takes == ("tuple",):
        return f"it takes a tuple: write `{name}((a, b))`"
    if given == len(names) + 1 and name.startswith(_WEIGHED):
        return f"write `add({name}({', '.join(names)}), b)` for a bias"
    if given == len(names) + 1 and name in _WITH_BIAS:
        return f"did you mean `{_WITH_BIAS[name]}`?"
    shown = ("_" if each in operator.literals else each for each in names)
    return f"write `{name}({', '.join(shown)})`; `_` matches any value"


def check_kind_count(kind: Kind, given: int, span: Span, findings: Findings) -> bool:
    """Whether some operator of `kind` takes `given` operands. Opaque ones take any number."""
    if kind is Kind.OPAQUE or given in _counts(kind):
        return True
    few = listed(map(str, sorted(_counts(kind))), "or")
    message = f"no operator of the kind `{kind}` takes {count(given, 'operand')}"
    findings.error("E0203", span, message, f"those of this kind take {few}; `_` matches any value")
    return False


@cache
def _counts(kind: Kind) -> frozenset[int]:
    """How many operands the operators of `kind` take."""
    return frozenset(
        number
        for operator in operators().values()
        if operator.operands is not None and kind in operator.kinds
        for number in range(len(operator.operands) - operator.optional, len(operator.operands) + 1)
    )


def unknown_attribute(
    operator: Operator, name: ast.Name, findings: Findings, hint: str = ""
) -> None:
    known = operator.attrs
    hint = hint or none_meant(name.text) or attribute_meant(name.text, known)
    hint = hint or did_you_mean(name.text, known)
    longer = [each for each in known if each.startswith(name.text)]
    if not hint and len(longer) == 1:
        hint = Hint(f"did you mean `{longer[0]}`?", longer[0])
    if not hint and name.text in (operator.operands or ()):
        hint = f"it is an operand: `{operator.name}({', '.join(operator.operands or ())})`"
    hint = hint or dtype_meant(name.text)
    if not hint:
        hint = f"it has {listed(known, 'and')}" if known else "it has no attributes"
    message = f"`{operator.name}` has no attribute `{name.text}`"
    findings.error("E0204", name.span, message, hint)
