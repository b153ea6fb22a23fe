"""Report rules whose candidates all have fewer operators than `min_nodes`."""

from collections.abc import Iterator

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, count
from collage_dsl.language.reasoning.patterns.extent import Extent, extent
from collage_dsl.language.reasoning.patterns.largest import largest
from collage_dsl.language.reasoning.patterns.limit_places import LimitPlaces
from collage_dsl.rules import (
    CombineByPrimitives,
    DFPattern,
    FusionRule,
    Limits,
    OnlyValid,
    OnlyVariants,
    OpCallByKind,
    OpPredicate,
    Tagged,
    Union,
    sub_rules,
)
from collage_dsl.rules.rule_functions import function_of


def check_least(
    rule: FusionRule,
    limits: Limits,
    written: LimitPlaces,
    findings: Findings,
    *,
    keeps_single: bool = False,
) -> None:
    """
    Report the rules in `rule` of which `min_nodes` refuses every candidate. `written` are the spans
    of the limits. With `keeps_single`, the limits keep every candidate of one operator call.
    """
    if limits.min_nodes is None:
        return
    for part in _parts(rule):
        found = extent(part)
        if found is None or found.most >= limits.min_nodes:
            continue
        if not keeps_single or found.least > 1:
            _report(part, found, limits.min_nodes, written, findings)


def check_size(rule: FusionRule, limits: Limits, written: LimitPlaces, findings: Findings) -> bool:
    """Report `min_nodes` above what the rule inside allows by its own bound, as an error."""
    match rule:
        case CombineByPrimitives(OpCallByKind(), max_nodes=int() as most) if (
            limits.min_nodes is not None and limits.min_nodes > most
        ):
            message, hint = _excluding(limits.min_nodes, most)
            findings.error("E0423", written["min_nodes"], message, hint)
            return True
    return False


def _excluding(least: int, most: int) -> tuple[str, str]:
    message = f"`min_nodes` {least} is more than `max_nodes` {most} of the rule"
    return message, "no candidate can satisfy both: lower `min_nodes` or raise `max_nodes`"


def _parts(rule: FusionRule) -> Iterator[FusionRule]:
    """The rules whose candidates `rule` proposes as they are."""
    match rule:
        case Tagged() | OnlyVariants() | Union():
            for inner in sub_rules(rule):
                yield from _parts(inner)
        case _:
            yield rule


def _report(
    part: FusionRule, found: Extent, least: int, written: LimitPlaces, findings: Findings
) -> None:
    span = written["min_nodes"]
    said = f"`min_nodes` {least}"
    match _reason(part, least):
        case DFPattern(pattern):
            most = largest(pattern)
            has = f"a match of `{pattern.name}` has {count(most, 'operator')} or fewer"
            message = f"{said} refuses every match of `{pattern.name}`"
            hint = f"write {written.limit('min_nodes', most)} or less"
            findings.warning("W0421", span, message, hint, (Note(has, pattern.span),))
            return
        case (OpCallByKind() | OpPredicate()) as calls:
            name = function_of(calls).name
            message = f"{said} refuses every candidate of `{name}`: each is one operator call"
            hint = f"write `combine_by_primitives({name}(…), using: tvm_default)` to join them"
        case CombineByPrimitives(max_nodes=most) | OnlyValid(_, Limits(max_nodes=most)) if (
            most == found.most
        ):
            message, hint = _excluding(least, int(found.most))
        case other:
            has = count(int(found.most), "operator")
            message = f"{said} is more than a candidate of `{function_of(other).name}` has"
            hint = f"it has at most {has}: write "
            hint += f"{written.limit('min_nodes', int(found.most))} or less"
    findings.warning("W0421", span, message, hint)


def _reason(rule: FusionRule, least: int) -> FusionRule:
    """The innermost rule whose candidates all have fewer than `least` operators."""
    match rule:
        case OnlyValid(inner) | Tagged(_, inner) | OnlyVariants(inner):
            found = extent(inner)
            return rule if found is None or found.most >= least else _reason(inner, least)
        case _:
            return rule
