"""`collage check --output-format`: each by the convention of who reads it."""

import contextlib
import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from sarif_pydantic import Sarif

from collage_dsl.cli.formats import FORMATS, Report, render
from collage_dsl.diagnostics import Diagnostic, Fix, Note, Replacement, Severity
from collage_dsl.source import Source, Span
from tests.cases import sample
from tests.commands import FIVE_MISTAKES, Done, said

CLEAN = "collage 1;\n"
WARNED = "collage 1;\nrule a = op_call_by_kind();\ntarget t on llvm { rules op_call_by_kind(); }\n"

LOCATION = {
    "type": "object",
    "required": ["artifactLocation", "region"],
    "additionalProperties": False,
    "properties": {
        "artifactLocation": {
            "type": "object",
            "required": ["uri"],
            "additionalProperties": False,
            "properties": {
                "uri": {"type": "string", "pattern": r"^([A-Za-z0-9._~%/-]+|file:///\S+)$"},
                "uriBaseId": {"const": "%SRCROOT%"},
            },
        },
        "region": {
            "type": "object",
            "required": ["startLine", "startColumn", "endLine", "endColumn"],
            "additionalProperties": {"type": "integer", "minimum": 1},
        },
    },
}
TEXT = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string", "minLength": 1}, "markdown": {"type": "string"}},
    "additionalProperties": False,
}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = {
    "type": "object",
    "required": ["id", "shortDescription", "help", "defaultConfiguration"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": "^[EW][0-9]{4}$"},
        "shortDescription": TEXT,
        "help": TEXT,
        "defaultConfiguration": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"level": LEVEL},
        },
    },
}
RESULT = {
    "type": "object",
    "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
    "additionalProperties": False,
    "properties": {
        "ruleId": {"type": "string"},
        "ruleIndex": {"type": "integer", "minimum": 0},
        "level": LEVEL,
        "message": TEXT,
        "locations": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["physicalLocation"],
                "properties": {"physicalLocation": LOCATION},
            },
        },
        "relatedLocations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"physicalLocation": LOCATION, "message": TEXT},
            },
        },
        "fixes": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"description": TEXT, "artifactChanges": {"type": "array"}},
            },
        },
        "partialFingerprints": {
            "type": "object",
            "additionalProperties": {"type": "string", "minLength": 1},
        },
    },
}
SARIF = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "additionalProperties": False,
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "additionalProperties": False,
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "semanticVersion", "rules"],
                                "additionalProperties": False,
                                "properties": {
                                    "name": {"type": "string"},
                                    "semanticVersion": {"type": "string"},
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": RULE,
                                    },
                                },
                            }
                        },
                    },
                    "invocations": {
                        "type": "array",
                        "maxItems": 1,
                        "items": {
                            "type": "object",
                            "required": ["executionSuccessful"],
                            "additionalProperties": False,
                            "properties": {
                                "executionSuccessful": {"type": "boolean"},
                                "toolExecutionNotifications": {
                                    "type": "array",
                                    "items": {
                                        "type": "object",
                                        "required": ["message"],
                                        "additionalProperties": False,
                                        "properties": {"level": LEVEL, "message": TEXT},
                                    },
                                },
                            },
                        },
                    },
                    "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                    "results": {"type": "array", "maxItems": 25000, "items": RESULT},
                },
            },
        },
    },
}
"""
The part of the schema of SARIF 2.1.0 that we write, in our words and stricter than it: nothing
else may be there. No package ships the schema of the standard itself.
"""


def checked(folder: Path, format_: str, *names: str) -> Done:
    with contextlib.chdir(folder):
        done = said("check", "--output-format", format_, *names)
    assert done.err == ""
    return done


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "five.collage").write_text(FIVE_MISTAKES)
    (tmp_path / "warned.collage").write_text(WARNED)
    (tmp_path / "clean.collage").write_text(CLEAN)
    return tmp_path


@pytest.mark.parametrize("format_", sample(4, FORMATS))
def test_the_exit_code_is_the_same_in_every_format(folder: Path, format_: str) -> None:
    assert checked(folder, format_, ".").code == 1
    assert checked(folder, format_, "clean.collage", "warned.collage").code == 0
    assert said("check", folder / "none.collage", "--output-format", format_).code == 2


def test_a_folder_stands_for_the_specs_in_it(folder: Path) -> None:
    assert checked(folder, "full", ".").out.endswith("3 files checked, 5 errors, 1 warning\n")


def test_github_shows_annotations_at_relative_paths(folder: Path) -> None:
    lines = checked(folder, "github", str(folder)).out.splitlines()

    assert lines[0] == (
        "::error file=a b/five.collage,line=4,col=7,endLine=4,endColumn=16,title=collage E0201"
        "::unknown operator `nn.conv2D`%0Ahelp: did you mean `nn.conv2d`?"
    )
    assert [line.split()[0] for line in lines] == ["::error"] * 5 + ["::warning"]


def test_what_github_would_act_upon_is_escaped() -> None:
    source = Source("a,b:c.collage", "text")
    found = Diagnostic("E0101", "100 %\nof it, a::b", Span(source, 0, 4), "no")

    assert render("github", Report([found])) == (
        "::error file=a%2Cb%3Ac.collage,line=1,col=1,endLine=1,endColumn=5,title=collage E0101"
        "::100 %25\\nof it, a::b%0Ahelp: no\n"
    )


def test_gitlab_has_a_severity_a_place_and_a_fingerprint(folder: Path) -> None:
    issues = json.loads(checked(folder, "gitlab", ".").out)

    assert issues[0]["location"]["path"] == "a b/five.collage"
    assert issues[0]["location"]["positions"]["begin"] == {"line": 4, "column": 7}
    assert [issue["severity"] for issue in issues] == ["major"] * 5 + ["minor"]
    assert len({issue["fingerprint"] for issue in issues}) == 6


def test_a_fingerprint_stays_when_lines_are_added_above(folder: Path) -> None:
    def marks() -> list[str]:
        return [issue["fingerprint"] for issue in json.loads(checked(folder, "gitlab", ".").out)]

    before = marks()
    path = folder / "a b" / "five.collage"
    path.write_text(path.read_text().replace("collage 1;", "# A comment.\n\ncollage 1;"))

    assert marks() == before


def test_junit_has_a_suite_for_each_file_and_a_failure_for_each_error(folder: Path) -> None:
    root = ElementTree.fromstring(checked(folder, "junit", ".").out)

    assert_junit(root)
    suites = {suite.get("name"): suite for suite in root}
    assert (root.get("tests"), root.get("failures")) == ("7", "5")
    assert len(suites["a b/five.collage"].findall("testcase/failure")) == 5
    assert len(suites["warned.collage"].findall("testcase/system-out")) == 1
    assert len(suites["clean.collage"].findall("testcase")) == 1


def assert_junit(root: ElementTree.Element) -> None:
    """
    What Jenkins (its junit-10.xsd), GitLab and the actions for GitHub read: the elements and
    attributes that all of them know, numbers that agree, and one outcome for each test.
    """
    counts = ("tests", "failures", "errors", "skipped")
    assert (root.tag, set(root.attrib)) == ("testsuites", {"name", *counts})
    for suite in root:
        assert (suite.tag, set(suite.attrib)) == ("testsuite", {"name", *counts})
        for case in suite:
            assert case.tag == "testcase"
            assert set(case.attrib) == {"classname", "name", "file", "line"}
            assert {each.tag for each in case} <= {"failure", "error", "system-out"}
            assert len(case) <= 1
            for outcome in case:
                wanted = set() if outcome.tag == "system-out" else {"type", "message"}
                assert set(outcome.attrib) == wanted
    for element in (root, *root):
        for name, tag in zip(counts, ("testcase", "failure", "error", "skipped"), strict=True):
            assert element.get(name) == str(len(list(element.iter(tag))))


def test_junit_is_xml_whatever_the_text_holds() -> None:
    source = Source("a<b>&.collage", "\x00\x1b<&]]>")
    found = Diagnostic("E0101", '\x00 "<&', Span(source, 0, 2), "\uffff")

    assert ElementTree.fromstring(render("junit", Report([found]))).get("failures") == "1"


def assert_sarif(text: str) -> dict[str, object]:
    log = json.loads(text)
    jsonschema.Draft202012Validator(SARIF).validate(log)
    Sarif.model_validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
    found: dict[str, object] = run
    return found


def test_sarif_keeps_to_its_schema_with_relative_uris(folder: Path) -> None:
    run = assert_sarif(checked(folder, "sarif", str(folder)).out)

    text = json.dumps(run)
    assert '"uri": "a%20b/five.collage"' in text
    assert str(folder) not in text
    assert_sarif(checked(folder, "sarif", "clean.collage").out)


def test_sarif_has_the_second_place_of_a_diagnostic() -> None:
    source = Source("a.collage", "collage 1;\n")
    notes = (Note("first", Span(source, 0, 7)), Note("a remark"))
    found = Diagnostic("W0405", "text", Span(source, 8, 9), "", Severity.WARNING, notes)

    run = assert_sarif(render("sarif", Report([found, found])))

    results = run["results"]
    assert isinstance(results, list)
    assert len(results[0]["relatedLocations"]) == 2
    assert results[0]["partialFingerprints"] != results[1]["partialFingerprints"]
    (row,) = json.loads(render("json", Report([found])))["diagnostics"]
    place = {"file": source.name, "line": 1, "column": 1, "end_line": 1, "end_column": 8}
    assert row["notes"] == [
        {"message": "first", "place": place},
        {"message": "a remark", "place": None},
    ]


def test_a_fix_is_in_json_and_sarif() -> None:
    source = Source("a.collage", "collage 1;\nrule a = unoin();\n")
    fix = Fix("write `union`", (Replacement(Span(source, 20, 25), "union"),))
    found = Diagnostic("E0401", "unknown rule", Span(source, 20, 25), fix=fix)

    (row,) = json.loads(render("json", Report([found])))["diagnostics"]
    results = assert_sarif(render("sarif", Report([found])))["results"]

    (replacement,) = row["fix"]["replacements"]
    assert replacement == {
        "line": 2,
        "column": 10,
        "end_line": 2,
        "end_column": 15,
        "text": "union",
    }
    assert isinstance(results, list)
    (change,) = results[0]["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "union"}


def unread(command: str, folder: Path, format_: str, *names: str) -> str:
    """What a command answers if one of the named files does not exist."""
    paths = [folder / name for name in ("none.collage", *names)]
    done = said(command, *paths, "--output-format", format_)
    assert (done.code, done.err.count("\n")) == (2, 1)
    return done.out


def test_a_file_that_cannot_be_read_is_not_counted_as_checked(folder: Path) -> None:
    assert unread("check", folder, "full") == "0 files checked, 1 file could not be checked\n"
    assert unread("check", folder, "full", "clean.collage") == (
        "1 file checked, 1 file could not be checked, nothing found\n"
    )


@pytest.mark.parametrize("names", [(), ("clean.collage",)])
@pytest.mark.parametrize("command", ["check", "test"])
def test_no_report_hides_a_file_that_cannot_be_read(
    folder: Path, command: str, names: tuple[str, ...]
) -> None:
    def answer(format_: str) -> str:
        return unread(command, folder, format_, *names)

    message = f"cannot read {folder}/none.collage: there is no such file"

    assert answer("github") == f"::error title=collage::{message}\n"
    assert json.loads(answer("json"))["unread"] == [
        {"file": f"{folder}/none.collage", "message": message}
    ]
    (issue,) = json.loads(answer("gitlab"))
    assert (issue["severity"], issue["description"]) == ("critical", message)
    root = ElementTree.fromstring(answer("junit"))
    assert_junit(root)
    assert root.get("errors") == "1"
    assert [each.get("message") for each in root.iter("error")] == [message]
    (invocation,) = json.loads(json.dumps(assert_sarif(answer("sarif"))["invocations"]))
    assert not invocation["executionSuccessful"]
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["message"]["text"] == message
