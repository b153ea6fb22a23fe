"""Write any text as a string of the language."""

from collage_dsl.printable import without_markers


def quoted(text: str) -> str:
    """
    `text` in quotes and with escapes, as a string of the language. Raises ValueError for a lone
    surrogate, which no text can hold.
    """
    written = without_markers("".join(map(_character, text)), r"\u{23}")
    return f'"{written}"'


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _character(character: str) -> str:
    if character.isprintable() or character in _ESCAPES:
        return _ESCAPES.get(character, character)
    if "\ud800" <= character <= "\udfff":
        raise ValueError(f"a string cannot hold U+{ord(character):04X}, which is half a character")
    return f"\\u{{{ord(character):x}}}"
