"""Mistakes in the statements of a test, except in its graph."""

from collage_dsl.language.syntax.mistakes import DTYPE, NAME, REST, Mistake
from collage_dsl.language.syntax.words import ITEM_KEYWORDS

_PRICE = r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>ns|us|ms|s)\b"

MISTAKES = (
    Mistake(
        r"^graph\s*",
        r"\(",
        "write `graph {{ x: f32[4]; … }}`: what a graph takes is said by statements in it",
        exact=False,
    ),
    Mistake(r"^(?P<word>graph|costs)\s*", r"(?::=|[:=])\s*\{", "write `{word} {{ … }}`"),
    Mistake(r"^(?P<word>model|expect)\s*", rf"(?::=|[:=])\s*{REST}", "write `{word} {rest};`"),
    Mistake(r"^model\s+", r"(?P<path>[\w./-]+)\s*;", 'write `model "{path}";`'),
    Mistake(r"^", rf"(?:assert|check|expects|require)\b\s*{REST}", "write `expect {rest};`"),
    Mistake(
        rf"\b(?P<call>(?:matches|why_not)\(\s*{NAME})\s*\)\s*",
        rf"at\s*:?\s*(?P<node>{NAME})",
        "write `{call}, at: {node})`",
    ),
    # Costs.
    Mistake(rf"^(?P<name>{NAME})\s*", r"(?::=|[:=])\s*\{", "write `{name} {{ … }}`"),
    Mistake(r'^(?P<ops>"[^"]*")\s*', rf"(?::=|=|->)?\s*{_PRICE}", "write `{ops}: {number}{unit};`"),
    Mistake(r'^(?P<ops>"[^"]*")\s*:\s*', _PRICE, "write `{ops}: {number}{unit};`"),
    Mistake(
        r'^(?P<ops>"[^"]*")\s*:\s*',
        r"(?P<number>\d+(?:\.\d+)?)",
        "a time has a unit: write `{ops}: {number}us;`",
    ),
    Mistake(r"^", rf"(?P<op>{NAME})\s*[:=]\s*{_PRICE}", 'write `"{op}": {number}{unit};`'),
    Mistake(
        r"^",
        rf'(?P<ops>"[^"]*")\s*[:=]\s*{_PRICE}',
        "name the target: write `tvm {{ {ops}: {number}{unit}; }}`",
    ),
    Mistake(
        r"^(?P<word>graph)\s+",
        rf"{NAME}\s*(?=\{{)",
        "write `graph {{ … }}`: a graph has no name",
        exact=False,
    ),
    Mistake(
        r"^(?P<word>graph)\s+",
        rf"{NAME}\s*\(",
        "write `graph {{ x: f32[4]; … }}`: what a graph takes is said by statements in it",
        exact=False,
    ),
    Mistake(
        "^",
        r"(?:inputs?|given|setup|let|module|function|onnx)\b\s*(?:[:=]\s*)?\{",
        "the statements of a graph stand in `graph {{ … }}`",
        exact=False,
    ),
    # A graph without its braces.
    Mistake(
        "^",
        rf"(?!(?:{'|'.join(ITEM_KEYWORDS)})\b)(?:return\b|{NAME}\s*(?::\s*{DTYPE}|=(?!=)))",
        "the statements of a graph stand in `graph {{ … }}`",
    ),
)
