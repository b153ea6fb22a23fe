"""Values that are no tensors of TVM, as users give and get them, and as onnxruntime holds them."""

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from collage_dsl.backends.engines import Held, in_its_memory, is_packed
from collage_dsl.offline import onnxruntime
from collage_dsl.realization.difference import compared
from collage_dsl.realization.signature import InputError, Value

_TENSOR_OF_STRINGS = "tensor(string)"


def held(value: Value, given: Any) -> Held:
    """
    What a user gives for the input `value`: an array (of the dtypes of `ml_dtypes` for numbers
    that numpy lacks), a list of arrays for a sequence, None for an optional that is empty.
    """
    if not value.dtype.startswith("tensor("):
        return Held(given)
    array = np.asarray(given)
    if value.dtype == _TENSOR_OF_STRINGS:
        return Held(array.astype(object))
    tensor = numpy_helper.from_array(array)
    named = onnx.TensorProto.DataType.Name(tensor.data_type)
    if f"tensor({named.lower()})" != value.dtype:
        raise InputError(f"input `{value.name}` is {array.dtype}, the model takes {value}")
    result = onnxruntime.OrtValue.ortvalue_from_shape_and_type(array.shape, tensor.data_type)
    ctypes.memmove(result.data_ptr(), tensor.raw_data, result.tensor_size_in_bytes())
    return Held(result)


def run_session(session: Any, inputs: Mapping[str, Any], options: Any = None) -> dict[str, Any]:
    """
    The outputs of a session of onnxruntime by name, for inputs as users give them. `options` are
    onnxruntime's `RunOptions`. Raises one of `REFUSALS` for inputs that it refuses.
    """
    types = {each.name: each.type for each in session.get_inputs()}
    feeds = {
        name: held(Value(name, types[name], ()), given).content if is_packed(types[name]) else given
        for name, given in inputs.items()
        if name in types
    }
    outputs = session.get_outputs()
    names = [each.name for each in outputs]
    if not any(is_packed(each.type) for each in outputs):
        return dict(zip(names, session.run(names, feeds, options), strict=True))
    return dict(zip(names, map(shown, in_its_memory(session, feeds, options)), strict=True))


def shown(content: Any) -> Any:
    """What a user gets for a value of onnxruntime: arrays, lists of arrays, None."""
    if not isinstance(content, onnxruntime.OrtValue):
        return content
    if not is_packed(content.data_type()):
        return content.numpy()
    tensor = onnx.TensorProto(data_type=content.element_type(), dims=content.shape())
    tensor.raw_data = ctypes.string_at(content.data_ptr(), content.tensor_size_in_bytes())
    return numpy_helper.to_array(tensor)


def is_same_object(one: Any, other: Any, unit: float) -> bool:
    """
    Whether two values that are no tensors of numbers are equal, up to rounding by `unit` before.
    The numbers of a map, such as the probabilities of classes, are compared like those of a tensor.
    """
    if isinstance(other, list):
        return (
            isinstance(one, list)
            and len(one) == len(other)
            and all(is_same_object(*pair, unit) for pair in zip(one, other, strict=True))
        )
    if isinstance(other, Mapping):
        is_alike = isinstance(one, Mapping) and one.keys() == other.keys()
        return is_alike and is_same_object(
            np.array([one[key] for key in other]), np.array(list(other.values())), unit
        )
    if other is None or one is None:
        return one is other
    array, expected = np.asarray(one), np.asarray(other)
    if array.shape != expected.shape:
        return False
    if expected.dtype.kind in "OU":
        return bool((array.astype(str) == expected.astype(str)).all())
    error, allowed = compared(array, expected, tuple, unit)
    return error <= allowed
