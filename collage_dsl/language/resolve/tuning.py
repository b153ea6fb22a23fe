"""Check the `tune` block of a target, which says how its kernels are tuned."""

from collections.abc import Mapping

from collage_dsl.graph import Tuning
from collage_dsl.language.messages.findings import Findings
from collage_dsl.language.syntax import ast

TUNES = ("trials",)

_MOST = 100_000


def check_tuning(written: Mapping[str, ast.Field], findings: Findings) -> Tuning:
    """The settings in `trials 64;`. A wrong one is reported and keeps its default."""
    trials = written.get("trials")
    return Tuning() if trials is None else Tuning(_trials(trials, findings))


def _trials(field: ast.Field, findings: Findings) -> int:
    hint = "write `trials 64;`"
    match field.value:
        case ast.Literal(int() as number) if not isinstance(number, bool):
            if 0 <= number <= _MOST:
                return number
            findings.error("E0522", field.value.span, f"`trials` must be from 0 to {_MOST}", hint)
        case None:
            findings.error("E0503", field.name.span, "`trials` needs a value", hint)
        case other:
            findings.error("E0503", other.span, "`trials` must be a whole number", hint)
    return 0
