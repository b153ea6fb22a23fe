"""Check the `measure` block of a target, which says how its kernels are timed."""

from collections.abc import Mapping
from math import inf
from typing import Any

from collage_dsl.graph import Measuring
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.messages.hints import did_you_mean
from collage_dsl.language.syntax import ast
from collage_dsl.language.syntax.tokens import UNITS

MEASURES = ("repeats", "percentile", "budget", "timeout", "runs", "noise_margin")

_WHOLE = {"repeats": (1, 10_000), "percentile": (0, 100)}
"""The least and the greatest value of each whole-number setting."""
_RUNS = ("often", "rarely")
_EXAMPLES = {"repeats": "50", "percentile": "20", "budget": "500ms", "timeout": "30s"}
_DAY = 86_400.0
_NOISIEST = 0.5
"""The largest noise margin, as a part of 1."""


def check_measuring(written: Mapping[str, ast.Field], findings: Findings) -> Measuring:
    """The settings in `repeats 5; budget 500ms;`. A wrong one is reported and keeps its default."""
    values: dict[str, Any] = {
        name: _READ.get(name, _seconds)(name, field, findings) for name, field in written.items()
    }
    found = Measuring(**{name: value for name, value in values.items() if value is not None})
    if found.timeout is not None and found.timeout <= found.budget and "timeout" in written:
        _too_short(found, written["timeout"], findings)
    return found


def duration(seconds: float) -> str:
    """
    The exact text of a duration, in the largest unit that gives at least 1: `300ms`.

    Raises ValueError if `seconds` is not a duration.
    """
    if not 0 <= seconds < inf:
        raise ValueError(f"a time of {seconds} s cannot be written")
    for unit, per_second in reversed(UNITS.items()):
        number = f"{seconds * per_second:.6g}"
        if seconds * per_second >= 1 and float(number) / per_second == seconds:
            return f"{number}{unit}"
    return f"{_decimal(seconds)}s"


def percentage(part: float) -> str:
    """
    The exact text of a percentage: `2.5%` for 0.025.

    Raises ValueError if `part` is not a finite number, 0 or more.
    """
    from decimal import Decimal  # few settings need it

    if not 0 <= part < inf:
        raise ValueError(f"{part} cannot be written as a percentage")
    return f"{Decimal(repr(float(part))).scaleb(2).normalize():f}%"


def _whole(name: str, field: ast.Field, findings: Findings) -> int | None:
    least, most = _WHOLE[name]
    hint = f"write `{name} {_EXAMPLES[name]};`"
    match field.value:
        case None:
            findings.error("E0503", field.name.span, f"`{name}` needs a value", hint)
        case ast.Literal(int() as number) if not isinstance(number, bool):
            if least <= number <= most:
                return number
            message = f"`{name}` must be from {least} to {most}"
            findings.error("E0520", field.value.span, message, hint)
        case other:
            message = f"`{name}` must be a whole number from {least} to {most}"
            findings.error("E0503", other.span, message, hint)
    return None


def _runs(name: str, field: ast.Field, findings: Findings) -> str | None:
    match field.value:
        case ast.Name(word) if word in _RUNS:
            return word
        case None:
            span = field.name.span
        case other:
            span = other.span
    hint = did_you_mean(span.text, _RUNS) or f"write `{name} rarely;`"
    findings.error("E0503", span, f"`{name}` must be `often` or `rarely`", hint)
    return None


def _seconds(name: str, field: ast.Field, findings: Findings) -> float | None:
    hint = f"write `{name} {_EXAMPLES[name]};`"
    match field.value:
        case None:
            findings.error("E0503", field.name.span, f"`{name}` needs a value", hint)
        case ast.Duration(seconds) if 0 < seconds <= _DAY:
            return seconds
        case ast.Duration():
            message = f"`{name}` must be more than 0s and at most {_DAY:.0f}s"
            findings.error("E0520", field.value.span, message, hint)
        case other:
            message = f"`{name}` must be a duration in `ns`, `us`, `ms` or `s`"
            findings.error("E0503", other.span, message, hint)
    return None


def _margin(name: str, field: ast.Field, findings: Findings) -> float | None:
    hint = f"write `{name} 2%;`"
    match field.value:
        case None:
            findings.error("E0503", field.name.span, f"`{name}` needs a value", hint)
        case ast.Percent(part) if 0 < part <= _NOISIEST:
            return part
        case ast.Percent():
            message = f"`{name}` must be more than 0% and at most {percentage(_NOISIEST)}"
            findings.error("E0520", field.value.span, message, hint)
        case other:
            findings.error("E0503", other.span, f"`{name}` must be a percentage", hint)
    return None


def _too_short(found: Measuring, timeout: ast.Field, findings: Findings) -> None:
    assert timeout.value is not None
    message = f"`timeout` must be longer than `budget`, which is {duration(found.budget)}"
    hint = "it is the time for building a kernel and timing it"
    findings.error("E0520", timeout.value.span, message, hint)


_READ = {"repeats": _whole, "percentile": _whole, "runs": _runs, "noise_margin": _margin}


def _decimal(number: float) -> str:
    """All digits of `number`, without an exponent."""
    from decimal import Decimal  # few durations need it

    return f"{Decimal(repr(number)):f}"
