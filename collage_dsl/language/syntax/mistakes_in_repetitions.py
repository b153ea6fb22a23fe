"""Mistakes in repeated calls, tuples of any length, paths, and alternatives."""

from collage_dsl.language.syntax.mistakes import ARGUMENTS, CALL, NAME, Mistake

_REPEATED = r"\b(?P<word>repeat|each|path)\s*"

REPETITIONS = (
    Mistake(
        r"[=(,|]\s*(?P<start>)an?\s+",
        rf"path\s+(?:of\s+)?(?P<op>{NAME})(?:\s+calls)?\s+from\s+(?P<of>{NAME})",
        "write `path[1..8] {op} from {of}`",
    ),
    Mistake(
        r"(?P<start>)\bpath\s+",
        rf"of\s+(?P<op>{NAME})(?:\s+calls)?\s+from\s+(?P<of>{NAME})",
        "write `path[1..8] {op} from {of}`",
    ),
    Mistake(
        r"(?P<start>)\b(?P<word>repeat|each|path)\s+",
        rf"(?P<rest>{NAME})",
        "write `{word}[1..8] {rest}`",
    ),
    Mistake(
        r"(?P<start>)\bpath\s*\[(?P<bounds>[^\[\]]*)\]\s*one_of\s*",
        rf"\(\s*(?P<first>{NAME})\s*,\s*(?P<second>{NAME})\s*,?\s*\)",
        "write `path[{bounds}] ({first} | {second})`",
    ),
    Mistake(
        r"\bpath\s*\[(?P<bounds>[^\[\]]*)\]\s*one_of\s*",
        r"\(",
        "several operators are written `path[{bounds}] (exp | add | tanh) from x`",
    ),
    Mistake(
        rf"(?P<start>)\bpath\s*\[(?P<bounds>[^\[\]]*)\]\s*\(\s*(?P<op>{NAME})\s*",
        rf",\s*(?P<of>{NAME})\s*\)",
        "write `path[{bounds}] {op} from {of}`",
    ),
    Mistake(
        rf"(?P<start>)\bpath\s*\[(?P<bounds>[^\[\]]*)\]\s*(?P<op>{NAME})\s*",
        rf"\(\s*(?P<of>{NAME})\s*\)",
        "write `path[{bounds}] {op} from {of}`",
    ),
    Mistake(
        rf"=\s*(?P<start>)(?P<op>(?!(?:repeat|each|path)\b){NAME})\s*",
        rf"\{{\s*(?P<least>\d+)\s*(?:,|\.\.)\s*(?P<most>\d+)\s*\}}\s*(?P<rest>{ARGUMENTS})",
        "write `repeat[{least}..{most}] {op}{rest}`",
    ),
    Mistake(
        rf"[=(,]\s*(?P<start>)(?P<op>{NAME})\s*(?P<rest>{ARGUMENTS})\s*",
        r"[*+](?=\s*[;,)])",
        "write `repeat[1..8] {op}{rest}`",
    ),
    Mistake(
        r"(?P<start>)\b(?P<word>repeat|each|path)\s*\(\s*(?P<least>\d+)\s*,\s*(?P<most>\d+)\s*\)\s*",
        rf"(?P<rest>{NAME}(?:\s*{ARGUMENTS})?+)",
        "write `{word}[{least}..{most}] {rest}`",
    ),
    Mistake(
        r"(?P<start>)\b(?P<word>repeat|each|path)\s*\(\s*(?P<count>\d+)\s*\)\s*",
        rf"(?P<rest>{NAME}(?:\s*{ARGUMENTS})?+)",
        "write `{word}[{count}..{count}] {rest}`",
    ),
    Mistake(
        rf"(?P<start>)\brepeat\s*\[(?P<bounds>[^\[\]]*)\]\s*\(\s*(?P<call>{CALL})\s*\)\s*",
        r"(?=[;,)\[])",
        "write `repeat[{bounds}] {call}`",
    ),
    Mistake(
        r"(?P<start>)\bpath\s*\[(?P<bounds>[^\[\]]*)\]\s*from\s*",
        rf"(?P<of>{NAME})",
        "write `path[{bounds}] elementwise from {of}`",
    ),
    Mistake(rf"{_REPEATED}\[\s*(?P<count>\d+)\s*", r"\]", "write `{word}[{count}..{count}]`"),
    Mistake(
        rf"{_REPEATED}\[\s*(?P<least>\d+)\s*",
        r"(?:[,:-]|to\b)\s*(?P<most>\d+)\s*\]",
        "write `{word}[{least}..{most}]`",
    ),
    Mistake(
        rf"{_REPEATED}\[\s*(?P<least>\d+)\s*(?:\.\.)?\s*",
        r"[+,]?\s*\]",
        "a repetition has a greatest number, as in `{word}[{least}..8]`",
    ),
    Mistake(rf"{_REPEATED}\[\s*", r"(?:\.\.|,)\s*(?P<most>\d+)\s*\]", "write `{word}[1..{most}]`"),
    Mistake(
        _REPEATED,
        r"[{(]\s*(?P<least>\d+)\s*(?:,|\.\.|-)\s*(?P<most>\d+)\s*[})]",
        "write `{word}[{least}..{most}]`",
    ),
    Mistake(_REPEATED, r"[{(]\s*(?P<count>\d+)\s*[})]", "write `{word}[{count}..{count}]`"),
)
"""How many calls are in a chain, fields in a tuple, or calls on a path."""

ALTERNATIVES = (
    Mistake(
        rf"[=(,]\s*\(\s*{CALL}\s*(?:\|\s*(?:{CALL}|{NAME})\s*)+\)\s*",
        r"\[",
        "brackets stand behind each call that they are about: "
        "`(sum(x) [axis == [1]] | max(x) [axis == [1]])`",
    ),
)
"""Expressions of which one matches."""
