"""Describe a syntax error to the user: what could follow, and what may have been meant."""

from collage_dsl.language.findings import did_you_mean
from collage_dsl.language.grammar import tables
from collage_dsl.language.tokens import UNITS

_VALUE_WORDS = frozenset(
    {"NAME", "QUOTED", "NUMBER", "DURATION", "PERCENT", "STRING", "TRUE", "FALSE", "NONE"}
)
_STARTS_A_VALUE = _VALUE_WORDS | {
    "_REPEAT",
    "NOT",
    "MINUS",
    "APPROXIMATE",
    "LSQB",
    "LPAR",
    "_CONST",
}
_ARITHMETIC = frozenset({"PLUS", "MINUS", "TIMES", "DIVIDE", "MODULO"})
_OPERATORS = _ARITHMETIC | {"COMPARISON", "IN", "_OR", "_AND"}
_SOUGHT_LAST = frozenset(
    {"OPTIONAL", "COMMA", "DOT", "LPAR", "LSQB", "COLON", "_ARROW", "_ELSE", "ORDERED", "SHARED"}
    | {"_WITHIN"}
)
_ITEMS = frozenset(
    {"_IMPORT", "_LET", "_EXTERN", "_PATTERN", "_RULE", "_TARGET", "_PIN", "_FORBID", "_TEST"}
)
_WORDS = {
    "NAME": "a name",
    "INDEX": "a whole number",
    "NUMBER": "a number",
    "STRING": "a string in double quotes",
    "DURATION": "a time such as `10us`",
    "QUOTED": "a name",
    "COMPARISON": "a comparison",
    "$END": "the end of the file",
}
_HINTS = {
    "&": ("_AND", "write `and`"),
    "|": ("_OR", "write `or`"),
    "=": ("COMPARISON", "compare with `==`"),
    "!": ("NOT", "write `not`"),
    "'": ("STRING", 'strings stand in double quotes: `"NCHW"`'),
}


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
    words += sorted(_WORDS.get(name) or f"`{tables(start).spellings[name]}`" for name in left)
    if len(words) > 1:
        return f"{', '.join(words[:-1])} or {words[-1]}"
    return words[0] if words else "nothing more"


def _misplaced(found: str, accepted: frozenset[str], first: str) -> str:
    """A hint for something that other languages write in this place, or empty."""
    if first == "return" and accepted == {"EQUAL"}:
        return "a pattern ends with `yield`"
    if accepted == {"TIMES"}:  # after `name[`
        return "only `[*]` is asked, which is each; of a shape, `dim(x, 0)` is one"
    is_operand = "RPAR" in accepted and not accepted & {"PLUS", "COLON"}
    if found == "-" and {"LBRACE", "LPAR"} <= accepted:
        return 'options stand in parentheses: `llvm(mcpu: "znver4")`'
    if found == "=" and is_operand:
        return "attributes stand in brackets after the operands: `[groups == 1]`"
    if found == ":" and is_operand:
        return "`const` is said once, of the parameter: `pattern f(x, w: const)`"
    if found == "=" and {"LBRACE", "SEMICOLON"} <= accepted:
        return "a setting is followed by its value, without `=`"
    if found == ";" and "_ONLY" in accepted:
        return "say what is brought: `only (act)`, or all of it: `as std`"
    return ""


def hint(found: str, accepted: frozenset[str], start: str, first: str) -> str:
    """A hint what the user meant by `found`, in a statement that begins with `first`."""
    terminal, words = _HINTS.get(found[:1], ("", ""))
    if terminal in accepted:
        return words
    if found in UNITS and "SEMICOLON" in accepted:
        return "a time is one word, such as `1.5s`, where a setting takes one"
    if misplaced := _misplaced(found[:1], accepted, first):
        return misplaced
    if not found.isidentifier():
        return "comments begin with `#`" if found == "/" else ""
    keywords = (tables(start).spellings.get(name, "") for name in accepted)
    return did_you_mean(found, [word for word in keywords if word.isalpha()])
