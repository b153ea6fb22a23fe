"""Report expectations of a test that can never hold, and those that always do."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from collage_dsl.graph import Form, Graph
from collage_dsl.language.messages.findings import Findings, count, listed
from collage_dsl.language.reasoning.largest import largest
from collage_dsl.language.reasoning.smallest import smallest
from collage_dsl.language.resolve.questions import (
    Expectation,
    Matches,
    Proposes,
    Question,
    WhyNot,
)

_OUTSIDE = (Form.INPUT, Form.CONSTANT, Form.LITERAL)


def check_expectations(
    expectations: Sequence[Expectation], graph: Graph | None, findings: Findings
) -> None:
    """Report those that no graph meets, alone or together. Those of a model have no `graph`."""
    answers: dict[Matches, tuple[float, float]] = {}
    for each in expectations:
        if isinstance(each.value, str):
            if each.value == "" and isinstance(each.question, WhyNot) and each.operator == "==":
                hint = "to expect a match, write `matches(…)`"
                findings.error("E0702", each.span, "a reason is never empty", hint)
            continue
        least, most = _wanted(each)
        if (least, most) == (0, inf) and each.operator in (">", ">="):
            message = "this always holds: a count is never below 0"
            findings.warning("W0330", each.span, message, "write `>= 1`, or `== 1`")
        elif most < 0:
            hint = "write `not matches(…)` for none"
            findings.error("E0702", each.span, "a count is never below 0", hint)
        elif least > 0 and (why := _impossible(each.question, graph)):
            findings.error("E0702", each.span, why, _instead(each.question, graph))
        elif isinstance(each.question, Matches):
            asked = _at_only_call(each.question, graph)
            low, high = answers.get(asked, (0, inf))
            answers[asked] = max(low, least), min(high, most)
            if max(low, least) > min(high, most):
                message = "this contradicts another expectation of the test"
                findings.error("E0702", each.span, message, "remove one of them")


def _at_only_call(question: Matches, graph: Graph | None) -> Matches:
    """`question` at the call of a graph that has only one, which is all that can match."""
    nodes = () if graph is None else graph.nodes
    calls = [node.name for node in nodes if node.form not in _OUTSIDE]
    return replace(question, at=calls[0]) if len(calls) == 1 else question


def _wanted(each: Expectation) -> tuple[float, float]:
    """The least and the greatest count that meets an expectation."""
    value = each.value
    assert isinstance(value, int)
    match each.operator:
        case "==":
            return value, value
        case "<":
            return 0, value - 1
        case "<=":
            return 0, value
        case ">":
            return max(0, value + 1), inf
        case ">=":
            return max(0, value), inf
        case _:
            return (1, inf) if value == 0 else (0, inf)


def _impossible(question: Question, graph: Graph | None) -> str:
    """Why the answer to `question` is always 0; empty if it need not be."""
    match question:
        case Matches(pattern, at, nodes):
            if at is not None and _is_outside(at, graph):
                return f"`{at}` is no call, so that no pattern matches there"
            least, most = smallest(pattern).nodes, largest(pattern)
            if nodes is not None and not least <= nodes <= most:
                has = f"{least} to {most} operators" if most > least else count(least, "operator")
                return f"a match of `{pattern.name}` has {has}, not {nodes}"
        case Proposes(_, names):
            outside = sorted(name for name in names if _is_outside(name, graph))
            if outside:
                return f"{listed(outside, 'and')} is no call, so that no candidate has it"
    return ""


def _instead(question: Question, graph: Graph | None) -> str:
    match question:
        case Proposes(_, names):
            inside = sorted(name for name in names if not _is_outside(name, graph))
            return f"write `[{', '.join(inside)}]`" if inside else ""
        case Matches(at=str() as at) if graph is not None and _is_outside(at, graph):
            calls = [node.name for node in graph.nodes if node.form is Form.CALL]
            return f"write `at: {calls[-1]}`" if calls else ""
        case Matches(pattern):
            return f"write `nodes: {smallest(pattern).nodes}`"
    return ""


def _is_outside(name: str, graph: Graph | None) -> bool:
    nodes = () if graph is None else graph.nodes
    return any(node.name == name and node.form in _OUTSIDE for node in nodes)
