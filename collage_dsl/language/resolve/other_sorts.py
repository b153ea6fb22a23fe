"""Names that a file defines, but as another sort of thing than is needed."""

from collections.abc import Mapping

from collage_dsl.graph.operators import operators
from collage_dsl.graph.types import KINDS
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import write
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Pattern
from collage_dsl.rules.predicate import Predicate

OPERATOR = "an operator"
FUNCTION = "a function of a condition"


def sorts_of(file: ast.File, imported: Mapping[str, object]) -> Mapping[str, str]:
    """What the names that `file` defines or imports are, in words. A rule comes before a target."""
    found = {name: _of_definition(each) for name, each in imported.items()}
    targets: dict[str, str] = {}
    for item in file.items:
        match item:
            case ast.Let(name):
                found[name.text] = "a class"
            case ast.Predicate(name):
                found[name.text] = "a predicate"
            case ast.Pattern(name):
                found[name.text] = "a pattern"
            case ast.Rule(name):
                found[name.text] = "a rule"
            case ast.Target(name):
                targets[name.text] = "a target"
    return targets | found


def _of_definition(definition: object) -> str:
    match definition:
        case Pattern():
            return "a pattern"
        case Predicate():
            return "a predicate"
        case tuple():
            return "a class"
        case _:
            return "a rule"


def is_other_sort(
    name: ast.Name, needed: str, defined: Mapping[str, str], findings: Findings
) -> bool:
    """
    Whether `name` stands for something else than what is `needed`, which is reported. `defined`
    says what the names of the file are.
    """
    text = name.text
    if needed == OPERATOR and text in operators():
        return False
    if text in defined:
        sort = defined[text]
    elif text in operators():
        sort = OPERATOR
    elif text in KINDS:
        sort = "a kind"
    else:
        return False
    message = f"`{text}` is {sort}, but {needed} is needed here"
    findings.error("E0209", name.span, message, _instead(text, sort, needed))
    return True


def _instead(name: str, sort: str, needed: str) -> str:
    """What to write in place of a name that is of another sort."""
    match sort, needed:
        case (("an operator" | "a class"), ("a pattern" | "a rule")):
            return f"a pattern has it: `pattern p(…) {{ y = {name}(…); yield y; }}`"
        case "a kind", "a rule":
            return write(f"op_call_by_kind({name})")
        case "a pattern", "a rule":
            return write(f"dfpattern({name})")
        case "a predicate", "a rule":
            return write(f"op_predicate({name})")
        case "a predicate", "an operator":
            return f"a condition asks it: `where {name}(…);`"
        case (("a pattern" | "an operator" | "a class" | "a kind"), "a function of a condition"):
            return f"match it in a statement of its own: `y = {name}(…);`"
        case "a target", "a rule":
            return "write the rule of the target as `rule r = …;`, and use it in both"
        case _:
            return ""
