"""Standard streams that are closed, full, or cannot take every character."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import slow
from tests.commands import FIVE_MISTAKES

COLLAGE = f"{sys.executable} -m collage_dsl.cli.main"
SPEC = """collage 1;
rule r = composite("模型 é", op_call_by_kind());
target t on llvm { rules r; }
"""


def shell(command: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["bash", "-c", command.replace("collage", COLLAGE, 1)],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        timeout=300,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "wrong").write_text(FIVE_MISTAKES)
    (tmp_path / "spec").write_text(SPEC, "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check wrong", 1),
        slow("explain E0109", 0),
        ("ops é*", 2),
        slow("check é", 2),
        slow("ops nn.*", 0),
    ],
)
def test_an_encoding_without_the_characters(folder: Path, command: str, code: int) -> None:
    for environment in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}):
        done = shell(f"collage {command}", folder, **environment)

        assert done.returncode == code
        assert b"Traceback" not in done.stderr
        assert b"internal error" not in done.stderr


def test_a_picture_is_written_to_standard_output_whatever_that_is(folder: Path) -> None:
    (folder / "a.graph").write_text("x: f32[4]; y = nn.relu(x); return y;")

    done = shell("collage show a.graph --picture /dev/stdout", folder)

    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"<svg")


@pytest.mark.parametrize("form", ["json", slow("yaml"), slow("collage")])
def test_what_will_be_a_file_is_utf8_in_any_encoding(folder: Path, form: str) -> None:
    command = f"collage convert spec --to {form}"

    assert shell(command, folder, PYTHONIOENCODING="ascii").stdout == shell(command, folder).stdout


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("ops >&-", 2, b"error: cannot write to standard output: bad file descriptor\n"),
        ("ops >/dev/full", 2, b"error: cannot write to standard output: no space left on device\n"),
        ("ops > >(true)", 2, b""),
        slow("check wrong >/dev/full", 2, b"error: cannot write to standard output: no space left"),
        ("check wrong 2>&-", 1, b""),
        slow("check none 2>&-", 2, b""),
        ("check none 2>/dev/full", 2, b""),
        ("check none >&- 2>&- <&-", 2, b""),
        ("fmt - <&-", 1, b"<stdin>:1:1: error[E0103]"),
    ],
)
def test_streams_that_are_closed_or_full(
    folder: Path, command: str, code: int, told: bytes
) -> None:
    done = shell(f"collage {command}", folder)

    assert done.returncode == code, done.stderr
    assert done.stderr.startswith(told)
    assert bool(told) == bool(done.stderr)
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@pytest.mark.engine
@pytest.mark.parametrize("errors", ["2> >(true)", slow("2>/dev/full"), slow("2>&-")])
def test_a_command_goes_on_if_nobody_reads_its_progress(folder: Path, errors: str) -> None:
    import onnx

    from tests.models import small_product

    onnx.save(small_product(), folder / "m.onnx")

    done = shell(f"collage compile m.onnx -t native --costs analytic -o out {errors}", folder)

    assert done.returncode == 0
    assert (folder / "out" / "model.so").is_file()
