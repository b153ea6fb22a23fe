"""How long the reason stays that a kernel has no cost."""

from datetime import UTC, datetime, timedelta

from collage_dsl.cost.cost import Infeasible
from collage_dsl.cost.measurement import Measurement

DAYS = 7
"""A reason that may pass is believed for so many days. Then the kernel is tried again."""

_FORM = "%Y-%m-%d %H:%M:%S"

_AHEAD = timedelta(days=1)
"""A measurement that is more than this in the future was dated by a wrong clock."""


def now() -> datetime:
    """The date and time in UTC."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def expiry(found: Measurement) -> str:
    """When a kernel without a cost is tried again; empty if only other versions change that."""
    cost = found.cost
    if not isinstance(cost, Infeasible) or not cost.kind.may_pass:
        return ""
    measured = _date(found.measured_at) or now()
    return expiry_of(measured.strftime(_FORM))


def expiry_of(measured_at: str) -> str:
    """When what may pass is tried again that was found out at this time."""
    measured = _date(measured_at)
    return (measured + timedelta(days=DAYS)).strftime(_FORM) if measured else ""


def is_expired(found: Measurement) -> bool:
    """
    Whether a kernel without a cost is to be tried again now. So is one whose reason has a date in
    the future: the clock was wrong then, or is now.
    """
    if not expiry(found) or not found.measured_at:
        return False
    measured, present = _date(found.measured_at), now()
    if measured is None:
        return True
    return not present - timedelta(days=DAYS) < measured <= present + _AHEAD


def _date(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, _FORM)
    except ValueError:
        return None
