"""Report rules whose candidates none of the variants that are allowed can compute."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import combinations_with_replacement
from math import inf
from operator import or_

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Kind, Toolchain
from collage_dsl.graph.operators import operators
from collage_dsl.graph.variants import COMPUTED, DIRECT, Computed, Variants, common
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.reasoning.conclusions.known_convolutions import refusal
from collage_dsl.language.reasoning.findings.effects import grown_by, may_have
from collage_dsl.language.reasoning.patterns.always import always_called
from collage_dsl.language.reasoning.patterns.coverage import Calls
from collage_dsl.language.reasoning.patterns.extent import extent
from collage_dsl.language.reasoning.patterns.pattern_shape import written_in_all
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Joining,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    sub_rules,
)
from collage_dsl.rules.pattern import Call, Flat, PathFrom, PatternCall, Repeat, TupleOfEach
from collage_dsl.rules.rule import FUSIBLE
from collage_dsl.rules.rule_functions import function_of
from collage_dsl.source import Span

_MOST_COMPARED = 40
"""Of more rules than this, it is not examined which of them are joined."""


@dataclass(frozen=True, slots=True)
class Seed:
    """
    A rule that has no other rules in it, the variants that may compute its candidates, and the
    innermost rule that says so; None if only the target does.
    """

    rule: FusionRule
    only: Variants
    said: OnlyVariants | None = None

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds that a candidate may have."""
        return frozenset(self.rule.kinds if isinstance(self.rule, OpCallByKind) else Kind)


@dataclass(frozen=True, slots=True)
class Group:
    """
    The rules inside `rule`, whose candidates may be joined to kernels of at most so many calls.
    `has` are the calls in kernels that a variant may compute, as far as the rules say.
    """

    rule: FusionRule
    seeds: tuple[Seed, ...]
    most: float
    has: Mapping[str, Calls]

    def can_compute(self, variant: str, seed: Seed) -> bool:
        """Whether `variant` can compute a candidate of `seed`, alone or joined with others."""
        found = COMPUTED.get(variant)
        if found is None:
            return True
        own, has = extent(seed.rule), self.has[variant]
        if own is None or self.most < found.least or not any(op in has for op in found.ops):
            return False
        if not found.others and own.least > found.least:
            return False
        if (
            self.rule is seed.rule
            and self.most == own.most
            and _most_of(seed.rule, found.ops) < found.least
        ):
            return False
        return not any(_is_refused(ops, found) for ops in _always(seed.rule))

    def can_be_joined(self, one: Seed, other: Seed) -> bool:
        """Whether a primitive of the rule joins candidates of both, and a variant computes them."""
        assert isinstance(self.rule, CombineByPrimitives)
        kinds = [(a, b) for a in one.kinds for b in other.kinds]
        pairs = {*kinds, *((b, a) for a, b in kinds)}
        if not any(p.concerns(*pair) for p in self.rule.using for pair in pairs):
            return False
        both = common(one.only, other.only)
        return both is None or any(
            self.can_compute(variant, one) and self.can_compute(variant, other) for variant in both
        )


def _always(rule: FusionRule) -> Iterator[tuple[str, ...]]:
    """For each call that all candidates of `rule` have, its operators."""
    if isinstance(rule, DFPattern):
        for call in always_called(rule.pattern):
            if not call.kinds:
                yield call.ops


def _most_of(rule: FusionRule, ops: Sequence[str]) -> float:
    """The most calls of `ops` in a candidate of `rule`, as far as it is known."""
    if not isinstance(rule, DFPattern):
        return inf
    found = 0
    for part in written_in_all(rule.pattern):
        match part:
            case Repeat() | PathFrom() | PatternCall() | TupleOfEach() | Flat():
                return inf
            case Call():
                found += bool(part.kinds) or not set(part.ops).isdisjoint(ops)
    return found


def _is_refused(ops: tuple[str, ...], variant: Computed) -> bool:
    """Whether a kernel with a call of `ops` is none that the variant computes."""
    if not set(ops).isdisjoint(variant.ops):
        return False
    is_sum = all(min(operators()[op].kinds) >= Kind.REDUCE for op in ops)
    return not variant.others or (is_sum and not variant.other_sums)


@dataclass(frozen=True, slots=True)
class Places:
    """
    Where a target is written: its name, its `variants` (or its rules), its rules; and where the
    rules of this file list variants.
    """

    name: Span
    variants: Span
    rules: Span
    lists: Mapping[OnlyVariants, Span]


def check_computed(
    rule: FusionRule, target: Toolchain, places: Places, findings: Findings, *, merges: bool
) -> None:
    """
    Report what no variant can compute in the rule of a native target, which may merge kernels
    later.
    """
    only = frozenset(target.variants) or None
    whole = (_group(rule, only, None, most=inf),)
    for group in whole if merges else _groups(rule, only, None):
        if _joins_nothing(group):
            said = listed(sorted({name for seed in group.seeds for name in seed.only or ()}), "and")
            message = "no variant can compute two candidates together, so nothing is joined"
            hint = f"these rules allow {said}: allow a common one, such as `{DIRECT}`"
            findings.warning("W0425", places.rules, message, hint)
            continue
        for seed in group.seeds:
            able = [name for name in sorted(seed.only or ()) if group.can_compute(name, seed)]
            refused = _refusals(seed, able)
            if seed.only and len(refused) == len(able):
                _report(seed, refused, places, findings)


def _refusals(seed: Seed, variants: Sequence[str]) -> dict[str, str]:
    """Why those of `variants` that look at convolutions compute no match of a pattern."""
    if not isinstance(seed.rule, DFPattern) or not all(
        name in COMPUTED and COMPUTED[name].refused for name in variants
    ):
        return {}
    found = {name: refusal(seed.rule.pattern, COMPUTED[name]) for name in variants}
    return {name: why for name, why in found.items() if why}


def _groups(rule: FusionRule, only: Variants, said: OnlyVariants | None) -> Iterator[Group]:
    """The rules whose candidates are not joined with those of others, each with what is in it."""
    match rule:
        case OnlyVariants(inner, names):
            yield from _groups(inner, common(only, frozenset(names)), rule)
        case _ if (inner_rules := sub_rules(rule)) and not isinstance(rule, Joining):
            for inner in inner_rules:
                yield from _groups(inner, only, said)
        case _:
            yield _group(rule, only, said)


def _group(
    rule: FusionRule, only: Variants, said: OnlyVariants | None, most: float | None = None
) -> Group:
    seeds = tuple(_seeds(rule, only, said))
    if most is None:
        found = extent(rule)
        most = 0 if found is None else found.most
    named = {name for seed in seeds for name in seed.only or ()}
    has = {name: _has(name, rule, seeds) for name in sorted(named)}
    return Group(rule, seeds, most, has)


def _has(variant: str, rule: FusionRule, seeds: Iterable[Seed]) -> Calls:
    allowing = (seed for seed in seeds if seed.only is None or variant in seed.only)
    return reduce(or_, (may_have(seed.rule) for seed in allowing), grown_by(rule))


def _seeds(rule: FusionRule, only: Variants, said: OnlyVariants | None) -> Iterator[Seed]:
    match rule:
        case OnlyVariants(inner, names):
            yield from _seeds(inner, common(only, frozenset(names)), rule)
        case OpCallByKind() | DFPattern() | OpPredicate():
            yield Seed(rule, only, said)
        case _:
            for inner in sub_rules(rule):
                yield from _seeds(inner, only, said)


def _joins_nothing(group: Group) -> bool:
    """Whether there are variants for the candidates of a rule, but for no two of them together."""
    if not isinstance(group.rule, CombineByPrimitives):
        return False
    restricted = [seed for seed in group.seeds if seed.only is not None]
    if len(group.seeds) > _MOST_COMPARED or not all(seed.only for seed in restricted):
        return False  # Those that no variant may compute are reported.
    pairs = tuple(combinations_with_replacement(group.seeds, 2))
    if not restricted or any(group.can_be_joined(*pair) for pair in pairs):
        return False
    free = (map(partial(replace, only=None), pair) for pair in pairs)
    return any(group.can_be_joined(*pair) for pair in free)


def _report(seed: Seed, refused: Mapping[str, str], places: Places, findings: Findings) -> None:
    names = sorted(seed.only or ())
    place, notes = places.variants, tuple[Note, ...]()
    if seed.said is not None:
        place = places.lists.get(seed.said, places.rules)
        notes = (Note("the target", places.name),)
    match seed.rule:
        case DFPattern(pattern):
            what = f"a match of `{pattern.name}`"
            notes = (*notes, Note("the pattern", pattern.span))
        case OpCallByKind(kinds):
            named = "" if kinds == FUSIBLE else ", ".join(map(str, kinds))
            what = f"a candidate of `op_call_by_kind({named})`"
        case _:
            what = f"a candidate of `{function_of(seed.rule).name}`"
    said = f"{listed(names, 'and')} can never compute {what}"
    why = [*_reasons(refused), *_purposes(name for name in names if name not in refused)]
    hint = f"{'; '.join(why)}; allow `{DIRECT}`, which computes every kernel"
    findings.warning("W0425", place, said, hint, notes)


def _reasons(refused: Mapping[str, str]) -> Iterator[str]:
    for reason in dict.fromkeys(refused.values()):
        same = [name for name in refused if refused[name] == reason]
        yield f"{'each of ' if len(same) > 1 else ''}{listed(same, 'and')} {reason}"


def _purposes(names: Iterable[str]) -> Iterator[str]:
    """What variants compute, in words: `gemm` and `gemv` are for `matmul`."""
    by_purpose: dict[str, list[str]] = {}
    for name in names:
        by_purpose.setdefault(_purpose(COMPUTED[name]), []).append(name)
    for purpose, same in by_purpose.items():
        yield f"{listed(same, 'and')} {'is' if len(same) == 1 else 'are'} for {purpose}"


def _purpose(variant: Computed) -> str:
    said = listed(variant.ops)
    if variant.least > 1:
        said = f"{variant.least} or {variant.most} calls of {said}"
    elif not variant.others:
        said += " alone"
    return said if variant.other_sums else f"{said} without other sums"
