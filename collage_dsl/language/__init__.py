"""The rule language, and the text notation of small graphs."""

from collage_dsl.language.graph_printer import format_graph
from collage_dsl.language.graph_text import parse_graph
from collage_dsl.language.load import UnreadableError, check, load, read
from collage_dsl.language.printer import to_text

__all__ = ["UnreadableError", "check", "format_graph", "load", "parse_graph", "read", "to_text"]
