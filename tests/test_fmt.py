"""`collage fmt` as a user types it."""

import os
from pathlib import Path

from tests.commands import said

LOOSE = "collage 1;\nrule a=op_call_by_kind( );\n"
NEAT = "collage 1;\n\nrule a = op_call_by_kind();\n"
BROKEN = "collage 1;\nrule a = ;\n"


def spec(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_files_are_written_and_keep_their_mode(tmp_path: Path) -> None:
    path = spec(tmp_path, "a.collage", LOOSE)
    path.chmod(0o640)
    link = tmp_path / "link.collage"
    link.symlink_to(path)

    done = said("fmt", link)

    assert (done.code, done.out) == (0, "")
    assert path.read_text() == NEAT
    assert path.stat().st_mode & 0o777 == 0o640
    assert link.is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.collage", "link.collage"]
    assert said("fmt", path).err == ""


def test_a_folder_stands_for_the_specs_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    paths = [spec(tmp_path, "a.collage", LOOSE), spec(tmp_path / "deep", "b.collage", LOOSE)]
    other = spec(tmp_path, "c.txt", LOOSE)

    assert said("fmt", tmp_path).code == 0
    assert [path.read_text() for path in paths] == [NEAT, NEAT]
    assert other.read_text() == LOOSE


def test_check_names_the_files_that_would_change(tmp_path: Path) -> None:
    loose, neat = spec(tmp_path, "a.collage", LOOSE), spec(tmp_path, "b.collage", NEAT)

    done = said("fmt", "--check", loose, neat)

    assert (done.code, done.out) == (1, f"would reformat {loose}\n")
    assert loose.read_text() == LOOSE
    assert said("fmt", "--check", neat).code == 0


def test_diff_shows_what_would_change(tmp_path: Path) -> None:
    loose = spec(tmp_path, "a.collage", LOOSE)

    done = said("fmt", "--diff", loose)

    assert done.code == 1
    assert "-rule a=op_call_by_kind( );\n+\n+rule a = op_call_by_kind();\n" in done.out
    assert loose.read_text() == LOOSE
    assert said("fmt", "--diff", "--check", loose).code == 2


def test_a_file_with_syntax_errors_is_not_touched_and_the_others_are(tmp_path: Path) -> None:
    broken, loose = spec(tmp_path, "a.collage", BROKEN), spec(tmp_path, "b.collage", LOOSE)

    done = said("fmt", broken, loose)

    assert done.code == 1
    assert f"{broken}:2:10: error[E0101]" in done.err
    assert broken.read_text() == BROKEN
    assert loose.read_text() == NEAT


def test_a_file_that_cannot_be_read_ends_with_2(tmp_path: Path) -> None:
    done = said("fmt", tmp_path / "none.collage")

    assert done.code == 2
    assert "cannot read" in done.err


def test_standard_input_is_formatted_to_standard_output() -> None:
    def fmt(text: str, *options: str) -> tuple[int, str, str]:
        done = said("fmt", "-", *options, given=text)
        return done.code, done.out, done.err

    assert fmt(LOOSE) == (0, NEAT, "")
    assert fmt(LOOSE, "--check", "--stdin-filename", "x.collage")[:2] == (
        1,
        "would reformat x.collage\n",
    )
    code, out, err = fmt(BROKEN, "--stdin-filename", "x.collage")
    assert (code, out) == (1, "")
    assert err.startswith("x.collage:2:10: error[E0101]")


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    path = spec(tmp_path, "a.collage", LOOSE)
    tmp_path.chmod(0o500)
    try:
        done = said("fmt", path)
    finally:
        tmp_path.chmod(0o700)

    if os.geteuid() != 0:  # root may write anywhere
        assert done.code == 2
        assert "cannot write" in done.err
        assert path.read_text() == LOOSE
