"""The inputs and outputs of a compiled model (names, dtypes, shapes), and their file."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tvm
import tvm_ffi

from collage_dsl.graph import Graph, TensorType, members

SIGNATURE = "signature.json"

LIBRARY = "model.so"
"""The file with the code of a compiled model, the only one of its folder that is run."""

FORMAT = 1
"""The number of the format of the folder of a compiled model."""

CPU = "cpu:0"


@tvm_ffi.error.register_error
class ExecutableError(Exception):
    """
    A folder has no executable or cannot be written, or an executable got wrong arrays. TVM keeps
    the class of errors that it knows.
    """


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output: its name, dtype and shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """
    The inputs and outputs of a model, in order.

    `any_alignment` says that inputs may start at any multiple of the size of their elements. Other
    code of TVM crashes if an input does not start at a multiple of 64 bytes.

    `library_bytes` is the size of the library that was saved: to load one that is cut short
    ends the process. `library_sha256` is its checksum. `devices` are those that the model runs on,
    by their names in TVM. `cores` are those that its kernels may use.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    any_alignment: bool = False
    library_bytes: int = 0
    devices: tuple[str, ...] = (CPU,)
    cores: int = 1
    library_sha256: str = ""

    @classmethod
    def of(cls, graph: Graph, devices: tuple[str, ...] = (CPU,), cores: int = 1) -> "Signature":
        """The signature of what `build` makes of `graph`."""
        inputs = (graph.nodes[index] for index in members(graph.parameters))
        outputs = zip(graph.output_names, graph.outputs, strict=True)
        return cls(
            tuple(_value(node.name, node.tensor) for node in inputs),
            tuple(_value(name, graph.nodes[index].tensor) for name, index in outputs),
            any_alignment=True,
            devices=devices,
            cores=cores,
        )

    def to_json(self) -> str:
        about = {"format": FORMAT, "tvm": tvm.__version__, "machine_code": LIBRARY}
        fields = {**about, **asdict(self)}
        return json.dumps({**fields, "checksum": _checksum(fields)}, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Signature":
        """
        The signature that `to_json` wrote. Raises ValueError where it did not, and
        `ExecutableError` where another version did.
        """
        fields = json.loads(text)
        if not isinstance(fields, dict) or fields.pop("checksum", "") != _checksum(fields):
            raise ValueError(f"{SIGNATURE} is not as it was saved")
        _check_versions(fields)
        inputs, outputs = (
            tuple(Value(row["name"], row["dtype"], tuple(row["shape"])) for row in fields[side])
            for side in ("inputs", "outputs")
        )
        any_alignment = fields.get("any_alignment", False)  # Older folders do not say.
        devices, cores = tuple(fields.get("devices", (CPU,))), fields.get("cores", 1)
        size, checksum = fields["library_bytes"], fields.get("library_sha256", "")
        return cls(inputs, outputs, any_alignment, size, devices, cores, checksum)


def _check_versions(fields: Mapping[str, Any]) -> None:
    """Older folders, which say no version, may be of this one."""
    if fields.get("format", FORMAT) != FORMAT:
        raise ExecutableError(
            f"the compiled model has format {fields['format']}, this version reads {FORMAT}: "
            "compile it again"
        )
    written = fields.get("tvm", tvm.__version__)
    if written != tvm.__version__:
        raise ExecutableError(
            f"the compiled model is of TVM {written}, this is {tvm.__version__}: compile it again"
        )


def _checksum(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def _value(name: str, type_: TensorType) -> Value:
    return Value(name, type_.dtype, type_.static_shape)
