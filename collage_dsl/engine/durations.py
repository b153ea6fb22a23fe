"""Read durations, such as `10m`."""

import re

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(duration: float | str) -> float:
    """The seconds of `90`, `"90s"`, `"10m"` or `"1h"`. Raises ValueError."""
    if not isinstance(duration, str):
        if not duration >= 0:
            raise ValueError(f"`{duration}` is no time: write a number of seconds, 90s, 10m or 1h")
        return float(duration)
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([smh]?)", duration.strip(), re.ASCII)
    if found is None:
        raise ValueError(f"`{duration}` is no time: write 90s, 10m or 1h")
    return float(found[1]) * _UNITS[found[2]]
