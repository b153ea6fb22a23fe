"""Report optional parts, alternatives and repetitions that the rest of a pattern excludes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from collage_dsl.graph.operators import operators
from collage_dsl.language.messages.findings import Findings, quoted
from collage_dsl.language.reasoning.contradiction_words import notes_on
from collage_dsl.language.reasoning.exclusion import Effort, Exclusion
from collage_dsl.language.reasoning.pattern_shape import always_there
from collage_dsl.language.reasoning.premises import Condition, Premise, premises_of
from collage_dsl.rules.condition import Where
from collage_dsl.rules.pattern import (
    Binding,
    Call,
    Either,
    FieldOf,
    Flat,
    Operand,
    PathFrom,
    Pattern,
    PatternCall,
    Repeat,
    TupleOf,
    TupleOfEach,
)
from collage_dsl.source import Span

MOST_CHOICES = 40
MOST_CHOOSING = 20_000
"""Only this many choices of a pattern are examined, and none after this much effort in a file."""

_MOST_COUNTS = 4
_MOST_REPEATED = 8
"""Repetitions with more counts, or of more calls, are not examined; nor more fields of a tuple."""

_ALTERNATIVES = "with any of the alternatives"
_REPETITIONS = "with any number of repetitions"


@dataclass(frozen=True, slots=True)
class Choice:
    """One way in which a part of a pattern may match: `value` instead of it, at `span`."""

    value: Operand
    span: Span | None = None


def check_choices(
    pattern: Pattern,
    whole: Span,
    implied: Sequence[Where],
    findings: Findings,
    effort: Effort,
) -> None:
    """
    Report optional calls and alternatives of `pattern` that nothing matches where the rest does. If
    no alternative can match, the pattern never matches, which is an error at `whole`, its name.

    The pattern can match as far as is known without them. Only one part is examined at a time.
    """
    count = 0
    for binding, choices, must in _parts(pattern):
        refused: list[tuple[Choice, Exclusion]] = []
        for choice in choices:
            count += 1
            if count > MOST_CHOICES or effort.choosing > MOST_CHOOSING:
                return
            if found := _excluded(_with(pattern, binding, choice.value), implied, effort):
                refused.append((choice, found))
        if must and len(refused) == len(choices):
            _never(_refusal(refused[0][1], effort), whole, pattern, must, findings)
            return
        for choice, found in refused:
            _part(choice, _refusal(found, effort), findings)


Choices = tuple[list[Choice], str]
"""The ways in which a part may match; if one of these has to, words for all of them, else empty."""


def _parts(pattern: Pattern) -> Iterator[tuple[Binding, list[Choice], str]]:
    """The bindings with the choices of each part of them."""
    results = (pattern.result, *pattern.others)
    always = always_there(pattern.parameters, pattern.bindings, results)
    for binding in pattern.bindings:
        if binding.name in always:
            for choices, must in _choices(binding.value):
                yield binding, choices, must


def _choices(operand: Operand) -> Iterator[Choices]:
    match operand:
        case Call() | PatternCall():
            yield from _of_call(operand)
        case Either(alternatives):
            yield [Choice(one, _span(one)) for one in alternatives], _ALTERNATIVES
        case Repeat(call, least, most) if most - least < _MOST_COUNTS and most <= _MOST_REPEATED:
            yield [Choice(_times(call, count)) for count in range(least, most + 1)], _REPETITIONS
        case TupleOfEach(field, least, most) if most <= _MOST_REPEATED:
            counts = range(least, most + 1)
            yield [Choice(TupleOf((field,) * count)) for count in counts], _REPETITIONS
        case PathFrom(ops, origin, least, most) if most <= _MOST_REPEATED and _is_chain(operand):
            call = Call(ops, (origin,))
            yield [Choice(_times(call, count)) for count in range(least, most + 1)], _REPETITIONS
        case Flat(operands=operands):
            for at, inner in enumerate(operands):
                for choices, must in _choices(inner):
                    yield [_inside(operand, at, each) for each in choices], must
        case TupleOf(fields):
            for at, inner in enumerate(fields):
                for choices, must in _choices(inner):
                    replaced = [(*fields[:at], each.value, *fields[at + 1 :]) for each in choices]
                    spans = [each.span for each in choices]
                    yield [*map(Choice, map(TupleOf, replaced), spans)], must
        case FieldOf(inner, index):
            for choices, must in _choices(inner):
                yield [Choice(FieldOf(each.value, index), each.span) for each in choices], must


def _of_call(call: Call | PatternCall) -> Iterator[Choices]:
    if call.optional:
        yield [Choice(replace(call, optional=False), call.span)], ""
    for at, inner in enumerate(call.operands[:1] if call.optional else call.operands):
        for choices, must in _choices(inner):
            yield [_inside(call, at, each) for each in choices], must


def _inside(call: Call | PatternCall | Flat, at: int, choice: Choice) -> Choice:
    inside = (*call.operands[:at], choice.value, *call.operands[at + 1 :])
    return Choice(replace(call, operands=inside), choice.span)


def _span(operand: Operand) -> Span | None:
    return operand.span if isinstance(operand, Call | Flat | PatternCall) else None


def _is_chain(path: PathFrom) -> bool:
    """Whether all operators of a path take one operand, so that it is a chain of calls."""
    taken = [operators()[op].operands for op in path.ops]
    return not path.kinds and all(names is not None and len(names) == 1 for names in taken)


def _times(call: Call | PatternCall, count: int) -> Operand:
    """`count` calls in a chain."""
    found = call.operands[0]
    for _ in range(count):
        found = replace(call, operands=(found, *call.operands[1:]))
    return found


def _with(pattern: Pattern, binding: Binding, value: Operand) -> Pattern:
    bindings = (Binding(b.name, value) if b is binding else b for b in pattern.bindings)
    return replace(pattern, bindings=tuple(bindings))


Refusal = tuple[Sequence[Premise], str]
"""The few premises of a pattern that exclude each other, and why they do."""


def _excluded(pattern: Pattern, implied: Sequence[Where], effort: Effort) -> Exclusion | None:
    """What excludes that `pattern` matches; None if that is not known."""
    exclusion = Exclusion(premises_of(pattern, implied), Effort())
    is_excluded = exclusion.contradicts(exclusion.premises.all)
    effort.choosing += exclusion.effort.explaining + len(exclusion.premises.calls)
    return exclusion if is_excluded else None


def _refusal(exclusion: Exclusion, effort: Effort) -> Refusal:
    before = exclusion.effort.explaining
    needed = exclusion.needed(exclusion.premises.all)
    effort.choosing += exclusion.effort.explaining - before
    return needed, exclusion.why(needed)


def _never(refusal: Refusal, whole: Span, pattern: Pattern, ways: str, findings: Findings) -> None:
    found, why = refusal
    last = next((each for each in reversed(found) if isinstance(each, Condition)), None)
    if last is None:
        message = f"`{pattern.name}` never matches, {ways}"
        findings.error("E0320", whole, message, why, notes_on(found))
        return
    message = f"this can never hold, {ways}"
    others = [each for each in found if each is not last]
    findings.error("E0320", last.span, message, why, notes_on(others))


def _part(choice: Choice, refusal: Refusal, findings: Findings) -> None:
    if choice.span is None:
        return
    found, why = refusal
    others = [each for each in found if each.span != choice.span]
    named = next((each for each in reversed(others) if isinstance(each, Condition)), None)
    message = "this part never matches"
    if named is not None:
        message += f": {quoted(named.span, 'another condition')} excludes it"
    findings.warning("W0314", choice.span, message, why, notes_on(others))
