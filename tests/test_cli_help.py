"""What `collage --help` and the help of each command say."""

from collections.abc import Iterator

import click
import pytest

from collage_dsl.cli.main import app
from tests.commands import said


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize("group", [(), ("costs",), ("records",)])
def test_without_a_command_the_help_is_shown(group: tuple[str, ...]) -> None:
    done = said(*group)

    assert done.code == 2
    assert done.err == said(*group, "--help").out


@pytest.mark.parametrize("group", [(), ("costs",), ("records",)])
def test_no_sentence_in_the_list_of_commands_is_cut(group: tuple[str, ...]) -> None:
    assert "..." not in said(*group, "--help").out.split("Commands:")[1]


@pytest.mark.parametrize("path", list(commands(app)), ids=" ".join)
def test_each_argument_and_option_has_an_explanation(path: tuple[str, ...]) -> None:
    command: click.Command = app
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]

    for each in command.params:
        assert getattr(each, "help", None), each.name
