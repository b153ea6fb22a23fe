"""Report limits that change nothing where each candidate is one operator call."""

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
    """
    Report `taps allowed` and `max_exits`, as one call has one exit and uses no value inside;
    and `largest_first`, as the calls of one rule share no node. Report `max_candidates` where no
    rule adds candidates to those of another.
    """
    if limits.max_candidates is not None and not _adds(rule):
        message = (
            f"`max_candidates {limits.max_candidates}` changes nothing: no rule joins candidates"
        )
        hint = "remove it, or write `combine_by_primitives(…, using: tvm_default)` to join them"
        findings.warning("W0426", written["max_candidates"], message, hint)
    if not is_of_single_calls(rule):
        return
    most = "any" if limits.max_exits is None else limits.max_exits
    needless = {"taps": "allowed"} if limits.taps else {}
    if most != 1:
        needless["max_exits"] = str(most)
    if limits.largest_first and isinstance(rule, OpCallByKind | OpPredicate):
        needless["largest_first"] = ""
    for name, value in needless.items():
        said = f"{name} {value}".strip()
        message = f"`{said}` changes nothing: each candidate is one operator call"
        hint = "remove it, or write `combine_by_primitives(…, using: tvm_default)` to join calls"
        findings.warning("W0426", written[name], message, hint)


def _adds(rule: FusionRule) -> bool:
    adds = isinstance(rule, CombineByPrimitives | Horizontal | Vertical)
    return adds or any(map(_adds, sub_rules(rule)))


def is_of_single_calls(rule: FusionRule) -> bool:
    """Whether each candidate of `rule` is one operator call, without tuples and their fields."""
    match rule:
        case OpCallByKind() | OpPredicate():
            return True
        case DFPattern(pattern):
            return is_single_call(pattern)
        case Tagged() | OnlyValid() | OnlyVariants() | Union():
            return all(map(is_of_single_calls, sub_rules(rule)))
        case CombineByPrimitives() | MaxCoalesce() | Horizontal() | Vertical() | Host():
            return False
        case _:
            assert_never(rule)


def is_single_call(pattern: Pattern) -> bool:
    """Whether each match of `pattern` is one call, without tuples and their fields."""
    tuples = (FieldOf, TupleOf, TupleOfEach)
    has_tuples = any(isinstance(one, tuples) for one in written_in_all(pattern))
    return largest(pattern) == 1 and not has_tuples
