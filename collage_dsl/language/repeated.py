"""Rules of a union that propose nothing which another does not, under the same label."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from collage_dsl.diagnostics import Note
from collage_dsl.language.findings import Findings
from collage_dsl.language.pattern_shape import calls
from collage_dsl.language.subsumption import subsumes
from collage_dsl.rules import (
    DFPattern,
    FusionRule,
    Limits,
    OnlyValid,
    OpCallByKind,
    Pattern,
    Tagged,
    Union,
)
from collage_dsl.source import Span

_MOST_LEAVES = 100
"""A union of more than these is not looked at."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """
    A rule that proposes, with the labels and limits around it, the outermost first. What limits
    prune depends on all that is proposed: such a rule is not looked into.
    """

    around: tuple[str | Limits, ...]
    rule: FusionRule


def check_repeated(rules: Sequence[tuple[FusionRule, Span]], findings: Findings) -> None:
    """Report each of `rules`, with the place where it is written, that another makes needless."""
    leaves = [tuple(_leaves(rule, ())) for rule, _ in rules]
    if sum(map(len, leaves)) > _MOST_LEAVES:
        return
    needless: set[int] = set()
    for at, (_, span) in reversed(list(enumerate(rules))):
        others = (i for i in range(len(rules)) if i != at and i not in needless)
        by = next((i for i in others if _covers(leaves[i], leaves[at])), None)
        if by is None:
            continue
        needless.add(at)
        message = "this can never be chosen: another rule proposes the same, and maybe more"
        note = Note("the same is proposed here", rules[by][1])
        findings.warning("W0420", span, message, "take it out", (note,))


def _leaves(rule: FusionRule, around: tuple[str | Limits, ...]) -> Iterator[Leaf]:
    match rule:
        case Union(rules):
            for one in rules:
                yield from _leaves(one, around)
        case Tagged(label, inner):
            yield from _leaves(inner, (*around, label))
        case OnlyValid(inner, limits) if not limits.prunes:
            yield from _leaves(inner, (*around, limits))
        case _:
            yield Leaf(around, rule)


def _covers(larger: Sequence[Leaf], smaller: Sequence[Leaf]) -> bool:
    return all(any(_proposes(one, leaf) for one in larger) for leaf in smaller)


def _proposes(larger: Leaf, smaller: Leaf) -> bool:
    """Whether `larger` proposes all that `smaller` does, and with the same labels."""
    if larger.around != smaller.around:
        return False
    match larger.rule, smaller.rule:
        case DFPattern(one), DFPattern(other):
            return _operators(one) >= _operators(other) and subsumes(one, other)
        case OpCallByKind(kinds), OpCallByKind(fewer):
            return set(kinds) >= set(fewer)
        case one, other:
            return one == other


def _operators(pattern: Pattern) -> set[str]:
    return {op for b in pattern.bindings for call in calls(b.value) for op in call.ops}
