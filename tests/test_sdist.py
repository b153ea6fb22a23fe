"""The source distribution has all that the tests, the scripts and the documents read."""

import subprocess
import tarfile
from pathlib import Path

from pathspec import GitIgnoreSpec

from tests.built import ROOT, built

LEFT_OUT = (".ci/",)
"""What serves the repository alone."""


def files() -> set[str]:
    """Those that git tracks; in an unpacked sdist, those that .gitignore does not name."""
    if (ROOT / ".git").exists():
        listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
        return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}
    ignored = GitIgnoreSpec.from_lines((ROOT / ".gitignore").read_text("utf-8").splitlines())
    names = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file())
    return {name for name in names if not ignored.match_file(name)}


def test_the_sdist_has_every_file_of_the_repository(tmp_path: Path) -> None:
    with tarfile.open(built("sdist", tmp_path)) as archive:
        if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
            archive.extraction_filter = tarfile.data_filter
        archive.extractall(tmp_path)

    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    wanted = {name for name in files() if not name.startswith(LEFT_OUT)}
    assert "pyproject.toml" in wanted
    assert {name for name in wanted if not (unpacked / name).is_file()} == set()
