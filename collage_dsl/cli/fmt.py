"""`collage fmt`: write spec files in the one style."""

from difflib import unified_diff
from enum import Enum
from pathlib import Path

from collage_dsl.cli.config import Configs
from collage_dsl.cli.failure import CANNOT, WRONG, CommandError, writing
from collage_dsl.cli.files import Given
from collage_dsl.cli.output import complain, show, tell, write_utf8
from collage_dsl.cli.stdin import STDIN
from collage_dsl.diagnostics import RuleError
from collage_dsl.language import UnreadableError
from collage_dsl.language.write.formatter import format_source
from collage_dsl.printable import printable
from collage_dsl.reading import real_path
from collage_dsl.scratch import replacement, sweep
from collage_dsl.source import Source


class Mode(Enum):
    """What to do with a file that is not in the one style."""

    WRITE = "write"
    CHECK = "check"
    DIFF = "diff"


def format_files(given: Given, mode: Mode) -> int:
    """Format the given files; the exit code. A file that fails does not stop the others."""
    codes = [_format_file(given, file, mode) for file in given.files(Configs())]
    return max(codes, default=0)


def _format_file(given: Given, file: Path, mode: Mode) -> int:
    try:
        source = given.read(file)
        formatted = format_source(source)
        return _answer(file, source, formatted, mode)
    except (UnreadableError, CommandError) as problem:
        complain(problem)
        return CANNOT
    except RuleError as problem:
        tell(f"{problem}\n")
        return WRONG


def _answer(file: Path, source: Source, formatted: str, mode: Mode) -> int:
    is_changed = formatted != source.text
    match mode:
        case Mode.CHECK if is_changed:
            show(f"would reformat {printable(source.name)}\n")
        case Mode.DIFF if is_changed:
            show(_diff(source, formatted))
        case Mode.WRITE if file == STDIN:
            write_utf8(formatted)
        case Mode.WRITE if is_changed:
            with writing(file), replacement(file) as new:
                new.write_bytes(formatted.encode("utf-8"))
            tell(f"reformatted {printable(source.name)}")
        case Mode.WRITE:
            sweep(real_path(file).parent)
    return WRONG if is_changed and mode is not Mode.WRITE else 0


def _diff(source: Source, formatted: str) -> str:
    before = source.text.splitlines(keepends=True)
    after = formatted.splitlines(keepends=True)
    name = printable(source.name)
    lines = unified_diff(before, after, name, name)
    shown = (
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    return "".join(shown)
