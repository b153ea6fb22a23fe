"""What makes `collage check` fail: levels, `[tool.collage]` and `--exit-zero`."""

from pathlib import Path

import pytest

from tests.commands import FIVE_MISTAKES, assert_one_message, collage
from tests.test_check_formats import CLEAN, WARNED


@pytest.fixture
def warned(tmp_path: Path) -> Path:
    (tmp_path / "specs").mkdir()
    path = tmp_path / "specs" / "warned.collage"
    path.write_text(WARNED)
    return path


def configure(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(text)


def test_warnings_fail_where_they_are_asked_to(warned: Path) -> None:
    assert collage("check", warned).code == 0
    assert collage("check", warned, "--fail-level", "warning").code == 1
    assert collage("check", warned, "--fail-level", "warning", "--exit-zero").code == 0


def test_exit_zero_shows_errors_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "five.collage"
    path.write_text(FIVE_MISTAKES)

    done = collage("check", path, "--exit-zero")

    assert (done.code, done.out.count("error[")) == (0, 5)
    assert collage("check", tmp_path / "none.collage", "--exit-zero").code == 2


def test_the_nearest_configuration_counts(warned: Path) -> None:
    configure(warned.parent.parent, '[tool.collage]\nfail-level = "warning"\n')
    assert collage("check", warned).code == 1
    assert collage("check", warned, "--fail-level", "error").code == 0

    configure(warned.parent, "[tool.other]\n")
    assert collage("check", warned).code == 1

    configure(warned.parent, "[tool.collage]\n")
    assert collage("check", warned).code == 0


def test_each_file_has_its_own_configuration(warned: Path, tmp_path: Path) -> None:
    configure(warned.parent, '[tool.collage]\nignore = ["W0405"]\nfail-level = "warning"\n')
    other = tmp_path / "other.collage"
    other.write_text(WARNED)

    done = collage("check", warned, other, "--output-format", "concise")

    assert (done.code, len(done.out.splitlines())) == (0, 1)
    assert done.out.startswith(str(other))


def test_imports_are_looked_for_on_the_path(warned: Path, tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "kept.collage").write_text(
        "collage 1;\nrule kept = op_call_by_kind();\n"
    )
    warned.write_text(
        'collage 1;\nimport "kept.collage" only (kept);\ntarget t on llvm { rules kept; }\n'
    )
    assert collage("check", warned).code == 1

    configure(tmp_path, '[tool.collage]\npath = ["common"]\n')
    assert collage("check", warned).code == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.collage]\nfail_level = 'error'", "has no `fail_level`; did you mean `fail-level`?"),
        ("[tool.collage]\nfail-level = 'info'", "`fail-level` is"),
        ("[tool.collage]\nignore = 'W0405'", "`ignore` is a list of strings"),
        ("[tool.collage]\nignore = ['E0201']", "`E0201` is an error, which cannot be ignored"),
        ("[tool.collage]\nignore = ['W9405']", "there is no code `W9405`; did you mean `W0405`?"),
        ("[tool]\ncollage = 1", "[tool.collage] is a table"),
        ("[tool.collage", "cannot read"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "clean.collage"
    path.write_text(CLEAN)
    configure(tmp_path, text)

    assert_one_message(collage("check", path), 2, "pyproject.toml", said)


def test_imports_are_looked_for_where_the_command_says(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "common.collage").write_text(
        "collage 1;\nlet act = one_of(nn.relu, nn.silu);\n"
    )
    file = tmp_path / "mine.collage"
    file.write_text(
        'collage 1;\nimport "common.collage" only (act);\n'
        "pattern p(x) { y = act(x); yield y; }\ntarget t on llvm { rules dfpattern(p); }\n"
    )

    assert collage("check", file).code == 1
    assert collage("check", file, "--path", tmp_path / "lib").code == 0
