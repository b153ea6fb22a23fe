"""Refuse malformed ONNX models before anything of them is converted."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from math import prod

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from collage_dsl.frontend.errors import FrontendError
from collage_dsl.graph.arrays import Array
from collage_dsl.onnx_nodes import graphs_of, nodes_within

MOST_NODES = 1_000_000
"""The most nodes of a model, after its functions are inlined."""

MOST_BYTES = 1 << 40
"""The most bytes of a tensor. Larger sizes are mistakes, and their products overflow."""

MOST_DENSE = 1 << 27
"""The most elements of a sparse constant: 512 MiB of float32."""

_Key = tuple[str, str, str]
"""The domain, name and overload of a function."""


def check_functions(model: onnx.ModelProto) -> None:
    """Refuse functions that cannot be inlined, or that would become too many nodes."""
    functions = {(each.domain, each.name, each.overload): each for each in model.functions}
    if len(functions) != len(model.functions):
        raise FrontendError("two functions of the model have the same name")
    bodies = {key: each.node for key, each in functions.items()}
    for nodes in (model.graph.node, *bodies.values()):
        for node in nodes_within(nodes):
            _check_call(node, functions.get(called(node)))
    sizes: dict[_Key, int] = {}
    active: list[_Key] = []

    def size(key: _Key) -> int:
        if key not in bodies:
            return 1
        if key in active:
            raise FrontendError(f"the function `{key[1]}` of the model calls itself")
        if len(active) > _MOST_CALLS:
            raise FrontendError(f"more than {_MOST_CALLS} functions of the model call each other")
        if key not in sizes:
            active.append(key)
            sizes[key] = sum(size(called(node)) for node in nodes_within(bodies[key]))
            active.pop()
        return sizes[key]

    if sum(size(called(node)) for node in nodes_within(model.graph.node)) > MOST_NODES:
        raise FrontendError(f"the functions of the model become more than {MOST_NODES} nodes")


_MOST_CALLS = 200
"""The longest chain of functions that call each other."""


def _check_call(node: onnx.NodeProto, function: onnx.FunctionProto | None) -> None:
    if function is None:
        return
    counts = (("inputs", node.input, function.input), ("outputs", node.output, function.output))
    for sort, given, taken in counts:
        if len(given) > len(taken):
            raise FrontendError(
                f"the function `{function.name}` of the model has {len(taken)} {sort}, "
                f"a node gives it {len(given)}"
            )


def called(node: onnx.NodeProto) -> _Key:
    return node.domain, node.op_type, node.overload


def check_texts(model: onnx.ModelProto) -> None:
    """Refuse names that are not UTF-8, which protobuf gives as bytes."""
    if not all(isinstance(text, str) for text in _texts(model)):
        raise FrontendError("a name in the model is not UTF-8")


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    """The names of values and functions, and of operators with their domains and attributes."""
    yield from (each.domain for each in model.opset_import)
    yield from _texts_in(model.graph)
    for function in model.functions:
        yield from (function.domain, function.name, function.overload)
        yield from (*function.input, *function.output, *function.attribute)
        yield from (each.name for each in function.attribute_proto)
        yield from (each.domain for each in function.opset_import)
        yield from _texts_of(function.node)


def _texts_in(graph: onnx.GraphProto) -> Iterator[object]:
    for value in (*graph.input, *graph.output):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    yield from _texts_of(graph.node)


def _texts_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload)
        yield from (*node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
        for graph in graphs_of(node):
            yield from _texts_in(graph)


def check_names(graph: onnx.GraphProto) -> None:
    """Each value has one name, and one place where it comes from."""
    constants = [tensor.name for tensor in graph.initializer]
    constants += [tensor.values.name for tensor in graph.sparse_initializer]
    given = [value.name for value in graph.input]
    outputs = [value.name for value in graph.output]
    for sort, names in (("inputs", given), ("constants", constants), ("outputs", outputs)):
        if "" in names:
            raise FrontendError(f"one of the {sort} of the model has no name")
        if sort != "outputs" and (twice := _repeated(names)) is not None:
            raise FrontendError(f"two {sort} of the model are named `{twice}`")
    made = [name for node in graph.node for name in node.output if name]
    if (twice := _repeated([*made, *{*given, *constants}])) is not None:
        raise FrontendError(f"the value `{twice}` of the model is computed or given twice")


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def array_of_tensor(tensor: onnx.TensorProto, what: str) -> Array:
    """The values of `tensor`, which messages call `what`."""
    dims = list(tensor.dims)
    if min(dims, default=0) < 0:
        raise FrontendError(f"{what} has the shape {dims}")
    dtype = np_dtype(tensor.data_type, what)
    check_size(dims, dtype, what)
    try:
        return numpy_helper.to_array(tensor)
    except (KeyError, TypeError, ValueError) as error:
        raise FrontendError(f"the data of {what} are damaged: {error}") from None


def array_of_sparse(tensor: onnx.SparseTensorProto, what: str) -> Array:
    """The values of a sparse `tensor` as a whole array, with zeros (or empty texts) elsewhere."""
    dims, dtype = list(tensor.dims), np_dtype(tensor.values.data_type, what)
    if min(dims, default=0) < 0:
        raise FrontendError(f"{what} has the shape {dims}")
    if prod(dims) > MOST_DENSE:
        raise FrontendError(f"{what} is sparse and would have {prod(dims)} elements")
    values = array_of_tensor(tensor.values, f"the values of {what}")
    indices = array_of_tensor(tensor.indices, f"the indices of {what}")
    dense = np.full(dims, "", object) if dtype.kind == "O" else np.zeros(dims, dtype)
    if tensor.values.dims != [len(values)] or indices.dtype != np.int64:
        raise FrontendError(f"the data of {what} are damaged: its values have no indices")
    places = _places(indices, dims, len(values))
    if places is None or (np.diff(places) <= 0).any():
        raise FrontendError(f"the data of {what} are damaged: its indices are not in order")
    dense.reshape(-1)[places] = values
    return dense


def _places(indices: Array, dims: list[int], count: int) -> Array | None:
    """
    The numbers of the elements at `indices`, counted through all dimensions, which a tensor of one
    dimension has already. None if they are no elements of a tensor of this shape.
    """
    if indices.shape not in ((count,), (count, len(dims))):
        return None
    sizes = np.asarray(dims if indices.ndim == 2 else [prod(dims)], np.int64)
    each = indices.reshape(count, len(sizes))
    if ((each < 0) | (each >= sizes)).any():
        return None
    steps = [prod(sizes[axis + 1 :].tolist()) for axis in range(len(sizes))]
    return each @ np.asarray(steps, np.int64)


def np_dtype(element: int, what: str) -> np.dtype:
    """The dtype for a number of `TensorProto.DataType`."""
    if not _is_known(element):
        raise FrontendError(f"{what} has the unknown type of elements {element}")
    return np.dtype(helper.tensor_dtype_to_np_dtype(element))


def _is_known(element: int) -> bool:
    return element != TensorProto.UNDEFINED and element in TensorProto.DataType.values()


def check_size(dims: Iterable[object], dtype: np.dtype, what: str) -> None:
    """Refuse a tensor that no machine can have."""
    if fault := size_fault(dims, dtype):
        raise FrontendError(f"{what} {fault}")


def size_fault(dims: Iterable[object], dtype: np.dtype) -> str:
    """Why no machine can have such a tensor; empty if one can. Unknown dimensions count as 1."""
    known = [dim for dim in dims if isinstance(dim, int)]
    if 0 in known or prod(known) * dtype.itemsize <= MOST_BYTES:
        return ""
    return f"would be larger than {MOST_BYTES >> 40} TiB: {known}"


def problem_of(node: onnx.NodeProto, opset: int) -> str:
    """What is wrong with the node by the definition of its operator; empty if nothing is."""
    schema = schema_of(node.op_type, opset, node.domain)
    if schema is not None:
        return _problem_by(schema, node)
    # Some converters take operators of later sets in older ones, if they are as defined there.
    newest = schema_of(node.op_type, onnx.defs.onnx_opset_version(), node.domain)
    is_wrong = newest is not None and _problem_by(newest, node)
    return unknown_operator(node, opset) if is_wrong else ""


def _problem_by(schema: onnx.defs.OpSchema, node: onnx.NodeProto) -> str:
    if not schema.min_input <= len(node.input) <= schema.max_input:
        return f"{node.op_type} does not take {len(node.input)} inputs"
    if not any(node.output) or len(node.output) > schema.max_output:
        return f"{node.op_type} does not have {len(node.output)} outputs"
    for place, name in enumerate(node.input):
        operand = schema.inputs[min(place, len(schema.inputs) - 1)]  # the last may be repeated
        is_needed = operand.option != onnx.defs.OpSchema.FormalParameterOption.Optional
        if is_needed and not name:
            return f"the input `{operand.name}` of {node.op_type} is missing"
    return _problem_of_attributes(node, schema)


def _problem_of_attributes(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> str:
    names = [attribute.name for attribute in node.attribute]
    if (twice := _repeated(names)) is not None:
        return f"the attribute `{twice}` is given twice"
    for attribute in node.attribute:
        declared = schema.attributes.get(attribute.name)
        if declared is None and not attribute.name.startswith("__"):  # Those are internal.
            last = f"{node.op_type} of operator set {schema.since_version}"
            return f"{last} has no attribute `{attribute.name}`"
        if declared is not None and declared.type.value != attribute.type:
            wanted = AttributeProto.AttributeType.Name(declared.type.value)
            return f"the attribute `{attribute.name}` is not of the type {wanted}"
        if (element := _element_of(attribute)) is not None and not _is_known(element):
            return f"the attribute `{attribute.name}` has the unknown type of elements {element}"
    for name, declared in schema.attributes.items():
        if declared.required and name not in names:
            return f"the attribute `{name}` of {node.op_type} is missing"
    heads = [attribute.i for attribute in node.attribute if attribute.name in _HEADS]
    if schema.name == "Attention" and len(heads) == len(_HEADS) and min(heads) < 1:
        # The inference in onnxruntime divides by them, which ends the process. With four
        # dimensions, a node needs neither.
        return "the attributes `q_num_heads` and `kv_num_heads` of Attention are not both above 0"
    if schema.name in ("AveragePool", "MaxPool"):
        return _problem_of_padding({each.name: each for each in node.attribute})
    return ""


def _problem_of_padding(attributes: Mapping[str, AttributeProto]) -> str:
    """
    onnxruntime pads for windows without gaps before it pools. So the result has neither the size
    that ONNX says nor the one that onnxruntime itself infers.
    """
    given, kernel, gaps = map(attributes.get, ("auto_pad", "kernel_shape", "dilations"))
    if not (given and kernel and gaps and given.s.startswith(b"SAME")):
        return ""
    if not any(side > 1 and by > 1 for side, by in zip(kernel.ints, gaps.ints, strict=False)):
        return ""
    return f"onnxruntime does not pad by `{given.s.decode()}` with dilations: write `pads` instead"


_HEADS = frozenset({"q_num_heads", "kv_num_heads"})


def _element_of(attribute: AttributeProto) -> int | None:
    """The number of `TensorProto.DataType` in an attribute; None if it has none."""
    if attribute.type == AttributeProto.TENSOR:
        return attribute.t.data_type
    is_one = attribute.type == AttributeProto.INT and attribute.name in _ELEMENTS
    return attribute.i if is_one and attribute.i != TensorProto.UNDEFINED else None


_ELEMENTS = frozenset({"dtype", "output_dtype", "to"})
"""Attributes that are a type of elements."""


@cache
def schema_of(op: str, opset: int, domain: str) -> onnx.defs.OpSchema | None:
    """The definition of an operator; None where the package of ONNX has none."""
    try:
        return onnx.defs.get_schema(op, opset, "" if domain == "ai.onnx" else domain)
    except onnx.defs.SchemaError:
        return None


def unknown_operator(node: onnx.NodeProto, opset: int) -> str:
    """What is wrong with a node whose operator ONNX does not have in a set; empty if it has it."""
    domain = "" if node.domain == "ai.onnx" else node.domain
    if domain or schema_of(node.op_type, opset, domain) is not None:
        return ""
    said = f"ONNX has no operator {node.op_type} in operator set {opset}"
    newest = schema_of(node.op_type, onnx.defs.onnx_opset_version(), domain)
    if newest is not None and newest.since_version > opset:
        return f"{said}: it came with set {_first_set(node.op_type)}"
    return f"{said}: what wrote the model has not converted it"


def _first_set(op: str) -> int:
    """The operator set that a standard operator came with."""
    sets = range(1, onnx.defs.onnx_opset_version() + 1)
    return next(opset for opset in sets if schema_of(op, opset, "") is not None)
