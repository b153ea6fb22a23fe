"""What a store of costs keeps: measurements, and what they depend on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from math import inf

from collage_dsl.cost.cost import Cost, Infeasible, Refusal
from collage_dsl.cost.spread import Spread

ROW = (
    "kernel, context, label, seconds, reason, variant, error, kind, low, high, count, method,"
    " speed, measured_at"
)
"""The columns of a measurement."""
CONTEXT = "context, machine, target, options, versions, timed"
"""The columns of a context."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """
    One cost, of one kernel in one context.

    `kernel` identifies what is computed (see `fingerprint`), `context` everything else that the
    cost depends on: target, library versions, machine and method of measuring (see `Context`).
    `variant` names the algorithm, which has the `error` (see `Variant`). `spread` says how exactly
    the cost is known, and how it was found; None where that was not kept. `measured_at` is a date
    and time in UTC, `2026-11-23 18:00:00`; empty for now.
    """

    kernel: str
    context: str
    label: str
    cost: Cost
    variant: str = ""
    error: float | None = None
    spread: Spread | None = None
    measured_at: str = field(default="", compare=False)


OWN = TVM, WAY = "TVM itself", "way of measuring"
"""The names of versions besides those of backends."""

CODE = "code for"
"""The name of the option that says for which processor native code is."""


@dataclass(frozen=True, slots=True)
class Context:
    """
    Everything that a cost depends on besides the kernel. `key` is a hash of it, and the name of the
    context in a `Measurement`; the rest is for people. A cost that was measured before contexts
    were described has one with a `key` alone.
    """

    key: str
    machine: str = ""
    target: str = ""
    options: str = ""
    versions: str = ""
    timed: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """
    How many costs a store has for a context, and when the first and last were measured. `kinds` are
    the kinds of reasons why kernels are infeasible, each with their number; `retried` is when the
    first of those is tried again whose reason may pass, and empty if there is none.
    """

    context: Context
    costs: int
    infeasible: int
    first: str
    last: str
    kinds: Mapping[Refusal, int] = field(default_factory=dict)
    retried: str = ""


def columns_of(measurement: Measurement) -> tuple[object, ...]:
    """The values of its columns, of which the last is None for now."""
    cost, spread = measurement.cost, measurement.spread
    return (
        measurement.kernel,
        measurement.context,
        measurement.label,
        None if isinstance(cost, Infeasible) else cost,
        cost.reason if isinstance(cost, Infeasible) else None,
        measurement.variant,
        measurement.error,
        cost.kind.value if isinstance(cost, Infeasible) else "",
        *((None,) * 5 if spread is None else astuple(spread)),
        measurement.measured_at or None,
    )


def measurement_of(row: Sequence[object]) -> Measurement | None:
    """The measurement with these columns; None if they are not one."""
    if fault_of(row):
        return None
    kernel, context, label, seconds, reason, variant, error, kind, *spread, measured_at = row
    return Measurement(
        str(kernel),
        str(context),
        str(label),
        seconds if isinstance(seconds, float) else Infeasible(str(reason), refusal_of(kind)),
        str(variant),
        error if isinstance(error, float) else None,
        _spread(spread),
        str(measured_at),
    )


def fault_of(row: Sequence[object]) -> str:
    """Why these columns are no measurement; empty if they are one."""
    seconds, reason, measured_at = row[3], row[4], row[-1]
    if reason is None and (not isinstance(seconds, float) or not 0 <= seconds < inf):
        return f"{seconds!r} is no time"
    return "" if date_of(str(measured_at)) else f"{measured_at!r} is no date"


def date_of(text: str) -> datetime | None:
    """The date and time of a measurement; None if the text is none."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if text_of_date(found) == text else None


def text_of_date(date: datetime) -> str:
    """A date and time as it is kept: four digits for the year, so that texts sort as dates do."""
    return date.replace(tzinfo=None).isoformat(" ", "seconds")


def context_of(row: Sequence[object]) -> Context | None:
    """The context with these columns; None if one that describes it is no JSON object."""
    found = Context(*(str(field or "") for field in row))
    fields = found.options, found.versions, found.timed
    return found if all(map(is_object, fields)) else None


def is_object(text: str) -> bool:
    """Whether a text is empty, or a JSON object."""
    try:
        return not text or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def refusal_of(kind: object) -> Refusal:
    """The kind of reason with this name; that of another version, or none, is not supported."""
    known = {each.value: each for each in Refusal}
    return known.get(str(kind), Refusal.UNSUPPORTED)


def _spread(fields: Sequence[object]) -> Spread | None:
    """What these columns say; None if nothing, or nothing that is possible."""
    low, high, count, method, speed = fields
    if not isinstance(low, float) or not isinstance(high, float) or not 0 <= low <= high < inf:
        return None
    if not isinstance(count, int) or not isinstance(speed, float):
        return None
    return Spread(low, high, count, str(method), speed)
