"""The files for CI services and shells fit the commands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from collage_dsl.cli.formats import FORMATS
from collage_dsl.cli.main import app

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import completions  # noqa: E402


def assert_is_command(line: str) -> None:
    """`line` runs a command that exists, with options that it has."""
    program, name, *arguments = line.split()
    assert program == "collage"
    options = {option for p in app.commands[name].params for option in p.opts}
    assert {a for a in arguments if a.startswith("-")} <= options
    for format_ in re.findall(r"--output-format (\w+)", line):
        assert format_ in FORMATS


def test_the_hooks_run_commands_on_spec_files() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))

    assert [hook["id"] for hook in hooks] == ["collage-check", "collage-fmt"]
    for hook in hooks:
        assert_is_command(hook["entry"])
        assert (hook["language"], hook["files"]) == ("python", r"\.collage$")


def test_the_example_workflow_runs_commands() -> None:
    text = (ROOT / "examples" / "github" / "collage.yml").read_text("utf-8")

    (job,) = yaml.safe_load(text)["jobs"].values()
    lines = [step["run"] for step in job["steps"] if "run" in step]
    commands = [line.partition(">")[0] for line in lines if line.startswith("collage")]
    assert len(commands) == 3
    for command in commands:
        assert_is_command(command)


@pytest.mark.parametrize("shell", completions.FILES)
def test_the_completion_files_are_those_of_the_code(shell: str) -> None:
    path = completions.FOLDER / completions.FILES[shell]

    assert path.read_text("utf-8") == completions.completion(shell), "run scripts/completions.py"
    if program := shutil.which(shell):
        assert subprocess.run([program, "-n", str(path)]).returncode == 0


def test_the_shell_completes_commands_and_formats() -> None:
    def complete(words: str, at: int) -> list[str]:
        program = (
            "import sys; sys.argv = ['collage']; from collage_dsl.cli.main import main; main()"
        )
        asked = {"_COLLAGE_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **asked},
            capture_output=True,
            text=True,
        )
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert complete("collage che", 1) == ["check"]
    assert complete("collage check --output-format s", 3) == ["sarif"]
    for command in ("why", "near", "plan"):
        assert complete(f"collage {command} --allow", 2) == ["--allow-extern"]
