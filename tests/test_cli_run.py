"""`collage run` on files that are not what they should be: one message, exit code 1 or 2."""

import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import collage_dsl as collage
from collage_dsl.cli.failure import CommandError
from collage_dsl.cli.main import main
from collage_dsl.cli.run import summary_of
from collage_dsl.cli.shapes import parse_shapes
from collage_dsl.cli.targets import load_targets
from collage_dsl.engine.named import UnknownTarget
from tests.commands import assert_one_message
from tests.commands import collage as in_a_process

NATIVE = Path(__file__).parent.parent / "specs" / "native.collage"


def model() -> onnx.ModelProto:
    """Outputs with names that `numpy.savez` cannot take, or that a shell would not."""
    operators = {"file": "Relu", "self": "Neg", "a b": "Abs"}
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], [y]) for y, op in operators.items()],
        "model",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in operators],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "out"
    compiled = collage.compile(model(), [NATIVE], cost=lambda _: 1e-6, race_seconds=0.01)
    compiled.save(folder)
    return folder


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """`collage run` in this process: the exit code and what it said on stderr."""

    def run(*arguments: object) -> tuple[int, str]:
        # At its end, this process would remove the files of what it started after this.
        monkeypatch.setattr("collage_dsl.scratch.keep_temporary_files_together", lambda: None)
        monkeypatch.setattr(sys, "argv", ["collage", "run", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            main()
        return int(done.value.code or 0), capsys.readouterr().err

    return run


Run = Callable[..., tuple[int, str]]


def refused(done: tuple[int, str], said: str, code: int = 2) -> None:
    found, err = done
    assert found == code, err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert said in err


def test_outputs_of_any_name_are_kept(built: Path, tmp_path: Path, run: Run) -> None:
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    np.savez(tmp_path / "in.npz", x=x)

    assert run(built, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out")[0] == 0

    with np.load(tmp_path / "out.npz") as kept:
        assert set(kept) == {"file", "self", "a b"}
        np.testing.assert_array_equal(kept["file"], np.maximum(x, 0))
        np.testing.assert_array_equal(kept["self"], -x)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"x": np.ones((4, 9), np.float32)}, "input `x` is float32[4, 9]"),
        ({"x": np.ones((4, 8))}, "input `x` is float64[4, 8]"),
        ({"z": np.ones((4, 8), np.float32)}, "the model has no input `z`"),
        ({}, "input `x` is missing"),
    ],
)
def test_inputs_that_are_not_those_of_the_model_are_wrong(
    built: Path, tmp_path: Path, run: Run, given: dict[str, np.ndarray], fault: str
) -> None:
    np.savez(tmp_path / "in.npz", **given)

    refused(run(built, "--inputs", tmp_path / "in.npz"), fault, 1)


def an_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones((4, 8), np.float32))


def half_an_archive(path: Path) -> None:
    np.savez(path, x=np.ones((4, 8), np.float32))
    path.write_bytes(path.read_bytes()[:200])


def a_bad_member(path: Path) -> None:
    np.savez(path, x=np.ones((4, 8), np.float32))
    content = bytearray(path.read_bytes())
    content[150] ^= 0xFF
    path.write_bytes(content)


def pickled(path: Path) -> None:
    np.savez(path, x=np.array([{}, None], object))


def no_array(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.txt", "text")


def archive(path: Path, header: bytes, size: int = 64) -> None:
    with zipfile.ZipFile(path, "w") as file:
        head = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
        file.writestr("x.npy", head + bytes(size))


def terabytes(path: Path) -> None:
    """A header of 4 TB, and 64 bytes."""
    archive(path, b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000, 1000000)}\n")


def gigabytes_too(path: Path) -> None:
    """The same, and the archive says 4 GB."""
    terabytes(path)
    content = bytearray(path.read_bytes())
    directory = content.rindex(b"PK\x01\x02")
    content[directory + 24 : directory + 28] = (2**32 - 2).to_bytes(4, "little")
    path.write_bytes(content)


def less_than_nothing(path: Path) -> None:
    archive(path, b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4, 8)}\n")


def a_newer_format(path: Path) -> None:
    archive(path, b"")
    content = path.read_bytes()
    path.write_bytes(content.replace(b"NUMPY\x01", b"NUMPY\x09"))


def too_short(path: Path) -> None:
    archive(path, b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8)}\n", size=100)


@pytest.mark.parametrize(
    "write",
    [
        *(an_array, half_an_archive, a_bad_member, pickled, no_array, Path.touch),
        *(terabytes, gigabytes_too, less_than_nothing, a_newer_format, too_short),
    ],
)
def test_inputs_that_are_no_archive_of_arrays(
    built: Path, tmp_path: Path, run: Run, write: Callable[[Path], None]
) -> None:
    path = tmp_path / "in.npz"
    write(path)

    refused(run(built, "--inputs", path), f"cannot read inputs from {path}: ", 1)


@pytest.mark.parametrize("path", ["/dev/null", "/dev", "/no/such/file.npz"])
def test_inputs_that_are_nowhere(built: Path, run: Run, path: str) -> None:
    refused(run(built, "--inputs", path), f"cannot read inputs from {path}: ")


def test_what_the_header_of_an_array_says_is_not_allocated(
    built: Path, tmp_path: Path, run: Run
) -> None:
    terabytes(tmp_path / "in.npz")

    refused(
        run(built, "--inputs", tmp_path / "in.npz"),
        "`x` in it should be float32[1000000, 1000000], for which it is too short",
        1,
    )


def test_outputs_that_cannot_be_written(built: Path, run: Run) -> None:
    refused(run(built, "--outputs", "/no/such/folder/out.npz"), "cannot write")


def test_a_pipe_is_no_file_of_inputs(built: Path, tmp_path: Path, run: Run) -> None:
    os.mkfifo(tmp_path / "in.npz")

    refused(run(built, "--inputs", tmp_path / "in.npz"), "it is a pipe")


def test_a_library_that_was_not_saved_is_not_loaded(built: Path, tmp_path: Path, run: Run) -> None:
    folder = shutil.copytree(built, tmp_path / "out")
    library = folder / "model.so"
    content = bytearray(library.read_bytes())
    content[-1] ^= 1
    library.write_bytes(content)

    refused(run(folder), "model.so is not as it was saved", 1)


@pytest.mark.parametrize(
    "damage",
    [
        lambda signature: {**signature, "inputs": []},
        lambda signature: {"outputs": signature["outputs"]},
        lambda signature: [signature],
        lambda signature: {**signature, "inputs": [{**signature["inputs"][0], "dtype": "f"}]},
        lambda signature: {**signature, "inputs": [{**signature["inputs"][0], "shape": [9, 9]}]},
        lambda signature: {**signature, "outputs": signature["outputs"][:1]},
        lambda signature: None,
    ],
)
def test_a_damaged_signature(
    built: Path, tmp_path: Path, run: Run, damage: Callable[[object], object]
) -> None:
    folder = shutil.copytree(built, tmp_path / "out")
    file = folder / "signature.json"
    file.write_text(json.dumps(damage(json.loads(file.read_text()))))

    refused(run(folder), f"{folder} is damaged: signature.json is not as it was saved", 1)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe"])
def test_a_signature_that_is_no_json(built: Path, tmp_path: Path, run: Run, content: bytes) -> None:
    folder = shutil.copytree(built, tmp_path / "out")
    (folder / "signature.json").write_bytes(content)

    refused(run(folder), f"{folder} is damaged: signature.json is not as it was saved", 1)


@pytest.mark.parametrize("name", ["signature.json", "model.so"])
def test_a_folder_without_one_of_its_files_is_damaged(
    built: Path, tmp_path: Path, run: Run, name: str
) -> None:
    folder = shutil.copytree(built, tmp_path / "out")
    (folder / name).unlink()

    refused(run(folder), f"{folder} is damaged: it has no file {name}", 1)


def test_half_a_library_is_not_loaded(built: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(built, tmp_path / "out")
    library = folder / "model.so"
    library.write_bytes(library.read_bytes()[:5000])

    assert_one_message(
        in_a_process("run", folder), 1, "is damaged: model.so is not as it was saved"
    )


def test_outputs_without_elements_have_no_extremes() -> None:
    summary = summary_of(np.zeros((0, 8), np.float32))

    assert (summary.dtype, summary.shape) == ("float32", [0, 8])
    assert summary.smallest is None


# What the commands that take a model are given


def test_shapes_are_read() -> None:
    assert parse_shapes(["x=1,3, 224", "a=b=2", "scalar="]) == {
        "x": (1, 3, 224),
        "a=b": (2,),
        "scalar": (),
    }


def test_a_shape_is_given_once() -> None:
    with pytest.raises(CommandError, match="the shape of `x` is given twice"):
        parse_shapes(["x=1,3", "y=1", "x=1,4"])


@pytest.mark.parametrize("text", ["a=²,8", "a=99999999999999999999,8", "a=-1", "a=1,,2", "=", "a"])
def test_a_shape_that_is_none(text: str) -> None:
    with pytest.raises(CommandError, match=f"^--shape {text}: "):
        parse_shapes([text])


@pytest.mark.parametrize("named", ["", "#x"])
def test_a_target_without_a_file(named: str) -> None:
    with pytest.raises(UnknownTarget, match="names no file: write FILE or FILE#NAME"):
        load_targets([named])
