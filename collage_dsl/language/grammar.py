"""The grammar file, and the parser made from it on first use."""

from functools import cache

from lark import Lark

from collage_dsl.resources import folder


@cache
def lark(start: str) -> Lark:
    """
    The parser of what `start` derives: `file` or `graph_text`. Making its tables takes most
    of the time of a short check, so that each is made when first needed.
    """
    return Lark(
        (folder("grammars") / "collage.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        start=start,
        propagate_positions=True,
        maybe_placeholders=True,
    )


@cache
def spellings(start: str) -> dict[str, str]:
    """How each terminal is written, where it is always written the same way."""
    written = {}
    for terminal in lark(start).terminals:
        pattern = terminal.pattern
        if pattern.type == "str":
            written[terminal.name] = pattern.value
        elif "(?!" in pattern.value:  # a keyword
            written[terminal.name] = pattern.value.split("(?!")[0]
    return written
