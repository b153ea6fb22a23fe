"""Mistakes in the text of a graph."""

from collage_dsl.language.syntax.mistakes import (
    ARGUMENTS,
    ARROW,
    BEGINS,
    CALL,
    DTYPE,
    NAME,
    NUMBER,
    REST,
    Mistake,
    calls,
    signs,
)
from collage_dsl.language.syntax.mistakes_in_patterns import (
    BINARY,
    FIELDS_TOGETHER,
    RESULTS_LAST,
    UNARY,
)

_NAMES = rf"{NAME}(?:\s*,\s*{NAME})*+"
_DIMS = rf"{BEGINS}(?P<dtype>{DTYPE})\s*\[\s*"
"""A type up to its first dimension."""
_ITEMS = r"^[^(]*+\(.*\[\s*"
"""A list among operands up to its first item."""
_FIRST = (("(?P<start>)", ""), (r"(?P<first>(?:[^\[\],;]++,\s*+)++)(?P<start>)", "{first} "))
"""The items before the place, and how they are shown: there are none, or some."""
_LAST = r"\s*(?P<last>(?:,[^\[\];]*)?)\]"
_SIGN = r"(?P<sign>\*\*|//|[-+*/%])\s*(?P<right>[^,\[\];`\"]*[^,\[\];`\"\s])"
_QUOTED = r"[`\"](?P<text>[^`\"\n]++)[`\"]"
_CALCULATED = r"(?P<text>[^,\[\];`\"]*[^,\[\];`\"\s])"
_TYPE = rf"(?P<type>{DTYPE}\s*\[[^\]]*\])"

_DIMENSIONS = (
    *(
        Mistake(
            rf"{_DIMS}{first}",
            rf"-\s*1{_LAST}",
            "write `?` for a dimension that is not known",
            new="?{last}]",
        )
        for first, _ in _FIRST
    ),
    *(
        Mistake(rf"{_DIMS}{first}", rf"-\s*\d+{_LAST}", "a dimension is not negative")
        for first, _ in _FIRST
    ),
    *(
        Mistake(
            rf"{_DIMS}{first}{before}",
            rf"{after}{_LAST}",
            f"a calculated dimension stands in backticks: {{dtype}}[{shown}`{text}`{{last}}]",
            new=f"`{text}`{{last}}]",
        )
        for first, shown in _FIRST
        for before, after, text in (
            (r"(?P<left>\w+)\s*", _SIGN, "{left} {sign} {right}"),
            ("", _QUOTED, "{text}"),
            ("", r"(?=[-+(])" + _CALCULATED, "{text}"),
        )
    ),
    *(
        Mistake(
            rf"{_ITEMS}{first}{before}",
            rf"{after}{_LAST}",
            f'a calculated item stands in double quotes: `[{shown}"{text}"{{last}}]`',
            new=f'"{text}"{{last}}]',
        )
        for first, shown in _FIRST
        for before, after, text in (
            (r"(?P<left>\w+)\s*", _SIGN, "{left} {sign} {right}"),
            ("", _QUOTED, "{text}"),
            ("", r"(?=[+(])" + _CALCULATED, "{text}"),
        )
    ),
)
"""Dimensions of types and items of lists that depend on symbols."""

MISTAKES = (
    Mistake(
        rf"^(?P<input>{NAME}\s*:\s*{DTYPE}\s*\[[^\]]*\])\s*",
        rf"(?={NAME}\s*[:=])",
        "write `{input};`",
        new="{input}; ",
    ),
    *_DIMENSIONS,
    # Inputs and constants.
    Mistake(
        rf"^(?P<name>{NAME})\s*:\s*",
        rf"\[(?P<dims>[^\[\]]*)\]\s*(?P<type>{DTYPE})",
        "write `{name}: {type}[{dims}]`",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*=\s*[A-Za-z.]*(?i:input|placeholder|param|parameter|var)\s*\(\s*(?P<type>{DTYPE})\s*",
        r"(?P<dims>\[[^\[\]]*\])\s*\)",
        "write `{name}: {type}{dims}`",
    ),
    Mistake(r"(?P<start>)\bconst\s+", rf"(?P<number>{NUMBER})", "write `const f32[] {number}`"),
    Mistake(
        rf"^(?P<first>{NAME}\s*:\s*{_TYPE})\s*",
        rf",(?=\s*{NAME}\s*:)",
        "write `{first};`: a statement ends with `;`",
        new="{first};",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*:\s*const\s+",
        rf"{_TYPE}\s*(?P<rest>[^;{{}}]*)",
        "write `{name} = const {type}{rest};`",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*=\s*{DTYPE}\s*",
        r"",
        "write `{name}: f32[…];` for an input, `{name} = const f32[…];` for a constant",
    ),
    Mistake(
        rf"^(?P<type>{DTYPE})\s*",
        rf"(?P<dims>\[[^\]]*\])\s*(?P<name>{NAME})\s*;",
        "write `{name}: {type}{dims};`",
    ),
    Mistake(
        rf"^(?P<word>{NAME})\s+",
        rf"(?P<name>{NAME})\s*:\s*(?P<rest>[^;{{}}=]*[^;{{}}\s=])\s*;",
        "write `{name}: {rest};`, without `{word}`",
    ),
    Mistake(
        rf":\s*(?P<type>{DTYPE})\s*",
        r"\(\s*(?P<dims>[^()]*[^()\s,])?\s*,?\s*\)",
        "write `{type}[{dims}]`",
    ),
    Mistake(
        rf"(?P<start>)^(?P<name>{NAME})\s*:\s*(?:R\.)?Tensor\s*",
        rf'\(\s*[(\[](?P<dims>[^()\[\]]*?),?\s*[)\]]\s*,\s*(?:dtype\s*=\s*)?"(?P<dtype>{DTYPE})"\s*\)',
        "write `{name}: {dtype}[{dims}]`",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*:\s*(?:tensor\s*)?",
        rf"<?(?:[\d?]+x)+(?P<dtype>{DTYPE})",
        "the sizes stand in brackets: `{name}: {dtype}[4, 8]`",
    ),
    *(
        Mistake(
            rf"^(?P<name>{NAME})\s*:\s*{before}",
            rf"{after}(?P<dims>(?:[\w?]+\s*,\s*)*[\w?]+)\s*,?\s*[)\]]\s*(?=;)",
            "write `{name}: f32[{dims}]`: a type has a dtype",
            new="{name}: f32[{dims}]",
        )
        for before, after in ((r"\(\s*", ""), ("", r"[(\[]\s*"))
    ),
    # Nodes.
    Mistake(
        rf"^(?P<word>{NAME})\s+",
        rf"(?P<name>{NAME})\s*:?=\s*{REST}",
        "write `{name} = {rest};`, without `{word}`",
    ),
    Mistake(rf"^(?P<name>{NAME})\s*:\s*", rf"=\s*{REST}", "write `{name} = {rest};`"),
    Mistake(rf"^(?P<name>{NAME})\s*=", rf"[=>]\s*{REST}", "write `{name} = {rest};`"),
    *RESULTS_LAST,
    *FIELDS_TOGETHER,
    *(
        Mistake(
            before,
            rf"{first},[^=;{{}}]*=\s*(?P<rest>{CALL})",
            "write `fields = {rest};`, then `{name} = fields.0;`",
            exact=False,
        )
        for before, first in (
            (rf"^(?P<name>{NAME})\s*", ""),
            ("^", rf"[(\[]\s*(?P<name>{NAME})\s*"),
        )
    ),
    Mistake(rf"^(?P<name>{NAME})\s*", rf"<-\s*{REST}", "write `{name} = {rest};`"),
    Mistake(
        r"^(?:return|returns|yield|output|outputs|out)\s*",
        rf"[(\[]\s*(?P<rest>{_NAMES})\s*,?\s*[)\]]\s*;",
        "write `return {rest};`",
    ),
    Mistake(
        rf"^return\s+(?P<name>{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "write `{free} = {name}{rest};`, then `return {free};`",
    ),
    Mistake(rf"^(?P<name>{NAME})\s*", rf"(?P<rest>{ARGUMENTS})", "write `{free} = {name}{rest};`"),
    Mistake(r"^(?:yield|output|out)\s+", rf"(?P<rest>{_NAMES})\s*;", "write `return {rest};`"),
    Mistake(rf"=\s*(?P<of>{NAME})\s*", r"\[\s*(?P<field>\d+)\s*\](?=\s*;)", "write `{of}.{field}`"),
    # Operands and attributes.
    Mistake(
        rf"\(.*{BEGINS}(?P<name>{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "name this value first: write `{free} = {name}{rest};`",
    ),
    Mistake(
        rf"\(.*{BEGINS}(?P<of>{NAME})\s*",
        r"(?:\.\s*(?P<field>\d+)|\[\s*(?P<item>\d+)\s*\])",
        "name this value first: write `{free} = {of}.{field}{item};`",
    ),
    Mistake(
        r"[(,]\s*",
        r"\((?P<rest>[^()]*,[^()]*)\)",
        "name the tuple first: write `{free} = ({rest});`",
    ),
    Mistake(
        rf"\[.*{BEGINS}(?P<name>{NAME})\s*=", r"=", "an attribute has a value: write `{name} = …`"
    ),
    Mistake(rf"\[.*{BEGINS}(?P<name>{NAME})\s*", r"(?::=|:)", "write `{name} = …`"),
    Mistake(
        r"\[.*=\s*", r"\(\s*(?P<items>[^()]*[^()\s,])\s*,?\s*\)", "write `[{items}]` for a list"
    ),
    Mistake("=.*", ARROW, "a call is written `exp(x)`, and a statement ends with `;`"),
    # Signs between values.
    *signs(
        rf"(?P<left>{NAME})\s*",
        calls(BINARY, "{left}, const f32[] {right}"),
        rf"\s*(?P<right>{NUMBER})",
    ),
    *signs(
        rf"(?P<left>{NAME})\s*",
        calls(BINARY, "{left}, {right}"),
        rf"\s*(?P<right>{NAME})(?!\s*\()",
    ),
    *signs(
        "=.*(?P<start>)",
        calls(UNARY, "{right}"),
        rf"\s*(?P<right>{NAME})",
    ),
    Mistake(r"-\s*", rf"(?P<right>{NAME})", "write `negative({right})`"),
    *signs(
        r"=.*[\w)\]]\s*",
        calls(BINARY, "…, …"),
        r"\s*[\w(]",
    ),
)
