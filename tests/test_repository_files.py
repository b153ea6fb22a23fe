"""What serves those who work on this repository calls only what there is."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from collage_dsl.cli.main import app

ROOT = Path(__file__).parent.parent
GITHUB = ROOT / ".github"
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
WORKFLOW = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text("utf-8"))
HOOKS = [
    hook
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    for hook in repository["hooks"]
]
FORMS = [
    path for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml")) if path.stem != "config"
]


def called(job: dict[str, Any]) -> Iterator[str]:
    """The commands of a job, for each value of its matrix."""
    choices = [
        (name, value)
        for name, values in job.get("strategy", {}).get("matrix", {}).items()
        for value in values
    ]
    for step in job["steps"]:
        for name, value in choices or [("", "")]:
            yield step.get("run", "").replace(f"${{{{ matrix.{name} }}}}", str(value))


def made(text: str) -> set[str]:
    """The make targets that are called in code, at the start of a line or of a quotation."""
    return set(re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE))


@pytest.mark.parametrize("job", WORKFLOW["jobs"])
def test_each_job_makes_a_target_that_there_is(job: str) -> None:
    found = made("\n".join(called(WORKFLOW["jobs"][job])))

    assert found
    assert found <= TARGETS


def test_the_workflow_runs_what_a_change_has_to_pass() -> None:
    found = made("\n".join(run for job in WORKFLOW["jobs"].values() for run in called(job)))

    assert found == {
        *{"lint", "test", "test-language", "test-slow"},
        *{"coverage", "properties", "properties-engine"},
    }


@pytest.mark.parametrize("job", ["language", "engine"])
def test_the_oldest_python_that_is_allowed_is_tried_first(job: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    first, *_ = WORKFLOW["jobs"][job]["strategy"]["matrix"]["python"]
    assert project["requires-python"] == f">={first}"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/performance.md"])
def test_each_make_target_in_a_document_exists(name: str) -> None:
    found = made((ROOT / name).read_text("utf-8"))

    assert found
    assert found <= TARGETS


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_runs_a_tool_of_the_environment(hook: dict[str, Any]) -> None:
    program, *arguments = hook["entry"].split()
    assert hook["language"] == "system"
    assert program in (".venv/bin/ruff", ".venv/bin/mypy", ".venv/bin/collage")
    if program.endswith("collage"):
        assert arguments[0] in app.commands
        files = (path.relative_to(ROOT).as_posix() for path in ROOT.glob("specs/**/*.collage"))
        assert all(re.search(hook["files"], file) for file in files)


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_an_issue_form_asks_for_what_commands_say(form: Path) -> None:
    text = form.read_text("utf-8")
    asked = yaml.safe_load(text)

    identifiers = [field["id"] for field in asked["body"]]
    assert len(set(identifiers)) == len(identifiers)
    assert any(field.get("validations", {}).get("required") for field in asked["body"])
    assert set(re.findall(r"`collage (?:--\w+ )*(\w+)", text)) <= set(app.commands)
