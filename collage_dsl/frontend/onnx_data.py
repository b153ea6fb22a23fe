"""
Read the large tensors of an ONNX file straight into arrays, so that each is in memory once.

Protobuf holds the data of a tensor a second time as long as the model is held, and while it decodes
a file, a third time.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from math import prod
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import external_data_helper

from collage_dsl.frontend.arrays import empty
from collage_dsl.frontend.errors import FrontendError, UnreadableModelError
from collage_dsl.frontend.onnx_check import array_of_tensor, check_size, np_dtype
from collage_dsl.graph.arrays import Array
from collage_dsl.onnx_nodes import graphs_of, nodes_within

_LARGE = 1 << 16
"""Data of fewer bytes stay where they are."""

_SHORT = frozenset({
    "COMPLEX64", "COMPLEX128", "FLOAT4E2M1", "INT2", "INT4", "STRING", "UINT2", "UINT4",
})  # fmt: skip
"""The types of elements whose data are no plain array."""


@dataclass(frozen=True, slots=True)
class _Region:
    """Where the data of a tensor are in a file."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Data:
    """The model file, and the regions in it that the constants of these names have their data."""

    path: Path
    regions: Mapping[str, _Region]

    def array(self, tensor: onnx.TensorProto) -> Array:
        """The values of a constant of the model. Raises `FrontendError`."""
        what = f"the constant `{tensor.name}`"
        region = self.regions.get(tensor.name)
        if region is not None:
            with self.path.open("rb") as file:
                return _array(file, region, tensor, what)
        if not external_data_helper.uses_external_data(tensor):
            return array_of_tensor(tensor, what)
        try:
            with self._external(tensor) as file:
                return _array(file, _region_of(file, tensor), tensor, what)
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise unreadable_data(self.path, error) from error

    def _external(self, tensor: onnx.TensorProto) -> BufferedReader:
        """The file of the data of a tensor, which ONNX's own check lets be opened."""
        location = _said(tensor, "location")
        opened = external_data_helper._open_external_data_fd
        number = opened(str(self.path.parent), location, tensor.name, True)
        return os.fdopen(number, "rb")


def read(path: Path) -> tuple[onnx.ModelProto, Data] | None:
    """
    The model in a file without the large data of its constants, and these; None if the file has
    parts that this does not understand.
    """
    try:
        with path.open("rb") as file:
            kept, regions = _scanned(file, path.stat().st_size)
        model = onnx.ModelProto.FromString(kept)
    except (_OddError, DecodeError):
        return None
    tensors = model.graph.initializer
    return model, Data(path, {tensors[place].name: each for place, each in regions.items()})


def external_files(path: Path) -> set[Path]:
    """The files with the external data of the model at `path`; none if it is no model."""
    try:
        found = read(path)
        model = found[0] if found else onnx.load(path, load_external_data=False)
    except (OSError, DecodeError):
        return set()
    return {
        path.parent / _said(tensor, "location")
        for tensor in external_data_helper._get_all_tensors(model)
        if external_data_helper.uses_external_data(tensor)
    }


def read_nested(model: onnx.ModelProto, path: Path) -> None:
    """Read the external data of tensors that are no constants of the model itself."""
    try:
        for tensor in _nested(model.graph):
            if external_data_helper.uses_external_data(tensor):
                external_data_helper.load_external_data_for_tensor(tensor, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise unreadable_data(path, error) from error


def _nested(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in nodes_within(graph.node):
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
        for inner in graphs_of(node):
            yield from inner.initializer


def unreadable_data(path: Path, error: Exception) -> UnreadableModelError:
    """The error for a model at `path` whose external data are missing or not as it says."""
    reason = str(error).splitlines()[0]
    return UnreadableModelError(f"cannot read the external data of {path}: {reason}")


def _region_of(file: BufferedReader, tensor: onnx.TensorProto) -> _Region:
    size, start = os.fstat(file.fileno()).st_size, _number(tensor, "offset") or 0
    given = _number(tensor, "length")
    length = size - start if given is None else given
    if start > size or length > size - start:
        place = f"begin at byte {start}" if start > size else f"end at byte {start + length}"
        raise ValueError(f"the data of `{tensor.name}` {place}, but the file has {size} bytes")
    return _Region(start, length)


def _number(tensor: onnx.TensorProto, key: str) -> int | None:
    """A number that a tensor says of its external data; None if it says none."""
    if not (text := _said(tensor, key)):
        return None
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"the {key} of `{tensor.name}` is `{text}`, which is no number of bytes")
    return int(text)


def _said(tensor: onnx.TensorProto, key: str) -> str:
    """What a tensor says of its external data under a key; empty if it says nothing."""
    return {entry.key: entry.value for entry in tensor.external_data}.get(key, "")


def _array(file: BufferedReader, region: _Region, tensor: onnx.TensorProto, what: str) -> Array:
    dims, dtype = list(tensor.dims), np_dtype(tensor.data_type, what)
    if min(dims, default=0) < 0:
        raise FrontendError(f"{what} has the shape {dims}")
    check_size(dims, dtype, what)
    file.seek(region.start)
    if onnx.TensorProto.DataType.Name(tensor.data_type) in _SHORT:
        whole = onnx.TensorProto(dims=dims, data_type=tensor.data_type)
        whole.raw_data = file.read(region.size)
        return array_of_tensor(whole, what)
    if prod(dims) * dtype.itemsize != region.size:
        raise FrontendError(f"the data of {what} are damaged: {region.size} bytes for {dims}")
    array = empty(dims, dtype)
    if file.readinto(array.reshape(-1).view(np.uint8).data) != region.size:
        raise FrontendError(f"the data of {what} are damaged: the file ends before they do")
    return array


# The fields of a file. https://protobuf.dev/programming-guides/encoding


class _OddError(Exception):
    """A file is not one message of fields, as they are usually written."""


_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""Numbers of fields of ModelProto, GraphProto and TensorProto."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of a message: where it starts, and where what it holds does, and the end of both."""

    number: int
    start: int
    content: int
    end: int


def _scanned(file: BufferedReader, size: int) -> tuple[bytes, dict[int, _Region]]:
    """
    A file of `size` bytes without the large data of constants; and where these are, by the number
    of the constant.
    """
    model, regions = [], dict[int, _Region]()
    fields = list(_fields(file, 0, size))
    if sum(each.number == _GRAPH for each in fields) != 1:
        raise _OddError
    for each in fields:
        if each.number != _GRAPH:
            model.append(_read(file, each.start, each.end))
            continue
        graph, place = [], 0
        for part in _fields(file, each.content, each.end):
            if part.number == _INITIALIZER:
                graph.append(_without_data(file, part, place, regions))
                place += 1
            else:
                graph.append(_read(file, part.start, part.end))
        model.append(_message(_GRAPH, b"".join(graph)))
    return b"".join(model), regions


def _without_data(
    file: BufferedReader, tensor: _Field, place: int, regions: dict[int, _Region]
) -> bytes:
    """A constant; if its data are large, without them, and with their region in `regions`."""
    if tensor.end - tensor.content < _LARGE:
        return _read(file, tensor.start, tensor.end)
    fields = list(_fields(file, tensor.content, tensor.end))
    data = [each for each in fields if each.number == _RAW_DATA]
    if len(data) != 1:
        return _read(file, tensor.start, tensor.end)
    regions[place] = _Region(data[0].content, data[0].end - data[0].content)
    kept = [_read(file, e.start, e.end) for e in fields if e.number != _RAW_DATA]
    return _message(_INITIALIZER, b"".join(kept))


def _fields(file: BufferedReader, start: int, end: int) -> Iterator[_Field]:
    while start < end:
        key, content = _varint(file, start, end)
        number, sort = key >> 3, key & 7
        if sort == 2:
            length, content = _varint(file, content, end)
        elif sort == 0:
            length = _varint(file, content, end)[1] - content
        else:
            length = {1: 8, 5: 4}.get(sort, -1)
        if not number or length < 0 or content + length > end:
            raise _OddError
        yield _Field(number, start, content, content + length)
        start = content + length


def _varint(file: BufferedReader, start: int, end: int) -> tuple[int, int]:
    """The number at `start`, and where it ends."""
    file.seek(start)
    taken = file.read(min(10, end - start))
    value = 0
    for place, byte in enumerate(taken):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, start + place + 1
    raise _OddError


def _read(file: BufferedReader, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start)


def _message(number: int, content: bytes) -> bytes:
    return _as_varint(number << 3 | 2) + _as_varint(len(content)) + content


def _as_varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
