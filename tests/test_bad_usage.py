"""What commands say of options and names that mean nothing as they are written."""

from pathlib import Path

import pytest

from tests.commands import said


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("show model.onnx --around 2", "--around needs --at"),
        ("bench model.onnx -t native --budget 5m", "--budget needs --refine"),
        ("freeze model.onnx -t native -o lock --seed 5", "--seed needs --refine"),
        ("compile model.onnx -t native -o out --refine-state d", "--refine-state needs --refine"),
    ],
)
def test_an_option_about_another_is_refused_without_it(
    command: str, missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = said(*command.split())

    assert done.code == 2
    assert done.err.endswith(f"Error: {missing}\n")


def test_a_time_in_seconds_is_asked_for_as_a_number() -> None:
    done = said("plan", "model.onnx", "-t", "native", "--timeout", "1h")

    assert done.err.endswith("'1h' is not a valid number.\n")
    assert "--timeout SECONDS" in said("plan", "--help").out


def test_the_beginning_of_codes_is_said_to_be_one() -> None:
    done = said("explain", "w05")

    assert done.code == 2
    assert "there is no code `w05`; with this beginning: W05" in done.err
    assert "W0530" in done.err


def test_the_beginning_of_operators_is_made_a_glob() -> None:
    done = said("ops", "nn")

    assert done.code == 2
    assert "write 'nn.*' for those that begin so" in done.err
    assert said("ops", "nn.*").code == 0


def test_a_revision_outside_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))

    done = said("breaking", "main:specs", "specs")

    assert done.code == 2
    missing = "there is no such file, and no repository whose revision it could name"
    assert done.err.startswith(f"error: main:specs: {missing} (git: ")


@pytest.mark.engine
def test_arrays_of_objects_are_refused_plainly(tmp_path: Path) -> None:
    import numpy as np

    from collage_dsl.cli.arrays import ArraysError, read_arrays

    np.savez(tmp_path / "x.npz", x=np.array([object()], dtype=object))

    with pytest.raises(ArraysError, match="`x` in it has Python objects, not numbers"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "command", [["show", "squeezenet"], ["plan", "squeezenet", "-t", "native"]]
)
def test_a_picture_of_another_format_is_refused_before_any_work(
    command: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "graph.png"

    done = said(*command, "--picture", path)

    assert done.code == 2
    assert f"pictures are written as SVG: the name {path} must end in .svg" in done.err
    assert not path.exists()
