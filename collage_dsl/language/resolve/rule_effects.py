"""Check what a rule can do, once it is built: what it proposes, how much, and whether in vain."""

from collections.abc import Mapping
from typing import assert_never

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.findings.fitting import check_fit
from collage_dsl.language.reasoning.findings.growth import check_rule_growth
from collage_dsl.language.reasoning.findings.inner_limits import check_inner_limits
from collage_dsl.language.reasoning.findings.joining import (
    check_growing,
    check_joined,
    check_joining,
    check_siblings,
)
from collage_dsl.language.reasoning.findings.list_items import check_names_twice
from collage_dsl.language.reasoning.findings.repeated import check_label, check_repeated
from collage_dsl.language.reasoning.findings.too_small import check_least, check_size
from collage_dsl.language.reasoning.patterns.limit_places import LimitPlaces
from collage_dsl.language.reasoning.patterns.single_calls import check_needed_limits
from collage_dsl.language.syntax import ast
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Tagged,
    Union,
    Vertical,
)
from collage_dsl.rules.rule_functions import LIMIT_NAMES


def check_rule(
    rule: FusionRule,
    written: ast.Application,
    plain: tuple[ast.Expression, ...],
    named: Mapping[str, ast.Expression],
    findings: Findings,
) -> None:
    """Check `rule`, which is `written` with these arguments, but not the rules inside it."""
    place = written.function.span
    match rule:
        case Union(rules):
            spans = (argument.span for argument in plain)
            check_repeated(tuple(zip(rules, spans, strict=True)), findings)
        case CombineByPrimitives():
            check_rule_growth(rule, place, findings)
            check_joining(rule, place, findings)
        case Vertical():
            check_growing(rule, place, findings)
        case OnlyValid(inner, limits):
            each_limit = {
                name: named[name].span if name in named else place for name in LIMIT_NAMES
            }
            places = LimitPlaces(each_limit, are_arguments=True)
            check_fit(inner, limits, places, findings)
            if not check_size(inner, limits, places, findings):
                check_least(inner, limits, places, findings)
            check_joined(inner, limits, places, findings)
            check_inner_limits(inner, limits, places, findings)
            check_needed_limits(inner, limits, places, findings)
        case Tagged(label, inner):
            check_label(label, inner, place, findings)
        case OpCallByKind():
            check_names_twice(plain, findings)
        case DFPattern() | OpPredicate() | Host():
            pass
        case Horizontal():
            check_siblings(rule, place, findings)
        case OnlyVariants() | MaxCoalesce():
            pass
        case _:
            assert_never(rule)
