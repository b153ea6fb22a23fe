"""
Tasks and their answers as JSON, to send them to another machine. Nothing in such a text is run when
it is read: it holds numbers, texts, arrays, modules of TVM, and the classes named here.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import fields
from enum import Enum
from typing import Any

import ml_dtypes
import numpy as np
import tvm

from collage_dsl.backends.base import Backend
from collage_dsl.backends.registry import NO_BACKEND, find_backend
from collage_dsl.cost import Refusal
from collage_dsl.cost.spread import Spread
from collage_dsl.graph import (
    Form,
    Graph,
    Kind,
    Measuring,
    Node,
    OpaqueType,
    Record,
    TensorType,
    Toolchain,
    Tuning,
    TupleType,
)
from collage_dsl.graph.device import Device
from collage_dsl.graph.tuning import Place
from collage_dsl.measuring.pace import Patience
from collage_dsl.measuring.process import Failed
from collage_dsl.measuring.task import (
    Check,
    InTurn,
    InTurnTask,
    KernelTask,
    Overhead,
    OverheadTask,
    Timing,
)

_CLASSES: Mapping[str, type[Any]] = {
    each.__name__: each
    for each in (
        *(Check, Failed, InTurn, InTurnTask, KernelTask, Overhead, OverheadTask, Patience),
        *(Spread, Timing),
        *(Device, Measuring, Node, OpaqueType, TensorType, Toolchain, TupleType),
        *(Place, Record, Tuning),
    )
}
_ENUMS: Mapping[str, type[Enum]] = {each.__name__: each for each in (Form, Kind, Refusal)}


class NotSent(ValueError):  # noqa: N818 (a reason, like `Infeasible`)
    """Something that cannot be sent to another machine."""


class NotRead(OSError):  # noqa: N818 (a reason, like `NoCompiler`)
    """A text that this machine cannot read, since it has other backends, or other versions."""


def text_of(value: object) -> str:
    """A task, or an answer, as JSON. Raises `NotSent`."""
    return json.dumps(_plain(value))


def value_of(text: str) -> Any:
    """
    The task, or the answer, that `text_of` wrote. Raises `NotRead`, also where this machine has no
    such backend, or has it in another version.
    """
    try:
        return _value(json.loads(text))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise NotRead(f"this is no task, and no answer: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, Enum) and type(value).__name__ in _ENUMS:
        return ["enum", [type(value).__name__, value.value]]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value).__name__ in _CLASSES:
        parts = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
        return [type(value).__name__, parts]
    match value:
        case tuple():
            return ["tuple", [_plain(each) for each in value]]
        case list():
            return ["list", [_plain(each) for each in value]]
        case Mapping():
            return ["dict", [[_plain(key), _plain(each)] for key, each in value.items()]]
        case np.generic():
            return _plain(value.item())
        case bytes():
            return ["bytes", b64encode(value).decode()]
        case np.ndarray() if value.dtype.kind not in "OSU":
            data = b64encode(np.ascontiguousarray(value).tobytes()).decode()
            return ["array", [str(value.dtype), list(value.shape), data]]
        case np.ndarray() if all(isinstance(each, str) for each in value.flat):
            return ["texts", [list(value.shape), [str(each) for each in value.flat]]]
        case Graph():
            return ["graph", [_plain(each) for each in _parts(value)]]
        case tvm.IRModule():
            return ["module", [np.__version__, str(tvm.ir.save_json(value))]]
        case Backend():
            return ["backend", [value.name, repr(value), value.version]]
    raise NotSent(f"a {type(value).__name__} cannot be sent to another machine")


def _value(found: Any) -> Any:
    if not isinstance(found, list):
        return found
    kind, content = found
    match kind:
        case "tuple":
            return tuple(map(_value, content))
        case "list":
            return list(map(_value, content))
        case "dict":
            return {_value(key): _value(each) for key, each in content}
        case "array":
            dtype, shape, data = content
            return np.frombuffer(b64decode(data), _dtype(dtype)).reshape(shape).copy()
        case "bytes":
            return b64decode(content)
        case "texts":
            shape, texts = content
            return np.array(texts, object).reshape(shape)
        case "enum":
            name, member = content
            return _ENUMS[name](member)
        case "graph":
            nodes, outputs, name, returns_tuple, names = map(_value, content)
            return Graph(nodes, outputs, name=name, returns_tuple=returns_tuple, output_names=names)
        case "module":
            return _module(*content)
        case "backend":
            return _backend(*content)
    return _CLASSES[kind](**{name: _value(each) for name, each in content.items()})


def _parts(graph: Graph) -> tuple[object, ...]:
    """What a graph is made of, besides where it came from."""
    return graph.nodes, graph.outputs, graph.name, graph.returns_tuple, graph.output_names


def _dtype(name: str) -> Any:
    return np.dtype(getattr(ml_dtypes, name, name))


def _module(numpy: str, text: str) -> Any:
    """A module. Both machines draw the same weights for it, from the same seed."""
    if numpy != np.__version__:
        raise NotRead(f"numpy, which draws weights, is {np.__version__}, and not {numpy}")
    return tvm.ir.load_json(text)


def _backend(name: str, described: str, version: str) -> Backend:
    """The backend of this machine, which must be the one that was sent."""
    try:
        backend = find_backend(name)
    except NO_BACKEND as error:
        raise NotRead(f"the backend `{name}` is not installed: {error}") from error
    if repr(backend) != described:
        raise NotRead(f"the backend `{name}` is {backend!r}, and not {described}")
    if backend.version != version:
        raise NotRead(f"the backend `{name}` is {backend.version}, and not {version}")
    return backend
