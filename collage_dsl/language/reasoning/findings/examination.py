"""Examine what all parts of a pattern say together, and remember the patterns that are clean."""

from collections.abc import Sequence
from dataclasses import replace

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.conclusions.exclusion import MOST_LOOKING, Effort
from collage_dsl.language.reasoning.findings.choices import MOST_CHOOSING, Choices
from collage_dsl.language.reasoning.findings.contradictions import Contradictions
from collage_dsl.language.reasoning.findings.growth import check_pattern_growth
from collage_dsl.language.syntax import ast
from collage_dsl.rules.condition import Where
from collage_dsl.rules.pattern import Pattern
from collage_dsl.source import Span


def examine(
    pattern: Pattern,
    written: ast.Pattern,
    result: Span,
    implied: Sequence[Where],
    findings: Findings,
    effort: Effort,
) -> None:
    """
    Report conditions and parts of `pattern` that the rest of it excludes, and repetitions that
    match in too many ways. `implied` are the conditions made from dimensions of parameters. The
    work is added to `effort`.

    A pattern of which nothing was to report is not examined again, so that an editor need not wait
    for the patterns that have not changed.
    """
    key = (repr(pattern), len(implied))  # without spans
    if key in _CLEAN:
        effort.add(_CLEAN[key])
        return
    before, count, errors = replace(effort), findings.count, findings.errors
    contradictions = Contradictions(pattern, written, implied, findings, effort)
    contradictions.check()
    if findings.errors == errors:
        choices = Choices(pattern, implied, effort)
        choices.check(result, findings)
        if not choices.match_usually():
            said = findings.count
            contradictions.check_usual()
            if findings.count == said:
                choices.check_usual(findings)
    check_pattern_growth(pattern, written.name.span, findings)
    is_whole = effort.looking <= MOST_LOOKING and effort.choosing <= MOST_CHOOSING
    if findings.count == count and is_whole:
        if len(_CLEAN) >= _MOST_CLEAN:
            _CLEAN.clear()
        _CLEAN[key] = effort.since(before)


_CLEAN: dict[tuple[str, int], Effort] = {}
"""Patterns without findings, and the effort of examining them."""

_MOST_CLEAN = 1000
