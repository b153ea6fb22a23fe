"""The examples of `docs/costs.md`: its commands answer what it says."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from collage_dsl.cli.main import app
from tests.caches import with_compiled_code
from tests.declared import declare

PAGE = (Path(__file__).parent.parent / "docs" / "costs.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def answer(command: str) -> str:
    arguments = shlex.split(command.removeprefix("collage "))
    done = CliRunner().invoke(app, arguments, standalone_mode=False)
    assert done.exception is None, (command, done.exception)
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has the files of the page, and is where commands run."""
    model, function = blocks("python")
    (table,), (project,) = blocks("yaml"), blocks("toml")
    ((name, value),) = re.findall(r'^(\w+) = "pricing:(\w+)"$', project, re.MULTILINE)
    assert project.startswith('[project.entry-points."collage_dsl.costs"]\n')
    declare(monkeypatch, tmp_path / "site", function, {name: value})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "costs.yaml").write_text(table)
    exec(compile(model, "model.py", "exec"), {})
    return tmp_path


@pytest.mark.engine
@pytest.mark.usefixtures("folder")
def test_the_plans_of_the_page_are_what_it_shows() -> None:
    plans = [block for block in blocks("console") if block.startswith("$ collage plan ")]
    assert len(plans) == 3
    for block in plans:
        command, expected = block.removeprefix("$ ").split("\n", 1)
        assert answer(command) == expected


@pytest.fixture
def compiled_code(tmp_path: Path) -> None:
    with_compiled_code(tmp_path / "cache")


@pytest.mark.engine
@pytest.mark.usefixtures("compiled_code", "folder")
def test_the_other_commands_of_the_page_run() -> None:
    calibrated, plans = (block.splitlines() for block in blocks("sh"))

    assert [" GB/s" in answer(command) for command in calibrated] == [True]
    measured, recorded, mixed = map(answer, plans)
    assert "costs: measured (" in measured
    assert "costs: recorded monday.sqlite (" in recorded
    assert measured.splitlines()[:5] == recorded.splitlines()[:5]
    assert "table costs.yaml" in mixed
    assert " measured 20" in mixed


def test_the_page_has_each_word_and_option() -> None:
    for word in ("measured", "recorded", "analytic", "FILE.sqlite", "NAME"):
        assert f"\n| `{word}` |" in PAGE
    for name in ("plan", "compile", "bench", "freeze", "coverage"):
        assert "costs" in {option.name for option in app.commands[name].params}  # type: ignore[attr-defined]
