"""`collage test`: run the tests in spec files."""

from collections.abc import Sequence
from pathlib import Path

from collage_dsl.cli.config import Configs
from collage_dsl.cli.documents import FailureDocument, TestDocument, TestsDocument
from collage_dsl.cli.failure import CANNOT, WRONG
from collage_dsl.cli.files import spec_files
from collage_dsl.cli.output import complain, show, tell
from collage_dsl.diagnostics import Diagnostic, RuleError
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.tables import registered_tables
from collage_dsl.engine.testing import Outcome, run_tests
from collage_dsl.language import UnreadableError, read
from collage_dsl.language.loading import load_contents
from collage_dsl.printable import json_text


def test_files(
    paths: Sequence[Path], output_format: str, search: Sequence[Path], allow_extern: bool
) -> int:
    """Run the tests in the files at `paths`, print their results, and return the exit code."""
    outcomes: list[Outcome] = []
    code = 0
    configs = Configs()
    code_of = lookup(allow_extern=allow_extern)
    tables = registered_tables(allow_extern=allow_extern)
    for file in spec_files(paths):
        folders = (*search, *configs.of(file).path)
        try:
            contents = load_contents(read(file), folders, tables=tables)
            outcomes.extend(run_tests(contents, code_of))
        except UnreadableError as error:
            complain(error)
            code = CANNOT
        except RuleError as error:
            tell(f"{error}\n")
            code = max(code, WRONG)
    show(_render(outcomes, output_format))
    if not all(outcome.passed for outcome in outcomes):
        code = max(code, WRONG)
    return code


def _render(outcomes: Sequence[Outcome], output_format: str) -> str:
    if output_format == "json":
        rows = [_row(outcome) for outcome in outcomes]
        return json_text(TestsDocument(tests=rows).plain())
    shown = "".join(f"{failure}\n\n" for outcome in outcomes for failure in outcome.failures)
    return shown + _summary(outcomes)


def _summary(outcomes: Sequence[Outcome]) -> str:
    failed = sum(not outcome.passed for outcome in outcomes)
    passed = f"{len(outcomes) - failed} test{'s' * (len(outcomes) - failed != 1)} passed"
    return f"{passed}, {failed} failed\n" if failed else f"{passed}\n"


def _row(outcome: Outcome) -> TestDocument:
    line, column = outcome.test.span.source.position(outcome.test.span.start)
    return TestDocument(
        file=outcome.test.span.source.name,
        line=line,
        column=column,
        name=outcome.test.name,
        passed=outcome.passed,
        failures=[_failure(failure) for failure in outcome.failures],
    )


def _failure(failure: Diagnostic) -> FailureDocument:
    line, column = failure.span.source.position(failure.span.start)
    return FailureDocument(
        code=failure.code,
        line=line,
        column=column,
        message=failure.message,
        notes=[note.message for note in failure.notes],
    )
