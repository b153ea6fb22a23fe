"""Report limits that allow several exits or taps where each candidate is one operator call."""

from typing import assert_never

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.patterns.largest import largest
from collage_dsl.language.reasoning.patterns.limit_places import LimitPlaces
from collage_dsl.language.reasoning.patterns.pattern_shape import written_in_all
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    Limits,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Tagged,
    Union,
    Vertical,
    sub_rules,
)
from collage_dsl.rules.pattern import FieldOf, TupleOf, TupleOfEach


def check_needed_limits(
    rule: FusionRule, limits: Limits, written: LimitPlaces, findings: Findings
) -> None:
    """Report `taps allowed` and `max_exits`: one call has one exit, and uses no value inside."""
    if not _is_of_single_calls(rule):
        return
    most = "any" if limits.max_exits is None else limits.max_exits
    needless = {"taps": "allowed"} if limits.taps else {}
    if most != 1:
        needless["max_exits"] = str(most)
    for name, value in needless.items():
        message = f"`{name} {value}` changes nothing: each candidate is one operator call"
        hint = "remove it, or write `combine_by_primitives(…, using: tvm_default)` to join calls"
        findings.warning("W0426", written[name], message, hint)


def _is_of_single_calls(rule: FusionRule) -> bool:
    match rule:
        case OpCallByKind() | OpPredicate():
            return True
        case DFPattern(pattern):
            return is_single_call(pattern)
        case Tagged() | OnlyValid() | OnlyVariants() | Union():
            return all(map(_is_of_single_calls, sub_rules(rule)))
        case CombineByPrimitives() | MaxCoalesce() | Horizontal() | Vertical() | Host():
            return False
        case _:
            assert_never(rule)


def is_single_call(pattern: Pattern) -> bool:
    """Whether each match of `pattern` is one call, without tuples and their fields."""
    tuples = (FieldOf, TupleOf, TupleOfEach)
    has_tuples = any(isinstance(one, tuples) for one in written_in_all(pattern))
    return largest(pattern) == 1 and not has_tuples
