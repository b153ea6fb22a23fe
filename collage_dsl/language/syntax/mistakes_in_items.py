"""Mistakes outside of braces: in definitions, parameters, and the beginnings of blocks."""

from collage_dsl.language.syntax.mistakes import CALL, DTYPE, NAME, REST, VALUE, Mistake
from collage_dsl.language.syntax.mistakes_in_imports import IMPORTS

_DIMS = r"\[(?P<dims>[^\]]*)\]"
_OF = rf"\b(?P<name>{NAME})\s*:\s*"
"""The beginning of a parameter with a sort: `x: `."""
_WORD_OF_VALUE = r"(?i:tensor|value|val|var|input|any|auto)\b"
"""What other languages write before a parameter that may be anything."""

_ASK = "`where dtype({name}) == {dtype};` in the pattern asks for the dtype"
_IS = r"(?:=>|->|:=|=|:)\s*"

_PARAMETERS = tuple(
    Mistake(rf"^pattern\b.*{before}", after, said)
    for before, after, said in (
        # Optional ones.
        (
            rf"{_OF}(?P<sort>(?!\s)(?:[^,:()\[\]]|\[[^\[\]]*\])+?)\s*",
            r"\?",
            "write `{name}?: {sort}`",
        ),
        (_OF, r"\?", "write `{name}?`"),
        (rf"\b(?P<name>{NAME})\s*", r"=\s*none\b", "write `{name}?`"),
        (r"[(,]\s*(?P<start>)", rf"\?\s*(?P<name>{NAME})", "write `{name}?`"),
        # Shapes and dtypes.
        (rf"{_OF}const\s*,?\s*", _DIMS, "write `{name}: const & [{dims}]`"),
        (rf"{_OF}(?P<dtype>{DTYPE})\s*", _DIMS, "write `{name}: [{dims}]`; " + _ASK),
        (rf"{_OF}{NAME}\s*", _DIMS, "write `{name}: [{dims}]`"),
        (
            rf"{_OF}const\s*",
            rf"(?P<dtype>{DTYPE})\s*{_DIMS}",
            "write `{name}: const & [{dims}]`; " + _ASK,
        ),
        (rf"{_OF}const\s*&?\s*", rf"(?P<dtype>{DTYPE})\b", "write `{name}: const`; " + _ASK),
        (rf"{_OF}(?P<dtype>{DTYPE})\s*&\s*", r"const\b", "write `{name}: const`; " + _ASK),
        (rf"{_OF}{_DIMS}\s*", rf"&\s*(?P<dtype>{DTYPE})\b", "write `{name}: [{dims}]`; " + _ASK),
        (rf"{_OF}{_DIMS}\s*", r"&\s*const\b", "write `{name}: const & [{dims}]`"),
        (_OF, rf'"(?P<dtype>{DTYPE})"', "write `{name}`; " + _ASK),
        (rf"{_OF}dtype\s*", rf"\(\s*(?P<dtype>{DTYPE})\s*\)", "write `{name}`; " + _ASK),
        (rf"[(,]\s*(?P<dtype>{DTYPE})\s+", rf"(?P<name>{NAME})", "write `{name}`; " + _ASK),
        (_OF, r"\((?P<dims>[^()]*)\)", "write `{name}: [{dims}]`"),
        (rf"{_OF}\[(?:[^\]]*,)?\s*(?P<start>)", r"[?*]|-\s*1\b", "write `_` for any size"),
        (rf"{_OF}\[[^\]]*\.\.", r"\.", "write `..` for any number of dimensions"),
        (
            rf"{_OF}\[[^\]]*",
            r"[-+*/%(]",
            "a dimension is a name, a number or `_`; `where` can calculate with the name",
        ),
        (rf"[(,]\s*(?P<name>{NAME})\s*", _DIMS, "write `{name}: [{dims}]`"),
        (
            rf"{_OF}tensor\s*",
            rf"<[^<>]*?(?P<dtype>{DTYPE})\s*>",
            "dimensions stand in brackets, `{name}: [n, 16]`; " + _ASK,
        ),
        # Where values come from.
        (_OF, rf"(?:!|~|-|no\b|non\b|except\b)\s*(?P<what>{NAME})", "write `{name}: not {what}`"),
        (
            rf"[(,]\s*(?P<name>{NAME})\s*(?::[^,()]*)?",
            "=",
            "a parameter has no default value; `{name}?` may be absent",
        ),
        (
            rf"{_OF}[^,()]*",
            r"\|",
            "a parameter is of one sort; `{name}` alone is any value",
        ),
        (
            r"[(,]\s*(?P<start>)",
            rf"\*+\s*(?P<name>{NAME})",
            "a parameter is one value; `each[2..8] _` is a tuple of any values",
        ),
        (r"[(,]\s*(?P<start>)", rf"[%$@]\s*(?P<name>{NAME})", "write `{name}`"),
        # Constants.
        (r"[(,]\s*(?P<start>)const\s+", rf"(?P<name>{NAME})", "write `{name}: const`"),
        (rf"[(,]\s*(?P<name>{NAME})\s+", r"const\b", "write `{name}: const`"),
        # Words before parameters, and signs between them.
        (rf"[(,]\s*(?P<start>){_WORD_OF_VALUE}\s+", rf"(?P<name>{NAME})", "write `{name}`"),
        (
            rf"[(,]\s*(?!{_WORD_OF_VALUE})(?P<first>{NAME}\??)\s+",
            rf"(?P<second>{NAME}\??)(?=\s*[,:)])",
            "write `{first}, {second}`",
        ),
        (r"\([^()]*(?P<start>)", ";", "write `,`"),
    )
)

_PATTERNS = (
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        r"[,:]?\s*(?:with\s+|has\s+)?(?:benefit|priority|weight|cost)\b",
        "a pattern has no priority: each match is a candidate, and costs decide between them",
    ),
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        rf"(?:->|=>|:)\s*(?:[A-Z]\w*|tensor|{DTYPE})\s*(?:\[[^\[\]]*\]\s*)?\{{",
        "write `pattern {head} {{`",
    ),
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        r"(?:when|where|if|requires|given)\b\s*(?P<rest>[^{};]*[^{};\s])\s*\{",
        "conditions stand in the braces: write `pattern {head} {{ where {rest};`",
        new="pattern {head} {{ where {rest};",
    ),
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        rf"(?:extends|inherits|implements|is|from)\s+(?P<other>{NAME})\s*\{{",
        "a pattern is not extended: call the other one, as in `z = {other}(x);`",
    ),
    Mistake(
        rf"^pattern\s+{NAME}\s*",
        "<",
        "a pattern has no parameters for operators: `let act = one_of(nn.relu, exp);` names some",
    ),
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        rf"(?:->|=>|:)\s*\(?\s*(?P<names>{NAME}(?:\s*,\s*{NAME})*+)\s*\)?\s*\{{",
        "write `pattern {head} {{`, and `yield {names};` at the end",
        new="pattern {head} {{",
    ),
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        rf"{_IS}\{{",
        "write `pattern {head} {{`",
    ),
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        rf"(?:{_IS})?(?P<bound>{NAME})\s*=\s*{REST}",
        "write `pattern {head} {{ {bound} = {rest}; yield {bound}; }}`",
        exact=False,
    ),
    Mistake(
        r"^pattern\s+(?P<head>.*\))\s*",
        rf"(?:{_IS})?{REST}",
        "write `pattern {head} {{ {free} = {rest}; yield {free}; }}`",
    ),
    Mistake(
        rf"^pattern\s+(?P<name>{NAME})\s*",
        rf"{_IS}{REST}",
        "write `pattern {name}(x) {{ {free} = {rest}; yield {free}; }}`",
    ),
    Mistake(
        rf"^pattern\s+(?P<name>{NAME})\s*",
        rf"(?P<first>{NAME}(?:\s*+(?:,\s*+)?{NAME})*+)?\s*\{{",
        "the parameters stand in parentheses: write `pattern {name}(x) {{`",
    ),
)

_RULES = (
    Mistake(
        rf"^rule\s+(?P<name>{NAME})\s*=\s*lambda\s+",
        rf"(?P<parameters>{NAME}(?:\s*,\s*{NAME})*+)\s*:\s*{REST}",
        "write `rule {name}({parameters}) = {rest}`",
    ),
    Mistake(
        rf"^rule\s+(?P<name>{NAME})\s*=\s*(?P<first>{VALUE})\s*",
        r"[,|+]\s*(?P<rest>[^;{}]*[^;{}\s,])",
        "write `rule {name} = union({first}, {rest});`",
    ),
    Mistake(
        rf"^let\s+(?P<name>{NAME})\s*=\s*\(?\s*(?P<first>{NAME})\s*",
        rf"[|,]\s*(?P<rest>{NAME})\s*\)?\s*;",
        "write `let {name} = one_of({first}, {rest});`",
    ),
    Mistake(
        rf"^let\s+(?P<name>{NAME})\s*=\s*\(?\s*{NAME}\s*",
        r"[|,]",
        "write `let {name} = one_of(…);`",
    ),
    Mistake(
        rf"^(?P<word>rule|let)\s+(?P<name>{NAME}(?:\s*\([^()]*\))?)\s*=?",
        rf"(?:{_IS}|<-|\{{)?\s*(?P<rest>{VALUE})\s*[;}}]",
        "write `{word} {name} = {rest};`",
    ),
)

_KIND = rf"{NAME}(?:\s*\([^()]*\))?"
"""A kind of targets, also with options."""

_TARGETS = (
    Mistake(
        r"^target\s*",
        rf"[:=]\s*\"?(?P<name>{NAME})\"?",
        "write `target {name} on llvm {{`",
        exact=False,
    ),
    Mistake(
        "^",
        r"\[+\s*(?:targets?\.)?(?P<name>\w+)\s*\]",
        "write `target {name} on llvm {{`",
        exact=False,
    ),
    Mistake(
        r"^target\b.*[(,]\s*[A-Za-z_]\w*(?:-[A-Za-z_]\w*)+\s*",
        "[:=]",
        "in the name of an option, write `_` in place of each `-`",
    ),
    Mistake(
        r"^target\s+on\s+", rf"(?P<kind>{NAME})", "write `target t on {kind}`: a target has a name"
    ),
    Mistake(r"^target\s+(?P<name>[\w.]+)\s*", r"\{", "write `target {name} on llvm {{`"),
    Mistake(r"^target\s+(?P<name>[\w.]+)\s*", ";", "write `target {name} on llvm {{`", exact=False),
    Mistake(
        r"^target\s+(?P<name>[\w.]+)\s*",
        rf'(?:{_IS}|[@(]|(?:for|as|in|is|with)\b)?\s*"?(?P<kind>{NAME})"?\s*\)?\s*\{{?',
        "write `target {name} on {kind} {{`",
    ),
    Mistake(
        rf"^target\s+(?P<name>[\w.]+)\s+on\s+(?P<kind>{_KIND})\s*",
        r"[,:=]\s*\{",
        "write `target {name} on {kind} {{`",
    ),
    Mistake(
        rf"^target\s+(?P<name>[\w.]+)\s+on\s+(?P<kind>{_KIND})\s*",
        r"[,;:=]",
        "write `target {name} on {kind} {{`",
        exact=False,
    ),
    Mistake(
        r"^target\b.*\b(?P<start>)on\s+",
        rf'"(?P<kind>{NAME})"',
        "write `on {kind}`, without quotes",
    ),
    Mistake(
        r"^target\b.*\bon\s+",
        rf'"(?P<kind>{NAME})\s+-+(?P<option>[A-Za-z_]\w*)=(?P<value>[^\s"]+)[^"]*"',
        'write `{kind}({option}: "{value}")`: options stand in parentheses',
        exact=False,
    ),
    Mistake(
        rf"^target\b.*\bon\s+(?P<kind>{NAME})\s*",
        r"\[\s*(?P<options>[^\[\]]*[^\[\]\s])\s*\]",
        "options stand in parentheses: `{kind}({options})`",
    ),
    Mistake(
        rf"^target\b.*\bon\s+(?P<kind>{NAME})\s*",
        r"-+(?P<option>[A-Za-z_]\w*)=(?P<value>[^\s{}]+)",
        'options stand in parentheses: `{kind}({option}: "{value}")`',
    ),
)

_LINK = r"(?:->|=>|:|(?:to|on|in|at|for)\b)"
"""What stands between what is placed and the target."""

_GLOBS = (
    Mistake(
        r"^(?:pin|forbid)\s+name\(\s*(?P<start>)",
        r'(?P<text>[^"();\s]+)(?=\s*\))',
        'write `"{text}"`',
    ),
)

_PLACEMENTS = tuple(
    Mistake(
        rf"^(?P<word>{word})\s+{before}\s*",
        rf"{after}\s*(?P<target>{NAME})",
        f"write `{{word}} {what} {link} {{target}}`",
    )
    for word, link in (("pin", "to"), ("forbid", "on"))
    for before, after, what in (
        (rf"(?P<what>{CALL})", rf"{_LINK}?", "{what}"),
        (rf"(?P<what>{NAME})", _LINK, "op({what})"),
        ("", rf'(?P<what>"[^"\n]*")\s*{_LINK}', "name({what})"),
    )
) + tuple(
    Mistake(
        rf"^{word}\s+(?:to|on)\s+",
        rf"(?P<target>{NAME})",
        f"say what: `{word} op(nn.softmax) {link} {{target}}`",
    )
    for word, link in (("pin", "to"), ("forbid", "on"))
)

_PATTERN = "write `pattern {name}({parameters}) {{`"
_FUNCTION = "def|defn|fn|fun|func|function|macro|template"

_WORDS = tuple(
    Mistake(r"^", rf"(?:{theirs})\s+(?P<name>{NAME})", said, exact=False)
    for theirs, said in (
        (rf"(?:{_FUNCTION})(?=\s+\w+\s*\((?P<parameters>[\w\s,]+)\))", _PATTERN),
        (_FUNCTION, "write `pattern {name}(x) {{`"),
        ("rewrite|replace|substitute", "nothing is rewritten: write `pattern {name}(x) {{`"),
        ("for|foreach|while", "there are no loops: `rule r(p) = dfpattern(p);` has parameters"),
        ("class|const|var|val|set|alias|type|group", "write `let {name} = one_of(…);`"),
        ("backend|device|hardware|platform", "write `target {name} on llvm {{`"),
        (
            "module|namespace|package|library",
            "remove it: a file has no name of its own, and its definitions no prefix",
        ),
        ("from|include|use|using|require", 'write `import "FILE" only (NAME);`'),
    )
)

_INCLUDED = Mistake(
    "^",
    r'(?:from|include|use|using|require)\b[\s(]*(?P<path>"[^"\n]*")',
    "write `import {path} only (NAME);`",
    exact=False,
)

_OTHER_FORM = (
    "a spec is written in the language of `.collage` files; `collage convert` reads its JSON and "
    "YAML"
)
_YAML = r"(?:---\s+)?[\"']?(?:collage|targets)[\"']?\s*:"
"""The first key of a spec in YAML; `collage` by itself is read as the edition."""

MISTAKES = (
    *IMPORTS,
    Mistake(
        "^",
        r"(?:yield|where|anchor|taps)\b",
        "statements of a pattern stand in its braces: `{{ … }}`",
    ),
    Mistake("^", ";", "remove it: a definition ends with `}}`", exact=False),
    Mistake(r"^collage\s+", r'"(?P<edition>\d+)"', "write `{edition}`, without quotes"),
    Mistake(
        r"^collage\s+(?P<start>)",
        r"(?:[vV]|(?:version|edition)\b|[:=])\s*(?P<edition>\d+)\b",
        "write `{edition}`",
    ),
    Mistake("^", rf"\{{\s*\"|<|\[\s*[{{\"]|{_YAML}", _OTHER_FORM, exact=False),
    Mistake("^", r'"', "comments begin with `#`", exact=False),
    Mistake(
        "^",
        r"pdl\.pattern\s+@?(?P<name>\w+)",
        "write `pattern {name}(x) {{`",
        exact=False,
    ),
    Mistake(
        "^",
        r"(?:export|public|pub|private|global|static|abstract)\s+(?P<rest>import|let|pattern|rule|target|test)\b",
        "write `{rest}`: every definition can be imported",
        new="{rest}",
    ),
    *_WORDS,
    _INCLUDED,
    Mistake("^", "@", "a pattern begins with `pattern NAME(x) {{`", exact=False),
    Mistake("^", r"def\b", "a pattern begins with `pattern NAME(x) {{`", exact=False),
    Mistake(
        "^",
        r"(?:constants?|consts|variables|vars|config|params|parameters|defaults)\s*[:=]?\s*\{",
        "numbers and strings have no names: write them where they are used",
        exact=False,
    ),
    Mistake(
        r"^(?:pattern|rule|let|target)\s+(?P<start>)",
        r'"(?P<name>[^"]*)"',
        "write `{name}`, without quotes",
    ),
    Mistake(r"^test\s+", rf"(?P<name>{NAME})", 'write `test "{name}"`'),
    Mistake(r"^test\s+", r"\{", 'a test has a name: write `test "…" {{`'),
    Mistake(
        r"^extern\s+predicate\s+(?P<head>.*\))\s*",
        r'(?::=|->|=>|[:=])?\s*(?P<path>"[^"\n]*")\s*;',
        "write `extern predicate {head} from {path};`",
    ),
    Mistake(
        r"^extern\s+predicate\s+(?P<head>.*\))\s*",
        ";",
        'write `extern predicate {head} from "module:function";`',
        exact=False,
    ),
    Mistake(
        r"^extern\s+",
        rf'(?P<head>{NAME}\s*\([^()]*\))\s*(?:from|=|:)\s*(?P<path>"[^"\n]*")',
        "write `extern predicate {head} from {path}`",
        exact=False,
    ),
    Mistake(
        rf"^extern\s+(?:predicate\s+(?P<name>{NAME})\s*)?",
        rf'(?P<other>{NAME})?\s*(?:from|=|:)\s*(?P<path>"[^"\n]*")',
        "write `extern predicate {name}{other}(x) from {path}`",
        exact=False,
    ),
    *_PARAMETERS,
    *_PATTERNS,
    *_RULES,
    *_TARGETS,
    *_GLOBS,
    *_PLACEMENTS,
    Mistake(r"^(?P<start>)collage", r"[:=]\s*(?P<edition>\d+)\s*;", "write `collage {edition};`"),
    Mistake("^collage", ":", _OTHER_FORM, exact=False),
)
