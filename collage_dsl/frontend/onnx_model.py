"""Load ONNX files, and read their inputs, operator set version and live nodes."""

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from collage_dsl.frontend.errors import FrontendError, ShapesError, UnreadableModelError, no_model
from collage_dsl.frontend.onnx_check import check_names, check_texts, np_dtype, size_fault
from collage_dsl.frontend.onnx_data import Data, read, read_nested, unreadable_data
from collage_dsl.frontend.onnx_inlined import inlined
from collage_dsl.frontend.onnx_newest import has_new_operators, is_too_new, lowered
from collage_dsl.frontend.onnx_order import in_order
from collage_dsl.frontend.onnx_scope import names_read
from collage_dsl.frontend.onnx_types import dtype_of, type_text
from collage_dsl.frontend.onnx_upgrade import OLDEST_OPSET, opset_of, upgraded
from collage_dsl.graph import Dim, TensorType
from collage_dsl.graph.sizes import plain_names
from collage_dsl.reading import cause_of, other_than_file

Shapes = Mapping[str, tuple[Dim, ...]]


def load_apart(model: str | Path | onnx.ModelProto) -> tuple[onnx.ModelProto, Data | None]:
    """
    The model as `load` gives it, but without large data of its constants; and what reads these. The
    latter is None where the model has all its data.
    """
    if not isinstance(model, str | PathLike | onnx.ModelProto):
        raise no_model(model, "the path of an ONNX file or an ONNX ModelProto")
    path = None if isinstance(model, onnx.ModelProto) else Path(model)
    found = read(path) if path and path.is_file() and path.stat().st_size else None
    if path is None or found is None:
        return load(model), None
    apart, data = found
    check_texts(apart)
    is_changed = apart.functions or opset_of(apart) < OLDEST_OPSET or has_new_operators(apart)
    if is_changed or not apart.graph.output:
        return load(model), None
    read_nested(apart, path)
    return _checked(apart, model), data


def load(model: str | Path | onnx.ModelProto) -> onnx.ModelProto:
    """The model, given itself or by its path, with external data read and functions inlined."""
    loaded = model if isinstance(model, onnx.ModelProto) else _read(Path(model))
    check_texts(loaded)
    return _checked(loaded, model)


def _checked(loaded: onnx.ModelProto, model: str | Path | onnx.ModelProto) -> onnx.ModelProto:
    """
    `loaded`, which was read from `model`, with functions inlined, in versions that are known.
    Raises `FrontendError`.
    """
    if not loaded.graph.output:
        raise FrontendError(f"{_what(model)} is not an ONNX model: it has no outputs")
    if opset_of(loaded) < 1:
        raise FrontendError(f"{_what(model)} uses operator set {opset_of(loaded)}; the first is 1")
    if opset_of(loaded) < OLDEST_OPSET:
        loaded = upgraded(loaded)
    newest = onnx.defs.onnx_opset_version()
    if opset_of(loaded) > newest:
        raise FrontendError(
            f"{_what(model)} uses operator set {opset_of(loaded)}; the newest that is known is "
            f"{newest}"
        )
    if loaded.functions:
        loaded = inlined(loaded)
    if is_too_new(loaded):
        loaded = lowered(loaded)
    check_names(loaded.graph)
    return in_order(loaded)


def _what(model: str | Path | onnx.ModelProto) -> str:
    return "the model" if isinstance(model, onnx.ModelProto) else str(model)


def _read(path: Path) -> onnx.ModelProto:
    model = load_structure(path)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise unreadable_data(path, error) from error
    return model


_TAKE_GRAPHS = "the commands `show`, `coverage`, `candidates`, `why` and `near`"
_IN_PYTHON = (
    f"`format_graph` gives the graph as text, which {_TAKE_GRAPHS} read from a `.graph` file"
)
_OTHERS = {
    ".graph": f"; a graph in text is read by {_TAKE_GRAPHS}, and in Python by `parse_graph`",
    ".collage": "; it is a spec file, which is given as a target",
    ".pt2": "; export the program to ONNX, or give it to `from_torch` in Python",
    ".json": f"; a Relax module is read in Python, by `from_relax`; {_IN_PYTHON}",
    ".py": "; a Relax module is read in Python, by `from_relax`, and a program of PyTorch by "
    f"`from_torch`; {_IN_PYTHON}",
}
"""What to do with files that are no ONNX models, by suffix."""


def load_structure(path: Path) -> onnx.ModelProto:
    """The model at `path` without external data. Raises `FrontendError`."""
    if not path.is_file():
        reason = other_than_file(path) or "there is no such file"
        raise UnreadableModelError(f"cannot read {path}: {reason}")
    if path.stat().st_size == 0:
        said = f"{path} is not an ONNX model: the file is empty"
        raise FrontendError(f"{said}{_OTHERS.get(path.suffix, '')}")
    try:
        return onnx.load_model(path, format="protobuf", load_external_data=False)
    except DecodeError:
        raise FrontendError(
            f"{path} is not an ONNX model, or only a part of one: it cannot be decoded"
            f"{_OTHERS.get(path.suffix, '')}"
        ) from None
    except OSError as error:
        raise UnreadableModelError(f"cannot read {path}: {cause_of(error)}") from error


def inputs_of(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs that are not constants."""
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in constants]


def input_types(graph: onnx.GraphProto, shapes: Shapes) -> dict[str, TensorType | onnx.TypeProto]:
    """The type of each input; `shapes` overrides the model."""
    if not isinstance(shapes, Mapping) or not all(
        isinstance(each, Iterable) and not isinstance(each, str) for each in shapes.values()
    ):
        raise TypeError('`shapes` must be a dictionary of lists or tuples: {"x": ("n", 3, 224)}')
    inputs = inputs_of(graph)
    given = [value.name for value in inputs]
    for name in shapes:
        if name not in given:
            known = ", ".join(f"`{name}`" for name in given)
            raise ShapesError(f"the model has no input `{name}`; its inputs are {known}")
    types = {value.name: _type(value, shapes.get(value.name)) for value in inputs}
    tensors = [type_ for type_ in types.values() if isinstance(type_, TensorType)]
    names = plain_names(dim for type_ in tensors for dim in type_.shape or ())
    return {name: _with_names(type_, names) for name, type_ in types.items()}


def declared_dtypes(graph: onnx.GraphProto) -> dict[str, str]:
    """The dtypes of the outputs that are declared as tensors of one, by numpy's names."""
    elements = {value.name: value.type.tensor_type.elem_type for value in graph.output}
    return {
        name: np_dtype(element, f"the output `{name}`").name
        for name, element in elements.items()
        if element != onnx.TensorProto.UNDEFINED
    }


def _with_names(
    type_: TensorType | onnx.TypeProto, names: Mapping[str, str]
) -> TensorType | onnx.TypeProto:
    if not isinstance(type_, TensorType) or type_.shape is None:
        return type_
    dims = (names.get(dim, dim) if isinstance(dim, str) else dim for dim in type_.shape)
    return TensorType(type_.dtype, tuple(dims))


def _type(value: onnx.ValueInfoProto, given: tuple[Dim, ...] | None) -> TensorType | onnx.TypeProto:
    what, tensor = f"the input `{value.name}`", value.type.tensor_type
    if not value.type.WhichOneof("value"):
        raise FrontendError(f"the type of {what} is not known")
    if not dtype_of(value.type):
        if value.type.HasField("tensor_type") and np_dtype(tensor.elem_type, what).kind == "c":
            raise FrontendError(f"{what} is a tensor of complex numbers, which nothing runs")
        if given is not None:
            raise ShapesError(f"{what} is no tensor that can have a shape: {type_text(value.type)}")
        return value.type
    dtype = np_dtype(tensor.elem_type, what)
    dims = _dims(value, given)
    if too_large := size_fault(dims or (), dtype):
        raise (FrontendError if given is None else ShapesError)(f"{what} {too_large}")
    return TensorType(dtype_of(value.type), dims)


def _dims(value: onnx.ValueInfoProto, given: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """The shape of an input, which is `given` if not None. None if not even the rank is known."""
    name, tensor = value.name, value.type.tensor_type
    known = None
    if tensor.HasField("shape"):
        known = tuple(_dim(name, place, dim) for place, dim in enumerate(tensor.shape.dim))
    if given is None:
        return known
    dims = tuple(_given_dim(name, dim) for dim in given)
    if known is not None and len(dims) != len(known):
        raise ShapesError(
            f"the input `{name}` has {len(known)} dimensions, the shape given for it {len(dims)}"
        )
    return dims


def _given_dim(name: str, dim: object) -> Dim:
    if isinstance(dim, str):
        return dim
    if isinstance(dim, int | np.integer) and not isinstance(dim, bool) and dim >= 0:
        return int(dim)
    raise ShapesError(
        f"the shape given for the input `{name}` has the dimension {dim}: one is a name, or a "
        "whole number from 0 on"
    )


_UNKNOWN = -1
"""What some exporters write for a dimension that they do not know."""

_NO_NAMES = frozenset(("", "?", "-1", "None"))
"""What they write for its name. Two such dimensions may have different sizes."""


def _dim(name: str, place: int, dim: Any) -> Dim:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    if dim.HasField("dim_value") and dim.dim_value != _UNKNOWN:
        raise FrontendError(f"the input `{name}` has a dimension of {dim.dim_value}")
    return f"{name}_{place}" if dim.dim_param in _NO_NAMES else str(dim.dim_param)


def give(name: str, shape: tuple[Dim, ...] = ()) -> str:
    """The words of a message that say how to give the input `name` a shape."""
    example = ",".join(str(dim) if isinstance(dim, int) else "1" for dim in shape)
    return f"give it with the argument `shapes` (`{name}={example or '1,3,224,224'}`)"


def live_nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """The nodes that the outputs need, in order."""
    needed = {value.name for value in graph.output}
    live = []
    for node in reversed(graph.node):
        if needed.isdisjoint(node.output):
            continue
        live.append(node)
        needed.update(names_read(node))
    return live[::-1]
