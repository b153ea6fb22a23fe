"""The grammar file, and the parser made from it on first use."""

from functools import cache

from lark import Lark

from collage_dsl.resources import folder


@cache
def lark() -> Lark:
    """The parser. Making its tables takes about 0.1 s, so it is made once, when first needed."""
    return Lark(
        (folder("grammars") / "collage.lark").read_text("utf-8"),
        parser="lalr",
        lexer="contextual",
        start=["file", "graph_text"],
        propagate_positions=True,
        maybe_placeholders=True,
    )


@cache
def spellings() -> dict[str, str]:
    """How each terminal is written, where it is always written the same way."""
    written = {}
    for terminal in lark().terminals:
        pattern = terminal.pattern
        if pattern.type == "str":
            written[terminal.name] = pattern.value
        elif pattern.value.endswith("(?![A-Za-z0-9_])"):
            written[terminal.name] = pattern.value.split("(?!")[0]
    return written
