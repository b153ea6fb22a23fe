"""An executable of a whole model: run it, save it, load it."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from collage_dsl.backends.runtime.build import addons
from collage_dsl.graph import Graph, TensorType, members

Array = np.ndarray[Any, Any]

LIBRARY = "model.so"
SIGNATURE = "signature.json"


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
    """What goes into a model and comes out of it, in order."""

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @classmethod
    def of(cls, graph: Graph) -> "Signature":
        inputs = (graph.nodes[index] for index in members(graph.parameters))
        outputs = (graph.nodes[index] for index in graph.outputs)
        return cls(
            tuple(_value(node.name, node.tensor) for node in inputs),
            tuple(_value(node.name, node.tensor) for node in outputs),
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Signature":
        rows = json.loads(text)
        return cls(
            *(
                tuple(Value(r["name"], r["dtype"], tuple(r["shape"])) for r in rows[side])
                for side in ("inputs", "outputs")
            )
        )


def _value(name: str, type_: TensorType) -> Value:
    return Value(name, type_.dtype, type_.static_shape)


class ModelExecutable:
    """A built model, in memory or loaded from a folder."""

    def __init__(self, executable: Any, signature: Signature) -> None:
        self.signature = signature
        self._executable = executable
        self._main = relax.VirtualMachine(executable, tvm.cpu())["main"]

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

    def save(self, folder: Path, documents: Mapping[str, str]) -> None:
        """
        Write the executable and `documents` (contents by file name) to `folder`, which plain
        TVM can load: `tvm.runtime.load_module(folder / "model.so")`.

        The folder appears complete or not at all. One that holds an executable already is
        replaced; any other that is not empty is refused with `ExecutableError`.
        """
        folder = folder.absolute()
        try:
            _check_replaceable(folder)
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".collage-") as scratch:
                new = Path(scratch, "new")
                new.mkdir()
                self._write(new, documents)
                if folder.exists():
                    folder.rename(Path(scratch, "old"))
                new.rename(folder)
        except OSError as error:
            raise ExecutableError(f"cannot write {folder}: {error.strerror or error}") from error

    def _write(self, folder: Path, documents: Mapping[str, str]) -> None:
        self._executable.export_library(str(folder / LIBRARY), addons=addons())
        texts = {SIGNATURE: self.signature.to_json(), **documents}
        for name, text in texts.items():
            (folder / name).write_text(text + "\n", "utf-8")

    @classmethod
    def load(cls, folder: Path) -> "ModelExecutable":
        """The executable that `save` wrote to `folder`. Raises `ExecutableError`."""
        if not (folder / SIGNATURE).is_file() or not (folder / LIBRARY).is_file():
            raise ExecutableError(f"{folder} holds no compiled model")
        try:
            signature = Signature.from_json((folder / SIGNATURE).read_text("utf-8"))
            library = tvm.runtime.load_module(str(folder / LIBRARY))
        except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise ExecutableError(f"{folder} is damaged: {said[0]}") from error
        return cls(library, signature)

    def _tensor(self, value: Value, inputs: Mapping[str, Array]) -> Any:
        array = inputs.get(value.name)
        if array is None:
            raise ExecutableError(f"input `{value.name}` is missing")
        if array.shape != value.shape or str(array.dtype) != value.dtype:
            raise ExecutableError(
                f"input `{value.name}` is {array.dtype}{list(array.shape)}, "
                f"the model takes {value.dtype}{list(value.shape)}"
            )
        return tvm.runtime.tensor(np.ascontiguousarray(array))


def check_writable(folder: Path) -> None:
    """
    Raise `ExecutableError` where `save` would fail: cheap, to be asked before a long
    compilation.
    """
    folder = folder.absolute()
    try:
        _check_replaceable(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".collage-"):
            pass
    except OSError as error:
        raise ExecutableError(f"cannot write {folder}: {error.strerror or error}") from error


def _check_replaceable(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ExecutableError(f"cannot write {folder}: there is a file of that name")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / SIGNATURE).is_file():
        raise ExecutableError(f"{folder} is not empty and holds no compiled model")
