"""`collage report`: show what was found when a model was compiled."""

from pathlib import Path

from pydantic import ValidationError

from collage_dsl.cli.answer import answer
from collage_dsl.cli.failure import CommandError
from collage_dsl.printable import printable
from collage_dsl.reading import cause_of, first_fault, text_of
from collage_dsl.report.documents import CompileDocument
from collage_dsl.report.text import compile_text
from collage_dsl.saved import REPORT

_MOST_BYTES = 1 << 30
"""The longest report that is read."""


class ReportError(Exception):
    """The report of a compiled model is not as it was written."""


def show_report(folder: Path, output_format: str) -> None:
    """Show the plans and times in `folder` again. Runs nothing."""
    report = report_in(folder)
    answer(report, compile_text(report), output_format)


def report_in(folder: Path) -> CompileDocument:
    """What was found when the model in `folder` was compiled."""
    file = folder / REPORT
    try:
        return CompileDocument.model_validate_json(text_of(file, _MOST_BYTES))
    except ValidationError as error:
        raise ReportError(
            f"{printable(str(file))} is damaged, or of another version of collage_dsl: "
            f"{first_fault(error)}; compile the model again"
        ) from error
    except (OSError, ValueError) as error:
        raise CommandError(
            f"cannot read {printable(str(file))}: {cause_of(error)}; `collage compile -o` writes "
            "a folder with a report"
        ) from error
