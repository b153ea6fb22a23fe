"""`collage report`: what `collage compile` found, shown again."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import collage_dsl as collage
from collage_dsl.report.text import compile_text
from tests.commands import assert_one_message, said
from tests.test_cli_run import NATIVE, model


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a compiled model, and what `collage compile` says of it."""
    folder = tmp_path_factory.mktemp("report") / "out"
    compiled = collage.compile(model(), [NATIVE], cost=lambda _: 1e-6, race_seconds=0.01)
    compiled.save(folder)
    return folder, compile_text(compiled.report)


def test_a_report_says_what_compile_said(compiled: tuple[Path, str]) -> None:
    folder, text = compiled
    done = said("report", folder)

    assert done.code == 0
    assert "estimated" in done.out
    assert done.out == text


def test_a_report_in_json_is_that_of_compile(compiled: tuple[Path, str]) -> None:
    folder, _ = compiled
    done = said("report", folder, "--output-format", "json")

    assert json.loads(done.out) == json.loads((folder / "report.json").read_text())


def test_a_folder_without_a_report_is_named(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        done = said("report", folder)

        assert_one_message(done, 2)
        assert "report.json: there is no such file; `collage compile -o` writes" in done.err


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "it is not JSON"),
        ("{}", "chosen: this field is missing"),
        ("\0\1", "it is not JSON"),
        (None, "it is a folder"),
    ],
)
def test_a_damaged_report_is_named(
    compiled: tuple[Path, str], tmp_path: Path, text: str | None, fault: str
) -> None:
    shutil.copytree(compiled[0], folder := tmp_path / "out")
    report = folder / "report.json"
    report.unlink()
    if text is None:
        report.mkdir()
    else:
        report.write_text(text)
    done = said("report", folder)

    assert_one_message(done, 1 if text else 2)
    assert fault in done.err
    assert not done.out


def test_the_package_runs_as_a_module(compiled: tuple[Path, str]) -> None:
    command = [sys.executable, "-m", "collage_dsl", "report", compiled[0]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    assert done.stdout == compiled[1]
