"""Which files a command takes: folders, `.gitignore`, `exclude`, and standard input."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from collage_dsl.cli.config import Configs
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.files import Given
from tests.commands import Done, collage, said

CLEAN = "collage 1;\n"
WARNED = "collage 1;\nrule a = op_call_by_kind();\ntarget t on llvm { rules op_call_by_kind(); }\n"
TEST = """collage 1;
import "shared.collage" only (act);
pattern p(x) { y = act(x); yield y; }
test "relu" { graph { x: f32[4]; y = nn.relu(x); return y; } expect matches(p) == 1; }
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("a", "build/b", "vendor/c", "deep/down/d", ".venv/e", "deep/kept"):
        path = tmp_path / f"{name}.collage"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CLEAN)
    (tmp_path / ".git" / "info").mkdir(parents=True)
    return tmp_path


def found(*paths: Path, force_exclude: bool = False) -> list[str]:
    """The names of the files that a command is given, without their suffix."""
    given = Given(paths, force_exclude=force_exclude)
    return [path.stem for path in given.files(Configs())]


def configure(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.collage]\n{text}\n")


def test_what_git_ignores_is_not_taken(repository: Path) -> None:
    assert found(repository) == ["a", "b", "d", "kept", "c"]

    (repository / ".gitignore").write_text("# made\nbuild/\n*.collage\n!a.collage\n!\n")
    (repository / "deep" / ".gitignore").write_text("!kept.collage\n")

    assert found(repository) == ["a", "kept"]
    assert found(repository / "deep") == ["kept"]


def test_the_files_that_git_ignores_in_this_clone_only(repository: Path) -> None:
    (repository / ".git" / "info" / "exclude").write_text("/deep/down\n")

    assert found(repository) == ["a", "b", "kept", "c"]


def test_git_ignores_the_same(repository: Path) -> None:
    (repository / ".git" / "info").rmdir()
    (repository / ".git").rmdir()
    (repository / ".gitignore").write_text("/build\n**/down/*\nkept.collage\n!/deep/kept.collage\n")
    (repository / "vendor" / ".gitignore").write_text("*\n")
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    command = ["git", "ls-files", "--others", "--exclude-standard", "*.collage"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)

    ours = {path.relative_to(repository) for path in Given([repository]).files(Configs())}
    assert ours == {Path(line) for line in done.stdout.splitlines()} - {Path(".venv/e.collage")}


def test_a_folder_that_is_asked_for_by_name_is_taken(repository: Path) -> None:
    (repository / ".gitignore").write_text("build/\n")
    configure(repository, 'exclude = ["vendor"]')

    assert found(repository) == ["a", "d", "kept"]
    assert found(repository / "build", repository / "vendor") == ["b", "c"]
    assert found(repository / "build" / "b.collage") == ["b"]
    assert found(repository / "vendor", force_exclude=True) == []
    assert found(repository / "vendor" / "c.collage", force_exclude=True) == []


def test_gitignore_can_be_left_aside(repository: Path) -> None:
    (repository / ".gitignore").write_text("build/\n")
    configure(repository, "respect-gitignore = false")

    assert "b" in found(repository)


def test_what_is_above_a_folder_in_no_repository_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "specs" / "deep").mkdir(parents=True)
    (tmp_path / "specs" / "deep" / "a.collage").write_text(CLEAN)
    (tmp_path / "specs" / "b.collage").write_text(CLEAN)
    (tmp_path / ".gitignore").write_text("*\n")
    (tmp_path / "specs" / ".gitignore").write_text("a.collage\n")

    assert found(tmp_path / "specs") == ["b"]


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ("build", ["a", "d", "kept", "c"]),
        ("/down", ["a", "b", "d", "kept", "c"]),
        ("down/", ["a", "b", "kept", "c"]),
        ("deep/*.collage", ["a", "b", "d", "c"]),
        ("*", []),
    ],
)
def test_the_configuration_excludes_files(repository: Path, patterns: str, left: list[str]) -> None:
    configure(repository, f'exclude = ["{patterns}"]')

    if left:
        assert found(repository) == left
    else:
        with pytest.raises(CommandError, match=r"except what .gitignore or `exclude` names"):
            found(repository)


def test_the_folder_of_a_path_is_that_after_the_dots(repository: Path) -> None:
    configure(repository / "build", 'exclude = ["*"]')
    os.chdir(repository / "build")

    assert found(Path("../vendor")) == ["c"]


@pytest.fixture(autouse=True)
def _stay_here() -> Iterator[None]:
    here = Path.cwd()
    yield
    os.chdir(here)


def piped(folder: Path, text: str, *arguments: str) -> Done:
    os.chdir(folder)
    return said(*arguments, given=text)


def test_standard_input_of_a_process_is_checked(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "collage_dsl.cli.main", "check", "-"]
    command += ["--output-format", "concise"]
    done = subprocess.run(command, cwd=tmp_path, input=WARNED, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "<stdin>:2:6: warning[W0405]: no target uses rule `a`\n"
    assert piped(tmp_path, WARNED, *command[3:]) == Done(0, done.stdout, "")


def test_standard_input_has_the_settings_and_imports_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "shared.collage").write_text("collage 1;\nlet act = one_of(nn.relu);\n")
    configure(tmp_path, 'fail-level = "warning"\nper-file-ignores = {"specs" = ["W04"]}')
    named = ("-", "--stdin-filename", "specs/new.collage")

    assert piped(tmp_path, WARNED, "check", "-").code == 1
    assert piped(tmp_path, WARNED, "check", *named).code == 0
    assert piped(tmp_path, TEST, "test", *named) == Done(0, "1 test passed\n", "")
    assert piped(tmp_path, TEST, "test", "-").code == 1


SPEC = """\
collage 1;
pattern act(x) { y = nn.relu(x); yield y; }
pattern raised(x) { y = exp(x); yield y; }
target a on llvm { rules op_call_by_kind(); }
"""


def test_commands_that_take_one_spec_read_it_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "m.graph").write_text("graph { x: f32[4]; y = nn.relu(x); return y; }")
    for command in (
        ("example", "-#act"),
        ("why", "-#act", "m.graph", "--at", "y"),
        ("near", "-#raised", "m.graph"),
        ("candidates", "m.graph", "-t", "-#a"),
        ("coverage", "m.graph", "-t", "-", "-t", "native"),
        ("embed", "-"),
        ("convert", "-#a", "--to", "json"),
    ):
        done = piped(tmp_path, SPEC, *command)
        assert (done.code, done.err) == (0, ""), command

    form = piped(tmp_path, SPEC, "convert", "-", "--to", "yaml").out
    back = piped(tmp_path, form, "convert", "-", "--to", "collage", "--stdin-filename", "a.yaml")
    assert back.out.startswith("collage 1;\n\ntarget a on llvm {")


def test_mistakes_in_a_spec_on_standard_input_are_said(tmp_path: Path) -> None:
    several = piped(tmp_path, SPEC, "example", "-")
    assert several.err.endswith("has several patterns; write -#NAME with one of act, raised\n")
    none = piped(tmp_path, "collage 1;\n", "embed", "-")
    assert none.err == "error: <stdin> has no target\n"
    other = piped(tmp_path, "", "convert", "native", "--to", "json", "--stdin-filename", "a")
    assert other == Done(2, "", "error: --stdin-filename names standard input: give `-` as FILE\n")


@pytest.mark.parametrize(
    "command",
    [
        ("show", "-"),
        ("compile", "-", "-t", "native", "-o", "out"),
        ("replay", "-", "squeezenet", "-t", "native"),
        ("run", "-"),
        ("extract", "-"),
        ("breaking", "-", "native"),
    ],
)
def test_what_is_not_read_from_standard_input_says_so(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    done = piped(tmp_path, SPEC, *command)

    assert (done.code, done.out) == (2, "")
    assert "standard input" in done.err
    assert "`./-` for a file of this name" in done.err


def test_standard_input_that_is_excluded_is_left_out_if_asked_for(tmp_path: Path) -> None:
    configure(tmp_path, 'exclude = ["new.collage"]')
    named = ("-", "--stdin-filename", "new.collage")

    assert piped(tmp_path, WARNED, "check", *named).out.endswith("1 file checked, 1 warning\n")
    done = piped(tmp_path, WARNED, "check", *named, "--force-exclude")
    assert done.out == "0 files checked\n"


@pytest.mark.parametrize(
    "command",
    [
        ("fmt", ""),
        ("check", "a.collage", ""),
        ("check", "a.collage", "--path", ""),
        ("convert", "", "--to", "json"),
        ("run", ""),
        ("compile", "a.onnx", "-t", "native", "-o", ""),
        ("freeze", "a.onnx", "-t", "native", "-o", ""),
        ("plan", "a.onnx", "-t", "native", "--costs", ""),
        ("costs", "show", "--store", ""),
    ],
)
def test_an_empty_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.collage").write_text("collage  1;")

    done = said(*command)

    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines()[-1].endswith(": the path is empty")
    assert Path("a.collage").read_text() == "collage  1;"


def test_a_file_that_cannot_be_read_is_not_counted(tmp_path: Path) -> None:
    done = collage("check", tmp_path / "none.collage")

    assert (done.code, done.out) == (2, "0 files checked, 1 file could not be checked\n")


@pytest.mark.parametrize(
    "command",
    [
        ("check", "loop"),
        ("fmt", "loop"),
        ("test", "loop"),
        ("convert", "loop", "--to", "json"),
        ("embed", "loop"),
        ("why", "loop#p", "a.onnx", "--at", "y"),
        ("candidates", "a.onnx", "-t", "loop"),
    ],
)
def test_a_link_that_leads_to_itself_is_named_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.onnx").write_text("")
    Path("loop").symlink_to("loop")

    done = said(*command)

    assert done.code == 2
    assert "cannot read loop: it is a link that leads to itself" in done.err
