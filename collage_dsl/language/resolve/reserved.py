"""The names that values, patterns and rules cannot have."""

from collage_dsl.graph.types import dtype_names, long_dtype


def reserved(name: str) -> str:
    """Why `name` cannot name a value or a rule; empty if it can."""
    if "." in name:
        return "a name cannot contain a dot"
    if name in _KEYWORDS:
        return f"`{name}` is a word of the language and cannot be a name"
    if name in dtype_names() or long_dtype(name):
        return f"`{name}` is a dtype and cannot be a name"
    return ""


_KEYWORDS = frozenset(
    {"_", "and", "else", "false", "in", "not", "or", "pattern", "rule", "target", "true"}
    | {"where", "yield"}
)
