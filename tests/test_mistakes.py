"""The page of likely mistakes shows what is said of them, and what to do instead."""

import re
from pathlib import Path

import pytest

from collage_dsl.language import check
from collage_dsl.source import Source

PAGE = Path(__file__).parents[1] / "docs" / "mistakes.md"

_SECTION = re.compile(
    r"^## (\d+)\. (.*?)\n.*?^```collage\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL
)

MISTAKES = [
    pytest.param(text, said, id=title)
    for _, title, text, said in _SECTION.findall(PAGE.read_text())
]


def test_there_are_fifteen() -> None:
    numbers = [int(number) for number, *_ in _SECTION.findall(PAGE.read_text())]

    assert numbers == list(range(1, 16))
    assert len(numbers) == PAGE.read_text().count("\n## ")


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_the_message_is_the_real_one(text: str, said: str) -> None:
    found = check(Source("mistake.collage", text))

    assert "\n\n".join(map(str, found)) == said.strip("\n")


@pytest.mark.parametrize(("text", "said"), MISTAKES)
def test_the_message_says_what_to_do(text: str, said: str) -> None:
    assert all(diagnostic.help for diagnostic in check(Source("mistake.collage", text)))
