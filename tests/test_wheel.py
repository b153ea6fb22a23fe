"""What the built package has besides the code."""

from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.built import ROOT, built

SHARED = {
    "share/bash-completion/completions/collage": "completions/collage.bash",
    "share/zsh/site-functions/_collage": "completions/_collage",
    "share/fish/vendor_completions.d/collage.fish": "completions/collage.fish",
}
"""The files of the shells, by where they are put below the prefix."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return ZipFile(built("wheel", tmp_path_factory.mktemp("dist")))


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
