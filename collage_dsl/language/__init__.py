"""
The rule language, and the text notation of small graphs.

Parts that few callers need are loaded on first use, so that a check starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from collage_dsl.language.loading import UnreadableError, check, load, read

if TYPE_CHECKING:
    from collage_dsl.language.graphs.graph_text import parse_graph
    from collage_dsl.language.write.graph_printer import format_graph
    from collage_dsl.language.write.printer import to_text

_HOME = {
    "format_graph": "write.graph_printer",
    "parse_graph": "graphs.graph_text",
    "to_text": "write.printer",
}

__all__ = ["UnreadableError", "check", "format_graph", "load", "parse_graph", "read", "to_text"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
