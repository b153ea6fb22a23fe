"""Describe a syntax error to the user: what could follow, and what may have been meant."""

from collage_dsl.language.messages.hints import Hint, did_you_mean
from collage_dsl.language.syntax.grammar import spellings
from collage_dsl.language.syntax.mistakes import Advice, Place
from collage_dsl.language.syntax.tokens import UNITS

_VALUE_WORDS = frozenset(
    {"NAME", "QUOTED", "NUMBER", "DURATION", "PERCENT", "STRING", "TRUE", "FALSE", "NONE"}
)
_STARTS_A_VALUE = _VALUE_WORDS | {
    "_REPEAT",
    "_EACH",
    "_PATH",
    "NOT",
    "MINUS",
    "INFINITE",
    "APPROXIMATE",
    "LSQB",
    "LPAR",
    "_CONST",
}
_ARITHMETIC = frozenset({"PLUS", "MINUS", "TIMES", "DIVIDE", "MODULO"})
_OPERATORS = _ARITHMETIC | {"COMPARISON", "_NEAR", "IN", "_OR", "_AND"}
_SOUGHT_LAST = frozenset(
    {"OPTIONAL", "COMMA", "DOT", "LPAR", "LSQB", "COLON", "_ARROW", "_ELSE", "ORDERED", "SHARED"}
    | {"FLAT", "_WITHIN"}
)
_ITEMS = frozenset(
    {"_IMPORT", "_LET", "_EXTERN", "_PATTERN", "_RULE", "_TARGET", "_PIN", "_FORBID", "_TEST"}
)
_WORDS = {
    "NAME": "a name",
    "INDEX": "a whole number",
    "NUMBER": "a number",
    "INFINITE": "`-inf`",
    "STRING": "a string in double quotes",
    "DURATION": "a time such as `10us`",
    "QUOTED": "a name",
    "COMPARISON": "a comparison",
    "_NEAR": "a comparison",
    "$END": "the end of the file",
}
_HINTS = {
    "=": ("COMPARISON", Hint("compare with `==`", "==")),
    "'": ("STRING", Hint('put strings in double quotes: `"NCHW"`')),
}
"""What to write instead of a character, where a token of the kind may stand."""
_COMMENTS = ("//", "/*", "--", ";;")
"""What comments begin with in other languages."""
_IN_OPERANDS = "attributes stand in brackets after the operands"


def expectation(accepted: frozenset[str], start: str) -> str:
    """What may come next, in words: "`)` or `,`"."""
    left = set(accepted)
    words = []
    if {"NAME", "LPAR"} <= left:
        words.append("a value")
        left -= _STARTS_A_VALUE
    if {"_PATTERN", "_RULE"} <= left:
        words.append("a definition")
        left -= _ITEMS
    if left - _OPERATORS:
        left -= _OPERATORS
    if left - _SOUGHT_LAST:
        left -= _SOUGHT_LAST
    if "NAME" in left:
        left -= {"QUOTED"}
    if "MINUS" in left:
        left -= {"INFINITE"}
    words += sorted(_WORDS.get(name) or f"`{spellings(start)[name]}`" for name in left)
    if len(words) > 1:
        return f"{', '.join(words[:-1])} or {words[-1]}"
    return words[0] if words else "nothing more"


def advice(found: str, place: Place, start: str) -> Advice:
    """What the user meant by `found`, which is wrong at `place`."""
    from collage_dsl.language.syntax.meant import meant  # most files have no mistake

    if said := meant(place):
        return said
    if not place.before and place.after.startswith(_COMMENTS):
        return Advice("comments begin with `#`")
    return Advice(_hint(found, place.accepted, start), 0, len(found))


def _hint(found: str, accepted: frozenset[str], start: str) -> str:
    """A hint what the user meant by the token `found`, where `accepted` may stand."""
    terminal, words = _HINTS.get(found[:1], ("", ""))
    if terminal in accepted:
        return words
    if found in UNITS and "SEMICOLON" in accepted:
        return "write a duration as one word, such as `1.5s`"
    if found == ";" and "_ONLY" in accepted:
        return "say what to import: `only (act)`, or everything with `as std`"
    if "RPAR" in accepted and not accepted & {"PLUS", "COLON"} and found in ("=", ":"):
        return _IN_OPERANDS
    if accepted <= {"COMMA", "RSQB"} and found in ("+", "-", "*", "/", "%"):
        return "name the number, and say in `where` what it is: `where half * 2 == d`"
    if not found.isidentifier():
        return "comments begin with `#`" if found == "/" else ""
    keywords = (spellings(start).get(name, "") for name in accepted)
    return did_you_mean(found, [word for word in keywords if word.isalpha()])
