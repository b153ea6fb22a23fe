"""An executable of a whole model: run it, save it, load it."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from collage_dsl.backends.runtime.build import addons, kernel_object
from collage_dsl.graph import Graph, TensorType, members
from collage_dsl.realization.crossing import NoDevice, device_named

Array = np.ndarray[Any, Any]

LIBRARY = "model.so"
SIGNATURE = "signature.json"
PLAN = "plan.json"
REPORT = "report.json"
"""All that is in the folder of a compiled model."""

CPU = "cpu:0"


class ExecutableError(Exception):
    """A folder does not hold an executable, cannot be written, or was given wrong inputs."""


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output: its name, dtype and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """
    What goes into a model and comes out of it, in order.

    `library_bytes` is the size of the library that was saved: to load one that is cut short
    ends the process. `devices` are those that it runs on, inputs and outputs on the first.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    library_bytes: int = 0
    devices: tuple[str, ...] = (CPU,)

    @classmethod
    def of(cls, graph: Graph, devices: tuple[str, ...] = (CPU,)) -> "Signature":
        inputs = (graph.nodes[index] for index in members(graph.parameters))
        outputs = zip(graph.output_names, graph.outputs, strict=True)
        return cls(
            tuple(_value(node.name, node.tensor) for node in inputs),
            tuple(_value(name, graph.nodes[index].tensor) for name, index in outputs),
            devices=devices,
        )

    def to_json(self) -> str:
        fields = asdict(self)
        return json.dumps({**fields, "checksum": _checksum(fields)}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Signature":
        """The signature that `to_json` wrote. Raises ValueError where it did not."""
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.pop("checksum", "") != _checksum(fields):
            raise ValueError(f"{SIGNATURE} is not as it was saved")
        inputs, outputs = (
            tuple(Value(row["name"], row["dtype"], tuple(row["shape"])) for row in fields[side])
            for side in ("inputs", "outputs")
        )
        devices = tuple(fields.get("devices", (CPU,)))  # which older folders do not say
        return cls(inputs, outputs, fields["library_bytes"], devices)


def _checksum(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _value(name: str, type_: TensorType) -> Value:
    return Value(name, type_.dtype, type_.static_shape)


class ModelExecutable:
    """A built model, in memory or loaded from a folder."""

    def __init__(self, executable: Any, signature: Signature) -> None:
        self.signature = signature
        self._executable = executable
        try:
            self._devices = [device_named(name) for name in signature.devices]
        except NoDevice as error:
            raise ExecutableError(f"the model cannot run: {error}") from error
        with _quiet():
            self._main = relax.VirtualMachine(executable, self._devices)["main"]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        The outputs by name. Raises `ExecutableError` for inputs that are missing, unknown, or
        of another dtype or shape.
        """
        outputs = self.call(self.tensors(inputs))
        names = (value.name for value in self.signature.outputs)
        return {name: out.numpy() for name, out in zip(names, outputs, strict=True)}

    def tensors(self, inputs: Mapping[str, Array]) -> list[Any]:
        """`inputs` as TVM tensors in the order of the signature."""
        unknown = set(inputs) - {value.name for value in self.signature.inputs}
        if unknown:
            raise ExecutableError(f"the model has no input `{min(unknown)}`")
        return [self._tensor(value, inputs) for value in self.signature.inputs]

    def call(self, tensors: Sequence[Any]) -> list[Any]:
        """Run on TVM tensors, as they come from `tensors`."""
        result = self._main(*tensors)
        return [result] if len(self.signature.outputs) == 1 else list(result)

    def wait(self) -> None:
        """Wait until every device has done what it was given; the processor always has."""
        for device in self._devices:
            if device != tvm.cpu():
                device.sync()

    def save(self, folder: Path, documents: Mapping[str, str]) -> None:
        """
        Write the executable and `documents` (contents by file name) to `folder`, which plain
        TVM can load: `tvm.runtime.load_module(folder / "model.so")`.

        The folder appears complete or not at all. One in which there is an executable and
        nothing else is replaced; any other that is not empty is refused with
        `ExecutableError`.
        """
        folder = folder.resolve()
        check_writable(folder)
        try:
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".collage-") as scratch:
                new = Path(scratch, "new")
                new.mkdir()
                self._write(new, documents)
                if folder.exists():
                    folder.rename(Path(scratch, "old"))
                new.rename(folder)
        except OSError as error:
            raise _cannot_write(folder, error) from error

    def _write(self, folder: Path, documents: Mapping[str, str]) -> None:
        try:
            with _quiet():
                self._executable.export_library(str(folder / LIBRARY), addons=addons())
        except RuntimeError as error:  # The linker's words, after a line of TVM's.
            said = str(error).strip().splitlines()
            raise OSError(f"the linker failed: {said[-1] if said else error}") from error
        signature = replace(self.signature, library_bytes=(folder / LIBRARY).stat().st_size)
        texts = {SIGNATURE: signature.to_json(), **documents}
        for name, text in texts.items():
            (folder / name).write_text(text + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> "ModelExecutable":
        """The executable that `save` wrote to `folder`. Raises `ExecutableError`."""
        if not (folder / SIGNATURE).is_file() or not (folder / LIBRARY).is_file():
            raise ExecutableError(f"{folder} holds no compiled model")
        try:
            signature = Signature.from_json((folder / SIGNATURE).read_text("utf-8"))
            _check_size(folder / LIBRARY, signature.library_bytes)
            return cls(tvm.runtime.load_module(str(folder / LIBRARY)), signature)
        except (OSError, ValueError, RuntimeError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise ExecutableError(f"{folder} is damaged: {said[0]}") from error

    def _tensor(self, value: Value, inputs: Mapping[str, Array]) -> Any:
        array = inputs.get(value.name)
        if array is None:
            raise ExecutableError(f"input `{value.name}` is missing")
        if array.shape != value.shape or str(array.dtype) != value.dtype:
            raise ExecutableError(
                f"input `{value.name}` is {array.dtype}{list(array.shape)}, "
                f"the model takes {value.dtype}{list(value.shape)}"
            )
        return tvm.runtime.tensor(np.asarray(array, order="C"), self._devices[0])


def _check_size(library: Path, expected: int) -> None:
    found = library.stat().st_size
    if found != expected:
        raise ValueError(f"{LIBRARY} has {found} bytes and was saved with {expected}")


def check_writable(folder: Path) -> None:
    """
    Raise where `save` would fail: `ExecutableError` for the folder, `NoCompiler` for want of
    what links the library. Cheap, to be asked before a long compilation.
    """
    kernel_object()
    folder = folder.resolve()
    try:
        _check_replaceable(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".collage-"):
            pass
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _check_replaceable(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ExecutableError(f"cannot write {folder}: there is a file of that name")
    held = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    if held and SIGNATURE not in held:
        raise ExecutableError(f"{folder} is not empty and holds no compiled model")
    foreign = held - {LIBRARY, SIGNATURE, PLAN, REPORT}
    if foreign:
        raise ExecutableError(f"{folder} holds `{min(foreign)}` too, which would be lost")
    if Path.cwd().is_relative_to(folder):
        raise ExecutableError(f"cannot write {folder}: it is the current folder")


def _cannot_write(folder: Path, error: OSError) -> ExecutableError:
    return ExecutableError(f"cannot write {folder}: {error.strerror or error}")


@contextmanager
def _quiet() -> Iterator[None]:
    """
    Drop what is written to stderr by the process. TVM 0.27 logs two empty warnings ("Scope
    Saving:", "Scope Loaded:") for every executable; what fails raises, with its reason.
    """
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
