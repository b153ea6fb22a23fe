"""Write findings and results of tests as JUnit reports, for viewers of test results."""

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from collage_dsl.cli.formats import Report, Unread
from collage_dsl.cli.formats.places import relative
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.printable import printable, printable_lines


def test_report(report: Report) -> str:
    """
    Each finding that makes the check fail is a failed test, each other one a passed test with
    output. A file without either is one passed test. One that could not be read is an error.
    """
    names = dict.fromkeys([*map(str, report.files), *(d.span.source.name for d in report.found)])
    suites = []
    for name in names:
        found = [d for d in report.found if d.span.source.name == name]
        cases = [_finding(d, d.is_error or d in report.failing) for d in found]
        suites.append(suite(name, cases or [case(name, "check")]))
    return document("collage check", [*suites, *map(unread, report.unread)])


def document(name: str, suites: Iterable[Element]) -> str:
    """The text of a report: the root has the sums of what its suites count."""
    root = Element("testsuites", {"name": name})
    root.extend(suites)
    for count in _COUNTS:
        root.set(count, str(sum(int(each.get(count, "0")) for each in root)))
    indent(root)
    text = tostring(root, encoding="us-ascii").decode("ascii")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def suite(file: str, cases: Iterable[Element]) -> Element:
    """The tests of one file."""
    made = Element("testsuite", {"name": _path(file)})
    made.extend(cases)
    counts = [len(made), len(made.findall("*/failure")), len(made.findall("*/error")), 0]
    for count, number in zip(_COUNTS, counts, strict=True):
        made.set(count, str(number))
    return made


def unread(given: Unread) -> Element:
    """A file that could not be read: one test with an error."""
    made = case(given.file, "read")
    SubElement(made, "error", {"type": "unread", "message": _xml(given.message)})
    return suite(given.file, [made])


def case(file: str, name: str, line: int = 1) -> Element:
    """A test that passed. Services show `file` and `line`, or else the name of the class."""
    path = _path(file)
    about = {"classname": path, "name": _xml(name), "file": path, "line": str(line)}
    return Element("testcase", about)


def fail(made: Element, found: Iterable[Diagnostic], outcome: str = "failure") -> Element:
    """
    Make a test one that failed because of what was `found`, or one with the outcome `error`. It
    has one element for all findings, because some services read no more than one.
    """
    first, *more = found
    about = {"type": first.code, "message": _xml(first.message)}
    text = "\n\n".join(str(diagnostic) for diagnostic in (first, *more))
    SubElement(made, outcome, about).text = _xml(text)
    return made


_COUNTS = ("tests", "failures", "errors", "skipped")


def _finding(diagnostic: Diagnostic, is_failure: bool) -> Element:
    line, column = diagnostic.span.source.position(diagnostic.span.start)
    made = case(diagnostic.span.source.name, f"{diagnostic.code}:{line}:{column}", line)
    if is_failure:
        return fail(made, [diagnostic])
    SubElement(made, "system-out").text = _xml(str(diagnostic))
    return made


def _path(file: str) -> str:
    return _xml(printable(relative(file)))


def _xml(text: str) -> str:
    return printable_lines(text)
