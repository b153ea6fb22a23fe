"""Each change has a fragment in `changelog.d/`, and fragments make a changelog."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FRAGMENTS = sorted((ROOT / "changelog.d").glob("*.md"))


def draft(folder: Path) -> subprocess.CompletedProcess[str]:
    """What towncrier makes of the fragments of the repository in `folder`."""
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "next"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A copy of what towncrier reads."""
    shutil.copytree(ROOT / "changelog.d", tmp_path / "changelog.d")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_every_fragment_is_in_the_draft_of_the_next_release(repository: Path) -> None:
    done = draft(repository)

    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    for path in FRAGMENTS:
        assert " ".join(path.read_text("utf-8").split()) in said, path.name


def test_a_fragment_of_an_unknown_kind_is_refused(repository: Path) -> None:
    (repository / "changelog.d" / "+name.improved.md").write_text("It is better.\n")

    done = draft(repository)

    assert done.returncode == 1
    assert "+name.improved.md" in done.stdout + done.stderr


def test_a_fragment_is_one_paragraph_of_whole_sentences() -> None:
    for path in FRAGMENTS:
        text = path.read_text("utf-8")
        assert text.endswith(".\n"), path.name
        assert "\n\n" not in text, path.name
        assert text[0] == "`" or text[0].isupper(), path.name


def test_the_changelog_has_the_version_of_the_package() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]

    assert f"\n## {version}" in (ROOT / "CHANGELOG.md").read_text("utf-8")
