"""Types of ONNX values: those of tensors of Relax, and all others."""

from collections.abc import Collection, Iterator

import numpy as np
import onnx
from onnx import TypeProto, helper

from collage_dsl.graph import TensorType
from collage_dsl.graph.arrays import Array
from collage_dsl.graph.sizes import UNKNOWN

_DTYPES = {
    helper.np_dtype_to_tensor_dtype(np.dtype(name)): name
    for name in (
        *("float16", "float32", "float64", "int8", "int16", "int32", "int64"),
        *("uint8", "uint16", "uint32", "uint64", "bool"),
    )
} | {onnx.TensorProto.BFLOAT16: "bfloat16"}
"""The types of elements that tensors of Relax have here. Values of others are objects."""

_ELEMENTS = {name: element for element, name in _DTYPES.items()}


def is_dtype(name: str) -> bool:
    """Whether tensors of Relax have this dtype here."""
    return name in _ELEMENTS


def is_foreign(array: Array) -> bool:
    """Whether a constant is no tensor of Relax: strings, or numbers of less than a byte."""
    return not is_dtype(array.dtype.name)


def dtype_of(type_: TypeProto) -> str:
    """The dtype of a tensor of Relax; empty for a value that is none."""
    return _DTYPES.get(type_.tensor_type.elem_type, "") if type_.HasField("tensor_type") else ""


def tensor_type(type_: TypeProto, symbols: Collection[str]) -> TensorType:
    """
    The type of a tensor of Relax. A dimension with a name, or a formula, that is not in `symbols`
    is not known; one that is not known makes all unknown.
    """
    dtype, tensor = dtype_of(type_), type_.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(dtype, None)
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
    is_known = all(isinstance(dim, int) or dim in symbols for dim in dims)
    return TensorType(dtype, tuple(dims) if is_known else (UNKNOWN,) * len(dims))


def sizes_in(type_: TypeProto) -> Iterator[str]:
    """The names and formulas that are dimensions of a tensor."""
    return filter(None, (dim.dim_param for dim in type_.tensor_type.shape.dim))


def onnx_type(type_: TensorType) -> TypeProto:
    dims = None
    if type_.shape is not None:
        dims = [None if dim == UNKNOWN else dim for dim in type_.shape]
    return helper.make_tensor_type_proto(_ELEMENTS[type_.dtype], dims)


def type_text(type_: TypeProto) -> str:
    """A type as messages have it: `tensor(string)`, `seq(tensor(float))`."""
    match type_.WhichOneof("value"):
        case "tensor_type":
            name = onnx.TensorProto.DataType.Name(type_.tensor_type.elem_type)
            return f"tensor({name.lower()})"
        case "sequence_type":
            return f"seq({type_text(type_.sequence_type.elem_type)})"
        case "optional_type":
            return f"optional({type_text(type_.optional_type.elem_type)})"
        case "map_type":
            return f"map({type_text(type_.map_type.value_type)})"
    return "object"


def type_named(text: str) -> TypeProto:
    """The type that `text` of onnxruntime names: `seq(tensor(float))`."""
    sort, _, rest = text.removesuffix(")").partition("(")
    match sort:
        case "tensor":
            return helper.make_tensor_type_proto(_ELEMENT_OF[rest], None)
        case "seq":
            return helper.make_sequence_type_proto(type_named(rest))
        case "optional":
            return helper.make_optional_type_proto(type_named(rest))
    return TypeProto()


_ELEMENT_OF = {name.lower(): number for name, number in onnx.TensorProto.DataType.items()}
