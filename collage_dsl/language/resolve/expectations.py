"""Report expectations of a test that can never hold, and those that always do."""

from collections.abc import Sequence
from functools import lru_cache
from math import inf

from collage_dsl.diagnostics import Note
from collage_dsl.graph import Form, Graph, SubGraph
from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.reasoning.findings.effects import absent
from collage_dsl.language.reasoning.patterns.extent import Extent, extent
from collage_dsl.language.reasoning.patterns.in_graph import no_match
from collage_dsl.language.reasoning.patterns.largest import largest
from collage_dsl.language.reasoning.patterns.most_candidates import most_candidates
from collage_dsl.language.reasoning.patterns.most_matches import most_matches
from collage_dsl.language.reasoning.patterns.pattern_shape import with_called
from collage_dsl.language.reasoning.patterns.smallest import smallest
from collage_dsl.language.resolve.answers import Asked, contradicted, wanted
from collage_dsl.language.resolve.questions import (
    Candidates,
    Expectation,
    Kernels,
    Matches,
    Proposes,
    Question,
    TargetOf,
    WhyNot,
)
from collage_dsl.rules import FusionSpec, Pattern
from collage_dsl.rules.matcher import Attempt

_MOST_NOTES = 3

_extent = lru_cache(maxsize=64)(extent)
"""`extent`, which many expectations ask of the same rule."""

_OUTSIDE = (Form.INPUT, Form.CONSTANT, Form.LITERAL)


def check_expectations(
    expectations: Sequence[Expectation], asked: Asked, findings: Findings
) -> None:
    """Report those that no graph meets, alone or together. Those of a model have no graph."""
    right = []
    for each in expectations:
        if isinstance(each.value, str):
            is_right = _check_text(each, asked, findings)
        else:
            is_right = _check_count(each, asked, findings)
        if is_right:
            right.append(each)
    for each, others in contradicted(right, asked):
        message = "this contradicts another expectation of the test"
        if len(others) > 1:
            message = "this contradicts other expectations of the test"
        notes = tuple(Note("together with this", other.span) for other in others[:_MOST_NOTES])
        hint = "remove one of them" if others else _possible(each.question, asked)
        message = message if others else "this holds for no plan of the graph"
        findings.error("E0702", each.span, message, hint, notes)


def _check_text(each: Expectation, asked: Asked, findings: Findings) -> bool:
    """Whether the answer, a reason or a target, can be given; reports that it cannot."""
    is_equal = each.operator == "=="
    match each.question:
        case WhyNot() if each.value == "" and is_equal:
            hint = "to expect a match, write `matches(…)`"
            findings.error("E0702", each.span, "a reason is never empty", hint)
            return False
        case TargetOf(node) if _is_outside(node, asked.graph):
            message = f"`{node}` is no call, so that no target runs it"
        case TargetOf() if each.value not in asked.targets:
            message = _without_costs(str(each.value))
        case TargetOf(node) if is_equal and (why := _never_runs(str(each.value), node, asked)):
            findings.error("E0702", each.span, why, _running(node, asked))
            return False
        case WhyNot(pattern) if is_equal and not _may_be_said(pattern, str(each.value)):
            message = f"`{pattern.name}` never gives this reason"
            findings.error("E0702", each.span, message, _reason_meant(pattern, str(each.value)))
            return False
        case _:
            return True
    if is_equal:
        findings.error("E0702", each.span, message, _other_target(each, asked))
    else:
        findings.warning("W0330", each.span, f"this always holds: {message}", "remove it")
    return False


def _check_count(each: Expectation, asked: Asked, findings: Findings) -> bool:
    """Whether the answer, a number, can be given; reports that it cannot, or always is."""
    least, most = wanted(each)
    if (least, most) == (0, inf) and each.operator in (">", ">="):
        message = "this always holds: a count is never below 0"
        findings.warning("W0330", each.span, message, "write `>= 1`, or `== 1`")
    elif most < 0:
        hint = "write `not matches(…)` for none"
        if not isinstance(each.question, Matches):
            hint = f"write `{each.span.text.partition('<')[0].strip()} == 0` for none"
        findings.error("E0702", each.span, "a count is never below 0", hint)
    elif why := _zero(each.question, asked):
        if least > 0:
            findings.error("E0702", each.span, why, _instead(each.question, asked))
        elif isinstance(each.question, Kernels):
            findings.warning("W0330", each.span, f"this always holds: {why}", "remove it")
    elif (most := _most(each.question, asked)) < least:
        said = _counted(int(most), each.question)
        hint = f"write `== {int(most)}`, or add calls to the graph"
        findings.error("E0702", each.span, f"this graph has at most {said}", hint)
    else:
        return True
    return False


def _most(question: Question, asked: Asked) -> float:
    """The most candidates or matches that are counted; infinite if that is not known."""
    match question, asked.graph:
        case Candidates(spec), Graph() as graph if not spec.coalesce:
            return most_candidates(spec.rule, graph)
        case Matches(pattern, at), Graph() as graph:
            return most_matches(pattern, graph, at)
    return inf


def _counted(number: int, question: Question) -> str:
    if not isinstance(question, Matches):
        return count(number, "candidate")
    matches = count(number, "match", "es")
    return matches if question.at is None else f"{matches} at `{question.at}`"


def _never_runs(target: str, node: str, asked: Asked) -> str:
    """Why `target` never runs a node; empty if it may."""
    spec = asked.targets[target]
    if spec is None or asked.graph is None:
        return ""
    if why := _placed(target, node, asked.graph, asked):
        return why
    op = asked.graph.nodes[asked.graph.index(node)].op
    missing = absent(spec.rule, (op,)) if op in operators() else ""
    return missing and f"`{target}` never runs {missing}: its rules propose none"


def _placed(target: str, node: str, graph: Graph, asked: Asked) -> str:
    """Why `pin` and `forbid` keep a node from a target; empty if they do not."""
    for name, spec in asked.targets.items():
        for placement in () if spec is None else spec.placements:
            if not placement.selected(graph) >> graph.index(node) & 1:
                continue
            if placement.action == "pin" and name != target:
                return f"`{node}` is pinned to `{name}`"
            if placement.action == "forbid" and name == target:
                return f"`{node}` is forbidden on `{name}`"
    return ""


def _running(node: str, asked: Asked) -> str:
    """A hint that names the targets that may run a node."""
    able = [target for target in asked.targets if not _never_runs(target, node, asked)]
    return f"{listed(able)} may run `{node}`" if able else ""


def _may_be_said(pattern: Pattern, text: str) -> bool:
    """
    Whether `text` may be why a pattern does not match. All reasons name a node or a part of the
    pattern in backquotes, except those that it gives itself.
    """
    return "`" in text or text == Attempt().because or text in _reasons(pattern)


def _reasons(pattern: Pattern) -> list[str]:
    """The reasons that a pattern and those that it calls give."""
    every = with_called(pattern)
    return [where.reason for one in every for where in one.conditions if where.reason]


def _reason_meant(pattern: Pattern, text: str) -> str:
    from difflib import get_close_matches  # imported here because most files need no hint

    reasons = _reasons(pattern)
    if not reasons:
        return 'it gives none: write `where condition else "reason";`'
    similar = get_close_matches(text, reasons, n=1, cutoff=0.4)
    return f'did you mean "{similar[0]}"?' if similar else f'it gives "{reasons[0]}"'


def _without_costs(target: str) -> str:
    return f"`{target}` has no costs in this test, so that it runs nothing"


def _costs_of(target: str) -> str:
    return f'write `{target} {{ "*": 10us; }}` in `costs`'


def _other_target(each: Expectation, asked: Asked) -> str:
    if isinstance(each.question, TargetOf) and _is_outside(each.question.node, asked.graph):
        calls = [] if asked.graph is None else _calls(asked.graph)
        return f"write `target_of({calls[-1]})`" if calls else ""
    return _costs_of(str(each.value))


def _possible(question: Question, asked: Asked) -> str:
    """What can be expected of a plan, where one expectation by itself cannot hold."""
    if isinstance(question, TargetOf):
        have = "has" if len(asked.targets) == 1 else "have"
        return f"only {listed(asked.targets, 'and')} {have} costs"
    calls = 0 if asked.graph is None else asked.graph.calls.bit_count()
    most = count(calls, "kernel")
    return f"a plan of {count(calls, 'call')} has {most if calls < 2 else f'1 to {most}'}"


def _zero(question: Question, asked: Asked) -> str:
    """Why the answer to `question` is always 0; empty if it need not be."""
    graph = asked.graph
    match question:
        case Kernels(str() as target) if target not in asked.targets:
            return _without_costs(target)
        case Matches(pattern, at, nodes):
            if at is not None and _is_outside(at, graph):
                return f"`{at}` is no call, so that no pattern matches there"
            if nodes is not None and not _may_have(pattern, nodes):
                least, most = smallest(pattern).nodes, largest(pattern)
                has = f"{least} to {most} operators" if most > least else count(least, "operator")
                return f"a match of `{pattern.name}` has {has}, not {nodes}"
            return "" if graph is None else no_match(pattern, graph, at)
        case Proposes(spec, names):
            outside = sorted(name for name in names if _is_outside(name, graph))
            if outside:
                return f"{listed(outside, 'and')} is no call, so that no candidate has it"
            asks = 0 if graph is None else len(names.intersection(_calls(graph)))
            bounds = _extent(spec.rule)
            if (
                graph is not None
                and bounds
                and not bounds.least <= asks <= _most_calls(spec, bounds)
            ):
                return f"a candidate of `{spec.name}` has {_number(spec, bounds)}, not {asks}"
            if graph is not None and (why := _not_proposed(spec, names, graph)):
                return why
            if graph is not None and (refusal := _refused(spec, names, graph)):
                return f"the limits refuse a candidate with these nodes: {refusal}"
    return ""


def _refused(spec: FusionSpec, names: frozenset[str], graph: Graph) -> str:
    """Why the limits of `spec` refuse a candidate with these nodes; empty if they allow it."""
    if spec.coalesce:
        return ""
    return spec.limits.refusal(graph, SubGraph(graph.set_of(*names))) or ""


def _not_proposed(spec: FusionSpec, names: frozenset[str], graph: Graph) -> str:
    """Why `spec` has no candidate with one of these calls; empty if it may have."""
    for name in sorted(names.intersection(_calls(graph))):
        op = graph.nodes[graph.index(name)].op
        if op in operators() and absent(spec.rule, (op,)):
            return f"no candidate of `{spec.name}` has `{op}`, the operator of `{name}`"
        for placement in spec.placements:
            chosen = placement.selected(graph) >> graph.index(name) & 1
            if chosen and placement.action == "forbid":
                return f"`{name}` is forbidden on `{spec.name}`"
    return ""


def _may_have(pattern: Pattern, nodes: int) -> bool:
    """Whether a match of `pattern` may have so many operators."""
    return smallest(pattern).nodes <= nodes <= largest(pattern)


def _most_calls(spec: FusionSpec, bounds: Extent) -> float:
    """The most operator calls of a candidate, or of what is merged from several."""
    return inf if spec.coalesce else bounds.most


def _number(spec: FusionSpec, bounds: Extent) -> str:
    most = _most_calls(spec, bounds)
    if most == bounds.least:
        return count(bounds.least, "operator")
    return f"{bounds.least} {'or more' if most == inf else f'to {most}'} operators"


def _instead(question: Question, asked: Asked) -> str:
    graph = asked.graph
    match question:
        case Kernels(str() as target):
            return _costs_of(target)
        case Proposes(spec, names) if not any(_is_outside(name, graph) for name in names):
            if graph is not None and _refused(spec, names, graph):
                return "name a target whose `limits` allow it; without `limits`, the defaults hold"
            return "name the calls of one candidate"
        case Proposes(_, names):
            inside = sorted(name for name in names if not _is_outside(name, graph))
            return f"write `[{', '.join(inside)}]`" if inside else ""
        case Matches(at=str() as at) if graph is not None and _is_outside(at, graph):
            calls = _calls(graph)
            return f"write `at: {calls[-1]}`" if calls else ""
        case Matches(pattern, _, int() as nodes) if not _may_have(pattern, nodes):
            least, most = smallest(pattern).nodes, largest(pattern)
            if least == most:
                return f"write `nodes: {least}`"
            return f"write a number from {least} to {most} after `nodes:`, or leave it out"
        case Matches():
            return "write `not matches(…)` for none"
    return ""


def _calls(graph: Graph) -> list[str]:
    return [node.name for node in graph.nodes if node.form is Form.CALL]


def _is_outside(name: str, graph: Graph | None) -> bool:
    nodes = () if graph is None else graph.nodes
    return any(node.name == name and node.form in _OUTSIDE for node in nodes)
