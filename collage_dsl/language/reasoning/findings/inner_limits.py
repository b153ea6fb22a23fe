"""Report limits of `only_valid` that allow what the limits around it refuse."""

from collections.abc import Iterator

from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.reasoning.patterns.limit_places import LimitPlaces
from collage_dsl.language.reasoning.patterns.single_calls import is_of_single_calls
from collage_dsl.rules import FusionRule, Joining, Limits, OnlyValid, sub_rules


def check_inner_limits(
    rule: FusionRule, limits: Limits, written: LimitPlaces, findings: Findings
) -> None:
    """
    Report what each `only_valid` in `rule` allows in vain: exits and taps that `limits` refuse, and
    candidates of `min_nodes` or more that all have too many operators. `written` are the spans of
    `limits`. Where a rule joins candidates, inner exits may be gone in what it makes.
    """
    for inner, joined in _inner(rule, joined=False):
        most = limits.max_nodes
        if most is not None and inner.min_nodes is not None and inner.min_nodes > most:
            message = f"`max_nodes` {most} refuses all that `only_valid` proposes: "
            message += f"its `min_nodes` is {inner.min_nodes}"
            hint = f"write {written.limit('max_nodes', inner.min_nodes)} or more"
            findings.warning("W0421", written["max_nodes"], message, hint)
        for name, allowed, refusing in () if joined else _refused(inner, limits):
            message = f"{refusing} refuses what `only_valid` allows by `{name}: {allowed}`"
            hint = f"write {written.limit(name, allowed)}"
            if not findings.advised("W0422", written[name], hint):
                findings.warning("W0422", written[name], message, hint)


def _inner(rule: FusionRule, *, joined: bool) -> Iterator[tuple[Limits, bool]]:
    """
    The limits of each `only_valid`, and whether a rule around it may join its candidates. Those of
    single calls are left out: `max_exits` and `taps` change nothing there, which is reported.
    """
    if isinstance(rule, OnlyValid) and not is_of_single_calls(rule):
        yield rule.limits, joined
    for inner in sub_rules(rule):
        yield from _inner(inner, joined=joined or isinstance(rule, Joining))


def _refused(inner: Limits, limits: Limits) -> Iterator[tuple[str, str, str]]:
    """Each limit that `inner` raises in vain: its name, its value, and what refuses it."""
    exits, most = inner.max_exits, limits.max_exits
    if most is not None and (exits is None or exits > most):
        yield "max_exits", "any" if exits is None else str(exits), f"`max_exits` {most}"
    if inner.taps and not limits.taps:
        yield "taps", "allowed", "`taps none`"
