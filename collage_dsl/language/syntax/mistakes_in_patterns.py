"""Mistakes in the statements of a pattern."""

from collage_dsl.language.syntax.mistakes import (
    ARGUMENTS,
    ARROW,
    CALL,
    DTYPE,
    HAS,
    INNER,
    NAME,
    NUMBER,
    REST,
    VALUE,
    Mistake,
    calls,
    signs,
)
from collage_dsl.language.syntax.mistakes_in_repetitions import ALTERNATIVES, REPETITIONS

BINARY = {
    "**": "power",
    "//": "floor_divide",
    "<=": "less_equal",
    ">=": "greater_equal",
    "==": "equal",
    "!=": "not_equal",
    "&&": "logical_and",
    "||": "logical_or",
    "and": "logical_and",
    "or": "logical_or",
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "floor_mod",
    "@": "matmul",
    "<": "less",
    ">": "greater",
    "&": "bitwise_and",
}
"""The operator that a sign between two values stands for elsewhere; longer signs come first."""

UNARY = {"!": "logical_not", "~": "bitwise_not"}
"""The operator that a sign before a value stands for elsewhere."""

_OPERAND = rf"(?:{ARGUMENTS}\??\s*{ARGUMENTS}|{VALUE}|{ARGUMENTS})"
_NAMES = rf"{NAME}(?:\s*,\s*{NAME})*+"
_FACT = r"(?:dtype|rank|shape|dim|size|bytes|uses|has)"
_MODIFIER = r"(?P<word>shared|ordered|flat)\b"
_FIELDS = "write `fields = {rest};`: they are `fields.0` and `fields.1`"

PREFIXED = Mistake(rf"(?P<prefix>{NAME})", rf"::\s*(?P<name>{NAME})", "write `{prefix}.{name}`")
"""What is imported with a prefix, in patterns and rules."""

RESULTS_LAST = (
    Mistake(
        rf"^(?P<name>{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS})\s*{ARROW}\s*(?P<to>{NAME})\s*;",
        "write `{to} = {name}{rest};`",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*", rf"{ARROW}\s*(?P<rest>{CALL})\s*;", "write `{name} = {rest};`"
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*",
        rf"{ARROW}\s*(?P<op>{NAME})\s*{ARROW}\s*(?P<to>{NAME})\s*;",
        "write `{to} = {op}({name});`",
    ),
)
"""Arrows between values, in patterns and graphs."""

FIELDS_TOGETHER = tuple(
    mistake
    for before, first, last in (
        (rf"^(?P<name>{NAME})\s*", "", ""),
        ("^", rf"[(\[]\s*(?P<name>{NAME})\s*", r"\s*,?\s*[)\]]"),
    )
    for mistake in (
        Mistake(
            before,
            rf"{first},\s*(?P<second>{NAME}){last}\s*=\s*(?P<of>{NAME})\s*;",
            "write `{name} = {of}.0;`, then `{second} = {of}.1;`",
        ),
        Mistake(
            before,
            rf"{first},[^=;{{}}]*=\s*(?P<of>{NAME})\s*;",
            "each field is named by itself: write `{name} = {of}.0;`",
        ),
    )
)
"""Names for several fields of a tuple in one statement, in patterns and graphs."""

STATEMENTS = (
    *ALTERNATIVES,
    *REPETITIONS,
    Mistake(
        rf"[(,=]\s*(?P<start>)\[\s*(?P<first>[^\[\]()]*{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS}[^\[\]]*)\]",
        "a tuple stands in parentheses: `({first}{rest})`",
        new="({first}{rest})",
    ),
    *(
        Mistake(
            rf"[=(,]\s*(?P<start>)\[\s*(?P<ops>{NAME})\s*{before}",
            rf"{after}\s*(?P<rest>{ARGUMENTS})",
            said,
        )
        for before, after, said in (
            (
                "",
                rf"\|\s*(?P<last>{NAME}(?:\s*\|\s*{NAME})*+)\s*\]",
                "write `({ops} | {last}){rest}`",
            ),
            (rf",\s*(?P<last>{NAME})\s*\]\s*", "", "write `({ops} | {last}){rest}`"),
        )
    ),
    # Conditions.
    Mistake(
        r"^where\s*",
        ";",
        "a condition follows after `where`, as in `where dtype(x) == f32;`",
    ),
    Mistake(
        r"^where\s*",
        r"\{",
        "each condition has a `where` of its own, without braces: `where dtype(x) == f32;`",
    ),
    Mistake(
        r"^for\s+",
        NAME,
        "there are no loops: `repeat[1..3] nn.relu(x)` is a chain of calls",
    ),
    Mistake(
        r"^(?:match|switch)\s+",
        NAME,
        "one of several is `(a(x) | b(x))`, and one of several operators `(a | b)(x)`",
    ),
    Mistake(
        rf"^(?P<fact>{_FACT})\s*",
        rf"(?P<rest>{ARGUMENTS}\s*(?:[=!<>%]|in\b)[^;{{}}]*)",
        "write `where {fact}{rest};`",
    ),
    Mistake(
        r"^(?:if|when)\s+",
        rf"(?P<fact>{HAS})\s*(?::|then\b)\s*{REST}",
        "write `where not {fact} or {rest};`",
    ),
    Mistake(
        r"^(?:if|when)\s+",
        rf"(?P<fact>{HAS})\s*\{{\s*(?:where\s+)?{REST}",
        "write `where not {fact} or {rest};`",
        exact=False,
    ),
    Mistake(
        r"^(?:if|when|require|requires|assert|check|assume|given|filter)\s+",
        REST,
        "write `where {rest};`",
    ),
    Mistake(
        r"^(?:require|requires|assert|check|assume|given|filter)\s*",
        rf"\(\s*(?P<rest>{INNER})\)\s*;",
        "write `where {rest};`",
    ),
    Mistake(r"^where\s*", rf":\s*{REST}", "write `where {rest};`"),
    # Results.
    Mistake(r"^yield\s+", r"[%$@]", "a name consists of letters, digits and `_`"),
    Mistake(
        r"^return\s+", rf"(?P<rest>{CALL})\s*;", "write `{free} = {rest};`, then `yield {free};`"
    ),
    Mistake(
        r"^(?:return|output|out|result)\s+", rf"(?P<rest>{_NAMES})\s*;", "write `yield {rest};`"
    ),
    Mistake(r"^return\s+", "", "a pattern ends with `yield`"),
    Mistake(
        rf"^yield\s+(?P<name>{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "write `{free} = {name}{rest};`, then `yield {free};`",
    ),
    Mistake(
        rf"^yield\s+(?P<name>{NAME})",
        r"(?P<field>\.\d+)(?P<rest>[^;{}]*);",
        "write `{free} = {name}{field};`, then `yield {free}{rest};`",
    ),
    Mistake(
        rf"^yield\s+(?P<names>{NAME}(?:\s*,\s*{NAME})*)\s*,\s*(?P<name>{NAME})",
        r"(?P<field>\.\d+)(?P<rest>[^;{}]*);",
        "write `{free} = {name}{field};`, then `yield {names}, {free}{rest};`",
    ),
    Mistake(
        r"^yield\s*",
        rf"[:=(\[]\s*(?P<rest>{_NAMES})\s*,?\s*[)\]]?\s*;",
        "write `yield {rest};`",
    ),
    Mistake(
        rf"^yield\s+(?P<names>{_NAMES})\s+",
        rf"(?P<rest>{NAME})\s*;",
        "write `yield {names}, {rest};`",
    ),
    Mistake(rf"^(?P<name>{NAME})\s*", r";|(?=\})", "write `yield {name};` for the result"),
    # Bindings.
    Mistake(
        rf"^(?P<word>{NAME})\s+",
        rf"(?P<name>{NAME})\s*(?::\s*{NAME}\s*)?(?::?=|<-)(?!=)\s*{REST}",
        "write `{name} = {rest};`, without `{word}`",
    ),
    Mistake(
        rf"^(?P<name>{NAME})\s*",
        rf":\s*{NAME}(?:\s*\[[^\]]*\])?\s*=\s*{REST}",
        "write `{name} = {rest};`; `where dtype({name}) == f32;` asks for a dtype",
    ),
    Mistake(rf"^(?P<name>{NAME})\s*", rf"(?::=|<-|:)\s*{REST}", "write `{name} = {rest};`"),
    Mistake(rf"^(?P<name>{NAME})\s*=", rf"[=>]\s*{REST}", "write `{name} = {rest};`"),
    *RESULTS_LAST,
    Mistake("^", rf"{ARROW}\s*(?P<rest>{_NAMES})\s*;", "write `yield {rest};`"),
    Mistake(rf"^(?P<name>{NAME})\s+", rf"(?P<rest>{CALL})\s*;", "write `{name} = {rest};`"),
    Mistake(
        rf"^(?P<name>{NAME})\s*",
        rf"(?P<rest>{ARGUMENTS}[^;{{}}]*)",
        "write `{free} = {name}{rest};`",
    ),
    Mistake(rf"^{NAME}\s*", rf",[^=;{{}}]*=\s*(?P<rest>{CALL})", _FIELDS),
    Mistake(r"^", rf"[(\[]\s*{NAME}\s*,[^=;{{}}]*=\s*(?P<rest>{CALL})", _FIELDS),
    *FIELDS_TOGETHER,
    Mistake(
        rf"^(?P<name>{NAME})\s*",
        rf"(?P<sign>\*\*|//|[-+*/])=\s*(?P<rest>{VALUE})\s*;",
        "each value has a name of its own: write `{free} = …;`",
    ),
    Mistake("^", r'"', "comments begin with `#`", exact=False),
    Mistake("^", r"[%$@]", "a name consists of letters, digits and `_`"),
)

_OPS = rf"(?P<first>{NAME})\s*,\s*(?P<second>{NAME})"

_TVM = (
    Mistake(
        r"(?P<start>)\bis_op\s*\(\s*",
        rf'"(?:relax\.)?(?P<op>{NAME})"\s*\)\s*(?P<rest>{ARGUMENTS})',
        "write `{op}{rest}`",
    ),
    Mistake(
        rf"(?P<of>{CALL})\s*\.\s*",
        r"has_attr\b",
        "attributes stand in brackets: `{of} [groups == 1]`",
    ),
    Mistake(
        rf"{CALL}\s*\.\s*",
        r"has_\w+",
        "conditions stand in a statement: `where dtype(y) == f32;`",
    ),
    Mistake(
        rf"(?P<of>{CALL})\s*\.\s*", r"optional\b", "`nn.relu?({of})` may be absent", exact=False
    ),
    Mistake(
        r"(?P<op>call_\w+)\s*\(\s*",
        rf'(?P<text>"[^"\n]*")\s*(?:,\s*)?(?P<rest>{INNER})\)',
        "write `{op}({rest}) [function == {text}]`",
    ),
)
"""What the patterns of TVM are made of in Python, and its calls of functions."""

_ABSENT = (
    Mistake(
        rf"(?P<start>)\(\s*(?P<op>{NAME})\s*(?P<rest>{ARGUMENTS})\s*\)\s*\?\s*",
        r"(?=[;,)])",
        "write `{op}?{rest}`",
    ),
    Mistake(
        rf"(?P<start>)\b(?P<op>{NAME})\s*\((?P<others>[^()]*?)\s*,\s*(?P<name>{NAME})\s*\?\s*",
        r"\)",
        "write `{op}?({others}, {name})`: the call may be absent",
        new="{op}?({others}, {name})",
    ),
    Mistake(
        rf"[=(,|]\s*(?P<start>)(?P<op>{NAME})\s*(?P<rest>{ARGUMENTS}(?:\s*\[[^\[\]]*\])?)\s*",
        r"\?",
        "write `{op}?{rest}`",
    ),
    Mistake(
        rf"(?P<start>)\b(?:optional|maybe|opt)\s*\(\s*(?P<op>{NAME})\s*\)\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "write `{op}?{rest}`",
    ),
    Mistake(
        r"(?P<start>)\b(?:optional|maybe|opt)\s+",
        rf"(?P<op>{NAME})\s*(?P<rest>{ARGUMENTS})",
        "write `{op}?{rest}`",
    ),
    Mistake(
        rf"(?P<start>)\bone_of\s*\(\s*{_OPS}\s*,?\s*\)\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "write `({first} | {second}){rest}`",
    ),
    Mistake(
        r"\bone_of\s*\([^()]*\)\s*",
        r"\(",
        "a class of operators has a name: `let act = one_of(…);`, and `act(x)` in the pattern",
    ),
)
"""Calls that may be absent, or of several operators."""

OPERANDS = (
    PREFIXED,
    *_TVM,
    *_ABSENT,
    Mistake(
        rf"(?P<of>{CALL})\s*",
        rf"\{{\s*\"?(?P<name>{NAME})\"?\s*(?:==|[:=])\s*(?P<value>[^{{}};]*[^{{}};\s])\s*\}}",
        "attributes stand in brackets: `{of} [{name} == {value}]`",
    ),
    Mistake(
        rf"[=(,]\s*(?P<op>(?!(?:repeat|each|path)\b){NAME})\s*",
        rf"\[(?P<asked>[^\[\]]*+(?:\[[^\[\]]*+\][^\[\]]*+)*+)\]\s*(?P<rest>{ARGUMENTS})",
        "write `{op}{rest} [{asked}]`",
    ),
    Mistake(
        rf"[=(,]\s*{NAME}\.\s*",
        r"\*",
        "an operator has a name: write `(nn.relu | nn.gelu)(x)`, or a kind, as in `elementwise(x)`",
    ),
    Mistake(rf"(?P<of>{CALL}|{NAME})\s*", r"\[\s*(?P<field>\d+)\s*\]", "write `{of}.{field}`"),
    Mistake(
        r"[(,=]\s*(?P<start>)const\s+",
        rf"(?:{DTYPE}\s*\[\s*\]\s*)?(?P<number>{NUMBER})",
        "write `{number}`, without `const`",
    ),
    # Calls that may be absent.
    Mistake(
        rf"^(?P<name>{NAME})\s*=\s*(?P<op>{NAME})\??\s*(?P<rest>{ARGUMENTS})\s*",
        rf"if\s+{HAS}[^;{{}}]*",
        "write `{name} = {op}?{rest}`",
    ),
    # Alternatives.
    Mistake(r"\|", r"\|", "write `|`"),
    Mistake("", r"or\b", "write `|`", instead_of="VBAR"),
    Mistake(
        rf"=\s*(?P<left>{NAME})\s*",
        rf"(?:or\b|\|\|)\s*(?P<right>{NAME})\s*;",
        "write `({left} | {right})` for either of them, or `logical_or({left}, {right})`",
    ),
    Mistake(
        rf"(?P<left>{_OPERAND})\s*",
        rf"(?:or\b|\|\|?)\s*(?P<right>{_OPERAND})",
        "write `({left} | {right})`",
    ),
    Mistake(
        rf"=\s*(?P<start>)\(\s*(?P<first>{NAME})\s*,\s*(?P<second>{NAME})\s*\)\s*",
        rf"(?P<rest>{ARGUMENTS})",
        "write `({first} | {second}){rest}`",
    ),
    Mistake(
        r"[(,]\s*",
        rf"\*+\s*{NAME}",
        "a tuple of any values is written `each[2..8] _`",
    ),
    Mistake(
        rf"(?P<start>)(?P<value>{NUMBER})\s*",
        rf"(?:\+\s*/?\s*-|±)\s*(?P<by>{NUMBER})",
        "write `~{value} within {by}`: a share of the number",
        new="~{value} within {by}",
    ),
    Mistake(
        rf"{CALL}\s*",
        rf"(?:=>|->)\s*{CALL}",
        "nothing is rewritten: a pattern only says what is matched",
    ),
    # Words after calls.
    Mistake(
        rf"\(\s*(?P<first>{CALL})\s*\|\s*(?P<second>{CALL})\s*\)\s*",
        _MODIFIER,
        "write `({first} {word} | {second} {word})`",
    ),
    Mistake("", _MODIFIER, "`{word}` stands after the call of an operator: `exp(x) {word}`"),
    Mistake(
        rf"(?P<of>{_OPERAND})\s*",
        rf"{ARROW}\s*(?P<op>{NAME})",
        "a call is written `{op}({of})`, and a statement ends with `;`",
    ),
    *signs(
        rf"(?P<left>{_OPERAND})\s*",
        calls(BINARY, "{left}, {right}"),
        rf"\s*(?P<right>{_OPERAND})",
    ),
    *signs(
        "=.*(?P<start>)",
        calls(UNARY, "{right}"),
        rf"\s*(?P<right>{_OPERAND})",
    ),
    *(
        Mistake(rf"{sign}\s*", rf"(?P<right>{_OPERAND})", f"write `{operator}({{right}})`")
        for sign, operator in (("-", "negative"), (r"\bnot", "logical_not"))
    ),
    *signs(
        r"=.*[\w)\]]\s*",
        calls(BINARY, "…, …"),
        r"\s*[\w(]",
    ),
)
