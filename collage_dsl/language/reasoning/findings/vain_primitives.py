"""Report `combine_by_primitives` with primitives that fit no candidate of its rule."""

from collections.abc import Sequence

from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.claims.required_calls import required_calls
from collage_dsl.language.reasoning.patterns.pattern_shape import written_in_all
from collage_dsl.language.reasoning.patterns.written_out import written_out
from collage_dsl.rules import (
    CombineByPrimitives,
    Constants,
    DFPattern,
    FusionRule,
    InjectiveBranches,
    JoinAnything,
    KindPair,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Primitive,
    Tagged,
    TupleArgs,
    TupleProjections,
    Union,
    sub_rules,
)
from collage_dsl.rules.pattern import Anything, Call, Flat, Number, PathFrom, TupleOf
from collage_dsl.source import Span

_Why = tuple[str, str]
"""A message that says why a primitive does nothing, and a hint."""


def check_primitives(rule: CombineByPrimitives, span: Span, findings: Findings) -> None:
    """Report that no primitive joins or grows a candidate. `span` is that of the rule's name."""
    least = _least_kind(rule.rule)
    reasons = [_why_not(primitive, rule.rule, least) for primitive in rule.using]
    known = [reason for reason in reasons if reason is not None]
    if known and len(known) == len(reasons):
        findings.warning("W0425", span, *known[0])


def _why_not(primitive: Primitive, rule: FusionRule, least: Kind | None) -> _Why | None:
    """Why a primitive does nothing with the candidates of `rule`; None if it may do something."""
    match primitive:
        case KindPair(upstream, downstream) if _is_above(least, min(upstream, downstream)):
            hint = f"propose candidates of kind `{min(upstream, downstream)}` too, or write "
            return _too_high(least), hint + f"`kind({least} -> {least})`"
        case TupleArgs() if _is_above(least, Kind.INJECTIVE):
            return _too_high(least), "`tuple_args` joins candidates of kind `injective` or lower"
        case InjectiveBranches() if lacks := _lacks(rule, least):
            message = f"no candidate is of kind {lacks}, so `injective_branches` joins nothing"
            hint = "it joins candidates of kind `injective` and of kind `reduce` or `anchor`"
            return message, hint
        case TupleProjections() if _gives_no_tuple(rule):
            message = "no candidate gives a tuple, so `tuple_projections` adds nothing"
            return message, "remove it, or write a rule whose candidates give tuples"
        case Constants() if _takes_no_more_constants(rule):
            message = "no constant flows into these candidates, so `constants` adds nothing"
            return message, "remove it, or write a parameter without `const` and `not const`"
        case JoinAnything() | _:
            return None


def _is_above(least: Kind | None, most: Kind) -> bool:
    return least is not None and least > most


def _too_high(least: Kind | None) -> str:
    return f"all candidates are of kind `{least}` or higher, so no primitive joins them"


def _lacks(rule: FusionRule, least: Kind | None) -> str:
    """What kind of candidate `injective_branches` needs and `rule` never proposes; may be empty."""
    kinds = _kinds(rule)
    if _is_above(least, Kind.INJECTIVE) or (kinds is not None and Kind.INJECTIVE not in kinds):
        return "`injective`"
    if kinds is not None and kinds.isdisjoint((Kind.REDUCE, Kind.ANCHOR)):
        return "`reduce` or `anchor`"
    return ""


def _kinds(rule: FusionRule) -> frozenset[Kind] | None:
    """The kinds of candidates; None if they are not known."""
    match rule:
        case OpCallByKind(kinds):
            return frozenset(kinds)
        case OpPredicate(_, ops) if ops:
            return frozenset().union(*(operators()[op].kinds for op in ops))
        case Tagged(_, inner) | OnlyValid(inner) | OnlyVariants(inner):
            return _kinds(inner)
        case Union(rules):
            every = [_kinds(one) for one in rules]
            known = [kinds for kinds in every if kinds is not None]
            return frozenset().union(*known) if len(known) == len(every) else None
        case _:
            return None


def _patterns(rule: FusionRule) -> tuple[Pattern, ...] | None:
    """The patterns whose matches are the candidates of `rule`; None if it has others."""
    match rule:
        case DFPattern(pattern):
            return (pattern,)
        case Tagged() | OnlyValid() | OnlyVariants() | Union():
            every = [_patterns(inner) for inner in sub_rules(rule)]
            known = [patterns for patterns in every if patterns is not None]
            return sum(known, ()) if len(known) == len(every) else None
        case _:
            return None


def _gives_no_tuple(rule: FusionRule) -> bool:
    """Whether each call in the candidates of `rule` is known to give a tensor."""
    match rule:
        case OpPredicate(_, ops) if ops:
            return not any(map(_is_of_tuple, ops))
        case DFPattern(pattern):
            return not _may_give_tuple(pattern)
        case Tagged() | OnlyValid() | OnlyVariants() | Union():
            return all(map(_gives_no_tuple, sub_rules(rule)))
        case _:
            return False


def _is_of_tuple(op: str) -> bool:
    return operators()[op].gives != "tensor"


def _may_give_tuple(pattern: Pattern) -> bool:
    for operand in written_in_all(pattern):
        match operand:
            case TupleOf() | Call(kinds=(_, *_)) | PathFrom(kinds=(_, *_)):
                return True
            case Call(ops) | PathFrom(ops):
                if any(map(_is_of_tuple, ops)):
                    return True
    return False


def _takes_no_more_constants(rule: FusionRule) -> bool:
    """Whether no constant flows into a match except those that the patterns of `rule` bind."""
    patterns = _patterns(rule)
    return patterns is not None and not any(map(_may_take_more, patterns))


def _may_take_more(pattern: Pattern) -> bool:
    takers = (Anything, PathFrom, Number, Flat)
    if any(isinstance(part, takers) for part in written_in_all(pattern)):
        return True
    return not all(
        each.constant or (each.excluded is not None and each.excluded.constants)
        for each in pattern.parameters
    )


def _least_kind(rule: FusionRule) -> Kind | None:
    """The least kind of a candidate; None if that is not known."""
    match rule:
        case OpCallByKind(kinds):
            return min(kinds)
        case DFPattern(pattern):
            return _least_kind_of_match(pattern)
        case OpPredicate(_, ops) if ops:
            return min(_least_kind_of(ops))
        case Tagged(_, inner) | OnlyValid(inner) | OnlyVariants(inner) | CombineByPrimitives(inner):
            return _least_kind(inner)
        case Union(rules):
            least = [_least_kind(one) for one in rules]
            known = [kind for kind in least if kind is not None]
            return min(known) if len(known) == len(least) else None
        case _:
            return None


def _least_kind_of_match(pattern: Pattern) -> Kind | None:
    """A match is of the greatest kind of its calls, which may be of several operators."""
    whole = written_out(pattern)
    found, _ = required_calls(whole.pattern, whole.required)
    kinds = [
        min((*each.call.kinds, *_least_kind_of(each.call.ops)))
        for each in found
        if not each.call.optional
    ]
    return max(kinds, default=None)


def _least_kind_of(ops: Sequence[str]) -> tuple[Kind, ...]:
    return tuple(min(operators()[op].kinds) for op in ops)
