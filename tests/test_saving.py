"""What is saved is loaded again by whoever has TVM, and nothing is said on stderr."""

import ctypes
import errno
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest

import collage_dsl as collage
from collage_dsl.backends.instructions import host_cpu, instructions
from collage_dsl.backends.tvm_target import host_target
from collage_dsl.frontend.errors import FrontendError
from collage_dsl.frontend.reference import reference_session
from collage_dsl.realization import saving
from collage_dsl.realization.saving import check_writable, save
from collage_dsl.realization.signature import ExecutableError, Signature
from tests.hostile_names import NOT_UTF8
from tests.models import small_convolution

SPECS = Path(__file__).parent.parent / "specs"
X = np.random.default_rng(3).normal(size=(1, 3, 12, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def compiled() -> collage.Compiled:
    """A model with constants in its executable, which ran."""
    specs = [SPECS / "native.collage"]
    made = collage.compile(small_convolution(), specs, cost=lambda _: 1e-6, race_seconds=0.01)
    made.run({"x": X})
    return made


@pytest.fixture(scope="module")
def folder(compiled: collage.Compiled, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "out"
    compiled.save(path)
    return path


@pytest.mark.parametrize("form", [str, Path])
def test_what_was_saved_is_loaded_and_computes_the_same(
    compiled: collage.Compiled, folder: Path, form: type
) -> None:
    executable = collage.load_executable(form(folder))

    assert executable.signature.inputs == compiled.executable.signature.inputs
    assert executable.signature.outputs == compiled.executable.signature.outputs
    np.testing.assert_array_equal(executable.run({"x": X})["y"], compiled.run({"x": X})["y"])


def test_a_fresh_process_needs_neither_onnx_nor_the_engine(folder: Path) -> None:
    program = f"""
import sys
import tempfile
import numpy as np
import collage_dsl as collage
executable = collage.load_executable({str(folder)!r})
executable.run({{"x": np.zeros((1, 3, 12, 12), np.float32)}})
unneeded = ("onnx", "onnxruntime", "collage_dsl.engine", "collage_dsl.frontend")
print([name for name in unneeded if name in sys.modules])
"""
    assert said_by(program) == ("[]\n", "")


def test_a_folder_without_a_model_is_no_executable(tmp_path: Path) -> None:
    with pytest.raises(ExecutableError, match="holds no compiled model"):
        collage.load_executable(str(tmp_path))


def test_a_path_that_is_not_utf8_is_refused_with_what_to_do(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = tmp_path / NOT_UTF8
    with pytest.raises(ExecutableError, match="TVM takes only paths in UTF-8; name another folder"):
        check_writable(odd / "out")
    shutil.copytree(folder, odd)
    with pytest.raises(ExecutableError, match=r"cannot load .* only paths in UTF-8; rename it"):
        collage.load_executable(odd)
    model = odd / "model.onnx"
    onnx.save(small_convolution(), model)
    with pytest.raises(FrontendError, match="takes only paths in UTF-8: rename the file, or"):
        reference_session(model)

    monkeypatch.chdir(odd)
    assert reference_session("model.onnx").run(None, {"x": X})
    with pytest.raises(ExecutableError, match="TVM takes only paths in UTF-8; name another folder"):
        check_writable(Path("out"))


def test_a_library_in_which_one_bit_has_changed_is_not_loaded(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    library = bytearray((copy / "model.so").read_bytes())
    library[len(library) // 2] ^= 1
    (copy / "model.so").write_bytes(library)

    with pytest.raises(ExecutableError, match=r"is damaged: model\.so is not as it was saved"):
        collage.load_executable(copy)


def test_code_with_instructions_that_this_machine_lacks_is_not_loaded(
    compiled: collage.Compiled, folder: Path, tmp_path: Path
) -> None:
    signature = compiled.executable.signature
    assert signature.instructions == tuple(sorted(instructions(host_target())))
    assert signature.instructions
    assert collage.load_executable(folder).signature.instructions == signature.instructions

    of_one_family = ("avx", "fma4")  # only AMD's processors of the years 2011 to 2016 have `fma4`
    copy = shutil.copytree(folder, tmp_path / "copy")
    fields = json.loads((copy / "signature.json").read_text())
    text = Signature.signed({**fields, "instructions": of_one_family})
    (copy / "signature.json").write_text(text)

    said = rf"does not have \(fma4\): compile the model here, or with .* `mcpu: \"{host_cpu()}\"`"
    with pytest.raises(ExecutableError, match=said):
        collage.load_executable(copy)


def test_the_signature_says_which_file_is_code(folder: Path) -> None:
    assert json.loads((folder / "signature.json").read_text())["machine_code"] == "model.so"


@pytest.mark.parametrize("one_step", [True, False])
def test_a_saved_folder_is_replaced_whether_or_not_the_file_system_can_exchange_two(
    compiled: collage.Compiled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_step: bool
) -> None:
    def refused(*_: object) -> int:
        ctypes.set_errno(errno.EINVAL)
        return -1

    if not one_step:
        monkeypatch.setattr(saving, "_renameat2", refused)
    compiled.save(tmp_path / "out")
    (tmp_path / "out" / "plan.json").write_text("old")

    compiled.save(tmp_path / "out")

    assert (tmp_path / "out" / "plan.json").read_text() != "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    collage.load_executable(tmp_path / "out")


def test_a_model_that_was_saved_where_a_loaded_one_was_is_loaded(
    compiled: collage.Compiled, tmp_path: Path
) -> None:
    specs = [SPECS / "native.collage"]
    other = collage.compile(small_convolution(16), specs, cost=lambda _: 1e-6, race_seconds=0.01)
    compiled.save(tmp_path / "out")
    first = collage.load_executable(tmp_path / "out")
    other.save(tmp_path / "out")
    second = collage.load_executable(tmp_path / "out")

    np.testing.assert_array_equal(first.run({"x": X})["y"], compiled.run({"x": X})["y"])
    np.testing.assert_array_equal(second.run({"x": X})["y"], other.run({"x": X})["y"])


def test_an_executable_that_was_loaded_is_not_saved_again(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ExecutableError, match="was loaded is saved already: copy its folder"):
        save(collage.load_executable(folder), tmp_path / "again", {})

    assert not list(tmp_path.iterdir())


def test_the_temporary_file_of_an_executable_has_no_name_and_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened() -> list[str]:
        links = (os.path.realpath(link) for link in Path("/proc/self/fd").iterdir())
        return [link for link in links if link.startswith(str(tmp_path))]

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    specs = [SPECS / "native.collage"]
    made = collage.compile(small_convolution(), specs, cost=lambda _: 1e-6, race_seconds=0.01)
    assert opened()
    assert not list(tmp_path.iterdir())

    del made
    gc.collect()

    assert not opened()


# ---- stderr ----


QUIET = """
import os, threading
import numpy as np
import tvm
import collage_dsl as collage
from tests.models import small_product

stop = threading.Event()

def write() -> None:
    number = 0
    while not stop.wait(0.0005):
        os.write(2, b"%d\\n" % number)
        number += 1
    print(number)

writer = threading.Thread(target=write)
writer.start()
compiled = collage.compile(small_product(), [SPEC], cost=lambda _: 1e-6, race_seconds=0.01)
compiled.run({"x": np.zeros((4, 6), np.float32)})
for name in ("first", "second"):
    compiled.save(name)
    collage.load_executable(name)
    tvm.runtime.load_module(name + "/model.so")
stop.set()
writer.join()
"""


@pytest.mark.parametrize("spec", ["native", "onnxruntime"])
def test_saving_and_loading_neither_write_nor_lose_a_line_of_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent.parent))
    path = SPECS / f"{spec}.collage"
    written, err = said_by(QUIET.replace("SPEC", repr(str(path))), tmp_path)

    assert err.splitlines() == [str(number) for number in range(int(written))]


def said_by(program: str, folder: Path | None = None) -> tuple[str, str]:
    """What a process that runs `program` says on stdout and stderr."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr
