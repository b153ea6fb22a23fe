"""A user without a home folder, as in a container with any number for its user."""

import pwd
from pathlib import Path

import pytest

from collage_dsl.caches import cache_folder, make_cache
from collage_dsl.cli.failure import explained
from collage_dsl.language.syntax.grammar import parser
from tests.commands import said

FAULT = "this user has no home folder: set XDG_CACHE_HOME to a folder for caches"


@pytest.fixture(autouse=True)
def _homeless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_user(number: int) -> object:
        raise KeyError(number)

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", no_user)


def test_a_check_needs_no_cache() -> None:
    Path("a.collage").write_text("collage 1;\n")
    parser.cache_clear()

    assert said("check", "a.collage").code == 0


def test_what_needs_a_cache_says_which_variable_names_one() -> None:
    done = said("costs", "show")

    assert (done.code, done.out, done.err) == (2, "", f"error: {FAULT}\n")


def test_the_error_of_a_library_without_a_home_folder_is_that_of_the_user() -> None:
    assert explained(RuntimeError("Could not determine home directory.")).message == (
        f"error: {FAULT}"
    )


def test_a_cache_that_cannot_be_written_is_named_with_what_to_do() -> None:
    with pytest.raises(OSError, match="set XDG_CACHE_HOME to a folder for caches") as caught:
        make_cache(Path("/dev/null/cache"))

    assert explained(caught.value).message == (
        "error: cannot use the cache /dev/null/cache: Not a directory; "
        "set XDG_CACHE_HOME to a folder for caches"
    )


def test_a_cache_that_is_named_needs_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")

    assert cache_folder() == Path("/caches/collage_dsl")


def test_a_relative_cache_folder_is_ignored(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")

    assert cache_folder() == tmp_path / ".cache" / "collage_dsl"
