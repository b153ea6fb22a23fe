"""Recognize the misspelt name of a library or backend."""

import re
from functools import cache

from collage_dsl.declared import declared
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint
from collage_dsl.language.resolve.libraries import NATIVE
from collage_dsl.language.syntax import ast
from collage_dsl.resources import folder
from collage_dsl.source import Span

_GROUP = "collage_dsl.backends"
"""The group of entry points in which packages declare backends, by name."""

_COMPILER = re.compile(r'^\s*compiler\s+"([^"]+)"', re.MULTILINE)
_LEAST_SIMILARITY = 0.85
_CHARACTERS_PER_MISTAKE = 5


def check_compiler(name: str, span: Span, findings: Findings) -> None:
    """
    Report a name that is no known library or backend, but close to one. A name that is close to
    none is that of a user's own backend.
    """
    known = _shipped()
    if name in known:
        return
    known |= _declared()
    meant = next((other for other in sorted(known) if _is_misspelt(name, other)), "")
    if name not in known and meant:
        message = f"no library or backend is named `{name}`"
        quoted = span.text.replace(name, meant, 1)
        findings.warning("W0543", span, message, Hint(f"did you mean `{meant}`?", quoted))


def check_libs(written: ast.Expression, findings: Findings) -> None:
    """Report the misspelt names in the option `libs`."""
    for item in written.items if isinstance(written, ast.List) else (written,):
        match item:
            case ast.Literal(str() as name, span):
                check_compiler(name, span, findings)


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
def _shipped() -> frozenset[str]:
    """The compilers of the shipped specs."""
    texts = (path.read_text("utf-8") for path in folder("specs").glob("*.collage"))
    return frozenset((NATIVE, *(name for text in texts for name in _COMPILER.findall(text))))


@cache
def _declared() -> frozenset[str]:
    """The backends that installed packages declare; none of them is imported."""

    return frozenset(declared(_GROUP))
