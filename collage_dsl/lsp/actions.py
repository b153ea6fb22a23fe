"""Offer the fixes of findings as changes of the text."""

from collections.abc import Sequence
from dataclasses import dataclass

from collage_dsl.diagnostics import Diagnostic
from collage_dsl.language.messages.fixes import compatible
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.rename import Edit
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Action:
    """A change of one document that removes `findings`."""

    title: str
    findings: tuple[Diagnostic, ...]
    edits: tuple[Edit, ...]


def quick_fixes(document: Document, found: Sequence[Diagnostic], at: Span) -> tuple[Action, ...]:
    """The fixes of the findings that touch `at`."""
    near = [d for d in found if d.span.start <= at.end and at.start <= d.span.end]
    return tuple(
        Action(finding.fix.title, (finding,), _edits(document, [finding]))
        for finding in near
        if finding.fix is not None
    )


def fix_all(document: Document, found: Sequence[Diagnostic]) -> Action | None:
    """All fixes that do not overlap an earlier one; None if there are none."""
    fixed = [finding for finding in found if finding.fix is not None]
    kept = compatible(finding.fix for finding in fixed if finding.fix is not None)
    chosen = tuple(finding for finding in fixed if finding.fix in kept)
    if not chosen:
        return None
    return Action("fix all findings of collage", chosen, _edits(document, chosen))


def _edits(document: Document, findings: Sequence[Diagnostic]) -> tuple[Edit, ...]:
    """The replacements of the fixes of `findings`, each once."""
    fixes = [finding.fix for finding in findings if finding.fix is not None]
    replacements = dict.fromkeys(each for fix in fixes for each in fix.replacements)
    return tuple(Edit(document, each.span, each.text) for each in replacements)
