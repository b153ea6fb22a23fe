"""The table of rules and primitives is what every part of the language knows."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import collage_dsl as collage
from collage_dsl import builder
from collage_dsl.graph import Kind
from collage_dsl.language.forms import from_form, to_form
from collage_dsl.language.syntax import aliases
from collage_dsl.lsp.completion import completions
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.signatures import signature_at
from collage_dsl.lsp.vocabulary import meaning
from collage_dsl.rules import FusionRule, Limits
from collage_dsl.rules.rule_functions import (
    LIMITS,
    PRIMITIVE_NAMES,
    PRIMITIVES,
    RULES,
    Argument,
    Choice,
    RuleFunction,
    Sort,
    WholeNumber,
    function_of,
    limit_default,
)
from tests.lsp.marked import marked

LANGUAGE = (Path(__file__).parent.parent / "docs" / "language.md").read_text("utf-8")
PATTERN = "pattern p(x) { y = nn.relu(x); yield y; }"
INNER = builder.op_call_by_kind(Kind.ANCHOR)

SAMPLES: dict[Sort, tuple[str, Any]] = {
    Sort.RULE: ("op_call_by_kind(anchor)", INNER),
    Sort.KIND: ("reduce", Kind.REDUCE),
    Sort.KIND_OR_NONE: ("none", None),
    Sort.PATTERN: ("p", collage.load(text=f"collage 1; {PATTERN} target t on llvm {{ rules "
                                      "dfpattern(p); }")["t"].rule.pattern),
    Sort.PREDICATE: ('"acme.supports"', "acme"),
    Sort.LABEL: ('"acme.block"', "acme.block"),
    Sort.OPERATORS: ("[nn.relu]", ("nn.relu",)),
    Sort.PRIMITIVES: ("[join_anything]", PRIMITIVES["join_anything"]),
    Sort.VARIANTS: ("[direct]", ("direct",)),
    Sort.LIMITS: ("max_exits: any, max_nodes: 3", Limits(max_exits=None, max_nodes=3)),
}  # fmt: skip


def sample(argument: Argument) -> tuple[str, Any]:
    """A value of `argument` that is not its default, in a file and in Python."""
    match argument.sort:
        case WholeNumber(least):
            return str(least), least
        case Choice(words):
            return words[-1], words[-1]
        case sort:
            return SAMPLES[sort]


def loaded(rule: str) -> FusionRule:
    text = f'collage 1; {PATTERN} target t on llvm {{ compiler "acme"; rules {rule}; }}'
    return collage.load(text=text)["t"].rule


def call(function: RuleFunction) -> str:
    """A call of `function` with all its arguments."""
    written = []
    for argument in function.arguments:
        text = sample(argument)[0]
        has_name = argument.is_named and argument.sort is not Sort.LIMITS
        written.append(f"{argument.name}: {text}" if has_name else text)
    return f"{function.name}({', '.join(written)})"


def built(function: RuleFunction) -> FusionRule:
    """The same call in Python."""
    plain = [sample(each)[1] for each in function.plain]
    named = {a.name: sample(a)[1] for a in function.arguments if a.is_named}
    return getattr(builder, function.name)(*plain, **named)


every_rule = pytest.mark.parametrize("function", RULES.values(), ids=RULES)


@every_rule
def test_a_rule_is_the_same_in_a_file_and_in_the_builder(function: RuleFunction) -> None:
    assert loaded(call(function)) == built(function)


@every_rule
def test_a_rule_survives_its_text_and_its_form(function: RuleFunction) -> None:
    spec = builder.target("t", "llvm", rules=built(function), compiler="acme")

    assert collage.load(text=collage.to_text(spec)) == {"t": spec}
    assert from_form(to_form({"t": spec})) == {"t": spec}


@every_rule
def test_an_argument_that_a_call_leaves_out_has_the_default_of_the_table(
    function: RuleFunction,
) -> None:
    signature = inspect.signature(getattr(builder, function.name))

    for argument in function.named:
        if argument.name in signature.parameters and not argument.usual:
            assert signature.parameters[argument.name].default == function.default(argument)


@every_rule
def test_the_editor_completes_a_rule_and_its_arguments(function: RuleFunction) -> None:
    assert function.name in offered("rule r = ¦")
    assert set(function.keywords) <= offered(f"rule r = {function.name}(a, ¦")


@every_rule
def test_the_editor_shows_the_signature_and_the_meaning_of_a_rule(function: RuleFunction) -> None:
    document, offset = marked(f"collage 1;\nrule r = {function.name}(¦")

    shown = signature_at(document, offset, Files())

    assert shown is not None
    assert shown.parameters == function.signature
    assert shown.documentation == meaning("rule", function.name) != ""


@every_rule
def test_the_page_of_the_language_has_a_section_for_a_rule(function: RuleFunction) -> None:
    assert re.search(rf"^## .*\b{function.name}\b", LANGUAGE, re.MULTILINE)
    assert all(f"`{name}" in LANGUAGE or f"{name}:" in LANGUAGE for name in function.keywords)


@pytest.mark.parametrize("name", PRIMITIVE_NAMES)
def test_a_primitive_is_known_everywhere(name: str) -> None:
    text = "kind(anchor -> reduce)" if name == "kind" else name
    using = text if name == "tvm_default" else f"[{text}]"
    rule = loaded(f"combine_by_primitives(op_call_by_kind(anchor), using: {using}, max_depth: 3)")
    spec = builder.target("t", "llvm", rules=rule)

    assert f"using: {using}" in collage.to_text(spec)
    assert from_form(to_form({"t": spec})) == {"t": spec}
    assert name.upper() in vars(builder) or name in vars(builder)
    assert name in offered("rule r = combine_by_primitives(a, using: [¦")
    assert meaning("primitive", name)
    assert re.search(rf"^## .*\b{name}\b", LANGUAGE, re.MULTILINE)


def test_every_class_of_rule_has_a_function_and_every_alias_is_one() -> None:
    assert all(function_of(built(function)) for function in RULES.values())
    assert {type(built(function)) for function in RULES.values()} == set(FusionRule.__args__)
    assert set(aliases.RULES.values()) <= set(RULES)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_a_limit_is_known_everywhere(limit: Argument) -> None:
    assert limit.name in offered("target t on llvm { limits { ¦")
    assert meaning("limit", limit.name)
    assert limit_default(limit) == getattr(Limits(), limit.name)
    assert limit.name in LANGUAGE


def offered(text: str) -> set[str]:
    document, offset = marked(f"collage 1;\nrule a = op_call_by_kind();\n{text}")
    return {each.label for each in completions(document, offset, Files())[1]}
