"""Check `pin` and `forbid` statements and build the placements of each target."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from collage_dsl.diagnostics import Note
from collage_dsl.language.messages.findings import Findings, listed
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.reasoning.findings.effects import absent, always_has, may_have
from collage_dsl.language.reasoning.findings.forms_in_relax import check_listed
from collage_dsl.language.reasoning.findings.list_items import check_names_twice
from collage_dsl.language.resolve.scope import PatternScope
from collage_dsl.language.syntax import ast
from collage_dsl.rules import FusionRule
from collage_dsl.rules.placement import ByName, ByOperator, Placement, Selector

_SELECTORS = ("name", "op")

_OF_REGEX = re.compile(
    r"(?:\[(?:[a-zA-Z0-9]-[a-zA-Z0-9])+\]|\\[dsw])[+*]?"
    r"|(?:(?<=/)|^)\.[*+]|\?|\{[^{}]*,[^{}]*\}|\([^()]*\|[^()]*\)"
)
"""Finds `[0-9]+`, `\\d`, `?` and `{a,b}`, which are special in other languages and not here."""

_ENDS = re.compile(r"^\^(?=.)|(?<=.)\$$")
"""Finds the signs for the begin and the end of a text in regular expressions."""

_MOST_NAMES = 200
"""Of more selectors by name than this, only equal ones are compared."""


def check_placements(
    written: Iterable[ast.Placement],
    targets: Sequence[str],
    rules: Mapping[str, FusionRule],
    fallbacks: Collection[str],
    broken: Collection[str],
    scope: PatternScope,
    findings: Findings,
) -> dict[str, tuple[Placement, ...]]:
    """
    The placements of a file by target, in file order. `rules` are those of the targets without
    errors, and `fallbacks` those of them that promise a kernel for every operator. `broken` has the
    targets with syntax errors; a placement on one of them is not reported.
    """
    found: dict[str, tuple[Placement, ...]] = {}
    refused: dict[str, frozenset[str]] = {}
    selected: dict[str | Selector, list[tuple[ast.Placement, Selector]]] = {}
    forbidden: list[tuple[ast.Placement, tuple[str, ...]]] = []
    for item in written:
        _check_target(item.target, targets, broken, findings)
        selector = _selector(item.selector, scope, findings)
        if selector is None:
            continue
        keys = (
            selector.ops if isinstance(selector, ByOperator) else _overlapping(selector, selected)
        )
        earlier = [each for key in keys for each in selected.get(key, ())]
        _check_contradiction(item, selector, earlier, findings)
        if item.target.text in rules:
            _check_effect(item, selector, rules[item.target.text], findings)
        if isinstance(selector, ByOperator):
            _check_left(item, selector.ops, rules, refused, findings)
            if item.action == "forbid":
                forbidden.append((item, selector.ops))
        elif item.action == "pin" and _is_of_all(selector):
            _check_others(item, rules, findings)
        for key in selector.ops if isinstance(selector, ByOperator) else (selector,):
            selected.setdefault(key, []).append((item, selector))
        placement = Placement(item.action, selector, item.because)
        found[item.target.text] = (*found.get(item.target.text, ()), placement)
    if rules.keys() == {*targets, *broken}:
        _check_promises(forbidden, rules, fallbacks, findings)
    return found


def _check_target(
    name: ast.Name, targets: Sequence[str], broken: Collection[str], findings: Findings
) -> None:
    if name.text in targets or name.text in broken:
        return
    hint: str = did_you_mean(name.text, targets)
    if not hint:
        hint = f"it has {listed(targets, 'and')}" if targets else "it has none"
    findings.error("E0510", name.span, f"the file has no target `{name.text}`", hint)


def _overlapping(name: ByName, selected: Iterable[str | Selector]) -> tuple[ByName, ...]:
    """`name`, and those of the first selectors that match all its names, or no others."""
    names = islice((each for each in selected if isinstance(each, ByName)), _MOST_NAMES)
    nested = (each for each in names if each.is_within(name) or name.is_within(each))
    return tuple(dict.fromkeys((name, *nested)))


def _check_contradiction(
    item: ast.Placement,
    selector: Selector,
    earlier: Sequence[tuple[ast.Placement, Selector]],
    findings: Findings,
) -> None:
    """Report the first of the `earlier` placements of some of the same nodes that contradicts."""
    for other, selected in earlier:
        same_target = item.target.text == other.target.text
        nodes, hint = _in_both(item, selector, other, selected)
        if item.action == other.action == "pin" and not same_target:
            message = f"{nodes} already pinned to `{other.target.text}`"
        elif item.action != other.action and same_target:
            message = f"{nodes} pinned to `{item.target.text}` and forbidden on it"
        else:
            continue
        message += ", so there is no plan"
        note = Note(f"{'pinned' if other.action == 'pin' else 'forbidden'} here", other.target.span)
        findings.error("E0512", item.target.span, message, hint, (note,))
        return


def _in_both(
    item: ast.Placement, selector: Selector, other: ast.Placement, selected: Selector
) -> tuple[str, str]:
    """Words for the nodes that both placements select, and a hint."""
    match selector, selected:
        case ByOperator(ops), ByOperator(others) if set(ops) != set(others):
            both = [op for op in ops if op in others]
            nodes = f"{listed(both[:3], 'and')} {'is' if len(both) == 1 else 'are'}"
            return nodes, f"select {listed(both[:3], 'and')} in one of them only"
        case ByName(name), ByName(another) if name != another:
            wide, narrow = (another, name) if selector.is_within(selected) else (name, another)
            hint = f'`"{wide}"` matches all that `"{narrow}"` matches, and neither takes precedence'
            return "these nodes are", hint
    hint = "remove one of them"
    if item.selector.span.text == other.selector.span.text:
        hint += f": `{item.selector.span.text}` is written twice"
    return "these nodes are", hint


def _check_effect(
    item: ast.Placement, selector: Selector, rule: FusionRule, findings: Findings
) -> None:
    """Report a placement of calls that the target never has, or one that leaves it none."""
    target = item.target.text
    match selector:
        case ByOperator(ops) if missing := _never_run(item, ops, rule):
            message = f"`{target}` never runs {listed(missing[:3])}"
            one = "it" if len(missing) == 1 else "one of them"
            what = (
                f"so a model with {one} has no plan"
                if item.action == "pin"
                else "so this has no effect"
            )
            hint = f"the rules of `{target}` propose none, {what}"
            findings.warning("W0513", item.selector.span, message, hint)
        case ByName() if item.action == "forbid" and _is_of_all(selector):
            message = f"this forbids every call on `{target}`"
            hint = "`*` matches every name: write a longer name, or remove the target"
            findings.warning("W0513", item.selector.span, message, hint)


def _never_run(item: ast.Placement, ops: tuple[str, ...], rule: FusionRule) -> tuple[str, ...]:
    """
    Those of `ops` that no candidate of `rule` has. A `forbid` has an effect if candidates may have
    one of `ops`, so then there are none; a `pin` leaves no plan for each of the others.
    """
    has = may_have(rule)
    missing = tuple(op for op in ops if op not in has)
    return missing if item.action == "pin" or len(missing) == len(ops) else ()


def _is_of_all(selector: Selector) -> bool:
    """Whether `selector` selects every node."""
    return isinstance(selector, ByName) and not selector.glob.strip("*")


def _check_others(item: ast.Placement, rules: Mapping[str, FusionRule], findings: Findings) -> None:
    """Report a `pin` of every call, which leaves nothing to the other targets."""
    others = [target for target in rules if target != item.target.text]
    if others and item.target.text in rules:
        message = f"in plans with `{item.target.text}`, this leaves no call to {listed(others)}"
        hint = "`*` matches every name: write a longer name, or remove the other targets"
        findings.warning("W0513", item.selector.span, message, hint)


def _check_left(
    item: ast.Placement,
    ops: tuple[str, ...],
    rules: Mapping[str, FusionRule],
    refused: dict[str, frozenset[str]],
    findings: Findings,
) -> None:
    """
    Report a placement of `ops` that leaves a target no candidate, and add them to what the earlier
    ones have `refused` to each target. A `pin` counts in the plans in which its target takes part.
    """
    if item.action == "pin" and item.target.text not in rules:
        return
    for target, rule in rules.items():
        if (item.action == "pin") == (item.target.text == target):
            continue
        before = refused.get(target, frozenset())
        refused[target] = before | set(ops)
        if always_has(rule, refused[target]) and not always_has(rule, before):
            message = f"this leaves no candidate to `{target}`"
            if item.action == "pin":
                message = f"in plans with `{item.target.text}`, {message}"
            hint = "each candidate of its rules has a call that is placed elsewhere: "
            hint += "select fewer calls"
            findings.warning("W0513", item.selector.span, message, hint)


def _check_promises(
    forbidden: Sequence[tuple[ast.Placement, tuple[str, ...]]],
    rules: Mapping[str, FusionRule],
    fallbacks: Collection[str],
    findings: Findings,
) -> None:
    """Report operators that are forbidden on a `fallback` target, and that no other target runs."""
    on: dict[str, set[str]] = {}
    for item, ops in forbidden:
        on.setdefault(item.target.text, set()).update(ops)
    for item, ops in forbidden:
        target = item.target.text
        if target not in fallbacks:
            continue
        others = {name: rule for name, rule in rules.items() if name != target}
        left = [
            op
            for op in ops
            if not absent(rules[target], (op,))
            and all(op in on.get(name, ()) or absent(rule, (op,)) for name, rule in others.items())
        ]
        if left:
            which = "which is" if len(left) == 1 else "which are"
            named = listed(left[:3], "and")
            message = f"fallback target `{target}` does not cover {named}"
            message += f", {which} forbidden on it"
            hint = f"no other target of the file runs {named}: write one, or remove `fallback`"
            findings.warning("W0530", item.selector.span, message, hint)


def _selector(written: ast.Application, scope: PatternScope, findings: Findings) -> Selector | None:
    """The selector that `written` stands for; None after reporting that it is not a selector."""
    match written.function.text, written.arguments:
        case "name", [ast.Argument(None, ast.Literal(str() as glob, span))] if glob:
            if of_regex := _OF_REGEX.search(glob) or _ENDS.search(glob):
                message = f"`{of_regex[0]}` stands for itself in a name: only `*` is special"
                instead = f'write `"{_ENDS.sub("", _OF_REGEX.sub("*", glob))}"`'
                findings.warning("W0513", span, message, instead)
            return ByName(glob)
        case "name", _:
            findings.error(
                "E0511",
                written.span,
                "`name` takes the name of nodes in double quotes",
                'write `name("/head/*")`, in which `*` fits any text',
            )
        case "op", []:
            message = "`op` takes operators, or classes of them"
            findings.error("E0511", written.span, message, "write `op(nn.softmax)`")
        case "op", arguments:
            parts = [scope.operators(argument) for argument in arguments]
            names = [op.name for part in parts for op in part or ()]
            check_names_twice([argument.value for argument in arguments], findings)
            values = [argument.value for argument in arguments]
            check_listed([each for each in values if isinstance(each, ast.Name)], findings)
            return None if None in parts else ByOperator(tuple(dict.fromkeys(names)))
        case other, _:
            message = f"nodes cannot be selected by `{other}`"
            hint: str = did_you_mean(other, _SELECTORS) or f"there are {listed(_SELECTORS, 'and')}"
            findings.error("E0511", written.function.span, message, hint)
    return None
