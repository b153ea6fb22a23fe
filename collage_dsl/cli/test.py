"""`collage test`: run the tests in spec files."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from collage_dsl.cli.config import Configs
from collage_dsl.cli.documents import FailureDocument, TestDocument, TestsDocument
from collage_dsl.cli.failure import CANNOT, WRONG, with_options
from collage_dsl.cli.files import Given
from collage_dsl.cli.formats import Report, Unread, render
from collage_dsl.cli.output import complain, show, tell, write
from collage_dsl.diagnostics import Diagnostic, RuleError
from collage_dsl.engine.predicates import lookup
from collage_dsl.engine.tables import registered_tables
from collage_dsl.engine.testing import Outcome, run_tests
from collage_dsl.language import UnreadableError
from collage_dsl.language.loading import load_contents
from collage_dsl.language.messages.findings import count
from collage_dsl.printable import json_text
from collage_dsl.report.documents import DiagnosticDocument, UnreadDocument

_FOR_PEOPLE = ("full", "json")
"""The formats in which what is wrong with a spec goes to standard error."""


@dataclass(slots=True)
class _Results:
    """The outcomes of all tests, and what is wrong with the files that have no outcome."""

    outcomes: list[Outcome] = field(default_factory=list)
    wrong: dict[str, tuple[Diagnostic, ...]] = field(default_factory=dict)
    unread: list[Unread] = field(default_factory=list)

    @property
    def code(self) -> int:
        if self.unread:
            return CANNOT
        failed = self.wrong or not all(outcome.passed for outcome in self.outcomes)
        return WRONG if failed else 0

    @property
    def found(self) -> list[Diagnostic]:
        """All diagnostics, with the names of the tests, for formats that do not show tests."""
        wrong = [each for found in self.wrong.values() for each in found]
        return wrong + [
            replace(each, message=f"test `{outcome.test.name}`: {each.message}")
            for outcome in self.outcomes
            for each in outcome.failures
        ]


def test_files(given: Given, output_format: str, search: Sequence[Path], allow_extern: bool) -> int:
    """Run the tests in the given files, print their results, and return the exit code."""
    results = _Results()
    configs = Configs()
    code_of = lookup(allow_extern=allow_extern)
    tables = registered_tables(allow_extern=allow_extern)
    for file in given.files(configs):
        folders = (*search, *configs.of(given.named(file)).path)
        try:
            source = given.read(file)
            folder = given.named(file).parent
            contents = load_contents(source, folders, folder=folder, tables=tables)
            results.outcomes += map(_with_options, run_tests(contents, code_of))
        except UnreadableError as error:
            complain(error)
            results.unread.append(Unread(str(given.named(file)), str(error)))
        except RuleError as error:
            results.wrong[source.name] = error.diagnostics
            if output_format in _FOR_PEOPLE:
                tell(f"{error}\n")
    _answer(results, output_format)
    return results.code


def _with_options(outcome: Outcome) -> Outcome:
    """The outcome with messages for the command line."""
    said = (replace(each, message=with_options(each.message)) for each in outcome.failures)
    return replace(outcome, failures=tuple(said))


def _answer(results: _Results, output_format: str) -> None:
    match output_format:
        case "full":
            failures = [each for outcome in results.outcomes for each in outcome.failures]
            show("".join(f"{failure}\n\n" for failure in failures) + _summary(results))
        case "json":
            write(json_text(_document(results).plain()))
        case "junit":
            write(_junit(results))
        case _:
            write(render(output_format, Report(results.found, unread=results.unread)))


def _summary(results: _Results) -> str:
    failed = sum(not outcome.passed for outcome in results.outcomes)
    passed = len(results.outcomes) - failed
    said = [f"{count(passed, 'test')} passed"]
    said += [f"{failed} failed"] if failed else []
    if number := len(results.wrong) + len(results.unread):
        said.append(f"{count(number, 'file')} could not be tested")
    return ", ".join(said) + "\n"


def _junit(results: _Results) -> str:
    """A suite for each file with tests. A file with errors has one test, with an error."""
    from collage_dsl.cli.formats.junit import case, document, fail, suite, unread

    cases = {
        file: [fail(case(file, "check"), found, "error")] for file, found in results.wrong.items()
    }
    for outcome in results.outcomes:
        span = outcome.test.span
        made = case(span.source.name, outcome.test.name, span.source.position(span.start)[0])
        if outcome.failures:
            runs = all(failure.code != "E0711" for failure in outcome.failures)
            fail(made, outcome.failures, "failure" if runs else "error")
        cases.setdefault(span.source.name, []).append(made)
    suites = [suite(file, made) for file, made in cases.items()]
    return document("collage test", [*suites, *map(unread, results.unread)])


def _document(results: _Results) -> TestsDocument:
    from collage_dsl.cli.formats.rows import row

    wrong = [each for found in results.wrong.values() for each in found]
    return TestsDocument(
        tests=[_row(outcome) for outcome in results.outcomes],
        diagnostics=[DiagnosticDocument.model_validate(row(each)) for each in wrong],
        unread=[UnreadDocument(file=each.file, message=each.message) for each in results.unread],
    )


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
