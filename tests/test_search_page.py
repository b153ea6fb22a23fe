"""The examples of `docs/search.md`: its commands and Python sessions answer what it says."""

import doctest
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from collage_dsl.cli.main import app
from collage_dsl.search import STRATEGIES

DOCUMENT = Path(__file__).parent.parent / "docs" / "search.md"
PAGE = DOCUMENT.read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def plan(*arguments: str) -> str:
    """What `collage plan` answers."""
    return CliRunner().invoke(app, ["plan", *arguments], standalone_mode=False).stdout


def without_states(answer: str) -> str:
    """The number of states of `milp` is that of one version of the solver."""
    return re.sub(r"^\d+ states? explored;", "states explored;", answer, flags=re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has the files of the page, and is where commands run."""
    (models,), (spec,), (costs,) = blocks("python"), blocks("collage"), blocks("yaml")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wide.collage").write_text(spec)
    (tmp_path / "costs.yaml").write_text(costs)
    exec(compile(models, "models.py", "exec"), {})
    return tmp_path


@pytest.mark.engine
def test_the_commands_of_the_page_answer_what_it_says(folder: Path) -> None:
    sections = blocks("console")
    assert len(sections) == 6
    for section in sections:
        command, expected = section.removeprefix("$ collage ").split("\n", 1)
        first, _, last = without_states(expected).partition("…\n")  # Kernels that are left out.
        shown = without_states(plan(*command.split()[1:]))

        assert shown.startswith(first)
        assert shown.endswith(last)


@pytest.mark.engine
def test_the_answer_in_json_says_how_the_plan_was_found(folder: Path) -> None:
    options = ("-t", "native", "--costs", "costs.yaml", "--output-format", "json")
    found = json.loads(plan("fire.onnx", "--strategy", "milp", *options))["search"]

    assert found["strategy"] == "milp"
    assert found["proven"]
    assert found["gap"] == 0
    assert found["priced"] == found["candidates"]


@pytest.mark.engine
def test_the_python_sessions_of_the_page_answer_what_it_says() -> None:
    failed, tried = doctest.testfile(str(DOCUMENT), module_relative=False)

    assert failed == 0
    assert tried == sum(block.count(">>> ") for block in blocks("pycon")) > 10


def test_every_strategy_has_a_section() -> None:
    for name in STRATEGIES:
        assert f"\n## `{name}`\n" in PAGE


def test_every_strategy_shows_its_picture_in_its_section() -> None:
    for name in STRATEGIES:
        section = PAGE.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
        assert re.findall(r"\]\((pictures/.*?)\)", section) == [f"pictures/{name}.svg"]
