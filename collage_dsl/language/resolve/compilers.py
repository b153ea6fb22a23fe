"""Recognize the misspelt name of a library or backend."""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from collage_dsl.declared import declared
from collage_dsl.graph.target_kinds import target_kinds
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint
from collage_dsl.language.resolve.libraries import shipped
from collage_dsl.language.syntax import ast
from collage_dsl.source import Span

_GROUP = "collage_dsl.backends"
"""The group of entry points in which packages declare backends, by name."""

_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **dict.fromkeys(("cublas", "cudnn", "cutlass"), ("cuda", "nvptx")),
        "hipblas": ("rocm", "hip"),
    }
)
"""The kinds of targets of libraries that cannot run elsewhere, first the usual one."""

_LEAST_SIMILARITY = 0.85
_CHARACTERS_PER_MISTAKE = 5


def check_compiler(name: str, span: Span, findings: Findings) -> None:
    """
    Report a name that is no known library or backend, but close to one. A name that is close to
    none is that of a user's own backend.
    """
    known = shipped()
    if name in known:
        return
    known |= _declared()
    meant = next((other for other in sorted(known) if _is_misspelt(name, other)), "")
    if name not in known and meant:
        message = f"no library or backend is named `{name}`"
        quoted = span.text.replace(name, meant, 1)
        findings.warning("W0543", span, message, Hint(f"did you mean `{meant}`?", quoted))


def check_libs(written: ast.Expression, kind: str, findings: Findings) -> None:
    """Report the misspelt names in the option `libs`, and libraries of other devices."""
    for item in written.items if isinstance(written, ast.List) else (written,):
        match item:
            case ast.Literal(str() as name, span):
                check_compiler(name, span, findings)
                check_device(name, kind, span, findings)


def check_device(name: str, kind: str, span: Span, findings: Findings) -> None:
    """Report a library that runs only on targets of another kind."""
    kinds = _KINDS.get(name, ())
    if kinds and kind in target_kinds() and kind not in kinds:
        message = f"`{name}` is a library for {kinds[0]} targets, and this is one of kind `{kind}`"
        hint = f"write `on {kinds[0]}`, or name a library for {kind} targets"
        findings.warning("W0545", span, message, hint)


def _is_misspelt(name: str, other: str) -> bool:
    """Whether `name` is `other` with a few letters wrong; another number is another name."""
    from difflib import SequenceMatcher  # few files need it

    one, two = _plain(name), _plain(other)
    if re.sub(r"\D", "", one) != re.sub(r"\D", "", two):
        return False
    if abs(len(one) - len(two)) > len(two) // _CHARACTERS_PER_MISTAKE:
        return False
    return SequenceMatcher(None, one, two).ratio() >= _LEAST_SIMILARITY


def _plain(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.lower())


@cache
def _declared() -> frozenset[str]:
    """The backends that installed packages declare; none of them is imported."""

    return frozenset(declared(_GROUP))
