"""Numbers and durations as values of options."""

from math import isnan
from typing import Any

import click

from collage_dsl.engine.durations import seconds_of


class Duration(click.ParamType[float]):
    """A number of seconds, minutes or hours: `90s`, `10m`, `1.5h`."""

    name = "TIME"

    def convert(
        self, value: str | float, param: click.Parameter | None, context: click.Context | None
    ) -> float:
        try:
            return seconds_of(value)
        except ValueError as error:
            self.fail(str(error), param, context)


class Number(click.FloatRange):
    """A number between two others, so never NaN."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, context: click.Context | None
    ) -> float:
        found = float(super().convert(value, param, context))
        if isnan(found):
            self.fail(f"{value!r} is no number", param, context)
        return found
