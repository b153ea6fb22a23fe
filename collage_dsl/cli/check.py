"""`collage check`: report errors and warnings in spec files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.cli.config import Config, Configs
from collage_dsl.cli.failure import CANNOT, WRONG
from collage_dsl.cli.files import spec_files
from collage_dsl.cli.formats import render
from collage_dsl.cli.output import complain, write
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.engine.tables import registered_tables
from collage_dsl.language import UnreadableError, check, read


@dataclass(frozen=True, slots=True)
class Options:
    """
    The options of the command. If `fail_level` is None, the configuration decides. Imports are
    searched in `search` before the folders of the configuration. With `allow_extern` the modules
    that register pattern tables are imported.
    """

    output_format: str = "full"
    fail_level: str | None = None
    exit_zero: bool = False
    search: tuple[Path, ...] = ()
    allow_extern: bool = False


def check_files(paths: Sequence[Path], options: Options) -> int:
    """Print what is wrong with the files at `paths`; the exit code is the same in every format."""
    unreadable = failed = False
    found: list[Diagnostic] = []
    files = spec_files(paths)
    configs = Configs()
    for file in files:
        config = configs.of(file)
        try:
            shown = _found(file, config, options)
        except UnreadableError as problem:
            complain(problem)
            unreadable = True
            continue
        found += shown
        failed |= _fails(shown, options.fail_level or config.fail_level)
    write(render(options.output_format, found, files))
    if unreadable:
        return CANNOT
    return WRONG if failed and not options.exit_zero else 0


def _found(file: Path, config: Config, options: Options) -> list[Diagnostic]:
    tables = registered_tables(allow_extern=options.allow_extern)
    found = check(read(file), (*options.search, *config.path), tables=tables)
    return [diagnostic for diagnostic in found if diagnostic.code not in config.ignore]


def _fails(found: Sequence[Diagnostic], level: str) -> bool:
    return any(diagnostic.is_error or level == "warning" for diagnostic in found)
