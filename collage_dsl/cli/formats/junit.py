"""Write diagnostics as a JUnit report, with a suite for each file, for viewers of test results."""

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from collage_dsl.cli.formats.places import relative
from collage_dsl.diagnostics import Diagnostic
from collage_dsl.printable import printable, printable_lines


def test_report(found: Sequence[Diagnostic], files: Sequence[Path]) -> str:
    """
    Each error is a failed test, each warning a passed test with output. A file without either is
    one passed test.
    """
    names = dict.fromkeys([*map(str, files), *(d.span.source.name for d in found)])
    suites = [_suite(name, [d for d in found if d.span.source.name == name]) for name in names]
    root = ElementTree.Element("testsuites", _totals("collage check", found, suites))
    root.extend(suites)
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="us-ascii").decode("ascii")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _totals(
    name: str, found: Sequence[Diagnostic], suites: Sequence[ElementTree.Element] = ()
) -> dict[str, str]:
    tests = sum(int(suite.get("tests", "0")) for suite in suites) or max(1, len(found))
    failures = sum(diagnostic.is_error for diagnostic in found)
    return {"name": _xml(name), "tests": str(tests), "failures": str(failures), "errors": "0"}


def _suite(name: str, found: Sequence[Diagnostic]) -> ElementTree.Element:
    path = printable(relative(name))
    suite = ElementTree.Element("testsuite", _totals(path, found))
    for diagnostic in found:
        suite.append(_case(path, diagnostic))
    if not found:
        ElementTree.SubElement(suite, "testcase", classname=_xml(path), name="check")
    return suite


def _case(path: str, diagnostic: Diagnostic) -> ElementTree.Element:
    line, column = diagnostic.span.source.position(diagnostic.span.start)
    name = f"{diagnostic.code}:{line}:{column}"
    case = ElementTree.Element("testcase", classname=_xml(path), name=name, line=str(line))
    if diagnostic.is_error:
        about = {"type": diagnostic.code, "message": _xml(diagnostic.message)}
        ElementTree.SubElement(case, "failure", about).text = _xml(str(diagnostic))
    else:
        ElementTree.SubElement(case, "system-out").text = _xml(str(diagnostic))
    return case


def _xml(text: str) -> str:
    return printable_lines(text)
