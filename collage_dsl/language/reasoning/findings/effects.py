"""Report rules that propose nothing, and placements of calls that no candidate has."""

from collections.abc import Collection
from functools import lru_cache

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.reasoning.patterns.coverage import Calls
from collage_dsl.language.reasoning.patterns.pattern_shape import written_in_all
from collage_dsl.language.reasoning.patterns.sure_parts import Part, ways, within
from collage_dsl.rules import (
    DFPattern,
    FusionRule,
    Host,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Union,
    Vertical,
    sub_rules,
)
from collage_dsl.rules.flattening import operators_of
from collage_dsl.rules.pattern import Call, Flat, PathFrom
from collage_dsl.source import Span


@lru_cache(1024)  # each test of a target asks
def may_have(rule: FusionRule) -> Calls:
    """The calls that candidates of `rule` may have."""
    match rule:
        case OpCallByKind(kinds):
            return Calls(frozenset(kinds))
        case DFPattern(pattern):
            return _of_pattern(pattern)
        case OpPredicate(_, ops):
            return Calls(ops=frozenset(ops), everything=not ops)
        case Vertical():
            return may_have(rule.rule) | grown_by(rule)
        case Host():
            return Calls()
        case _:
            found = Calls(everything=not sub_rules(rule))
            for inner in sub_rules(rule):
                found |= may_have(inner)
            return found


def grown_by(rule: FusionRule) -> Calls:
    """The calls that `rule`, or one inside it, adds to candidates beside joining them."""
    found = Calls()
    if isinstance(rule, Vertical):
        sides = [side for side in (rule.prologue, rule.epilogue) if side is not None]
        found = Calls(frozenset(kind for kind in Kind if sides and kind <= max(sides)))
    for inner in sub_rules(rule):
        found |= grown_by(inner)
    return found


def _of_pattern(pattern: Pattern) -> Calls:
    kinds, ops = set[Kind](), set[str]()
    for operand in written_in_all(pattern):
        if isinstance(operand, Call | PathFrom):
            kinds.update(operand.kinds)
            ops.update(operand.ops)
        elif isinstance(operand, Flat):
            ops.update(operators_of(operand.op))
    return Calls(frozenset(kinds), frozenset(ops))


def check_proposing(target: str, rule: FusionRule, span: Span, findings: Findings) -> None:
    """Report a target whose rules propose nothing at all."""
    if _is_host(rule):
        message = f"the rules of `{target}` propose nothing"
        findings.warning("W0425", span, message, "write `op_call_by_kind()` for single calls")


def _is_host(rule: FusionRule) -> bool:
    inner = sub_rules(rule)
    return all(map(_is_host, inner)) if inner else isinstance(rule, Host)


def absent(rule: FusionRule, ops: tuple[str, ...]) -> str:
    """What no candidate of `rule` has, of the selected `ops`; empty if some may."""
    has = may_have(rule)
    return "" if any(op in has for op in ops) else listed(ops[:3])


def always_has(rule: FusionRule, ops: Collection[str]) -> bool:
    """Whether each candidate of `rule` has a call of one of `ops`, as far as that is known."""
    match rule:
        case DFPattern(pattern):
            return all(_has(way, ops) for way in ways(pattern))
        case OpPredicate(_, of) if of:
            return set(of) <= set(ops)
        case OpCallByKind(kinds) if Kind.OPAQUE not in kinds:  # a model may have others
            known = operators().values()
            return all(each.name in ops for each in known if not each.kinds.isdisjoint(kinds))
        case Union(rules):
            rules = tuple(one for one in rules if not _is_host(one))
            return bool(rules) and all(always_has(one, ops) for one in rules)
        case _:  # what joins candidates, or chooses some, keeps the calls in them
            inner = sub_rules(rule)
            return bool(inner) and all(always_has(one, ops) for one in inner)


def _has(way: Part, ops: Collection[str]) -> bool:
    """Whether some call in each match of this way is of one of `ops`, whatever it is."""
    calls = (part for part in within(way) if part.ops and not part.of_kind)
    return any(set(part.ops) <= set(ops) for part in calls)
