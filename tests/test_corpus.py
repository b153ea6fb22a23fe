"""No mistake that never matches is accepted in silence, and most messages name the fix."""

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.corpus import PAGES, Mistake, findings, mistakes, shown

ROOT = Path(__file__).parents[1]

_BLOCK = re.compile(r"^```collage\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CORPUS = tuple(chain.from_iterable(map(mistakes, PAGES)))
LEAST_NAMED = 0.9


@pytest.mark.parametrize("mistake", CORPUS, ids=lambda m: f"{m.page}-{m.text}")
def test_the_findings_are_those_recorded(mistake: Mistake) -> None:
    assert shown(findings(mistake.text)) == mistake.found


def test_there_are_more_than_a_hundred_mistakes() -> None:
    assert sum(mistake.kind == "never" for mistake in CORPUS) >= 114


def test_none_that_never_matches_is_accepted() -> None:
    accepted = [m.text for m in CORPUS if m.kind == "never" and m.found == "accepted"]

    assert accepted == []


def test_most_messages_name_the_fix() -> None:
    wrong = [m for m in CORPUS if m.kind == "never"]
    named = [m for m in wrong if m.names_the_fix(findings(m.text))]

    assert len(named) >= LEAST_NAMED * len(wrong)
