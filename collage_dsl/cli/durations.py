"""Read durations of options, such as `10m`."""

import re
from math import inf

import click

_UNITS = {"s": 1, "m": 60, "h": 3600}


class Duration(click.ParamType[float]):
    """A number of seconds, minutes or hours: `90s`, `10m`, `1.5h`."""

    name = "TIME"

    def convert(
        self, value: str | float, param: click.Parameter | None, context: click.Context | None
    ) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", value)
        seconds = float(found[1]) * _UNITS[found[2]] if found else inf
        if not 0 <= seconds < inf:
            self.fail(f"'{value}' is no time: write 90s, 10m or 1.5h", param, context)
        return seconds
