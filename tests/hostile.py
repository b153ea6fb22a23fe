"""
Texts that are large, deep, or stand for something huge: what no one writes, and tools are given.

Each is made for a size in characters, which it has about.
"""

import random
import re
from collections.abc import Callable, Mapping
from itertools import count

from collage_dsl.language.syntax.parser import MAX_TOKENS
from collage_dsl.language.syntax.whole_text import MAX_CHARACTERS
from tests.test_language_fuzz import GRAPH, SPEC

TOKENS = re.findall(r"\w+|\"[^\"]*\"|\S", SPEC + GRAPH)
NAMES = r"\b(conv|act|pairs|either|block|tagged|library|lib)\b"


def spec(size: int) -> str:
    """A valid spec: the definitions of one, again and again under other names."""
    definitions = SPEC.removeprefix("collage 1;\n")
    return numbered(size, lambda at: re.sub(NAMES, rf"\g<1>{at}", definitions))


def long_choices(size: int) -> str:
    """
    Conditions on one dimension that name numbers which the others rule out, of as many words and
    signs as may be.
    """
    most = MAX_TOKENS * size // MAX_CHARACTERS
    numbers = [", ".join(map(str, range(at + 1, at + 201))) for at in range(100)]
    wheres = [f"where dim(x, 0) in [{each}];\n" for each in numbers]
    texts = ["collage 1;\n"]
    for at in range(most * 9 // 10 // 40_000 + 1):
        left = min(100, most * 9 // 10 // 400 - 100 * at)
        inner = "".join(wheres[:left])
        texts.append(f"pattern p{at}(x) {{ y = exp(x);\n{inner}yield y; }}\n")
    return "".join(texts)


def numbered(size: int, part: Callable[[int], str]) -> str:
    parts, length = ["collage 1;\n"], 0
    for at in count():
        text = part(at)
        length += len(text)
        if length > size - 100:
            return "".join(parts)
        parts.append(text)
    raise AssertionError


def joined(count: int) -> str:
    """A pattern of a tuple of that many parameters."""
    names = ", ".join(f"x{at}" for at in range(count))
    return f"collage 1; pattern p({names}) {{ y = concat(({names})); yield y; }}"


def again(unit: str) -> Callable[[int], str]:
    return lambda size: "collage 1;\n" + unit * ((size - 20) // len(unit))


def nested(before: str, opening: str, inner: str, closing: str, after: str) -> Callable[[int], str]:
    def text(size: int) -> str:
        depth = size // len(opening + closing) - 30
        return f"collage 1; {before}{opening * depth}{inner}{closing * depth}{after}"

    return text


def doubling(first: str, others: str, target: str) -> Callable[[int], str]:
    """Definitions that each use the one before them twice; a hundred would be 2**100 long."""

    def text(size: int) -> str:
        lines = [
            first,
            *(others.replace("K", str(k)).replace("J", str(k - 1)) for k in range(1, 80)),
        ]
        return "collage 1;\n" + "\n".join(lines) + f"\ntarget t on llvm {{ rules {target}; }}\n"

    return text


def scrambled(separator: str) -> Callable[[int], str]:
    chosen = random.Random(1)
    return lambda size: "collage 1;\n" + separator.join(chosen.choices(TOKENS, k=size // 6))


def characters(alphabet: str) -> Callable[[int], str]:
    chosen = random.Random(1)
    return lambda size: "".join(chosen.choices(alphabet, k=size))


_PATTERN = "pattern p(x) { y = "
_END = "; yield y; }"
_WHERE = "pattern p(x) { y = exp(x); where "
_TEST = 'test "t" { graph { x: f32[4]; y = '
_TEST_END = "; return y; } expect true; }"

TEXTS: Mapping[str, Callable[[int], str]] = {
    "a valid spec": spec,
    "long choices": long_choices,
    # Deep.
    "parentheses": nested("rule r = ", "(", "x", ")", ";"),
    "parentheses that stay open": nested("rule r = ", "(", "", "", ""),
    "lists": nested("rule r = ", "[", "", "]", ";"),
    "rules in rules": nested("rule r = ", "union(", "op_call_by_kind()", ")", ";"),
    "parentheses in a condition": nested(_WHERE, "(", "true", ")", "; yield y; }"),
    "not": nested(_WHERE, "not ", "true", "", "; yield y; }"),
    "minus": nested(_WHERE, "-", "1 == 1", "", "; yield y; }"),
    "a sum": nested(_WHERE + "1", " + 1", " == 1", "", "; yield y; }"),
    "a conjunction": nested(_WHERE + "true", " and true", "", "", "; yield y; }"),
    "comparisons": nested(_WHERE + "1", " == 1", "", "", "; yield y; }"),
    "functions in functions": nested(_WHERE, "dim(", "x", ", 0)", " == 1; yield y; }"),
    "calls": nested(_PATTERN, "nn.relu(", "x", ")", _END),
    "optional calls": nested(_PATTERN, "nn.relu?(", "x", ")", _END),
    "a chain of optional calls": lambda size: (
        "collage 1; pattern p(a0) {"
        + "".join(f"a{k + 1} = nn.relu?(a{k});" for k in range(size // 26))
        + f"yield a{size // 26}; }}"
    ),
    "repetitions": nested(_PATTERN, "repeat[1..2] nn.relu(", "x", ")", _END),
    "a repetition without end": lambda size: (
        f"collage 1; {_PATTERN}repeat[1..{10**12}] exp(x){_END}"
    ),
    "tuples": nested(_PATTERN, "(", "x", ",)", _END),
    "fields": nested(_PATTERN + "x", ".0", "", "", _END),
    "braces": nested("target t on llvm ", "{", "", "}", ""),
    "settings": nested("", "target t on llvm { limits {", "", "", ""),
    "closing braces": again("}"),
    "closing parentheses": again(")"),
    "lists in a graph": nested(_TEST, "[", "", "]", _TEST_END),
    "types in a graph": nested('test "t" { graph { x: ', "(", "f32[4]", ",)", "; return x; } }"),
    # Long.
    "one name": lambda size: "a" * size,
    "one name after the edition": lambda size: "collage 1;" + "a" * (size - 20),
    "one string": lambda size: f'collage 1; import "{"a" * (size - 30)}" as x;',
    "a string that stays open": lambda size: f'collage 1; import "{"a" * (size - 30)}',
    "quotation marks in a string that stays open": nested('rule r = "', '\\"', "", "", ""),
    "a string of escapes": nested('import "', "x\\y", "", "", '" as x;'),
    "one number": lambda size: f"collage 1; rule r = {'1' * (size - 30)};",
    "one name with dots": again("a."),
    "spaces": again(" "),
    "lines": again("\n"),
    "comments": again("#\n"),
    "one comment": again("#"),
    "quotes": again('"'),
    "semicolons": again(";"),
    "words": again("a "),
    "letters": again("é"),
    "null characters": again("\0"),
    "comments that ignore": again("# collage: ignore[W0405] x\n"),
    "tokens": scrambled(" "),
    "tokens on lines": scrambled("\n"),
    "characters": characters("".join(map(chr, range(32, 127)))),
    "signs": characters('abc \n;{}()[],=."#1'),
    # Many.
    "one rule again": again("rule r = op_call_by_kind();\n"),
    "rules": lambda size: numbered(size, "rule r{0} = op_call_by_kind();\n".format),
    "a chain of rules": lambda size: numbered(size, lambda k: f"rule r{k} = union(r{k + 1});\n"),
    "unknown rules": lambda size: numbered(size, "rule r{0} = zz{0};\n".format),
    "unknown operators": lambda size: numbered(
        size, "pattern p{0}(x) {{ y = relux{0}(x); yield y; }}\n".format
    ),
    "patterns": lambda size: numbered(size, "pattern p{0}(x) {{ y = exp(x); yield y; }}\n".format),
    "targets": lambda size: numbered(
        size, "target t{0} on llvm {{ rules op_call_by_kind(); }}\n".format
    ),
    "tests": lambda size: numbered(
        size, 'test "{0}" {{ graph {{ x: f32[4]; y = exp(x); return y; }} expect true; }}\n'.format
    ),
    "imports": lambda size: numbered(size, 'import "x{0}.collage" as x{0};\n'.format),
    "imports of one file": lambda size: numbered(
        size, 'import "std/activations.collage" as a{0};\n'.format
    ),
    "imported names": lambda size: (
        'collage 1; import "std/activations.collage" only ('
        + ", ".join(f"a{k}" for k in range(size // 8))
        + ");"
    ),
    "parameters": lambda size: (
        "collage 1; pattern p("
        + ", ".join(f"a{k}" for k in range(size // 8))
        + ") { y = exp(a0); yield y; }"
    ),
    "operands": nested(_PATTERN + "concat((", "x, ", "", "", "))" + _END),
    "conditions": nested(
        "pattern p(x) { y = exp(x); ", "where rank(x) == 1;", "", "", "yield y; }"
    ),
    "attributes": nested(_PATTERN + "nn.conv2d(x, x) [", "groups == 1, ", "", "", "]" + _END),
    "values": nested(_WHERE + "rank(x) in [", "1, ", "", "", "]; yield y; }"),
    "nodes": lambda size: (
        'collage 1; test "t" { graph { a0: f32[4];'
        + "".join(f"a{k + 1} = exp(a{k});" for k in range(size // 20))
        + " return a0; } expect true; }"
    ),
    # Huge when written out.
    "rules that double": doubling(
        "rule r0 = op_call_by_kind();", "rule rK = union(rJ, rJ);", "r79"
    ),
    "rules with parameters that double": doubling(
        "rule r0(p) = max_coalesce(p);", "rule rK(p) = rJ(union(p, p));", "r79(op_call_by_kind())"
    ),
    "patterns that double": doubling(
        "pattern p0(x) { y = exp(x); yield y; }",
        "pattern pK(x) { y = pJ(pJ(x)); yield y; }",
        "dfpattern(p79)",
    ),
    "patterns that double sideways": doubling(
        "pattern p0(x) { y = exp(x); yield y; }",
        "pattern pK(x) { y = add(pJ(x), pJ(x)); yield y; }",
        "dfpattern(p79)",
    ),
    "classes that double": doubling(
        "let l0 = one_of(exp);",
        "let lK = one_of(lJ, lJ);",
        "op_call_by_kind()",
    ),
}


def forms(size: int) -> Mapping[str, str]:
    """Texts in JSON and YAML, by a name that ends in which it is."""
    depth = size // 2
    return {
        "lists.json": "[" * depth + "]" * depth,
        "objects.json": '{"a":' * (size // 7) + "1" + "}" * (size // 7),
        "empty objects.json": '{"targets":[' + "{}," * (size // 3 - 10) + "{}]}",
        "values.json": "[" + "1," * (depth - 5) + "1]",
        "digits.json": "1" * size,
        "lists.yaml": "[" * depth + "]" * depth,
        "lists that stay open.yaml": "[" * size,
        "maps.yaml": "{a: " * (size // 4),
        "lines.yaml": "- " * depth + "1",
        "keys.yaml": "? " * depth,
        "values.yaml": "[" + "a," * (depth - 5) + "]",
        "items.yaml": "- a\n" * (size // 4),
        "word.yaml": "a" * size,
        "comments.yaml": "#\n" * depth,
        "time.yaml": "1" + ":1" * (depth - 1),
        "aliases.yaml": "a: &a [x]\n" + "\n".join(f"b{k}: &b{k} [*a, *a]" for k in range(50)),
    }
