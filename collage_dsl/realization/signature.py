"""The inputs and outputs of a compiled model (names, dtypes, shapes), and their file."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pydantic
import tvm
import tvm_ffi

from collage_dsl.graph import Graph, TensorType, Type, members
from collage_dsl.graph.requirements import Requirement, requirements_of
from collage_dsl.reading import first_fault
from collage_dsl.saved import LIBRARY, SIGNATURE

FORMAT = 4
"""The number of the format of the folder of a compiled model."""

CPU = "cpu:0"


@tvm_ffi.error.register_error
class ExecutableError(Exception):
    """
    A folder has no executable or cannot be written, or an executable got wrong arrays. TVM keeps
    the class of errors that it knows.
    """


@tvm_ffi.error.register_error
class InputError(ExecutableError):
    """
    The arrays that an executable got are not as its model takes them, or a kernel refuses what is
    in them.
    """


class DamagedFolderError(ExecutableError):
    """The files of an executable are not as they were saved."""


def _known(dtype: str) -> str:
    try:
        np.dtype("V" if "(" in dtype else dtype)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return dtype


@dataclass(frozen=True, slots=True)
class Value:
    """
    An input or output: its name, dtype and shape. A dimension that is no number has a name, or is
    `?`; the shape is None where not even the rank is known. Of a value that is no tensor of TVM,
    the dtype is its type in ONNX, such as `seq(tensor(float))`.
    """

    name: str
    dtype: Annotated[str, pydantic.AfterValidator(_known)]
    shape: tuple[Annotated[int, pydantic.Field(ge=0)] | str, ...] | None

    @property
    def is_object(self) -> bool:
        return "(" in self.dtype

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape; None if it is not known before a model runs."""
        dims = self.shape or ()
        known = tuple(dim for dim in dims if isinstance(dim, int))
        return known if self.shape is not None and len(known) == len(dims) else None

    def __str__(self) -> str:
        dims = "?" if self.shape is None else ", ".join(map(str, self.shape))
        return self.dtype if self.is_object else f"{self.dtype}[{dims}]"


Sources = Mapping[str, tuple[Mapping[str, tuple[str, ...]], ...]]
"""
For each function of a kernel that may fail, and each of its calls in order: for each operator that
may fail, the ONNX nodes that it came from.
"""


@dataclass(frozen=True, slots=True)
class Sized:
    """The inputs and outputs of a model at some `sizes`, which it has an entry function for."""

    sizes: Mapping[str, int]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    sources: Sources = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Signature:
    """
    The inputs and outputs of a model, in order.

    `library` is the checksum of the library that was saved, by `checksum_of`: to load one that is
    cut short ends the process, and to load another runs its code. `devices` are those that the
    model runs on, by their names in TVM. `cores` are those that its kernels may use. `sized` are
    those sizes that the model has an entry function of its own for, in the order of the functions.
    `sources` are as in `Sources`. The sizes of dimensions with names must fulfil `requirements`.
    The code may have the `instructions` that are named, of those for numbers and vectors.
    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    library: str = ""
    devices: tuple[str, ...] = (CPU,)
    cores: Annotated[int, pydantic.Field(ge=1, le=4096)] = 1
    sized: tuple[Sized, ...] = ()
    sources: Sources = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    instructions: tuple[str, ...] = ()

    @classmethod
    def of(cls, graph: Graph, devices: tuple[str, ...] = (CPU,), cores: int = 1) -> "Signature":
        """The signature of what `build` makes of `graph`."""
        inputs = (graph.nodes[index] for index in members(graph.parameters))
        outputs = zip(graph.output_names, graph.outputs, strict=True)
        return cls(
            tuple(_value(node.name, node.type) for node in inputs),
            tuple(_value(name, graph.nodes[index].type) for name, index in outputs),
            devices=devices,
            cores=cores,
            requirements=requirements_of(graph),
        )

    def with_sizes(self, sizes: Mapping[str, int], at_sizes: "Signature") -> "Signature":
        """This, with another entry function, of the signature `at_sizes`."""
        sized = Sized(
            dict(sizes),
            at_sizes.inputs,
            at_sizes.outputs,
            at_sizes.sources,
            at_sizes.requirements,
        )
        return replace(self, sized=(*self.sized, sized))

    def at_sizes(self) -> Iterator["Signature"]:
        """The signature of each entry function for some sizes."""
        for each in self.sized:
            yield replace(
                self,
                inputs=each.inputs,
                outputs=each.outputs,
                sized=(),
                sources=each.sources,
                requirements=each.requirements,
            )

    def to_json(self) -> str:
        about = {"format": FORMAT, "tvm": tvm.__version__, "machine_code": LIBRARY}
        return self.signed({**about, **asdict(self)})

    @staticmethod
    def signed(fields: Mapping[str, Any]) -> str:
        """The text of a file with `fields` and their checksum."""
        said = {name: value for name, value in fields.items() if name != "checksum"}
        return json.dumps({**said, "checksum": _checksum(said)}, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Signature":
        """
        The signature that `to_json` wrote. Raises ValueError where it did not, and
        `ExecutableError` where another version did.
        """
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict) or fields.pop("checksum", "") != _checksum(fields):
            raise ValueError(f"{SIGNATURE} is not as it was saved")
        _check_versions(fields)
        try:
            return _SIGNATURE.validate_python(fields)
        except pydantic.ValidationError as error:
            raise ValueError(f"{SIGNATURE}: {first_fault(error)}") from None


def _check_versions(fields: Mapping[str, Any]) -> None:
    found = fields.get("format", 1)
    if found != FORMAT:
        raise ExecutableError(
            f"the compiled model has format {found}, this version reads {FORMAT}: compile it again"
        )
    written = fields.get("tvm")
    if written != tvm.__version__:
        raise ExecutableError(
            f"the compiled model is of TVM {written}, this is {tvm.__version__}: compile it again"
        )


def _checksum(fields: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def checksum_of(library: Path) -> str:
    """The checksum of the file of a library."""
    with library.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _value(name: str, type_: Type) -> Value:
    return (
        Value(name, type_.dtype, type_.shape)
        if isinstance(type_, TensorType)
        else Value(name, str(type_), ())
    )


_SIGNATURE = pydantic.TypeAdapter(Signature)
