"""Report rules that join or add nothing, because bounds, limits or kinds allow no larger kernel."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, count
from collage_dsl.language.reasoning.findings.vain_primitives import check_primitives
from collage_dsl.language.reasoning.patterns.extent import Extent, extent
from collage_dsl.language.reasoning.patterns.limit_places import LimitPlaces
from collage_dsl.language.reasoning.patterns.pattern_shape import written_in_all
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Horizontal,
    InjectiveBranches,
    JoinAnything,
    Joining,
    KindPair,
    Limits,
    MaxCoalesce,
    OnlyValid,
    OnlyVariants,
    Primitive,
    Tagged,
    Union,
    Vertical,
    sub_rules,
)
from collage_dsl.rules.pattern import Anything, PathFrom
from collage_dsl.rules.rule_functions import default_of, function_of
from collage_dsl.source import Span


@dataclass(frozen=True, slots=True)
class _Refused:
    """A bound that refuses each candidate which is joined: the `least` of them has more."""

    name: str
    bound: int
    least: int

    @property
    def bounded(self) -> str:
        return f"`{self.name}` {self.bound}"

    @property
    def reason(self) -> str:
        if self.name == "max_nodes":
            return f"it has at least {count(self.least, 'operator')}"
        return f"it is at least {count(self.least, 'operator')} deep"


def _refused(
    nodes: int, depth: int, max_nodes: int | None, max_depth: int | None
) -> _Refused | None:
    """What refuses candidates with at least so many `nodes`, and of at least that `depth`."""
    if max_nodes is not None and nodes > max_nodes:
        return _Refused("max_nodes", max_nodes, nodes)
    if max_depth is not None and depth > max_depth:
        return _Refused("max_depth", max_depth, depth)
    return None


def check_joining(rule: CombineByPrimitives, span: Span, findings: Findings) -> None:
    """Report a rule that joins nothing. `span` is that of its name."""
    if not rule.using:
        hint = "write `using: tvm_default`"
        findings.warning("W0425", span, "`using` has no primitive, so nothing is joined", hint)
        return
    inner = extent(rule.rule)
    nodes, depth = (0, 0) if inner is None else _larger(rule, inner)
    refused = _refused(nodes, depth, rule.max_nodes, rule.max_depth)
    if refused is not None:
        message = f"{refused.bounded} refuses everything that is joined: {refused.reason}"
        hint = f"write `{refused.name}: {refused.least}` or more"
        findings.warning("W0425", span, message, hint, _notes(rule.rule))
    elif all(map(_joins_calls, rule.using)) and _takes_only_constants(rule.rule):
        message = "all that these candidates take is constant, so none takes the result of another"
        hint = "write the rule in it alone, or a parameter without `const`"
        findings.warning("W0425", span, message, hint, _notes(rule.rule))
    else:
        check_primitives(rule, span, findings)


def _notes(rule: FusionRule) -> tuple[Note, ...]:
    """A note on the pattern that makes candidates so large, if it is only one."""
    match rule:
        case DFPattern(pattern):
            return (Note("the pattern", pattern.span),)
        case Tagged(_, inner) | OnlyVariants(inner) | OnlyValid(inner):
            return _notes(inner)
        case _:
            return ()


def check_growing(rule: Vertical, span: Span, findings: Findings) -> None:
    """Report a rule that adds no prologue, no epilogue or neither."""
    inner = extent(rule.rule)
    if rule.prologue is None and rule.epilogue is None:
        message = "this has no prologue and no epilogue, so it adds nothing"
        findings.warning("W0425", span, message, "write `epilogue: broadcast`")
    elif rule.epilogue is None and _takes_only_constants(rule.rule):
        message = "all that these candidates take is constant, so none has a prologue"
        hint = "write `epilogue: broadcast`, or the rule in it alone"
        findings.warning("W0425", span, message, hint, _notes(rule.rule))
    elif inner:
        refused = {what: depth for what, depth in _sides(rule, inner) if depth > rule.max_depth}
        if not refused:
            return
        what, depth = " or ".join(refused), min(refused.values())
        message = f"`max_depth` {rule.max_depth} leaves no room for {what}: "
        message += f"a kernel with one is at least {count(depth, 'operator')} deep"
        hint = f"write `max_depth: {depth}` or more"
        findings.warning("W0425", span, message, hint, _notes(rule.rule))


def _sides(rule: Vertical, inner: Extent) -> Iterator[tuple[str, int]]:
    """What the rule may add, with the least depth of a candidate that has it."""
    if rule.prologue is not None:
        yield "a prologue", inner.depth_with_prologue
    if rule.epilogue is not None:
        yield "an epilogue", inner.depth_with_epilogue


def check_siblings(rule: Horizontal, span: Span, findings: Findings) -> None:
    """Report a rule that joins nothing, because siblings share an input that is no constant."""
    if _takes_only_constants(rule.rule):
        message = "all that these candidates take is constant, so no siblings are joined"
        hint = "siblings share an input that is no constant: write the rule in it alone"
        findings.warning("W0425", span, message, hint, _notes(rule.rule))


def _takes_only_constants(rule: FusionRule) -> bool:
    match rule:
        case DFPattern(pattern):
            written = written_in_all(pattern)
            is_open = any(isinstance(part, Anything | PathFrom) for part in written)
            return not is_open and all(each.constant for each in pattern.parameters)
        case Tagged() | OnlyVariants() | OnlyValid() | Union():
            return all(map(_takes_only_constants, sub_rules(rule)))
        case _:
            return False


def check_merging(rule: FusionRule, limits: Limits, span: Span, findings: Findings) -> None:
    """Report `after max_coalesce()` where the limits refuse each union of two candidates."""
    inner = extent(rule)
    if inner is None:
        return
    bounds = limits.max_nodes, limits.max_depth
    refused = _refused(inner.joined_nodes, inner.joined_depth, *bounds)
    if refused is not None:
        message = f"{refused.bounded} refuses everything that is merged: {refused.reason}"
        hint = f"write `{refused.name} {refused.least}` or more, or remove `after`"
        findings.warning("W0425", span, message, hint)


def check_joined(
    rule: FusionRule, limits: Limits, written: LimitPlaces, findings: Findings
) -> None:
    """
    Report limits that refuse everything which a rule joins, but not the candidates that it joins.
    Among them is `max_exits 1`: each of the siblings of `horizontal` has an exit of its own.
    """
    bounds = limits.max_nodes, limits.max_depth
    for each in _joiners(rule):
        joins = f"what `{function_of(each).name}` joins"
        if isinstance(each, Horizontal) and limits.max_exits == 1:
            message = f"`max_exits` 1 refuses {joins}: it has several exits"
            findings.warning(
                "W0422", written["max_exits"], message, f"write {written.limit('max_exits', 'any')}"
            )
        inner = extent(each.rule)
        if isinstance(each, Horizontal) and each.max != default_of(Horizontal, "max"):
            _check_siblings_fit(each.max, inner, limits, written, findings)
        if inner is None or _refused(inner.least, inner.depth, *bounds) is not None:
            continue
        refused = _refused(*_larger(each, inner), *bounds)
        if refused is not None:
            message = f"{refused.bounded} refuses {joins}: {refused.reason}"
            hint = f"write {written.limit(refused.name, refused.least)} or more"
            findings.warning("W0422", written[refused.name], message, hint, _notes(each.rule))


def _check_siblings_fit(
    most: int, inner: Extent | None, limits: Limits, written: LimitPlaces, findings: Findings
) -> None:
    """Report limits that never allow as many siblings as `max` says, for their exits or calls."""
    least = {"max_exits": 1, "max_nodes": 0 if inner is None else inner.least}
    for name, of_each in least.items():
        limit = limits.max_exits if name == "max_exits" else limits.max_nodes
        if limit is None or not of_each or not 2 <= limit // of_each < most:
            continue
        fit = limit // of_each
        message = f"`{name}` {limit} refuses more than {count(fit, 'sibling')}, "
        message += f"but `horizontal` has `max` {most}"
        hint = f"write {written.limit(name, most * of_each)}, or `max: {fit}`"
        findings.warning("W0422", written[name], message, hint)


def _joiners(rule: FusionRule) -> Iterator[Joining]:
    """The rules that make candidates larger, and that no other one is around."""
    if isinstance(rule, Joining):
        yield rule
        return
    for inner in sub_rules(rule):
        yield from _joiners(inner)


def _larger(rule: Joining, inner: Extent) -> tuple[int, int]:
    """The least number of calls, and the least depth, of what `rule` makes of several calls."""
    match rule:
        case CombineByPrimitives(using=using) if not any(map(_joins_calls, using)):
            return 0, 0
        case CombineByPrimitives() | MaxCoalesce():
            return inner.joined_nodes, inner.joined_depth
        case Horizontal():
            return inner.joined_nodes, inner.depth
        case Vertical():
            depths = [depth for _, depth in _sides(rule, inner)]
            return inner.least + bool(depths), min(depths, default=inner.depth)
        case _:
            assert_never(rule)


def _joins_calls(primitive: Primitive) -> bool:
    """Whether a primitive is only for candidates with calls, and not for tuples or constants."""
    return isinstance(primitive, KindPair | JoinAnything | InjectiveBranches)
