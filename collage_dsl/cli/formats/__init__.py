"""The formats in which `collage check` and `test` answer: for people, programs and CI services."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from collage_dsl.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that was given but could not be read or written; `message` says why."""

    file: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was found in the examined files; `failing` are the findings that make a check fail."""

    found: Sequence[Diagnostic]
    files: Sequence[Path] = ()
    failing: frozenset[Diagnostic] = frozenset()
    unread: Sequence[Unread] = ()


Render = Callable[[Report], str]

_HOMES = {
    "full": ("text", "full"),
    "concise": ("text", "concise"),
    "json": ("rows", "as_json"),
    "github": ("github", "annotations"),
    "gitlab": ("gitlab", "code_quality"),
    "junit": ("junit", "test_report"),
    "sarif": ("sarif", "log"),
}

FORMATS = tuple(_HOMES)

FAIL_LEVELS = ("error", "warning")
"""The findings that make a check fail: errors only, or warnings too."""


def render(format_: str, report: Report) -> str:
    """The answer in `format_`. Only the module of this format is imported."""
    module, name = _HOMES[format_]
    function: Render = getattr(import_module(f"{__name__}.{module}"), name)
    return function(report)
