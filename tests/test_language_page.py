"""The examples of `docs/language.md`: each is a whole file, in order, whose tests pass."""

import re
from pathlib import Path

import pytest

from collage_dsl.engine.testing import run_tests
from collage_dsl.language.loading import check, load_contents
from collage_dsl.language.write.formatter import format_source
from collage_dsl.source import Source
from tests.needs_engine import engine_where

PAGE = (Path(__file__).parent.parent / "docs" / "language.md").read_text("utf-8")
EXAMPLES = [
    (section.split("\n", 1)[0], example.split("```")[0])
    for section in re.split(r"^## ", PAGE, flags=re.M)[1:]
    for example in section.split("```collage\n")[1:]
]
RUN = [
    pytest.param(*each, id=each[0], marks=engine_where("onnxruntime.supports" in each[1]))
    for each in EXAMPLES
]
"""The examples; one that asks a backend needs the engine."""


@pytest.mark.parametrize(("section", "text"), RUN)
def test_an_example_is_in_order_and_its_tests_pass(section: str, text: str) -> None:
    source = Source(f"{section}.collage", text)

    assert [str(diagnostic) for diagnostic in check(source)] == []
    outcomes = list(run_tests(load_contents(source)))
    assert outcomes, "an example shows what it says"
    for outcome in outcomes:
        assert outcome.passed, "\n\n".join(map(str, outcome.failures))
    assert format_source(Source("again", format_source(source))) == format_source(source)


def test_every_link_within_the_page_leads_somewhere() -> None:
    headings = re.findall(r"^##? (.*)$", PAGE, flags=re.M)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= anchors
