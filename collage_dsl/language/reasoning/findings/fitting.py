"""Report patterns whose matches the limits of a rule or target refuse."""

from collections.abc import Iterator

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, count
from collage_dsl.language.reasoning.patterns.limit_places import LimitPlaces
from collage_dsl.language.reasoning.patterns.pattern_shape import calls, references, result_calls
from collage_dsl.language.reasoning.patterns.smallest import smallest
from collage_dsl.rules import (
    DFPattern,
    FusionRule,
    Joining,
    Limits,
    Pattern,
    sub_rules,
)


def check_fit(
    rule: FusionRule,
    limits: Limits,
    written: LimitPlaces,
    findings: Findings,
) -> None:
    """
    Report patterns whose matches are all too large for `limits`, and patterns that expressly allow
    matches which `limits` refuse (several results, inner values used outside). `written` are the
    spans of the limits.
    """
    for pattern, joined in dict.fromkeys(_leaves(rule, joined=False)):
        if name := _excess(pattern, limits):
            _too_large(pattern, limits, name, written, findings)
        elif not joined:
            _refused(pattern, limits, written, findings)


def _leaves(rule: FusionRule, *, joined: bool) -> Iterator[tuple[Pattern, bool]]:
    """The patterns of `rule`, and whether a rule around them may join their matches."""
    if isinstance(rule, DFPattern):
        yield rule.pattern, joined
    for inner in sub_rules(rule):
        yield from _leaves(inner, joined=joined or isinstance(rule, Joining))


def _excess(pattern: Pattern, limits: Limits) -> str:
    """The name of a limit that every match of `pattern` exceeds; empty if there is none."""
    if limits.max_nodes is not None and smallest(pattern).nodes > limits.max_nodes:
        return "max_nodes"
    if limits.max_depth is not None and smallest(pattern).depth > limits.max_depth:
        return "max_depth"
    return ""


def _too_large(
    pattern: Pattern,
    limits: Limits,
    limit: str,
    written: LimitPlaces,
    findings: Findings,
) -> None:
    least = smallest(pattern)
    if limit == "max_nodes":
        has = f"a match of `{pattern.name}` has {count(least.nodes, 'operator')} or more"
        allowed = limits.max_nodes
    else:
        has = f"a match of `{pattern.name}` is {count(least.depth, 'operator')} deep or deeper"
        allowed = limits.max_depth
    message = f"`{limit}` {allowed} refuses every match of `{pattern.name}`"
    least_allowed = least.nodes if limit == "max_nodes" else least.depth
    hint = f"write {written.limit(limit, least_allowed)} or more"
    findings.warning("W0421", written[limit], message, hint, (Note(has, pattern.span),))


def _refused(pattern: Pattern, limits: Limits, written: LimitPlaces, findings: Findings) -> None:
    results = 1 + len(pattern.others)
    notes = (Note("the pattern", pattern.span),)
    if limits.max_exits is not None and results > limits.max_exits:
        message = f"`{pattern.name}` yields {count(results, 'result')}, but "
        message += f"`max_exits` {limits.max_exits} refuses it if all are used outside"
        findings.warning(
            "W0422",
            written["max_exits"],
            message,
            f"write {written.limit('max_exits', 'any')}",
            notes,
        )
    elif not limits.taps and _lets_out(pattern):
        message = f"`{pattern.name}` lets its values be used outside, but the limits forbid it"
        findings.warning(
            "W0422", written["taps"], message, f"write {written.limit('taps', 'allowed')}", notes
        )


def _lets_out(pattern: Pattern) -> bool:
    """
    Whether the pattern allows values to be used outside that it uses inside too. Results always
    may be.
    """
    used = frozenset().union(*(references(binding.value) for binding in pattern.bindings))
    if pattern.taps or not used.isdisjoint(pattern.others):
        return True
    shared = (c for binding in pattern.bindings for c in calls(binding.value) if c.shared)
    results = tuple(result_calls(pattern))
    return any(not any(each is result for result in results) for each in shared)
