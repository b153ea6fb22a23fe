"""How long a kernel without a cost keeps its reason."""

from datetime import UTC, datetime, timedelta

from collage_dsl.cost.cost import Infeasible
from collage_dsl.cost.measurement import Measurement, date_of, text_of_date

DAYS = 7
"""The days after which a reason that may pass expires. Then the kernel is tried again."""

_AHEAD = timedelta(days=1)
"""A measurement with a date further in the future than this comes from a wrong clock."""


def now() -> datetime:
    """The date and time in UTC."""
    return datetime.now(UTC).replace(tzinfo=None, microsecond=0)


def expiry(found: Measurement) -> str:
    """When a kernel without a cost is tried again; empty if only other versions change that."""
    cost = found.cost
    if not isinstance(cost, Infeasible) or not cost.kind.may_pass:
        return ""
    measured = date_of(found.measured_at) or now()
    return expiry_of(text_of_date(measured))


def expiry_of(measured_at: str) -> str:
    """When a kernel is tried again whose reason was found at this time and may pass."""
    measured = date_of(measured_at)
    if measured is None:
        return ""
    kept = timedelta(days=DAYS)
    return text_of_date(min(measured, datetime.max - kept) + kept)


def is_expired(found: Measurement) -> bool:
    """
    Whether a kernel without a cost is to be tried again now. This is so, too, if its reason has a
    date in the future: the clock was wrong then, or is wrong now.
    """
    if not expiry(found) or not found.measured_at:
        return False
    measured, present = date_of(found.measured_at), now()
    if measured is None:
        return True
    return not present - timedelta(days=DAYS) < measured <= present + _AHEAD
