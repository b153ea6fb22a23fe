"""What makes `collage check` fail: levels, `[tool.collage]` and `--exit-zero`."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from collage_dsl.cli.config import KEYS, Configs
from tests.commands import FIVE_MISTAKES, assert_one_message, said
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
    assert said("check", warned).code == 0
    assert said("check", warned, "--fail-level", "warning").code == 1
    assert said("check", warned, "--fail-level", "warning", "--exit-zero").code == 0


def test_exit_zero_shows_errors_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "five.collage"
    path.write_text(FIVE_MISTAKES)

    done = said("check", path, "--exit-zero")

    assert (done.code, done.out.count("error[")) == (0, 5)
    assert said("check", tmp_path / "none.collage", "--exit-zero").code == 2


def test_the_nearest_configuration_counts(warned: Path) -> None:
    configure(warned.parent.parent, '[tool.collage]\nfail-level = "warning"\n')
    assert said("check", warned).code == 1
    assert said("check", warned, "--fail-level", "error").code == 0

    configure(warned.parent, "[tool.other]\n")
    assert said("check", warned).code == 1

    configure(warned.parent, "[tool.collage]\n")
    assert said("check", warned).code == 0


def test_each_file_has_its_own_configuration(warned: Path, tmp_path: Path) -> None:
    configure(warned.parent, '[tool.collage]\nignore = ["W0405"]\nfail-level = "warning"\n')
    other = tmp_path / "other.collage"
    other.write_text(WARNED)

    done = said("check", warned, other, "--output-format", "concise")

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
    assert said("check", warned).code == 1

    configure(tmp_path, '[tool.collage]\npath = ["common"]\n')
    assert said("check", warned).code == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[tool.collage]\nfail_level = 'error'", "has no `fail_level`; did you mean `fail-level`?"),
        ("[tool.collage]\nfail-level = 'info'", "`fail-level` is"),
        ("[tool.collage]\npath = ['nowhere']", "`path` names folders, but `nowhere` is none"),
        (
            "[tool.collage]\npath = ['clean.collage']",
            "`path` names folders, but `clean.collage` is none",
        ),
        ("[tool.collage]\nignore = 'W0405'", "`ignore` is a list of strings"),
        ("[tool.collage]\nignore = ['E0201']", "`E0201` is an error, and errors are always shown"),
        ("[tool.collage]\nignore = ['W9405']", "there is no code `W9405`; did you mean `W0405`?"),
        ("[tool.collage]\nexclude = ['!']", "`!` is no pattern of files"),
        ("[tool.collage]\nselect = ['W7']", "there is no code `W7`"),
        ("[tool.collage]\nper-file-ignores = ['a']", "`per-file-ignores` is a table"),
        ("[tool.collage.per-file-ignores]\n'a' = 'W04'", "`a` is a list of strings"),
        ("[tool.collage]\nrespect-gitignore = 1", "`respect-gitignore` is true or false"),
        ("[tool]\ncollage = 1", "[tool.collage] is a table"),
        ("[tool.collage", "cannot read"),
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "clean.collage"
    path.write_text(CLEAN)
    configure(tmp_path, text)

    assert_one_message(said("check", path), 2, "pyproject.toml", reason)


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

    assert said("check", file).code == 1
    assert said("check", file, "--path", tmp_path / "lib").code == 0


def test_the_beginning_of_a_code_stands_for_all_codes_that_begin_so(warned: Path) -> None:
    for written, shown in [
        ('ignore = ["W04"]', False),
        ('ignore = ["W"]', False),
        ('ignore = ["W08"]', True),
        ('select = ["W08"]', False),
        ("select = []", False),
        ('select = ["W0405"]\nignore = ["W04"]', True),
        ('select = ["W04"]\nignore = ["W0405"]', False),
    ]:
        configure(warned.parent, f"[tool.collage]\n{written}\n")
        assert ("W0405" in said("check", warned).out) == shown, written


def test_options_come_in_place_of_the_codes_of_the_configuration(warned: Path) -> None:
    configure(warned.parent, '[tool.collage]\nignore = ["W04"]\n')

    assert "W0405" in said("check", warned, "--ignore", "W08, W09").out
    assert "W0405" in said("check", warned, "--select", "W0405").out
    assert "W0405" not in said("check", warned, "--select", "W08").out
    assert_one_message(said("check", warned, "--ignore", "W7"), 2, "there is no code `W7`")
    assert_one_message(said("check", warned, "--select", "E02"), 2, "`E02` is an error")


def test_files_have_their_own_codes(warned: Path) -> None:
    other = warned.parent / "other.collage"
    other.write_text(WARNED)
    configure(warned.parent.parent, '[tool.collage.per-file-ignores]\n"specs/w*" = ["W04"]\n')

    done = said("check", warned.parent, "--output-format", "concise")

    assert [line.partition(":")[0] for line in done.out.splitlines()] == [str(other)]


def test_findings_are_counted_by_what_they_are(warned: Path, tmp_path: Path) -> None:
    five = tmp_path / "five.collage"
    five.write_text(FIVE_MISTAKES)

    def summary(*options: str) -> str:
        return said("check", warned, five, *options).out.splitlines()[-1]

    assert summary() == "2 files checked, 5 errors, 1 warning"
    assert summary("--fail-level", "warning") == (
        "2 files checked, 5 errors, 1 warning, 1 of which fails"
    )


def test_what_fails_is_a_failure_in_junit_too(warned: Path) -> None:
    def failures(*options: str) -> str:
        return said("check", warned, "--output-format", "junit", *options).out

    assert 'tests="1" failures="0"' in failures()
    assert 'tests="1" failures="1"' in failures("--fail-level", "warning")


def test_the_settings_in_the_documentation_are_all_there_are(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "check.md").read_text("utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    (tmp_path / "pyproject.toml").write_text(text)

    (tmp_path / "common").mkdir()
    config = Configs().of(tmp_path / "a.collage")

    assert set(tomllib.loads(text)["tool"]["collage"]) == set(KEYS)
    assert config.path == (tmp_path / "common",)
    assert not config.shows("W0530", tmp_path / "a.collage")
    assert config.shows("W0805", tmp_path / "a.collage")
    assert not config.shows("W0805", tmp_path / "generated" / "a.collage")


def test_a_path_that_is_no_folder_is_refused(warned: Path) -> None:
    done = said("check", warned, "--path", warned.parent / "nowhere")

    assert done.code == 2
    assert "nowhere' does not exist" in done.err


@pytest.mark.parametrize("command", ["check", "fmt", "test"])
def test_a_name_of_standard_input_needs_standard_input(warned: Path, command: str) -> None:
    done = said(command, warned, "--stdin-filename", "a.collage")

    assert_one_message(done, 2, "add `-` to FILES")


def test_a_configuration_is_parsed_again_only_where_it_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, loads = tmp_path / "pyproject.toml", tomllib.loads
    parsed: list[str] = []

    def noted(text: str) -> dict[str, Any]:
        parsed.append(text)
        return loads(text)

    monkeypatch.setattr(tomllib, "loads", noted)
    levels = []
    for level in ("warning", "warning", "error"):
        file.write_text(f'[tool.collage]\nfail-level = "{level}"\n# {tmp_path}\n')
        levels.append(Configs().of(tmp_path / "a.collage").fail_level)

    assert levels == ["warning", "warning", "error"]
    assert len(parsed) == 2
