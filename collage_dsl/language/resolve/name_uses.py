"""Report names and modifiers that are not used as they were declared, and patterns too large."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import Hint, write
from collage_dsl.language.reasoning.patterns.pattern_shape import (
    always_there,
    calls,
    depth,
    pattern_calls,
    references,
    size,
)
from collage_dsl.language.resolve.pattern_names import Names
from collage_dsl.language.resolve.scope import MAX_DEPTH, MAX_SIZE, PatternScope
from collage_dsl.language.syntax import ast
from collage_dsl.rules.pattern import Pattern, Reference
from collage_dsl.rules.written import called_text, operand_text
from collage_dsl.source import Span


def check_uses(
    names: Names, result: ast.Name, others: Sequence[ast.Name], sizes: dict[int, int]
) -> frozenset[str]:
    """
    Report names that the results never use, and optional names that they always use.

    Returns the names that are bound in every match. `sizes` has those of patterns, by `id`.
    """
    reached, always = _reached(names, result.text), _always(names, result.text)
    values = [names.bindings[name].value for name in reached if name in names.bindings]
    if not any(size(value, sizes) for value in values):
        message = f"the result `{result.text}` contains no operator"
        names.findings.error("E0301", result.span, message)
    for other in others:
        there = _always(names, other.text)
        if not always & there:
            message = f"the results `{other.text}` and `{result.text}` are not connected"
            hint = "use one value in both, also when optional operators are absent"
            names.findings.error("E0301", other.span, message, hint)
        reached |= _reached(names, other.text)
        always |= there
    for name, span in names.defined.items():
        if name in reached:
            _check_optional(names, name, span, is_always_there=name in always)
        else:
            message = f"the result `{result.text}` does not use `{name}`"
            hint = f"use `{name}`, or remove it"
            names.findings.error("E0207", span, message, hint)
    return always


def _check_optional(names: Names, name: str, span: Span, *, is_always_there: bool) -> None:
    parameter = names.parameters.get(name)
    if parameter and parameter.optional and is_always_there:
        message = f"`{name}` is optional, but an operator always takes it"
        hint = f"write `{name}`{_or_absent(names, name)}"
        names.findings.error("E0305", span, message, hint)
    elif (
        parameter and not parameter.optional and not is_always_there and not _is_given(names, name)
    ):
        message = f"`{name}` is not optional, so every match has the operator that takes it"
        names.findings.warning("W0308", span, message, write(f"{name}?"))


def _or_absent(names: Names, name: str) -> str:
    """How to write that the parameter `name` may be absent, with the call that takes it."""
    takes = (c for b in names.bindings.values() for c in calls(b.value))
    call = next((c for c in takes if Reference(name) in c.operands), None)
    if call is None:
        return f", or make the operator optional: `add?(…, {name})`"
    at = call.operands.index(Reference(name))
    rest = (*call.operands[:at], *call.operands[at + 1 :])
    if call.ops and all(_may_leave_out(op, at) for op in call.ops):
        both = " | ".join(operand_text(replace(call, operands=o)) for o in (rest, call.operands))
        return f", or both calls: `({both})`"
    if not at:
        return ""
    return f", or make the operator optional: `{called_text(call)}?(…, {name})`"


def _may_leave_out(op: str, at: int) -> bool:
    """Whether calls of `op` can be without the operand at place `at`."""
    operator = operators()[op]
    named = operator.operands or ()
    return at < len(named) and f"{named[at]}?" in operator.shown_operands


def _is_given(names: Names, name: str) -> bool:
    """
    Whether a pattern that is called has an optional parameter for `name`: then the caller says by
    it that what takes the parameter has to be there.
    """
    return any(
        given == Reference(name) and parameter.optional
        for binding in names.bindings.values()
        for call in pattern_calls(binding.value)
        for parameter, given in zip(call.pattern.parameters, call.operands, strict=True)
    )


def check_shared_results(written: ast.Pattern, findings: Findings) -> None:
    """Report `shared` after the call of a result, in a pattern that no other pattern calls."""
    values = {s.name.text: s.value for s in written.statements if isinstance(s, ast.Binding)}
    results = [name for s in written.statements if isinstance(s, ast.Yield) for name in s.names]
    for result in results:
        for call in _calls_of(values.get(result.text)):
            for modifier in call.modifiers:
                if modifier.text == "shared":
                    message = f"`{result.text}` is a result, so `shared` changes nothing"
                    hint = Hint("remove it: a result may always be used outside", "")
                    place = _with_space(modifier.span)
                    findings.warning("W0335", modifier.span, message, hint, place=place)


def _calls_of(written: ast.Operand | ast.ListOf | None) -> Iterator[ast.OperatorCall]:
    match written:
        case ast.OperatorCall():
            yield written
        case ast.Either(choices):
            for choice in choices:
                yield from _calls_of(choice)


def _with_space(span: Span) -> Span:
    """`span` with the space before it."""
    before = span.source.text[: span.start]
    return Span(span.source, len(before.rstrip()), span.end)


def check_size(pattern: Pattern, names: Names, scope: PatternScope, findings: Findings) -> bool:
    """Whether the pattern is small enough: matching it is recursive, from the result down."""
    total = 0
    depths: dict[str, int] = {}
    for name, binding in names.bindings.items():
        depths[name] = depth(binding.value, depths, scope.depths)
        depths[name] += isinstance(binding.value, Reference)
        total += size(binding.value, scope.sizes)
        if depths[name] > MAX_DEPTH:
            message = f"the pattern is more than {MAX_DEPTH} levels deep here"
            hint = "operators, calls of patterns, alternatives, tuples and fields are levels, "
            hint += "in each repetition"
            findings.error("E0105", names.defined[name], message, hint)
            return False
        if total > MAX_SIZE:
            message = f"this pattern has more than {MAX_SIZE} calls, with those of called patterns"
            findings.error("E0406", names.defined[name], message)
            return False
    scope.depths[id(pattern)] = max(depths.values())
    scope.sizes[id(pattern)] = total
    return True


def _reached(names: Names, result: str) -> set[str]:
    """The names that the result uses, directly or indirectly."""
    reached: set[str] = set()
    waiting = [result]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            if name in names.bindings:
                waiting += references(names.bindings[name].value)
    return reached


def _always(names: Names, result: str) -> frozenset[str]:
    """The names that are bound in every match of `result`, including `result`."""
    return always_there(names.parameters.values(), names.bindings.values(), (result,))
