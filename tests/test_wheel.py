"""What the built package has besides the code."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent

SHARED = {
    "share/bash-completion/completions/collage": "completions/collage.bash",
    "share/zsh/site-functions/_collage": "completions/_collage",
    "share/fish/vendor_completions.d/collage.fish": "completions/collage.fish",
}
"""The files of the shells, by where they are put below the prefix."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return ZipFile(path)


def test_the_completion_files_go_where_the_shells_look(wheel: ZipFile) -> None:
    assert {Path(path).name for path in SHARED.values()} == {
        path.name for path in (ROOT / "completions").iterdir()
    }
    data = {name.partition(".data/data/")[2]: name for name in wheel.namelist()}
    data.pop("")

    assert set(data) == set(SHARED)
    for place, name in data.items():
        assert wheel.read(name) == (ROOT / SHARED[place]).read_bytes()


@pytest.mark.parametrize("folder", ["grammars", "specs"])
def test_what_the_package_reads_is_in_it(wheel: ZipFile, folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]

    assert files
    assert {f"collage_dsl/{path.relative_to(ROOT)}" for path in files} <= set(wheel.namelist())
