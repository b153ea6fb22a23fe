"""`collage check`: report errors and warnings in spec files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.cli.config import Config, Configs
from collage_dsl.cli.failure import CANNOT, WRONG
from collage_dsl.cli.files import Given
from collage_dsl.cli.formats import Report, render
from collage_dsl.cli.output import complain, write
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.engine.tables import registered_tables
from collage_dsl.language import UnreadableError, check


@dataclass(frozen=True, slots=True)
class Options:
    """
    The options of the command. If `fail_level` is None, or no code is in `select` or `ignore`, the
    configuration decides. Imports are searched in `search` before the folders of the
    configuration. With `allow_extern` the modules that register pattern tables are imported.
    """

    output_format: str = "full"
    fail_level: str | None = None
    exit_zero: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    search: tuple[Path, ...] = ()
    allow_extern: bool = False


def check_files(given: Given, options: Options) -> int:
    """Print what is wrong with the given files; the exit code is the same in every format."""
    unreadable = False
    found: list[Diagnostic] = []
    failing: set[Diagnostic] = set()
    read: list[Path] = []
    configs = Configs()
    for file in given.files(configs):
        config = configs.of(given.named(file)).instead(options.select, options.ignore)
        try:
            shown = _found(given, file, config, options)
        except UnreadableError as problem:
            complain(problem)
            unreadable = True
            continue
        read.append(given.named(file))
        found += shown
        failing |= _failing(shown, options.fail_level or config.fail_level)
    write(render(options.output_format, Report(found, read, frozenset(failing))))
    if unreadable:
        return CANNOT
    return WRONG if failing and not options.exit_zero else 0


def _found(given: Given, file: Path, config: Config, options: Options) -> list[Diagnostic]:
    tables = registered_tables(allow_extern=options.allow_extern)
    named = given.named(file)
    search = (*options.search, *config.path)
    found = check(given.read(file), search, folder=named.parent, tables=tables)
    return [diagnostic for diagnostic in found if config.shows(diagnostic.code, named)]


def _failing(found: Sequence[Diagnostic], level: str) -> set[Diagnostic]:
    return {diagnostic for diagnostic in found if diagnostic.is_error or level == "warning"}
