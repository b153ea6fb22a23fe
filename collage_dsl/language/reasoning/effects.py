"""Report rules that cannot do what they are for, and placements that change nothing."""

from collections.abc import Mapping
from dataclasses import dataclass

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.reasoning.pattern_shape import called
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    Host,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    Limits,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Union,
    Vertical,
    sub_rules,
)
from collage_dsl.rules.flattening import operators_of
from collage_dsl.rules.parts import written_operands
from collage_dsl.rules.pattern import Call, Flat, PathFrom
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class MayHave:
    """The calls that candidates of a rule may have: of `kinds`, of `ops`, or of any operator."""

    kinds: frozenset[Kind] = frozenset()
    ops: frozenset[str] = frozenset()
    anything: bool = False

    def __or__(self, other: "MayHave") -> "MayHave":
        kinds, ops = self.kinds | other.kinds, self.ops | other.ops
        return MayHave(kinds, ops, self.anything or other.anything)

    def __contains__(self, op: str) -> bool:
        return self.anything or op in self.ops or not self.kinds.isdisjoint(operators()[op].kinds)


def may_have(rule: FusionRule) -> MayHave:
    match rule:
        case OpCallByKind(kinds):
            return MayHave(frozenset(kinds))
        case DFPattern(pattern):
            return _of_pattern(pattern)
        case OpPredicate(_, ops):
            return MayHave(ops=frozenset(ops), anything=not ops)
        case Vertical(_, prologue, epilogue):
            sides = [side for side in (prologue, epilogue) if side is not None]
            grown = MayHave(frozenset(kind for kind in Kind if sides and kind <= max(sides)))
            return may_have(rule.rule) | grown
        case Host():
            return MayHave()
        case _:
            found = MayHave(anything=not sub_rules(rule))
            for inner in sub_rules(rule):
                found |= may_have(inner)
            return found


def _of_pattern(pattern: Pattern) -> MayHave:
    found = MayHave()
    for each in (pattern, *called(pattern)):
        for operand in written_operands(each):
            if isinstance(operand, Call | PathFrom):
                found |= MayHave(frozenset(operand.kinds), frozenset(operand.ops))
            elif isinstance(operand, Flat):
                found |= MayHave(ops=frozenset(operators_of(operand.op)))
    return found


def check_joining(rule: CombineByPrimitives, span: Span, findings: Findings) -> None:
    """Report a rule that joins nothing. `span` is that of its name."""
    if not rule.using:
        hint = "write `using: tvm_default`"
        findings.warning("W0425", span, "`using` has no primitive, so nothing is joined", hint)
    elif rule.max_nodes == 1 and all(
        isinstance(each, KindPair | JoinAnything | InjectiveBranches) for each in rule.using
    ):
        message = "`max_nodes` 1 refuses everything that is joined: it has at least 2 operators"
        findings.warning("W0425", span, message, "write `max_nodes: 2` or more")
    elif all(isinstance(each, KindPair) for each in rule.using):
        _check_pairs(rule, span, findings)


def _check_pairs(rule: CombineByPrimitives, span: Span, findings: Findings) -> None:
    """Report pairs of kinds that no candidate of the inner rule has."""
    least = _least_kind(rule.rule)
    pairs = [each for each in rule.using if isinstance(each, KindPair)]
    if least is not None and all(each.upstream < least for each in pairs):
        message = f"all candidates are of kind `{least}` or higher, so no primitive joins them"
        findings.warning("W0425", span, message, f"write `kind({least} -> …)`")


def _least_kind(rule: FusionRule) -> Kind | None:
    """The least kind of a candidate; None if that is not known."""
    match rule:
        case OpCallByKind(kinds):
            return min(kinds)
        case Union(rules):
            least = [_least_kind(one) for one in rules]
            known = [kind for kind in least if kind is not None]
            return min(known) if len(known) == len(least) else None
        case _:
            return None


def check_growing(rule: Vertical, span: Span, findings: Findings) -> None:
    if rule.prologue is None and rule.epilogue is None:
        message = "this has no prologue and no epilogue, so it adds nothing"
        findings.warning("W0425", span, message, "write `epilogue: broadcast`")


def check_siblings(
    rule: FusionRule, limits: Limits, written: Mapping[str, Span], findings: Findings
) -> None:
    """Report `horizontal` where a single exit is allowed: each sibling has one of its own."""
    if limits.max_exits == 1 and _has_siblings(rule):
        message = "`max_exits` 1 refuses what `horizontal` joins: it has several exits"
        findings.warning("W0422", written["max_exits"], message, "write `max_exits any`")


def _has_siblings(rule: FusionRule) -> bool:
    match rule:
        case Horizontal():
            return True
        case Union(rules):
            return any(map(_has_siblings, rules))
        case OnlyValid(inner) | OnlyVariants(inner):
            return _has_siblings(inner)
        case _:
            return False


def check_size(
    rule: FusionRule, limits: Limits, written: Mapping[str, Span], findings: Findings
) -> None:
    """Report `min_nodes` above what the rule inside allows."""
    match rule:
        case CombineByPrimitives(OpCallByKind(), max_nodes=int() as most) if (
            limits.min_nodes is not None and limits.min_nodes > most
        ):
            message = f"`min_nodes` {limits.min_nodes} is more than `max_nodes` {most} of the rule"
            hint = "no candidate can satisfy both: lower `min_nodes` or raise `max_nodes`"
            findings.error("E0423", written["min_nodes"], message, hint)


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
