"""Commands that write no file which they read, and groups that list them in whole sentences."""

from typing import Any

import click

from collage_dsl.cli.output import others_on_standard_error
from collage_dsl.cli.overwriting import check_outputs
from collage_dsl.cli.stdin import NO_NAME


class Command(click.Command):
    """
    A command that does nothing if it would write a file that it reads. What plug-ins print while it
    runs goes to standard error.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Click would take `-#NAME`, which is a part of standard input, for an option."""
        return super().parse_args(
            ctx, [f"{NO_NAME}{each[1:]}" if each.startswith("-#") else each for each in args]
        )

    def invoke(self, ctx: click.Context) -> Any:
        check_outputs(ctx)
        with others_on_standard_error():
            return super().invoke(ctx)


class Commands(click.Group):
    """Commands whose list in `--help` has the whole first sentence of each."""

    command_class = Command
    group_class = type

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands."""
        named = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, each.get_short_help_str(200)) for name, each in named if each]
            )
