"""Find the other places of the name under the cursor, in the same document."""

from dataclasses import dataclass

from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.names import Definition
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class Highlight:
    span: Span
    is_definition: bool


def highlights(document: Document, offset: int) -> tuple[Highlight, ...]:
    use = document.names.at(offset)
    if use is None:
        return ()
    what = use.what
    defined = what.span if isinstance(what, Definition) else None
    return tuple(Highlight(u.span, u.span == defined) for u in document.names.of(what))
