"""Report rules that add nothing: other rules propose the same, with the same labels."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Kind
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.patterns.pattern_shape import calls, with_called, written_in_all
from collage_dsl.language.reasoning.patterns.single_calls import is_single_call
from collage_dsl.language.reasoning.patterns.subsumption import subsumes
from collage_dsl.rules import (
    DFPattern,
    FusionRule,
    Limits,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Pattern,
    Tagged,
    Union,
)
from collage_dsl.rules.pattern import Call, PathFrom
from collage_dsl.source import Span

_MOST_LEAVES = 100
"""Larger unions are not examined."""


Around = str | Limits | frozenset[str]
"""A label, limits, or variants."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """
    A rule without sub-rules, with the labels, limits and variants around it, outermost first.

    A rule inside limits that prune is not split further: what they prune depends on all of its
    candidates.
    """

    around: tuple[Around, ...]
    rule: FusionRule


def check_repeated(rules: Sequence[tuple[FusionRule, Span]], findings: Findings) -> None:
    """Report each of `rules` that another makes unnecessary. Each comes with its span."""
    leaves = [tuple(_leaves(rule, ())) for rule, _ in rules]
    if sum(map(len, leaves)) > _MOST_LEAVES:
        return
    needless: set[int] = set()
    for at, (_, span) in reversed(list(enumerate(rules))):
        others = (i for i in range(len(rules)) if i != at and i not in needless)
        by = next((i for i in others if _covers(leaves[i], leaves[at], is_first=i < at)), None)
        if by is None:
            continue
        needless.add(at)
        message = "this adds nothing: another rule proposes all its candidates"
        note = Note("the same is proposed here", rules[by][1])
        findings.warning("W0420", span, message, "remove it", (note,))


def check_label(label: str, inner: FusionRule, span: Span, findings: Findings) -> None:
    """Report a `label` that all candidates of `inner` have already, at the rule that gives it."""
    leaves = tuple(_leaves(inner, ()))
    if leaves and all(label in leaf.around for leaf in leaves):
        message = f"all these candidates have the label `{label}` already"
        findings.warning("W0425", span, message, "remove one `composite`")


def _leaves(rule: FusionRule, around: tuple[Around, ...]) -> Iterator[Leaf]:
    match rule:
        case Union(rules):
            for one in rules:
                yield from _leaves(one, around)
        case Tagged(label, inner):
            yield from _leaves(inner, (*around, label))
        case OnlyValid(inner, limits) if not limits.prunes:
            yield from _leaves(inner, (*around, limits))
        case OnlyVariants(inner, variants):
            yield from _leaves(inner, (*around, frozenset(variants)))
        case _:
            yield Leaf(around, rule)


def _covers(larger: Sequence[Leaf], smaller: Sequence[Leaf], *, is_first: bool) -> bool:
    return all(any(_proposes(one, leaf, is_first) for one in larger) for leaf in smaller)


def _proposes(larger: Leaf, smaller: Leaf, is_first: bool) -> bool:
    """
    Whether `larger` proposes all candidates of `smaller`, with the same labels.

    A pattern of a single call adds nothing to a rule for its kind that `is_first`. Before it, the
    pattern may be what `prefer: first` prefers.
    """
    if larger.around != smaller.around:
        return False
    match larger.rule, smaller.rule:
        case DFPattern(one), DFPattern(other):
            return _operators(one) >= _operators(other) and subsumes(one, other)
        case OpCallByKind(kinds), OpCallByKind(fewer):
            return set(kinds) >= set(fewer)
        case OpPredicate(asked, ops), OpPredicate(same, fewer) if asked == same:
            return not ops or (bool(fewer) and set(ops) >= set(fewer))
        case OpCallByKind(kinds), DFPattern(pattern):
            return is_first and _is_call_of(pattern, kinds)
        case one, other:
            return one == other


def _is_call_of(pattern: Pattern, kinds: Collection[Kind]) -> bool:
    """Whether each match is one call of these kinds alone, without constants that it binds."""
    found = operators()
    return (
        is_single_call(pattern)
        and not any(each.constant for one in with_called(pattern) for each in one.parameters)
        and all(
            set(call.kinds).union(*(found[op].kinds for op in call.ops)) <= set(kinds)
            for call in written_in_all(pattern)
            if isinstance(call, Call | PathFrom)
        )
    )


def _operators(pattern: Pattern) -> set[str]:
    return {op for b in pattern.bindings for call in calls(b.value) for op in call.names}
