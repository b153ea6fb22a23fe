"""A command refuses a path that it cannot write before it does anything else."""

import os
from pathlib import Path

import pytest

from tests.commands import said

COMMANDS = (
    "show none.onnx --picture",
    "plan none.onnx -t native --picture",
    "freeze none.onnx -t native -o",
    "compile none.onnx -t native -o out --refine evolutionary --refine-state",
    "bench none.onnx -t native --refine evolutionary --refine-state",
    "run none --outputs",
    "costs export --store none.sqlite",
    "records export --records none.sqlite",
)
"""What is missing is found later than the path, which each command is given last."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_below_a_file_is_refused_first(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()

    name = "file/x.svg" if "--picture" in command else "file/x.npz"

    done = said(*command.split(), name)

    assert (done.code, done.out) == (2, "")
    assert done.err == f"error: cannot write {name}: not a directory\n"


@pytest.mark.engine
@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_can_be_written_is_not_touched_yet(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    done = said(*command.split(), "x.svg" if "--picture" in command else "x.npz")

    assert done.code == 2
    assert "none" in done.err
    assert os.listdir() == []


@pytest.mark.parametrize(
    "command", [each for each in COMMANDS if "--refine" not in each and "--outputs" not in each]
)
def test_a_folder_is_no_file_to_write(command: str, tmp_path: Path) -> None:
    done = said(*command.split(), tmp_path)

    assert done.err == f"error: cannot write {tmp_path}: it is a folder\n"


def test_the_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none" / "x.svg"

    done = said("show", "none", "--picture", path)

    assert done.err == f"error: cannot write {path}: there is no folder {path.parent}\n"


def test_a_name_of_arrays_gets_its_suffix_before_it_is_checked(tmp_path: Path) -> None:
    (tmp_path / "out.npz").mkdir()

    done = said("run", "none", "--outputs", tmp_path / "out")

    assert done.err == f"error: cannot write {tmp_path / 'out.npz'}: it is a folder\n"


@pytest.mark.parametrize(
    "command",
    [
        "show m.svg --picture m.svg",
        "freeze m.onnx -t s.collage#t -o s.collage",
        "plan m.onnx -t s.collage --costs c.svg --picture c.svg",
        "freeze m.onnx -t native -o m.onnx",
        "run out --inputs x.npz --outputs x",
        "costs export --store s.sqlite link",
        "costs export cache/collage_dsl/costs.sqlite",
        "records export --records s.sqlite ./s.sqlite",
        "freeze m.onnx -t native --store s.sqlite -o s.tuned.sqlite",
        "records export cache/collage_dsl/costs.tuned.sqlite",
    ],
)
def test_a_file_that_a_command_reads_is_not_overwritten(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cache = Path("cache/collage_dsl")
    cache.mkdir(parents=True)
    given = [Path(name) for name in ("m.onnx", "m.svg", "s.collage", "c.yaml", "c.svg", "x.npz")]
    given += [
        Path("s.sqlite"),
        Path("s.tuned.sqlite"),
        cache / "costs.sqlite",
        cache / "costs.tuned.sqlite",
    ]
    for path in given:
        path.write_text("text")
    Path("link").symlink_to("s.sqlite")
    name = "x.npz" if "--outputs" in command else str(Path(command.split()[-1]))

    done = said(*command.split())

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: cannot write {name}: this command reads it; name another file to write\n"
    )
    assert {path.read_text() for path in given} == {"text"}


def test_a_spec_that_the_given_one_imports_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.collage").write_text('collage 1;\nimport "b.collage" as b;\n')
    Path("b.collage").write_text('collage 1;\nimport "deep/c.collage" as c;\n')
    Path("deep").mkdir()
    Path("deep/c.collage").write_text("collage 1;\n")

    for name in ("b.collage", "deep/c.collage"):
        done = said("freeze", "none.onnx", "-t", "a.collage", "-o", name)

        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"error: cannot write {name}: this command reads it; name another file to write\n"
        )


@pytest.mark.engine
def test_the_external_data_of_a_model_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnx

    from tests.models import small_convolution

    monkeypatch.chdir(tmp_path)
    onnx.save(
        small_convolution(), "m.onnx", save_as_external_data=True, location="w", size_threshold=0
    )
    before = Path("w").read_bytes()

    for name in ("w", tmp_path / "w"):
        done = said("freeze", "m.onnx", "-t", "native", "-o", name)

        assert done.err == (
            f"error: cannot write {name}: this command reads it; name another file to write\n"
        )
    assert Path("w").read_bytes() == before


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (("report.json", "-t", "native"), "report.json"),
        (("none.onnx", "-t", "plan.json#t"), "plan.json"),
        (("none.onnx", "-t", "native", "--frozen", "plan.json"), "plan.json"),
        (("none.onnx", "-t", "native", "--costs", "plan.json"), "plan.json"),
    ],
)
def test_a_folder_that_holds_what_a_command_reads_is_not_replaced(
    given: tuple[str, ...], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for each in ("signature.json", "model.so", "plan.json", "report.json"):
        Path(each).touch()

    done = said("compile", *given, "-o", folder)

    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: cannot write {folder}: this command reads {name}; name another folder to write\n"
    )
