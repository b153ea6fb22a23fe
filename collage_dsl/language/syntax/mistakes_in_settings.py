"""Mistakes in the settings of a target."""

from collage_dsl.language.syntax.mistakes import INNER, NAME, NUMBER, REST, VALUE, Mistake
from collage_dsl.language.syntax.words import SETTINGS

_ALONE = r"^(?P<name>fallback|largest_first)\s*"
_RULES = "op_call_by_kind|dfpattern|union|composite|combine_by_primitives"
_SIGN = r"(?::=|==|<=|[:=])"
"""What other languages write between a setting and its value."""

RULES_ALONE = (
    Mistake(
        rf"^(?P<name>{_RULES})\(",
        rf"(?P<rest>{INNER})\)\s*;",
        "write `rules {name}({rest});`",
    ),
)
"""A rule that stands in the braces of a target."""

MISTAKES = (
    Mistake(
        r"^(?P<name>runs|taps)\s*",
        rf'{_SIGN}?\s*"(?P<value>{NAME})"',
        "write `{name} {value};`, without quotes",
    ),
    Mistake(
        r"^(?:budget|timeout)\s+\d+(?:\.\d+)?\s*",
        r"(?!(?:ns|us|ms|s)\b)[A-Za-z]\w*",
        "a time is in `ns`, `us`, `ms` or `s`",
    ),
    Mistake(r"^tune\s*", rf"{_SIGN}\s*(?P<number>\d+)", "write `tune {{ trials {number}; }}`"),
    Mistake(_ALONE, rf"{_SIGN}(?:\s*\w+(?=\s*[;}}]))?", "write `{name};`"),
    Mistake(rf"^(?P<name>{NAME})\s*", rf"{_SIGN}\s*\{{", "write `{name} {{ … }}`"),
    Mistake(
        rf"^(?P<name>{NAME})\s*",
        rf"{_SIGN}\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ns|us|ms|s|%)\s*[;}}]",
        "write `{name} {number}{unit};`",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*",
        rf"{_SIGN}\s*(?P<value>{NAME}|{NUMBER})\s*,",
        "write `{name} {value};`",
    ),
    Mistake(rf"^(?P<name>{NAME})\s*", rf"{_SIGN}\s*{REST}", "write `{name} {rest};`"),
    Mistake(rf"^(?P<name>{NAME})\s*-", rf">\s*{REST}", "write `{name} {rest};`"),
    Mistake(rf"^(?P<name>{NAME})\s*", _SIGN, "write `{name} …;`"),
    Mistake(
        rf"^(?P<name>limits|measure|tune)\s*[(\[]\s*(?P<first>{NAME})\s*",
        rf"[:=]?\s*(?P<rest>{VALUE})\s*[)\]]",
        "write `{name} {{ {first} {rest}; }}`",
    ),
    Mistake(
        rf"^(?P<name>limits|measure|tune)\s*[(\[]\s*(?P<first>{NAME})\s*",
        rf"[:=]?\s*(?P<rest>{VALUE})",
        "write `{name} {{ {first} {rest}; }}`",
        exact=False,
    ),
    Mistake(
        rf"^(?P<name>limits|measure|tune)\s+(?P<first>{NAME})\s*",
        rf"[:=]?\s*(?P<rest>{NAME}|{NUMBER}\w*%?)\s*;",
        "write `{name} {{ {first} {rest}; }}`",
    ),
    Mistake(
        rf"^(?P<name>rules)\s+(?P<first>{VALUE})\s*",
        rf"[,|+]\s*+(?!(?:{'|'.join(SETTINGS)})\b)(?P<rest>[^;{{}}]*[^;{{}}\s,])",
        "write `rules union({first}, {rest});`",
    ),
    Mistake(
        rf"^(?P<name>{_RULES})\(",
        r"",
        "write `rules …;`, without braces",
    ),
    Mistake(
        rf"^variants\s+(?P<first>{NAME})\s*",
        rf",\s*(?P<rest>{NAME}(?:\s*,\s*{NAME})*)\s*;",
        "write `variants [{first}, {rest}];`",
    ),
    Mistake(
        rf"^(?P<setting>{NAME}\s+{VALUE})\s*",
        rf",|(?={'|'.join(SETTINGS)}\b)",
        "write `{setting};`: a setting ends with `;`",
    ),
    Mistake(
        rf"^(?P<setting>rules\s+{VALUE})\s*",
        rf"(?:then|followed\s+by|and|with)\s+(?P<rest>{VALUE})\s*;",
        "write `{setting}; after {rest};`",
    ),
)
