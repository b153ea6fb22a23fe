"""`collage check`: report errors and warnings in spec files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collage_dsl.cli.config import Config, Configs
from collage_dsl.cli.failure import CANNOT, WRONG, CommandError, writing
from collage_dsl.cli.files import Given
from collage_dsl.cli.formats import Report, Unread, render
from collage_dsl.cli.output import complain, tell, write
from collage_dsl.cli.stdin import STDIN
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.engine.tables import registered_tables
from collage_dsl.language import UnreadableError, check
from collage_dsl.language.loading import imported
from collage_dsl.language.messages.fixes import applied
from collage_dsl.language.resolve.imports import Library
from collage_dsl.printable import printable
from collage_dsl.scratch import replacement
from collage_dsl.source import Source


@dataclass(frozen=True, slots=True)
class Options:
    """
    The options of the command. If `fail_level` is None, or no code is in `select` or `ignore`, the
    configuration decides. Imports are searched in `search` before the folders of the
    configuration. With `allow_extern` the modules that register pattern tables are imported. With
    `fix` files are changed first.
    """

    output_format: str = "full"
    fail_level: str | None = None
    exit_zero: bool = False
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    search: tuple[Path, ...] = ()
    allow_extern: bool = False
    fix: bool = False


def check_files(given: Given, options: Options) -> int:
    """Print what is wrong with the given files; the exit code is the same in every format."""
    if options.fix and STDIN in given.paths:
        raise CommandError("`--fix` writes files, and standard input is none")
    unread: list[Unread] = []
    found: list[Diagnostic] = []
    failing: set[Diagnostic] = set()
    read: list[Path] = []
    configs = Configs()
    libraries: _Libraries = {}
    for file in given.files(configs):
        config = configs.of(given.named(file)).instead(options.select, options.ignore)
        try:
            source = given.read(file)
            if options.fix:
                source = _fixed(source, file, given.named(file), config, options)
                libraries.clear()  # others may import the file
            shown = _found(source, given.named(file), config, options, libraries)
        except (UnreadableError, CommandError) as problem:
            unread.append(Unread(str(given.named(file)), str(problem)))
            complain(unread[-1].message)
            continue
        read.append(given.named(file))
        found += shown
        failing |= _failing(shown, options.fail_level or config.fail_level)
    write(render(options.output_format, Report(found, read, frozenset(failing), unread)))
    if unread:
        return CANNOT
    return WRONG if failing and not options.exit_zero else 0


_Libraries = dict[tuple[Path, ...], Library]
"""The files that have been imported, by the folders where imports are searched."""


def _found(
    source: Source, named: Path, config: Config, options: Options, libraries: _Libraries
) -> list[Diagnostic]:
    search = (*options.search, *config.path)
    if search not in libraries:
        tables = registered_tables(allow_extern=options.allow_extern)
        libraries[search] = imported(search, tables=tables)
    found = check(source, folder=named.parent, library=libraries[search])
    return [diagnostic for diagnostic in found if config.shows(diagnostic.code, named)]


def _fixed(source: Source, file: Path, named: Path, config: Config, options: Options) -> Source:
    """The text of `file` after all fixes of its findings, which is written to the file."""
    fixed = source
    for _ in range(_MOST_ROUNDS):  # a fix may uncover another mistake
        found = _found(fixed, named, config, options, {})
        text = applied(fixed.text, [each.fix for each in found if each.fix is not None])
        if text == fixed.text:
            break
        fixed = Source(source.name, text)
    if fixed.text != source.text:
        with writing(file), replacement(file) as new:
            new.write_bytes(fixed.text.encode("utf-8"))
        tell(f"fixed {printable(source.name)}")
    return fixed


_MOST_ROUNDS = 10


def _failing(found: Sequence[Diagnostic], level: str) -> set[Diagnostic]:
    return {diagnostic for diagnostic in found if diagnostic.is_error or level == "warning"}
