"""Durations as values of options."""

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
