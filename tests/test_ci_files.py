"""The files for CI services and shells fit the commands."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

from collage_dsl.cli.formats import FORMATS
from collage_dsl.cli.main import app
from tests.built import built
from tests.commands import said

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import completions  # noqa: E402

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))

SPEC = """collage 1;

pattern p(x) {
  y = nn.relu(x);
  yield y;
}

target t on llvm {
  rules dfpattern(p);
}

test "relu is matched" {
  graph { x: f32[4]; y = nn.relu(x); return y; }
  expect matches(p) == 1;
}
"""


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

    assert [hook["id"] for hook in hooks] == ["collage-check", "collage-fmt", "collage-test"]
    for hook in hooks:
        assert_is_command(hook["entry"])
        assert (hook["language"], hook["files"]) == ("python", r"\.collage$")


def test_the_example_workflow_runs_commands() -> None:
    text = (ROOT / "examples" / "github" / "collage.yml").read_text("utf-8")

    (job,) = yaml.safe_load(text)["jobs"].values()
    lines = [step["run"] for step in job["steps"] if "run" in step]
    commands = [line.partition(">")[0] for line in lines if line.startswith("collage")]
    assert len(commands) == 6
    for command in commands:
        assert_is_command(command)


def test_the_documentation_runs_commands() -> None:
    page = (ROOT / "docs" / "ci.md").read_text("utf-8")
    hooks, local, steps, gitlab = (
        yaml.safe_load(block.split("```")[0]) for block in page.split("```yaml\n")[1:]
    )

    (local_hook,) = local["repos"][0]["hooks"]
    commands = [local_hook["entry"], *gitlab["specs"]["script"][1:]]
    for command in commands:
        assert_is_command(command.partition(">")[0])
    published = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    known = {hook["id"]: hook for hook in published}
    assert {hook["id"] for hook in hooks["repos"][0]["hooks"]} == set(known)
    assert local_hook["entry"] == known["collage-check"]["entry"]
    assert set(steps["steps"][-1]["with"]) <= set(ACTION["inputs"])
    table = page.split("| Input |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`(?=[,`\w ]*\|.*\|)", table)) >= set(ACTION["inputs"])


def test_the_steps_of_the_action_know_its_inputs() -> None:
    steps = ACTION["runs"]["steps"]
    asked = [value for step in steps for value in step["env"].values()]

    assert sorted(asked) == sorted(f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"])
    for step in steps:
        assert "${{" not in step["run"], "an input in a script could be a script"


class Runner:
    """A machine that runs the action, as far as its steps can tell."""

    def __init__(self, folder: Path) -> None:
        self.temp, self.work = folder / "temp", folder / "work"
        self.path, self.summary = folder / "path", folder / "summary"
        self.libraries = folder / "libraries"
        for each in (self.temp, self.work, self.libraries):
            each.mkdir()
        # What the package needs, which pip cannot download here; but not the package itself.
        for library in Path(sysconfig.get_path("purelib")).iterdir():
            if not library.name.startswith("collage_dsl"):
                (self.libraries / library.name).symlink_to(library)

    def run(self, step: int, **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: said["default"] for name, said in ACTION["inputs"].items()} | inputs
        said = ACTION["runs"]["steps"][step]
        asked = {name: value.split()[1].split(".")[1] for name, value in said["env"].items()}
        added = self.path.read_text().split() if self.path.exists() else []
        environment = {
            "PATH": ":".join([*added, str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(self.libraries),
            "PYTHONSAFEPATH": "1",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_PATH": str(self.path),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "RUNNER_TEMP": str(self.temp),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            **{name: given[key] for name, key in asked.items()},
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", said["run"]]
        return subprocess.run(
            command, cwd=self.work, env=environment, capture_output=True, text=True, timeout=300
        )


@pytest.mark.slow
@pytest.mark.parametrize("source", ["wheel", "path"])
def test_the_action_installs_and_runs(tmp_path: Path, source: str) -> None:
    runner = Runner(tmp_path)
    package = str(built("wheel", tmp_path / "temp")) if source == "wheel" else ""
    if package:
        package = shutil.move(package, tmp_path)

    installed = runner.run(0, package=package)
    assert installed.returncode == 0, installed.stderr
    assert (runner.temp / "collage" / "bin" / "collage").exists()

    spec = runner.work / "specs" / "a.collage"
    spec.parent.mkdir()
    spec.write_text(SPEC)
    done = runner.run(1, paths="specs", sarif="c.sarif", junit="t.xml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert json.loads((runner.work / "c.sarif").read_text())["version"] == "2.1.0"
    assert 'tests="1" failures="0"' in (runner.work / "t.xml").read_text()

    spec.write_text(SPEC.replace("== 1", "==  2").replace("nn.relu(x);", "nn.gelu(x);", 1))
    (runner.work / "old").mkdir()
    (runner.work / "old" / "a.collage").write_text(SPEC)
    done = runner.run(1, paths="specs")
    assert done.returncode == 1
    assert "would reformat specs/a.collage\n" in done.stdout
    assert "::error file=specs/a.collage,line=14,col=10" in done.stdout

    spec.write_text(SPEC.replace("== 1", "== 0").replace("nn.relu(x);", "nn.gelu(x);", 1))
    assert runner.run(1, commands="fmt", paths="specs", against="old").returncode == 0
    assert "pattern `p`: 1 match lost" in runner.summary.read_text()

    assert runner.run(1, commands="", paths="specs", against="old").returncode == 0
    runner.summary.unlink()
    (runner.work / "wrong.collage").write_text("no spec")
    assert runner.run(1, commands="", paths="wrong.collage", against="old").returncode == 2
    assert not runner.summary.exists()
    assert runner.run(1, commands="", paths="specs", sarif="new/c.sarif").returncode == 0
    assert runner.run(1, commands="", paths="specs", against="none").returncode == 2
    assert runner.run(1, commands="chekc").returncode == 2
    assert runner.run(1, paths="$(touch made)").returncode == 2
    assert not (runner.work / "made").exists()


def test_the_hooks_leave_out_what_is_excluded(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.collage]\nexclude = ["wrong.collage"]\n')
    wrong = tmp_path / "wrong.collage"
    wrong.write_text("no spec")
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))

    for hook in hooks:
        done = said(*hook["entry"].split()[1:], wrong)
        assert (done.code, done.err) == (0, "")


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
