"""Mistakes in conditions, rules and the values of settings, which share one notation."""

from collage_dsl.language.syntax.mistakes import (
    BEGINS,
    HAS,
    NAME,
    NUMBER,
    REST,
    VALUE,
    Mistake,
    signs,
)
from collage_dsl.language.syntax.mistakes_in_patterns import PREFIXED

_FACT = r"(?:dtype|rank|size|bytes|uses|has)"
_COMPARED = r"(?:==|!=|<=|>=|<|>)"
_ITEMS = r"[^(){}\[\];]*[^(){}\[\];,\s]"

_ELEMENT = rf"(?:{VALUE})(?:\s*\[\s*(?:-?\d+|\*)\s*\])?"
"""A value, or an element of one."""

_BEGINS = r"(?:\b(?:where|and|or)\s+|[(\[,]\s*)(?P<start>)"
"""What stands before a comparison that is a condition of its own."""
_HALF = r"(?:0?\.50*|1\s*/\s*2)\b"

_RANGE = rf"(?P<rest>\[[^\[\];]*\]|{NUMBER}\s*\.\.\s*{NUMBER}|{VALUE})"
"""What a value is in."""

_POWERS = tuple(
    mistake
    for first, second in ((r"\*", r"\*"), ("", r"\^"))
    for mistake in (
        Mistake(
            rf"(?P<left>{VALUE})\s*(?P<sign>~=|≈|==)\s*(?P<of>{VALUE})\s*{first}",
            rf"{second}\s*\(?\s*-\s*{_HALF}",
            "square both sides: `{left} * {left} * {of} {sign} 1`",
        ),
        Mistake(
            rf"(?P<left>{VALUE})\s*(?P<sign>~=|≈|==)\s*(?P<of>{VALUE})\s*{first}",
            rf"{second}\s*\(?\s*{_HALF}",
            "square both sides: `{left} * {left} {sign} {of}`",
        ),
        Mistake(rf"(?P<of>{VALUE})\s*{first}", rf"{second}\s*2\b", "write `({of} * {of})`"),
        Mistake(
            rf"(?P<of>{VALUE})\s*{first}",
            second,
            "conditions have no powers: multiply, as in `{of} * {of}`",
        ),
    )
)

_IMPLIED = (
    Mistake(
        rf"^where\s+(?P<start>)(?P<fact>{HAS})\s*-?",
        rf"(?:->|=>|>|(?:implies|then)\b)\s*{REST}",
        "write `not {fact} or {rest}`",
    ),
    Mistake(
        r"^where\s+(?P<start>)(?:if|when)\s+",
        rf"(?P<fact>{HAS})\s*(?:(?:then|implies)\b|:|,|->|=>)\s*{REST}",
        "write `not {fact} or {rest}`",
    ),
    Mistake(
        r"^where\s++(?P<start>)(?P<rest>.*\S)\s*+",
        rf"(?:if|when)\s+(?P<fact>{HAS})",
        "write `not {fact} or {rest}`",
    ),
    Mistake(r"^where\b.*-", ">", "write `not a or b` for `a -> b`"),
    Mistake(r"^where\b.*", r"(?:->|implies\b)", "write `not a or b` for `a -> b`"),
)

_RANGES = (
    Mistake(
        rf"\bin\s+(?P<least>{NUMBER})\s*",
        rf":\s*(?P<most>{NUMBER})",
        "write `{least}..{most}`",
    ),
    Mistake(
        rf"{_BEGINS}(?P<of>{VALUE})\s+in\s+(?P<least>{NUMBER})\s*\.\.\s*",
        r"(?=[;,\])}]|and\b|or\b)",
        "write `{of} >= {least}`",
    ),
    Mistake(
        rf"{_BEGINS}(?P<of>{VALUE})\s+in\s+",
        rf"\.\.\s*(?P<most>{NUMBER})",
        "write `{of} <= {most}`",
    ),
    *(
        Mistake(
            rf"{_BEGINS}(?P<of>{VALUE})\s+in\s+{before}",
            rf"{after}(?!\s*[-+*/%(.])",
            "write `{of} >= {least} and {of} <= {most}`",
        )
        for before, after in (
            (rf"(?P<least>{VALUE})\s*\.\.\s*", rf"(?P<most>{VALUE})"),
            (rf"(?P<least>{VALUE})\s*", rf"\.\.\s*(?P<most>{VALUE})"),
        )
    ),
    Mistake(
        r"\bin\b.*\.\.\s*",
        r"[\w(]",
        "a range has only numbers: compare with `>=` and `<=`",
    ),
    Mistake(r"\bin\b.*", r"\.\.", "a range has only numbers: compare with `>=` and `<=`"),
)

_UNITS = tuple(
    Mistake(rf"(?P<start>)(?P<number>{NUMBER})\s*", rf"{unit}\b", f"write `{{number}} * {size}`")
    for unit, size in (
        *(("KiB", 2**10), ("MiB", 2**20), ("GiB", 2**30)),
        *(("[kK]B", 10**3), ("MB", 10**6), ("GB", 10**9)),
    )
)
"""Units of memory: a number has none."""

_DIGITS = (
    Mistake(
        r"(?<![\w.])(?P<first>\d+)",
        r"_(?P<second>\d+)_(?P<third>\d+)\b",
        "write `{first}{second}{third}`",
    ),
    Mistake(r"(?<![\w.])(?P<first>\d+)", r"_(?P<second>\d+)\b", "write `{first}{second}`"),
    Mistake(r"(?<![\w.])0", r"[xXbBoO][0-9a-fA-F]+\b", "write the number in decimal digits"),
)
"""Numbers in other notations."""

MISTAKES = (
    PREFIXED,
    *_UNITS,
    *_DIGITS,
    Mistake(
        r"[(,]\s*(?P<start>)[bfruBFRU]{1,2}",
        r'(?P<text>"[^"\n]*")',
        "write `{text}`, without a letter before it",
        new="{text}",
    ),
    Mistake(
        rf"\bkind\(\s*(?P<first>{NAME})\s*",
        rf"(?:=>|→|>|to\b)\s*(?P<second>{NAME})",
        "write `{first} -> {second}`",
    ),
    Mistake(
        rf"\bkind\(\s*(?P<first>{NAME})\s*->\s*(?P<second>{NAME})\s*",
        rf"(?:->|,)\s*(?P<third>{NAME})\s*\)",
        "`kind` takes two kinds: write `kind({first} -> {second}), kind({second} -> {third})`",
    ),
    Mistake(
        r"^where\s+(?P<start>)lambda\b[^:]*", rf"[^:;]*:\s*{REST}", "write `{rest}`", exact=False
    ),
    # Arguments.
    Mistake(
        rf"^(?:rule|target|rules|expect)\b.*[(,]\s*(?P<name>{NAME})\s*",
        rf"=\s*(?P<value>{VALUE}|\"[^\"]*\"|\[[^\]]*\])",
        "write `{name}: {value}`",
    ),
    Mistake(
        rf"^(?:rule|target|rules|expect)\b.*[(,]\s*(?P<name>{NAME})\s+",
        rf"(?P<value>{NUMBER}|{NAME}|\"[^\"]*\")(?=\s*[,)])",
        "write `{name}: {value}`",
    ),
    Mistake(
        rf"^(?:rule\s+{NAME}\s*=|rules\s)\s*(?P<start>)(?P<pattern>{NAME})\s*",
        r'(?:=>|->|:)\s*(?P<label>"[^"\n]*")',
        "write `composite({label}, dfpattern({pattern}))`",
    ),
    *_POWERS,
    *_IMPLIED,
    Mistake(rf"(?P<left>{VALUE})\s*/\s*", rf"/\s*(?P<right>{VALUE})", "write `{left} / {right}`"),
    Mistake(r"[)\d]\s*", "~(?!=)", "write `~=`"),
    Mistake(
        r"^where\b.*",
        r"\?",
        "for `a ? b : c`, write `(a and b) or (not a and c)`",
    ),
    # Reasons.
    Mistake(
        r"^where\b.*\belse\s+(?P<start>)",
        r"(?P<text>[A-Za-z][^;\"{}]*[^;\"{}\s])(?=\s*;)",
        'write `"{text}"`',
    ),
    Mistake(
        r"^where\b[^()]*(?:\([^()]*\)[^()]*)*(?<=[\w)\]])(?P<start>)\s*",
        r'(?:,|:|->|=>|(?:because|otherwise|reason|message)\b)?\s*(?P<text>"[^"\n]*")(?=\s*;)',
        "write `else {text}`",
        new=" else {text}",
    ),
    # Words and signs.
    Mistake(
        rf"\bop_call_by_kind\(.*\b(?P<first>{NAME})\s*",
        rf"\|\|?\s*(?P<second>{NAME})",
        "write `{first}, {second}`",
    ),
    Mistake(
        rf"(?P<left>{VALUE})\s*",
        r"&\s*\d+",
        "conditions have no bits: `{left} % 16` is the remainder of a division by 16",
    ),
    Mistake(
        rf"^(?:rule|rules)\b.*[(,=]\s*(?P<start>)(?P<left>{VALUE})\s*",
        rf"\|\|?\s*(?P<right>{VALUE})",
        "write `union({left}, {right})`",
    ),
    *signs(
        r"^(?!rules?\b).*(?P<start>)",
        {
            "=>": "write `>=`",
            "=<": "write `<=`",
            "=!": "write `!=`",
            "&&": "write `and`",
            "&": "write `and`",
            "||": "write `or`",
            "|": "write `or`",
        },
        "",
    ),
    Mistake("==", "=", "write `==`"),
    Mistake("!=", "=", "write `!=`"),
    Mistake("<", ">", "write `!=`"),
    *(
        Mistake("", rf"(?!{word})(?i:{word})\b", f"write `{word}`, in small letters")
        for word in ("and", "or", "in")
    ),
    Mistake(r"\b(?!not)(?i:not)\s+", "", "write `not`, in small letters"),
    Mistake(rf"(?P<left>{VALUE})\s*", rf"not\s+in\s+{_RANGE}", "write `not {left} in {rest}`"),
    Mistake("", r"xor\b", "write `(…) != (…)`"),
    Mistake("", r"is\s+not\b", "compare with `!=`"),
    Mistake("", r"is\b", "compare with `==`"),
    Mistake("", r"mod\b", "write `%`"),
    Mistake("", r"[!~](?!=)", "write `not`"),
    Mistake(
        rf"(?P<least>{_ELEMENT})\s*(?P<first>{_COMPARED})\s*(?P<middle>{_ELEMENT})\s*",
        rf"(?P<second>{_COMPARED})\s*(?P<most>{_ELEMENT})",
        "write `{least} {first} {middle} and {middle} {second} {most}`",
    ),
    # Dimensions, and elements of lists.
    Mistake(
        rf"\b(?:shape|dim)\(\s*(?P<of>{NAME})\s*\)\s*",
        r"\[\s*(?P<axis>-?\d+)\s*\]",
        "write `dim({of}, {axis})`",
    ),
    Mistake(
        rf"\b(?:shape|dim)\(\s*(?P<of>{NAME})\s*\)\s*",
        r"\[",
        "write `dim({of}, 0)` for one dimension",
    ),
    Mistake(
        rf"(?P<fact>\b{_FACT}\(\s*{NAME}\s*\))\s*",
        r"\[",
        "write `{fact}` alone, which has no elements",
    ),
    Mistake(
        r"\b(?P<of>[A-Za-z_]\w*)\.shape\s*\[\s*",
        r"(?P<axis>-?\d+)\s*\]",
        "write `dim({of}, {axis})`",
    ),
    Mistake(
        rf"\b(?P<of>[A-Za-z_]\w*)\.(?P<fact>{_FACT})\s*\[\s*",
        r"",
        "write `{fact}({of})`, which has no elements",
    ),
    Mistake(
        r"^where\b.*(?<![\w.])(?P<of>[A-Za-z_]\w*)\s*\[\s*",
        r"(?P<axis>-?\d+)\s*\]",
        "write `dim({of}, {axis})` for a dimension",
    ),
    Mistake(
        rf"\b(?P<of>{NAME})\s*\[\s*",
        r"",
        "write `{of}[*]` for each element, or compare with a list: `{of} == [1, 1]`",
    ),
    # Fields of tuples.
    Mistake(
        rf"\b(?P<fact>{_FACT}|value|min|max)\(\s*(?P<of>{NAME})\s*",
        r"\.\s*(?P<at>\d+)",
        "give the field a name, `{free} = {of}.{at};`, and ask `{fact}({free})`",
    ),
    Mistake(
        rf"\b(?P<fact>dim|shape)\(\s*(?P<of>{NAME})\s*",
        r"\.\s*(?P<at>\d+)\s*,\s*(?P<axis>-?\d+)",
        "give the field a name, `{free} = {of}.{at};`, and ask `dim({free}, {axis})`",
    ),
    Mistake(
        rf"^where\b.*(?<![\w.])(?P<of>{NAME})\s*",
        r"\.\s*(?P<at>\d+)",
        "give the field a name, `{free} = {of}.{at};`, and ask about `{free}`",
    ),
    Mistake(
        rf"\[.*{BEGINS}(?P<start>)(?P<of>{NAME})\s*",
        r"\.\s*(?P<at>\d+)",
        "write `{of}[{at}]`",
    ),
    # Lists and ranges.
    Mistake(
        rf"(?P<start>)\[\s*(?P<least>{NUMBER})\s*",
        rf"\.\.+\s*(?P<most>{NUMBER})\s*\]",
        "write `{least}..{most}`, without brackets",
    ),
    Mistake(
        rf"(?P<least>{NUMBER})\s*\.\.\s*", rf"\.\s*(?P<most>{NUMBER})", "write `{least}..{most}`"
    ),
    *_RANGES,
    Mistake(
        rf"\bin\s+(?P<first>{VALUE})\s*", rf",\s*(?P<rest>{_ITEMS})", "write `in [{first}, {rest}]`"
    ),
    Mistake(
        rf"^rules\s+\(\s*(?P<first>{VALUE})\s*",
        r",\s*(?P<rest>[^;{}]*[^;{}\s,])\s*,?\s*\)\s*;",
        "write `rules union({first}, {rest});`",
    ),
    Mistake(
        rf"\(\s*(?P<first>{_ITEMS})\s*",
        rf",\s*(?P<rest>{_ITEMS})\s*,?\s*\)",
        "a list stands in brackets: write `[{first}, {rest}]`",
    ),
    Mistake(rf"\(\s*(?P<first>{_ITEMS})\s*", r",\s*\)", "write `[{first}]`"),
    Mistake(r"\(\s*", r"\)", "write `[]` for an empty list"),
    Mistake(
        "", rf"\{{\s*(?P<items>{_ITEMS})\s*,?\s*\}}", "a list stands in brackets: write `[{items}]`"
    ),
    Mistake(r"^where\b[^()]*(?:\([^()]*\)[^()]*)*", ",", "write `and` between conditions"),
    Mistake(
        r"=.*\[.*(?P<start>)",
        rf";(?=\s*{NAME}(?:\[[^\[\]]*\])?\s*(?:{_COMPARED}|in\b))",
        "write `,`",
    ),
    Mistake("", r"=", "compare with `==`"),
    Mistake(rf"^(?:where\b|{NAME}\s*=).*(?P<start>)", ":", "compare with `==`"),
)
