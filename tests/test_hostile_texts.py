"""
No text makes a tool crash, or take minutes or all memory.

What is large is tried at a part of the largest size. `make properties` tries it at the full
size, where each tool has three seconds of CPU time and 500 MB; a clock is asked nowhere else.
"""

import cProfile
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collage_dsl.cli.formats import FORMATS, Report, render
from collage_dsl.diagnostics import RuleError
from collage_dsl.engine.testing import run_tests
from collage_dsl.language import UnreadableError, check, load, parse_graph, read, to_text
from collage_dsl.language.forms import FormError, from_json, from_yaml, to_json, to_yaml
from collage_dsl.language.loading import load_contents
from collage_dsl.language.messages.explanations import explanation
from collage_dsl.language.syntax.whole_text import MAX_CHARACTERS
from collage_dsl.language.write.formatter import format_source
from collage_dsl.lsp.completion import completions
from collage_dsl.lsp.documents import Document
from collage_dsl.lsp.files import Files
from collage_dsl.lsp.formatting import formatted as formatting
from collage_dsl.lsp.hover import hover
from collage_dsl.lsp.outline import symbols
from collage_dsl.lsp.places import definition
from collage_dsl.lsp.problems import problems
from collage_dsl.source import Source
from collage_dsl.yaml_texts import MOST_CHARACTERS
from tests.cases import cases, sample
from tests.commands import collage
from tests.hostile import TEXTS, forms, joined
from tests.test_language_fuzz import GRAPH, SPEC, cuts, mutants, soup

SECONDS = 3.0
MEGABYTES = 500
EDITED = Path("/nowhere/hostile.collage")
ROOT = Path(__file__).parent.parent


def checked(text: str) -> None:
    found = check(Source("hostile", text))
    for format_ in FORMATS:
        shown = render(format_, Report(found, [Path("hostile")]))
        assert shown or not found
    for code in {diagnostic.code for diagnostic in found}:
        assert explanation(code)


def formatted(text: str) -> None:
    try:
        once = format_source(Source("hostile", text))
    except RuleError:
        return
    if len(text) < 10_000:
        assert format_source(Source("hostile", once)) == once


def loaded(text: str) -> None:
    """Loaded, printed, and converted to each form and back."""
    try:
        specs = load(text=text)
    except RuleError:
        return
    assert to_text(specs)
    if len(text) < 10_000:
        assert from_json(to_json(specs)) == from_yaml(to_yaml(specs)) == specs


def run(text: str) -> None:
    try:
        contents = load_contents(Source("hostile", text))
    except RuleError:
        return
    for outcome in list(run_tests(contents))[:100]:
        assert list(map(str, outcome.failures)) or outcome.passed


def drawn(text: str) -> None:
    """As a graph in the text notation."""
    with suppress(RuleError):
        parse_graph(text.removeprefix("collage 1;\n"))


def diagnosed(text: str) -> None:
    """As the server for editors reports it."""
    document = Document(EDITED, text)
    for diagnostic in problems(document, Files())[:100]:
        document.positions.position(diagnostic.span.start)


def edited(text: str) -> None:
    """As the server for editors is asked about it."""
    document, files = Document(EDITED, text), Files()
    symbols(document)
    formatting(document)
    for offset in (0, len(text) // 2, len(text)):
        hover(document, offset, files)
        definition(document, offset, files)
        completions(document, offset, files)


def converted(text: str, read_form: Callable[[str], object]) -> None:
    with suppress(FormError, RuleError):
        read_form(text)


TOOLS = {
    "check": checked,
    "fmt": formatted,
    "convert": loaded,
    "test": run,
    "graph": drawn,
    "lsp": diagnosed,
}


# Texts that anything may be in.

anything = st.text() | mutants(SPEC) | cuts(SPEC) | soup.map("collage 1; {}".format) | soup


@pytest.mark.parametrize("tool", [*TOOLS.values(), edited])
@cases(20)
@given(anything | mutants(GRAPH))
def test_any_text_is_understood_or_refused(tool: Callable[[str], None], text: str) -> None:
    tool(text)


SHIPPED = [path.read_text("utf-8") for path in sorted((ROOT / "specs").rglob("*.collage"))]


@cases(20)
@given(
    st.sampled_from(SHIPPED).flatmap(mutants),
    st.sampled_from([checked, formatted, loaded, diagnosed, edited]),
)
def test_any_change_to_a_shipped_spec_is_understood_or_refused(
    text: str, tool: Callable[[str], object]
) -> None:
    tool(text)


@cases(20)
@given(st.binary() | st.binary().map(b"collage 1;\n".__add__))
def test_any_bytes_are_a_text_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.collage"
    path.write_bytes(content)
    try:
        source = read(path)
    except UnreadableError:
        return
    checked(source.text)


FORM = to_json(load(text=SPEC.replace("test ", "# test ").split("# test")[0]))


@cases(20)
@given(mutants(FORM) | cuts(FORM) | st.text() | st.text("{}[]:,- \n\"'&*!?a1"))
def test_any_form_is_understood_or_refused(text: str) -> None:
    converted(text, from_json)
    converted(text, from_yaml)


@cases(20)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists, max_leaves=9))
def test_any_json_is_understood_or_refused(value: object) -> None:
    converted(json.dumps(value), from_json)
    converted(json.dumps({"collage": value, "targets": value}), from_json)


# Texts that are large.


@pytest.mark.parametrize("name", sample(2, TEXTS))
def test_a_large_text_is_understood_or_refused(name: str) -> None:
    text = TEXTS[name](MAX_CHARACTERS // 20)
    for tool in (*TOOLS.values(), edited):
        tool(text)


@pytest.mark.parametrize("name", forms(100))
def test_a_large_form_is_understood_or_refused(name: str) -> None:
    converted(forms(MOST_CHARACTERS // 20)[name], from_yaml if "yaml" in name else from_json)


EXP = "pattern r(x) { y = exp(x); yield y; }"


@pytest.mark.parametrize(
    ("first", "others"),
    [
        ("rule r = op_call_by_kind();", "rule r = union(a.r, b.r);"),
        ("pattern r(x) { y = exp(x); yield y; }", "pattern r(x) { y = a.r(b.r(x)); yield y; }"),
        (
            "pattern r(x) { y = exp(x); yield y; }",
            "pattern r(x) { y = add(a.r(x), b.r(x)); yield y; }",
        ),
    ],
)
def test_imports_that_double_are_read_once_each(first: str, others: str, tmp_path: Path) -> None:
    uses = 'import "{0}.collage" as a; import "{0}.collage" as b;\n'
    for at in range(40):
        said = f"{uses.format(at - 1)}{others}" if at else first
        (tmp_path / f"{at}.collage").write_text(f"collage 1;\n{said}\n")

    done = collage("check", tmp_path / "39.collage")

    assert done.code == 1
    assert "E0804" in done.out or "E0406" in done.out


def test_a_long_path_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.collage"
    path.write_text(f'collage 1;\nimport "{"a" * 5000}" as a;\n')

    assert [diagnostic.code for diagnostic in check(read(path))] == ["E0801"]
    assert check(Source("a" * 5000, "collage 1;")) == ()


def test_the_work_for_a_tuple_grows_with_its_length() -> None:
    calls = []
    for count in (500, 1000):
        profile = cProfile.Profile()
        profile.runcall(check, Source("joined", joined(count)))
        calls.append(sum(each.callcount for each in profile.getstats()))
    assert calls[1] < 3 * calls[0]


# The three seconds, and the 500 megabytes.


def tools_of(name: str) -> dict[str, Callable[[str], None]]:
    if name in TEXTS:
        return TOOLS
    return {"convert": lambda text: converted(text, from_yaml if "yaml" in name else from_json)}


def measure(name: str) -> None:
    """Print the CPU seconds of each tool on the largest text of that name, and the memory."""
    made = TEXTS[name](MAX_CHARACTERS) if name in TEXTS else forms(MOST_CHARACTERS)[name]
    for warm in TOOLS.values():
        warm(SPEC)
    seconds = {}
    for tool, use in tools_of(name).items():
        start = time.process_time()
        use(made)
        seconds[tool] = time.process_time() - start
    sys.stdout.write(json.dumps({"seconds": seconds, "megabytes": peak_megabytes()}))


def peak_megabytes() -> int:
    """The most that this process had; `getrusage` counts the one that started it as well."""
    status = Path("/proc/self/status").read_text("ascii")
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", status)
    return int(peak) // 1024


@pytest.mark.properties
@pytest.mark.slow
@pytest.mark.parametrize("name", [*TEXTS, *forms(100)])
def test_the_largest_text_takes_three_seconds_and_500_megabytes_at_most(name: str) -> None:
    program = f"from tests.test_hostile_texts import measure; measure({name!r})"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    measured = json.loads(done.stdout)

    assert max(measured["seconds"].values()) < SECONDS, measured
    assert measured["megabytes"] < MEGABYTES
